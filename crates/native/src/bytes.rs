//! Numbers, texts and rows as bytes: little-endian, with lengths in front.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

/// Writes values behind one another.
#[derive(Default)]
pub struct Encoder(pub Vec<u8>);

impl Encoder {
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn signed(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub fn numbers(&mut self, values: &[i64]) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| self.signed(*value));
    }

    /// As [`numbers`](Self::numbers), by their differences: in seven bits of a byte each, the lowest first, with the
    /// highest bit set in all but the last. Of numbers that ascend slowly, one takes a byte.
    pub fn differences(&mut self, values: &[i64]) {
        self.number(values.len() as u64);
        let mut before = 0i64;
        for value in values {
            let step = value.wrapping_sub(before);
            let mut rest = (step << 1 ^ step >> 63) as u64;
            while rest >= 0x80 {
                self.0.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.0.push(rest as u8);
            before = *value;
        }
    }

    /// Columns, as Arrow's stream format has them.
    pub fn schema(&mut self, schema: &Schema) -> Result<()> {
        let mut bytes = Vec::new();
        let writer = StreamWriter::try_new(&mut bytes, schema).and_then(|mut writer| writer.finish());
        writer.map_err(from_arrow)?;
        self.bytes(&bytes);
        Ok(())
    }

    /// Rows with their columns, as Arrow's stream format has them.
    pub fn rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &rows.schema()).map_err(from_arrow)?;
        writer.write(&own_texts(rows)?).and_then(|()| writer.finish()).map_err(from_arrow)?;
        drop(writer);
        self.bytes(&bytes);
        Ok(())
    }
}

/// The same rows, whose texts keep nothing beside themselves alive: what is written of a text view is all that it may
/// refer to.
fn own_texts(rows: &RecordBatch) -> Result<RecordBatch> {
    let column = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column.clone(),
    };
    let columns = rows.columns().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options).map_err(from_arrow)
}

/// Reads them. Fails with kind `File` where there are fewer bytes than a value needs.
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u64> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| too_short())
    }

    pub fn signed(&mut self) -> Result<i64> {
        self.take(8)?.try_into().map(i64::from_le_bytes).map_err(|_| too_short())
    }

    pub fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| too_short())
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Error::file("a text is not UTF-8"))
    }

    pub fn numbers(&mut self) -> Result<Vec<i64>> {
        let count = self.count()?;
        // What is not there is found out before there is memory for it.
        let bytes = self.take(count.checked_mul(8).ok_or_else(too_short)?)?;
        Ok(bytes.chunks_exact(8).filter_map(|chunk| chunk.try_into().ok().map(i64::from_le_bytes)).collect())
    }

    pub fn differences(&mut self) -> Result<Vec<i64>> {
        let count = self.count()?;
        if count > self.0.len() {
            return Err(too_short());
        }
        let (mut values, mut before) = (Vec::with_capacity(count), 0i64);
        for _ in 0..count {
            let mut step = 0u64;
            for place in 0.. {
                let byte = self.byte()?;
                if place > 9 {
                    return Err(Error::file("a number is longer than numbers are"));
                }
                step |= u64::from(byte & 0x7f).wrapping_shl(7 * place);
                if byte < 0x80 {
                    break;
                }
            }
            before = before.wrapping_add((step >> 1) as i64 ^ -((step & 1) as i64));
            values.push(before);
        }
        Ok(values)
    }

    pub fn schema(&mut self) -> Result<SchemaRef> {
        Ok(self.stream()?.schema())
    }

    pub fn rows(&mut self) -> Result<RecordBatch> {
        let mut stream = self.stream()?;
        let rows = stream.next().ok_or_else(|| Error::file("rows are missing"))?;
        rows.map_err(from_arrow)
    }

    fn stream(&mut self) -> Result<StreamReader<Cursor<&'a [u8]>>> {
        StreamReader::try_new(Cursor::new(self.bytes()?), None).map_err(from_arrow)
    }

    pub fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::file("a record is longer than what it says")) }
    }
}

fn too_short() -> Error {
    Error::file("a record ends too early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_come_back_and_are_short() {
        for values in [vec![], vec![7], vec![i64::MIN, i64::MAX, 0, -1], (0..5000).map(|row| row * 3).collect()] {
            let mut encoder = Encoder::default();
            encoder.differences(&values);
            assert!(values.len() < 100 || encoder.0.len() < values.len() + 20);
            let mut decoder = Decoder(&encoder.0);
            assert_eq!(decoder.differences().unwrap(), values);
            decoder.end().unwrap();
            for end in 0..encoder.0.len() {
                assert!(Decoder(&encoder.0[..end]).differences().is_err(), "{end}");
            }
        }
        let endless = [&2u64.to_le_bytes()[..], &[0x80; 40]].concat();
        assert!(Decoder(&endless).differences().is_err());
    }
}
