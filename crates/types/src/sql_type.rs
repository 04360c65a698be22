//! The types that expressions and columns have in SQL.
//!
//! A [`SqlType`] says what a value means; the Arrow type behind it ([`SqlType::arrow`]) only how it is held. Several
//! SQL types share one Arrow type (`text`, `varchar`, `uuid` and `json` are all strings), so a field carries its SQL
//! type in its metadata under [`FIELD_KEY`] wherever the Arrow type alone would not tell.
//!
//! Values are held like this:
//! * `numeric(p, s)`: decimals of 128 bits up to 38 digits, of 256 bits up to 76. `numeric` without parentheses, where
//!   the scale of each value is its own, is a decimal of 76 digits, 38 of them behind the point ([`NUMERIC_PRECISION`],
//!   [`NUMERIC_SCALE`]); its text form has no zeros at the end.
//! * `timestamp` and `timestamptz`: microseconds since 1970; `i64::MAX` and `i64::MIN` are `infinity` and `-infinity`.
//!   A `timestamptz` is an instant (the Arrow zone is always `UTC`); the session's zone only shows it.
//! * `date`: days since 1970; `i32::MAX` and `i32::MIN` are the infinities. `time`: microseconds since midnight.
//! * `interval`: months, days and nanoseconds, which are multiples of 1,000.
//! * `uuid`: its text of 36 characters, in lower case, which sorts as the bytes do. `json`, `jsonb`, enums: text.
//! * `bit`, `bit varying`: texts of zeros and ones, which sort as the bits do.
//! * Ranges, multiranges, addresses in networks, documents and queries of text search: their texts, of which each
//!   value has one; `regconfig` and `regdictionary`: names. `int2vector` and `oidvector`: their texts.

pub mod collated_type;
pub mod domain_type;
pub mod record_type;
pub mod timed_type;
pub mod vector_type;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};

use crate::enum_type::EnumType;
use crate::network_type::NetworkKind;
use crate::range_type::RangeKind;
use crate::search_type::SearchKind;

use self::collated_type::CollatedType;
use self::domain_type::DomainType;
use self::record_type::RecordType;
use self::timed_type::TimedType;
use self::vector_type::VectorKind;

/// The key in a field's metadata under which its SQL type stands.
pub const FIELD_KEY: &str = "sql_type";

/// `bit` of any length, in a field's metadata and in signatures.
const ANY_BITS: &str = "bits";

/// Digits of a `numeric` without parentheses.
pub const NUMERIC_PRECISION: u8 = 76;
/// Digits behind its point.
pub const NUMERIC_SCALE: i8 = 38;
/// The zone of every `timestamptz` in Arrow's types.
pub const INSTANT_ZONE: &str = "UTC";

/// A type of SQL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// A quoted literal, a NULL or a parameter whose type nothing has decided yet.
    Unknown,
    /// `boolean`.
    Boolean,
    /// `smallint`, 16 bits.
    SmallInt,
    /// `integer`, 32 bits.
    Integer,
    /// `bigint`, 64 bits.
    BigInt,
    /// `numeric`; with precision and scale, or with a scale of each value's own.
    Numeric(Option<(u8, i8)>),
    /// `real`, 32 bits.
    Real,
    /// `double precision`, 64 bits.
    Double,
    /// `text`.
    Text,
    /// `character varying`, with the most characters.
    Varchar(Option<u32>),
    /// `character`, with its number of characters: blanks at the end do not count.
    Char(Option<u32>),
    /// `name`: PostgreSQL's names of objects.
    Name,
    /// `bytea`.
    Bytea,
    /// `bit`, with its number of bits.
    Bit(Option<u32>),
    /// `bit varying`, with the most bits.
    VarBit(Option<u32>),
    /// `date`.
    Date,
    /// `time without time zone`.
    Time,
    /// `time with time zone`.
    TimeTz,
    /// `timestamp without time zone`.
    Timestamp,
    /// `timestamp with time zone`.
    TimestampTz,
    /// `interval`.
    Interval,
    /// `uuid`.
    Uuid,
    /// `json`.
    Json,
    /// `jsonb`.
    Jsonb,
    /// An enum: texts in an order.
    Enum(Arc<EnumType>),
    /// `oid`, and the types that are oids with names: `regclass`, `regtype`, `regproc`, `regprocedure`,
    /// `regnamespace`, `regrole`.
    Oid(OidKind),
    /// An array of any number of dimensions: lists of one element type.
    Array(Arc<SqlType>),
    /// A row of named columns: a composite value, DuckDB's STRUCT.
    Record(RecordType),
    /// DuckDB's MAP.
    Map(Arc<(SqlType, SqlType)>),
    /// A range: what is between two bounds.
    Range(RangeKind),
    /// A multirange: ranges with something between each two.
    Multirange(RangeKind),
    /// An address in a network.
    Network(NetworkKind),
    /// Of full text search: `tsvector`, `tsquery`, `regconfig`, `regdictionary`.
    Search(SearchKind),
    /// Numbers that are counted from 0, in columns of the catalog: `int2vector`, `oidvector`.
    Vector(VectorKind),
    /// A domain: some of another type's values. No expression has one, only what takes values.
    Domain(Arc<DomainType>),
    /// A type of times with a modifier, such as `timestamp(3)`. No expression has one, only what takes values.
    Timed(Arc<TimedType>),
    /// Texts with a collation that is not the database's.
    Collated(Arc<CollatedType>),
    /// `refcursor`: the name of a cursor that a procedure has opened.
    RefCursor,
    /// `void`: the result of functions that are called for what they do.
    Void,
}

/// Which of the types that are oids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OidKind {
    /// `oid`.
    Oid,
    /// `regclass`.
    Class,
    /// `regtype`.
    Type,
    /// `regproc`.
    Procedure,
    /// `regprocedure`: a routine with the types of its arguments.
    Signature,
    /// `regnamespace`.
    Namespace,
    /// `regrole`.
    Role,
}

impl RangeKind {
    /// The type of the bounds.
    pub fn element(self) -> SqlType {
        match self {
            Self::Integer => SqlType::Integer,
            Self::BigInt => SqlType::BigInt,
            Self::Numeric => SqlType::NUMERIC,
            Self::Timestamp => SqlType::Timestamp,
            Self::TimestampTz => SqlType::TimestampTz,
            Self::Date => SqlType::Date,
        }
    }
}

/// A column of a [`SqlType::Record`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
}

/// PostgreSQL's categories of types, by which overloads are chosen (manual, section 10.3, `pg_type.typcategory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// `A`.
    Array,
    /// `B`.
    Boolean,
    /// `C`.
    Composite,
    /// `E`.
    Enum,
    /// `D`: dates and times.
    DateTime,
    /// `I`: addresses of the internet protocol.
    Network,
    /// `N`.
    Numeric,
    /// `S`.
    String,
    /// `T`: intervals.
    Timespan,
    /// `U`: bytea, uuid, json.
    UserDefined,
    /// `V`: bit strings.
    Bits,
    /// `X`.
    Unknown,
}

impl SqlType {
    /// `numeric` with the scale of each value its own.
    pub const NUMERIC: SqlType = SqlType::Numeric(None);
    /// `oid`.
    pub const OID: SqlType = SqlType::Oid(OidKind::Oid);

    /// An array of this type.
    pub fn array_of(element: SqlType) -> Self {
        // Arrays of arrays are arrays of more dimensions.
        SqlType::Array(Arc::new(element))
    }

    /// `numeric(precision, scale)`.
    pub fn decimal(precision: u8, scale: i8) -> Self {
        SqlType::Numeric(Some((precision, scale)))
    }

    /// The Arrow type that holds the values.
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Unknown | Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Name => DataType::Utf8View,
            Self::Uuid | Self::Json | Self::Jsonb | Self::Enum(_) | Self::RefCursor => DataType::Utf8View,
            Self::Bit(_) | Self::VarBit(_) | Self::Range(_) | Self::TimeTz => DataType::Utf8View,
            Self::Multirange(_) | Self::Network(_) | Self::Search(_) | Self::Vector(_) => DataType::Utf8View,
            Self::Boolean => DataType::Boolean,
            Self::SmallInt => DataType::Int16,
            Self::Integer => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Numeric(Some((precision, scale))) if *precision <= 38 => DataType::Decimal128(*precision, *scale),
            Self::Numeric(Some((precision, scale))) => DataType::Decimal256(*precision, *scale),
            Self::Numeric(None) => DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE),
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Bytea => DataType::BinaryView,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(INSTANT_ZONE.into())),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Oid(_) => DataType::Int64,
            // What an enum's labels are stands beside the type, which stays the same when they change.
            Self::Array(element) if matches!(**element, Self::Enum(_)) => {
                DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)))
            }
            Self::Array(element) => DataType::List(Arc::new(element.uncollated().field("item", true))),
            Self::Record(fields) => {
                let field = |field: &RecordField| field.sql_type.uncollated().field(&field.name, true);
                DataType::Struct(fields.iter().map(field).collect::<Fields>())
            }
            Self::Map(pair) => {
                let (key, value) = (pair.0.uncollated(), pair.1.uncollated());
                let entries = Fields::from(vec![key.field("key", false), value.field("value", true)]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }
            Self::Domain(_) | Self::Timed(_) => self.base().arrow(),
            Self::Collated(one) => one.base.arrow(),
            Self::Void => DataType::Null,
        }
    }

    /// A field of this type; its metadata has the SQL type where the Arrow type alone would not tell it.
    pub fn field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.arrow(), nullable);
        match Self::of_arrow(field.data_type()) {
            Some(told) if told == *self => field,
            _ => field.with_metadata([(FIELD_KEY.to_owned(), self.noted())].into()),
        }
    }

    /// The text by which a field notes the type.
    pub(crate) fn noted(&self) -> String {
        match self {
            Self::Enum(one) => one.noted(),
            Self::Domain(one) => one.noted(),
            Self::Timed(one) => one.noted(),
            Self::Collated(one) => one.noted(),
            Self::Record(fields) => fields.noted(),
            // `bit` alone is one bit.
            Self::Bit(None) => ANY_BITS.to_owned(),
            Self::Array(element) => match element.innermost() {
                Self::Enum(one) => format!("{}[]", one.noted()),
                Self::Collated(one) => format!("{}[]", one.noted()),
                Self::Bit(None) => format!("{ANY_BITS}[]"),
                _ => self.to_string(),
            },
            _ => self.to_string(),
        }
    }

    /// The SQL type of a field: what its metadata says, else what its Arrow type tells. `None` if SQL has no such type.
    pub fn of_field(field: &Field) -> Option<Self> {
        match field.metadata().get(FIELD_KEY) {
            Some(text) => match (RecordType::of_noted(text), field.data_type()) {
                (Some(noted), DataType::Struct(fields)) => Some(Self::Record(noted.with(record_fields(fields)?))),
                _ => Self::parse(text).or_else(|| Self::of_arrow(field.data_type())),
            },
            None => Self::of_arrow(field.data_type()),
        }
    }

    /// The SQL type whose values an Arrow type of any file or table holds. Where it differs from
    /// [`arrow`](Self::arrow), the values are cast when they are read. `None` if SQL has no such type.
    pub fn of_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Text,
            DataType::Boolean => Self::Boolean,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::SmallInt,
            DataType::UInt16 | DataType::Int32 => Self::Integer,
            DataType::UInt32 | DataType::Int64 => Self::BigInt,
            DataType::UInt64 => Self::decimal(20, 0),
            DataType::Float16 | DataType::Float32 => Self::Real,
            DataType::Float64 => Self::Double,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => Self::decimal(*p, *s),
            DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE) => Self::NUMERIC,
            DataType::Decimal256(p, s) => Self::decimal(*p, *s),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytea
            }
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::TimestampTz,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => Self::array_of(Self::of_field(item)?),
            DataType::Struct(fields) => Self::Record(record_fields(fields)?.into()),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    Self::Map(Arc::new((Self::of_field(&fields[0])?, Self::of_field(&fields[1])?)))
                }
                _ => return None,
            },
            DataType::Dictionary(_, values) => Self::of_arrow(values)?,
            DataType::RunEndEncoded(_, values) => Self::of_field(values)?,
            DataType::Union(..) => return None,
        })
    }

    /// The category by which overloads are chosen.
    pub fn category(&self) -> Category {
        match self {
            Self::Unknown => Category::Unknown,
            Self::Boolean => Category::Boolean,
            Self::SmallInt | Self::Integer | Self::BigInt | Self::Numeric(_) | Self::Real | Self::Double => {
                Category::Numeric
            }
            Self::Oid(_) => Category::Numeric,
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Name => Category::String,
            Self::Bytea | Self::Uuid | Self::Json | Self::Jsonb | Self::RefCursor => Category::UserDefined,
            Self::Range(_) | Self::Multirange(_) => Category::UserDefined,
            Self::Search(SearchKind::Vector | SearchKind::Query) => Category::UserDefined,
            Self::Search(SearchKind::Configuration | SearchKind::Dictionary) => Category::Numeric,
            Self::Network(kind) if kind.is_internet() => Category::Network,
            Self::Network(_) => Category::UserDefined,
            Self::Enum(_) => Category::Enum,
            Self::Bit(_) | Self::VarBit(_) => Category::Bits,
            Self::Date | Self::Time | Self::TimeTz | Self::Timestamp | Self::TimestampTz => Category::DateTime,
            Self::Interval => Category::Timespan,
            Self::Array(_) | Self::Vector(_) => Category::Array,
            Self::Record(_) | Self::Map(_) => Category::Composite,
            Self::Domain(one) => one.base.category(),
            Self::Timed(one) => one.base.category(),
            Self::Collated(one) => one.base.category(),
            Self::Void => Category::UserDefined,
        }
    }

    /// Whether it is the type that its category prefers (`pg_type.typispreferred`).
    pub fn is_preferred(&self) -> bool {
        matches!(
            self,
            Self::Boolean
                | Self::Double
                | Self::Oid(OidKind::Oid)
                | Self::Text
                | Self::TimestampTz
                | Self::Interval
                | Self::VarBit(_)
                | Self::Network(NetworkKind::Inet)
        )
    }

    /// The type without what is in its parentheses: `varchar(3)` is `varchar`, `numeric(5, 2)` is `numeric`.
    pub fn without_modifier(&self) -> Self {
        match self {
            Self::Numeric(_) => Self::NUMERIC,
            Self::Varchar(_) => Self::Varchar(None),
            Self::Char(_) => Self::Char(None),
            Self::Bit(_) => Self::Bit(None),
            Self::VarBit(_) => Self::VarBit(None),
            Self::Array(element) => Self::array_of(element.without_modifier()),
            Self::Collated(one) => one.base.without_modifier(),
            Self::Timed(one) => one.base.clone(),
            other => other.clone(),
        }
    }

    /// Whether two types are one to overload resolution: parentheses do not count.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other || self.without_modifier() == other.without_modifier()
    }

    /// The type of the values: what a domain is of, a type of times without its modifier, another type itself.
    pub fn base(&self) -> &SqlType {
        match self {
            Self::Domain(one) => one.base.base(),
            Self::Timed(one) => &one.base,
            other => other,
        }
    }

    /// What a domain is of, of times with its modifier; another type itself.
    pub fn below_domains(&self) -> &SqlType {
        match self {
            Self::Domain(one) => one.base.below_domains(),
            other => other,
        }
    }

    /// The type, of times without its modifier.
    pub fn untimed(self) -> Self {
        match self {
            Self::Timed(one) => one.base.clone(),
            other => other,
        }
    }

    /// The elements' type, if it is an array.
    pub fn element(&self) -> Option<&SqlType> {
        match self {
            Self::Array(element) => Some(element),
            _ => None,
        }
    }

    /// PostgreSQL's number of the type (`pg_type.oid`). What PostgreSQL lacks has that of `record` or `text`.
    pub fn oid(&self) -> u32 {
        match self {
            Self::Unknown => 705,
            Self::Boolean => 16,
            Self::SmallInt => 21,
            Self::Integer => 23,
            Self::BigInt => 20,
            Self::Numeric(_) => 1700,
            Self::Real => 700,
            Self::Double => 701,
            Self::Text => 25,
            Self::Varchar(_) => 1043,
            Self::Char(_) => 1042,
            Self::Name => 19,
            Self::RefCursor => 1790,
            Self::Bytea => 17,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::TimeTz => 1266,
            Self::Timestamp => 1114,
            Self::TimestampTz => 1184,
            Self::Interval => 1186,
            Self::Uuid => 2950,
            Self::Json => 114,
            Self::Jsonb => 3802,
            Self::Enum(one) => one.oid,
            Self::Bit(_) => 1560,
            Self::VarBit(_) => 1562,
            Self::Oid(OidKind::Oid) => 26,
            Self::Oid(OidKind::Class) => 2205,
            Self::Oid(OidKind::Type) => 2206,
            Self::Oid(OidKind::Procedure) => 24,
            Self::Oid(OidKind::Signature) => 2202,
            Self::Oid(OidKind::Namespace) => 4089,
            Self::Oid(OidKind::Role) => 4096,
            Self::Array(element) => match element.innermost() {
                Self::Boolean => 1000,
                Self::SmallInt => 1005,
                Self::Integer => 1007,
                Self::BigInt => 1016,
                Self::Numeric(_) => 1231,
                Self::Real => 1021,
                Self::Double => 1022,
                Self::Varchar(_) => 1015,
                Self::Char(_) => 1014,
                Self::Name => 1003,
                Self::RefCursor => 2201,
                Self::Bytea => 1001,
                Self::Date => 1182,
                Self::Time => 1183,
                Self::TimeTz => 1270,
                Self::Timestamp => 1115,
                Self::TimestampTz => 1185,
                Self::Interval => 1187,
                Self::Uuid => 2951,
                Self::Json => 199,
                Self::Jsonb => 3807,
                Self::Enum(one) => one.array_oid,
                Self::Bit(_) => 1561,
                Self::VarBit(_) => 1563,
                Self::Oid(OidKind::Oid) => 1028,
                Self::Record(fields) => fields.oids().1,
                Self::Range(kind) => kind.oids().1,
                Self::Multirange(kind) => kind.multirange_oids().1,
                Self::Network(kind) => kind.oids().1,
                Self::Search(kind) => kind.oids().1,
                Self::Vector(kind) => kind.oids().1,
                Self::Collated(one) => Self::array_of(one.base.clone()).oid(),
                _ => 1009,
            },
            Self::Record(fields) => fields.oids().0,
            Self::Range(kind) => kind.oids().0,
            Self::Multirange(kind) => kind.multirange_oids().0,
            Self::Network(kind) => kind.oids().0,
            Self::Search(kind) => kind.oids().0,
            Self::Vector(kind) => kind.oids().0,
            Self::Map(_) => 25,
            Self::Domain(one) => one.base.oid(),
            Self::Timed(one) => one.base.oid(),
            Self::Collated(one) => one.base.oid(),
            Self::Void => 2278,
        }
    }

    /// The elements' type of an array of any number of dimensions; the type itself otherwise.
    pub fn innermost(&self) -> &SqlType {
        match self {
            Self::Array(element) => element.innermost(),
            other => other,
        }
    }

    /// The name by which PostgreSQL calls a column of this type that a cast or a function of the type makes (`int4`).
    pub fn internal_name(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Boolean => "bool",
            Self::SmallInt => "int2",
            Self::Integer => "int4",
            Self::BigInt => "int8",
            Self::Numeric(_) => "numeric",
            Self::Real => "float4",
            Self::Double => "float8",
            Self::Text => "text",
            Self::Varchar(_) => "varchar",
            Self::Char(_) => "bpchar",
            Self::Name => "name",
            Self::RefCursor => "refcursor",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Time => "time",
            Self::TimeTz => "timetz",
            Self::Timestamp => "timestamp",
            Self::TimestampTz => "timestamptz",
            Self::Interval => "interval",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Enum(_) => "anyenum",
            Self::Bit(_) => "bit",
            Self::VarBit(_) => "varbit",
            Self::Oid(OidKind::Oid) => "oid",
            Self::Oid(OidKind::Class) => "regclass",
            Self::Oid(OidKind::Type) => "regtype",
            Self::Oid(OidKind::Procedure) => "regproc",
            Self::Oid(OidKind::Signature) => "regprocedure",
            Self::Oid(OidKind::Namespace) => "regnamespace",
            Self::Oid(OidKind::Role) => "regrole",
            // PostgreSQL names such a column after the element's type.
            Self::Array(element) => element.innermost().internal_name(),
            Self::Record(_) => "row",
            Self::Range(kind) => kind.name(),
            Self::Multirange(kind) => kind.multirange_name(),
            Self::Network(kind) => kind.name(),
            Self::Search(kind) => kind.name(),
            Self::Vector(kind) => kind.name(),
            Self::Map(_) => "map",
            Self::Domain(one) => one.base.internal_name(),
            Self::Timed(one) => one.base.internal_name(),
            Self::Collated(one) => one.base.internal_name(),
            Self::Void => "void",
        }
    }

    /// The name of a column that a cast to this type makes.
    pub fn column_name(&self) -> String {
        match self.innermost() {
            Self::Enum(one) => one.name.clone(),
            Self::Domain(one) => one.name.clone(),
            Self::Record(fields) => fields.name().unwrap_or("row").to_owned(),
            other => other.internal_name().to_owned(),
        }
    }

    /// The type that a text such as `numeric(5,2)[]` names, as [`Display`](fmt::Display) writes it or as users do.
    /// `None` if there is no such type. Records and maps are not read.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(one) = DomainType::of_noted(text) {
            return Some(Self::Domain(Arc::new(one)));
        }
        if let Some(one) = TimedType::of_noted(text) {
            return Some(Self::Timed(Arc::new(one)));
        }
        if let Some(element) = text.strip_suffix("[]") {
            return Self::parse(element).map(Self::array_of);
        }
        if let Some(one) = EnumType::of_noted(text) {
            return Some(Self::Enum(Arc::new(one)));
        }
        if let Some(one) = CollatedType::of_noted(text) {
            return Some(Self::Collated(Arc::new(one)));
        }
        let lower = text.to_lowercase();
        let (name, modifiers) = match lower.split_once('(') {
            Some((name, rest)) => {
                let (inside, after) = rest.split_once(')')?;
                let numbers = inside.split(',').map(|number| number.trim().parse::<i32>().ok());
                (format!("{}{}", name.trim_end(), after), numbers.collect::<Option<Vec<_>>>()?)
            }
            None => (lower, vec![]),
        };
        Self::named(&name.split_whitespace().collect::<Vec<_>>().join(" "), &modifiers)
    }

    /// The type of a name in lower case, with the numbers in its parentheses. `None` if there is no such type.
    pub fn named(name: &str, modifiers: &[i32]) -> Option<Self> {
        let length = modifiers.first().and_then(|length| u32::try_from(*length).ok());
        Some(match name {
            "bool" | "boolean" | "logical" => Self::Boolean,
            "smallint" | "int2" | "smallserial" | "tinyint" | "int1" | "short" => Self::SmallInt,
            "integer" | "int" | "int4" | "serial" | "signed" => Self::Integer,
            "bigint" | "int8" | "bigserial" | "long" => Self::BigInt,
            "hugeint" => Self::decimal(38, 0),
            "numeric" | "decimal" | "dec" => match modifiers {
                [] => Self::NUMERIC,
                [precision] => Self::decimal(u8::try_from(*precision).ok().filter(|p| (1..=76).contains(p))?, 0),
                [precision, scale] => {
                    let precision = u8::try_from(*precision).ok().filter(|p| (1..=76).contains(p))?;
                    Self::decimal(precision, i8::try_from(*scale).ok().filter(|scale| *scale <= precision as i8)?)
                }
                _ => return None,
            },
            "real" | "float4" => Self::Real,
            "float" => match modifiers {
                [] => Self::Double,
                [bits] if (1..=24).contains(bits) => Self::Real,
                [bits] if (25..=53).contains(bits) => Self::Double,
                _ => return None,
            },
            "double precision" | "double" | "float8" => Self::Double,
            // A path of JSON is a text, which is read where it is followed.
            "text" | "string" | "jsonpath" => Self::Text,
            "varchar" | "character varying" | "char varying" | "nvarchar" => Self::Varchar(length),
            "bpchar" if modifiers.is_empty() => Self::Char(None),
            "char" | "character" | "bpchar" => Self::Char(Some(length.unwrap_or(1))),
            "name" => Self::Name,
            "refcursor" => Self::RefCursor,
            "bytea" | "blob" | "varbinary" | "binary" | "bytes" => Self::Bytea,
            "date" => Self::Date,
            "time" | "time without time zone" => Self::Time,
            "timetz" | "time with time zone" => Self::TimeTz,
            "timestamp" | "timestamp without time zone" | "datetime" => Self::Timestamp,
            "timestamp_s" | "timestamp_ms" | "timestamp_us" | "timestamp_ns" => Self::Timestamp,
            "timestamptz" | "timestamp with time zone" => Self::TimestampTz,
            "interval" => Self::Interval,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            "jsonb" => Self::Jsonb,
            "oid" => Self::OID,
            "regclass" => Self::Oid(OidKind::Class),
            "regtype" => Self::Oid(OidKind::Type),
            "regproc" => Self::Oid(OidKind::Procedure),
            "regprocedure" => Self::Oid(OidKind::Signature),
            "regnamespace" => Self::Oid(OidKind::Namespace),
            "regrole" => Self::Oid(OidKind::Role),
            "bit" => Self::Bit(Some(length.unwrap_or(1))),
            "varbit" | "bit varying" => Self::VarBit(length),
            ANY_BITS => Self::Bit(None),
            "unknown" => Self::Unknown,
            "void" => Self::Void,
            name => {
                let of_range = RangeKind::of_name(name).map(Self::Range);
                let of_multirange = || RangeKind::of_multirange_name(name).map(Self::Multirange);
                let of_network = || NetworkKind::of_name(name).map(Self::Network);
                let of_search = || SearchKind::of_name(name).map(Self::Search);
                let of_vector = || VectorKind::of_name(name).map(Self::Vector);
                of_range.or_else(of_multirange).or_else(of_network).or_else(of_search).or_else(of_vector)?
            }
        })
    }
}

fn record_fields(fields: &Fields) -> Option<Vec<RecordField>> {
    let field =
        |field: &FieldRef| Some(RecordField { name: field.name().clone(), sql_type: SqlType::of_field(field)? });
    fields.iter().map(field).collect()
}

impl fmt::Display for SqlType {
    /// As PostgreSQL's `format_type` writes it, which is what users see everywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Boolean => f.write_str("boolean"),
            Self::SmallInt => f.write_str("smallint"),
            Self::Integer => f.write_str("integer"),
            Self::BigInt => f.write_str("bigint"),
            Self::Numeric(None) => f.write_str("numeric"),
            Self::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Self::Real => f.write_str("real"),
            Self::Double => f.write_str("double precision"),
            Self::Text => f.write_str("text"),
            Self::Varchar(None) => f.write_str("character varying"),
            Self::Varchar(Some(length)) => write!(f, "character varying({length})"),
            Self::Char(None) => f.write_str("bpchar"),
            Self::Char(Some(length)) => write!(f, "character({length})"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time without time zone"),
            Self::TimeTz => f.write_str("time with time zone"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::TimestampTz => f.write_str("timestamp with time zone"),
            Self::Array(element) => write!(f, "{}[]", element.innermost()),
            Self::Record(fields) if fields.is_row() => fields.fmt(f),
            Self::Record(fields) => {
                f.write_str("struct(")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{} {}", field.name, field.sql_type)?;
                }
                f.write_str(")")
            }
            Self::Map(pair) => write!(f, "map({}, {})", pair.0, pair.1),
            Self::Enum(one) => one.fmt(f),
            Self::Domain(one) => one.fmt(f),
            Self::Timed(one) => one.fmt(f),
            Self::Collated(one) => one.base.fmt(f),
            Self::Bit(Some(length)) => write!(f, "bit({length})"),
            Self::VarBit(None) => f.write_str("bit varying"),
            Self::VarBit(Some(length)) => write!(f, "bit varying({length})"),
            other => f.write_str(other.internal_name()),
        }
    }
}
