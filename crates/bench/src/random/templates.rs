//! The grammar: statements over tables with foreign keys, drawn from a seed.
//!
//! A *template* is a statement with its constants left open, as a chart of a dashboard is: which tables are joined
//! along keys, one to four conditions, groups, aggregates, HAVING, an order, first rows, EXISTS and IN. Each statement
//! of it has other constants. Whatever is drawn has one right answer: rows that are cut off are put in an order by all
//! their columns, and sums are of exact numbers.

use std::fmt::Write;
use std::sync::Arc;

use arrow::temporal_conversions::date32_to_datetime;
use diligence_base::seams::Random;

use super::schema::{Domain, Field, ForeignKey, Relation, Tables};
use crate::mixes::Statement;

/// Different values that a group key has at most.
const KEY_VALUES_MAX: u64 = 200;

/// Parts of a range, in thousandths, that a condition keeps.
const SHARES: [usize; 5] = [5, 30, 100, 300, 600];

/// A statement with its constants left open.
#[derive(Debug)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Drawn(Drawn),
}

/// What is another constant each time.
#[derive(Debug)]
enum Drawn {
    Condition(Condition),
    /// A number from 1 to this.
    Count(u64),
}

/// A condition on a column, or on two.
#[derive(Debug)]
enum Condition {
    /// Such a part of the column's range, in thousandths.
    Range(String, Domain, usize),
    /// Below a constant, or above one.
    Half(String, Domain, &'static str),
    /// One of so many constants.
    Among(String, Domain, usize),
    /// Has a word, at its beginning or anywhere.
    Like(String, Vec<String>, bool),
    Not(Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
}

/// The templates of a seed.
pub struct Templates {
    templates: Vec<Template>,
}

impl Templates {
    /// So many templates. The same seed gives the same.
    pub fn new(tables: &Tables, seed: u64, count: usize) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { templates: (0..count).map(|_| Template::drawn(tables, &mut random)).collect() }
    }

    /// One of them, with constants.
    pub fn statement(&self, random: &mut Random) -> Statement {
        let template = random.below(self.templates.len());
        self.templates[template].statement(random)
    }

    /// One client's endless list of statements. Equal seeds give equal lists.
    pub fn statements(templates: Arc<Self>, seed: u64, client: usize) -> impl Iterator<Item = Statement> + use<> {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((client as u64) << 32));
        std::iter::from_fn(move || Some(templates.statement(&mut random)))
    }

    /// Each of them.
    pub fn all(&self) -> impl Iterator<Item = &Template> {
        self.templates.iter()
    }
}

/// A table in a FROM, and the name that it has there.
struct Joined<'a> {
    table: &'a Relation,
    alias: String,
}

impl Joined<'_> {
    fn of(&self, column: &Field) -> String {
        format!("{}.{}", self.alias, column.name)
    }
}

impl Template {
    /// With constants from `random`.
    pub fn statement(&self, random: &mut Random) -> Statement {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Drawn(Drawn::Condition(condition)) => condition.write(random, &mut text),
                Piece::Drawn(Drawn::Count(most)) => text.push_str(&random.between(1, *most).to_string()),
            }
        }
        Statement { template: text.clone(), text, values: Vec::new() }
    }

    fn drawn(tables: &Tables, random: &mut Random) -> Self {
        // Most questions are asked of what happened, the largest tables.
        let root = if random.chance(65) { 0 } else { random.below(tables.tables.len().min(4)) };
        let mut joined = vec![Joined { table: &tables.tables[root], alias: "t0".to_owned() }];
        let mut joins: Vec<(usize, &ForeignKey)> = Vec::new();
        for _ in 0..random.pick(&[0, 0, 1, 1, 1, 2, 2, 3]) {
            let is_new = |name: &str, joined: &[Joined<'_>]| joined.iter().all(|other| other.table.name != name);
            let ways = tables.keys.iter().filter(|key| is_new(&key.to, &joined)).filter_map(|key| {
                joined.iter().position(|other| other.table.name == key.from).map(|place| (place, key))
            });
            let ways: Vec<_> = ways.collect();
            if ways.is_empty() {
                break;
            }
            let (place, key) = random.pick(&ways);
            let Some(table) = tables.table(&key.to) else { break };
            joined.push(Joined { table, alias: format!("t{}", joined.len()) });
            joins.push((place, key));
        }
        let mut template = Self { pieces: Vec::new() };
        let is_list = random.chance(10);
        if is_list {
            template.list(&joined, &joins, tables, random)
        } else {
            template.groups(&joined, &joins, tables, random)
        }
        template
    }

    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn condition(&mut self, condition: Condition) {
        self.pieces.push(Piece::Drawn(Drawn::Condition(condition)));
    }

    /// The first rows in an order by all their columns.
    fn list(&mut self, joined: &[Joined<'_>], joins: &[(usize, &ForeignKey)], tables: &Tables, random: &mut Random) {
        let mut columns = Vec::new();
        for _ in 0..random.between(2, 5) {
            let (of, field) = any_field(joined, random, |_| true);
            let column = of.of(field);
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        self.text(&format!("SELECT {}", columns.join(", ")));
        self.from(joined, joins, tables, random);
        let order =
            (1..=columns.len()).map(|place| format!("{place}{} NULLS LAST", if place == 1 { " DESC" } else { "" }));
        let order = order.collect::<Vec<_>>().join(", ");
        self.text(&format!(" ORDER BY {order} LIMIT {}", random.pick(&[5, 10, 20, 100])));
    }

    /// Groups with aggregates.
    fn groups(&mut self, joined: &[Joined<'_>], joins: &[(usize, &ForeignKey)], tables: &Tables, random: &mut Random) {
        let mut keys: Vec<String> = Vec::new();
        for _ in 0..random.pick(&[0, 1, 1, 1, 2, 2, 3]) {
            let key = key(joined, random);
            keys.extend(key.into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
        }
        let mut outputs = keys.clone();
        for _ in 0..random.between(1, 4) {
            outputs.push(aggregate(joined, random));
        }
        let named = outputs.iter().enumerate().map(|(place, output)| format!("{output} AS c{place}"));
        self.text(&format!("SELECT {}", named.collect::<Vec<_>>().join(", ")));
        self.from(joined, joins, tables, random);
        if keys.is_empty() {
            return;
        }
        self.text(&format!(" GROUP BY {}", keys.join(", ")));
        if random.chance(15) {
            self.text(" HAVING count(*) > ");
            self.pieces.push(Piece::Drawn(Drawn::Count(100)));
        }
        let own = (0..keys.len()).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ");
        // An average is a decimal here and a float elsewhere, where equal ones may differ in their last digits: which
        // of them come first is not decided.
        let is_decided = !outputs[keys.len()].starts_with("avg(");
        if random.chance(25) && is_decided {
            let limit = random.pick(&[3, 10, 20]);
            self.text(&format!(" ORDER BY c{} DESC NULLS LAST, {own} LIMIT {limit}", keys.len()));
        } else {
            self.text(&format!(" ORDER BY {own}"));
        }
    }

    /// FROM and WHERE.
    fn from(&mut self, joined: &[Joined<'_>], joins: &[(usize, &ForeignKey)], tables: &Tables, random: &mut Random) {
        self.text(&format!(" FROM {} {}", joined[0].table.name, joined[0].alias));
        for (to, (from, key)) in joined[1..].iter().zip(joins) {
            let equal = key.columns.iter().zip(&key.to_columns);
            let equal = equal.map(|(own, other)| format!("{}.{own} = {}.{other}", joined[*from].alias, to.alias));
            let equal = equal.collect::<Vec<_>>().join(" AND ");
            self.text(&format!(" JOIN {} {} ON {equal}", to.table.name, to.alias));
        }
        let count = random.pick(&[1, 1, 2, 2, 2, 3, 4]);
        for number in 0..count {
            self.text(if number == 0 { " WHERE " } else { " AND " });
            match number {
                0 if random.chance(15) => self.subquery(joined, tables, random),
                _ => {
                    let condition = condition(joined, random, 0);
                    self.condition(condition);
                }
            }
        }
    }

    /// EXISTS of rows that refer to one of the tables, or IN of rows that it refers to.
    fn subquery(&mut self, joined: &[Joined<'_>], tables: &Tables, random: &mut Random) {
        let of = |name: &str| joined.iter().find(|other| other.table.name == name);
        let below = tables.keys.iter().filter_map(|key| Some((of(&key.to)?, key, true)));
        let above = tables.keys.iter().filter_map(|key| Some((of(&key.from)?, key, false)));
        let ways: Vec<_> = below.chain(above.filter(|(_, key, _)| key.columns.len() == 1)).collect();
        let mut chosen = None;
        if !ways.is_empty() {
            let place = random.below(ways.len());
            let (own, key, is_below) = &ways[place];
            let name = if *is_below { &key.from } else { &key.to };
            chosen = tables.table(name).map(|table| (*own, *key, *is_below, table));
        }
        let Some((own, key, is_below, table)) = chosen else {
            let condition = condition(joined, random, 0);
            return self.condition(condition);
        };
        let inner = [Joined { table, alias: "s0".to_owned() }];
        let not = if random.chance(30) { "NOT " } else { "" };
        if is_below {
            let equal = key.columns.iter().zip(&key.to_columns);
            let equal =
                equal.map(|(from, to)| format!("s0.{from} = {}.{to}", own.alias)).collect::<Vec<_>>().join(" AND ");
            self.text(&format!("{not}EXISTS (SELECT 1 FROM {} s0 WHERE {equal} AND ", table.name));
        } else {
            let (from, to) = (&key.columns[0], &key.to_columns[0]);
            self.text(&format!("{}.{from} {not}IN (SELECT s0.{to} FROM {} s0 WHERE ", own.alias, table.name));
        }
        let condition = condition(&inner, random, 0);
        self.condition(condition);
        self.text(")");
    }
}

/// A column of the tables that is `wanted`, and of which; any that is no key, if there is none.
fn any_field<'a, 'b>(
    joined: &'b [Joined<'a>],
    random: &mut Random,
    wanted: impl Fn(&Field) -> bool,
) -> (&'b Joined<'a>, &'a Field) {
    let fields = |is_wanted: &dyn Fn(&Field) -> bool| {
        let of = |of: &'b Joined<'a>| {
            let table: &'a Relation = of.table;
            table.columns.iter().map(move |field| (of, field))
        };
        joined.iter().flat_map(of).filter(|(_, field)| is_wanted(field)).collect::<Vec<_>>()
    };
    let mut found = fields(&|field| !field.is_key && wanted(field));
    if found.is_empty() {
        found = fields(&|field| !field.is_key);
    }
    if found.is_empty() {
        found = fields(&|_| true);
    }
    let place = random.below(found.len());
    found.swap_remove(place)
}

fn condition(joined: &[Joined<'_>], random: &mut Random, depth: usize) -> Condition {
    if depth == 0 && random.chance(8) {
        return Condition::Either(Box::new(condition(joined, random, 1)), Box::new(condition(joined, random, 1)));
    }
    if depth == 0 && random.chance(5) {
        return Condition::Not(Box::new(condition(joined, random, 1)));
    }
    let (of, field) = any_field(joined, random, |_| true);
    let (column, domain) = (of.of(field), field.domain.clone());
    match domain {
        Domain::Texts(words) => Condition::Like(column, words, random.chance(30)),
        Domain::Words(_) => Condition::Among(column, domain, random.pick(&[1, 1, 2, 3, 5])),
        Domain::Numbers { .. } if field.distinct <= KEY_VALUES_MAX && random.chance(40) => {
            Condition::Among(column, domain, random.pick(&[1, 2, 4]))
        }
        _ if random.chance(25) => Condition::Half(column, domain, random.pick(&["<", "<=", ">", ">="])),
        _ => Condition::Range(column, domain, random.pick(&SHARES)),
    }
}

impl Domain {
    /// A constant of it, so many thousandths of the way from the least to the greatest.
    fn at(&self, thousandth: usize, random: &mut Random) -> String {
        match self {
            Domain::Numbers { low, high, scale } => format!("{:.scale$}", low + (high - low) * thousandth as f64 / 1e3),
            Domain::Days { low, high } => {
                let day = *low + (i64::from(high - low) * thousandth as i64 / 1000) as i32;
                let day = date32_to_datetime(day).map(|moment| moment.date().to_string());
                format!("date '{}'", day.unwrap_or_default())
            }
            Domain::Words(words) | Domain::Texts(words) => {
                let word = if words.is_empty() { String::new() } else { random.pick(words) };
                format!("'{}'", word.replace('\'', "''"))
            }
        }
    }
}

impl Condition {
    fn write(&self, random: &mut Random, text: &mut String) {
        // What is written into a text is there.
        let _ = match self {
            Condition::Range(column, domain, share) => {
                let first = random.below(1001 - share);
                let (low, high) = (domain.at(first, random), domain.at(first + share, random));
                write!(text, "{column} >= {low} AND {column} <= {high}")
            }
            Condition::Half(column, domain, comparison) => {
                let constant = domain.at(random.below(1001), random);
                write!(text, "{column} {comparison} {constant}")
            }
            Condition::Among(column, domain, 1) => {
                let constant = domain.at(random.below(1001), random);
                write!(text, "{column} = {constant}")
            }
            Condition::Among(column, domain, count) => {
                let constants = (0..*count).map(|_| domain.at(random.below(1001), random));
                let constants = constants.collect::<Vec<_>>().join(", ");
                write!(text, "{column} IN ({constants})")
            }
            Condition::Like(column, words, is_prefix) => {
                let anywhere = if *is_prefix { "" } else { "%" };
                write!(text, "{column} LIKE '{anywhere}{}%'", random.pick(words))
            }
            Condition::Not(condition) => {
                text.push_str("NOT (");
                condition.write(random, text);
                write!(text, ")")
            }
            Condition::Either(one, other) => {
                text.push('(');
                one.write(random, text);
                text.push_str(" OR ");
                other.write(random, text);
                write!(text, ")")
            }
        };
    }
}

/// Expressions to group by.
fn key(joined: &[Joined<'_>], random: &mut Random) -> Vec<String> {
    let is_group = |field: &Field| match field.domain {
        Domain::Days { .. } => true,
        Domain::Words(_) => field.distinct <= KEY_VALUES_MAX,
        Domain::Numbers { .. } => field.distinct <= KEY_VALUES_MAX || random_less_often(field),
        Domain::Texts(_) => false,
    };
    let (of, field) = any_field(joined, random, is_group);
    let column = of.of(field);
    match &field.domain {
        Domain::Days { .. } if random.chance(50) => vec![format!("extract(year FROM {column})")],
        Domain::Days { .. } => {
            vec![format!("extract(year FROM {column})"), format!("extract(month FROM {column})")]
        }
        Domain::Numbers { low, high, scale } if field.distinct > KEY_VALUES_MAX || random.chance(20) => {
            let middle = format!("{:.scale$}", low + (high - low) * random.below(1000) as f64 / 1e3);
            vec![format!("CASE WHEN {column} < {middle} THEN 'less' ELSE 'more' END")]
        }
        _ => vec![column],
    }
}

/// Numbers of which there are many are grouped by whether they are small.
fn random_less_often(field: &Field) -> bool {
    field.distinct.is_multiple_of(3)
}

fn aggregate(joined: &[Joined<'_>], random: &mut Random) -> String {
    let is_number = |field: &Field| matches!(field.domain, Domain::Numbers { .. });
    let (of, field) = any_field(joined, random, is_number);
    let column = of.of(field);
    if !is_number(field) {
        return random.pick(&["count(*)".to_owned(), format!("min({column})"), format!("max({column})")]);
    }
    match random.below(12) {
        0 | 1 => "count(*)".to_owned(),
        2..=4 => format!("sum({column})"),
        5 => {
            let (other_of, other) = any_field(joined, random, is_number);
            if is_number(other) { format!("sum({column} * {})", other_of.of(other)) } else { format!("sum({column})") }
        }
        6 => format!("avg({column})"),
        7 => format!("min({column})"),
        8 => format!("max({column})"),
        9 => {
            let (other_of, other) = any_field(joined, random, |_| true);
            format!("max({})", other_of.of(other))
        }
        10 => {
            let (other_of, other) = any_field(joined, random, |field| field.distinct <= 100_000);
            format!("count(DISTINCT {})", other_of.of(other))
        }
        _ => {
            let mut text = String::new();
            condition(joined, random, 1).write(random, &mut text);
            if random.chance(50) {
                format!("count(*) FILTER (WHERE {text})")
            } else {
                format!("sum(CASE WHEN {text} THEN {column} ELSE 0 END)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn tables() -> Tables {
        let number = |name: &str, is_key| Field {
            name: name.to_owned(),
            domain: Domain::Numbers { low: 0.0, high: 100.0, scale: 2 },
            distinct: 50,
            is_key,
        };
        let words = Domain::Words(vec!["one's".to_owned(), "two".to_owned()]);
        let field = |name: &str, domain| Field { name: name.to_owned(), domain, distinct: 2, is_key: false };
        let sales = Relation {
            name: "sales".to_owned(),
            rows: 100,
            columns: vec![
                number("town_key", true),
                number("amount", false),
                field("day", Domain::Days { low: 0, high: 365 }),
                field("note", Domain::Texts(vec!["word".to_owned()])),
            ],
        };
        let towns =
            Relation { name: "towns".to_owned(), rows: 2, columns: vec![number("town", true), field("name", words)] };
        let keys = vec!["sales(town_key) -> towns(town)".parse().unwrap()];
        Tables { tables: vec![sales, towns], keys }
    }

    #[test]
    fn templates_come_from_the_seed_and_have_other_constants_each_time() {
        let tables = tables();
        let some = |seed| {
            let (templates, mut random) = (Templates::new(&tables, seed, 8), Random::new(1));
            (0..50).map(|_| templates.statement(&mut random).text).collect::<Vec<_>>()
        };
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        assert!(some(1).into_iter().collect::<HashSet<_>>().len() > 30);
    }

    #[test]
    fn the_grammar_has_all_that_it_says() {
        let (tables, mut random) = (tables(), Random::new(1));
        let mut all = String::new();
        for seed in 0..100 {
            Templates::new(&tables, seed, 8)
                .all()
                .for_each(|one| all.push_str(&(one.statement(&mut random).text + "\n")));
        }
        for part in [
            "JOIN towns",
            "EXISTS (",
            "NOT EXISTS (",
            " IN (SELECT",
            "LIKE '%word",
            "LIKE 'word",
            "HAVING",
            "LIMIT",
            " OR ",
        ]
        .into_iter()
        .chain([
            "count(DISTINCT",
            "FILTER (WHERE",
            "extract(month",
            "CASE WHEN",
            "'one''s'",
            "date '1970-",
            "NOT (",
        ]) {
            assert!(all.contains(part), "no {part} in\n{all}");
        }
    }
}
