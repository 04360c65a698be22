//! Rows as bodies of HTTP: JSON, lines of JSON, CSV, an Arrow stream.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{EncoderOptions, make_encoder};
use bytes::BytesMut;
use diligence_base::{Error, Result};
use serde_json::json;

use super::columns::{Columns, Form};
use super::compact::compact;
use super::copy::{CopyEncoder, CopyFormat, CopyOptions, Framing};
use super::exchanged::{exchanged, exchanged_schema};
use super::numeric::PlainNumeric;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One object: the columns, and rows as arrays.
    Json,
    /// An object a line.
    JsonLines,
    /// Comma-separated values with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// What a template makes of them.
    Html,
}

impl Format {
    /// The format that a client asks for with the header `Accept`; JSON if it takes anything. `None` if there is none
    /// that it takes.
    pub(crate) fn accepted(accept: Option<&str>, has_html: bool) -> Option<Self> {
        let Some(accept) = accept else { return Some(Format::Json) };
        let mut wanted = accept.split(',').map(|part| {
            let (kind, options) = part.split_once(';').unwrap_or((part, ""));
            let weight = options.split(';').find_map(|option| option.trim().strip_prefix("q=")?.parse::<f32>().ok());
            (kind.trim().to_ascii_lowercase(), weight.unwrap_or(1.0))
        });
        let mut wanted = wanted.by_ref().filter(|(_, weight)| *weight > 0.0).collect::<Vec<_>>();
        wanted.sort_by(|left, right| right.1.total_cmp(&left.1));
        wanted.iter().find_map(|(kind, _)| match kind.as_str() {
            "text/html" if has_html => Some(Format::Html),
            "application/json" | "application/*" | "*/*" => Some(Format::Json),
            "application/x-ndjson" | "application/jsonl" => Some(Format::JsonLines),
            "text/csv" | "text/*" => Some(Format::Csv),
            "application/vnd.apache.arrow.stream" => Some(Format::Arrow),
            _ => None,
        })
    }

    /// The format of a name: `json`, `jsonl`, `csv`, `arrow`, `html`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Format::Json,
            "jsonl" => Format::JsonLines,
            "csv" => Format::Csv,
            "arrow" => Format::Arrow,
            "html" => Format::Html,
            _ => return None,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::JsonLines => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Html => "text/html; charset=utf-8",
        }
    }
}

/// Writes batches in a format, as the parts of one body.
pub(crate) struct BodyWriter {
    format: Format,
    schema: SchemaRef,
    arrow: Option<StreamWriter<Vec<u8>>>,
    rows: u64,
}

impl BodyWriter {
    /// A writer for rows with these columns. Fails with kind `Value` if the format has no form for one.
    pub(crate) fn new(format: Format, schema: SchemaRef) -> Result<Self> {
        let (schema, arrow) = match format {
            Format::Arrow => {
                let schema = exchanged_schema(&schema);
                let arrow = StreamWriter::try_new(Vec::new(), &schema).map_err(not_written)?;
                (schema, Some(arrow))
            }
            _ => (schema, None),
        };
        Ok(Self { format, schema, arrow, rows: 0 })
    }

    /// What comes before the rows. `query` is the number in `system.queries`.
    pub(crate) fn begin(&mut self, query: Option<u64>) -> Vec<u8> {
        match self.format {
            Format::Json => {
                let columns = self.schema.fields().iter().map(|field| {
                    let told = diligence_db::postgres::field_type(field);
                    let list = if told.is_array { "[]" } else { "" };
                    json!({ "name": field.name(), "type": format!("{}{list}", told.element.sql_name) })
                });
                let columns = serde_json::Value::Array(columns.collect());
                format!("{{\"query\":{},\"columns\":{columns},\"rows\":[", json!(query)).into_bytes()
            }
            Format::Csv => csv().header(&self.schema).to_vec(),
            Format::Arrow | Format::JsonLines | Format::Html => Vec::new(),
        }
    }

    /// The rows of a batch. Fails with kind `Value` if the format has no form for one.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match self.format {
            Format::Csv => {
                let rows = Columns::all(&self.schema, Form::Text).rows(batch)?;
                let mut out = BytesMut::new();
                csv().rows(&rows, 0, usize::MAX, Framing::None, &mut BytesMut::new(), &mut out);
                Ok(out.into())
            }
            Format::Arrow => {
                let Some(writer) = self.arrow.as_mut() else {
                    return Err(Error::bug("an Arrow stream without a writer"));
                };
                writer.write(&compact(&exchanged(batch, &self.schema)?)).map_err(not_written)?;
                // The next one is about as large: growing to that would copy it several times.
                let next = Vec::with_capacity(writer.get_ref().len());
                Ok(std::mem::replace(writer.get_mut(), next))
            }
            Format::Json | Format::JsonLines | Format::Html => self.json(batch),
        }
    }

    fn json(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(PlainNumeric));
        let fields = self.schema.fields();
        let encoders = fields.iter().zip(batch.columns()).map(|(field, array)| make_encoder(field, array, &options));
        let mut encoders = encoders.collect::<std::result::Result<Vec<_>, _>>().map_err(not_written)?;
        let names = fields.iter().map(|field| json!(field.name()).to_string()).collect::<Vec<_>>();
        let lines = self.format == Format::JsonLines;
        let (open, close) = if lines { (b'{', b'}') } else { (b'[', b']') };
        let mut out = Vec::new();
        for row in 0..batch.num_rows() {
            if !lines && self.rows > 0 {
                out.push(b',');
            }
            self.rows += 1;
            out.push(open);
            for (index, encoder) in encoders.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                if lines {
                    out.extend_from_slice(names[index].as_bytes());
                    out.push(b':');
                }
                if encoder.is_null(row) {
                    out.extend_from_slice(b"null");
                } else {
                    encoder.encode(row, &mut out);
                }
            }
            out.push(close);
            if lines {
                out.push(b'\n');
            }
        }
        Ok(out)
    }

    /// What comes after the rows. JSON has a member for `notices`, if there are some; other formats have no place.
    pub(crate) fn end(&mut self, notices: &[serde_json::Value]) -> Result<Vec<u8>> {
        match (self.format, self.arrow.as_mut()) {
            (Format::Json, _) => {
                let notices = match notices {
                    [] => String::new(),
                    notices => format!(",\"notices\":{}", json!(notices)),
                };
                Ok(format!("],\"row_count\":{}{notices}}}\n", self.rows).into_bytes())
            }
            (Format::Arrow, Some(writer)) => {
                writer.finish().map_err(not_written)?;
                Ok(std::mem::take(writer.get_mut()))
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn csv() -> CopyEncoder {
    let null = String::new();
    CopyEncoder::new(CopyOptions {
        format: CopyFormat::Csv,
        delimiter: b',',
        null,
        header: true,
        quote: b'"',
        escape: b'"',
        ..CopyOptions::default()
    })
}

fn not_written(error: arrow::error::ArrowError) -> Error {
    Error::value(format!("a value cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, BinaryViewArray, Decimal256Array, Int64Array, ListArray, StringViewArray};
    use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema, i256};

    use super::*;

    #[test]
    fn clients_get_what_they_accept() {
        let accepted = |text: &str| Format::accepted(Some(text), true);
        assert_eq!(accepted("*/*"), Some(Format::Json));
        assert_eq!(accepted("text/html,application/xhtml+xml,*/*;q=0.8"), Some(Format::Html));
        assert_eq!(accepted("text/csv;q=0.5, application/vnd.apache.arrow.stream"), Some(Format::Arrow));
        assert_eq!(accepted("image/png"), None);
        assert_eq!(Format::accepted(None, false), Some(Format::Json));
    }

    #[test]
    fn every_format_writes_the_same_rows() {
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b\"", DataType::Utf8View, true)];
        let schema = Arc::new(Schema::new(fields));
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringViewArray::from(vec![Some("x,\"y\""), None])),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let written = |format, batches: usize| {
            let mut writer = BodyWriter::new(format, schema.clone()).unwrap();
            let mut out = writer.begin(Some(7));
            (0..batches).for_each(|_| out.extend(writer.batch(&batch).unwrap()));
            out.extend(writer.end(&[json!({ "message": "said" })]).unwrap());
            out
        };
        let value: serde_json::Value = serde_json::from_slice(&written(Format::Json, 2)).unwrap();
        assert_eq!(value["rows"], json!([[1, "x,\"y\""], [null, null], [1, "x,\"y\""], [null, null]]));
        assert_eq!((&value["row_count"], &value["columns"][0]["type"]), (&json!(4), &json!("bigint")));
        assert_eq!(value["notices"], json!([{ "message": "said" }]));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&written(Format::Json, 0)).unwrap()["rows"], json!([]));
        assert_eq!(written(Format::Csv, 1), b"a,\"b\"\"\"\n1,\"x,\"\"y\"\"\"\n,\n");
        assert_eq!(written(Format::JsonLines, 1).iter().filter(|byte| **byte == b'\n').count(), 2);
        let bytes = written(Format::Arrow, 2);
        let reader = arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
        assert_eq!(reader.map(|read| read.unwrap().num_rows()).sum::<usize>(), 4);
    }

    #[test]
    fn json_is_nested_and_bytes_are_texts() {
        let told = |name: &str| [("sql_type".to_owned(), name.to_owned())].into();
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let fields = vec![
            Field::new("j", DataType::Utf8View, true).with_metadata(told("jsonb")),
            Field::new("b", DataType::BinaryView, true),
            Field::new("l", DataType::List(item), true),
        ];
        let schema = Arc::new(Schema::new(fields));
        let texts = StringViewArray::from(vec![Some("{\"a\":\n[1.50, null]}"), None, Some("no \"JSON")]);
        let bytes = BinaryViewArray::from(vec![Some(&b"\x00\xff"[..]), None, Some(&b""[..])]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None, Some(vec![])]);
        let columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(texts), Arc::new(bytes), Arc::new(lists)];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let mut lines = BodyWriter::new(Format::JsonLines, schema.clone()).unwrap();
        assert_eq!(
            String::from_utf8(lines.batch(&batch).unwrap()).unwrap(),
            "{\"j\":{\"a\": [1.50, null]},\"b\":\"\\\\x00ff\",\"l\":[1]}\n{\"j\":null,\"b\":null,\"l\":null}\n\
             {\"j\":\"no \\\"JSON\",\"b\":\"\\\\x\",\"l\":[]}\n"
        );
        let begun = BodyWriter::new(Format::Json, schema).unwrap().begin(None);
        let begun: serde_json::Value =
            serde_json::from_str(&format!("{}]}}", String::from_utf8(begun).unwrap())).unwrap();
        let types = begun["columns"].as_array().unwrap().iter().map(|column| column["type"].clone());
        assert_eq!(types.collect::<Vec<_>>(), ["jsonb", "bytea", "bigint[]"]);
    }

    #[test]
    fn no_cell_holds_the_text_of_an_error() {
        let dates = arrow::array::Date32Array::from(vec![Some(i32::MAX), None, Some(0)]);
        let times = arrow::array::Time64MicrosecondArray::from(vec![86_400_000_000, 0, 1]);
        let batch = RecordBatch::try_from_iter([("d", Arc::new(dates) as _), ("t", Arc::new(times) as _)]).unwrap();
        for (format, expected) in [
            (
                Format::JsonLines,
                "{\"d\":\"infinity\",\"t\":\"24:00:00\"}\n{\"d\":null,\"t\":\"00:00:00\"}\n\
                 {\"d\":\"1970-01-01\",\"t\":\"00:00:00.000001\"}\n",
            ),
            (Format::Csv, "infinity,24:00:00\n,00:00:00\n1970-01-01,00:00:00.000001\n"),
        ] {
            let mut writer = BodyWriter::new(format, batch.schema()).unwrap();
            assert_eq!(String::from_utf8(writer.batch(&batch).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn numbers_have_no_zeros_at_their_end() {
        let tenths = |tenths| Some(i256::from_i128(tenths).wrapping_mul(i256::from_i128(10_i128.pow(37))));
        let numbers = Decimal256Array::from(vec![tenths(25), None, tenths(-100), tenths(0)]);
        let numbers = numbers.with_precision_and_scale(76, 38).unwrap();
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).unwrap();
        for (format, expected) in [
            (Format::JsonLines, "{\"n\":2.5}\n{\"n\":null}\n{\"n\":-10}\n{\"n\":0}\n"),
            (Format::Csv, "2.5\n\n-10\n0\n"),
        ] {
            let mut writer = BodyWriter::new(format, batch.schema()).unwrap();
            assert_eq!(String::from_utf8(writer.batch(&batch).unwrap()).unwrap(), expected);
        }
        // Readers of Arrow know decimals of 38 digits.
        let mut writer = BodyWriter::new(Format::Arrow, batch.schema()).unwrap();
        let mut bytes = writer.batch(&batch).unwrap();
        bytes.extend(writer.end(&[]).unwrap());
        let read = arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap().next().unwrap().unwrap();
        let numbers = read.column(0).as_primitive::<Decimal128Type>();
        let written = (0..4).map(|row| numbers.is_valid(row).then(|| numbers.value_as_string(row)));
        let zeros = "0".repeat(18);
        let expected =
            [Some(format!("2.5{}", "0".repeat(17))), None, Some(format!("-10.{zeros}")), Some(format!("0.{zeros}"))];
        assert_eq!(written.collect::<Vec<_>>(), expected);
    }
}
