//! The year, month or day of a date, or of a timestamp without a time zone; of the latter the hour and the minute, too.
//!
//! Days are turned into civil dates by counting from March, so that the leap day is a year's last, in eras of 400 years
//! (E. Richards' algorithm, in the form of H. Hinnant's "chrono-compatible low-level date algorithms"): only
//! multiplications and divisions by constants, which run on many dates at once.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::{self, date_part};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::Node;
use crate::batch::{Batch, magnitude_bound, nulls_of};
use crate::expressions::operand::{Narrow, Operand};

/// Dates within so many days of 1970 are ours: 100,000 years either way, less than Arrow's library of dates can hold,
/// and little enough for 32 bits. What is beyond is left to it.
const DAYS_MAX: i32 = 36_500_000;
/// 0001-01-01: there is no year 0, so the years before it are not those that are counted.
const FIRST_DAY: i32 = -719_162;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: i32 = 719_468;
const DAYS_IN_ERA: i32 = 146_097;

/// Microseconds.
const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expressions) enum Part {
    Year,
    Month,
    Day,
}

/// A part of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expressions) enum TimePart {
    Date(Part),
    Hour,
    Minute,
}

/// A part of an expression of type `Date32`.
#[derive(Debug)]
pub(in crate::expressions) struct DatePart {
    pub(in crate::expressions) input: Box<Node>,
    pub(in crate::expressions) part: Part,
}

/// `extract` of a part of a date, or of a timestamp of microseconds, which is a decimal of this precision.
#[derive(Debug)]
pub(in crate::expressions) struct Extract {
    pub(in crate::expressions) input: Box<Node>,
    pub(in crate::expressions) part: TimePart,
    pub(in crate::expressions) precision: u8,
    /// The same for dates that are not ours: before the year 1, and far or infinite ones.
    pub(in crate::expressions) beyond: Box<Node>,
}

impl Extract {
    /// The parts for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let input = self.input.evaluate(batch)?;
        let parts = match (input.array.data_type(), self.part) {
            (DataType::Date32, TimePart::Date(part)) => {
                date_parts(input.array.as_primitive::<Date32Type>().values(), part)
            }
            (DataType::Timestamp(..), part) => {
                timestamp_parts(input.array.as_primitive::<TimestampMicrosecondType>().values(), part)
            }
            _ => None,
        };
        let Some(parts) = parts else { return self.beyond.evaluate(batch) };
        let bound = magnitude_bound(&parts);
        let narrow = Narrow { values: parts.into(), nulls: nulls_of(&input.array), bound };
        narrow.into_operand(self.precision, 0, input.constant)
    }
}

impl Part {
    /// The part of a name, if it is one of ours.
    pub(in crate::expressions) fn from_name(name: &str) -> Option<Self> {
        [("year", Self::Year), ("month", Self::Month), ("day", Self::Day)]
            .into_iter()
            .find_map(|(own, part)| own.eq_ignore_ascii_case(name).then_some(part))
    }
}

impl TimePart {
    /// The part of a name, if it is one of ours.
    pub(in crate::expressions) fn from_name(name: &str) -> Option<Self> {
        match name {
            hour if hour.eq_ignore_ascii_case("hour") => Some(Self::Hour),
            minute if minute.eq_ignore_ascii_case("minute") => Some(Self::Minute),
            date => Part::from_name(date).map(Self::Date),
        }
    }
}

impl DatePart {
    /// The parts for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let input = self.input.evaluate(batch)?;
        Ok(Operand { array: extract(&input.array, self.part)?, constant: input.constant, bound: None })
    }
}

fn extract(dates: &ArrayRef, part: Part) -> Result<ArrayRef> {
    let days = dates.as_primitive::<Date32Type>().values();
    if !days.iter().fold(true, |near, day| near & (-DAYS_MAX..=DAYS_MAX).contains(day)) {
        let part = match part {
            Part::Year => compute::DatePart::Year,
            Part::Month => compute::DatePart::Month,
            Part::Day => compute::DatePart::Day,
        };
        return date_part(dates, part).map_err(from_arrow);
    }
    let parts = match part {
        Part::Year => days.iter().map(|day| civil(*day).0).collect::<Vec<_>>(),
        Part::Month => days.iter().map(|day| civil(*day).1).collect(),
        Part::Day => days.iter().map(|day| civil(*day).2).collect(),
    };
    Ok(Arc::new(Int32Array::new(parts.into(), nulls_of(dates))))
}

/// A part of each date; `None` if some are not ours.
fn date_parts(days: &[i32], part: Part) -> Option<Vec<i64>> {
    if !days.iter().fold(true, |near, day| near & (FIRST_DAY..=DAYS_MAX).contains(day)) {
        return None;
    }
    Some(match part {
        Part::Year => days.iter().map(|day| i64::from(civil(*day).0)).collect(),
        Part::Month => days.iter().map(|day| i64::from(civil(*day).1)).collect(),
        Part::Day => days.iter().map(|day| i64::from(civil(*day).2)).collect(),
    })
}

/// A part of each timestamp; `None` if some are not ours.
fn timestamp_parts(times: &[i64], part: TimePart) -> Option<Vec<i64>> {
    const FIRST: i64 = FIRST_DAY as i64 * DAY;
    const LAST: i64 = DAYS_MAX as i64 * DAY;
    if !times.iter().fold(true, |near, time| near & (FIRST..=LAST).contains(time)) {
        return None;
    }
    let day = |time: &i64| time.div_euclid(DAY) as i32;
    Some(match part {
        TimePart::Date(Part::Year) => times.iter().map(|time| i64::from(civil(day(time)).0)).collect(),
        TimePart::Date(Part::Month) => times.iter().map(|time| i64::from(civil(day(time)).1)).collect(),
        TimePart::Date(Part::Day) => times.iter().map(|time| i64::from(civil(day(time)).2)).collect(),
        TimePart::Hour => times.iter().map(|time| time.rem_euclid(DAY) / HOUR).collect(),
        TimePart::Minute => times.iter().map(|time| time.rem_euclid(HOUR) / MINUTE).collect(),
    })
}

/// Year, month and day of a day counted from 1970-01-01.
#[inline(always)]
fn civil(day: i32) -> (i32, i32, i32) {
    // From March of the year 0, shifted by whole eras so that nothing is negative.
    const ERAS: i32 = 300;
    let shifted = (day + DAYS_BEFORE_1970 + ERAS * DAYS_IN_ERA) as u32;
    let era = shifted / DAYS_IN_ERA as u32;
    let day_of_era = shifted % DAYS_IN_ERA as u32;
    // Without the leap days before it: every 4 years (1,460 days), not every 100 (36,524), again every 400.
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March have 153 days in every five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = (year_of_era + era * 400) as i32 - ERAS * 400 + i32::from(month <= 2);
    (year, month as i32, day_of_month as i32)
}

#[cfg(test)]
mod tests {
    use arrow::array::Date32Array;

    use super::*;

    #[test]
    fn parts_agree_with_arrow_over_every_kind_of_year() {
        // Every day of eight centuries, and the ends of what is ours and beyond.
        let near = (-150_000..150_000).map(Some).collect::<Vec<_>>();
        let far = vec![Some(DAYS_MAX), Some(-DAYS_MAX), None, Some(0), Some(-1), Some(-719_468), Some(-719_469)];
        let beyond = vec![Some(DAYS_MAX + 1), Some(i32::MIN), Some(i32::MAX), None];
        for days in [near, far, beyond] {
            let dates: ArrayRef = Arc::new(Date32Array::from(days));
            for (name, part) in [
                ("year", compute::DatePart::Year),
                ("MONTH", compute::DatePart::Month),
                ("Day", compute::DatePart::Day),
            ] {
                let found = extract(&dates, Part::from_name(name).unwrap()).unwrap();
                assert_eq!(&found, &date_part(&dates, part).unwrap(), "{name}");
            }
        }
    }

    #[test]
    fn parts_of_timestamps_agree_with_arrow() {
        use arrow::array::TimestampMicrosecondArray;

        let steps = (-100_000..100_000_i64).map(|i| i * 79_364_511_371);
        let edges = [0, -1, 1, DAY - 1, DAY, -DAY, -DAY - 1, HOUR - 1, MINUTE - 1, -MINUTE, i64::from(FIRST_DAY) * DAY];
        let times = steps.chain(edges).filter(|time| *time >= i64::from(FIRST_DAY) * DAY).collect::<Vec<_>>();
        let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times.clone()));
        for (name, part) in [
            ("year", compute::DatePart::Year),
            ("month", compute::DatePart::Month),
            ("DAY", compute::DatePart::Day),
            ("Hour", compute::DatePart::Hour),
            ("minute", compute::DatePart::Minute),
        ] {
            let found = timestamp_parts(&times, TimePart::from_name(name).unwrap()).unwrap();
            let expected = date_part(&array, part).unwrap();
            let expected = expected.as_primitive::<arrow::datatypes::Int32Type>().values().iter().copied();
            assert!(found.into_iter().eq(expected.map(i64::from)), "{name}");
        }
        assert_eq!(TimePart::from_name("second"), None, "it has digits behind the point");
        for beyond in [i64::MAX, i64::MIN, i64::from(FIRST_DAY) * DAY - 1] {
            assert_eq!(timestamp_parts(&[0, beyond], TimePart::Minute), None);
        }
    }
}
