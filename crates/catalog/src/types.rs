//! Which PostgreSQL type stands for which of ours.
//!
//! Numbers are those of PostgreSQL's `pg_type.dat`, which clients have built in.

use arrow::datatypes::{DataType, Field};
use diligence_types::SqlType;
use diligence_types::enum_type::EnumType;
use diligence_types::record_type::RecordType;

/// The key of a field's metadata under which the front of our own notes its SQL type.
const SQL_TYPE_KEY: &str = "sql_type";

/// The key of a field's metadata that says, with any value, that the digits or characters of its type are no modifier:
/// something computes the values of the column.
const COMPUTED_KEY: &str = "computed";

/// The key of a field's metadata with the name of a type of [`TYPES`] which clients are told of, and no expression has.
const SHOWN_KEY: &str = "shown_type";

/// The key of a field's metadata that says which column of a table or a view it is: `oid.place`.
const ORIGIN_KEY: &str = "origin";

/// The name of a [`PostgresType`] whose values are rows.
pub const ROW_NAME: &str = "record";

/// Digits and scale of the decimals that hold a `numeric` without parentheses.
pub const UNBOUNDED_NUMERIC: (u8, i8) = (76, 38);

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresType {
    /// Its number.
    pub oid: u32,
    /// Its name in `pg_type`.
    pub name: &'static str,
    /// Its name in SQL, as `format_type` gives it.
    pub sql_name: &'static str,
    /// Bytes of a value; -1 if they vary.
    pub bytes: i16,
    /// The number of the type of its arrays; 0 if there is none.
    pub array_oid: u32,
    /// One letter for its kind: `N`umber, `S`tring, `D`ate or time, `T`imespan, `B`oolean, `U`ser, `A`rray, `Z` for
    /// what only the catalog uses.
    pub category: &'static str,
}

const fn base(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    bytes: i16,
    array_oid: u32,
    category: &'static str,
) -> PostgresType {
    PostgresType { oid, name, sql_name, bytes, array_oid, category }
}

/// The types that columns, parameters and the catalog's own columns have.
pub const TYPES: [PostgresType; 57] = [
    BOOL,
    BYTEA,
    base(18, "char", "\"char\"", 1, 1002, "Z"),
    base(19, "name", "name", 64, 1003, "S"),
    INT8,
    INT2,
    base(22, "int2vector", "int2vector", -1, 1006, "A"),
    INT4,
    base(24, "regproc", "regproc", 4, 1008, "N"),
    TEXT,
    base(26, "oid", "oid", 4, 1028, "N"),
    base(28, "xid", "xid", 4, 1011, "U"),
    base(30, "oidvector", "oidvector", -1, 1013, "A"),
    JSON,
    FLOAT4,
    FLOAT8,
    UNKNOWN,
    base(650, "cidr", "cidr", -1, 651, "I"),
    base(774, "macaddr8", "macaddr8", 8, 775, "U"),
    base(829, "macaddr", "macaddr", 6, 1040, "U"),
    base(869, "inet", "inet", -1, 1041, "I"),
    base(1042, "bpchar", "character", -1, 1014, "S"),
    base(1043, "varchar", "character varying", -1, 1015, "S"),
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    base(1266, "timetz", "time with time zone", 12, 1270, "D"),
    NUMERIC,
    base(1560, "bit", "bit", -1, 1561, "V"),
    base(1562, "varbit", "bit varying", -1, 1563, "V"),
    base(1790, "refcursor", "refcursor", -1, 2201, "U"),
    RECORD,
    base(2202, "regprocedure", "regprocedure", 4, 2207, "N"),
    base(2205, "regclass", "regclass", 4, 2210, "N"),
    base(2206, "regtype", "regtype", 4, 2211, "N"),
    base(2950, "uuid", "uuid", 16, 2951, "U"),
    base(3614, "tsvector", "tsvector", -1, 3643, "U"),
    base(3615, "tsquery", "tsquery", -1, 3645, "U"),
    base(3734, "regconfig", "regconfig", 4, 3735, "N"),
    base(3769, "regdictionary", "regdictionary", 4, 3770, "N"),
    base(3802, "jsonb", "jsonb", -1, 3807, "U"),
    base(3904, "int4range", "int4range", -1, 3905, "R"),
    base(3906, "numrange", "numrange", -1, 3907, "R"),
    base(3908, "tsrange", "tsrange", -1, 3909, "R"),
    base(3910, "tstzrange", "tstzrange", -1, 3911, "R"),
    base(3912, "daterange", "daterange", -1, 3913, "R"),
    base(3926, "int8range", "int8range", -1, 3927, "R"),
    base(4089, "regnamespace", "regnamespace", 4, 4090, "N"),
    base(4096, "regrole", "regrole", 4, 4097, "N"),
    base(4451, "int4multirange", "int4multirange", -1, 6150, "R"),
    base(4532, "nummultirange", "nummultirange", -1, 6151, "R"),
    base(4533, "tsmultirange", "tsmultirange", -1, 6152, "R"),
    base(4534, "tstzmultirange", "tstzmultirange", -1, 6153, "R"),
    base(4535, "datemultirange", "datemultirange", -1, 6155, "R"),
    base(4536, "int8multirange", "int8multirange", -1, 6157, "R"),
];

/// `record`: rows of any columns.
pub const RECORD: PostgresType = base(2249, ROW_NAME, ROW_NAME, -1, 2287, "P");
/// `boolean`.
pub const BOOL: PostgresType = base(16, "bool", "boolean", 1, 1000, "B");
/// `bytea`.
pub const BYTEA: PostgresType = base(17, "bytea", "bytea", -1, 1001, "U");
/// `bigint`.
pub const INT8: PostgresType = base(20, "int8", "bigint", 8, 1016, "N");
/// `smallint`.
pub const INT2: PostgresType = base(21, "int2", "smallint", 2, 1005, "N");
/// `integer`.
pub const INT4: PostgresType = base(23, "int4", "integer", 4, 1007, "N");
/// `text`.
pub const TEXT: PostgresType = base(25, "text", "text", -1, 1009, "S");
/// `json`.
pub const JSON: PostgresType = base(114, "json", "json", -1, 199, "U");
/// `real`.
pub const FLOAT4: PostgresType = base(700, "float4", "real", 4, 1021, "N");
/// `double precision`.
pub const FLOAT8: PostgresType = base(701, "float8", "double precision", 8, 1022, "N");
/// What a client sends without saying what it is.
pub const UNKNOWN: PostgresType = base(705, "unknown", "unknown", -2, 0, "X");
/// `date`.
pub const DATE: PostgresType = base(1082, "date", "date", 4, 1182, "D");
/// `time without time zone`.
pub const TIME: PostgresType = base(1083, "time", "time without time zone", 8, 1183, "D");
/// `timestamp without time zone`.
pub const TIMESTAMP: PostgresType = base(1114, "timestamp", "timestamp without time zone", 8, 1115, "D");
/// `timestamp with time zone`.
pub const TIMESTAMPTZ: PostgresType = base(1184, "timestamptz", "timestamp with time zone", 8, 1185, "D");
/// `interval`.
pub const INTERVAL: PostgresType = base(1186, "interval", "interval", 16, 1187, "T");
/// `numeric`.
pub const NUMERIC: PostgresType = base(1700, "numeric", "numeric", -1, 1231, "N");

/// A column's type with what is in parentheses behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The number of the type; of arrays, that of the array.
    pub oid: u32,
    /// The type of a value, or of an array's elements.
    pub element: PostgresType,
    /// Whether it is an array.
    pub is_array: bool,
    /// PostgreSQL's `atttypmod`: what is in parentheses behind the type, or behind that of an array's elements; -1 if
    /// nothing is.
    pub modifier: i32,
}

impl ColumnType {
    /// Bytes of a value; -1 if they vary.
    pub fn bytes(&self) -> i16 {
        if self.is_array { -1 } else { self.element.bytes }
    }
}

/// The type that a column has for PostgreSQL's clients. What PostgreSQL does not have becomes text, structs and maps
/// JSON; arrays of arrays are arrays of several dimensions.
pub fn column_type(data_type: &DataType) -> ColumnType {
    let plain = |element: PostgresType| ColumnType { oid: element.oid, element, is_array: false, modifier: -1 };
    match data_type {
        DataType::Boolean => plain(BOOL),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => plain(INT2),
        DataType::Int32 | DataType::UInt16 => plain(INT4),
        DataType::Int64 | DataType::UInt32 => plain(INT8),
        DataType::UInt64 => plain(NUMERIC),
        DataType::Float16 | DataType::Float32 => plain(FLOAT4),
        DataType::Float64 => plain(FLOAT8),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            if (*precision, *scale) == UNBOUNDED_NUMERIC {
                return plain(NUMERIC);
            }
            let modifier = ((i32::from(*precision) << 16) | i32::from(*scale.max(&0))) + 4;
            ColumnType { modifier, ..plain(NUMERIC) }
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => plain(BYTEA),
        DataType::Date32 | DataType::Date64 => plain(DATE),
        DataType::Time32(_) | DataType::Time64(_) => plain(TIME),
        DataType::Timestamp(_, None) => plain(TIMESTAMP),
        DataType::Timestamp(_, Some(_)) => plain(TIMESTAMPTZ),
        DataType::Interval(_) | DataType::Duration(_) => plain(INTERVAL),
        DataType::Dictionary(_, values) => column_type(values),
        DataType::RunEndEncoded(_, values) => column_type(values.data_type()),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            let inner = field_type(field);
            if inner.is_array {
                // An array of arrays is one of more dimensions.
                return inner;
            }
            // A list of structs is JSON as a whole; one of `json` is an array.
            let is_of_json = || SqlType::of_field(field) == Some(SqlType::Json);
            if inner.element == JSON && !is_of_json() || inner.element.array_oid == 0 {
                return plain(JSON);
            }
            ColumnType { oid: inner.element.array_oid, is_array: true, ..inner }
        }
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => plain(JSON),
        _ => plain(TEXT),
    }
}

/// The field of a column whose values something computes: its type has no modifier, whatever its digits are.
pub fn computed(field: Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(COMPUTED_KEY.to_owned(), "true".to_owned());
    field.with_metadata(metadata)
}

/// Whether a field is one of [`computed`].
pub fn is_computed(field: &Field) -> bool {
    field.metadata().contains_key(COMPUTED_KEY)
}

/// The field of a column which clients are told to be of a type of [`TYPES`], by its name.
pub fn shown_as(field: Field, name: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(SHOWN_KEY.to_owned(), name.to_owned());
    field.with_metadata(metadata)
}

/// The name of the type that a field of [`shown_as`] is shown as; `None` of others.
pub fn shown_type(field: &Field) -> Option<&str> {
    field.metadata().get(SHOWN_KEY).map(String::as_str)
}

/// The field of a column whose values come as they are from the column of a table or a view: its oid, and the column's
/// place there, from 1 on.
pub fn of_column(field: Field, relation: u32, place: i16) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(ORIGIN_KEY.to_owned(), format!("{relation}.{place}"));
    field.with_metadata(metadata)
}

/// The table or view, and the place in it, of a field of [`of_column`]; zeros of others.
pub fn origin(field: &Field) -> (u32, i16) {
    let parts = field.metadata().get(ORIGIN_KEY).and_then(|text| text.split_once('.'));
    let numbers = parts.and_then(|(relation, place)| Some((relation.parse().ok()?, place.parse().ok()?)));
    numbers.unwrap_or_default()
}

/// The type of a column: what its field says of its SQL type, where the front of our own noted one, else what the Arrow
/// type tells.
pub fn field_type(field: &Field) -> ColumnType {
    if let Some(element) = shown_type(field).and_then(|name| TYPES.iter().find(|known| known.name == name)) {
        return ColumnType { oid: element.oid, element: *element, is_array: false, modifier: -1 };
    }
    match is_computed(field) {
        true => ColumnType { modifier: -1, ..noted_type(field) },
        false => noted_type(field),
    }
}

fn noted_type(field: &Field) -> ColumnType {
    let Some(text) = field.metadata().get(SQL_TYPE_KEY) else { return column_type(field.data_type()) };
    match SqlType::of_field(field) {
        Some(SqlType::Enum(one)) => return of_enum(&one, false),
        Some(known) if known.has_collation() => {
            return field_type(&known.uncollated().field(field.name(), true));
        }
        Some(ref known @ SqlType::Domain(ref domain)) => {
            return ColumnType { oid: domain.oid, modifier: -1, ..field_type(&known.base().field(field.name(), true)) };
        }
        Some(SqlType::Timed(timed)) => {
            let modifier = timed.modifier;
            return ColumnType { modifier, ..field_type(&timed.base.field(field.name(), true)) };
        }
        Some(ref known @ SqlType::Record(ref fields)) if fields.is_row() => return of_row(known, fields, false),
        Some(known @ (SqlType::Bit(length) | SqlType::VarBit(length))) => return of_bits(known.oid(), length, false),
        Some(SqlType::Array(element)) => match element.as_ref() {
            SqlType::Enum(one) => return of_enum(one, true),
            known @ SqlType::Record(fields) if fields.is_row() => return of_row(known, fields, true),
            known @ (SqlType::Bit(length) | SqlType::VarBit(length)) => {
                return of_bits(known.oid(), *length, true);
            }
            _ => {}
        },
        _ => {}
    }
    let (name, is_array) = match text.strip_suffix("[]") {
        Some(element) => (element, true),
        None => (text.as_str(), false),
    };
    let (name, modifier) = match name.split_once('(') {
        Some((name, rest)) => {
            let length = rest.trim_end_matches(')').parse::<i32>();
            (name, length.map_or(-1, |length| length + 4))
        }
        None => (name, -1),
    };
    let known = TYPES.iter().find(|known| known.sql_name == name || known.name == name);
    match known {
        Some(element) if is_array => ColumnType { oid: element.array_oid, element: *element, is_array, modifier },
        Some(element) => ColumnType { oid: element.oid, element: *element, is_array, modifier },
        None => column_type(field.data_type()),
    }
}

/// An enum, or its arrays: values go as texts.
fn of_enum(one: &EnumType, is_array: bool) -> ColumnType {
    let element = base(one.oid, "enum", "enum", 4, one.array_oid, "E");
    ColumnType { oid: if is_array { one.array_oid } else { one.oid }, element, is_array, modifier: -1 }
}

/// A record or a composite type, or their arrays.
fn of_row(known: &SqlType, fields: &RecordType, is_array: bool) -> ColumnType {
    let array_oid = SqlType::array_of(known.clone()).oid();
    let kind = if fields.composite_name().is_some() { "C" } else { "P" };
    let element = base(known.oid(), ROW_NAME, ROW_NAME, -1, array_oid, kind);
    ColumnType { oid: if is_array { array_oid } else { element.oid }, element, is_array, modifier: -1 }
}

/// `bit` and `bit varying`, or their arrays.
fn of_bits(oid: u32, length: Option<u32>, is_array: bool) -> ColumnType {
    let element = TYPES.iter().find(|known| known.oid == oid).copied().unwrap_or(TEXT);
    let modifier = length.and_then(|length| i32::try_from(length).ok()).unwrap_or(-1);
    ColumnType { oid: if is_array { element.array_oid } else { oid }, element, is_array, modifier }
}

/// The type with this number, and whether the number is that of its arrays.
pub fn type_of_oid(oid: u32) -> Option<(PostgresType, bool)> {
    let known = TYPES.iter().find(|known| known.oid == oid || known.array_oid == oid && oid != 0)?;
    Some((*known, known.oid != oid))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;
    use diligence_types::timed_type::TimedType;

    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        let mut numbers = TYPES.iter().flat_map(|known| [known.oid, known.array_oid]).collect::<Vec<_>>();
        numbers.retain(|number| *number != 0);
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        assert_eq!(type_of_oid(1016), Some((INT8, true)));
        assert_eq!(type_of_oid(0), None);
    }

    #[test]
    fn decimals_and_arrays_keep_what_is_in_parentheses() {
        let price = column_type(&DataType::Decimal128(15, 2));
        assert_eq!((price.oid, (price.modifier - 4) >> 16, (price.modifier - 4) & 0xffff), (1700, 15, 2));
        let list = |inner| DataType::List(Arc::new(Field::new("item", inner, true)));
        assert_eq!(column_type(&list(DataType::Decimal128(15, 2))).modifier, price.modifier);
        let array = |element: SqlType| field_type(&SqlType::array_of(element).field("a", true));
        assert_eq!((array(SqlType::Varchar(Some(3))).oid, array(SqlType::Varchar(Some(3))).modifier), (1015, 7));
        assert_eq!((array(SqlType::Char(Some(4))).oid, array(SqlType::Char(Some(4))).modifier), (1014, 8));
        assert_eq!((array(SqlType::Bit(Some(3))).oid, array(SqlType::Bit(Some(3))).modifier), (1561, 3));
        assert_eq!(array(SqlType::Text).modifier, -1);
        let moments = TimedType::new(SqlType::array_of(SqlType::Timestamp), Some(0), None).unwrap();
        let moments = field_type(&SqlType::Timed(Arc::new(moments)).field("a", true));
        assert_eq!((moments.oid, moments.is_array, moments.modifier), (1115, true, 0));
        let shown = shown_as(SqlType::Varchar(None).field("c", true), "char");
        assert_eq!((field_type(&shown).oid, field_type(&shown).bytes(), shown_type(&shown)), (18, 1, Some("char")));
        assert_eq!(column_type(&list(DataType::Int32)).oid, 1007);
        assert_eq!(column_type(&list(list(DataType::Int32))).oid, 1007);
    }
}
