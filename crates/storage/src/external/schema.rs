//! One schema for files that may differ, and arrays brought into it.
//!
//! The logical schema is what SQL sees: strings are `Utf8View`, binaries `BinaryView`, small decimals `Decimal128`,
//! dictionaries their values. Types inside lists and structs stay as the file has them. Files of one table agree by
//! column name; where types differ, the column gets a type that holds all values of both, or opening fails. Numbers of
//! any kind beside floating-point ones become such, as in SQL's UNION.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, ListArray, MapArray, StringViewArray, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, take};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit,
};
use diligence_base::{Error, Result};
use diligence_types::SqlType;

use super::options::PLACE;
use crate::foreign_error::from_arrow;

/// The key of a field's metadata that says what the SQL type is, where the Arrow type alone does not tell.
pub(crate) const TYPE_KEY: &str = "sql_type";

/// The SQL type of texts that are JSON.
pub(crate) const JSON_TYPE: &str = "json";

/// The SQL type of intervals, where they are bytes.
pub(crate) const INTERVAL_TYPE: &str = "interval";

/// The SQL type of UUIDs.
pub(crate) const UUID_TYPE: &str = "uuid";

/// The key of a field's metadata that names a type of Arrow's extensions.
const EXTENSION_KEY: &str = "ARROW:extension:name";

/// Whether a field is of 16 bytes that are a UUID.
pub(crate) fn is_uuid_bytes(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
        && (field.metadata().get(TYPE_KEY).is_some_and(|told| told == UUID_TYPE)
            || field.metadata().get(EXTENSION_KEY).is_some_and(|name| name == "arrow.uuid"))
}

/// Whether a field is of bytes that are truth values.
fn is_boolean_bytes(field: &Field) -> bool {
    *field.data_type() == DataType::Int8
        && field.metadata().get(EXTENSION_KEY).is_some_and(|name| name == "arrow.bool8")
}

/// Whether a field is of texts that are JSON.
fn is_json_text(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        && field.metadata().get(EXTENSION_KEY).is_some_and(|name| name == "arrow.json")
}

/// What a file says of a group with the parts of a variant; SQL sees JSON.
pub(crate) const VARIANT_TYPE: &str = "variant";

/// Columns that a table may have: every request is linear in them somewhere.
const COLUMNS_MAX: usize = 100_000;

/// The type that SQL sees for a type in a file.
pub(crate) fn logical_type(physical: &DataType) -> DataType {
    match physical {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => logical_type(values),
        DataType::RunEndEncoded(_, values) => logical_type(values.data_type()),
        other => other.clone(),
    }
}

/// The type that SQL sees for a type in a file in which lists, structs and maps have UUIDs: these are texts.
fn with_uuid_texts(physical: &DataType) -> DataType {
    let inner = |field: &FieldRef| match is_uuid_bytes(field) {
        true => Arc::new(uuid_field(field.name(), field.is_nullable())),
        false => Arc::new(field.as_ref().clone().with_data_type(with_uuid_texts(field.data_type()))),
    };
    match physical {
        DataType::List(item) => DataType::List(inner(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        other => other.clone(),
    }
}

/// A field of UUIDs as SQL has them.
fn uuid_field(name: &str, is_nullable: bool) -> Field {
    let metadata = HashMap::from([(TYPE_KEY.to_owned(), UUID_TYPE.to_owned())]);
    Field::new(name, DataType::Utf8View, is_nullable).with_metadata(metadata)
}

/// The schema that SQL sees for a file's schema: logical types, no metadata but of the SQL type, no name
/// twice.
pub(crate) fn logical_schema(physical: &Schema) -> Schema {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for field in physical.fields() {
        *seen.entry(field.name().clone()).or_default() += 1;
    }
    let mut given: HashMap<String, usize> = HashMap::new();
    let fields = physical.fields().iter().map(|field| {
        let count = given.entry(field.name().clone()).or_default();
        *count += 1;
        let mut name = field.name().clone();
        if *count > 1 {
            // The second `a` becomes `a_1`, unless the file has a column of that name, too.
            let mut number = *count - 1;
            while seen.contains_key(&format!("{name}_{number}")) {
                number += 1;
            }
            name = format!("{name}_{number}");
            seen.insert(name.clone(), 1);
        }
        let mut told = field.metadata().get(TYPE_KEY).map(|told| (TYPE_KEY.to_owned(), told.clone()));
        let ty = match field.data_type() {
            DataType::Struct(_) if told.as_ref().is_some_and(|(_, told)| told == VARIANT_TYPE) => {
                told = Some((TYPE_KEY.to_owned(), JSON_TYPE.to_owned()));
                DataType::Utf8View
            }
            _ if is_uuid_bytes(field) => {
                told = Some((TYPE_KEY.to_owned(), UUID_TYPE.to_owned()));
                DataType::Utf8View
            }
            _ if is_boolean_bytes(field) => DataType::Boolean,
            other if told.is_none() && is_json_text(field) => {
                told = Some((TYPE_KEY.to_owned(), JSON_TYPE.to_owned()));
                logical_type(other)
            }
            other if other.is_nested() => with_uuid_texts(&logical_type(other)),
            other => logical_type(other),
        };
        let logical = Field::new(name, ty, field.is_nullable());
        logical.with_metadata(told.into_iter().collect())
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The schema with these types for the columns of these names, or in these places. Fails with kind `Input` if there is
/// no such column.
pub(crate) fn with_types(schema: Schema, types: &[(String, FieldRef)]) -> Result<Schema> {
    let mut fields = schema.fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    for (name, told) in types {
        let same = |field: &&mut Field| field.name().eq_ignore_ascii_case(name);
        let place = name.strip_prefix(PLACE).and_then(|place| place.parse::<usize>().ok());
        let found = match place {
            Some(place) => fields.get_mut(place),
            None => fields.iter_mut().find(same),
        };
        let Some(field) = found else {
            if let Some(place) = place {
                let message =
                    format!("types are given for {} columns, and there are {}", place + 1, schema.fields().len());
                return Err(Error::input(message).with_code("42601"));
            }
            let known = schema.fields().iter().take(NAMES_LISTED_MAX).map(|field| format!("'{}'", field.name()));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(Error::input(format!("a type is given for '{name}', and no column is named so"))
                .with_hint(format!("the columns are {known}")));
        };
        *field = told.as_ref().clone().with_name(field.name()).with_nullable(true);
    }
    Ok(Schema::new(fields))
}

/// A table's schema over its files, and where each file has each column.
pub(crate) struct Merged {
    /// The table's columns.
    pub schema: SchemaRef,
    /// For each file, for each column of the table: its position in the file, or `None` if the file does not have it.
    pub positions: Vec<Vec<Option<usize>>>,
}

/// Merges the logical schemas of files. `files` are their names for messages. Columns that are declared rule: they are
/// found by name, and their values are converted when they are read. Columns of which `is_told` says that their type
/// will be declared may have any types.
pub(crate) fn merge(
    files: &[&str],
    schemas: &[Arc<Schema>],
    declared: Option<&Schema>,
    is_told: impl Fn(&str) -> bool,
) -> Result<Merged> {
    if let Some(declared) = declared {
        return merge_declared(files, schemas, declared);
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut first_file: Vec<usize> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut present: Vec<usize> = Vec::new();
    let mut last: Option<&Arc<Schema>> = None;
    let others = schemas.iter().enumerate().filter(|(number, schema)| *number == 0 || schemas[number - 1] != **schema);
    let names = others.map(|(_, schema)| schema.fields().iter().map(|field| field.name().as_str()));
    let other_names = other_names(names);
    for (number, schema) in schemas.iter().enumerate() {
        // Most tables have files of one schema: then nothing is compared twice.
        if last.is_some_and(|last| last == schema) {
            schema.fields().iter().for_each(|field| present[by_name[known(&other_names, field.name())]] += 1);
            continue;
        }
        last = Some(schema);
        for field in schema.fields() {
            let name = known(&other_names, field.name());
            let Some(&index) = by_name.get(name) else {
                by_name.insert(name.to_owned(), fields.len());
                fields.push(field.as_ref().clone().with_name(name));
                first_file.push(number);
                present.push(1);
                continue;
            };
            present[index] += 1;
            let old = &fields[index];
            let wide = widen(old.data_type(), field.data_type());
            let Some(wide) = wide.or_else(|| is_told(name).then(|| old.data_type().clone())) else {
                return Err(Error::file(format!(
                    "column '{}' is {} in {} but {} in {}; no type holds both",
                    field.name(),
                    field_type_name(old),
                    files[first_file[index]],
                    field_type_name(field),
                    files[number]
                ))
                .with_hint(format!(
                    "say which type it has, as in read_parquet('…', types = {{'{name}': 'VARCHAR'}})"
                )));
            };
            let nullable = old.is_nullable() || field.is_nullable();
            let mut both = old.clone().with_data_type(wide).with_nullable(nullable);
            if *both.data_type() == DataType::Utf8View && !are_alike(old, field) {
                both.metadata_mut().remove(TYPE_KEY);
            }
            fields[index] = both;
        }
    }
    if fields.len() > COLUMNS_MAX {
        return Err(Error::resource(format!("a table has at most {COLUMNS_MAX} columns; here are {}", fields.len())));
    }
    for (field, present) in fields.iter_mut().zip(&present) {
        if *present < schemas.len() {
            *field = field.clone().with_nullable(true);
        }
    }
    let positions = schemas.iter().map(|schema| positions(&fields, schema, &other_names)).collect();
    Ok(Merged { schema: Arc::new(Schema::new(fields)), positions })
}

/// The names of columns that have another one in the table: names of files that differ in capitals only are one, the
/// first of them, unless a file has several of these.
pub(crate) fn other_names<'n>(files: impl Iterator<Item = impl Iterator<Item = &'n str>>) -> HashMap<String, String> {
    /// The names that are one but for capitals.
    struct Alike<'n> {
        names: Vec<&'n str>,
        last_file: usize,
        are_apart: bool,
    }
    let mut found: HashMap<String, Alike<'n>> = HashMap::new();
    let mut seen: HashSet<&'n str> = HashSet::new();
    let mut are_different = false;
    for (number, names) in files.enumerate() {
        for name in names {
            // Names that are known say nothing new, as long as none is alike another.
            if !seen.insert(name) && !are_different {
                continue;
            }
            let alike = found.entry(name.to_ascii_lowercase()).or_insert_with(|| Alike {
                names: Vec::new(),
                last_file: usize::MAX,
                are_apart: false,
            });
            alike.are_apart |= alike.last_file == number;
            alike.last_file = number;
            if !alike.names.contains(&name) {
                alike.names.push(name);
                are_different |= alike.names.len() > 1;
            }
        }
    }
    let ones = found.into_values().filter(|alike| !alike.are_apart);
    let pairs = ones.flat_map(|alike| {
        let (first, others) = alike.names.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
        others.iter().map(|name| ((*name).to_owned(), first.to_owned())).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// Whether texts of one are such of the other: those that are JSON in one file only are texts.
fn are_alike(old: &Field, new: &Field) -> bool {
    let told = |field: &Field| field.metadata().get(TYPE_KEY).map(|told| told.replace("jsonb", JSON_TYPE));
    told(old) == told(new)
}

fn merge_declared(files: &[&str], schemas: &[Arc<Schema>], declared: &Schema) -> Result<Merged> {
    let logical = logical_schema(declared);
    let fields = logical.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    let positions = schemas.iter().map(|schema| declared_positions(&fields, schema)).collect::<Vec<_>>();
    // A column that is in no file may come with the next one; but not one column in any file is a slip.
    if let (Some(first), true) = (schemas.first(), positions.iter().flatten().all(Option::is_none)) {
        let names = |schema: &Schema| {
            let names = schema.fields().iter().take(NAMES_LISTED_MAX).map(|field| format!("'{}'", field.name()));
            names.collect::<Vec<_>>().join(", ")
        };
        return Err(Error::input(format!("{} has none of the declared columns {}", files[0], names(&logical)))
            .with_hint(format!("its columns are {}", names(first))));
    }
    for (column, field) in fields.iter().enumerate() {
        for (positions, (name, schema)) in positions.iter().zip(files.iter().zip(schemas)) {
            let Some(position) = positions[column] else {
                if !logical.field(column).is_nullable() {
                    let error = format!("column '{}' is declared NOT NULL, but {name} does not have it", field.name());
                    return Err(Error::input(error));
                }
                continue;
            };
            let found = schema.field(position).data_type();
            let is_struct = matches!((found, field.data_type()), (DataType::Struct(_), DataType::Struct(_)));
            if !is_struct && !can_cast_types(found, field.data_type()) {
                return Err(Error::input(format!(
                    "column '{}' is declared as {}, but it is {found} in {name}, which does not convert",
                    field.name(),
                    field.data_type()
                )));
            }
        }
    }
    Ok(Merged { schema: Arc::new(Schema::new(fields)), positions })
}

/// Where a file has each of the declared columns: by the very name, or else by the only one that differs in capitals.
fn declared_positions(declared: &[Field], file: &Schema) -> Vec<Option<usize>> {
    let mut found = positions(declared, file, &HashMap::new());
    for (column, field) in declared.iter().enumerate().filter(|(_, field)| file.index_of(field.name()).is_err()) {
        let alike = |&position: &usize| file.field(position).name().eq_ignore_ascii_case(field.name());
        let mut alike = (0..file.fields().len()).filter(alike);
        if let (Some(only), None) = (alike.next(), alike.next())
            && !found.contains(&Some(only))
        {
            found[column] = Some(only);
        }
    }
    found
}

/// Names in a message at most.
const NAMES_LISTED_MAX: usize = 20;

/// Whether the second type holds all values of the first, in the same order.
pub(crate) fn is_wider(narrow: &DataType, wide: &DataType) -> bool {
    widen(narrow, wide).is_some_and(|both| both == *wide)
}

/// Where a file has each of the table's columns. Some of its names have other ones in the table.
fn positions(table: &[Field], file: &Schema, other_names: &HashMap<String, String>) -> Vec<Option<usize>> {
    let by_name = file.fields().iter().enumerate().map(|(index, field)| (known(other_names, field.name()), index));
    let by_name = by_name.collect::<HashMap<_, _>>();
    table.iter().map(|field| by_name.get(field.name().as_str()).copied()).collect()
}

/// The name in the table of what has a name in a file.
pub(crate) fn known<'n>(other_names: &'n HashMap<String, String>, name: &'n str) -> &'n str {
    other_names.get(name).map_or(name, String::as_str)
}

/// The least type that holds every value of both types, if there is one: exactly, unless one is of floating-point
/// numbers.
fn widen(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    if a == b {
        return Some(a.clone());
    }
    let wide = match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (Float16, Float32) | (Float32, Float16) => Float32,
        (Float16 | Float32, Float64) | (Float64, Float16 | Float32) => Float64,
        (Date32, Date64) | (Date64, Date32) => Date64,
        (Date32 | Date64, Timestamp(unit, None)) | (Timestamp(unit, None), Date32 | Date64) => Timestamp(*unit, None),
        (Timestamp(x, zone), Timestamp(y, other)) if zone == other => Timestamp(finer(x, y), zone.clone()),
        (Struct(x), Struct(y)) => return widen_struct(x, y),
        (List(x), List(y)) => List(widen_item(x, y)?),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Utf8View,
        _ if a.is_integer() && b.is_integer() => widen_integers(a, b)?,
        _ if a.is_integer() && matches!(b, Float32 | Float64) => integer_as_float(a, b)?,
        _ if b.is_integer() && matches!(a, Float32 | Float64) => integer_as_float(b, a)?,
        (Decimal128(..), Float32 | Float64) | (Float32 | Float64, Decimal128(..)) => Float64,
        _ => {
            let ((p, s), (q, t)) = (digits(a)?, digits(b)?);
            let scale = s.max(t);
            let whole = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t));
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            match precision {
                0..=DECIMAL128_MAX_PRECISION => Decimal128(precision.max(1), scale),
                _ if precision <= DECIMAL256_MAX_PRECISION => Decimal256(precision, scale),
                _ => return None,
            }
        }
    };
    Some(wide)
}

/// A struct of the fields of both, by their names; one that only one of them has is NULL in the other.
fn widen_struct(x: &Fields, y: &Fields) -> Option<DataType> {
    let mut fields = Vec::with_capacity(x.len().max(y.len()));
    for a in x {
        fields.push(match y.iter().find(|b| b.name() == a.name()) {
            Some(b) => {
                let wide = widen(a.data_type(), b.data_type())?;
                a.as_ref().clone().with_data_type(wide).with_nullable(a.is_nullable() || b.is_nullable())
            }
            None => a.as_ref().clone().with_nullable(true),
        });
    }
    let new = y.iter().filter(|b| x.iter().all(|a| a.name() != b.name()));
    fields.extend(new.map(|field| field.as_ref().clone().with_nullable(true)));
    Some(DataType::Struct(fields.into()))
}

/// The item of a list that holds those of both.
fn widen_item(x: &FieldRef, y: &FieldRef) -> Option<FieldRef> {
    let wide = widen(x.data_type(), y.data_type())?;
    Some(Arc::new(x.as_ref().clone().with_data_type(wide).with_nullable(x.is_nullable() || y.is_nullable())))
}

fn finer(x: &TimeUnit, y: &TimeUnit) -> TimeUnit {
    let rank = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(x) >= rank(y) { *x } else { *y }
}

fn widen_integers(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    let signed = a.is_signed_integer() || b.is_signed_integer();
    // Bits needed, where a signed type must have one bit more than an unsigned one.
    let bits = |ty: &DataType| {
        let bits = ty.primitive_width().unwrap_or(8) * 8;
        if signed && ty.is_unsigned_integer() { bits + 1 } else { bits }
    };
    Some(match (signed, bits(a).max(bits(b))) {
        (true, ..=16) => Int16,
        (true, ..=32) => Int32,
        (true, ..=64) => Int64,
        (true, _) => Decimal128(20, 0),
        (false, ..=16) => UInt16,
        (false, ..=32) => UInt32,
        (false, _) => UInt64,
    })
}

fn integer_as_float(integer: &DataType, float: &DataType) -> Option<DataType> {
    match (integer.primitive_width()?, float) {
        (1 | 2, float) => Some(float.clone()),
        _ => Some(DataType::Float64),
    }
}

/// Precision and scale of a decimal, or of the decimal that holds an integer type.
fn digits(ty: &DataType) -> Option<(u8, i8)> {
    match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::UInt64 => Some((20, 0)),
        _ => None,
    }
}

/// The array in the table's type. Narrow forms are left alone if `narrow`.
pub(crate) fn conform(array: ArrayRef, target: &DataType, narrow: bool) -> Result<ArrayRef> {
    if array.data_type() == target || narrow && is_narrow_form(array.data_type(), target) {
        return Ok(array);
    }
    match (array.data_type(), target) {
        (DataType::Struct(_), DataType::Struct(fields)) => return conform_struct(array.as_struct(), fields),
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = conform_inside(list.values().clone(), item)?;
            let list = ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
            return Ok(Arc::new(list.map_err(from_arrow)?));
        }
        (DataType::Map(..), DataType::Map(entries, is_sorted)) => {
            let map = array.as_map();
            let pairs: ArrayRef = Arc::new(map.entries().clone());
            let pairs = match (entries.data_type(), map.entries().columns()) {
                (DataType::Struct(fields), [keys, values]) if fields.len() == 2 => {
                    let columns =
                        vec![conform_inside(keys.clone(), &fields[0])?, conform_inside(values.clone(), &fields[1])?];
                    StructArray::try_new(fields.clone(), columns, pairs.nulls().cloned()).map_err(from_arrow)?
                }
                _ => return Err(Error::bug("a map has no keys and values")),
            };
            let map =
                MapArray::try_new(entries.clone(), map.offsets().clone(), pairs, map.nulls().cloned(), *is_sorted);
            return Ok(Arc::new(map.map_err(from_arrow)?));
        }
        // A value of the dictionary may be NULL.
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().logical_null_count() > 0 {
                let plain = take(dictionary.values(), dictionary.keys(), None).map_err(from_arrow)?;
                return conform(plain, target, narrow);
            }
        }
        _ => {}
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&array, target, &options).map_err(from_arrow)
}

/// The values of a list, a struct or a map in the type of their field.
fn conform_inside(array: ArrayRef, field: &Field) -> Result<ArrayRef> {
    let is_uuid = field.metadata().get(TYPE_KEY).is_some_and(|told| told == UUID_TYPE);
    match array.data_type() {
        DataType::FixedSizeBinary(16) if is_uuid && *field.data_type() == DataType::Utf8View => uuid_texts(&array),
        _ => conform(array, field.data_type(), false),
    }
}

/// A struct with these fields, by their names.
fn conform_struct(array: &StructArray, fields: &Fields) -> Result<ArrayRef> {
    let columns = fields.iter().map(|field| match array.column_by_name(field.name()) {
        Some(column) => conform_inside(column.clone(), field),
        None => Ok(new_null_array(field.data_type(), array.len())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(array.len(), array.nulls().cloned())));
    }
    let array = StructArray::try_new(fields.clone(), columns, array.nulls().cloned());
    Ok(Arc::new(array.map_err(from_arrow)?))
}

/// The texts of UUIDs of 16 bytes.
pub(crate) fn uuid_texts(array: &ArrayRef) -> Result<ArrayRef> {
    let bytes = array.as_fixed_size_binary_opt().ok_or_else(|| Error::bug("a UUID has no 16 bytes"))?;
    let text = |bytes: &[u8]| {
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    };
    Ok(Arc::new(bytes.iter().map(|bytes| bytes.map(text)).collect::<StringViewArray>()))
}

/// The 16 bytes of UUIDs that are texts. Fails with kind `Value` if one is none.
pub(crate) fn uuid_bytes(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast_with_options(array, &DataType::Utf8View, &CastOptions::default()).map_err(from_arrow)?;
    let mut bytes = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts.as_string_view() {
        let Some(text) = text else {
            bytes.append_null();
            continue;
        };
        let wrong = || Error::value(format!("'{text}' is no UUID")).with_code("22P02");
        let digits = text.bytes().filter(|byte| *byte != b'-');
        let digits =
            digits.map(|digit| char::from(digit).to_digit(16)).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let pairs = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8));
        bytes.append_value(pairs.collect::<Vec<_>>()).map_err(|_| wrong())?;
    }
    Ok(Arc::new(bytes.finish()))
}

/// As [`conform`] to a declared type; an error says which column has a value that does not convert.
pub(crate) fn conform_column(array: ArrayRef, column: &Field, narrow: bool) -> Result<ArrayRef> {
    let found = array.data_type().clone();
    if found == DataType::FixedSizeBinary(16)
        && *column.data_type() == DataType::Utf8View
        && column.metadata().get(TYPE_KEY).is_some_and(|told| told == UUID_TYPE)
    {
        return uuid_texts(&array);
    }
    conform(array, column.data_type(), narrow).map_err(|error| {
        let (name, wanted) = (column.name(), type_name(column.data_type()));
        Error::new(error.kind(), format!("column '{name}' is {found}, declared as {wanted}: {}", error.message()))
    })
}

/// What people call the type of a column.
pub(crate) fn field_type_name(field: &Field) -> String {
    match field.metadata().get(TYPE_KEY) {
        Some(told) => told.to_uppercase(),
        None => type_name(field.data_type()),
    }
}

/// What people call a type.
pub(crate) fn type_name(ty: &DataType) -> String {
    match ty {
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        other if other.is_nested() => {
            SqlType::of_arrow(other).map_or_else(|| other.to_string(), |told| told.to_string().to_uppercase())
        }
        DataType::Interval(_) => "INTERVAL".to_owned(),
        other => other.to_string(),
    }
}

/// True if the first type is a narrow physical form of the second, as [`DecodeRequest`](crate::DecodeRequest) lists
/// them.
pub(crate) fn is_narrow_form(physical: &DataType, logical: &DataType) -> bool {
    match (physical, logical) {
        (DataType::Decimal64(p, s), DataType::Decimal128(q, t)) => p == q && s == t,
        (DataType::Dictionary(key, value), DataType::Utf8View) => **key == DataType::Int32 && **value == DataType::Utf8,
        _ => false,
    }
}

/// A column that a file does not have.
pub(crate) fn nulls(target: &DataType, rows: usize) -> ArrayRef {
    new_null_array(target, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> Arc<Schema> {
        Arc::new(Schema::new(fields.iter().map(|(name, ty)| Field::new(*name, ty.clone(), false)).collect::<Vec<_>>()))
    }

    #[test]
    fn types_widen_to_what_holds_both() {
        use DataType::*;
        let cases = [
            (Int32, Int64, Some(Int64)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, Int8, Some(Decimal128(20, 0))),
            (UInt8, UInt32, Some(UInt32)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, Some(Float64)),
            (UInt64, Float32, Some(Float64)),
            (Float64, Decimal128(10, 2), Some(Float64)),
            (Float64, Utf8View, None),
            (Decimal128(10, 2), Decimal128(8, 4), Some(Decimal128(12, 4))),
            (Decimal128(38, 0), Decimal128(38, 10), Some(Decimal256(48, 10))),
            (Int32, Decimal128(5, 2), Some(Decimal128(12, 2))),
            (Date32, Timestamp(TimeUnit::Second, None), Some(Timestamp(TimeUnit::Second, None))),
            (Utf8View, Int32, None),
            (Null, Utf8View, Some(Utf8View)),
            (Boolean, Int8, None),
        ];
        for (a, b, wide) in cases {
            assert_eq!(widen(&a, &b), wide, "{a} and {b}");
            assert_eq!(widen(&b, &a), wide, "{b} and {a}");
        }
    }

    #[test]
    fn files_agree_by_name_and_missing_columns_are_nullable() {
        let a = schema(&[("x", DataType::Int32), ("y", DataType::Utf8View)]);
        let b = schema(&[("z", DataType::Boolean), ("x", DataType::Int64)]);
        let merged = merge(&["a", "b"], &[a, b], None, |_| false).unwrap();
        assert_eq!(merged.schema.field(0), &Field::new("x", DataType::Int64, false));
        assert_eq!(merged.schema.field(1), &Field::new("y", DataType::Utf8View, true));
        assert_eq!(merged.schema.field(2), &Field::new("z", DataType::Boolean, true));
        assert_eq!(merged.positions[0], vec![Some(0), Some(1), None]);
        assert_eq!(merged.positions[1], vec![Some(1), None, Some(0)]);
    }

    #[test]
    fn names_that_differ_in_capitals_are_one_unless_a_file_has_both() {
        let of = |names: &[&str]| schema(&names.iter().map(|name| (*name, DataType::Int32)).collect::<Vec<_>>());
        let names = |files: &[&[&str]]| {
            let schemas = files.iter().map(|names| of(names)).collect::<Vec<_>>();
            let merged = merge(&vec!["f"; files.len()], &schemas, None, |_| false).unwrap();
            let names = merged.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            (names.join(" "), merged.positions)
        };
        let (one, positions) = names(&[&["Id", "v"], &["V", "id"], &["ID"]]);
        assert_eq!(one, "Id v");
        assert_eq!(positions, [vec![Some(0), Some(1)], vec![Some(1), Some(0)], vec![Some(0), None]]);
        let (apart, positions) = names(&[&["Id"], &["id"], &["id", "Id"]]);
        assert_eq!(apart, "Id id");
        assert_eq!(positions, [vec![Some(0), None], vec![None, Some(0)], vec![Some(1), Some(0)]]);
        assert_eq!(names(&[&["a", "A"], &["a"]]).0, "a A");
    }

    #[test]
    fn types_that_are_told_may_differ() {
        let files = [schema(&[("x", DataType::Utf8View)]), schema(&[("x", DataType::Int32)])];
        assert!(merge(&["a", "b"], &files, None, |name| name == "x").is_ok());
        assert!(merge(&["a", "b"], &files, None, |_| false).is_err());
    }

    #[test]
    fn texts_that_are_json_in_one_file_only_are_texts() {
        let of = |told: &[&str]| {
            let metadata = told.iter().map(|told| (TYPE_KEY.to_owned(), (*told).to_owned())).collect();
            Arc::new(Schema::new(vec![Field::new("x", DataType::Utf8View, true).with_metadata(metadata)]))
        };
        for (first, second, wanted) in [
            (&["json"][..], &["json"][..], Some("json")),
            (&["json"], &["jsonb"], Some("json")),
            (&["json"], &[], None),
        ] {
            let merged = merge(&["a", "b"], &[of(first), of(second)], None, |_| false).unwrap();
            assert_eq!(merged.schema.field(0).metadata().get(TYPE_KEY).map(String::as_str), wanted);
        }
    }

    #[test]
    fn types_that_do_not_fit_name_both_files() {
        let error = merge(
            &["a.csv", "b.csv"],
            &[schema(&[("x", DataType::Utf8View)]), schema(&[("x", DataType::Int32)])],
            None,
            |name| name != "x",
        )
        .err()
        .unwrap();
        assert!(error.message().contains("a.csv") && error.message().contains("b.csv"), "{error}");
    }

    #[test]
    fn declared_columns_rule() {
        let file = schema(&[("Id", DataType::Int32), ("name", DataType::Utf8View), ("x", DataType::Int8)]);
        let declared =
            Schema::new(vec![Field::new("later", DataType::Utf8, true), Field::new("id", DataType::Int64, false)]);
        let merged = merge(&["a"], std::slice::from_ref(&file), Some(&declared), |_| false).unwrap();
        assert_eq!(merged.schema.field(0), &Field::new("later", DataType::Utf8View, true));
        assert_eq!(merged.positions, vec![vec![None, Some(0)]]);
        let slip = Schema::new(vec![Field::new("idd", DataType::Int64, true)]);
        let error = merge(&["a"], std::slice::from_ref(&file), Some(&slip), |_| false).err().unwrap();
        assert!(error.message().contains("none of the declared columns 'idd'"), "{error}");
        let missing =
            Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Int64, false)]);
        let error = merge(&["a"], &[file], Some(&missing), |_| false).err().unwrap();
        assert!(error.message().contains("'y' is declared NOT NULL, but a does not"), "{error}");
        assert!(merge(&[], &[], Some(&missing), |_| false).unwrap().positions.is_empty());
    }

    #[test]
    fn uuids_are_bytes_and_texts() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("00000000-0000-0000-0000-0000000000ff"), None]));
        let bytes = uuid_bytes(&texts).unwrap();
        assert_eq!(bytes.as_fixed_size_binary().value(0)[15], 255);
        assert_eq!(&uuid_texts(&bytes).unwrap(), &texts);
        let wrong: ArrayRef = Arc::new(StringViewArray::from(vec!["00"]));
        assert_eq!(uuid_bytes(&wrong).unwrap_err().code(), Some("22P02"));
        let told = |ty, name: &str| {
            Field::new("a", ty, true).with_metadata([(EXTENSION_KEY.to_owned(), name.to_owned())].into())
        };
        let fields = vec![
            told(DataType::FixedSizeBinary(16), "arrow.uuid"),
            told(DataType::Int8, "arrow.bool8"),
            told(DataType::LargeUtf8, "arrow.json"),
        ];
        let logical = logical_schema(&Schema::new(fields));
        assert_eq!(logical.field(0).metadata()[TYPE_KEY], UUID_TYPE);
        assert_eq!(logical.field(1).data_type(), &DataType::Boolean);
        assert_eq!(logical.field(2).data_type(), &DataType::Utf8View);
        assert_eq!(logical.field(2).metadata()[TYPE_KEY], JSON_TYPE);
    }

    #[test]
    fn a_name_twice_gets_a_number() {
        let twice = schema(&[("a", DataType::Int8), ("a_1", DataType::Int8), ("a", DataType::Int8)]);
        let logical = logical_schema(&twice);
        let names = logical.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        assert_eq!(names, vec!["a", "a_1", "a_2"]);
    }
}
