//! What there is to know about files themselves: footers of Parquet files, and how separated values are written.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::Type;

use super::location::locate;
use super::options::{Format, OpenOptions};
use super::parquet::footers;
use super::schema::type_name;
use super::text::csv::CsvTable;
use crate::foreign_error::from_arrow;

/// What is told about Parquet files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParquetAbout {
    /// A row for each file.
    Files,
    /// A row for each column chunk.
    Chunks,
    /// A row for each element of the schema.
    Schema,
    /// A row for each pair of the file's metadata.
    Pairs,
}

/// A column of a table about files.
enum Told {
    Text(Vec<Option<String>>),
    Count(Vec<Option<i64>>),
    Truth(Vec<bool>),
}

fn batch(columns: Vec<(&str, Told)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, told)| {
        let array: ArrayRef = match told {
            Told::Text(values) => Arc::new(StringViewArray::from_iter(values)),
            Told::Count(values) => Arc::new(Int64Array::from(values)),
            Told::Truth(values) => Arc::new(BooleanArray::from(values)),
        };
        (Field::new(name, array.data_type().clone(), true), array)
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(from_arrow)
}

/// A file: its name, its length, its footer, and the columns that it says.
type OpenedFile = (String, u64, Arc<ParquetMetaData>, SchemaRef);

/// A table about the Parquet files of these locations. Fails with kind `File` if one cannot be read.
pub fn about_parquet(locations: &[String], about: ParquetAbout, disk: &Arc<dyn Disk>) -> Result<RecordBatch> {
    let options = OpenOptions { format: Some(Format::Parquet), ..OpenOptions::default() };
    let mut files: Vec<OpenedFile> = Vec::new();
    for location in locations {
        let sources = locate(location, &options, disk)?.sources;
        let read = footers(&sources)?;
        files.extend(sources.iter().zip(read).map(|(source, (metadata, schema))| {
            let name = source.name.strip_prefix("./").unwrap_or(&source.name).to_owned();
            (name, source.bytes, metadata, schema)
        }));
    }
    match about {
        ParquetAbout::Files => {
            let text = |of: &dyn Fn(&ParquetMetaData) -> Option<String>| {
                Told::Text(files.iter().map(|(_, _, metadata, _)| of(metadata)).collect())
            };
            let count = |of: &dyn Fn(&ParquetMetaData) -> i64| {
                Told::Count(files.iter().map(|(_, _, metadata, _)| Some(of(metadata))).collect())
            };
            batch(vec![
                ("file_name", Told::Text(files.iter().map(|file| Some(file.0.clone())).collect())),
                ("created_by", text(&|metadata| metadata.file_metadata().created_by().map(str::to_owned))),
                ("num_rows", count(&|metadata| metadata.file_metadata().num_rows())),
                ("num_row_groups", count(&|metadata| metadata.num_row_groups() as i64)),
                ("format_version", count(&|metadata| i64::from(metadata.file_metadata().version()))),
                ("file_size_bytes", Told::Count(files.iter().map(|file| Some(file.1 as i64)).collect())),
            ])
        }
        ParquetAbout::Pairs => {
            let (mut names, mut keys, mut values) = (vec![], vec![], vec![]);
            for (name, _, metadata, _) in &files {
                for pair in metadata.file_metadata().key_value_metadata().into_iter().flatten() {
                    names.push(Some(name.clone()));
                    keys.push(Some(pair.key.clone()));
                    values.push(pair.value.clone());
                }
            }
            let text = Told::Text;
            batch(vec![("file_name", text(names)), ("key", text(keys)), ("value", text(values))])
        }
        ParquetAbout::Schema => {
            let mut elements = Vec::new();
            for (name, _, metadata, _) in &files {
                elements_of(name, metadata.file_metadata().schema_descr().root_schema(), true, &mut elements);
            }
            let text = |of: &dyn Fn(&Element) -> Option<String>| Told::Text(elements.iter().map(of).collect());
            let count = |of: &dyn Fn(&Element) -> Option<i64>| Told::Count(elements.iter().map(of).collect());
            batch(vec![
                ("file_name", text(&|element| Some(element.file.clone()))),
                ("name", text(&|element| Some(element.name.clone()))),
                ("type", text(&|element| element.physical.clone())),
                ("type_length", text(&|element| element.length.clone())),
                ("repetition_type", text(&|element| element.repetition.clone())),
                ("num_children", count(&|element| element.children)),
                ("converted_type", text(&|element| element.converted.clone())),
                ("scale", count(&|element| element.scale)),
                ("precision", count(&|element| element.precision)),
                ("field_id", count(&|element| element.id)),
                ("logical_type", text(&|element| element.logical.clone())),
            ])
        }
        ParquetAbout::Chunks => about_chunks(&files),
    }
}

/// A row for each column chunk.
fn about_chunks(files: &[OpenedFile]) -> Result<RecordBatch> {
    let mut chunks = Vec::new();
    for (name, _, metadata, schema) in files {
        for column in 0..metadata.file_metadata().schema_descr().num_columns() {
            let bounds = bounds(metadata, schema, column);
            for group in 0..metadata.num_row_groups() {
                let (least, greatest) = bounds.get(group).cloned().unwrap_or_default();
                chunks.push((name, metadata, group, column, least, greatest));
            }
        }
    }
    chunks.sort_by(|a, b| (a.0, a.2, a.3).cmp(&(b.0, b.2, b.3)));
    let text = |of: &dyn Fn(usize) -> Option<String>| Told::Text((0..chunks.len()).map(of).collect());
    let count = |of: &dyn Fn(usize) -> Option<i64>| Told::Count((0..chunks.len()).map(of).collect());
    let group = |at: usize| chunks[at].1.row_group(chunks[at].2);
    let chunk = |at: usize| group(at).column(chunks[at].3);
    let distinct = |at: usize| Some(chunk(at).statistics()?.distinct_count_opt()? as i64);
    batch(vec![
        ("file_name", text(&|at| Some(chunks[at].0.clone()))),
        ("row_group_id", count(&|at| Some(chunks[at].2 as i64))),
        ("row_group_num_rows", count(&|at| Some(group(at).num_rows()))),
        ("row_group_num_columns", count(&|at| Some(group(at).num_columns() as i64))),
        ("row_group_bytes", count(&|at| Some(group(at).total_byte_size()))),
        ("column_id", count(&|at| Some(chunks[at].3 as i64))),
        ("file_offset", count(&|at| Some(chunk(at).file_offset()))),
        ("num_values", count(&|at| Some(chunk(at).num_values()))),
        ("path_in_schema", text(&|at| Some(chunk(at).column_path().parts().join(", ")))),
        ("type", text(&|at| Some(chunk(at).column_type().to_string()))),
        ("stats_min", text(&|at| chunks[at].4.clone())),
        ("stats_max", text(&|at| chunks[at].5.clone())),
        ("stats_null_count", count(&|at| Some(chunk(at).statistics()?.null_count_opt()? as i64))),
        ("stats_distinct_count", count(&distinct)),
        ("stats_min_value", text(&|at| chunks[at].4.clone())),
        ("stats_max_value", text(&|at| chunks[at].5.clone())),
        (
            "compression",
            text(&|at| {
                let named = chunk(at).compression().to_string();
                Some(named.split('(').next().unwrap_or_default().to_owned())
            }),
        ),
        (
            "encodings",
            text(&|at| {
                let names = chunk(at).encodings().map(|encoding| encoding.to_string()).collect::<Vec<_>>();
                Some(names.join(", "))
            }),
        ),
        ("index_page_offset", count(&|at| chunk(at).index_page_offset())),
        ("dictionary_page_offset", count(&|at| chunk(at).dictionary_page_offset())),
        ("data_page_offset", count(&|at| Some(chunk(at).data_page_offset()))),
        ("total_compressed_size", count(&|at| Some(chunk(at).compressed_size()))),
        ("total_uncompressed_size", count(&|at| Some(chunk(at).uncompressed_size()))),
    ])
}

/// The least and greatest values of a column in each row group, as texts where the footer has them.
fn bounds(metadata: &ParquetMetaData, schema: &Schema, column: usize) -> Vec<(Option<String>, Option<String>)> {
    let descriptor = metadata.file_metadata().schema_descr();
    let path = descriptor.column(column).path().parts().to_vec();
    let [name] = path.as_slice() else { return Vec::new() };
    let texts = |array: parquet::errors::Result<ArrayRef>| {
        let array = array.ok()?;
        let text = cast_with_options(&array, &DataType::Utf8, &CastOptions::default()).ok()?;
        let text = text.as_any().downcast_ref::<StringArray>()?;
        Some(text.iter().map(|value| value.map(str::to_owned)).collect::<Vec<_>>())
    };
    let Ok(converter) = StatisticsConverter::try_new(name, schema, descriptor) else { return Vec::new() };
    let groups = metadata.row_groups();
    let least = texts(converter.row_group_mins(groups));
    let greatest = texts(converter.row_group_maxes(groups));
    least.zip(greatest).map_or_else(Vec::new, |(least, greatest)| least.into_iter().zip(greatest).collect())
}

/// An element of a Parquet schema.
#[derive(Default)]
struct Element {
    file: String,
    name: String,
    physical: Option<String>,
    length: Option<String>,
    repetition: Option<String>,
    children: Option<i64>,
    converted: Option<String>,
    scale: Option<i64>,
    precision: Option<i64>,
    id: Option<i64>,
    logical: Option<String>,
}

fn elements_of(file: &str, element: &Type, is_root: bool, all: &mut Vec<Element>) {
    let info = element.get_basic_info();
    let converted = info.converted_type().to_string();
    let mut found = Element {
        file: file.to_owned(),
        name: info.name().to_owned(),
        repetition: (!is_root && info.has_repetition()).then(|| info.repetition().to_string()),
        converted: (converted != "NONE").then_some(converted),
        id: info.has_id().then(|| i64::from(info.id())),
        logical: info.logical_type_ref().map(|logical| format!("{logical:?}")),
        ..Element::default()
    };
    match element {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            found.physical = Some(physical_type.to_string());
            found.length = (*type_length > 0).then(|| type_length.to_string());
            if *precision > 0 {
                (found.scale, found.precision) = (Some(i64::from(*scale)), Some(i64::from(*precision)));
            }
            all.push(found);
        }
        Type::GroupType { fields, .. } => {
            found.children = Some(fields.len() as i64);
            all.push(found);
            fields.iter().for_each(|field| elements_of(file, field, false, all));
        }
    }
}

/// How a file of separated values is written, as it is found out when it is opened. Fails with kind `File` if it cannot
/// be read.
pub fn sniffed(location: &str, options: &OpenOptions, disk: Arc<dyn Disk>) -> Result<RecordBatch> {
    let options = OpenOptions { format: Some(Format::Csv), ..options.clone() };
    let located = locate(location, &options, &disk)?;
    let Some(first) = located.sources.first() else { return Err(Error::input("there is no file to look at")) };
    let table = CsvTable::open(std::slice::from_ref(first), &options)?;
    let (dialect, has_header, skip) = table.dialect();
    let text = |byte: u8| Told::Text(vec![Some(char::from(byte).to_string())]);
    let types = table.schema.fields().iter().map(|field| (field.name(), type_name(field.data_type())));
    let types = types.map(|(name, told)| format!("'{}': '{told}'", name.replace('\'', "''")));
    let columns = format!("{{{}}}", types.collect::<Vec<_>>().join(", "));
    let delimiter = String::from_utf8_lossy(&dialect.delimiter_bytes()).replace('\t', "\\t");
    let comment = dialect.comment.map(|byte| char::from(byte).to_string());
    let mut more = String::new();
    if skip > 0 {
        more += &format!(", skip = {skip}");
    }
    if let Some(comment) = &comment {
        more += &format!(", comment = '{}'", comment.replace('\'', "''"));
    }
    if let Some(escape) = dialect.escape.filter(|escape| *escape != dialect.quote) {
        more += &format!(", escape = '{}'", char::from(escape).to_string().replace('\'', "''"));
    }
    if let Some(format) = table.date_format() {
        more += &format!(", dateformat = '{}'", format.replace('\'', "''"));
    }
    let prompt = format!(
        "FROM read_csv('{}', delim = '{delimiter}', quote = '{}', header = {has_header}{more}, columns = {columns})",
        location.replace('\'', "''"),
        char::from(dialect.quote).to_string().replace('\'', "''"),
    );
    batch(vec![
        ("Delimiter", Told::Text(vec![Some(delimiter)])),
        ("Quote", text(dialect.quote)),
        ("Escape", text(dialect.escape.unwrap_or(dialect.quote))),
        ("Comment", Told::Text(vec![comment])),
        ("SkipRows", Told::Count(vec![Some(skip as i64)])),
        ("HasHeader", Told::Truth(vec![has_header])),
        ("Columns", Told::Text(vec![Some(columns)])),
        ("DateFormat", Told::Text(vec![table.date_format()])),
        ("TimestampFormat", Told::Text(vec![options.csv.timestamp_format.clone()])),
        ("Prompt", Told::Text(vec![Some(prompt)])),
    ])
}
