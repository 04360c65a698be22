//! How files are written: what COPY and the options of a table say about it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::json::writer::{LineDelimited, WriterBuilder as JsonBuilder};
use bzip2::write::BzEncoder;
use datafusion_common::config::TableParquetOptions;
use diligence_base::{Error, Result};
use diligence_types::text::Forms;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;

use super::csv::{CsvForm, write_header, write_rows};
use super::names::FileNames;
use crate::external::options::{Compression, Encoding, Format};
use crate::external::text::encode;
use crate::foreign_error::from_arrow;

/// A format with all that is said about how it is written.
#[derive(Clone, Debug)]
pub enum WriteFormat {
    /// Apache Parquet.
    Parquet(Box<TableParquetOptions>),
    /// The file format of Arrow IPC, compressed with LZ4.
    Arrow,
    /// Separated values.
    Csv(WriterBuilder, Packing),
    /// One JSON object per line.
    Json(Packing),
}

/// How a whole file of text is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The compression.
    pub compression: Compression,
    /// Its level; its own default if `None`.
    pub level: Option<u32>,
}

/// What is said besides about files that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteExtras {
    /// What stands around the rows of a file of text.
    pub frame: Option<Frame>,
    /// Columns whose values are in quotes in CSV, whatever they are; `*` for all. NULL never is.
    pub quoted_columns: Vec<String>,
    /// What is between the fields of CSV, if it has several bytes.
    pub delimiter: Option<String>,
    /// How the characters of a file of text are encoded; UTF-8 if `None`.
    pub encoding: Option<Encoding>,
    /// Ids of columns in Parquet, by their names.
    pub field_ids: HashMap<String, i32>,
    /// Bytes of a row group of Parquet at most.
    pub row_group_bytes_max: Option<usize>,
    /// Another file of a folder is begun when one has so many bytes.
    pub file_bytes_max: Option<u64>,
    /// How the files of a folder are called; as no other file is, if `None`.
    pub file_names: Option<FileNames>,
}

/// What a file of text begins with, has between its rows, and ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// In front of the first row.
    pub begin: String,
    /// Between two rows, in the place of a line's end.
    pub between: String,
    /// Behind the last row.
    pub end: String,
}

impl Frame {
    /// Of a JSON array that has a row on each line.
    pub fn of_array() -> Self {
        Self { begin: "[\n\t".to_owned(), between: ",\n\t".to_owned(), end: "\n]\n".to_owned() }
    }
}

impl WriteFormat {
    /// The format alone.
    pub fn format(&self) -> Format {
        match self {
            WriteFormat::Parquet(_) => Format::Parquet,
            WriteFormat::Arrow => Format::Arrow,
            WriteFormat::Csv(..) => Format::Csv,
            WriteFormat::Json(_) => Format::Json,
        }
    }
}

/// Rows as text. One for each packet and file.
pub(super) struct TextEncoder {
    form: TextForm,
    packing: Packing,
    frame: Option<Frame>,
    encoding: Option<Encoding>,
    /// Whether the piece has rows already.
    has_rows: bool,
    packer: Option<Packer>,
    /// What is packed is not in here.
    text: Vec<u8>,
    /// Bytes of the text that are in the file's encoding already.
    encoded: usize,
}

#[derive(Clone)]
enum TextForm {
    Csv(Box<CsvForm>),
    Json,
}

/// A compressed piece of a file. Files are made of many, one after the other: every reader takes that for one.
enum Packer {
    Gzip(GzEncoder<Vec<u8>>),
    Zstandard(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Bzip2(BzEncoder<Vec<u8>>),
    Xz(XzEncoder<Vec<u8>>),
}

/// Of gzip, bzip2 and xz, as their programs have it.
const LEVEL_DEFAULT: u32 = 6;

/// A piece ends when it has so many bytes.
const PIECE_BYTES: usize = 1 << 20;

impl TextEncoder {
    /// For CSV and JSON; `None` for other formats.
    pub fn new(format: &WriteFormat, extras: &WriteExtras) -> Option<Self> {
        let (form, packing) = match format {
            WriteFormat::Csv(builder, packing) => {
                let quoted = extras.quoted_columns.clone();
                let form = CsvForm::new(builder.clone(), quoted, extras.delimiter.as_deref());
                (TextForm::Csv(Box::new(form)), *packing)
            }
            WriteFormat::Json(packing) => (TextForm::Json, *packing),
            WriteFormat::Parquet(_) | WriteFormat::Arrow => return None,
        };
        let own = Self {
            form,
            packing,
            frame: extras.frame.clone(),
            encoding: extras.encoding,
            has_rows: false,
            packer: None,
            text: Vec::new(),
            encoded: 0,
        };
        Some(own)
    }

    /// Another piece of the file, in which nothing is yet.
    fn piece(&self) -> Self {
        Self {
            form: self.form.clone(),
            packing: self.packing,
            frame: None,
            encoding: self.encoding,
            has_rows: false,
            packer: None,
            text: Vec::new(),
            encoded: 0,
        }
    }

    /// What a file begins with, whether it has rows or not.
    pub fn header(&self, schema: &SchemaRef) -> Result<Vec<u8>> {
        let mut own = self.piece();
        if matches!(self.encoding, Some(Encoding::Utf16 | Encoding::Utf16BigEndian)) {
            // The mark that says which of the two it is.
            own.text.extend_from_slice("\u{feff}".as_bytes());
        }
        if let Some(frame) = &self.frame {
            own.text.extend_from_slice(frame.begin.as_bytes());
        }
        if let TextForm::Csv(form) = &self.form
            && form.has_header()
        {
            write_header(form, schema, &mut own.text);
        }
        own.pack()?;
        own.take()
    }

    /// What stands between two pieces; nothing unless the file has a frame.
    pub fn between(&self) -> Result<Vec<u8>> {
        self.packed(self.frame.as_ref().map_or("", |frame| &frame.between))
    }

    /// What the file ends with.
    pub fn end(&self) -> Result<Vec<u8>> {
        self.packed(self.frame.as_ref().map_or("", |frame| &frame.end))
    }

    fn packed(&self, text: &str) -> Result<Vec<u8>> {
        let mut own = self.piece();
        own.text.extend_from_slice(text.as_bytes());
        own.pack()?;
        own.take()
    }

    /// What a file consists of in which there is nothing.
    pub fn empty(&self) -> Result<Vec<u8>> {
        let packer = Packer::new(self.packing).and_then(|packer| packer.map_or(Ok(Vec::new()), Packer::finish));
        packer.map_err(|error| packing_failed(&error))
    }

    /// Adds rows. Fails with kind `Unsupported` or `Value` if the format has no form for a value.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let start = self.text.len();
        match &self.form {
            TextForm::Csv(form) => write_rows(form, rows, &mut self.text)?,
            TextForm::Json => {
                let builder = JsonBuilder::new().with_explicit_nulls(true);
                let mut writer =
                    builder.with_encoder_factory(Arc::new(Forms::Files)).build::<_, LineDelimited>(&mut self.text);
                writer.write(rows).map_err(from_arrow)?;
            }
        }
        self.put_in_frame(start);
        self.pack()
    }

    /// Has rows that are lines behind a place stand between each other as the frame says.
    fn put_in_frame(&mut self, start: usize) {
        let Some(frame) = &self.frame else { return };
        let lines = self.text.split_off(start);
        let Some(rows) = lines.strip_suffix(b"\n") else { return };
        if self.has_rows {
            self.text.extend_from_slice(frame.between.as_bytes());
        }
        self.has_rows = true;
        match self.form {
            // Values of CSV may have line ends in them, those of JSON have none.
            TextForm::Csv(..) => self.text.extend_from_slice(rows),
            TextForm::Json => {
                for (place, row) in rows.split(|byte| *byte == b'\n').enumerate() {
                    if place > 0 {
                        self.text.extend_from_slice(frame.between.as_bytes());
                    }
                    self.text.extend_from_slice(row);
                }
            }
        }
    }

    /// Encodes and packs what is text.
    fn pack(&mut self) -> Result<()> {
        if let Some(encoding) = self.encoding {
            let fresh = self.text.split_off(self.encoded);
            encode(encoding, &fresh, &mut self.text)?;
            self.encoded = self.text.len();
        }
        if self.packing.compression == Compression::Plain || self.text.is_empty() {
            return Ok(());
        }
        if self.packer.is_none() {
            self.packer = Packer::new(self.packing).map_err(|error| packing_failed(&error))?;
        }
        if let Some(packer) = &mut self.packer {
            packer.write_all(&self.text).map_err(|error| packing_failed(&error))?;
            self.text.clear();
            self.encoded = 0;
        }
        Ok(())
    }

    /// Bytes of the piece.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.packer.as_ref().map_or(0, Packer::bytes)
    }

    /// Whether it is time to take them.
    pub fn is_full(&self) -> bool {
        self.bytes() >= PIECE_BYTES
    }

    /// Takes the piece out.
    pub fn take(&mut self) -> Result<Vec<u8>> {
        (self.has_rows, self.encoded) = (false, 0);
        match self.packer.take() {
            Some(packer) => packer.finish().map_err(|error| packing_failed(&error)),
            None => Ok(std::mem::take(&mut self.text)),
        }
    }
}

impl Packer {
    fn new(packing: Packing) -> std::io::Result<Option<Self>> {
        let level = packing.level.unwrap_or(LEVEL_DEFAULT);
        Ok(match packing.compression {
            Compression::Plain => None,
            Compression::Gzip => Some(Packer::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(level.min(9))))),
            Compression::Zstandard => {
                let level = packing.level.map_or(zstd::DEFAULT_COMPRESSION_LEVEL, |level| level as i32);
                Some(Packer::Zstandard(zstd::stream::write::Encoder::new(Vec::new(), level)?))
            }
            Compression::Bzip2 => {
                Some(Packer::Bzip2(BzEncoder::new(Vec::new(), bzip2::Compression::new(level.clamp(1, 9)))))
            }
            Compression::Xz => Some(Packer::Xz(XzEncoder::new(Vec::new(), level.min(9)))),
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Packer::Gzip(encoder) => encoder.get_ref().len(),
            Packer::Zstandard(encoder) => encoder.get_ref().len(),
            Packer::Bzip2(encoder) => encoder.get_ref().len(),
            Packer::Xz(encoder) => encoder.get_ref().len(),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Packer::Gzip(encoder) => encoder.write_all(bytes),
            Packer::Zstandard(encoder) => encoder.write_all(bytes),
            Packer::Bzip2(encoder) => encoder.write_all(bytes),
            Packer::Xz(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> std::io::Result<Vec<u8>> {
        match self {
            Packer::Gzip(encoder) => encoder.finish(),
            Packer::Zstandard(encoder) => encoder.finish(),
            Packer::Bzip2(encoder) => encoder.finish(),
            Packer::Xz(encoder) => encoder.finish(),
        }
    }
}

fn packing_failed(error: &std::io::Error) -> Error {
    Error::resource(format!("rows cannot be compressed: {error}"))
}
