//! `time with time zone`: a time of day and how far its zone is from Greenwich. It is held as its text.

use diligence_base::Result;

use super::calendar::{DAY, SECOND};
use super::{ReadOptions, Zone, datetime};

/// A day on which a time without one is looked at.
const SOME_DAY: &str = "2000-01-01";

/// A time of day with its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight.
    pub time: i64,
    /// Seconds east of Greenwich.
    pub offset: i32,
}

impl ZonedTime {
    /// Reads a text; without a zone, in that of the options. Fails with 22007 and 22008.
    pub fn read(text: &str, options: &ReadOptions) -> Result<Self> {
        let time = datetime::parse_time(text, options)?;
        // The zone is what is between the local time and Greenwich's; a date counts, if there is one.
        let on_some_day = format!("{SOME_DAY} {text}");
        let (dated, instant) = match datetime::parse_timestamptz(&on_some_day, options) {
            Ok(instant) => (on_some_day.as_str(), instant),
            Err(_) => (text, datetime::parse_timestamptz(text, options)?),
        };
        let local = datetime::parse_timestamp(dated, options)?;
        Ok(Self { time, offset: (local.saturating_sub(instant) / SECOND) as i32 })
    }

    /// Reads a value as it is held. Fails with 22007 if the text is none.
    pub fn held(text: &str) -> Result<Self> {
        Self::read(text, &ReadOptions::default())
    }

    /// The time of day of an instant in a zone. Fails with 22008 if it is out of range there.
    pub fn of_instant(instant: i64, zone: &Zone) -> Result<Self> {
        let local = zone.to_local(instant)?;
        Ok(Self { time: local.rem_euclid(DAY), offset: zone.offset_at(instant) })
    }

    /// Its text.
    pub fn text(self) -> String {
        let mut out = String::new();
        datetime::write_time(&mut out, self.time);
        out.push(if self.offset < 0 { '-' } else { '+' });
        let seconds = i64::from(self.offset.unsigned_abs());
        datetime::write_two(&mut out, seconds / 3600);
        for part in [seconds / 60 % 60, seconds % 60].into_iter().take(match (seconds / 60 % 60, seconds % 60) {
            (0, 0) => 0,
            (_, 0) => 1,
            _ => 2,
        }) {
            out.push(':');
            datetime::write_two(&mut out, part);
        }
        out
    }

    /// Microseconds since midnight in Greenwich; before it, and behind the day, too.
    pub fn in_greenwich(self) -> i64 {
        self.time - i64::from(self.offset) * SECOND
    }

    /// The same moment of a day in another zone.
    pub fn at(self, offset: i32) -> Self {
        let time = (self.in_greenwich() + i64::from(offset) * SECOND).rem_euclid(DAY);
        Self { time, offset }
    }

    /// Numbers that sort as PostgreSQL sorts times: by the moment, then from east to west.
    pub fn order_key(self) -> (i64, i32) {
        (self.in_greenwich(), -self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_keeps_its_zone() {
        for (text, shown) in [
            ("12:34:56+02", "12:34:56+02"),
            ("12:34-05:30", "12:34:00-05:30"),
            ("2024-07-01 12:00+02", "12:00:00+02"),
            ("2024-01-01 04:05:06.789 PM Europe/Berlin", "16:05:06.789+01"),
            ("23:00", "23:00:00+00"),
            ("00:00-12", "00:00:00-12"),
        ] {
            let time = ZonedTime::held(text).unwrap();
            assert_eq!(time.text(), shown, "{text}");
            assert_eq!(ZonedTime::held(shown).unwrap(), time);
        }
        assert!(ZonedTime::held("25:00+02").is_err());
        // A zone with summer time needs a day.
        assert!(ZonedTime::held("04:05:06.789 PM Europe/Berlin").is_err());
        let [early, late] = ["12:00+02", "12:00+01"].map(|text| ZonedTime::held(text).unwrap());
        assert!(early.order_key() < late.order_key());
        assert_eq!(early.at(0).text(), "10:00:00+00");
    }
}
