//! Rows that a client sends into a table: COPY … FROM STDIN, and appending from code.
//!
//! They go the way of an INSERT's: a plan takes them as they come, and its writer commits when they have ended. So no
//! more of them wait than fit into a short queue, and the table has all of them or none.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_catalog::Isolation;
use diligence_engine::QueryOptions;
use diligence_engine::plan::RowsSender;
use diligence_engine::query::Printed;
use diligence_sql::PlannedAppend;
use diligence_storage::foreign_error::from_arrow;

use super::result::{QueryResult, ResultKind};
use crate::session::Session;

/// Rows on their way into a table. Dropped before [`finish`](Self::finish), none of them stay.
pub struct Append {
    /// Cancelled before its rows end.
    result: QueryResult,
    rows: RowsSender,
    /// The columns of what is sent.
    schema: SchemaRef,
    /// Whether it calls triggers.
    is_calling: bool,
    /// A transaction of its own.
    own: Option<OwnTransaction>,
}

/// A transaction of rows that call triggers. Dropped, nothing of it is left.
struct OwnTransaction(Option<Session>);

impl OwnTransaction {
    fn begin(session: &Session) -> Result<Self> {
        session.begin(Isolation::ReadCommitted)?;
        Ok(Self(Some(session.clone())))
    }

    async fn commit(mut self) -> Result<()> {
        let Some(session) = self.0.take() else { return Ok(()) };
        if session.commits_at_once(true) {
            return session.commit();
        }
        let io = session.database().engine().io_handle().clone();
        let committed = io.spawn_blocking(move || session.commit()).await;
        committed.unwrap_or_else(|error| Err(Error::bug(format!("a commit ended early: {error}"))))
    }
}

impl Drop for OwnTransaction {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.roll_back();
        }
    }
}

impl Append {
    /// What functions print while rows are added: those of defaults, conditions and triggers.
    pub fn printed(&self) -> Printed {
        self.result.printed()
    }

    /// Whether triggers run for its rows, which may leave some out.
    pub fn is_calling(&self) -> bool {
        self.is_calling
    }

    /// Sends rows, when there is room for them. Fails with kind `Value` if a value does not fit its column, and with
    /// the error of the statement if that has ended.
    pub async fn send(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = self.as_table(batch)?;
        poll_fn(|context| self.poll_room(context)).await?;
        self.rows.send(rows);
        Ok(())
    }

    /// Ends the rows: the table has all of them when this returns, and this is how many it has got. Fails with the
    /// error of the statement, of kind `Value` if a row breaks a constraint, `Resource` if there is no memory, `File`
    /// if it cannot be written; then the table is as it was.
    pub async fn finish(mut self) -> Result<u64> {
        poll_fn(|context| self.poll_room(context)).await?;
        self.rows.end();
        self.result.settle_async().await?;
        if let Some(own) = self.own.take() {
            own.commit().await?;
        }
        match self.result.kind() {
            ResultKind::Command { rows, .. } => Ok(rows.unwrap_or(0)),
            ResultKind::Rows => Err(Error::bug("appending gives rows")),
        }
    }

    /// Ready when there is room for a batch; fails with the statement's error.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Poll::Ready(true) = self.rows.poll_room(context) {
            return Poll::Ready(Ok(()));
        }
        // Where the engine runs on the thread that reads, this is what has the rows taken.
        let ended = ready!(self.result.poll_batch(context));
        Poll::Ready(Err(match ended {
            Some(Err(error)) => error,
            Some(Ok(_)) | None => Error::bug("a statement has ended before its rows"),
        }))
    }

    /// The rows in the table's types.
    fn as_table(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        if batch.num_columns() != self.schema.fields().len() {
            return Err(Error::input("the rows have other columns than were named").with_code("22P04"));
        }
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(column.clone());
            }
            cast_with_options(column, field.data_type(), &options).map_err(from_arrow)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(from_arrow)
    }
}

impl Session {
    /// Fails with code 42501 unless statements of the session may name files of the server; `what` is what for.
    pub fn may_use_files(&self, what: &str) -> Result<()> {
        self.planner().may_use_files(what)
    }

    /// The columns of a table that [`append`](Self::append) can add to: those that are not computed from others. Fails
    /// with kind `Input` if there is no such table, or it may not be changed, `Unsupported` if its
    /// rows are in files of others.
    pub fn appendable(&self, schema: Option<&str>, table: &str) -> Result<SchemaRef> {
        let snapshot = self.snapshot();
        let name = self.planner().table_to_append(&snapshot, schema, table);
        self.planner().appendable(&snapshot, &name)
    }

    /// Whether a table is a temporary one.
    pub fn is_temporary(&self, schema: Option<&str>, table: &str) -> bool {
        self.planner().table_to_append(&self.snapshot(), schema, table).is_temporary()
    }

    /// The columns that COPY takes of a table or gives it, of those that it names: none for all of them. Fails with
    /// code 42P10 if one of them is generated.
    pub fn copied_columns(&self, schema: Option<&str>, table: &str, named: &[String]) -> Result<Vec<String>> {
        let snapshot = self.snapshot();
        let name = self.planner().table_to_append(&snapshot, schema, table);
        self.planner().copied_columns(&snapshot, &name, named)
    }

    /// Begins to add rows to a table of the database, in memory or on disk. `columns` names the columns of what is
    /// sent, which are converted to the table's types; columns that are not named get their defaults. Fails as
    /// [`appendable`](Self::appendable), and with kind `Input` if the table has no such column.
    pub fn begin_append(&self, schema: Option<&str>, table: &str, columns: &[String]) -> Result<Append> {
        self.begin_append_where(schema, table, columns, None, false)
    }

    /// As [`begin_append`](Self::begin_append), of those rows only for which a condition over the columns is true; with
    /// `leaves_out_errors`, only of those whose texts are values of their columns' types. Fails as that does, and with
    /// kind `Input` if the condition makes no sense.
    pub fn begin_append_where(
        &self,
        schema: Option<&str>,
        table: &str,
        columns: &[String],
        condition: Option<&str>,
        leaves_out_errors: bool,
    ) -> Result<Append> {
        let options = self.query_options(&format!("COPY {table} FROM STDIN"));
        let planned = || {
            let (planner, snapshot) = (self.planner(), self.snapshot());
            let name = planner.table_to_append(&snapshot, schema, table);
            planner.plan_append(&snapshot, &name, columns, condition, leaves_out_errors)
        };
        self.in_runtime(|| {
            let (mut append, mut own) = (planned()?, None);
            if append.query.is_calling && self.planner().catalogs().isolation().is_none() {
                own = Some(OwnTransaction::begin(self)?);
                append = planned()?;
            }
            let PlannedAppend { query, rows, schema } = append;
            let is_calling = query.is_calling;
            let options = if is_calling { QueryOptions { packets: Some(1), ..options } } else { options };
            let stream = self.run_query(&query, options)?;
            let result = QueryResult::write("COPY", stream, None).with_retries(None, self.statement_locks());
            Ok(Append { result, rows, schema, is_calling, own })
        })
    }

    /// Adds rows to a table in memory: all of them or none. Gives their number. Not for async code. Fails as
    /// [`begin_append`](Self::begin_append) and [`Append::finish`].
    pub fn append(
        &self,
        schema: Option<&str>,
        table: &str,
        columns: &[String],
        batches: &[RecordBatch],
    ) -> Result<u64> {
        let mut append = self.begin_append(schema, table, columns)?;
        futures::executor::block_on(async move {
            for batch in batches {
                append.send(batch).await?;
            }
            append.finish().await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::{Database, DatabaseOptions};

    fn count(session: &Session) -> i64 {
        let rows = session.execute("SELECT count(*) FROM t").unwrap().collect().unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)]).unwrap()
    }

    #[test]
    fn many_rows_go_through_a_short_queue_and_stay_when_they_have_ended() {
        for inline_seed in [None, Some(7)] {
            let database = Database::open(DatabaseOptions { inline_seed, ..DatabaseOptions::default() }).unwrap();
            let session = database.session();
            session.execute("CREATE TABLE t (a BIGINT, b VARCHAR)").unwrap();
            let columns = ["a".to_owned()];
            let batches = (0..50).map(|index| batch(index * 1000..index * 1000 + 1000)).collect::<Vec<_>>();
            assert_eq!(session.append(None, "t", &columns, &batches).unwrap(), 50_000);
            assert_eq!(count(&session), 50_000);
            // One that goes away before the end leaves nothing.
            let mut append = session.begin_append(None, "t", &columns).unwrap();
            futures::executor::block_on(append.send(&batches[0])).unwrap();
            drop(append);
            assert_eq!(count(&session), 50_000);
            // Nor does one whose values do not fit, or that does not name what must not be NULL.
            let words: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x"]));
            let words = RecordBatch::try_from_iter([("a", words)]).unwrap();
            let error = session.append(None, "t", &columns, &[batches[0].clone(), words]).unwrap_err();
            assert!(error.message().contains('x'), "{error}");
            session.execute("CREATE TABLE u (a BIGINT, b VARCHAR NOT NULL)").unwrap();
            let error = session.append(None, "u", &columns, &batches[..1]).unwrap_err();
            assert!(error.message().contains("null value in column \"b\""), "{error}");
            assert_eq!(count(&session), 50_000);
        }
    }

    #[test]
    fn texts_that_are_sent_are_no_longer_than_their_columns() {
        let database = Database::open(DatabaseOptions::default()).unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t (a VARCHAR(3), b CHAR(3), c VARCHAR(3) COLLATE \"C\")").unwrap();
        for column in ["a", "b", "c"] {
            let columns = [column.to_owned()];
            let send = |text: &str| {
                let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values([text]));
                session.append(None, "t", &columns, &[RecordBatch::try_from_iter([(column, texts)]).unwrap()])
            };
            assert_eq!(send("abcd").unwrap_err().code(), Some("22001"), "{column}");
            assert_eq!((send("abc  ").unwrap(), send("a").unwrap()), (1, 1));
        }
        let shown = "SELECT count(*) FROM t WHERE length(a) <= 3 AND octet_length(a) <= 3 OR octet_length(b) = 3 \
                     OR octet_length(c) <= 3";
        let rows = session.execute(shown).unwrap().collect().unwrap();
        assert_eq!((rows[0].column(0).as_primitive::<Int64Type>().value(0), count(&session)), (6, 6));
    }
}
