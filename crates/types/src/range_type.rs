//! Range types: what lies between two bounds (manual, section 8.17); of multiranges, between several pairs of them.
//!
//! A value is held as its text, with the bounds in one form: those of integers and dates include the lower and not the
//! upper one, numbers have no zeros behind their digits, timestamps with a zone are in UTC. So equal ranges are equal
//! texts.

/// A range type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// `int4range`.
    Integer,
    /// `int8range`.
    BigInt,
    /// `numrange`.
    Numeric,
    /// `tsrange`.
    Timestamp,
    /// `tstzrange`.
    TimestampTz,
    /// `daterange`.
    Date,
}

impl RangeKind {
    /// All of them.
    pub const ALL: [RangeKind; 6] =
        [Self::Integer, Self::BigInt, Self::Numeric, Self::Timestamp, Self::TimestampTz, Self::Date];

    /// Whether its texts are written as those of dates are.
    pub fn is_of_dates(self) -> bool {
        matches!(self, Self::Timestamp | Self::TimestampTz | Self::Date)
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "int4range",
            Self::BigInt => "int8range",
            Self::Numeric => "numrange",
            Self::Timestamp => "tsrange",
            Self::TimestampTz => "tstzrange",
            Self::Date => "daterange",
        }
    }

    /// The name of the type of several ranges of it.
    pub fn multirange_name(self) -> &'static str {
        match self {
            Self::Integer => "int4multirange",
            Self::BigInt => "int8multirange",
            Self::Numeric => "nummultirange",
            Self::Timestamp => "tsmultirange",
            Self::TimestampTz => "tstzmultirange",
            Self::Date => "datemultirange",
        }
    }

    /// The kind of ranges of which a name's type has several.
    pub fn of_multirange_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.multirange_name() == name)
    }

    /// PostgreSQL's numbers of the type of several ranges, and of its arrays.
    pub fn multirange_oids(self) -> (u32, u32) {
        match self {
            Self::Integer => (4451, 6150),
            Self::Numeric => (4532, 6151),
            Self::Timestamp => (4533, 6152),
            Self::TimestampTz => (4534, 6153),
            Self::Date => (4535, 6155),
            Self::BigInt => (4536, 6157),
        }
    }

    /// The type of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether there is a next value, so that each range has one form.
    pub fn is_discrete(self) -> bool {
        matches!(self, Self::Integer | Self::BigInt | Self::Date)
    }

    /// PostgreSQL's numbers of the type and of its arrays.
    pub fn oids(self) -> (u32, u32) {
        match self {
            Self::Integer => (3904, 3905),
            Self::Numeric => (3906, 3907),
            Self::Timestamp => (3908, 3909),
            Self::TimestampTz => (3910, 3911),
            Self::Date => (3912, 3913),
            Self::BigInt => (3926, 3927),
        }
    }
}
