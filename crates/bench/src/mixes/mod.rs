//! What clients ask: TPC-H queries with the constants that the specification lets one choose (clause 2.4), drawn from a
//! seed; and short questions as an application has them.

mod adhoc;

use std::fmt;
use std::str::FromStr;

use diligence_base::Error;
use diligence_base::seams::Random;
use diligence_tpch::QUERIES;

use self::adhoc::{CONTAINERS, MODES, REGIONS, SEGMENTS, SIZES_OF_CONTAINER};

/// Which queries a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Query 1 with the same constants, always.
    Same,
    /// One query with other constants each time.
    Template(usize),
    /// Queries 1, 3, 5, 6, 12 and 14, with other constants each time: a dashboard.
    Dash,
    /// All 22 queries, each with other constants each time.
    Adhoc,
    /// The dearest orders of some days and a segment, and how many different parts each kind of shipment had in some
    /// days: lists, and groups that cannot be put together from parts.
    Lists,
    /// How many different customers and suppliers, and which median, each nation had in some days, and each brand in a
    /// kind of container: groups that cannot be put together from parts, above joins of large tables.
    Joins,
    /// Sums over numbers that nobody else asks for: queries that share nothing but the machine.
    Disjoint,
    /// Groups of the lines of a hundredth of all orders, anywhere, by an expression of their own: queries of one table
    /// that have next to nothing in common.
    Apart,
    /// Single orders by their key, and the suppliers of a region by nation: an application.
    Lookup,
    /// `SELECT 1`: what a statement costs that asks for nothing.
    One,
}

/// The queries of a dashboard.
const DASH: [usize; 6] = [1, 3, 5, 6, 12, 14];

/// One order; TPC-H uses 8 of every 32 keys (clause 4.2.3).
const ORDER: &str = "select o_orderstatus, o_totalprice, o_orderdate from orders where o_orderkey = :key";

/// A small table joined with a smaller one.
const SUPPLIERS: &str = "select n_name, count(*) from supplier, nation where s_nationkey = n_nationkey and n_regionkey = :region \
                         group by n_name order by n_name";

/// A page of a list.
const DEAREST: &str = "select o_orderkey, o_orderdate, o_totalprice, c_name from orders, customer where o_custkey = c_custkey \
                       and c_mktsegment = ':segment' and o_orderdate >= date ':first' and o_orderdate < date ':last' \
                       order by o_totalprice desc, o_orderkey limit 20";

/// Groups of different values.
const DIFFERENT: &str = "select l_shipmode, count(distinct l_partkey), count(distinct l_suppkey) from lineitem \
                         where l_shipdate >= date ':first' and l_shipdate < date ':last' group by l_shipmode order by l_shipmode";

/// Groups of different values and medians of what three joins give.
const CUSTOMERS: &str = "select n_name, count(distinct c_custkey), count(distinct l_suppkey), median(l_extendedprice) \
                         from lineitem, orders, customer, nation where l_orderkey = o_orderkey and o_custkey = c_custkey \
                         and c_nationkey = n_nationkey and o_orderdate >= date ':first' and o_orderdate < date ':last' \
                         group by n_name order by n_name";

/// The same of one join, whose smaller side has the constants.
const BRANDS: &str = "select p_brand, count(distinct l_suppkey), count(distinct l_orderkey), median(l_quantity) from lineitem, part \
                      where l_partkey = p_partkey and p_container = ':container' and p_size between :least and :most \
                      group by p_brand order by p_brand";

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::input(format!(
                "expected same, dash, adhoc, lists, joins, disjoint, apart, lookup, one or template:qN (N of 1, 3, 5, 6, 12, 14), found '{text}'"
            ))
        };
        match text {
            "same" => Ok(Mix::Same),
            "dash" => Ok(Mix::Dash),
            "adhoc" => Ok(Mix::Adhoc),
            "lists" => Ok(Mix::Lists),
            "joins" => Ok(Mix::Joins),
            "disjoint" => Ok(Mix::Disjoint),
            "apart" => Ok(Mix::Apart),
            "lookup" => Ok(Mix::Lookup),
            "one" => Ok(Mix::One),
            _ => {
                let number = text.strip_prefix("template:q").and_then(|number| number.parse().ok());
                number.filter(|number| DASH.contains(number)).map(Mix::Template).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mix::Same => f.write_str("same"),
            Mix::Template(query) => write!(f, "template:q{query}"),
            Mix::Dash => f.write_str("dash"),
            Mix::Adhoc => f.write_str("adhoc"),
            Mix::Lists => f.write_str("lists"),
            Mix::Joins => f.write_str("joins"),
            Mix::Disjoint => f.write_str("disjoint"),
            Mix::Apart => f.write_str("apart"),
            Mix::Lookup => f.write_str("lookup"),
            Mix::One => f.write_str("one"),
        }
    }
}

/// A query with its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// With the constants in the text.
    pub text: String,
    /// What it is an instance of: the same for all of one template.
    pub template: String,
    /// The constants, for the template's parameters `$1`, `$2`, …
    pub values: Vec<String>,
}

/// A constant of a query's text, and another in its place.
struct Constant {
    /// As the query has it.
    written: &'static str,
    /// As this statement has it.
    text: String,
    /// The type of the parameter.
    kind: &'static str,
    value: String,
}

impl Constant {
    fn date(written: &'static str, day: String) -> Self {
        Self { written, text: format!("date '{day}'"), kind: "date", value: day }
    }

    fn word(written: &'static str, word: &str) -> Self {
        Self { written, text: format!("'{word}'"), kind: "text", value: word.to_owned() }
    }

    fn number(written: &'static str, number: String, kind: &'static str) -> Self {
        Self { written, text: number.clone(), kind, value: number }
    }
}

/// Puts the constants into a query.
fn statement(query: &str, constants: Vec<Constant>) -> Statement {
    let (mut text, mut template) = (query.to_owned(), query.to_owned());
    for (position, constant) in constants.iter().enumerate() {
        debug_assert!(text.contains(constant.written), "{} is not in {query}", constant.written);
        text = text.replace(constant.written, &constant.text);
        let parameter = format!("${}::{}", position + 1, constant.kind);
        template = template.replace(constant.written, &parameter);
    }
    Statement { text, template, values: constants.into_iter().map(|constant| constant.value).collect() }
}

/// `count` different numbers below `bound`.
fn distinct(random: &mut Random, count: usize, bound: usize) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let number = random.below(bound);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// The first day of a year from 1993 to 1997.
fn year(random: &mut Random) -> String {
    format!("{}-01-01", random.between(1993, 1997))
}

/// One client's endless list of statements.
pub struct Statements {
    mix: Mix,
    scale_factor: f64,
    client: usize,
    /// Statements so far.
    made: u64,
    random: Random,
}

impl Statements {
    /// The list of client number `client`, for TPC-H data of a scale factor. Equal seeds give equal lists.
    pub fn new(mix: Mix, scale_factor: f64, seed: u64, client: usize) -> Self {
        let random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((client as u64) << 32));
        Self { mix, scale_factor, client, made: 0, random }
    }

    fn query(&mut self, query: usize) -> Statement {
        let random = &mut self.random;
        let constants = match query {
            1 => {
                let days = random.between(60, 120);
                vec![Constant {
                    written: "date '1998-12-01' - interval '90' day",
                    text: format!("date '1998-12-01' - interval '{days}' day"),
                    kind: "date",
                    value: days_before_december(days),
                }]
            }
            3 => {
                let segment = random.pick(&SEGMENTS);
                let date = format!("1995-03-{:02}", random.between(1, 31));
                vec![Constant::word("'BUILDING'", segment), Constant::date("date '1995-03-15'", date)]
            }
            5 => {
                let region = random.pick(&REGIONS);
                vec![Constant::word("'ASIA'", region), Constant::date("date '1994-01-01'", year(random))]
            }
            6 => {
                let date = Constant::date("date '1994-01-01'", year(random));
                let discount = format!("0.0{}", random.between(2, 9));
                let quantity = random.between(24, 25).to_string();
                vec![
                    date,
                    Constant::number("0.06", discount, "decimal(3, 2)"),
                    Constant::number("24", quantity, "integer"),
                ]
            }
            12 => {
                let two = distinct(random, 2, MODES.len());
                let (first, second) = (MODES[two[0]], MODES[two[1]]);
                let both = format!("('{first}', '{second}')");
                let date = Constant::date("date '1994-01-01'", year(random));
                let text = QUERIES[query - 1].replace("('MAIL', 'SHIP')", &both).replace(date.written, &date.text);
                let template = QUERIES[query - 1]
                    .replace("('MAIL', 'SHIP')", "($1::text, $2::text)")
                    .replace(date.written, "$3::date");
                let values = vec![first.to_owned(), second.to_owned(), date.value];
                return Statement { text, template, values };
            }
            _ => {
                let month = format!("{}-{:02}-01", random.between(1993, 1997), random.between(1, 12));
                vec![Constant::date("date '1995-09-01'", month)]
            }
        };
        statement(QUERIES[query - 1], constants)
    }

    fn lookup(&mut self) -> Statement {
        let random = &mut self.random;
        if random.between(0, 3) == 0 {
            let region = random.between(0, 4).to_string();
            return statement(SUPPLIERS, vec![Constant::number(":region", region, "bigint")]);
        }
        let order = random.between(0, (self.scale_factor * 1_500_000.0).max(1.0) as u64 - 1);
        let key = (order / 8 * 32 + order % 8 + 1).to_string();
        statement(ORDER, vec![Constant::number(":key", key, "bigint")])
    }

    /// What happened in a few days.
    fn list(&mut self) -> Statement {
        let random = &mut self.random;
        let (year, month, day) = (random.between(1993, 1997), random.between(1, 12), random.between(1, 24));
        let is_page = random.below(2) == 0;
        let days = if is_page { 4 } else { 2 };
        let text = if is_page { DEAREST.replace(":segment", random.pick(&SEGMENTS)) } else { DIFFERENT.to_owned() };
        let text = text
            .replace(":first", &format!("{year}-{month:02}-{day:02}"))
            .replace(":last", &format!("{year}-{month:02}-{:02}", day + days));
        Statement { template: text.clone(), text, values: Vec::new() }
    }

    /// What happened in a few days, or to a few parts.
    fn joins(&mut self) -> Statement {
        let random = &mut self.random;
        let text = if random.below(2) == 0 {
            let (year, month, day) = (random.between(1993, 1997), random.between(1, 12), random.between(1, 24));
            CUSTOMERS
                .replace(":first", &format!("{year}-{month:02}-{day:02}"))
                .replace(":last", &format!("{year}-{month:02}-{:02}", day + 4))
        } else {
            let least = random.between(1, 46);
            let container = format!("{} {}", random.pick(&SIZES_OF_CONTAINER), random.pick(&CONTAINERS));
            BRANDS
                .replace(":container", &container)
                .replace(":least", &least.to_string())
                .replace(":most", &(least + 4).to_string())
        };
        Statement { template: text.clone(), text, values: Vec::new() }
    }

    /// Groups of a million numbers that no other statement asks for.
    fn disjoint(&mut self) -> Statement {
        let first = 1 + (self.client as u64 * 1_000_000 + self.made % 1_000_000) * 1_000;
        let (last, left_out) = (first + 999_999, self.random.between(0, 6));
        let text = format!(
            "select x % 97 as g, count(*), sum(x % 1013), max(x) from generate_series({first}::bigint, {last}) as t(x) \
             where x % 7 <> {left_out} group by x % 97 order by g"
        );
        Statement { template: text.clone(), text, values: Vec::new() }
    }

    /// Groups of the lines of some orders in a row, by an expression that no other statement has.
    fn apart(&mut self) -> Statement {
        let keys = (self.scale_factor * 6_000_000.0).max(100.0) as u64;
        let (first, own) = (self.random.between(0, keys - keys / 100), self.client as u64 * 1_000_000 + self.made);
        let last = first + keys / 100;
        let text = format!(
            "select (l_suppkey + {own}) % 97 as g, count(*), sum(l_extendedprice), max(l_partkey) from lineitem \
             where l_orderkey between {first} and {last} group by (l_suppkey + {own}) % 97 order by g"
        );
        Statement { template: text.clone(), text, values: Vec::new() }
    }
}

/// The day so many days before the 1st of December 1998: from 60 to 120, which are in August, September and October.
fn days_before_december(days: u64) -> String {
    let months = [(12, 1), (11, 30), (10, 31), (9, 30), (8, 31)];
    let mut left = days;
    for pair in months.windows(2) {
        let (month, length) = pair[1];
        if left <= length {
            return format!("1998-{month:02}-{:02}", length - left + 1);
        }
        left -= length;
    }
    "1998-08-01".to_owned()
}

impl Iterator for Statements {
    type Item = Statement;

    fn next(&mut self) -> Option<Statement> {
        self.made += 1;
        let query = match self.mix {
            Mix::Same => return Some(statement(QUERIES[0], Vec::new())),
            Mix::One => return Some(statement("SELECT 1", Vec::new())),
            Mix::Lookup => return Some(self.lookup()),
            Mix::Template(query) => query,
            Mix::Dash => DASH[self.random.below(DASH.len())],
            Mix::Disjoint => return Some(self.disjoint()),
            Mix::Apart => return Some(self.apart()),
            Mix::Lists => return Some(self.list()),
            Mix::Joins => return Some(self.joins()),
            Mix::Adhoc => {
                let number = 1 + self.random.below(QUERIES.len());
                let text = adhoc::query(number, self.scale_factor, &mut self.random);
                return Some(Statement { template: text.clone(), text, values: Vec::new() });
            }
        };
        Some(self.query(query))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn constants_vary_and_come_from_the_seed() {
        for query in DASH {
            let mix = format!("template:q{query}").parse().unwrap();
            let some = |seed, client| Statements::new(mix, 1.0, seed, client).take(30).collect::<Vec<_>>();
            assert_eq!(some(1, 0), some(1, 0));
            assert!(some(1, 0) != some(2, 0) && some(1, 0) != some(1, 1));
            let texts: HashSet<_> = some(1, 0).into_iter().map(|statement| statement.text).collect();
            assert!(texts.len() > 10, "query {query}");
        }
        assert!("template:q2".parse::<Mix>().is_err());
    }

    #[test]
    fn a_template_with_its_values_is_the_text() {
        for mix in [Mix::Dash, Mix::Lookup] {
            for made in Statements::new(mix, 1.0, 3, 0).take(100) {
                let mut text = made.template.clone();
                for (position, value) in made.values.iter().enumerate().rev() {
                    let parameter = format!("${}::", position + 1);
                    assert!(text.contains(&parameter), "{text}");
                    text = text.replace(&format!("{parameter}date"), &format!("date '{value}'"));
                    text = text.replace(&format!("{parameter}text"), &format!("'{value}'"));
                    for kind in ["integer", "bigint", "decimal(3, 2)"] {
                        text = text.replace(&format!("{parameter}{kind}"), value);
                    }
                }
                // Query 1 has a difference of dates where its template has a date.
                assert!(text == made.text || made.text.contains("- interval"), "{text}\n{}", made.text);
            }
        }
    }

    #[test]
    fn days_are_counted_back_over_months() {
        assert_eq!(days_before_december(60), "1998-10-02");
        assert_eq!(days_before_december(61), "1998-10-01");
        assert_eq!(days_before_december(90), "1998-09-02");
        assert_eq!(days_before_december(92), "1998-08-31");
        assert_eq!(days_before_december(120), "1998-08-03");
    }
}
