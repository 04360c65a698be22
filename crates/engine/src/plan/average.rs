//! How averages are divided.

use arrow::datatypes::DataType;

/// How an average is divided.
pub(crate) enum AverageKind {
    Float,
    /// The sum times `factor` (its scale to the result's), divided; cut off, not rounded, as DataFusion does.
    Decimal {
        factor: i128,
        precision: u8,
        data_type: DataType,
    },
}

impl AverageKind {
    /// How DataFusion's `avg` computes on these types, if natively done here. Decimals of more than 25 digits are
    /// summed up in 256 bits there, so that a sum never overflows: those are left to it.
    pub fn new(argument: &DataType, result: &DataType) -> Option<Self> {
        match (argument, result) {
            (DataType::Float64, DataType::Float64) => Some(Self::Float),
            (DataType::Decimal128(from, scale), DataType::Decimal128(precision, result_scale)) if *from <= 25 => {
                let shift = u32::try_from(result_scale.checked_sub(*scale)?).ok()?;
                let factor = 10i128.checked_pow(shift)?;
                Some(Self::Decimal { factor, precision: *precision, data_type: result.clone() })
            }
            _ => None,
        }
    }

    /// The sum of a decimal argument, divided by a count that is not zero. `None` if that is more than the result's
    /// digits.
    #[inline(always)]
    pub fn divide(&self, sum: i128, count: i64) -> Option<i128> {
        let Self::Decimal { factor, precision, .. } = self else { return None };
        let limit = 10i128.checked_pow(*precision as u32).unwrap_or(i128::MAX);
        let scaled = sum.checked_mul(*factor)?;
        // Dividing 64 bits is many times faster than dividing 128.
        let average = match i64::try_from(scaled) {
            Ok(scaled) => (scaled / count) as i128,
            Err(_) => scaled / count as i128,
        };
        (average < limit && average > -limit).then_some(average)
    }
}
