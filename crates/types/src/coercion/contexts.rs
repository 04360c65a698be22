//! Which casts there are (`pg_cast`, and casts by way of texts), and which of them Arrow does alike.

use super::CastContext::{self, Assignment, Explicit, Implicit};
use super::is_string;
use crate::SqlType;
use crate::network_type::NetworkKind;

/// The least explicit context in which one type becomes another; `None` if it never does.
pub fn cast_context(from: &SqlType, to: &SqlType) -> Option<CastContext> {
    use SqlType as T;
    let (from, to) = (from.base(), to.base());
    if from.has_collation() || to.has_collation() {
        return cast_context(&from.uncollated(), &to.uncollated());
    }
    if from.is_same(to) {
        return Some(Implicit);
    }
    match (from, to) {
        (T::Void, _) | (_, T::Void) => None,
        (T::Unknown, _) => Some(Implicit),
        (_, T::Unknown) => None,
        (from, to) if is_string(from) && is_string(to) => Some(match (from, to) {
            (T::Name, T::Char(_) | T::Varchar(_)) => Assignment,
            _ => Implicit,
        }),
        (T::Text | T::Varchar(_), T::Oid(kind)) if *kind == crate::sql_type::OidKind::Class => Some(Implicit),
        (from, _) if is_string(from) => Some(Explicit),
        (_, to) if is_string(to) => Some(Assignment),
        (T::Array(from), T::Array(to)) => cast_context(from, to),
        (T::Vector(from), T::Array(to)) => cast_context(&from.element(), to),
        (T::Record(from), T::Record(to)) => {
            let sources = from.sources(to)?;
            // What leaves out a column must be asked for.
            let is_whole = sources.iter().flatten().count() == from.len();
            let fields = sources.into_iter().zip(to.iter()).filter_map(|(source, to)| Some((source?, to)));
            let mut fields = fields.map(|(source, to)| cast_context(&from[source].sql_type, &to.sql_type));
            fields.try_fold(if is_whole { Implicit } else { Explicit }, wider)
        }
        (T::Map(from), T::Map(to)) => {
            [cast_context(&from.0, &to.0), cast_context(&from.1, &to.1)].into_iter().try_fold(Implicit, wider)
        }
        _ => of_numbers(from, to).or_else(|| of_times(from, to)).or_else(|| of_others(from, to)),
    }
}

fn wider(context: CastContext, other: Option<CastContext>) -> Option<CastContext> {
    other.map(|other| context.max(other))
}

/// Numbers by how much they hold. A number becomes a wider one anywhere, a narrower one where it is stored.
fn of_numbers(from: &SqlType, to: &SqlType) -> Option<CastContext> {
    let rank = |sql_type: &SqlType| match sql_type {
        SqlType::SmallInt => Some(0),
        SqlType::Integer => Some(1),
        SqlType::BigInt => Some(2),
        SqlType::Numeric(_) => Some(3),
        SqlType::Real => Some(4),
        SqlType::Double => Some(5),
        _ => None,
    };
    Some(if rank(from)? < rank(to)? { Implicit } else { Assignment })
}

fn of_times(from: &SqlType, to: &SqlType) -> Option<CastContext> {
    use SqlType as T;
    Some(match (from, to) {
        (T::Date, T::Timestamp | T::TimestampTz)
        | (T::Timestamp, T::TimestampTz)
        | (T::Time, T::Interval | T::TimeTz) => Implicit,
        (T::TimestampTz, T::TimeTz) | (T::TimeTz, T::Time) => Assignment,
        (T::Timestamp | T::TimestampTz, T::Date | T::Time) | (T::TimestampTz, T::Timestamp) => Assignment,
        (T::Interval, T::Time) => Assignment,
        _ => return None,
    })
}

fn of_others(from: &SqlType, to: &SqlType) -> Option<CastContext> {
    use SqlType as T;
    Some(match (from, to) {
        (T::Boolean, T::Integer) | (T::Integer, T::Boolean) => Explicit,
        (T::SmallInt | T::Integer | T::BigInt, T::Oid(_)) => Implicit,
        (T::Oid(_), T::Integer | T::BigInt) => Assignment,
        (T::Oid(from), T::Oid(to)) => {
            use crate::sql_type::OidKind::Oid;
            if *from != Oid && *to != Oid {
                return None;
            }
            Implicit
        }
        (T::Bit(_), T::VarBit(_)) | (T::VarBit(_), T::Bit(_)) => Implicit,
        (T::Integer | T::BigInt, T::Bit(_)) | (T::Bit(_), T::Integer | T::BigInt) => Explicit,
        (T::Network(NetworkKind::Inet), T::Network(NetworkKind::Cidr)) => Assignment,
        (T::Network(from), T::Network(to)) if from.is_internet() == to.is_internet() => Implicit,
        (T::Range(from), T::Multirange(to)) if from == to => Explicit,
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => Assignment,
        (T::Jsonb, T::Boolean | T::SmallInt | T::Integer | T::BigInt | T::Numeric(_) | T::Real | T::Double) => Explicit,
        _ => return None,
    })
}

/// Whether Arrow's own cast between the types' Arrow types means the same, errors included, so that the engine's
/// kernels may do it.
pub fn is_arrows(from: &SqlType, to: &SqlType) -> bool {
    use SqlType as T;
    if from.has_collation() || to.has_collation() {
        return is_arrows(&from.uncollated(), &to.uncollated());
    }
    match (from, to) {
        (from, to) if from == to => true,
        (T::SmallInt, T::Integer | T::BigInt | T::Real | T::Double)
        | (T::Integer, T::BigInt | T::Real | T::Double)
        | (T::BigInt, T::Real | T::Double)
        | (T::Real, T::Double) => true,
        // Nothing to do.
        (T::Unknown | T::Text | T::Varchar(_) | T::Char(_) | T::Name, T::Unknown | T::Text | T::Varchar(None)) => true,
        (T::Uuid | T::Json | T::Jsonb | T::Enum(_), T::Text | T::Varchar(None)) | (T::Jsonb, T::Json) => true,
        // Every integer has its digits.
        (T::SmallInt, T::Numeric(Some((precision, scale)))) => has_room(*precision, *scale, 5),
        (T::Integer, T::Numeric(Some((precision, scale)))) => has_room(*precision, *scale, 10),
        (T::BigInt, T::Numeric(Some((precision, scale)))) => has_room(*precision, *scale, 19),
        (T::Numeric(Some((precision, scale))), T::Numeric(Some((wider, longer)))) => {
            longer >= scale && has_room(*wider, *longer, i32::from(*precision) - i32::from(*scale))
        }
        // Both numbers of the division are exact.
        (T::Numeric(Some((precision, scale))), T::Double) => *precision <= 15 && (0..=22).contains(scale),
        _ => false,
    }
}

fn has_room(precision: u8, scale: i8, digits: i32) -> bool {
    scale >= 0 && i32::from(precision) - i32::from(scale) >= digits
}
