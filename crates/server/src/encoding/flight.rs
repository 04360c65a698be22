//! Rows as messages of Arrow Flight: the schema, then batches that are small enough for any client.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use diligence_base::{Error, Result};

use super::compact::compact;
use super::exchanged::{exchanged, exchanged_schema};

/// Bytes that a message has at most, where it has more than one row: gRPC's clients take 4 MiB unless they are told
/// otherwise, with what stands around the rows.
const MESSAGE_BYTES: usize = 2 << 20;

/// Bytes that a message may turn out to have, with what was not foreseen.
const MESSAGE_BYTES_MAX: usize = 3 << 20;

/// The columns as clients are told of them. Any may have NULLs: a statement is described before it runs, and what comes
/// out must be what was told.
pub(crate) fn told_schema(schema: &Schema) -> SchemaRef {
    let schema = exchanged_schema(schema);
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// A schema in the form that messages and results of metadata have it.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: arrow_flight::IpcMessage = SchemaAsIpc::new(schema, &options).try_into().map_err(not_written)?;
    Ok(message.0)
}

/// Writes the batches of one stream.
pub(crate) struct FlightWriter {
    schema: SchemaRef,
    options: IpcWriteOptions,
    generator: IpcDataGenerator,
    tracker: DictionaryTracker,
    context: IpcWriteContext,
}

impl FlightWriter {
    /// A writer for rows with these columns, as they are told.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            options: IpcWriteOptions::default(),
            generator: IpcDataGenerator::default(),
            tracker: DictionaryTracker::new(false),
            context: IpcWriteContext::default(),
        }
    }

    /// The message before the rows.
    pub(crate) fn schema(&self) -> FlightData {
        SchemaAsIpc::new(&self.schema, &self.options).into()
    }

    /// The rows of a batch, as one message or several. Fails with kind `Value` if a value does not fit its column as it
    /// was told.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<FlightData>> {
        let mut out = Vec::new();
        // The next one is last, with the bytes of what it was cut from.
        let mut parts = vec![(exchanged(batch, &self.schema)?, usize::MAX)];
        while let Some((part, before)) = parts.pop() {
            if part.num_rows() == 0 {
                continue;
            }
            let part = compact(&part);
            let expected = bytes_of(&part);
            // What does not become smaller by being cut goes out as it is.
            let is_whole = part.num_rows() == 1 || before != usize::MAX;
            let bytes = match expected > MESSAGE_BYTES && !is_whole {
                true => expected,
                false => match self.message(&part, before, &mut out)? {
                    Some(bytes) => bytes,
                    None => continue,
                },
            };
            parts.extend(cut(&part, bytes.div_ceil(MESSAGE_BYTES)).into_iter().map(|part| (part, bytes)));
        }
        Ok(out)
    }

    /// Adds the message of a batch that was cut from something of so many bytes. If it is too large for clients and can
    /// be cut, it is not added: how large it is.
    fn message(&mut self, batch: &RecordBatch, before: usize, out: &mut Vec<FlightData>) -> Result<Option<usize>> {
        let encoded = self.generator.encode(batch, &mut self.tracker, &self.options, &mut self.context);
        let (dictionaries, rows) = encoded.map_err(not_written)?;
        out.extend(dictionaries.into_iter().map(FlightData::from));
        let bytes = rows.arrow_data.len();
        if bytes > MESSAGE_BYTES_MAX && batch.num_rows() > 1 && bytes < before - before / 8 {
            return Ok(Some(bytes));
        }
        out.push(rows.into());
        Ok(None)
    }
}

/// A batch in so many pieces, or as many as it has rows; the first one last.
fn cut(batch: &RecordBatch, pieces: usize) -> Vec<RecordBatch> {
    let length = batch.num_rows().div_ceil(pieces.clamp(1, batch.num_rows()));
    let starts = (0..batch.num_rows()).step_by(length).rev();
    starts.map(|start| batch.slice(start, length.min(batch.num_rows() - start))).collect()
}

/// About the bytes that a compact batch has in a message. What is within lists and structs may not be seen.
fn bytes_of(batch: &RecordBatch) -> usize {
    let held = |buffers: &[Buffer]| buffers.iter().map(Buffer::len).sum::<usize>();
    let bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => 16 * column.len() + held(column.as_string_view().data_buffers()),
        DataType::BinaryView => 16 * column.len() + held(column.as_binary_view().data_buffers()),
        _ => column.to_data().get_slice_memory_size().unwrap_or(0),
    };
    batch.columns().iter().map(bytes).sum()
}

fn not_written(error: arrow::error::ArrowError) -> Error {
    Error::value(format!("a value cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use arrow_flight::utils::flight_data_to_batches;

    use super::*;

    #[test]
    fn messages_are_small_enough_and_have_all_rows_in_order() {
        let numbers = Int64Array::from_iter_values(0..3000);
        // A few rows have much more than the others.
        let text = |number: i64| "x".repeat(if number % 1000 == 7 { 1 << 20 } else { 2000 });
        let texts = StringViewArray::from_iter_values(numbers.values().iter().map(|number| text(*number)));
        // Within lists as well.
        let ends = OffsetBuffer::from_lengths(std::iter::repeat_n(1, texts.len()));
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let lists = ListArray::new(item, ends, Arc::new(texts.clone()), None);
        let columns: [(_, ArrayRef); 3] = [("n", Arc::new(numbers)), ("t", Arc::new(texts)), ("l", Arc::new(lists))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = FlightWriter::new(told_schema(&batch.schema()));
        let mut messages = vec![writer.schema()];
        messages.extend(writer.batch(&batch).unwrap());
        messages.extend(writer.batch(&batch.slice(5, 0)).unwrap());
        assert!(messages.len() > 6, "{}", messages.len());
        assert!(messages.iter().all(|message| message.data_body.len() < 4 << 20));
        let read = flight_data_to_batches(&messages).unwrap();
        let read = arrow::compute::concat_batches(&told_schema(&batch.schema()), &read).unwrap();
        assert_eq!(read.columns(), batch.columns());
    }
}
