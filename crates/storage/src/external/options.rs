//! How a foreign file is to be read, where its name and first bytes do not say it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use diligence_base::{Error, Result};

use super::rejects::Rejects;

/// A format of foreign files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, the file format (Feather V2) or the stream format.
    Arrow,
    /// Separated values: commas, tabs, or what the options say.
    Csv,
    /// One JSON object per line, or one array of objects.
    Json,
    /// A folder of Parquet files with Delta Lake's log.
    Delta,
    /// A folder of Parquet files with Iceberg's metadata.
    Iceberg,
    /// A table of a database of SQLite.
    Sqlite,
}

/// A compression of a whole file. Parquet and Arrow files compress inside and have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// None.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstandard,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
}

/// The column that has the number of a row in its file ([`OpenOptions::row_numbers`]).
pub const ROW_NUMBER_COLUMN: &str = "file_row_number";

/// What stands in front of the place of a column, from 0 on, that has a type whatever it is called
/// ([`OpenOptions::types`]).
pub const PLACE: &str = "place \u{1}";

/// How to open foreign files as a table. The default finds everything out.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format; told from the names and the first bytes if `None`.
    pub format: Option<Format>,
    /// The compression of the whole file; told from the name and the first bytes if `None`.
    pub compression: Option<Compression>,
    /// Columns and types as declared in the statement; inferred if `None`. The types may be any that the values convert
    /// to; the table's schema has their logical forms. They decide the order; one that a file does not have is NULL
    /// there, and a NULL in one that is not nullable is an error where it is read.
    pub schema: Option<SchemaRef>,
    /// The columns whose values are in the names of folders (`key=value`), outermost first, as declared. They come
    /// last. `None`: every key of a folder's name is a column, unless columns are declared without it.
    pub partition_columns: Option<Vec<String>>,
    /// For separated values.
    pub csv: CsvOptions,
    /// For JSON.
    pub json: JsonOptions,
    /// Records looked at to infer the schema of text files; 0 means the default, 10,000.
    pub inference_rows: usize,
    /// Whether records of text files that are wrong are left out.
    pub ignore_errors: bool,
    /// Further locations, whose files are the table's, too.
    pub also: Vec<String>,
    /// Types of columns by name, where they are not inferred; of folder names as well.
    pub types: Vec<(String, FieldRef)>,
    /// The name of a column that has the name of the file that a row is from.
    pub filename: Option<String>,
    /// Whether one more column of Parquet files, [`ROW_NUMBER_COLUMN`], has the number of the row in its file, from 0.
    pub row_numbers: bool,
    /// Whether values in the names of folders are texts unless a type is given.
    pub folder_texts: bool,
    /// The encoding of text files; UTF-8, or what a byte order mark says, if `None`.
    pub encoding: Option<Encoding>,
    /// The table of a database.
    pub table: Option<String>,
    /// Where records of separated values go that are left out, if somebody may ask for them.
    pub rejects: Option<Arc<Rejects>>,
    /// How many of them are kept at most; 0 for no such limit.
    pub rejects_max: usize,
    /// The state of a lake's table that is meant; the last one if `None`.
    pub moment: Option<LakeMoment>,
    /// The catalog that says where a table of Iceberg is; the location is the table's name then.
    pub catalog: Option<RestCatalog>,
    /// Whether bytes of Parquet files of which nothing else is told are texts, as old writers mean them.
    pub bytes_as_texts: bool,
}

/// A catalog of Iceberg tables that is asked over HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RestCatalog {
    /// The URL of its interface, without the version of the protocol.
    pub endpoint: String,
    /// Which of its warehouses is meant, if it has several.
    pub warehouse: Option<String>,
    /// The bearer token. `None`: the one in the environment (`ICEBERG_TOKEN`), if there is one.
    pub token: Option<String>,
}

impl fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages must not have the token.
        write!(f, "RestCatalog({}, {:?})", self.endpoint, self.warehouse)
    }
}

/// How the characters of a text file are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16; little endian if no byte order mark says otherwise.
    Utf16,
    /// UTF-16, big endian.
    Utf16BigEndian,
    /// ISO 8859-1.
    Latin1,
    /// Windows' code page 1252.
    Cp1252,
}

impl Encoding {
    /// The encoding by its name in SQL. Fails with kind `Input` for one that is not known.
    pub fn from_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().replace(['-', '_', ' '], "").as_str() {
            "utf8" => Ok(Encoding::Utf8),
            "utf16" | "utf16le" => Ok(Encoding::Utf16),
            "utf16be" => Ok(Encoding::Utf16BigEndian),
            "latin1" | "iso88591" | "l1" => Ok(Encoding::Latin1),
            "cp1252" | "windows1252" | "win1252" => Ok(Encoding::Cp1252),
            _ => Err(Error::input(format!("no encoding is named '{name}'"))
                .with_hint("the encodings are utf-8, utf-16, utf-16be, latin-1 and cp1252")),
        }
    }
}

/// The bytes of a delimiter at most.
pub const DELIMITER_BYTES_MAX: usize = 4;

/// How separated values are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsvOptions {
    /// What is between fields, or its first byte. `None`: a tab for names like `.tsv`, else what the first lines show
    /// (`,` `;` tab `|`).
    pub delimiter: Option<u8>,
    /// The bytes of that delimiter behind its first one, if it has several: [`DELIMITER_BYTES_MAX`] at most.
    pub delimiter_tail: Vec<u8>,
    /// Whether the first record holds the names. `None`: true unless the first record looks like the others.
    pub has_header: Option<bool>,
    /// The quote; `"` if `None`.
    pub quote: Option<u8>,
    /// A byte that makes the next one literal inside quotes; doubled quotes if `None`.
    pub escape: Option<u8>,
    /// What begins with it, up to the end of the line, is left out, unless it is in quotes.
    pub comment: Option<u8>,
    /// Whether only whole lines are left out, that begin with it.
    pub comments_are_lines: bool,
    /// Columns of text in which no text stands for NULL, and empty fields are empty texts.
    pub without_nulls: Vec<String>,
    /// The texts that stand for NULL, besides an empty field without quotes in columns that are not strings.
    pub nulls: Vec<String>,
    /// Lines before the header or the first record.
    pub skip: usize,
    /// The point in numbers; `.` if `None`.
    pub decimal: Option<u8>,
    /// What may stand between groups of three digits.
    pub thousands: Option<u8>,
    /// How dates are written, as in `strptime`; as in ISO 8601 if `None`.
    pub date_format: Option<String>,
    /// How timestamps are written.
    pub timestamp_format: Option<String>,
    /// Whether every column is text.
    pub all_text: bool,
    /// The columns' names, instead of those in the header.
    pub names: Vec<String>,
    /// Whether records with too few fields have NULL in the last columns.
    pub null_padding: bool,
    /// Whether the texts that stand for NULL do so in quotes, too.
    pub quoted_nulls: bool,
    /// The types that columns may have, beside text; all if there are none.
    pub candidates: Vec<Candidate>,
    /// Whether names in the header become names that need no quotes.
    pub plain_names: bool,
    /// Whether declared columns are those of the file in their order, whatever the header says, if they are as many.
    pub in_order: bool,
    /// Whether quotes may begin and end anywhere in a field, as in PostgreSQL's COPY.
    pub quotes_inside: bool,
}

/// A type that the values of a file of separated values may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// Truth values.
    Boolean,
    /// Whole numbers of 64 bits.
    Integer,
    /// Whole numbers of up to 38 digits.
    Long,
    /// Numbers of double precision.
    Double,
    /// Dates.
    Date,
    /// Times of day.
    Time,
    /// Timestamps, with a time zone or without.
    Timestamp,
    /// Anything.
    Text,
}

/// How the columns of JSON files are found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JsonOptions {
    /// Objects with more keys are maps; `usize::MAX` for none. `None`: those with very many of which each has few.
    pub map_keys_max: Option<usize>,
    /// Objects that have a smaller part of their keys, on average, are maps, whatever number of keys they have.
    pub appearance_percent: Option<u8>,
    /// Whether each record is one value of one column.
    pub whole: bool,
    /// How deep values are looked into; what is deeper is JSON. Fields of records are one deep.
    pub depth_max: Option<usize>,
    /// Whether that column is JSON.
    pub untyped: bool,
    /// Whether every record must be an object.
    pub objects_only: bool,
    /// Whether a file is one array of records. `None`: where it begins with an array and nothing follows that.
    pub array: Option<bool>,
    /// How dates are written, as in `strptime`; as in ISO 8601 if `None`.
    pub date_format: Option<String>,
    /// How timestamps are written.
    pub timestamp_format: Option<String>,
}

impl JsonOptions {
    /// The part of their keys that objects have at least, on average, that are no maps.
    pub(crate) fn appearance_min(&self) -> Option<f64> {
        self.appearance_percent.map(|percent| f64::from(percent) / 100.0)
    }
}

impl Format {
    /// The name in messages and EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "Parquet",
            Format::Arrow => "Arrow",
            Format::Csv => "CSV",
            Format::Json => "JSON",
            Format::Delta => "Delta Lake",
            Format::Iceberg => "Iceberg",
            Format::Sqlite => "SQLite",
        }
    }

    /// The name in names of tables and files.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Delta => "delta",
            Format::Iceberg => "iceberg",
            Format::Sqlite => "sqlite",
        }
    }

    /// The format by its name in SQL (`STORED AS …`). Fails with kind `Input` for one that is not known.
    pub fn from_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Format::Parquet),
            "arrow" | "ipc" | "feather" | "arrows" => Ok(Format::Arrow),
            "csv" | "tsv" => Ok(Format::Csv),
            "json" | "jsonl" | "ndjson" | "ldjson" => Ok(Format::Json),
            "delta" | "deltalake" | "delta_lake" => Ok(Format::Delta),
            "iceberg" => Ok(Format::Iceberg),
            "sqlite" => Ok(Format::Sqlite),
            _ => Err(Error::input(format!("no file format is named '{name}'"))
                .with_hint("the formats are PARQUET, CSV, JSON, ARROW, DELTA, ICEBERG and SQLITE")),
        }
    }

    /// How a file's name ends that shows this format and compression.
    pub fn ending(self, compression: Compression) -> String {
        let format = self.short_name();
        match compression {
            Compression::Plain => format!(".{format}"),
            Compression::Gzip => format!(".{format}.gz"),
            Compression::Zstandard => format!(".{format}.zst"),
            Compression::Bzip2 => format!(".{format}.bz2"),
            Compression::Xz => format!(".{format}.xz"),
        }
    }

    /// The format and compression that a file's name shows.
    pub fn of_name(name: &str) -> Option<(Self, Compression)> {
        let lower = name.to_ascii_lowercase();
        let (compression, inner) = match lower.rsplit_once('.') {
            Some((inner, "gz" | "gzip")) => (Compression::Gzip, inner),
            Some((inner, "zst" | "zstd")) => (Compression::Zstandard, inner),
            Some((inner, "bz2")) => (Compression::Bzip2, inner),
            Some((inner, "xz")) => (Compression::Xz, inner),
            _ => (Compression::Plain, lower.as_str()),
        };
        let format = match inner.rsplit_once('.')?.1 {
            "parquet" | "parq" | "pq" => Format::Parquet,
            "arrow" | "feather" | "ipc" | "arrows" => Format::Arrow,
            "csv" | "tsv" | "tab" | "psv" => Format::Csv,
            "json" | "jsonl" | "ndjson" | "ldjson" => Format::Json,
            _ => return None,
        };
        (compression == Compression::Plain || matches!(format, Format::Csv | Format::Json))
            .then_some((format, compression))
    }

    /// The format that a file's first bytes show, where they do.
    pub fn of_magic(first: &[u8]) -> Option<Self> {
        if first.starts_with(b"PAR1") || first.starts_with(b"PARE") {
            return Some(Format::Parquet);
        }
        if first.starts_with(b"ARROW1") || first.starts_with(&[0xff, 0xff, 0xff, 0xff]) {
            return Some(Format::Arrow);
        }
        match first.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') => Some(Format::Json),
            _ => None,
        }
    }
}

impl Compression {
    /// The compression that a file's first bytes show.
    pub fn of_magic(first: &[u8]) -> Self {
        if first.starts_with(&[0x1f, 0x8b]) {
            Compression::Gzip
        } else if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Compression::Zstandard
        } else if first.starts_with(b"BZh") {
            Compression::Bzip2
        } else if first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Compression::Xz
        } else {
            Compression::Plain
        }
    }

    /// The compression by its name in SQL (`OPTIONS (compression 'gzip')`). Fails with kind `Input` for one that is not
    /// known.
    pub fn from_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "" | "none" | "uncompressed" | "plain" => Ok(Compression::Plain),
            "gz" | "gzip" => Ok(Compression::Gzip),
            "zst" | "zstd" | "zstandard" => Ok(Compression::Zstandard),
            "bz2" | "bzip2" => Ok(Compression::Bzip2),
            "xz" => Ok(Compression::Xz),
            _ => Err(Error::input(format!("no compression is named '{name}'"))
                .with_hint("the compressions are GZIP, ZSTD, BZIP2, XZ and NONE")),
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Plain => "none",
            Compression::Gzip => "gzip",
            Compression::Zstandard => "zstd",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }
}

impl OpenOptions {
    /// A number that differs when the options give other rows for the same bytes.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.format.hash(&mut hasher);
        self.compression.hash(&mut hasher);
        self.csv.hash(&mut hasher);
        self.json.hash(&mut hasher);
        self.inference_rows.hash(&mut hasher);
        self.ignore_errors.hash(&mut hasher);
        self.also.hash(&mut hasher);
        self.types.hash(&mut hasher);
        self.filename.hash(&mut hasher);
        self.row_numbers.hash(&mut hasher);
        self.encoding.hash(&mut hasher);
        self.moment.hash(&mut hasher);
        self.catalog.as_ref().map(|catalog| (&catalog.endpoint, &catalog.warehouse)).hash(&mut hasher);
        self.table.hash(&mut hasher);
        self.folder_texts.hash(&mut hasher);
        self.bytes_as_texts.hash(&mut hasher);
        self.partition_columns.hash(&mut hasher);
        if let Some(schema) = &self.schema {
            for field in schema.fields() {
                field.name().hash(&mut hasher);
                field.data_type().hash(&mut hasher);
                field.is_nullable().hash(&mut hasher);
                field.metadata().values().for_each(|value| value.hash(&mut hasher));
            }
        }
        hasher.finish()
    }

    /// Records to look at for the schema of a text file.
    pub(crate) fn rows_to_infer(&self) -> usize {
        if self.inference_rows == 0 { INFERENCE_ROWS_DEFAULT } else { self.inference_rows }
    }
}

/// Records looked at to infer a schema: enough to meet the rare decimal point or empty field, few enough to be instant.
const INFERENCE_ROWS_DEFAULT: usize = 10_000;

/// The state of a lake's table that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LakeMoment {
    /// By its number: a Delta Lake table's version, or the number of an Iceberg table's snapshot.
    Version(i64),
    /// The last one that was there at a time, in microseconds since 1970.
    Time(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_format_and_compression() {
        assert_eq!(Format::of_name("a.PARQUET"), Some((Format::Parquet, Compression::Plain)));
        assert_eq!(Format::of_name("/x.y/a.csv.gz"), Some((Format::Csv, Compression::Gzip)));
        assert_eq!(Format::of_name("a.ndjson.zst"), Some((Format::Json, Compression::Zstandard)));
        assert_eq!(Format::of_name("a.parquet.gz"), None);
        assert_eq!(Format::of_name("a"), None);
        assert_eq!(Format::of_name("a.txt"), None);
        for compression in [Compression::Plain, Compression::Gzip, Compression::Zstandard, Compression::Xz] {
            let ending = Format::Csv.ending(compression);
            assert_eq!(Format::of_name(&format!("a{ending}")), Some((Format::Csv, compression)));
        }
    }

    #[test]
    fn first_bytes_show_the_format() {
        assert_eq!(Format::of_magic(b"PAR1...."), Some(Format::Parquet));
        assert_eq!(Format::of_magic(b"ARROW1\0\0"), Some(Format::Arrow));
        assert_eq!(Format::of_magic(b"  {\"a\":1}"), Some(Format::Json));
        assert_eq!(Format::of_magic(b"a,b,c\n"), None);
        assert_eq!(Compression::of_magic(&[0x1f, 0x8b, 8]), Compression::Gzip);
    }
}
