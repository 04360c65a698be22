//! Time zones by name, as functions are given them.

use diligence_base::Result;

use super::errors::value_error;
use crate::text::Zone;
use crate::text::datetime::displacement;

/// An offset from Greenwich as `+02`, `-03:30`.
pub(super) fn offset_text(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    match minutes % 60 {
        0 => format!("{sign}{:02}", minutes / 60),
        rest => format!("{sign}{:02}:{rest:02}", minutes / 60),
    }
}

/// The zone's abbreviation at an instant, such as `CEST`; of a fixed offset the offset.
pub(super) fn abbreviation_at(zone: Zone, instant: i64) -> String {
    zone.abbreviation_at(instant).unwrap_or_else(|| offset_text(zone.offset_at(instant).into()))
}

/// Zones by name, looked up once for each name that a column has in a row.
#[derive(Default)]
pub(super) struct Zones {
    last: Option<(String, Zone)>,
}

impl Zones {
    /// The session's zone, which the binder appends to a call. Fails with 22023 if there is no such zone.
    pub(super) fn session(&mut self, name: &str) -> Result<Zone> {
        self.get(name, Zone::of_setting)
    }

    /// A zone that a call names. Fails with 22023 if there is no such zone.
    pub(super) fn argument(&mut self, name: &str) -> Result<Zone> {
        self.get(name, Zone::of_argument)
    }

    /// A zone that `make_timestamptz` names. Fails likewise.
    pub(super) fn made(&mut self, name: &str) -> Result<Zone> {
        self.get(name, zone_of_made)
    }

    fn get(&mut self, name: &str, of: fn(&str) -> Result<Zone>) -> Result<Zone> {
        match &self.last {
            Some((last, zone)) if last == name => Ok(*zone),
            _ => {
                let zone = of(name)?;
                self.last = Some((name.to_owned(), zone));
                Ok(zone)
            }
        }
    }
}

/// The zone of `make_timestamptz`: like that of AT TIME ZONE, but an offset such as `+02:30` counts eastwards, and has
/// a sign. Fails with 22023 if there is no such zone.
fn zone_of_made(text: &str) -> Result<Zone> {
    match text.as_bytes().first() {
        Some(b'+' | b'-') => match displacement(text) {
            Ok(seconds) => Ok(Zone::fixed(seconds)),
            Err(_) => Err(value_error(format!("numeric time zone \"{text}\" out of range"), "22023")),
        },
        Some(digit) if digit.is_ascii_digit() => {
            let message = format!("invalid input syntax for type numeric time zone: \"{text}\"");
            let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
            Err(value_error(message, "22023").with_hint(hint))
        }
        _ => Zone::of_argument(text),
    }
}
