//! The calendar: days, months and years over PostgreSQL's whole range, Julian days, ISO weeks, and the parts of times.
//!
//! Years count astronomically: 0 is 1 BC. Timestamps are microseconds since 1970, on a wall or in UTC.

use diligence_base::Result;

use super::errors::datetime_overflow;

pub(super) use crate::text::calendar::{DAY, HOUR, MINUTE, SECOND};

/// 4714-11-24 BC, the first day that PostgreSQL has, in days since 1970.
const FIRST_DAY: i64 = -2_440_588;
/// The first day beyond 5874897-12-31.
const DATES_END: i64 = 2_145_042_906;
/// Where timestamps end: 64 bits of microseconds since 1970 reach into the year 294247, PostgreSQL's into 294276.
const TIMESTAMPS_END: i64 = i64::MAX;
/// Days from Julian day 0 to 1970.
pub(super) const JULIAN_OFFSET: i64 = 2_440_588;

/// The names of the months.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The names of the days of a week, from Sunday on.
pub(super) const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
}

impl Day {
    /// The day so many days after 1970-01-01.
    pub(super) fn of(days: i64) -> Self {
        // Eras of 400 years from March on (Hinnant, "chrono-compatible low-level date algorithms").
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Days since 1970; the month may be any number, the day too.
    pub(super) fn days(self) -> i64 {
        let year = self.year + (self.month - 1).div_euclid(12);
        let month = (self.month - 1).rem_euclid(12) + 1;
        let year = year - i64::from(month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = (month + 9) % 12;
        let day_of_year = (153 * from_march + 2) / 5 + self.day - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// How many days the month has.
    pub(super) fn month_length(self) -> i64 {
        month_length(self.year, self.month)
    }

    /// The day of the year, from 1.
    pub(super) fn day_of_year(self) -> i64 {
        self.days() - Day { month: 1, day: 1, ..self }.days() + 1
    }

    /// The same day so many months later, or the last one of that month.
    pub(super) fn plus_months(self, months: i64) -> Self {
        let all = self.year * 12 + self.month - 1 + months;
        let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(month_length(year, month)) }
    }

    /// The year as it is shown: there is no year 0.
    pub(super) fn shown_year(self) -> i64 {
        if self.year > 0 { self.year } else { self.year - 1 }
    }

    /// The year and the week that ISO 8601 counts it in.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let days = self.days();
        let thursday = Day::of(days - iso_weekday(days) + 4);
        (thursday.year, (thursday.day_of_year() - 1) / 7 + 1)
    }
}

/// How many days a month has.
pub(super) fn month_length(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week, Sunday is 0.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The day of the week, Monday is 1 and Sunday 7.
pub(super) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The first day of an ISO year.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = Day { year, month: 1, day: 4 }.days();
    fourth - iso_weekday(fourth) + 1
}

/// A timestamp's day and its microseconds since midnight.
pub(super) fn split(timestamp: i64) -> (i64, i64) {
    (timestamp.div_euclid(DAY), timestamp.rem_euclid(DAY))
}

/// The timestamp of a day and microseconds. Fails with 22008 beyond PostgreSQL's range.
pub(super) fn timestamp_of(days: i64, microseconds: i64) -> Result<i64> {
    let timestamp = days.checked_mul(DAY).and_then(|timestamp| timestamp.checked_add(microseconds));
    timestamp.ok_or_else(|| datetime_overflow("timestamp")).and_then(checked_timestamp)
}

/// The timestamp. Fails with 22008 beyond PostgreSQL's range; the infinities are in it.
pub(super) fn checked_timestamp(timestamp: i64) -> Result<i64> {
    match timestamp == i64::MIN || timestamp == i64::MAX || (FIRST_DAY * DAY..TIMESTAMPS_END).contains(&timestamp) {
        true => Ok(timestamp),
        false => Err(datetime_overflow("timestamp")),
    }
}

/// The date of a day. Fails with 22008 beyond PostgreSQL's range.
pub(super) fn checked_date(days: i64) -> Result<i32> {
    match i32::try_from(days) {
        Ok(date) if (FIRST_DAY..DATES_END).contains(&days) => Ok(date),
        _ => Err(datetime_overflow("date")),
    }
}

/// Whether a timestamp is one of the infinities.
pub(super) fn is_infinite(timestamp: i64) -> bool {
    timestamp == i64::MIN || timestamp == i64::MAX
}

/// Whether a date is one of the infinities.
pub(super) fn is_infinite_date(date: i32) -> bool {
    date == i32::MIN || date == i32::MAX
}

/// A date as a timestamp at midnight. Fails with 22008 beyond a timestamp's range.
pub(super) fn midnight(date: i32) -> Result<i64> {
    match date {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        date => timestamp_of(i64::from(date), 0).map_err(|_| datetime_overflow("date")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_back() {
        for days in (-2_440_588..DATES_END).step_by(1_000_003).chain(-1000..1000) {
            let day = Day::of(days);
            assert_eq!(day.days(), days);
            assert!((1..=day.month_length()).contains(&day.day), "{day:?}");
        }
        assert_eq!(Day::of(0), Day { year: 1970, month: 1, day: 1 });
        assert_eq!(Day::of(FIRST_DAY), Day { year: -4713, month: 11, day: 24 });
        assert_eq!(Day::of(DATES_END), Day { year: 5_874_898, month: 1, day: 1 });
        assert_eq!(Day { year: 2021, month: 1, day: 3 }.iso_week(), (2020, 53));
        assert_eq!((weekday(0), iso_weekday(3)), (4, 7));
    }
}
