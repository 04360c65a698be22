//! Rows as messages of Arrow Flight: the schema, then batches that are small enough for any client.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use diligence_base::{Error, Result};

use super::compact::compact;

/// Bytes that a message has at most, where it has more than one row: gRPC's clients take 4 MiB unless they are told
/// otherwise, with what stands around the rows.
const MESSAGE_BYTES: usize = 2 << 20;

/// The columns as clients are told of them. Any may have NULLs: a statement is described before it runs, and what comes
/// out must be what was told.
pub(crate) fn told_schema(schema: &Schema) -> SchemaRef {
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
        // The next one is last.
        let mut parts = vec![self.as_told(batch)?];
        while let Some(part) = parts.pop() {
            if part.num_rows() == 0 {
                continue;
            }
            let part = compact(&part);
            let pieces = bytes_of(&part).div_ceil(MESSAGE_BYTES).min(part.num_rows());
            if pieces <= 1 {
                self.message(&part, &mut out)?;
                continue;
            }
            let length = part.num_rows().div_ceil(pieces);
            let starts = (0..part.num_rows()).step_by(length).rev();
            parts.extend(starts.map(|start| part.slice(start, length.min(part.num_rows() - start))));
        }
        Ok(out)
    }

    fn message(&mut self, batch: &RecordBatch, out: &mut Vec<FlightData>) -> Result<()> {
        let encoded = self.generator.encode(batch, &mut self.tracker, &self.options, &mut self.context);
        let (dictionaries, rows) = encoded.map_err(not_written)?;
        out.extend(dictionaries.into_iter().map(FlightData::from));
        out.push(rows.into());
        Ok(())
    }

    /// The batch with the columns as they were told.
    fn as_told(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(column.clone()),
                false => cast_with_options(column, field.data_type(), &options).map_err(not_written),
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(not_written)
    }
}

/// About the bytes that a batch has in a message.
fn bytes_of(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    batch.columns().iter().map(bytes).sum()
}

fn not_written(error: arrow::error::ArrowError) -> Error {
    Error::value(format!("a value cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow_flight::utils::flight_data_to_batches;

    use super::*;

    #[test]
    fn messages_are_small_enough_and_have_all_rows_in_order() {
        let numbers = Int64Array::from_iter_values(0..3000);
        // A few rows have much more than the others.
        let text = |number: i64| "x".repeat(if number % 1000 == 7 { 3 << 20 } else { 2000 });
        let texts = StringViewArray::from_iter_values(numbers.values().iter().map(|number| text(*number)));
        let columns = [("n", Arc::new(numbers) as ArrayRef), ("t", Arc::new(texts) as ArrayRef)];
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
