//! The Arrow IPC stream format: the schema, then a message per batch. The results of several statements are consecutive
//! streams.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use diligence_base::Error;
use diligence_server::{compact, exchanged, exchanged_schema};

use super::{Demand, ResultWriter, WriteError};

/// The output before `begin`, and the stream that owns it after.
pub(super) enum ArrowStreamWriter<'a> {
    Waiting(Option<&'a mut dyn Write>),
    Streaming(StreamWriter<&'a mut dyn Write>, SchemaRef),
}

impl<'a> ArrowStreamWriter<'a> {
    pub(super) fn new(output: &'a mut dyn Write) -> Self {
        ArrowStreamWriter::Waiting(Some(output))
    }

    fn stream(&mut self) -> Result<&mut StreamWriter<&'a mut dyn Write>, WriteError> {
        match self {
            ArrowStreamWriter::Streaming(stream, _) => Ok(stream),
            ArrowStreamWriter::Waiting(_) => {
                Err(WriteError::Value(Error::bug("an Arrow stream was written before it was started")))
            }
        }
    }
}

impl ResultWriter for ArrowStreamWriter<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        if let ArrowStreamWriter::Waiting(output) = self
            && let Some(output) = output.take()
        {
            let schema = exchanged_schema(schema);
            *self = ArrowStreamWriter::Streaming(StreamWriter::try_new(output, &schema)?, schema);
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        let batch = match self {
            ArrowStreamWriter::Streaming(_, schema) => exchanged(batch, schema).map_err(WriteError::Value)?,
            ArrowStreamWriter::Waiting(_) => batch.clone(),
        };
        self.stream()?.write(&compact(&batch))?;
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.stream()?.get_mut().flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.stream()?.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{sample, written};
    use arrow::ipc::reader::StreamReader;

    #[test]
    fn the_stream_reads_back() {
        let batches = [sample(), sample().slice(1, 2)];
        let bytes = written(Format::Arrow, &sample().schema(), &batches, None);
        let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
        let read = reader.map(|batch| batch.unwrap()).collect::<Vec<_>>();
        assert_eq!(read.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [3, 2]);

        let empty = written(Format::Arrow, &sample().schema(), &[], None);
        let reader = StreamReader::try_new(empty.as_slice(), None).unwrap();
        assert_eq!(reader.schema(), sample().schema());
    }
}
