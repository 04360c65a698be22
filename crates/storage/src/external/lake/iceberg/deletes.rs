//! The rows of Iceberg's data files that are gone: by their positions, in files of Parquet or as deletion vectors, or
//! by the values of some columns.
//!
//! Deletes hold for data files that came before them, of the same partition, or of all partitions if the deletes have
//! none. A data file with a deletion vector has no other positions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow_row::{RowConverter, SortField};
use diligence_base::{Error, Result};

use super::avro::Value;
use super::manifest::{Content, ListedFile};
use crate::external::lake::fields::{By, LakeField, LakeType};
use crate::external::lake::place::Place;
use crate::external::lake::{bitmap, unsupported};
use crate::external::parquet::{MappedColumn, ParquetTable};
use crate::external::schema::conform;
use crate::external::source::wait;
use crate::foreign_error::from_arrow;
use crate::{DecodeRequest, Fetch, RowFilter, ScanRequest};

/// The numbers of the columns in files of positions.
const PATH_ID: i32 = 2_147_483_546;
const POSITION_ID: i32 = 2_147_483_545;

/// What stands before and behind a deletion vector: its length and its checksum.
const FRAME_BYTES: u64 = 4;

/// Rows that are read of a file of deletes at once.
const ROWS_AT_ONCE: usize = 8192;

/// What is gone of a table.
pub(super) struct Deletes {
    table: String,
    fields: Vec<LakeField>,
    files: Vec<DeleteFile>,
    /// For each data file the deletes that hold for it.
    of_data: Vec<Vec<usize>>,
}

struct DeleteFile {
    listed: ListedFile,
    /// Positions of rows by the paths of data files, once they are read.
    positions: OnceLock<HashMap<String, Vec<u64>>>,
    /// Values that are gone, once they are read.
    values: OnceLock<Arc<dyn RowFilter>>,
}

/// Which files deletes hold for.
fn partition_of(file: &ListedFile) -> String {
    format!("{} {:?}", file.spec, file.partition)
}

fn has_no_partition(file: &ListedFile) -> bool {
    match file.partition.as_ref() {
        Value::Record(fields) => fields.is_empty(),
        _ => true,
    }
}

impl Deletes {
    pub fn new(table: &str, fields: &[LakeField], data: &[ListedFile], deletes: Vec<ListedFile>) -> Result<Self> {
        let mut of_data = vec![Vec::new(); data.len()];
        if !deletes.is_empty() {
            let mut by_partition: HashMap<String, Vec<usize>> = HashMap::new();
            let mut by_path: HashMap<&str, Vec<usize>> = HashMap::new();
            let mut for_all = Vec::new();
            for (number, file) in deletes.iter().enumerate() {
                if let Some(path) = &file.referenced {
                    by_path.entry(path).or_default().push(number);
                } else if file.content == Content::EqualityDeletes && has_no_partition(file) {
                    for_all.push(number);
                } else {
                    by_partition.entry(partition_of(file)).or_default().push(number);
                }
            }
            for (file, found) in data.iter().zip(&mut of_data) {
                let of_partition = by_partition.get(&partition_of(file)).into_iter().flatten();
                let of_path = by_path.get(file.path.as_str()).into_iter().flatten();
                let all = for_all.iter().chain(of_partition).chain(of_path).copied();
                *found = all.filter(|delete| holds_for(&deletes[*delete], file)).collect();
                if found.iter().any(|delete| deletes[*delete].blob.is_some()) {
                    let is_position = |delete: &usize| deletes[*delete].content == Content::PositionDeletes;
                    found.retain(|delete| !is_position(delete) || deletes[*delete].blob.is_some());
                }
            }
        }
        let files = deletes.into_iter().map(|listed| {
            let (positions, values) = (OnceLock::new(), OnceLock::new());
            DeleteFile { listed, positions, values }
        });
        Ok(Self { table: table.to_owned(), fields: fields.to_vec(), files: files.collect(), of_data })
    }

    /// How many rows of a data file are gone; `None` if only reading tells.
    pub fn count_of(&self, data: usize) -> Option<u64> {
        match self.of_data[data].as_slice() {
            [] => Some(0),
            [one] if self.files[*one].listed.blob.is_some() => Some(self.files[*one].listed.rows),
            _ => None,
        }
    }

    /// Which rows of a data file are there by their positions; `None` if all are.
    pub fn deleted(&self, place: &Place, data: usize, path: &str, rows: u64) -> Result<Option<BooleanBuffer>> {
        let mut live: Option<BooleanBuffer> = None;
        for number in &self.of_data[data] {
            let file = &self.files[*number];
            let now = match (&file.listed.content, file.listed.blob) {
                (Content::EqualityDeletes, _) => continue,
                (_, Some((offset, length))) => self.vector(place, file, offset, length, rows)?,
                _ => {
                    let all = self.positions(place, file)?;
                    let Some(gone) = all.get(path) else { continue };
                    bitmap::without(rows, gone.iter().copied())
                }
            };
            live = Some(match live {
                Some(before) => &before & &now,
                None => now,
            });
        }
        Ok(live)
    }

    fn vector(&self, place: &Place, file: &DeleteFile, offset: u64, length: u64, rows: u64) -> Result<BooleanBuffer> {
        let source = place.source(&file.listed.path, Some(file.listed.bytes))?;
        let damaged = |what: &str| source.error(format!("a deletion vector cannot be read: {what}"));
        let end = offset.checked_add(length).ok_or_else(|| damaged("its length makes no sense"))?;
        let framed = source.read_one_now(offset..end)?;
        let body = framed.len().checked_sub(2 * FRAME_BYTES as usize).ok_or_else(|| damaged("it is too short"))?;
        let (told, rest) = framed.split_at(FRAME_BYTES as usize);
        let (bytes, checksum) = rest.split_at(body);
        let number = |bytes: &[u8]| bytes.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        if number(told) as usize != body {
            return Err(damaged("it has another length than the metadata say"));
        }
        if crc32fast::hash(bytes) != number(checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let (live, gone) =
            bitmap::live_rows(bytes, rows).ok_or_else(|| damaged("it is no bitmap of the file's rows"))?;
        match gone == file.listed.rows {
            true => Ok(live),
            false => Err(damaged("it has another number of rows than the metadata say")),
        }
    }

    fn positions<'a>(&self, place: &Place, file: &'a DeleteFile) -> Result<&'a HashMap<String, Vec<u64>>> {
        if let Some(positions) = file.positions.get() {
            return Ok(positions);
        }
        let column = |name: &str, ty: DataType, id: i32| LakeField {
            name: name.to_owned(),
            ty: LakeType::Plain(ty),
            id: Some(id),
            names: vec![name.to_owned()],
            default: None,
        };
        let path = column("file_path", DataType::Utf8View, PATH_ID);
        let columns = [path, column("pos", DataType::Int64, POSITION_ID)];
        let mut positions: HashMap<String, Vec<u64>> = HashMap::new();
        for chunk in read_columns(place, &file.listed, &columns)? {
            let (paths, rows) = (chunk[0].as_string_view(), chunk[1].as_primitive::<Int64Type>());
            for (path, row) in paths.iter().zip(rows).filter_map(|(path, row)| path.zip(row)) {
                let row = u64::try_from(row).unwrap_or(u64::MAX);
                match positions.get_mut(path) {
                    Some(rows) => rows.push(row),
                    None => drop(positions.insert(path.to_owned(), vec![row])),
                }
            }
        }
        Ok(file.positions.get_or_init(|| positions))
    }

    /// Filters that leave out rows of a data file by their values.
    pub fn filters(&self, place: &Place, data: usize) -> Result<Vec<Arc<dyn RowFilter>>> {
        let files = self.of_data[data].iter().map(|number| &self.files[*number]);
        let files = files.filter(|file| file.listed.content == Content::EqualityDeletes);
        files.map(|file| self.filter(place, file)).collect()
    }

    fn filter(&self, place: &Place, file: &DeleteFile) -> Result<Arc<dyn RowFilter>> {
        if let Some(filter) = file.values.get() {
            return Ok(filter.clone());
        }
        let mut columns = Vec::with_capacity(file.listed.equality_ids.len());
        for id in &file.listed.equality_ids {
            let column = self.fields.iter().position(|field| field.id.map(i64::from) == Some(*id));
            let is_plain = |column: &usize| matches!(self.fields[*column].ty, LakeType::Plain(_) | LakeType::Uuid);
            let column = column.filter(is_plain).ok_or_else(|| {
                unsupported(&self.table, "an equality delete by a column that is dropped, nested or of a later state")
            })?;
            columns.push(column);
        }
        if columns.is_empty() {
            return Err(Error::file(format!("{}: an equality delete names no columns", file.listed.path)));
        }
        let fields = columns.iter().map(|column| self.fields[*column].clone()).collect::<Vec<_>>();
        let types = fields.iter().map(|field| field.arrow(true).data_type().clone()).collect::<Vec<_>>();
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect()).map_err(from_arrow)?;
        let mut gone = HashSet::new();
        for chunk in read_columns(place, &file.listed, &fields)? {
            let rows = converter.convert_columns(&chunk).map_err(from_arrow)?;
            gone.extend(rows.iter().map(|row| Box::<[u8]>::from(row.data())));
        }
        let filter: Arc<dyn RowFilter> = Arc::new(ValuesGone { columns, types, converter, gone });
        Ok(file.values.get_or_init(|| filter).clone())
    }
}

/// Whether deletes hold for a data file, by when both came and by the paths that the deletes name.
fn holds_for(delete: &ListedFile, data: &ListedFile) -> bool {
    if delete.content == Content::EqualityDeletes {
        return data.sequence < delete.sequence;
    }
    let path = |bounds: &[(i64, Vec<u8>)]| {
        let bound = bounds.iter().find(|(id, _)| *id == i64::from(PATH_ID));
        bound.map(|(_, bytes)| bytes.clone())
    };
    let is_below = path(&delete.greatest).is_some_and(|greatest| greatest.as_slice() < data.path.as_bytes());
    let is_above = path(&delete.least).is_some_and(|least| least.as_slice() > data.path.as_bytes());
    data.sequence <= delete.sequence && !is_below && !is_above
}

/// Columns of a file of deletes, in chunks; a column that the file does not have is an error.
fn read_columns(place: &Place, file: &ListedFile, columns: &[LakeField]) -> Result<Vec<Vec<ArrayRef>>> {
    let source = place.source(&file.path, Some(file.bytes))?;
    let table = ParquetTable::mapped(&source, |schema: &Schema| {
        let by = By::IdsOrNames.in_file(schema.fields());
        let mapped = columns.iter().map(|column| {
            let missing = || source.error(format!("a file of deletes has no column '{}'", column.name));
            let root = column.place(schema.fields(), by).ok_or_else(missing)?;
            let field: Field = column.arrow(true);
            Ok(MappedColumn { field, root, renamed: None })
        });
        mapped.collect()
    })?;
    let (table, all) = (Arc::new(table), (0..columns.len()).collect::<Vec<_>>());
    let (pieces, _) = table.scan_file(&ScanRequest { columns: all.clone(), predicate: None });
    let request = DecodeRequest { columns: all.clone(), batch_rows: ROWS_AT_ONCE, ..DecodeRequest::default() };
    let mut chunks = Vec::new();
    for piece in pieces {
        let fetched = match piece.cluster.fetch(&all) {
            Fetch::Ready(fetched) => fetched,
            Fetch::Blocking(read) => read()?,
            Fetch::Buffered(read) => read.wait()?,
            Fetch::Waiting(read) => wait(read)?,
        };
        let mut decode = piece.cluster.decode(fetched, &request)?;
        while let Some(chunk) = decode.next()? {
            chunks.push(chunk.columns);
        }
    }
    Ok(chunks)
}

/// Leaves out rows whose values in some columns are among those that are gone; NULL is equal to NULL.
struct ValuesGone {
    columns: Vec<usize>,
    types: Vec<DataType>,
    converter: RowConverter,
    gone: HashSet<Box<[u8]>>,
}

impl RowFilter for ValuesGone {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let logical = columns.iter().zip(&self.types).map(|(column, ty)| conform(column.clone(), ty, false));
        let rows = self.converter.convert_columns(&logical.collect::<Result<Vec<_>>>()?).map_err(from_arrow)?;
        Ok(rows.iter().map(|row| Some(!self.gone.contains(row.data()))).collect())
    }
}
