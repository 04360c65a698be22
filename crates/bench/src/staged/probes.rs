//! The index probe of section 4.1.2 on today's caches: 10 queries that each look for one row of another table by its
//! key, in three orders.
//!
//! *One by one*: each probe from its beginning to its end, the tables in turn. *In steps*: an array of packets, as in
//! the paper's second approach: one step of the probe for all ten, then the next; the steps are giving the plan its
//! values and running it. *By table*: the same probes, all of one table before those of the next, so that data is
//! common as well as code. The orders take turns, and a round of each has the same probes and the same answers.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, Int32Type};
use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use diligence_db::{Database, GenericPlan, PlannedStatement, Session, Short};
use serde_json::{Value, json};

use crate::report::{median, print_table, quantile};

/// What the paper has: tables, rows of each, integers in a row.
const TABLES: usize = 10;
const ROWS: usize = 100_000;
const INTEGERS: usize = 25;

/// Probes of each table in a round.
const PROBES: usize = 200;

/// What the paper measured on a Pentium III, with a third of the probe's code in steps.
const PAPER: &str = "paper, in steps: 1.19 x as fast, 25.3 % fewer misses of the instruction cache";

/// The order of the probes of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    OneByOne,
    InSteps,
    ByTable,
}

const ORDERS: [Order; 3] = [Order::OneByOne, Order::InSteps, Order::ByTable];

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::OneByOne => "one by one",
            Order::InSteps => "in steps",
            Order::ByTable => "by table",
        }
    }
}

/// The tables, and a plan for each that finds a row.
struct Probes {
    session: Session,
    plans: Vec<Arc<GenericPlan>>,
    rows: usize,
}

impl Probes {
    fn new(tables: usize, rows: usize) -> Result<Self> {
        let session = Database::in_memory()?.session();
        let mut plans = Vec::new();
        for table in 0..tables {
            let columns: String = (1..INTEGERS).map(|column| format!(", c{column} INT")).collect();
            let values: String = (2..INTEGERS).map(|column| format!(", i + {column}")).collect();
            session.execute(&format!("CREATE TABLE probed_{table} (k INT PRIMARY KEY{columns})"))?.collect()?;
            // Keys in no order: the factor is a prime that divides no number of rows asked for here.
            session
                .execute(&format!(
                    "INSERT INTO probed_{table} SELECT (i * 7919) % {rows}, (i * 7919) % {rows} + {table}{values} \
                     FROM generate_series(0, {}) AS s(i)",
                    rows - 1
                ))?
                .collect()?;
            let parsed = session.parse(&format!("SELECT * FROM probed_{table} WHERE k = $1"))?;
            let plan = session.plan_generic(&parsed, &[DataType::Int32])?;
            plans.push(plan.ok_or_else(|| Error::bug("a probe has no generic plan"))?);
        }
        Ok(Self { session, plans, rows })
    }

    /// Keys for so many probes of each table, one table after the other.
    fn draw(&self, each: usize, random: &mut Random) -> Vec<Vec<ArrayRef>> {
        let key = |random: &mut Random| Arc::new(Int32Array::from(vec![random.below(self.rows) as i32])) as ArrayRef;
        self.plans.iter().map(|_| (0..each).map(|_| key(random)).collect()).collect()
    }

    fn bind(&self, table: usize, key: &ArrayRef) -> Result<PlannedStatement> {
        let planned = self.plans[table].with(std::slice::from_ref(key), &self.session)?;
        planned.ok_or_else(|| Error::bug("a probe's plan is out of date although nothing has changed"))
    }

    /// What it found, as a number that depends on the key and on the table.
    fn find(&self, planned: PlannedStatement) -> Result<i64> {
        let Short::Done(result) = self.session.run_short(planned)? else {
            return Err(Error::bug("a probe does not take the short path"));
        };
        let batches = result.collect()?;
        let found = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int32Type>().values());
        Ok(found.map(|value| i64::from(*value)).sum())
    }

    /// All probes in this order, and the sum of what they found.
    fn round(&self, order: Order, keys: &[Vec<ArrayRef>]) -> Result<i64> {
        let each = keys.first().map_or(0, Vec::len);
        let tables = 0..self.plans.len();
        let mut sum = 0;
        match order {
            Order::OneByOne => {
                for probe in 0..each {
                    for table in tables.clone() {
                        sum += self.find(self.bind(table, &keys[table][probe])?)?;
                    }
                }
            }
            Order::InSteps => {
                let mut bound = Vec::with_capacity(self.plans.len());
                for probe in 0..each {
                    for table in tables.clone() {
                        bound.push(self.bind(table, &keys[table][probe])?);
                    }
                    for planned in bound.drain(..) {
                        sum += self.find(planned)?;
                    }
                }
            }
            Order::ByTable => {
                for table in tables {
                    for key in &keys[table] {
                        sum += self.find(self.bind(table, key)?)?;
                    }
                }
            }
        }
        Ok(sum)
    }
}

/// Runs so many rounds of each order and prints the table.
pub fn run(rounds: u32, seed: u64) -> Result<Value> {
    let probes = Probes::new(TABLES, ROWS)?;
    let mut random = Random::new(seed);
    let mut times_us = vec![Vec::new(); ORDERS.len()];
    let mut ratios = vec![Vec::new(); ORDERS.len()];
    let mut disagreements = Vec::new();
    // The first round warms up.
    for round in 0..=rounds as usize {
        let keys = probes.draw(PROBES, &mut random);
        let mut found = vec![(0, 0.0); ORDERS.len()];
        for turn in 0..ORDERS.len() {
            // Each is the first as often as the others.
            let place = (turn + round) % ORDERS.len();
            let start = Instant::now();
            let sum = probes.round(ORDERS[place], &keys)?;
            found[place] = (sum, start.elapsed().as_secs_f64() * 1e6 / (TABLES * PROBES) as f64);
        }
        if found.iter().any(|(sum, _)| *sum != found[0].0) {
            disagreements.push(format!("round {round}"));
        }
        for (place, (_, us)) in found.iter().enumerate().filter(|_| round > 0) {
            times_us[place].push(*us);
            ratios[place].push(found[0].1 / us);
        }
    }
    println!();
    println!(
        "Index probes: {TABLES} tables of {ROWS} rows of {INTEGERS} integers, {PROBES} probes of each in a round, medians of \
         {rounds} rounds"
    );
    let header = ["order", "us/probe", "one by one / this", "quartiles"].map(str::to_owned);
    let rows: Vec<Vec<String>> = ORDERS
        .iter()
        .enumerate()
        .map(|(place, order)| {
            let quartiles = [0.25, 0.75].map(|share| quantile(&ratios[place], share));
            vec![
                order.name().to_owned(),
                format!("{:.2}", median(&times_us[place])),
                format!("{:.3}", median(&ratios[place])),
                format!("{:.3} to {:.3}", quartiles[0], quartiles[1]),
            ]
        })
        .collect();
    print_table(&header, &rows);
    println!("{PAPER}");
    let all = ORDERS.iter().enumerate().map(|(place, order)| {
        json!({"order": order.name(), "us": median(&times_us[place]), "speedup": median(&ratios[place])})
    });
    Ok(json!({"orders": all.collect::<Vec<_>>(), "disagreements": disagreements}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_finds_the_same_rows() {
        let probes = Probes::new(3, 100).unwrap();
        let keys = probes.draw(20, &mut Random::new(4));
        let expected: i64 = keys
            .iter()
            .enumerate()
            .flat_map(|(table, keys)| {
                keys.iter().map(move |key| i64::from(key.as_primitive::<Int32Type>().value(0)) + table as i64)
            })
            .sum();
        for order in ORDERS {
            assert_eq!(probes.round(order, &keys).unwrap(), expected, "{order:?}");
        }
    }
}
