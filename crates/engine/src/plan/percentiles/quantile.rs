//! Where a quantile lies among the values of a group, and what it is, to the bit as DataFusion's `median` and
//! `percentile_cont` have it (datafusion-functions-aggregate 55, `calculate_median` and `calculate_percentile`), or our
//! own `percentile_cont`, which is PostgreSQL's.
//!
//! Floats are in IEEE 754's total order there, in which zeros have a sign and NaNs with a sign come first. Our own
//! orders know one zero and one NaN, so floats go by their *rank*: an integer whose order is that one, and from which
//! the float comes back with all its bits.

use std::fmt;

use arrow::datatypes::{
    ArrowNativeType, ArrowNativeTypeOp, ArrowNumericType, ArrowPrimitiveType, Float16Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type,
};

/// Parts into which the distance between two values is cut: DataFusion's `INTERPOLATION_PRECISION`.
const INTERPOLATION_PRECISION: f64 = 1_000_000.0;

/// Which value of a group is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Quantile {
    /// The middle one, or half the sum of the two in the middle.
    Median,
    /// The one at a share of the way from the least to the greatest, or between the two around that place.
    Continuous {
        /// The share, from 0 to 1, as the bits of an `f64`.
        share_bits: u64,
        /// Whether the place between two values counts as it is, and not cut off as DataFusion does.
        is_exact: bool,
    },
    /// The first one that has at least a share of all up to it, counted from the least or from the greatest.
    Discrete {
        /// The share, from 0 to 1, as the bits of an `f64`.
        share_bits: u64,
        /// Whether the greatest comes first.
        is_descending: bool,
    },
}

impl Quantile {
    /// The quantile at a share of the way, from 0 to 1.
    pub fn at(share: f64) -> Self {
        Self::Continuous { share_bits: share.to_bits(), is_exact: false }
    }

    /// The same as PostgreSQL has it.
    pub fn exactly_at(share: f64) -> Self {
        Self::Continuous { share_bits: share.to_bits(), is_exact: true }
    }

    /// The first value with at least this share up to it.
    pub fn first_with(share: f64, is_descending: bool) -> Self {
        Self::Discrete { share_bits: share.to_bits(), is_descending }
    }

    /// The share of the way from the least value to the greatest, or of the values.
    pub fn share(self) -> f64 {
        match self {
            Quantile::Median => 0.5,
            Quantile::Continuous { share_bits, .. } | Quantile::Discrete { share_bits, .. } => {
                f64::from_bits(share_bits)
            }
        }
    }

    /// The places, from 0 on, of the values of which it is made among `count` ones, at least one: equal if it is one of
    /// them.
    pub fn places(self, count: u64) -> (u64, u64) {
        match self {
            Quantile::Median => ((count - 1) / 2, count / 2),
            Quantile::Continuous { .. } => {
                let place = self.place(count);
                (place.floor() as u64, place.ceil() as u64)
            }
            Quantile::Discrete { is_descending, .. } => {
                let first = (self.share() * count as f64).ceil().max(1.0) as u64 - 1;
                let place = if is_descending { count - 1 - first } else { first };
                (place, place)
            }
        }
    }

    fn place(self, count: u64) -> f64 {
        self.share() * (count - 1) as f64
    }

    /// What it is of `count` floats, those at its two places given.
    pub fn of_floats<T: Float>(self, low: T::Native, high: T::Native, count: u64) -> T::Native {
        match (self, self.places(count)) {
            (_, (lower, upper)) if lower == upper => low,
            (Quantile::Median, _) => middle::<T>(low, high),
            (Quantile::Discrete { .. }, _) => low,
            (Quantile::Continuous { is_exact, .. }, (lower, _)) => {
                let fraction = self.place(count) - lower as f64;
                let weight = match is_exact {
                    true => fraction,
                    false => (fraction * INTERPOLATION_PRECISION).trunc() / INTERPOLATION_PRECISION,
                };
                let (low, high) = (T::widened(low), T::widened(high));
                T::narrowed(low + (high - low) * weight)
            }
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantile::Median => f.write_str("median"),
            Quantile::Continuous { .. } | Quantile::Discrete { .. } => write!(f, "percentile {}", self.share()),
        }
    }
}

/// The value between two: their sum, halved and cut off, also where the sum has no place in the type.
pub(super) fn middle<T: ArrowNumericType>(low: T::Native, high: T::Native) -> T::Native {
    let two = T::Native::usize_as(2);
    match low.add_checked(high) {
        Ok(sum) => sum.div_wrapping(two),
        Err(_) => {
            let rest = low.mod_wrapping(two).add_wrapping(high.mod_wrapping(two)).div_wrapping(two);
            low.div_wrapping(two).add_wrapping(high.div_wrapping(two)).add_wrapping(rest)
        }
    }
}

/// A type of floats with its ranks.
pub(super) trait Float: ArrowNumericType {
    /// Integers of the same width.
    type Rank: ArrowPrimitiveType;
    /// The place of a float in total order.
    fn rank(value: Self::Native) -> <Self::Rank as ArrowPrimitiveType>::Native;
    /// The float with a rank.
    fn of_rank(rank: <Self::Rank as ArrowPrimitiveType>::Native) -> Self::Native;
    /// As a number of 64 bits.
    fn widened(value: Self::Native) -> f64;
    /// The nearest one.
    fn narrowed(value: f64) -> Self::Native;
}

macro_rules! floats {
    ($($float:ty, $ranks:ty, $signed:ty, $unsigned:ty, $narrowed:expr;)*) => {$(
        impl Float for $float {
            type Rank = $ranks;

            #[inline(always)]
            fn rank(value: Self::Native) -> $signed {
                let bits = value.to_bits() as $signed;
                // Of negative floats, all bits but the sign are turned.
                bits ^ ((bits >> (<$signed>::BITS - 1)) as $unsigned >> 1) as $signed
            }

            #[inline(always)]
            fn of_rank(rank: $signed) -> Self::Native {
                let bits = rank ^ ((rank >> (<$signed>::BITS - 1)) as $unsigned >> 1) as $signed;
                <Self::Native>::from_bits(bits as $unsigned)
            }

            #[inline(always)]
            fn widened(value: Self::Native) -> f64 {
                f64::from(value)
            }

            #[inline(always)]
            fn narrowed(value: f64) -> Self::Native {
                $narrowed(value)
            }
        }
    )*};
}
floats! {
    Float16Type, Int16Type, i16, u16, <Self::Native>::from_f64;
    Float32Type, Int32Type, i32, u32, |value| value as f32;
    Float64Type, Int64Type, i64, u64, std::convert::identity;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_total_order_and_floats_come_back_with_all_their_bits() {
        let nan = f64::from_bits(f64::NAN.to_bits() | 5);
        let ordered = [-nan, -f64::NAN, f64::NEG_INFINITY, -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.0, f64::INFINITY, nan];
        for pair in ordered.windows(2) {
            assert!(Float64Type::rank(pair[0]) < Float64Type::rank(pair[1]), "{pair:?}");
        }
        for value in ordered {
            assert_eq!(Float64Type::of_rank(Float64Type::rank(value)).to_bits(), value.to_bits());
            let value = value as f32;
            assert_eq!(Float32Type::of_rank(Float32Type::rank(value)).to_bits(), value.to_bits());
        }
        for bits in [0x8000, 0x0001, 0xfc00, 0x7e01] {
            let value = <Float16Type as ArrowPrimitiveType>::Native::from_bits(bits);
            assert_eq!(Float16Type::of_rank(Float16Type::rank(value)).to_bits(), bits);
        }
    }

    #[test]
    fn places_are_around_the_share_of_the_way() {
        assert_eq!([1, 2, 3, 4].map(|count| Quantile::Median.places(count)), [(0, 0), (0, 1), (1, 1), (1, 2)]);
        let quarter = Quantile::at(0.25);
        assert_eq!([1, 2, 5, 6].map(|count| quarter.places(count)), [(0, 0), (0, 1), (1, 1), (1, 2)]);
        assert_eq!((Quantile::at(0.0).places(9), Quantile::at(1.0).places(9)), ((0, 0), (8, 8)));
        let first = |share, is_descending| Quantile::first_with(share, is_descending).places(4).0;
        assert_eq!([0.0, 0.25, 0.26, 0.5, 1.0].map(|share| first(share, false)), [0, 0, 1, 1, 3]);
        assert_eq!([0.0, 0.25, 0.26, 0.5, 1.0].map(|share| first(share, true)), [3, 3, 2, 2, 0]);
    }
}
