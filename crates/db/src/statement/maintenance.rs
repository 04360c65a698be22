//! CHECKPOINT, VACUUM, BACKUP DATABASE, EXPORT DATABASE, REINDEX, ALTER SYSTEM and CHECK TABLE: what is done for a
//! database by those who keep it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::rights::DENIED;
use diligence_catalog::rules::{Key, Reference};
use diligence_catalog::{NativeTable, Object, Relation};
use diligence_sql::Maintenance;
use diligence_storage::foreign_error::from_arrow;

use super::cancelling::CancelToken;
use super::export;
use super::result::QueryResult;
use crate::session::Session;

impl Session {
    /// Begins it, on a thread of its own.
    pub(super) fn maintain(&self, maintenance: Maintenance) -> QueryResult {
        let (tag, schema) = (maintenance.tag(), maintenance.schema());
        let session = self.clone();
        QueryResult::elsewhere(tag, schema, &self.database().engine().io_handle(), move |token| {
            let database = session.database();
            let rows = match &maintenance {
                Maintenance::Checkpoint => database.checkpoint().map(|()| vec![]),
                Maintenance::Vacuum { whole, .. } => database.vacuum(whole).map(|()| vec![]),
                Maintenance::BackUp { to, earlier } => database.back_up(to, earlier.as_deref()).map(|_| vec![]),
                Maintenance::Export { to, format } => export::export(&session, to, *format, token).map(|()| vec![]),
                Maintenance::Import { from } => export::import(&session, from, token).map(|()| vec![]),
                Maintenance::Reindex { tables, only } => {
                    reindex(&session, tables, only.as_deref(), token).map(|()| vec![])
                }
                Maintenance::SetForAll { setting, value } => {
                    session.set_for_all(setting.as_deref(), value.as_deref()).map(|()| vec![])
                }
                Maintenance::Check { tables } => {
                    let mut found = Found { session: &session, token, lines: Vec::new() };
                    tables.iter().try_for_each(|table| found.table(table))?;
                    found.rows(&maintenance)
                }
            };
            rows.map(Into::into)
        })
    }
}

/// Makes indexes of tables again, one table after the other. A table that has gone meanwhile needs none, where not just
/// one is meant. Fails with kind `Cancelled` between two tables.
fn reindex(session: &Session, tables: &[Arc<Object>], only: Option<&str>, token: &CancelToken) -> Result<()> {
    for table in tables {
        token.check()?;
        let made = session.database().catalog().reindex(&table.reference(), only);
        match made {
            Err(error) if tables.len() > 1 && error.code() == Some("42P01") => {}
            made => made?,
        }
    }
    Ok(())
}

/// What CHECK TABLE has found.
struct Found<'a> {
    session: &'a Session,
    token: &'a CancelToken,
    /// The table, what was looked at, and what is wrong with it.
    lines: Vec<(String, String, Option<String>)>,
}

impl Found<'_> {
    fn rows(self, maintenance: &Maintenance) -> Result<Vec<RecordBatch>> {
        let schema = maintenance.schema().ok_or_else(|| Error::bug("a check has no columns"))?;
        let lines = &self.lines;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(lines.iter().map(|(table, ..)| table))),
            Arc::new(StringViewArray::from_iter_values(lines.iter().map(|(_, check, _)| check))),
            Arc::new(lines.iter().map(|(.., problem)| problem.as_deref()).collect::<StringViewArray>()),
        ];
        Ok(vec![RecordBatch::try_new(schema, columns).map_err(from_arrow)?])
    }

    /// Holds a table's rows against what it promises. Fails with kind `Cancelled`, and where a check cannot be made.
    fn table(&mut self, object: &Object) -> Result<()> {
        let Relation::Native(table) = &object.relation else { return Ok(()) };
        let name = object.name.to_string();
        let problems = self.read(table)?;
        let is_readable = problems.is_empty();
        self.note(&name, "rows", problems);
        if !is_readable {
            // Nothing more can be said of rows that cannot be read.
            return Ok(());
        }
        let quoted_name = quoted(&[&object.name.schema, &object.name.name]);
        let rules = table.rules();
        // Older rows may break what is NOT VALID.
        let is_proven = |name: &str| !rules.unproven.contains(name);
        for check in rules.checks.iter().filter(|check| is_proven(&check.name)) {
            let sql = format!("SELECT count(*) FROM {quoted_name} WHERE NOT ({})", check.condition);
            self.count(&name, &check.name, &sql, "do not fulfill it")?;
        }
        for (key, files) in rules.keys.iter().zip(table.key_files()) {
            let problems = files.files.iter().filter_map(|file| file.verify().err());
            let problems = problems.map(|error| error.message().to_owned()).collect::<Vec<_>>();
            if !problems.is_empty() {
                self.note(&name, &key.name, problems);
            }
        }
        for key in rules.keys.iter().filter(|key| key.kind.is_unique()) {
            self.count(&name, &key.name, &repeated(&quoted_name, key), "are there more than once")?;
        }
        for reference in rules.references.iter().filter(|reference| is_proven(&reference.name)) {
            let snapshot = self.session.snapshot().catalog;
            let referred = snapshot.all_objects().find(|object| object.id == reference.table);
            if let Some(referred) = referred {
                let referred = quoted(&[&referred.name.schema, &referred.name.name]);
                let sql = unreferred(&quoted_name, &referred, reference);
                self.count(&name, &reference.name, &sql, "refer to nothing")?;
            }
        }
        Ok(())
    }

    fn note(&mut self, table: &str, check: &str, problems: Vec<String>) {
        let line = |problem| (table.to_owned(), check.to_owned(), problem);
        match problems.is_empty() {
            true => self.lines.push(line(None)),
            false => self.lines.extend(problems.into_iter().map(Some).map(line)),
        }
    }

    /// Reads all columns of all rows; what is wrong.
    fn read(&self, table: &NativeTable) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for piece in table.pieces() {
            for (column, field) in table.schema().fields().iter().enumerate() {
                self.token.check()?;
                let problem = match piece.verify(column) {
                    Ok((rows, _)) if rows != piece.len() => {
                        Some(format!("column \"{}\" has {rows} of {} rows", field.name(), piece.len()))
                    }
                    Ok((_, nulls)) if nulls > 0 && !field.is_nullable() => {
                        Some(format!("column \"{}\" is NULL in {nulls} rows", field.name()))
                    }
                    Ok(_) => None,
                    Err(error) => Some(error.message().to_owned()),
                };
                problems.extend(problem);
            }
        }
        Ok(problems)
    }

    /// Notes what a query counts.
    fn count(&mut self, table: &str, check: &str, sql: &str, what: &str) -> Result<()> {
        self.token.check()?;
        let counted = self.session.execute(sql).and_then(QueryResult::collect);
        let batches = match counted {
            // Of a table that the session may not read nothing is said.
            Err(error) if error.code() == Some(DENIED) => return Ok(()),
            // The others are looked at all the same.
            Err(error) if matches!(error.kind(), ErrorKind::File | ErrorKind::Input | ErrorKind::Value) => {
                self.note(table, check, vec![error.message().to_owned()]);
                return Ok(());
            }
            counted => counted?,
        };
        let count = batches
            .iter()
            .filter(|batch| batch.num_rows() > 0)
            .map(|batch| batch.column(0).as_primitive_opt::<Int64Type>().map_or(0, |counts| counts.value(0)));
        let problems = match count.sum::<i64>() {
            0 => vec![],
            1 => vec![format!("1 of its rows or values: {what}")],
            count => vec![format!("{count} of its rows or values: {what}")],
        };
        self.note(table, check, problems);
        Ok(())
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect::<Vec<_>>().join(".")
}

/// A query for the number of values of a key that more than one row has.
fn repeated(table: &str, key: &Key) -> String {
    let expression = |place: usize| key.computed.as_ref().and_then(|computed| computed.expressions[place].as_ref());
    let column = |(place, name): (usize, &String)| match expression(place) {
        Some(expression) => format!("({expression})"),
        None => quoted(&[name]),
    };
    let columns = key.columns.iter().enumerate().map(column).collect::<Vec<_>>();
    let mut given = Vec::new();
    if !key.nulls_are_equal {
        given.extend(columns.iter().map(|column| format!("{column} IS NOT NULL")));
    }
    let condition = key.computed.as_ref().and_then(|computed| computed.condition.as_ref());
    given.extend(condition.map(|condition| format!("({condition})")));
    let given = if given.is_empty() { String::new() } else { format!(" WHERE {}", given.join(" AND ")) };
    let columns = columns.join(", ");
    format!("SELECT count(*) FROM (SELECT 1 FROM {table}{given} GROUP BY {columns} HAVING count(*) > 1) AS repeated")
}

/// A query for the number of rows that refer to none.
fn unreferred(table: &str, referred: &str, reference: &Reference) -> String {
    let own = reference.columns.iter().map(|name| format!("own.{}", quoted(&[name]))).collect::<Vec<_>>();
    let given = own.iter().map(|column| format!("{column} IS NOT NULL")).collect::<Vec<_>>().join(" AND ");
    let theirs = reference.referred.iter().map(|name| format!("referred.{}", quoted(&[name])));
    let equal = own.iter().zip(theirs).map(|(own, theirs)| format!("{theirs} = {own}")).collect::<Vec<_>>();
    format!(
        "SELECT count(*) FROM {table} AS own WHERE {given} AND NOT EXISTS (SELECT 1 FROM {referred} AS referred WHERE {})",
        equal.join(" AND ")
    )
}
