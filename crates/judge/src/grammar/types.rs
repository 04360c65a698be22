//! The types of the grammar, and their literals: ordinary values, and those at edges.

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    Bool,
    Int2,
    Int4,
    Int8,
    Numeric,
    Float8,
    Text,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Bytea,
    Uuid,
    Int4Array,
    TextArray,
}

use SqlType::{
    Bool, Bytea, Date, Float8, Int2, Int4, Int4Array, Int8, Interval, Numeric, Text, TextArray, Time, Timestamp,
    Timestamptz, Uuid, Varchar,
};

impl SqlType {
    /// All types.
    pub const ALL: [SqlType; 17] = [
        Bool,
        Int2,
        Int4,
        Int8,
        Numeric,
        Float8,
        Text,
        Varchar,
        Date,
        Time,
        Timestamp,
        Timestamptz,
        Interval,
        Bytea,
        Uuid,
        Int4Array,
        TextArray,
    ];

    /// The types that `min` and `max` give back as they are.
    pub const ORDERED: [SqlType; 11] =
        [Int2, Int4, Int8, Numeric, Float8, Text, Date, Time, Timestamp, Timestamptz, Interval];

    /// The types of numbers.
    pub const NUMBERS: [SqlType; 5] = [Int2, Int4, Int8, Numeric, Float8];

    /// The types of moments.
    pub const MOMENTS: [SqlType; 3] = [Date, Timestamp, Timestamptz];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Int2 => "int2",
            Int4 => "int4",
            Int8 => "int8",
            Numeric => "numeric",
            Float8 => "float8",
            Text => "text",
            Varchar => "varchar",
            Date => "date",
            Time => "time",
            Timestamp => "timestamp",
            Timestamptz => "timestamptz",
            Interval => "interval",
            Bytea => "bytea",
            Uuid => "uuid",
            Int4Array => "int4[]",
            TextArray => "text[]",
        }
    }

    /// The type of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Values as text within quotes, ordinary ones first.
    pub fn values(self) -> &'static [&'static str] {
        match self {
            Bool => &["true", "false"],
            Int2 => &["0", "1", "-1", "7", "12", "32767", "-32768"],
            Int4 => &["0", "1", "2", "3", "-1", "42", "100", "2147483647", "-2147483648"],
            Int8 => &["0", "1", "-1", "5", "1000000", "9223372036854775807", "-9223372036854775808"],
            Numeric => &[
                "0",
                "1.5",
                "-1.50",
                "2",
                "0.001",
                "100.00",
                "-12.345",
                "0.3333333333",
                "99999999.99",
                "123456789012345678901234567890.5",
                "NaN",
            ],
            Float8 => &["0", "1.5", "-2.25", "0.1", "3", "1e-5", "1e10", "-0", "NaN", "Infinity", "-Infinity"],
            Text => &["", "a", "b", "abc", "Ab c", " x ", "a%c", "10", "a,b", "é", "日本", "it''s"],
            Varchar => &["", "a", "abc", "B", "a b", "ü"],
            Date => &["2024-02-29", "2024-01-01", "1970-01-01", "1999-12-31", "2024-03-31", "0001-01-01", "9999-12-31"],
            Time => &["00:00:00", "12:34:56", "23:59:59.999999", "06:00:00", "01:02:03.5"],
            Timestamp => &[
                "2024-02-29 12:34:56",
                "2024-01-01 00:00:00",
                "1970-01-01 00:00:00",
                "1969-12-31 23:59:59.5",
                "2024-03-31 02:30:00",
                "0001-01-01 00:00:00",
                "9999-12-31 23:59:59.999999",
            ],
            Timestamptz => &[
                "2024-02-29 12:34:56+00",
                "2024-01-01 00:00:00+05:30",
                "1970-01-01 00:00:00Z",
                "2024-03-31 01:30:00+00",
                "2024-11-03 06:30:00+00",
            ],
            Interval => {
                &["1 day", "01:30:00", "1 mon", "-2 days", "1 year 2 mons 3 days 04:05:06", "00:00:00", "00:00:00.5"]
            }
            Bytea => &["\\x", "\\x00ff", "\\x61", "\\xdeadbeef"],
            Uuid => &[
                "00000000-0000-0000-0000-000000000000",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "ffffffff-ffff-ffff-ffff-ffffffffffff",
            ],
            Int4Array => &["{}", "{1,2}", "{2,NULL}", "{3,1,2}", "{1}"],
            TextArray => &["{}", "{a,b}", "{NULL}", "{\"b c\",\"\"}"],
        }
    }

    /// A value as an expression of exactly this type.
    pub fn literal(self, value: &str) -> String {
        let is_plain_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match self {
            Bool => value.to_owned(),
            Int4 if is_plain_number => value.to_owned(),
            Numeric if is_plain_number && value.contains('.') => value.to_owned(),
            Int2 | Int8 | Float8 if is_plain_number => format!("{value}::{}", self.name()),
            Text | Varchar | Int2 | Int4 | Int8 | Numeric | Float8 | Int4Array | TextArray => {
                format!("'{value}'::{}", self.name())
            }
            Date | Time | Timestamp | Timestamptz | Interval => {
                format!("{} '{value}'", self.name().to_ascii_uppercase())
            }
            Bytea | Uuid => format!("'{value}'::{}", self.name()),
        }
    }
}
