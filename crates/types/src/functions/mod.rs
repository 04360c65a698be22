//! The catalog of functions, operators and aggregates.
//!
//! A name has one or several *overloads*. [`resolve`] chooses one for the types of a call's arguments by PostgreSQL's
//! rules (manual, sections 10.2 and 10.3) and says to which types the arguments are cast and what comes out. Operators
//! are functions whose names are their signs (`+`, `||`, `~`); `-x` is `-` with one argument.
//!
//! What a function does is a [`Kernel`]: a function of whole columns. It becomes DataFusion's `ScalarUDF` only where a
//! physical expression is made ([`ScalarCall::udf`]), so that the engine can evaluate it like any other.

mod aggregate_origin;
mod aggregates;
mod arithmetic;
mod arrays;
mod bins;
mod bits;
mod bytes;
mod calendar;
mod catalog;
mod collated;
mod columns;
mod comparisons;
mod date_units;
mod datetime;
mod decimal;
mod digests;
mod dimensions;
mod domains;
mod duckdb;
mod enums;
mod errors;
mod foreign;
mod formatting;
mod graphemes;
mod hashes;
mod intervals;
mod json;
mod lists;
mod maps;
mod matcher;
mod math;
mod more_texts;
mod multiranges;
mod networks;
mod numeric;
mod order_keys;
mod others;
mod patterns;
mod precise;
mod printing;
mod proposals;
mod ranges;
mod reach;
mod regexes;
mod register;
mod resolve;
mod rounded_times;
mod strftime;
mod strings;
mod text_search;
mod udf;
mod zoned_times;
mod zones;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::{AggregateUDF, ColumnarValue, ScalarUDF};
use diligence_base::Result;

pub use self::aggregate_origin::AggregateOrigin;
pub use self::aggregates::{Computed, RowsFunction, extreme_udaf, rows_udaf, single_value_udaf};
pub use self::datetime::{UnitSize, unit_size};
pub use self::json::path_text;
pub use self::order_keys::{distinct_type, distinct_values, is_equal_as_held, order_key};
pub use self::regexes::{groups_of_match, is_match};
pub use self::register::{aggregates, argument_names, has_function, names, scalars};
pub use self::resolve::{Candidate, choose_routine, nearest_function, resolve_aggregate, resolve_scalar};
use crate::SqlType;

/// What an overload says of an argument's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// This type, its parentheses left open.
    Exact(SqlType),
    /// `anyelement`: any type, but the same wherever it stands in the overload (also as an array's element).
    AnyElement,
    /// `anyarray`: an array of it.
    AnyArray,
    /// `anycompatible`: any type; all such arguments are cast to their common type.
    AnyCompatible,
    /// `anycompatiblearray`: an array of the common type.
    AnyCompatibleArray,
    /// `"any"`: any type at all, as it is.
    Any,
    /// `anynonarray`: any type but an array.
    AnyNonArray,
    /// `record`: a row of any columns.
    AnyRecord,
    /// Any map.
    AnyMap,
    /// `anyenum`: an enum, the same wherever it stands in the overload.
    AnyEnum,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(sql_type) => write!(f, "{sql_type}"),
            Self::AnyElement => f.write_str("anyelement"),
            Self::AnyArray => f.write_str("anyarray"),
            Self::AnyCompatible => f.write_str("anycompatible"),
            Self::AnyCompatibleArray => f.write_str("anycompatiblearray"),
            Self::Any => f.write_str("\"any\""),
            Self::AnyNonArray => f.write_str("anynonarray"),
            Self::AnyRecord => f.write_str("record"),
            Self::AnyMap => f.write_str("map"),
            Self::AnyEnum => f.write_str("anyenum"),
        }
    }
}

/// What comes out of an overload.
#[derive(Clone)]
pub enum Returns {
    /// Always this type.
    Type(SqlType),
    /// The type that [`Argument::AnyElement`] or [`Argument::AnyCompatible`] stood for.
    Element,
    /// An array of it.
    Array,
    /// What the function says of the arguments' types as they are after their casts; with the values of those that are
    /// literals, as texts (`round(x, 2)` has two digits behind the point).
    Of(fn(&[SqlType], &[Option<String>]) -> Result<SqlType>),
}

impl fmt::Debug for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(sql_type) => write!(f, "Type({sql_type})"),
            Self::Element => f.write_str("Element"),
            Self::Array => f.write_str("Array"),
            Self::Of(_) => f.write_str("Of(..)"),
        }
    }
}

impl Returns {
    /// The name of the type; `None` if the arguments decide it.
    pub fn type_name(&self) -> Option<String> {
        match self {
            Self::Type(sql_type) => Some(sql_type.to_string()),
            Self::Element => Some("anyelement".to_owned()),
            Self::Array => Some("anyarray".to_owned()),
            Self::Of(_) => None,
        }
    }
}

/// How a call's value may change from one evaluation to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stability {
    /// Never: equal arguments, equal values.
    Immutable,
    /// Not within a statement.
    Stable,
    /// At each evaluation.
    Volatile,
}

/// What a kernel is told of its call besides the arguments.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The number of rows.
    pub rows: usize,
    /// The arguments' types.
    pub arguments: &'a [SqlType],
    /// The result's type.
    pub returns: &'a SqlType,
}

/// A function of whole columns. Each argument is an array of `rows` values or one value for all rows; so is the result,
/// whose type must be `returns.arrow()`.
pub type Kernel = fn(&[ColumnarValue], &Call<'_>) -> Result<ColumnarValue>;

/// What a scalar function does.
#[derive(Clone)]
pub enum Body {
    /// A kernel of ours.
    Kernel(Kernel),
    /// A function of DataFusion's whose answers are PostgreSQL's. Arguments are cast to the overload's types before,
    /// the result to `returns` after.
    DataFusion(fn() -> Arc<ScalarUDF>),
    /// Something that the binder or the lowering turns into another expression: `coalesce`, `nullif`, `current_date`,
    /// and operators for which the engine has kernels of its own (`+` of numbers, comparisons).
    Special(Special),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(_) => f.write_str("Kernel"),
            Self::DataFusion(_) => f.write_str("DataFusion"),
            Self::Special(special) => write!(f, "{special:?}"),
        }
    }
}

/// Functions that become other expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// `+`, `-`, `*` of integers, floats and decimals whose result has their common type: Arrow's kernels, checked.
    Add,
    /// See [`Special::Add`].
    Subtract,
    /// See [`Special::Add`].
    Multiply,
    /// `/` and `%` of integers and floats: truncating for integers, an error (22012) for a divisor of zero.
    Divide,
    /// See [`Special::Divide`].
    Modulo,
    /// `-x` of integers, floats and decimals.
    Negate,
    /// `=`, `<>`, `<`, `<=`, `>`, `>=` of a type that Arrow's kernels compare as PostgreSQL does.
    Equal,
    /// See [`Special::Equal`].
    NotEqual,
    /// See [`Special::Equal`].
    Less,
    /// See [`Special::Equal`].
    LessOrEqual,
    /// See [`Special::Equal`].
    Greater,
    /// See [`Special::Equal`].
    GreaterOrEqual,
    /// `a || b` of texts.
    Concatenate,
}

/// One scalar function of a name.
#[derive(Clone, Debug)]
pub struct Overload {
    /// The name, in lower case, or an operator's sign.
    pub name: &'static str,
    /// The arguments, those with defaults included.
    pub arguments: Vec<Argument>,
    /// How many of the arguments, the last ones, may be left out.
    pub optional: usize,
    /// What any number of further arguments are, if it takes them.
    pub variadic: Option<Argument>,
    /// What comes out.
    pub returns: Returns,
    /// Whether any NULL among the arguments makes the result NULL without a call.
    pub is_strict: bool,
    /// Whether the binder appends the session's time zone as a last argument of type `text`.
    pub takes_zone: bool,
    /// Whether the binder appends the session's configuration of text search as a last argument of type `regconfig`.
    pub takes_configuration: bool,
    /// How its value may change.
    pub stability: Stability,
    /// What it does.
    pub body: Body,
}

/// One aggregate of a name.
#[derive(Clone, Debug)]
pub struct AggregateOverload {
    /// The name, in lower case.
    pub name: &'static str,
    /// The arguments; none for `count(*)`.
    pub arguments: Vec<Argument>,
    /// What any number of further arguments are, if it takes them.
    pub variadic: Option<Argument>,
    /// Whether it is an ordered-set aggregate: its last argument comes from WITHIN GROUP (ORDER BY …).
    pub is_ordered_set: bool,
    /// What comes out.
    pub returns: Returns,
    /// What it does.
    pub body: AggregateBody,
}

/// What an aggregate does.
#[derive(Clone)]
pub enum AggregateBody {
    /// DataFusion's aggregate of the arguments after these casts (same number as the arguments; `None`: as it is). The
    /// result is cast to `returns`.
    DataFusion {
        /// The aggregate.
        function: fn() -> Arc<AggregateUDF>,
        /// Types to cast the arguments to first.
        casts: fn(&[SqlType]) -> Vec<Option<SqlType>>,
    },
    /// `avg` of integers and numerics: the sum by the count, divided as `numeric`.
    Average,
    /// Of all rows of a group at once ([`rows_udaf`]).
    Rows(RowsFunction),
    /// `min` and `max` by the [`order_key`] of the argument, an array by itself ([`extreme_udaf`]).
    Extreme {
        /// `max`.
        is_greatest: bool,
    },
    /// Computed from other aggregates, into which the binder rewrites it; the name says how.
    Rewritten,
}

impl fmt::Debug for AggregateBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataFusion { .. } => "DataFusion",
            Self::Average => "Average",
            Self::Rows(_) => "Rows",
            Self::Extreme { .. } => "Extreme",
            Self::Rewritten => "Rewritten",
        })
    }
}

/// A scalar function chosen for a call.
#[derive(Clone, Debug)]
pub struct ScalarCall {
    /// The overload.
    pub overload: &'static Overload,
    /// The types to which the arguments are cast, the zone's and the configuration's included.
    pub arguments: Vec<SqlType>,
    /// The result's type.
    pub returns: SqlType,
}

impl PartialEq for ScalarCall {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.overload, other.overload)
            && self.arguments == other.arguments
            && self.returns == other.returns
    }
}

impl Eq for ScalarCall {}

impl std::hash::Hash for ScalarCall {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.overload.name.hash(state);
        self.arguments.hash(state);
    }
}

impl ScalarCall {
    /// The call as DataFusion's function, of arguments that have the call's types. `None` for [`Body::Special`], unless
    /// the engine's kernel would not give the result's type (decimals whose product has too many digits).
    pub fn udf(&self) -> Option<Arc<ScalarUDF>> {
        udf::of(self)
    }

    /// The call that a function was [made of](Self::udf); `None` if it was made of none.
    pub fn of_udf(function: &ScalarUDF) -> Option<Self> {
        udf::call_of(function)
    }

    /// The place of its overload among those of its name; `None` if the catalog does not have it.
    pub fn place(&self) -> Option<usize> {
        scalars(self.overload.name).iter().position(|overload| std::ptr::eq(overload, self.overload))
    }

    /// The Arrow type of the result.
    pub fn arrow(&self) -> DataType {
        self.returns.arrow()
    }
}

/// An aggregate chosen for a call.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The overload.
    pub overload: &'static AggregateOverload,
    /// The types to which the arguments are cast.
    pub arguments: Vec<SqlType>,
    /// The result's type.
    pub returns: SqlType,
}

#[cfg(test)]
mod tests;
