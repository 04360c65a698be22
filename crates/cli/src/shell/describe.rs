//! psql's `\\d NAME`: the columns of a table and what belongs to it, or what an index or a sequence is.

use diligence_db::sqlstate;
use diligence_server::texts;

use super::listings;
use crate::failure::Failure;
use crate::output::{Format, printable};
use crate::sources::Source;
use crate::statements::Runner;

/// PostgreSQL's `undefined_table`.
const UNKNOWN_TABLE: &str = "42P01";

/// Describes a table, or each that fits a pattern of psql's. Fails if there is none, and as statements do.
pub fn describe(runner: &Runner<'_>, table: &str) -> Result<(), Failure> {
    let Some(query) = listings::fitting(table) else {
        return match runner.run_own(&Source::typed(format!("DESCRIBE {table}"))) {
            Ok(()) => print_belongings(runner, table),
            Err(Failure::Statement(error, at)) if sqlstate(&error) == UNKNOWN_TABLE => {
                match describe_other(runner, table)? {
                    true => Ok(()),
                    false => Err(Failure::Statement(error, at)),
                }
            }
            Err(other) => Err(other),
        };
    };
    let names = values(runner, query)?.into_iter().flatten().flatten().collect::<Vec<_>>();
    if names.is_empty() {
        return Err(Failure::Usage(format!("no table or view fits '{table}'")));
    }
    for name in names {
        if runner.display().format == Format::Table {
            runner.print_line(format!("{}:", printable(&name)))?;
        }
        runner.run_own(&Source::typed(format!("DESCRIBE {name}")))?;
        print_belongings(runner, &name)?;
    }
    Ok(())
}

/// Shows what an index or a sequence is; false if nothing has the name.
fn describe_other(runner: &Runner<'_>, name: &str) -> Result<bool, Failure> {
    let Some((kind, queries)) = listings::other_kinds(name) else { return Ok(false) };
    let kind = match values(runner, kind) {
        Ok(rows) => rows.into_iter().flatten().flatten().next(),
        // A server may not know these catalogs.
        Err(Failure::Statement(..)) => None,
        Err(other) => return Err(other),
    };
    match queries.into_iter().find(|(of, _)| kind.as_deref() == Some(*of)) {
        Some((_, query)) => runner.run_own(&Source::typed(query)).map(|()| true),
        None => Ok(false),
    }
}

/// Lists indexes, constraints, triggers and the definition of a table or view below its columns, where these are shown
/// as a table.
fn print_belongings(runner: &Runner<'_>, table: &str) -> Result<(), Failure> {
    let query = listings::belongings(table).filter(|_| runner.display().format == Format::Table);
    let Some(query) = query else { return Ok(()) };
    let rows = match values(runner, query) {
        // A server may not know these catalogs; the columns are shown all the same.
        Err(Failure::Statement(..)) => return Ok(()),
        rows => rows?,
    };
    let mut last = String::new();
    for row in rows {
        let mut values = row.into_iter().map(Option::unwrap_or_default);
        let (Some(part), Some(text)) = (values.next(), values.nth(1)) else { continue };
        if part != last {
            runner.print_line(format!("{part}:"))?;
            last = part;
        }
        text.lines().try_for_each(|line| runner.print_line(format!("  {}", printable(line))))?;
    }
    Ok(())
}

/// The rows of a query as texts.
fn values(runner: &Runner<'_>, query: String) -> Result<Vec<Vec<Option<String>>>, Failure> {
    match runner.collect(&Source::typed(query), false)? {
        Some(rows) => texts(&rows).map_err(|error| Failure::Statement(error, None)),
        None => Ok(Vec::new()),
    }
}
