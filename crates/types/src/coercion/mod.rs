//! Which type becomes which, and how: casts and common types.
//!
//! * [`contexts`]: which casts there are, and whether a statement must ask for them.
//! * [`common`]: the type that several expressions take where they meet.
//! * [`numbers`], [`times`], [`strings`], [`networks`] and [`nested`]: the casts themselves, of whole arrays.
//! * [`normalize`](mod@normalize): Arrow's many types, as files have them, into the one that a SQL type is held as.

mod common;
mod contexts;
mod nested;
mod networks;
mod normalize;
mod numbers;
mod strings;
#[cfg(test)]
mod tests;
mod times;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{ArrowPrimitiveType, DataType};
use diligence_base::{Error, Result};

pub use self::common::common_type;
pub use self::contexts::{cast_context, is_arrows};
pub use self::normalize::{file_texts, normalize};
use crate::SqlType;
use crate::text::{self, ReadOptions, Zone};

/// In which contexts a cast happens. Each allows what those before it allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere, without being asked for.
    Implicit,
    /// Where a value is stored into a column.
    Assignment,
    /// Only where the statement says CAST.
    Explicit,
}

/// How values are cast.
#[derive(Clone, Debug)]
pub struct CastOptions {
    /// The session's time zone.
    pub zone: String,
    /// Whether the statement says the cast: texts too long for a `varchar(n)` are cut instead of refused.
    pub is_explicit: bool,
    /// Whether a value that does not fit becomes NULL instead of an error.
    pub is_try: bool,
}

/// Casts an array. Fails with kind `Input` and PostgreSQL's SQLSTATE for a value that the type cannot hold, and with
/// 42846 for types between which there is no cast.
pub fn cast_array(array: &ArrayRef, from: &SqlType, to: &SqlType, options: &CastOptions) -> Result<ArrayRef> {
    if from.has_collation() || to.has_collation() {
        return cast_array(array, &from.uncollated(), &to.uncollated(), options);
    }
    let zone = match text::zone_of(from, &options.zone)? {
        Zone::UTC => text::zone_of(to, &options.zone)?,
        zone => zone,
    };
    Cast { from, to, zone, is_explicit: options.is_explicit, is_try: options.is_try }.array(array)
}

/// A cast between two types.
#[derive(Clone, Copy, Debug)]
struct Cast<'a> {
    from: &'a SqlType,
    to: &'a SqlType,
    zone: Zone,
    is_explicit: bool,
    is_try: bool,
}

impl Cast<'_> {
    fn array(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if let DataType::Dictionary(..) = array.data_type() {
            // Each distinct value is cast once.
            let dictionary = array.as_any_dictionary();
            let values = self.array(dictionary.values())?;
            return take(&values, dictionary.keys(), None).map_err(broken);
        }
        if matches!(array.data_type(), DataType::Null) {
            return Ok(new_null_array(&self.to.arrow(), array.len()));
        }
        let array = normalize(array, self.from)?;
        if self.from == self.to {
            return Ok(array);
        }
        self.values(&array)
    }

    /// Casts an array that is held as its type says.
    fn values(&self, array: &ArrayRef) -> Result<ArrayRef> {
        use SqlType as T;
        match (self.from, self.to) {
            (T::Void, _) | (_, T::Void) => Err(self.no_cast()),
            (from, to) if is_string(from) && is_string(to) => strings::fit(self, array),
            (from, _) if is_string(from) => text::parse_array(array.as_string_view(), self.to, &self.read_options()),
            (T::Network(kind), to) if is_string(to) && kind.is_internet() => networks::texts(self, array),
            (T::Network(_), T::Network(kind)) => networks::others(array, *kind),
            (_, to) if is_string(to) => self.texts(array),
            (T::Bit(_) | T::VarBit(_), T::Bit(_) | T::VarBit(_)) => {
                text::parse_array(array.as_string_view(), self.to, &self.read_options())
            }
            (T::Integer | T::BigInt, T::Bit(length)) => strings::bits_of(self, array, length.unwrap_or(1)),
            (T::Bit(_), T::Integer | T::BigInt) => strings::of_bits(self, array),
            (T::Jsonb, T::Json) => Ok(array.clone()),
            (T::Range(kind), T::Multirange(_)) => nested::multiranges(array, *kind),
            (T::Json, T::Jsonb) => text::parse_array(array.as_string_view(), self.to, &self.read_options()),
            (T::Jsonb, _) => strings::of_jsonb(self, array),
            (from, to) if numbers::is_number(from) && numbers::is_number(to) => numbers::cast(self, array),
            (T::Array(from), T::Array(to)) => nested::arrays(self, array, from, to),
            (T::Record(from), T::Record(to)) => nested::records(self, array, from, to),
            (T::Map(from), T::Map(to)) => nested::maps(self, array, from, to),
            _ => times::cast(self, array),
        }
    }

    fn read_options(&self) -> ReadOptions {
        ReadOptions { zone: self.zone, now: None, is_explicit: self.is_explicit, is_try: self.is_try }
    }

    fn texts(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts: ArrayRef = match self.from {
            // The words of a cast, not the letters of the text form.
            SqlType::Boolean => strings::boolean_words(array.as_boolean()),
            _ => std::sync::Arc::new(text::Printer::new(array, self.from, self.zone)?.texts()),
        };
        Cast { from: &SqlType::Text, ..*self }.array(&texts)
    }

    /// Casts the values that are not NULL, one by one.
    fn each<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
        &self,
        array: &ArrayRef,
        cast: impl Fn(A::Native) -> Result<B::Native>,
    ) -> Result<ArrayRef> {
        let array: &PrimitiveArray<A> = array.as_primitive_opt().ok_or_else(|| self.held_otherwise(array))?;
        let result: PrimitiveArray<B> =
            if self.is_try { array.unary_opt(|value| cast(value).ok()) } else { array.try_unary(cast)? };
        Ok(std::sync::Arc::new(result.with_data_type(self.to.arrow())))
    }

    /// Casts all values with a function that cannot fail.
    fn all<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
        &self,
        array: &ArrayRef,
        cast: impl Fn(A::Native) -> B::Native,
    ) -> Result<ArrayRef> {
        let array: &PrimitiveArray<A> = array.as_primitive_opt().ok_or_else(|| self.held_otherwise(array))?;
        let result: PrimitiveArray<B> = array.unary(cast);
        Ok(std::sync::Arc::new(result.with_data_type(self.to.arrow())))
    }

    fn no_cast(&self) -> Error {
        Error::input(format!("cannot cast type {} to {}", self.from, self.to)).with_code("42846")
    }

    fn held_otherwise(&self, array: &ArrayRef) -> Error {
        Error::bug(format!("{} is not how {} is held", array.data_type(), self.from))
    }
}

/// Whether a type's values are texts that a cast reads.
fn is_string(sql_type: &SqlType) -> bool {
    use SqlType as T;
    matches!(sql_type, T::Unknown | T::Text | T::Varchar(_) | T::Char(_) | T::Name)
}

/// An error of Arrow's that only a mistake of ours can cause.
fn broken(error: arrow::error::ArrowError) -> Error {
    Error::bug(format!("a cast: {error}"))
}
