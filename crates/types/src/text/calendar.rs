//! The calendar: days since 1970 and the years, months and days they are; PostgreSQL's limits.
//!
//! The Gregorian calendar is used for all times, also before it was introduced. The year 0 is 1 BC.

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// The Julian day of 1970-01-01.
pub const EPOCH_JULIAN: i64 = 2_440_588;
/// The first day that `date` and the timestamps hold: Julian day 0, in 4714 BC.
pub const FIRST_DAY: i64 = -EPOCH_JULIAN;
/// The last day that `date` holds: the end of the year 5874897.
pub const LAST_DAY: i64 = 2_147_483_493 - EPOCH_JULIAN;
/// The first microsecond that the timestamps hold.
pub const FIRST_INSTANT: i64 = FIRST_DAY * DAY;
/// The last one: in the year 294247, up to where 64 bits reach from 1970 on.
pub const LAST_INSTANT: i64 = i64::MAX - 1;

/// `infinity` of `date`.
pub const INFINITE_DAY: i32 = i32::MAX;
/// `-infinity` of `date`.
pub const NEGATIVE_INFINITE_DAY: i32 = i32::MIN;
/// `infinity` of the timestamps.
pub const INFINITE_INSTANT: i64 = i64::MAX;
/// `-infinity` of the timestamps.
pub const NEGATIVE_INFINITE_INSTANT: i64 = i64::MIN;

/// Whether a timestamp is one of the infinities.
pub fn is_infinite(instant: i64) -> bool {
    instant == INFINITE_INSTANT || instant == NEGATIVE_INFINITE_INSTANT
}

/// Days since 1970 of a date (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub const fn day_of(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = ((153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day) as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of days since 1970.
pub fn date_of(day: i64) -> (i64, u32, u32) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, (day_of_year - (153 * shifted + 2) / 5 + 1) as u32)
}

/// Whether a year has a February 29.
pub fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// The days of a month.
pub fn days_of_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
