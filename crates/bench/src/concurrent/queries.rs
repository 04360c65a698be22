//! What clients ask: TPC-H queries with the constants that the specification lets one choose (clause 2.4), drawn from a seed.

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
}

/// The queries of a dashboard.
const DASH: [usize; 6] = [1, 3, 5, 6, 12, 14];

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::input(format!("expected same, dash or template:qN (N of 1, 3, 5, 6, 12, 14), found '{text}'"));
        match text {
            "same" => Ok(Mix::Same),
            "dash" => Ok(Mix::Dash),
            _ => {
                let number = text.strip_prefix("template:q").and_then(|number| number.parse().ok());
                number.filter(|number| DASH.contains(number)).map(Mix::Template).ok_or_else(wrong)
            }
        }
    }
}

/// One client's endless list of statements.
pub struct Statements {
    mix: Mix,
    state: u64,
}

impl Statements {
    /// The list of client number `client`. Equal seeds give equal lists.
    pub fn new(mix: Mix, seed: u64, client: usize) -> Self {
        let mut statements = Self { mix, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((client as u64) << 32) };
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

    fn statement(&mut self, query: usize) -> String {
        let text = QUERIES[query - 1];
        let year = |statements: &mut Self| format!("{}-01-01", statements.between(1993, 1997));
        match query {
            1 => text.replace("'90'", &format!("'{}'", self.between(60, 120))),
            3 => {
                let segment = self.of(&["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]);
                let date = format!("1995-03-{:02}", self.between(1, 31));
                text.replace("BUILDING", segment).replace("1995-03-15", &date)
            }
            5 => {
                let region = self.of(&["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]);
                text.replace("ASIA", region).replace("1994-01-01", &year(self))
            }
            6 => {
                let text = text.replace("1994-01-01", &year(self));
                let text = text.replace("0.06", &format!("0.0{}", self.between(2, 9)));
                text.replace("< 24", &format!("< {}", self.between(24, 25)))
            }
            12 => {
                let modes = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
                let first = self.between(0, 6) as usize;
                let second = (first + self.between(1, 6) as usize) % 7;
                let chosen = format!("('{}', '{}')", modes[first], modes[second]);
                text.replace("('MAIL', 'SHIP')", &chosen).replace("1994-01-01", &year(self))
            }
            14 => {
                let month = format!("{}-{:02}-01", self.between(1993, 1997), self.between(1, 12));
                text.replace("1995-09-01", &month)
            }
            _ => text.to_owned(),
        }
    }
}

impl Iterator for Statements {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let query = match self.mix {
            Mix::Same => return Some(QUERIES[0].to_owned()),
            Mix::Template(query) => query,
            Mix::Dash => DASH[self.between(0, DASH.len() as u64 - 1) as usize],
        };
        Some(self.statement(query))
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
            let some = |seed, client| Statements::new(mix, seed, client).take(30).collect::<Vec<_>>();
            assert_eq!(some(1, 0), some(1, 0));
            assert!(some(1, 0) != some(2, 0) && some(1, 0) != some(1, 1));
            assert!(some(1, 0).into_iter().collect::<HashSet<_>>().len() > 10, "query {query}");
        }
        assert!("template:q2".parse::<Mix>().is_err());
    }
}
