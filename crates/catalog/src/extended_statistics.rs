//! CREATE STATISTICS: which columns and expressions of a table are looked at together.

use diligence_base::{Error, Result};
use diligence_types::quoted_name;

use crate::parts::{shielded, unshielded};

/// Between the parts of a text, and between those of a part.
const BETWEEN: &str = "\u{11}";
const WITHIN: &str = "\u{12}";

/// The kinds that are there, by the letters of `pg_statistic_ext`.
pub const STATISTICS_KINDS: [(char, &str); 3] = [('d', "ndistinct"), ('f', "dependencies"), ('m', "mcv")];

/// A statistics object of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedStatistics {
    /// Its name.
    pub name: String,
    /// Its schema; `None` for that of its table.
    pub schema: Option<String>,
    /// The letters of its kinds; `e` if it has expressions.
    pub kinds: String,
    /// The columns' names, in the order of the table.
    pub columns: Vec<String>,
    /// The texts of expressions.
    pub expressions: Vec<String>,
    /// How many values ANALYZE is to look for; `None` if nobody said so.
    pub target: Option<i32>,
}

impl ExtendedStatistics {
    /// Whether it is of a column; `is_in` says whether the column is in an expression.
    pub fn uses(&self, column: &str, is_in: impl Fn(&str) -> bool) -> bool {
        self.columns.iter().any(|own| own == column) || self.expressions.iter().any(|expression| is_in(expression))
    }

    /// Its columns and expressions, as a statement lists them.
    pub fn listed(&self) -> String {
        let columns = self.columns.iter().map(|column| quoted_name(column).to_string());
        columns.chain(self.expressions.iter().cloned()).collect::<Vec<_>>().join(", ")
    }

    /// The statement that makes it, of a table as it is called there.
    pub fn definition(&self, schema: &str, table: &str) -> String {
        let chosen = STATISTICS_KINDS.iter().filter(|(letter, _)| self.kinds.contains(*letter));
        let chosen = chosen.map(|(_, name)| *name).collect::<Vec<_>>();
        let is_alone = self.columns.len() + self.expressions.len() == 1;
        let kinds = match is_alone || chosen.len() == STATISTICS_KINDS.len() {
            true => String::new(),
            false => format!(" ({})", chosen.join(", ")),
        };
        let (schema, name) = (quoted_name(schema), quoted_name(&self.name));
        format!("CREATE STATISTICS {schema}.{name}{kinds} ON {} FROM {table}", self.listed())
    }

    /// As a text, which a log keeps.
    pub fn encoded(&self) -> String {
        let target = self.target.map(|target| target.to_string()).unwrap_or_default();
        let within = |parts: &[String]| parts.iter().map(|part| shielded(part) + WITHIN).collect::<String>();
        let schema = self.schema.as_deref().map(shielded).unwrap_or_default();
        let (columns, expressions) = (within(&self.columns), within(&self.expressions));
        [shielded(&self.name), schema, self.kinds.clone(), columns, expressions, target].join(BETWEEN)
    }

    /// What a text says. Fails with kind `File` if it says nothing of this kind.
    pub fn decoded(text: &str) -> Result<Self> {
        let parts = text.split(BETWEEN).collect::<Vec<_>>();
        let [name, schema, kinds, columns, expressions, target] = parts.as_slice() else {
            return Err(Error::file("statistics cannot be understood"));
        };
        let within = |text: &str| text.split_terminator(WITHIN).map(unshielded).collect::<Vec<_>>();
        Ok(Self {
            name: unshielded(name),
            schema: (!schema.is_empty()).then(|| unshielded(schema)),
            kinds: (*kinds).to_owned(),
            columns: within(columns),
            expressions: within(expressions),
            target: target.parse().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ExtendedStatistics;

    fn statistics(kinds: &str, columns: &[&str], expressions: &[&str]) -> ExtendedStatistics {
        let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        let (columns, expressions) = (owned(columns), owned(expressions));
        ExtendedStatistics { name: "s".into(), schema: None, kinds: kinds.into(), columns, expressions, target: None }
    }

    #[test]
    fn statistics_are_shown_as_postgresql_shows_them() {
        let all = statistics("dfm", &["a", "B"], &[]);
        assert_eq!(all.definition("x", "t"), "CREATE STATISTICS x.s ON a, \"B\" FROM t");
        let some = statistics("dfe", &["a"], &["(b + 1)"]);
        assert_eq!(some.definition("x", "t"), "CREATE STATISTICS x.s (ndistinct, dependencies) ON a, (b + 1) FROM t");
        assert_eq!(statistics("e", &[], &["f(a)"]).definition("x", "t"), "CREATE STATISTICS x.s ON f(a) FROM t");
    }

    #[test]
    fn what_a_log_keeps_is_what_was_said() {
        let mut said = statistics("dme", &["a", "b\u{12}c"], &["(a, b)", "a || '\u{11}'"]);
        for schema in [None, Some("x".to_owned())] {
            for target in [None, Some(0), Some(100)] {
                (said.schema, said.target) = (schema.clone(), target);
                assert_eq!(ExtendedStatistics::decoded(&said.encoded()).unwrap(), said);
            }
        }
        assert!(ExtendedStatistics::decoded("nothing").is_err());
    }
}
