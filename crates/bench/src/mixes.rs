//! What clients ask: TPC-H queries with the constants that the specification lets one choose (clause 2.4), drawn from a seed; and
//! short questions as an application has them.

use std::fmt;
use std::str::FromStr;

use diligence_base::Error;
use diligence_tpch::QUERIES;

/// Which queries a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Query 1 with the same constants, always.
    Same,
    /// One query with other constants each time.
    Template(usize),
    /// Queries 1, 3, 5, 6, 12 and 14, with other constants each time: a dashboard.
    Dash,
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

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::input(format!(
                "expected same, dash, lookup, one or template:qN (N of 1, 3, 5, 6, 12, 14), found '{text}'"
            ))
        };
        match text {
            "same" => Ok(Mix::Same),
            "dash" => Ok(Mix::Dash),
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

/// One client's endless list of statements.
pub struct Statements {
    mix: Mix,
    /// Orders that there are.
    orders: u64,
    state: u64,
}

impl Statements {
    /// The list of client number `client`, for TPC-H data of a scale factor. Equal seeds give equal lists.
    pub fn new(mix: Mix, scale_factor: f64, seed: u64, client: usize) -> Self {
        let orders = (scale_factor * 1_500_000.0).max(1.0) as u64;
        let mut statements =
            Self { mix, orders, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((client as u64) << 32) };
        statements.random();
        statements
    }

    /// A random number (SplitMix64; Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random() % (high - low + 1)
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.between(0, words.len() as u64 - 1) as usize]
    }

    fn query(&mut self, query: usize) -> Statement {
        let year = |statements: &mut Self| format!("{}-01-01", statements.between(1993, 1997));
        let constants = match query {
            1 => {
                let days = self.between(60, 120);
                vec![Constant {
                    written: "date '1998-12-01' - interval '90' day",
                    text: format!("date '1998-12-01' - interval '{days}' day"),
                    kind: "date",
                    value: days_before_december(days),
                }]
            }
            3 => {
                let segment = self.of(&["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]);
                let date = format!("1995-03-{:02}", self.between(1, 31));
                vec![Constant::word("'BUILDING'", segment), Constant::date("date '1995-03-15'", date)]
            }
            5 => {
                let region = self.of(&["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]);
                vec![Constant::word("'ASIA'", region), Constant::date("date '1994-01-01'", year(self))]
            }
            6 => {
                let date = Constant::date("date '1994-01-01'", year(self));
                let discount = format!("0.0{}", self.between(2, 9));
                let quantity = self.between(24, 25).to_string();
                vec![
                    date,
                    Constant::number("0.06", discount, "decimal(3, 2)"),
                    Constant::number("24", quantity, "integer"),
                ]
            }
            12 => {
                let modes = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
                let first = self.between(0, 6) as usize;
                let second = (first + self.between(1, 6) as usize) % 7;
                let both = format!("('{}', '{}')", modes[first], modes[second]);
                let date = Constant::date("date '1994-01-01'", year(self));
                let text = QUERIES[query - 1].replace("('MAIL', 'SHIP')", &both).replace(date.written, &date.text);
                let template = QUERIES[query - 1]
                    .replace("('MAIL', 'SHIP')", "($1::text, $2::text)")
                    .replace(date.written, "$3::date");
                let values = vec![modes[first].to_owned(), modes[second].to_owned(), date.value];
                return Statement { text, template, values };
            }
            _ => {
                let month = format!("{}-{:02}-01", self.between(1993, 1997), self.between(1, 12));
                vec![Constant::date("date '1995-09-01'", month)]
            }
        };
        statement(QUERIES[query - 1], constants)
    }

    fn lookup(&mut self) -> Statement {
        if self.between(0, 3) == 0 {
            let region = self.between(0, 4).to_string();
            return statement(SUPPLIERS, vec![Constant::number(":region", region, "bigint")]);
        }
        let order = self.between(0, self.orders - 1);
        let key = (order / 8 * 32 + order % 8 + 1).to_string();
        statement(ORDER, vec![Constant::number(":key", key, "bigint")])
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
        let query = match self.mix {
            Mix::Same => return Some(statement(QUERIES[0], Vec::new())),
            Mix::One => return Some(statement("SELECT 1", Vec::new())),
            Mix::Lookup => return Some(self.lookup()),
            Mix::Template(query) => query,
            Mix::Dash => DASH[self.between(0, DASH.len() as u64 - 1) as usize],
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
