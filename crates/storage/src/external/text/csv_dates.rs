//! Dates and times that values show without being told: `31/12/2024`, `12-31-2024`, `31.12.2024`, `10:30:00`.

use chrono::NaiveDate;

/// What comes first in dates that are not as in ISO 8601, and what stands between their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateOrder {
    separator: u8,
    is_day_first: bool,
}

impl DateOrder {
    /// The same as a format of `strptime`.
    pub fn format(self) -> String {
        let separator = char::from(self.separator);
        let [first, second] = if self.is_day_first { ["%d", "%m"] } else { ["%m", "%d"] };
        format!("{first}{separator}{second}{separator}%Y")
    }

    /// A date that is written so, in days since 1970.
    pub fn parse(self, raw: &[u8]) -> Option<i32> {
        let [first, second, year] = parts(raw, self.separator)?;
        let (day, month) = if self.is_day_first { (first, second) } else { (second, first) };
        let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
        Some(date.signed_duration_since(NaiveDate::default()).num_days() as i32)
    }
}

/// Which orders all dates seen so far could have. Between points, the day is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DateOrders {
    separator: Option<u8>,
    day_first: bool,
    month_first: bool,
}

impl DateOrders {
    /// Any, as long as no date was seen.
    pub fn any() -> Self {
        Self { separator: None, day_first: true, month_first: true }
    }

    pub fn is_none(self) -> bool {
        !self.day_first && !self.month_first
    }

    /// Takes a value into account.
    pub fn see(&mut self, raw: &[u8]) {
        let separator = raw.iter().copied().find(|byte| matches!(byte, b'/' | b'.' | b'-'));
        let Some(separator) = separator.filter(|found| self.separator.is_none_or(|known| known == *found)) else {
            (self.day_first, self.month_first) = (false, false);
            return;
        };
        self.separator = Some(separator);
        let is_one = |is_day_first| DateOrder { separator, is_day_first }.parse(raw).is_some();
        self.day_first &= is_one(true);
        self.month_first &= separator != b'.' && is_one(false);
    }

    /// What the dates of both could have.
    pub fn merge(&mut self, other: Self) {
        let is_same = match (self.separator, other.separator) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        self.separator = self.separator.or(other.separator);
        self.day_first &= other.day_first && is_same;
        self.month_first &= other.month_first && is_same;
    }

    /// The order, if there is only one that all dates have.
    pub fn only(self) -> Option<DateOrder> {
        let separator = self.separator?;
        (self.day_first != self.month_first).then_some(DateOrder { separator, is_day_first: self.day_first })
    }

    /// Whether all dates may have this order.
    pub fn may_be(self, order: DateOrder) -> bool {
        let is_one = if order.is_day_first { self.day_first } else { self.month_first };
        self.separator == Some(order.separator) && is_one
    }
}

/// Two numbers of one or two digits, and one of four.
fn parts(raw: &[u8], separator: u8) -> Option<[u32; 3]> {
    let mut found = raw.split(|byte| *byte == separator);
    let mut number = |widths: std::ops::RangeInclusive<usize>| {
        let digits = found.next()?;
        let is_number = widths.contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
    };
    let all = [number(1..=2)?, number(1..=2)?, number(4..=4)?];
    found.next().is_none().then_some(all)
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
        let day_first = DateOrder { separator: b'/', is_day_first: true };
        assert_eq!(seen(&["01/02/2024", "13/01/2024"]).only(), Some(day_first));
        assert_eq!(seen(&["01-13-2024"]).only(), Some(DateOrder { separator: b'-', is_day_first: false }));
        assert_eq!(seen(&["1/2/2024"]).only(), None);
        assert!(seen(&["1/2/2024"]).may_be(day_first));
        assert!(seen(&["13/01/2024", "01/13/2024"]).is_none());
        assert!(seen(&["13/01/2024", "14-01-2024"]).is_none());
        assert!(seen(&["30/02/2024"]).is_none());
        assert_eq!(seen(&["1.2.2024"]).only(), Some(DateOrder { separator: b'.', is_day_first: true }));
        assert_eq!(day_first.parse(b"02/01/1970"), Some(1));
        assert_eq!(day_first.parse(b"02/01/70"), None);
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
