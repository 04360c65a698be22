//! Clauses of a column's definition that exclude each other.

use diligence_base::{Error, Result};
use sqlparser::ast::{ColumnDef, ColumnOption};

use super::definitions::lower;

/// Fails with code 42601 if a column has a clause twice, or two of which only one can hold. `is_serial` says whether
/// its type gives it a default and no NULLs.
pub(super) fn refuse_conflicts(table: &str, column: &ColumnDef, is_serial: bool) -> Result<()> {
    let name = lower(&column.name);
    let fail = |what: &str| {
        let message = format!("{what} for column \"{name}\" of table \"{table}\"");
        Err(Error::input(message).with_code("42601"))
    };
    let (mut takes_nulls, mut defaults, mut identities, mut generations) = (None, 0, 0, 0);
    let of_type = [ColumnOption::NotNull].into_iter().filter(|_| is_serial);
    let options = column.options.iter().map(|option| option.option.clone()).chain(of_type);
    for option in options {
        let nulls = match option {
            ColumnOption::Null => Some(true),
            ColumnOption::NotNull => Some(false),
            ColumnOption::Default(_) => {
                defaults += 1;
                None
            }
            ColumnOption::Generated { generation_expr: Some(_), .. } => {
                generations += 1;
                None
            }
            ColumnOption::Generated { .. } => {
                identities += 1;
                Some(false)
            }
            _ => None,
        };
        match (defaults + usize::from(is_serial), identities, generations) {
            (2.., ..) => return fail("multiple default values specified"),
            (_, 2.., _) => return fail("multiple identity specifications"),
            (.., 2..) => return fail("multiple generation clauses specified"),
            (1, 1, _) => return fail("both default and identity specified"),
            (1, _, 1) => return fail("both default and generation expression specified"),
            (_, 1, 1) => return fail("both identity and generation expression specified"),
            _ => {}
        }
        if nulls.is_some() && takes_nulls.is_some() && nulls != takes_nulls {
            return fail("conflicting NULL/NOT NULL declarations");
        }
        takes_nulls = nulls.or(takes_nulls);
    }
    Ok(())
}
