//! Time zones: their names, and the offset that they have at an instant or a local time. The session's zone brings
//! along how dates are written.

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, Tz};
use diligence_base::Result;

use super::calendar::{self, DAY, SECOND};
use super::styles::{BytesStyle, DateOrder, DateStyle, IntervalStyle, Styles};
use super::{abbreviations, errors};

/// A time zone, and how dates are written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    place: ZonePlace,
    styles: Styles,
}

/// Where it is how late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZonePlace {
    /// So many seconds east of Greenwich, always.
    Fixed(i32),
    /// A zone of the IANA's database.
    Named(Tz),
}

/// Between a zone's name and styles other than the usual ones, where a text says both.
const BETWEEN: char = '\u{1}';

static NAMES: LazyLock<HashMap<String, Tz>> =
    LazyLock::new(|| chrono_tz::TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone)).collect());

/// A zone as `pg_timezone_names` lists it.
#[derive(Clone, Debug)]
pub struct ListedZone {
    /// Its name.
    pub name: &'static str,
    /// What its time is called at the moment.
    pub abbreviation: String,
    /// Seconds east of Greenwich at the moment.
    pub offset: i32,
    /// Whether it is summer time there.
    pub is_summer: bool,
}

/// The zones of the IANA's database at an instant, in microseconds since 1970, in the order of their names.
pub fn listed(instant_us: i64) -> Vec<ListedZone> {
    let instant = DateTime::from_timestamp_micros(instant_us).unwrap_or_default().naive_utc();
    let zone = |zone: &Tz| {
        let offset = zone.offset_from_utc_datetime(&instant);
        ListedZone {
            name: zone.name(),
            abbreviation: offset.abbreviation().unwrap_or_default().to_owned(),
            offset: offset.fix().local_minus_utc(),
            is_summer: !offset.dst_offset().is_zero(),
        }
    };
    let mut zones = chrono_tz::TZ_VARIANTS.iter().map(zone).collect::<Vec<_>>();
    zones.sort_by_key(|zone| zone.name);
    zones
}

/// From this second on (2098) years are looked up in an earlier year with the same calendar, since the database's
/// tables end; the rules go on.
const TABLES_END: i64 = calendar::day_of(2098, 1, 1) * 86_400;

impl Zone {
    /// Greenwich.
    pub const UTC: Zone = Zone::fixed(0);

    /// So many seconds east of Greenwich, always.
    pub const fn fixed(offset: i32) -> Self {
        Self::at(ZonePlace::Fixed(offset))
    }

    const fn at(place: ZonePlace) -> Self {
        let (date, order) = (DateStyle::Iso, DateOrder::Mdy);
        let styles = Styles { date, order, interval: IntervalStyle::Postgres, bytes: BytesStyle::Hex };
        Self { place, styles }
    }

    /// Seconds east of Greenwich, if they are always the same.
    pub fn fixed_offset(&self) -> Option<i32> {
        match self.place {
            ZonePlace::Fixed(offset) => Some(offset),
            ZonePlace::Named(_) => None,
        }
    }

    /// How dates are written.
    pub fn styles(&self) -> &Styles {
        &self.styles
    }

    /// The same zone, where dates are written so.
    pub fn with_styles(self, styles: Styles) -> Self {
        Self { styles, ..self }
    }

    /// A zone's name with styles, as [`of_setting`](Self::of_setting) reads it.
    pub fn setting_with(name: &str, styles: &Styles) -> String {
        match *styles == Styles::default() {
            true => name.to_owned(),
            false => {
                let (dates, intervals, bytes) = (styles.shown_dates(), styles.shown_intervals(), styles.shown_bytes());
                format!("{name}{BETWEEN}{dates}{BETWEEN}{intervals}{BETWEEN}{bytes}")
            }
        }
    }

    /// A zone's name with styles, of which dates have that of ISO 8601. Fails as [`of_setting`](Self::of_setting) does.
    pub fn setting_with_iso_dates(text: &str) -> Result<String> {
        let Some((name, _)) = text.split_once(BETWEEN) else { return Ok(text.to_owned()) };
        let styles = Styles { date: DateStyle::Iso, ..*Self::of_setting(text)?.styles() };
        Ok(Self::setting_with(name, &styles))
    }

    /// What the zone is called at an instant, such as `CEST`; `None` if it is only an offset.
    pub fn abbreviation_at(&self, instant: i64) -> Option<String> {
        match self.place {
            ZonePlace::Fixed(0) => Some("UTC".to_owned()),
            ZonePlace::Fixed(_) => None,
            ZonePlace::Named(zone) => {
                let instant = DateTime::from_timestamp(instant.div_euclid(SECOND), 0).unwrap_or_default();
                Some(zone.offset_from_utc_datetime(&instant.naive_utc()).to_string())
            }
        }
    }

    /// The zone of the setting `TimeZone`: a number of hours east of Greenwich, a name of the IANA's, or POSIX's form.
    /// Fails with kind `Input` (22023) if there is no such zone.
    pub fn of_setting(text: &str) -> Result<Self> {
        if let Some((name, styles)) = text.split_once(BETWEEN) {
            let (dates, others) = styles.split_once(BETWEEN).unwrap_or((styles, "postgres"));
            let (intervals, bytes) = others.split_once(BETWEEN).unwrap_or((others, "hex"));
            let styles = Styles::default().with_dates(dates)?.with_intervals(intervals)?.with_bytes(bytes)?;
            return Ok(Self::of_setting(name)?.with_styles(styles));
        }
        if text.is_empty() || text.eq_ignore_ascii_case("utc") {
            return Ok(Self::UTC);
        }
        hours(text).or_else(|| Self::of_name(text)).ok_or_else(|| errors::unknown_zone(text))
    }

    /// The zone that AT TIME ZONE is given: an abbreviation, a name of the IANA's, or POSIX's form, whose offsets count
    /// westwards. Fails with kind `Input` (22023) if there is no such zone.
    pub fn of_argument(text: &str) -> Result<Self> {
        Self::of_abbreviation(text).or_else(|| Self::of_name(text)).ok_or_else(|| errors::unknown_zone(text))
    }

    /// The zone of a name of the IANA's, in any case, or of POSIX's form without daylight saving time (`UTC+3`,
    /// `<+02>-02`).
    pub fn of_name(text: &str) -> Option<Self> {
        match NAMES.get(&text.to_ascii_lowercase()) {
            Some(zone) if matches!(zone.name(), "UTC" | "Etc/UTC" | "GMT" | "Zulu") => Some(Self::UTC),
            Some(zone) => Some(Self::at(ZonePlace::Named(*zone))),
            None => posix(text),
        }
    }

    /// The zone of an abbreviation such as `PST`.
    pub fn of_abbreviation(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        if let Ok(index) = abbreviations::OFFSETS.binary_search_by(|(name, _)| (*name).cmp(&lower)) {
            return Some(Self::fixed(abbreviations::OFFSETS[index].1));
        }
        let index = abbreviations::ZONES.binary_search_by(|(name, _)| (*name).cmp(&lower)).ok()?;
        Self::of_name(abbreviations::ZONES[index].1)
    }

    /// The name of a setting as SHOW gives it: `europe/berlin` is `Europe/Berlin`, `+02` is `<+02>-02`. Fails with kind
    /// `Input` (22023) if there is no such zone.
    pub fn name_of_setting(text: &str) -> Result<String> {
        if let Some(east) = hours(text).and_then(|zone| zone.fixed_offset()) {
            let sign = |east: i32| if east < 0 { '-' } else { '+' };
            let shown = |seconds: i32| {
                let (hours, minutes, seconds) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
                match (minutes, seconds) {
                    (0, 0) => format!("{hours:02}"),
                    (_, 0) => format!("{hours:02}:{minutes:02}"),
                    _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
                }
            };
            let west = if east < 0 { '+' } else { '-' };
            return Ok(format!("<{}{}>{west}{}", sign(east), shown(east), shown(east)));
        }
        match NAMES.get(&text.to_ascii_lowercase()) {
            Some(zone) => Ok(zone.name().to_owned()),
            None => posix(text).map(|_| text.to_owned()).ok_or_else(|| errors::unknown_zone(text)),
        }
    }

    /// Seconds east of Greenwich at an instant in microseconds.
    pub fn offset_at(&self, instant: i64) -> i32 {
        match self.place {
            ZonePlace::Fixed(offset) => offset,
            ZonePlace::Named(zone) => offset_of(zone, instant.div_euclid(SECOND)),
        }
    }

    /// Seconds east of Greenwich at a local time in microseconds. A time that clocks skip takes the offset before the
    /// gap, one that they show twice the offset after the overlap, as PostgreSQL does.
    pub fn offset_of_local(&self, local: i64) -> i32 {
        let zone = match self.place {
            ZonePlace::Fixed(offset) => return offset,
            ZonePlace::Named(zone) => zone,
        };
        let local = local.div_euclid(SECOND);
        let day = DAY / SECOND;
        let (before, after) = (offset_of(zone, local - day), offset_of(zone, local + day));
        if before == after {
            return before;
        }
        let is_before = offset_of(zone, local - i64::from(before)) == before;
        let is_after = offset_of(zone, local - i64::from(after)) == after;
        if is_before == is_after {
            if is_after { after } else { before }
        } else if is_after {
            after
        } else {
            before
        }
    }

    /// The local time of an instant, both in microseconds; infinities stay. Fails with kind `Input` (22008) beyond what
    /// a timestamp holds.
    pub fn to_local(&self, instant: i64) -> Result<i64> {
        if calendar::is_infinite(instant) {
            return Ok(instant);
        }
        self.shifted(instant, i64::from(self.offset_at(instant)))
    }

    /// The instant of a local time, both in microseconds; infinities stay. Fails with kind `Input` (22008) beyond what
    /// a timestamp holds.
    pub fn to_instant(&self, local: i64) -> Result<i64> {
        if calendar::is_infinite(local) {
            return Ok(local);
        }
        self.shifted(local, -i64::from(self.offset_of_local(local)))
    }

    fn shifted(&self, time: i64, seconds: i64) -> Result<i64> {
        time.checked_add(seconds * SECOND)
            .filter(|time| (calendar::FIRST_INSTANT..=calendar::LAST_INSTANT).contains(time))
            .ok_or_else(|| errors::datetime_out_of_range("timestamp"))
    }
}

/// A number of hours east of Greenwich, as SET takes it.
fn hours(text: &str) -> Option<Zone> {
    let hours: f64 = text.trim().parse().ok()?;
    (hours.abs() <= 168.0).then_some(Zone::fixed((hours * 3600.0) as i32))
}

/// POSIX's form: a name, which may be in angle brackets, and an offset that counts westwards.
fn posix(text: &str) -> Option<Zone> {
    let rest = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => text.trim_start_matches(|letter: char| !(letter.is_ascii_digit() || matches!(letter, ',' | '+' | '-'))),
    };
    let (sign, rest) = match rest.as_bytes().first()? {
        b'+' => (-1, &rest[1..]),
        b'-' => (1, &rest[1..]),
        _ => (-1, rest),
    };
    let mut seconds = 0;
    for (index, part) in rest.split(':').enumerate() {
        if part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (unit, most) = *[(3600, 167), (60, 59), (1, 59)].get(index)?;
        let value: i32 = part.parse().ok()?;
        if value > most {
            return None;
        }
        seconds += value * unit;
    }
    Some(Zone::fixed(sign * seconds))
}

/// Seconds east of Greenwich at seconds since 1970.
fn offset_of(zone: Tz, seconds: i64) -> i32 {
    let at = |seconds: i64| {
        let time = DateTime::from_timestamp(seconds, 0).map_or(DateTime::UNIX_EPOCH, |time| time);
        zone.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc()
    };
    if seconds < TABLES_END {
        return at(seconds);
    }
    let (winter, summer) = (at(TABLES_END + 14 * 86_400), at(TABLES_END + 195 * 86_400));
    if winter == summer {
        return winter;
    }
    at(seconds - moved_years(seconds))
}

/// The seconds by which to go back to reach a year of 2070 to 2097 with the same calendar.
fn moved_years(seconds: i64) -> i64 {
    let (year, ..) = calendar::date_of(seconds.div_euclid(86_400));
    let first = calendar::day_of(year, 1, 1);
    let alike = (2070..=2097)
        .map(|other| (calendar::day_of(other, 1, 1), calendar::is_leap(other)))
        .find(|(day, is_leap)| (first - day).rem_euclid(7) == 0 && *is_leap == calendar::is_leap(year))
        .map_or(first, |(day, _)| day);
    (first - alike) * 86_400
}
