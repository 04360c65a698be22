//! Columns whose values are in folder names: `year=2024/month=5/part.parquet` has the columns `year` and `month`.
//!
//! The files know nothing of these columns: their clusters are wrapped, and the wrapper adds constant columns to what
//! the files give. A column that is in the files, too, is taken from the folder.
//!
//! Values that are all whole numbers make a BIGINT column, all dates a DATE column, anything else text, unless a type
//! is declared: `month=01` is 1.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, StringViewArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion_physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::text::{ReadOptions, parse_array};

use super::options::OpenOptions;
use super::schema::{TYPE_KEY, logical_type, type_name};
use super::source::Source;
use super::text::csv_values::checked_type;
use crate::foreign_error::from_datafusion;
use crate::zones::{ZoneMap, may_be_true};
use crate::{
    AnswerId, Chunk, Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, FirstStep, RowFilter, ScanRequest,
    SharedColumns, SharedItem, Zone,
};

/// What the name of a folder has for NULL, here and with other engines.
pub const NULL_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition columns of a table.
pub(crate) struct Partitions {
    /// The table's columns: the files' and these.
    pub schema: SchemaRef,
    /// For each of the table's columns: its position in the files' schema, or its number among the partition columns.
    places: Vec<ColumnPlace>,
    /// The partition columns' names, outermost first.
    pub names: Vec<String>,
    /// For each file the values of the partition columns.
    values: Vec<Vec<ScalarValue>>,
    /// How many of the names are of folders; one more may be the column of the file's name.
    folder_count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnPlace {
    InFiles(usize),
    InName(usize),
}

/// The `key=value` folders between the base and a file.
fn folders<'a>(base: &str, name: &'a str) -> Vec<(&'a str, &'a str)> {
    let below = name.strip_prefix(base).unwrap_or(name);
    let folders = match below.rsplit_once('/') {
        Some((folders, _)) => folders,
        None => return Vec::new(),
    };
    folders.split('/').filter_map(|folder| folder.split_once('=')).filter(|(key, _)| !key.is_empty()).collect()
}

/// The names of the partition columns of these files, outermost first; empty if there are none.
pub(crate) fn names(base: &str, sources: &[Arc<Source>], options: &OpenOptions) -> Vec<String> {
    if let Some(listed) = &options.partition_columns {
        return listed.clone();
    }
    let mut names: Vec<String> = Vec::new();
    if base.is_empty() && options.also.is_empty() {
        return names;
    }
    for source in sources {
        for (key, _) in folders(base, &source.name) {
            if !names.iter().any(|name| name.eq_ignore_ascii_case(key)) {
                names.push(key.to_owned());
            }
        }
    }
    let Some(declared) = &options.schema else { return names };
    let declared = |name: &String| {
        let field = declared.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name));
        field.map(|field| field.name().clone())
    };
    names.iter().filter_map(declared).collect()
}

/// The value that a folder's name gives a column of a type, which a field says in full if the statement does: the text
/// of SQL, or of other programs.
fn value_of(raw: &str, ty: &DataType, given: Option<&Field>) -> datafusion_common::Result<ScalarValue> {
    let as_sql = given.and_then(SqlType::of_field).and_then(|told| {
        let read = parse_array(&StringViewArray::from(vec![raw]), &told, &ReadOptions::default()).ok()?;
        ScalarValue::try_from_array(&read, 0).ok()?.cast_to(ty).ok()
    });
    as_sql.map_or_else(|| ScalarValue::Utf8View(Some(raw.to_owned())).cast_to(ty), Ok)
}

/// What the field of a column says of its values, if these are texts of a type of their own, such as UUIDs.
fn told_texts(field: &Field) -> HashMap<String, String> {
    let told = field.metadata().get(TYPE_KEY).filter(|_| checked_type(field).is_some());
    told.map(|told| (TYPE_KEY.to_owned(), told.clone())).into_iter().collect()
}

impl Partitions {
    /// Adds these columns to the files' schema. `declared` are the columns of a statement, if it has any.
    pub fn new(
        names: Vec<String>,
        base: &str,
        sources: &[Arc<Source>],
        files: &Schema,
        declared: Option<&Schema>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let listed = options.partition_columns.is_some();
        let folder_count = names.len() - usize::from(options.filename.is_some());
        let raw = sources.iter().map(|source| {
            let mut values = raw_values(&names[..folder_count], base, source, listed)?;
            if options.filename.is_some() {
                values.push(Some(source.name.strip_prefix("./").unwrap_or(&source.name).to_owned()));
            }
            Ok(values)
        });
        let raw = raw.collect::<Result<Vec<_>>>()?;
        let told = |name: &String| options.types.iter().find(|(told, _)| told.eq_ignore_ascii_case(name));
        let given = |name: &String| match declared {
            Some(schema) => schema.field_with_name(name).ok(),
            None => told(name).map(|(_, field)| field.as_ref()),
        };
        let types = names.iter().enumerate().map(|(number, name)| match given(name) {
            _ if number >= folder_count => DataType::Utf8View,
            Some(field) => logical_type(field.data_type()),
            None if options.folder_texts => DataType::Utf8View,
            None => infer(raw.iter().filter_map(|values| values[number].as_deref())),
        });
        let types = types.collect::<Vec<_>>();
        if let Some(name) = options.filename.as_ref().filter(|name| files.index_of(name).is_ok()) {
            let error = format!("the option filename adds the column '{name}', and the files have one of that name");
            return Err(Error::input(error).with_code("42701").with_hint("give it another name: filename = 'file'"));
        }
        let in_files = files.fields().iter().enumerate();
        let mut columns =
            in_files.map(|(at, field)| (Field::clone(field), ColumnPlace::InFiles(at))).collect::<Vec<_>>();
        for (number, (name, ty)) in names.iter().zip(&types).enumerate() {
            let field =
                Field::new(name, ty.clone(), true).with_metadata(given(name).map(told_texts).unwrap_or_default());
            let column = (field, ColumnPlace::InName(number));
            match columns.iter().position(|(field, _)| field.name() == name) {
                Some(position) if !listed => columns[position] = column,
                Some(position) => {
                    columns.remove(position);
                    columns.push(column);
                }
                None => columns.push(column),
            }
        }
        if let (Some(declared), false) = (declared, listed) {
            columns.sort_by_key(|(field, _)| declared.index_of(field.name()).unwrap_or(usize::MAX));
        }
        let (fields, places): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let values = sources.iter().zip(raw).map(|(source, raw)| {
            let values = raw.into_iter().zip(&types).zip(&names).map(|((raw, ty), name)| match raw {
                None if given(name).is_some_and(|field| !field.is_nullable()) => {
                    Err(source.error(format!("no folder gives '{name}' a value, but it is declared NOT NULL")))
                }
                None => ScalarValue::try_from(ty).map_err(from_datafusion),
                Some(raw) => value_of(&raw, ty, given(name)).map_err(|_| {
                    let ty = type_name(ty);
                    source.error(format!("the folder '{name}={raw}' holds no {ty}, as column '{name}' is declared"))
                }),
            });
            values.collect::<Result<Vec<_>>>()
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(Self { schema: Arc::new(Schema::new(fields)), places, names, values, folder_count })
    }

    /// The columns of one file: for each of the table's columns its position in the file, or the value that it has for
    /// all rows.
    pub fn of_file(schema: SchemaRef, columns: Vec<std::result::Result<usize, ScalarValue>>) -> Self {
        let (mut places, mut values) = (Vec::with_capacity(columns.len()), Vec::new());
        for column in columns {
            places.push(match column {
                Ok(position) => ColumnPlace::InFiles(position),
                Err(value) => {
                    values.push(value);
                    ColumnPlace::InName(values.len() - 1)
                }
            });
        }
        Self { schema, places, names: Vec::new(), values: vec![values], folder_count: 0 }
    }

    /// The names of the columns whose values are in folder names.
    pub fn folder_names(&self) -> &[String] {
        &self.names[..self.folder_count]
    }

    /// The request as the files understand it: without the partition columns and without what is asked of them.
    pub fn inner_request(&self, request: &ScanRequest) -> ScanRequest {
        let in_files = |name: &str, index: usize| {
            self.schema.fields().get(index).is_some_and(|field| field.name() == name)
                && matches!(self.places[index], ColumnPlace::InFiles(_))
        };
        let predicate = request.predicate.as_ref().and_then(|predicate| {
            let kept = split_conjunction(predicate)
                .into_iter()
                .filter(|part| collect_columns(part).iter().all(|column| in_files(column.name(), column.index())))
                .cloned()
                .collect::<Vec<_>>();
            (!kept.is_empty()).then(|| conjunction(kept))
        });
        ScanRequest { columns: self.inner_columns(&request.columns), predicate }
    }

    /// For each file whether its folder may hold a wanted row. Empty: all may.
    pub fn files(&self, request: &ScanRequest) -> Vec<bool> {
        let Some(predicate) = request.predicate.as_ref().filter(|_| !self.values.is_empty()) else {
            return Vec::new();
        };
        may_be_true(predicate, &self.schema, self).unwrap_or_default()
    }

    /// A file's cluster with the columns of its folder.
    pub fn wrap(self: &Arc<Self>, file: usize, inner: Arc<dyn Cluster>) -> Arc<dyn Cluster> {
        Arc::new(PartitionCluster { partitions: self.clone(), file, inner })
    }

    /// The files' statistics with those of these columns.
    pub fn statistics(&self, inner: Statistics) -> Statistics {
        let columns = self.places.iter().map(|place| match place {
            ColumnPlace::InFiles(column) => {
                inner.column_statistics.get(*column).cloned().unwrap_or_else(ColumnStatistics::new_unknown)
            }
            ColumnPlace::InName(number) => {
                let values = self.values.iter().map(|values| &values[*number]).filter(|value| !value.is_null());
                let mut distinct = values.clone().collect::<Vec<_>>();
                distinct.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
                distinct.dedup();
                let mut statistics = ColumnStatistics::new_unknown();
                statistics.distinct_count = Precision::Inexact(distinct.len());
                if let (Some(min), Some(max)) = (distinct.first(), distinct.last()) {
                    // A file may be empty, so that its value does not occur.
                    statistics.min_value = Precision::Inexact((*min).clone());
                    statistics.max_value = Precision::Inexact((*max).clone());
                }
                statistics
            }
        });
        Statistics { column_statistics: columns.collect(), ..inner }
    }

    fn inner_columns(&self, columns: &[usize]) -> Vec<usize> {
        let inner = columns.iter().filter_map(|&column| match self.places.get(column) {
            Some(ColumnPlace::InFiles(inner)) => Some(*inner),
            _ => None,
        });
        inner.collect()
    }

    fn constant(&self, file: usize, column: usize, rows: usize) -> Result<Option<ArrayRef>> {
        match self.places[column] {
            ColumnPlace::InFiles(_) => Ok(None),
            ColumnPlace::InName(number) => {
                self.values[file][number].to_array_of_size(rows).map(Some).map_err(from_datafusion)
            }
        }
    }

    fn one_value_each(&self, column: usize) -> Option<ArrayRef> {
        match self.places[column] {
            ColumnPlace::InFiles(_) => None,
            ColumnPlace::InName(number) => {
                ScalarValue::iter_to_array(self.values.iter().map(|values| values[number].clone())).ok()
            }
        }
    }
}

impl ZoneMap for Partitions {
    fn zones(&self) -> usize {
        self.values.len()
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.one_value_each(column)
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        self.one_value_each(column)
    }

    fn nulls(&self, column: usize) -> Option<UInt64Array> {
        let values = self.one_value_each(column)?;
        Some(UInt64Array::from_iter_values((0..values.len()).map(|file| u64::from(values.is_null(file)))))
    }

    fn rows(&self) -> Option<UInt64Array> {
        // As if every file had one row: the value of all of them.
        Some(UInt64Array::from(vec![1; self.values.len()]))
    }
}

/// The values of the partition columns in the names of a file's folders; `None` for NULL.
fn raw_values(names: &[String], base: &str, source: &Source, required: bool) -> Result<Vec<Option<String>>> {
    let folders = folders(base, &source.name);
    let values = names.iter().map(|name| {
        let value = folders.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        if required && value.is_none() {
            return Err(source.error(format!("it is in no folder '{name}=…', which PARTITIONED BY asks for")));
        }
        Ok(value.filter(|value| *value != NULL_NAME).map(percent_decoded))
    });
    values.collect()
}

/// The narrowest of whole numbers, dates and strings for all values.
fn infer<'a>(values: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let number = |value: &str| value.parse::<i64>().is_ok();
    let date = |value: &str| {
        value.len() == 10 && ScalarValue::Utf8View(Some(value.to_owned())).cast_to(&DataType::Date32).is_ok()
    };
    if values.clone().next().is_none() {
        DataType::Utf8View
    } else if values.clone().all(number) {
        DataType::Int64
    } else if values.clone().all(date) {
        DataType::Date32
    } else {
        DataType::Utf8View
    }
}

/// Folder names have special characters escaped as in URLs.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A file's cluster with the columns of its folder.
struct PartitionCluster {
    partitions: Arc<Partitions>,
    file: usize,
    inner: Arc<dyn Cluster>,
}

impl fmt::Debug for PartitionCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Cluster for PartitionCluster {
    fn rows(&self) -> Option<usize> {
        self.inner.rows()
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        self.inner.bytes(&self.partitions.inner_columns(columns))
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        self.inner.fetch(&self.partitions.inner_columns(columns))
    }

    fn fetch_in_steps(&self, columns: &[usize], step_bytes: usize) -> Option<FirstStep> {
        self.inner.fetch_in_steps(&self.partitions.inner_columns(columns), step_bytes)
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let mut filters: Vec<Arc<dyn RowFilter>> = Vec::with_capacity(request.filters.len());
        for filter in &request.filters {
            let inner = self.partitions.inner_columns(filter.columns());
            if inner.is_empty() && !filter.columns().is_empty() {
                // The same for all rows of the file.
                let constants = filter.columns().iter().map(|&column| {
                    self.partitions.constant(self.file, column, 1)?.ok_or_else(|| Error::bug("a column is nowhere"))
                });
                let keep = filter.keep(&constants.collect::<Result<Vec<_>>>()?)?;
                if keep.is_empty() || !keep.is_valid(0) || !keep.value(0) {
                    return Ok(Box::new(Nothing));
                }
            } else {
                filters.push(Arc::new(PartitionFilter {
                    partitions: self.partitions.clone(),
                    file: self.file,
                    inner,
                    filter: filter.clone(),
                }));
            }
        }
        let columns = self.partitions.inner_columns(&request.columns);
        let shared = request.shared.as_ref().map(|outer| {
            Arc::new(PartitionColumns { partitions: self.partitions.clone(), outer: outer.clone() })
                as Arc<dyn SharedColumns>
        });
        let inner = DecodeRequest { columns, filters, shared, ..request.clone() };
        Ok(Box::new(PartitionDecode {
            partitions: self.partitions.clone(),
            file: self.file,
            columns: request.columns.clone(),
            inner: self.inner.decode(fetched, &inner)?,
        }))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn place(&self) -> Option<u64> {
        self.inner.place()
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        match self.partitions.inner_columns(&[column]).as_slice() {
            [inner] => self.inner.zone(*inner),
            _ => None,
        }
    }

    fn holds(&self, column: usize) -> bool {
        self.partitions.inner_columns(&[column]).into_iter().any(|inner| self.inner.holds(inner))
    }
}

/// A filter that looks at columns of the folder, too.
struct PartitionFilter {
    partitions: Arc<Partitions>,
    file: usize,
    /// Its columns in the files.
    inner: Vec<usize>,
    filter: Arc<dyn RowFilter>,
}

impl RowFilter for PartitionFilter {
    fn columns(&self) -> &[usize] {
        &self.inner
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = columns.first().map_or(0, |column| column.len());
        self.filter.keep(&merged(&self.partitions, self.file, self.filter.columns(), columns, rows)?)
    }

    fn is_worthwhile(&self) -> bool {
        self.filter.is_worthwhile()
    }

    fn may_see_dropped(&self) -> bool {
        self.filter.may_see_dropped()
    }

    fn answer(&self) -> Option<AnswerId> {
        self.filter.answer()
    }
}

/// Shared columns by their position in the files.
struct PartitionColumns {
    partitions: Arc<Partitions>,
    outer: Arc<dyn SharedColumns>,
}

impl PartitionColumns {
    fn outer_item(&self, inner: SharedItem) -> Option<SharedItem> {
        let SharedItem::Column(inner) = inner else { return Some(inner) };
        let mut places = self.partitions.places.iter();
        let outer = places.position(|place| matches!(place, ColumnPlace::InFiles(column) if *column == inner));
        outer.map(SharedItem::Column)
    }
}

impl SharedColumns for PartitionColumns {
    fn windows(&self, item: SharedItem) -> Option<&[ArrayRef]> {
        self.outer.windows(self.outer_item(item)?)
    }

    fn wanted(&self) -> Vec<SharedItem> {
        let inner = |item| match item {
            SharedItem::Column(column) => {
                self.partitions.inner_columns(&[column]).into_iter().map(SharedItem::Column).collect()
            }
            SharedItem::Answer(_) => vec![item],
        };
        self.outer.wanted().into_iter().flat_map(inner).collect()
    }

    fn put(&self, item: SharedItem, window: &ArrayRef) -> bool {
        self.outer_item(item).is_some_and(|item| self.outer.put(item, window))
    }

    fn complete(&self, rows: usize) {
        self.outer.complete(rows);
    }
}

/// The columns of the files and of the folder, in the order wanted.
fn merged(
    partitions: &Partitions,
    file: usize,
    wanted: &[usize],
    inner: &[ArrayRef],
    rows: usize,
) -> Result<Vec<ArrayRef>> {
    let mut inner = inner.iter();
    let columns = wanted.iter().map(|&column| match partitions.constant(file, column, rows)? {
        Some(constant) => Ok(constant),
        None => inner.next().cloned().ok_or_else(|| Error::bug("a column is missing")),
    });
    columns.collect()
}

struct PartitionDecode {
    partitions: Arc<Partitions>,
    file: usize,
    columns: Vec<usize>,
    inner: Box<dyn Decode>,
}

impl Decode for PartitionDecode {
    fn step(&mut self) -> Result<Decoded> {
        let chunk = match self.inner.step()? {
            Decoded::Chunk(chunk) => chunk,
            nothing => return Ok(nothing),
        };
        let columns = merged(&self.partitions, self.file, &self.columns, &chunk.columns, chunk.rows)?;
        Ok(Decoded::Chunk(Chunk { columns, rows: chunk.rows }))
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        self.inner.bring(read)
    }
}

/// No rows.
struct Nothing;

impl Decode for Nothing {
    fn step(&mut self) -> Result<Decoded> {
        Ok(Decoded::Done)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::{Date32Type, Int64Type};
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, col, lit};
    use diligence_base::seams::LocalDisk;

    use super::*;
    use crate::Table;
    use crate::external::options::Format;
    use crate::external::testing::{AtMost, all, open_path, read_all};
    use crate::external::{ExternalTable, open};

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("year=2023/day=2023-01-01/a.csv", "n,year\n1,9\n2,9\n"),
            ("year=2024/day=2024-02-03/b.csv", "n,year\n3,9\n"),
            ("year=2024/day=__HIVE_DEFAULT_PARTITION__/city=Rom%2FA/c.csv", "n,year\n4,9\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn read(table: &crate::external::ExternalTable, request: &ScanRequest) -> RecordBatch {
        read_all(table, request, &[], 100, true)
    }

    #[test]
    fn folder_names_are_columns() {
        let folder = folder();
        let table = open_path(folder.path()).unwrap();
        let schema = table.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["n", "year", "day", "city"]);
        let all_rows = read(&table, &ScanRequest { columns: all(&table), predicate: None });
        let years = all_rows.column(1).as_primitive::<Int64Type>();
        assert_eq!(years.values().to_vec(), vec![2023, 2023, 2024, 2024]);
        let days = all_rows.column(2).as_primitive::<Date32Type>();
        assert_eq!(days.iter().collect::<Vec<_>>(), vec![Some(19358), Some(19358), Some(19756), None]);
        let cities = all_rows.column(3).as_string_view();
        assert_eq!(cities.iter().collect::<Vec<_>>(), vec![None, None, None, Some("Rom/A")]);
        let swapped = read(&table, &ScanRequest { columns: vec![3, 1, 0], predicate: None });
        assert_eq!(swapped.column(2), all_rows.column(0));
        let only = read(&table, &ScanRequest { columns: vec![1], predicate: None });
        assert_eq!(only.column(0), all_rows.column(1));
        assert_eq!(read(&table, &ScanRequest::default()).num_rows(), 4);
    }

    fn declared(folder: &tempfile::TempDir, fields: Vec<Field>, listed: Option<&[&str]>) -> Result<Arc<ExternalTable>> {
        let options = OpenOptions {
            format: Some(Format::Csv),
            schema: (!fields.is_empty()).then(|| Arc::new(Schema::new(fields))),
            partition_columns: listed.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..OpenOptions::default()
        };
        open(&folder.path().to_string_lossy(), &options, Arc::new(LocalDisk))
    }

    fn names(table: &ExternalTable) -> Vec<String> {
        table.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[test]
    fn declared_partition_columns_have_their_types_and_places() {
        let field = |name: &str, ty| Field::new(name, ty, true);
        let folder = folder();
        // Listed columns come last, and only these.
        let fields = vec![field("year", DataType::Utf8), field("n", DataType::Int64)];
        let table = declared(&folder, fields.clone(), Some(&["year"])).unwrap();
        assert_eq!(names(&table), ["n", "year"]);
        assert_eq!(table.schema().field(1).data_type(), &DataType::Utf8View);
        assert_eq!(table.partition_columns(), ["year"]);
        // Without a list, declared ones are where they are declared.
        assert_eq!(names(&declared(&folder, fields, None).unwrap()), ["year", "n"]);
        // What is in the files is inferred if only columns of folders are declared.
        let table = declared(&folder, vec![field("day", DataType::Date32)], Some(&["day"])).unwrap();
        assert_eq!(names(&table), ["n", "year", "day"]);
        let wrong = declared(&folder, vec![field("day", DataType::Int32)], Some(&["day"])).unwrap_err();
        assert!(wrong.message().contains("the folder 'day=2023-01-01' holds no INTEGER"), "{wrong}");
        let missing = declared(&folder, Vec::new(), Some(&["city"])).unwrap_err();
        assert!(missing.message().contains("in no folder 'city=…'"), "{missing}");
        let required = vec![field("n", DataType::Int64), Field::new("day", DataType::Date32, false)];
        let null = declared(&folder, required, None).unwrap_err();
        assert!(null.message().contains("'day' a value, but it is declared NOT NULL"), "{null}");
    }

    #[test]
    fn types_are_inferred_as_numbers_dates_or_text() {
        let of = |values: &[&str]| infer(values.iter().copied());
        assert_eq!(of(&["01", "12"]), DataType::Int64);
        assert_eq!(of(&["2024-01-31"]), DataType::Date32);
        assert_eq!(of(&["2024-01-31", "5"]), DataType::Utf8View);
        assert_eq!(of(&["", "5"]), DataType::Utf8View);
        assert_eq!(of(&[]), DataType::Utf8View);
    }

    #[test]
    fn folders_are_pruned_and_filtered() {
        let folder = folder();
        let table = open_path(folder.path()).unwrap();
        let year = |op, year| {
            let column = col("year", &table.schema()).unwrap();
            Some(Arc::new(BinaryExpr::new(column, op, lit(ScalarValue::Int64(Some(year))))) as _)
        };
        let scan = table.scan(&ScanRequest { columns: vec![0], predicate: year(Operator::Eq, 2023) }).unwrap();
        assert_eq!((scan.clusters.len(), scan.clusters_pruned), (1, 2));
        let scan = table.scan(&ScanRequest { columns: vec![0], predicate: year(Operator::Gt, 2030) }).unwrap();
        assert_eq!((scan.clusters.len(), scan.clusters_pruned), (0, 3));
        let request = ScanRequest { columns: vec![0], predicate: None };
        let kept = read_all(&table, &request, &[AtMost::filter(1, 2023)], 100, true);
        assert_eq!(kept.column(0).as_primitive::<Int64Type>().values().to_vec(), vec![1, 2]);
        let kept = read_all(&table, &request, &[AtMost::filter(1, 2024), AtMost::filter(0, 3)], 100, true);
        assert_eq!(kept.num_rows(), 3);
    }
}
