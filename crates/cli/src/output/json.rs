//! JSON: one array of objects, or one object per line. NULLs are written; NaN and infinities are written as null, since
//! JSON cannot represent them.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, Writer, WriterBuilder};
use diligence_server::PlainNumeric;

use super::{Demand, ResultWriter, WriteError};

pub(super) struct JsonWriter<'a, F: JsonFormat> {
    writer: Writer<&'a mut dyn Write, F>,
    /// Whether the format lacks a final newline.
    ends_open: bool,
}

fn builder() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(PlainNumeric))
}

impl<'a> JsonWriter<'a, JsonArray> {
    pub(super) fn array(output: &'a mut dyn Write) -> Self {
        Self { writer: builder().build(output), ends_open: true }
    }
}

impl<'a> JsonWriter<'a, LineDelimited> {
    pub(super) fn lines(output: &'a mut dyn Write) -> Self {
        Self { writer: builder().build(output), ends_open: false }
    }
}

impl<F: JsonFormat> ResultWriter for JsonWriter<'_, F> {
    fn begin(&mut self, _schema: &SchemaRef) -> Result<(), WriteError> {
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        self.writer.write(batch)?;
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.writer.get_mut().flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.writer.finish()?;
        if self.ends_open {
            self.writer.get_mut().write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::super::Format;
    use super::super::tests::{sample, text};
    use super::*;

    #[test]
    fn an_array_of_objects() {
        let read: serde_json::Value = serde_json::from_str(&text(Format::Json, &[sample(), sample()], None)).unwrap();
        let rows = read.as_array().unwrap();
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[0]["text"], "a,\"b\"");
        assert_eq!(rows[1]["number"], serde_json::Value::Null);
        assert_eq!(rows[2]["float"], serde_json::Value::Null);
        assert_eq!(rows[5]["list"], serde_json::json!([]));
        assert_eq!(text(Format::Json, &[], None), "[]\n");
    }

    /// As a server's rows come.
    #[test]
    fn texts_that_say_what_they_are() {
        let field = |name: &str, sql_type: &str| {
            Field::new(name, DataType::Utf8, true).with_metadata([("sql_type".to_owned(), sql_type.to_owned())].into())
        };
        let schema = Arc::new(Schema::new(vec![field("n", "numeric"), field("j", "jsonb")]));
        let numbers = StringArray::from(vec![Some("1.50"), Some("NaN"), None]);
        let documents = StringArray::from(vec![Some(r#"{"a": [1]}"#), Some("null"), None]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(numbers), Arc::new(documents)]).unwrap();
        let lines = [r#"{"n":1.50,"j":{"a": [1]}}"#, r#"{"n":null,"j":null}"#, r#"{"n":null,"j":null}"#, ""];
        assert_eq!(text(Format::Jsonl, &[batch], None), lines.join("\n"));
    }

    #[test]
    fn an_object_per_line() {
        let written = text(Format::Jsonl, &[sample()], None);
        assert_eq!(written.lines().count(), 3);
        for line in written.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
        }
        assert_eq!(text(Format::Jsonl, &[], None), "");
    }
}
