//! Lengths of time as PostgreSQL's settings write them.

use std::time::Duration;

use crate::{Error, Result};

/// `5s`, `1min`, `250`: milliseconds if there is no unit. Fails with code 22023 for what is no time.
pub fn duration(text: &str) -> Result<Duration> {
    let wrong =
        || Error::input(format!("'{text}' is no time")).with_code("22023").with_hint("write it like 500ms, 5s or 1min");
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let milliseconds = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milliseconds).filter(|time| *time < i32::MAX as u64).map(Duration::from_millis).ok_or_else(wrong)
}

/// Milliseconds, in the largest unit that says them exactly.
pub fn display(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let unit = units.into_iter().find(|(unit, _)| milliseconds > 0 && milliseconds.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{milliseconds}ms"), |(unit, name)| format!("{}{name}", milliseconds / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, milliseconds) in [("250", 250), ("5s", 5000), ("1 min", 60_000), ("0", 0)] {
            assert_eq!(duration(text).unwrap(), Duration::from_millis(milliseconds), "{text}");
        }
        for wrong in ["", "soon", "5 weeks", "99999999999"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(display(Duration::from_millis(90_000)), "90s");
        assert_eq!(display(Duration::from_millis(1)), "1ms");
    }
}
