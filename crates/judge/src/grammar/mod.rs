//! Statements of PostgreSQL's SQL, generated from seeds: expressions over all types with every operator and a good part
//! of the functions ([`templates`]), joins, subqueries three deep, groups, windows, set operations, common table
//! expressions.
//!
//! An answer must be determined by the statement. So a LIMIT has a total order, an aggregate that depends on order has
//! its own, a window function too, and nothing asks for the time or for chance. Expressions that may fail for their
//! values occur only where each is computed once for each row of one table. Which error wins, or whether a condition is
//! computed at all, is not decided elsewhere.
//!
//! Invariant: a seed and the tables give the same statement, always.

mod generator;
mod queries;
mod relations;
mod tables;
mod templates;
mod types;

use diligence_base::Result;

pub use tables::{Table, every_table};

use crate::findings::Findings;
use crate::order::RowOrder;
use crate::sides::Sides;
use generator::Generator;

/// The statement that belongs to a seed.
pub fn statement(seed: u64, tables: &[Table]) -> String {
    Generator::new(seed, tables).statement()
}

/// Makes the tables on both sides and judges statements with seeds from `seed` on. A table that one of both does not
/// make is left out of the statements; that is a difference itself.
///
/// Fails with kind `Resource` if a server is lost and does not come back.
pub fn run(
    sides: &mut Sides,
    findings: &mut Findings,
    seed: u64,
    statements: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let every = every_table();
    let made: Vec<_> = every.iter().flat_map(Table::statements).collect();
    sides.clean(&made)?;
    let mut tables = Vec::new();
    for table in every {
        let mut works = true;
        for statement in table.statements() {
            works = works && findings.prepare(sides, &statement, &format!("table {}", table.name))?;
        }
        if works {
            tables.push(table);
        }
    }
    if tables.is_empty() {
        return Ok(());
    }
    for seed in seed..seed.saturating_add(statements) {
        let place = format!("seed {seed}");
        progress(&place);
        let statement = statement(seed, &tables);
        findings.judge(sides, &statement, &RowOrder::of(&statement), &place)?;
    }
    sides.clean(&made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_statement() {
        let tables = every_table();
        let made = |from: u64| (from..from + 300).map(|seed| statement(seed, &tables)).collect::<Vec<_>>();
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(1000));
    }

    #[test]
    fn statements_have_all_that_they_should() {
        let tables = every_table();
        let all: String = (0..3000).map(|seed| statement(seed, &tables) + "\n").collect();
        for word in [
            "FULL JOIN",
            "RIGHT JOIN",
            "NATURAL",
            "USING (k)",
            "LATERAL",
            "CROSS JOIN",
            "EXISTS",
            " IN (SELECT",
            " ANY (SELECT",
            " ALL (SELECT",
            "ROLLUP",
            "CUBE",
            "GROUPING SETS",
            "HAVING",
            "FILTER",
            "DISTINCT ON",
            "WITH RECURSIVE",
            "MATERIALIZED",
            "INTERSECT ALL",
            "EXCEPT",
            "VALUES",
            "FETCH FIRST",
            "OFFSET",
            "GROUPS BETWEEN",
            "RANGE BETWEEN",
            "ROWS BETWEEN",
            "EXCLUDE TIES",
            "WINDOW w",
            "WITHIN GROUP",
            "WITH ORDINALITY",
            "generate_series",
            "SIMILAR TO",
            "AT TIME ZONE",
        ] {
            assert!(all.contains(word), "{word}");
        }
        assert!(!all.contains('$') || !all.contains("$T"), "a placeholder is left");
    }
}
