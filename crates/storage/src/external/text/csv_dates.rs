//! Dates and times that values show without being told: `31/12/2024`, `12-31-2024`, `31.12.2024`, `10:30:00`, and both
//! after each other.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

/// What comes first in dates that are not as in ISO 8601, and what stands between their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateOrder {
    separator: u8,
    is_day_first: bool,
    /// Whether years have two digits: 69 is 1969, and 68 is 2068.
    is_short: bool,
}

impl DateOrder {
    /// The same as a format of `strptime`.
    pub fn format(self) -> String {
        let separator = char::from(self.separator);
        let [first, second] = if self.is_day_first { ["%d", "%m"] } else { ["%m", "%d"] };
        let year = if self.is_short { "%y" } else { "%Y" };
        format!("{first}{separator}{second}{separator}{year}")
    }

    /// A date that is written so, in days since 1970.
    pub fn parse(self, raw: &[u8]) -> Option<i32> {
        Some(self.date(raw)?.signed_duration_since(NaiveDate::default()).num_days() as i32)
    }

    /// A date that is written so, a blank, and a time of day.
    pub fn parse_moment(self, raw: &[u8]) -> Option<NaiveDateTime> {
        let (date, time) = date_and_time(raw)?;
        Some(self.date(date)?.and_time(time_of_day(time)?))
    }

    fn date(self, raw: &[u8]) -> Option<NaiveDate> {
        let ([first, second, year], is_short) = parts(raw, self.separator)?;
        if is_short != self.is_short {
            return None;
        }
        let year = match is_short {
            true if year < 69 => year + 2000,
            true => year + 1900,
            false => year,
        };
        let (day, month) = if self.is_day_first { (first, second) } else { (second, first) };
        NaiveDate::from_ymd_opt(year as i32, month, day)
    }
}

/// What stands between the parts of dates.
const SEPARATORS: [u8; 3] = *b"/.-";

/// Which orders all dates seen so far could have. Between points, the day is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DateOrders {
    separator: Option<u8>,
    /// Whether years have two digits; all of a column do, or none.
    is_short: bool,
    day_first: bool,
    month_first: bool,
    /// Of short years, whether they may as well be in front: `24/12/31`.
    year_first: bool,
}

impl DateOrders {
    /// Any, as long as no date was seen.
    pub fn any() -> Self {
        Self { separator: None, is_short: false, day_first: true, month_first: true, year_first: true }
    }

    pub fn is_none(self) -> bool {
        !self.day_first && !self.month_first
    }

    /// Whether there were dates, and an order that all of them could have. Not where their years may be in front as
    /// well: nothing says then which of the parts are years.
    pub fn is_there(self) -> bool {
        self.separator.is_some() && !self.is_none() && !(self.is_short && self.year_first)
    }

    /// The orders that all dates of several columns have, one for each separator and length of years: what some column
    /// shows, or the day first where all of them leave it open. None where they contradict each other.
    pub fn common(columns: &[Self]) -> Vec<DateOrder> {
        let order = |(separator, is_short): (u8, bool)| {
            let is_alike = |column: &&Self| column.separator == Some(separator) && column.is_short == is_short;
            let alike = columns.iter().filter(|column| is_alike(column) && column.is_there());
            let alike = alike.collect::<Vec<_>>();
            let is_shown = |is_day_first: bool| {
                alike.iter().any(|column| column.only().is_some_and(|order| order.is_day_first == is_day_first))
            };
            match (is_shown(true), is_shown(false)) {
                (true, true) => None,
                (false, true) => Some(DateOrder { separator, is_day_first: false, is_short }),
                _ => (!alike.is_empty()).then_some(DateOrder { separator, is_day_first: true, is_short }),
            }
        };
        let separators = SEPARATORS.into_iter().flat_map(|separator| [(separator, false), (separator, true)]);
        separators.filter_map(order).collect()
    }

    /// Takes a value into account.
    pub fn see(&mut self, raw: &[u8]) {
        let separator = raw.iter().copied().find(|byte| SEPARATORS.contains(byte));
        let Some(separator) = separator.filter(|found| self.separator.is_none_or(|known| known == *found)) else {
            (self.day_first, self.month_first) = (false, false);
            return;
        };
        let is_first = self.separator.replace(separator).is_none();
        let found = parts(raw, separator).map(|(_, is_short)| is_short);
        if is_first {
            self.is_short = found.unwrap_or(false);
        }
        let is_short = self.is_short;
        let is_one = |is_day_first| DateOrder { separator, is_day_first, is_short }.parse(raw).is_some();
        let of_parts = |[_, month, day]: [u32; 3]| NaiveDate::from_ymd_opt(2000, month, day);
        self.year_first &= parts(raw, separator).is_some_and(|(found, _)| of_parts(found).is_some());
        self.day_first &= is_one(true);
        self.month_first &= separator != b'.' && is_one(false);
    }

    /// Takes a date with a time of day into account.
    pub fn see_moment(&mut self, raw: &[u8]) {
        match date_and_time(raw).filter(|(_, time)| time_of_day(time).is_some()) {
            Some((date, _)) => self.see(date),
            None => (self.day_first, self.month_first) = (false, false),
        }
    }

    /// What the dates of both could have.
    pub fn merge(&mut self, other: Self) {
        let is_same = match (self.separator, other.separator) {
            (Some(own), Some(others)) => own == others && self.is_short == other.is_short,
            _ => true,
        };
        if self.separator.is_none() {
            (self.separator, self.is_short) = (other.separator, other.is_short);
        }
        self.year_first &= other.year_first;
        self.day_first &= other.day_first && is_same;
        self.month_first &= other.month_first && is_same;
    }

    /// The order, if there is only one that all dates have.
    pub fn only(self) -> Option<DateOrder> {
        let separator = self.separator?;
        let order = DateOrder { separator, is_day_first: self.day_first, is_short: self.is_short };
        (self.day_first != self.month_first).then_some(order)
    }

    /// Whether all dates may have this order.
    pub fn may_be(self, order: DateOrder) -> bool {
        let is_one = if order.is_day_first { self.day_first } else { self.month_first };
        self.separator == Some(order.separator) && self.is_short == order.is_short && is_one
    }
}

/// What is in front of the first blank, and behind it.
fn date_and_time(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = raw.iter().position(|byte| *byte == b' ')?;
    Some((&raw[..blank], &raw[blank + 1..]))
}

/// A time of day, perhaps of twelve hours: `13:05`, `13:05:30.5`, `01:05:30 PM`.
fn time_of_day(raw: &[u8]) -> Option<NaiveTime> {
    let (clock, is_late) = match raw {
        [clock @ .., b'A' | b'a', b'M' | b'm'] => (clock.trim_ascii_end(), Some(false)),
        [clock @ .., b'P' | b'p', b'M' | b'm'] => (clock.trim_ascii_end(), Some(true)),
        clock => (clock, None),
    };
    if !is_time(clock) {
        return None;
    }
    let value = |digits: &[u8]| digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    let point = clock.iter().position(|byte| *byte == b'.').unwrap_or(clock.len());
    let fraction = clock.get(point + 1..).unwrap_or_default();
    let micros = value(fraction) * 10_u32.pow(6 - fraction.len() as u32);
    let mut parts = clock[..point].split(|byte| *byte == b':').map(value);
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or(0));
    let hours = match is_late {
        None => hours,
        Some(is_late) if (1..=12).contains(&hours) => hours % 12 + if is_late { 12 } else { 0 },
        Some(_) => return None,
    };
    NaiveTime::from_hms_micro_opt(hours, minutes, seconds, micros)
}

/// Two numbers of one or two digits and one of four, or of two: whether it is of two is told, too. Between points, two
/// digits each are a date, while `1.2.24` may be a version; between hyphens, the year may as well be the first.
fn parts(raw: &[u8], separator: u8) -> Option<([u32; 3], bool)> {
    let mut found = raw.split(|byte| *byte == separator);
    let mut number = |widths: std::ops::RangeInclusive<usize>| {
        let digits = found.next()?;
        let is_number = widths.contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
    };
    let is_short = raw.iter().rev().position(|byte| *byte == separator) == Some(2);
    let widths = match (is_short, separator) {
        (true, b'-') => return None,
        (true, b'.') => 2..=2,
        _ => 1..=2,
    };
    let year = if is_short { 2..=2 } else { 4..=4 };
    let all = [number(widths.clone())?, number(widths)?, number(year)?];
    found.next().is_none().then_some((all, is_short))
}

/// Whether it is a time of day: hours and minutes, perhaps seconds and a fraction of up to six digits.
pub(super) fn is_time(raw: &[u8]) -> bool {
    let mut parts = raw.splitn(3, |byte| *byte == b':');
    let number = |digits: &[u8], widths: std::ops::RangeInclusive<usize>, most: u32| {
        let is_number = widths.contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        is_number && digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')) <= most
    };
    let (Some(hours), Some(minutes)) = (parts.next(), parts.next()) else { return false };
    let are_seconds = parts.next().is_none_or(|seconds| {
        let whole = seconds.split(|byte| *byte == b'.').next().unwrap_or_default();
        let fraction = &seconds[whole.len()..];
        let is_fraction =
            fraction.is_empty() || (2..=7).contains(&fraction.len()) && fraction[1..].iter().all(u8::is_ascii_digit);
        number(whole, 2..=2, 59) && is_fraction
    });
    number(hours, 1..=2, 23) && number(minutes, 2..=2, 59) && are_seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[&str]) -> DateOrders {
        let mut orders = DateOrders::any();
        values.iter().for_each(|value| orders.see(value.as_bytes()));
        orders
    }

    #[test]
    fn one_day_above_twelve_decides_the_order() {
        let day_first = DateOrder { separator: b'/', is_day_first: true, is_short: false };
        assert_eq!(seen(&["01/02/2024", "13/01/2024"]).only(), Some(day_first));
        assert_eq!(
            seen(&["01-13-2024"]).only(),
            Some(DateOrder { separator: b'-', is_day_first: false, is_short: false })
        );
        assert_eq!(seen(&["1/2/2024"]).only(), None);
        assert!(seen(&["1/2/2024"]).may_be(day_first));
        assert!(seen(&["13/01/2024", "01/13/2024"]).is_none());
        assert!(seen(&["13/01/2024", "14-01-2024"]).is_none());
        assert!(seen(&["30/02/2024"]).is_none());
        assert_eq!(
            seen(&["1.2.2024"]).only(),
            Some(DateOrder { separator: b'.', is_day_first: true, is_short: false })
        );
        assert_eq!(day_first.parse(b"02/01/1970"), Some(1));
        assert_eq!(day_first.parse(b"02/01/70"), None);
    }

    #[test]
    fn columns_of_a_file_agree_on_an_order() {
        let format = |columns: &[&[&str]]| {
            let columns = columns.iter().map(|values| seen(values)).collect::<Vec<_>>();
            DateOrders::common(&columns).into_iter().map(DateOrder::format).collect::<Vec<_>>()
        };
        assert_eq!(format(&[&["01/02/2024"]]), ["%d/%m/%Y"]);
        assert_eq!(format(&[&["01/02/2024"], &["01/13/2024"]]), ["%m/%d/%Y"]);
        assert_eq!(format(&[&["13/02/2024"], &["01/13/2024"]]), [""; 0]);
        assert_eq!(format(&[&["1.2.2024"], &["01/13/2024"], &["x"], &[]]), ["%m/%d/%Y", "%d.%m.%Y"]);
    }

    #[test]
    fn years_may_have_two_digits() {
        let format = |values: &[&str]| {
            let orders = DateOrders::common(&[seen(values)]);
            orders.into_iter().map(DateOrder::format).collect::<Vec<_>>().concat()
        };
        assert_eq!(format(&["1/2/24", "12/31/24"]), "%m/%d/%y");
        assert_eq!(format(&["31/12/24", "1/2/99"]), "%d/%m/%y");
        assert_eq!(format(&["31.12.99"]), "%d.%m.%y");
        for other in [&["1/2/24", "1/2/2024"][..], &["1/2/2024", "1/2/24"], &["1.2.24"], &["01-02-24"]] {
            assert_eq!(format(other), "", "{other:?}");
        }
        // Nobody knows whether the years are in front.
        for other in [&["24/12/31"][..], &["31/12/24", "1/2/24"], &["31.12.24"]] {
            assert_eq!(format(other), "", "{other:?}");
        }
        let mut both = seen(&["1/2/24"]);
        both.merge(seen(&["1/2/2024"]));
        assert!(both.is_none());
        let day_first = DateOrder { separator: b'/', is_day_first: true, is_short: true };
        let date = |raw: &[u8]| day_first.date(raw).map(|date| date.to_string());
        assert_eq!(date(b"31/12/68").as_deref(), Some("2068-12-31"));
        assert_eq!(date(b"31/12/69").as_deref(), Some("1969-12-31"));
        assert_eq!(date(b"31/12/1969"), None);
    }

    #[test]
    fn dates_may_have_a_time_of_day() {
        let day_first = DateOrder { separator: b'/', is_day_first: true, is_short: false };
        let text = |raw: &str| day_first.parse_moment(raw.as_bytes()).map(|moment| moment.to_string());
        assert_eq!(text("31/12/2024 10:20:30").as_deref(), Some("2024-12-31 10:20:30"));
        assert_eq!(text("31/12/2024 10:20").as_deref(), Some("2024-12-31 10:20:00"));
        assert_eq!(text("31/12/2024 12:20:30.5 AM").as_deref(), Some("2024-12-31 00:20:30.500"));
        assert_eq!(text("31/12/2024 1:20:30 pm").as_deref(), Some("2024-12-31 13:20:30"));
        for other in ["31/12/2024", "31/12/2024 ", "31/12/2024 13:00 PM", "12/31/2024 10:20", "31/12/2024 10:20:30x"] {
            assert_eq!(text(other), None, "{other}");
        }
        let mut orders = DateOrders::any();
        orders.see_moment(b"01/02/2024 10:20:30");
        assert!(orders.is_there());
        orders.see_moment(b"01/02/2024");
        assert!(!orders.is_there());
    }

    #[test]
    fn times_of_day_are_told_from_other_texts() {
        for time in ["10:30", "9:05", "23:59:59", "10:30:00.5", "10:30:00.123456"] {
            assert!(is_time(time.as_bytes()), "{time}");
        }
        for other in ["24:00", "10:60", "10:3", "10", "10:30:0", "10:30:00.", "10:30:00.1234567", "a:30", "1:2:3:4"] {
            assert!(!is_time(other.as_bytes()), "{other}");
        }
    }
}
