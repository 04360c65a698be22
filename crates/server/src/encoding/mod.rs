//! Rows and values in the forms that clients read and write, for all doors.
//!
//! * [`text`]: PostgreSQL's text and binary forms of single values, which psql's rows, COPY and HTTP's CSV have in
//!   common.
//! * [`values`]: an array as such values, which may be arrays and rows; [`fields`] and [`held_text`]: parts of their
//!   binary forms.
//! * [`columns`]: a batch as rows of such values, for messages of PostgreSQL's protocol.
//! * [`copy`]: the same rows as lines, for COPY … TO STDOUT and for CSV.
//! * [`formats`]: bodies of HTTP.
//! * [`compact`]: batches without bytes of other rows, for Arrow's streams.
//! * [`exchanged`](mod@exchanged): batches in the types that readers of Arrow's streams know.
//! * [`flight`]: messages of Arrow Flight.
//! * [`numeric`]: what Arrow would write with more zeros than that.
//! * [`parameters`]: the other direction, values as clients send them, out of bytes that a [`cursor`] stands on.
//!
//! Nothing here knows a session, a statement or a socket: batches come in, bytes go out.

pub(crate) mod columns;
mod compact;
pub(crate) mod copy;
mod cursor;
mod exchanged;
mod fields;
pub(crate) mod flight;
pub(crate) mod formats;
mod held_text;
mod numeric;
pub(crate) mod parameters;
mod text;
mod values;

use arrow::array::RecordBatch;
use diligence_base::Result;

pub use self::compact::compact;
pub use self::exchanged::{exchanged, exchanged_schema};
pub use self::numeric::PlainNumeric;

/// The texts of all values of a batch, row by row, as clients of PostgreSQL's protocol get them; `None` for NULL.
/// Fails with kind `Value` if a value has no text.
pub fn texts(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>> {
    let columns = columns::Columns::all(&batch.schema(), columns::Form::Text);
    let rows = columns.rows(batch)?;
    let mut out = bytes::BytesMut::new();
    let mut text = |row: usize, column: usize| {
        out.clear();
        rows.write_text(row, column, &mut out).then(|| String::from_utf8_lossy(&out).into_owned())
    };
    Ok((0..rows.count()).map(|row| (0..rows.columns()).map(|column| text(row, column)).collect()).collect())
}
