//! Numbers with their units, for people.

use crate::{Error, Result};

/// Bytes for people: `17 B`, `3.4 MiB`.
pub fn display_bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Bytes from `1000000`, `512MB`, `1.5 GiB`. Units are powers of 1024, as is usual for memory. Fails with kind `Input`
/// if the text is no amount of memory.
pub fn bytes(value: &str) -> Result<usize> {
    let wrong = || {
        Error::input(format!("expected an amount of memory, found '{value}'")).with_hint("write it like 512MB or 4GB")
    };
    let text = value.trim().to_ascii_lowercase();
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let power = match unit.trim().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let bytes = number * 1024f64.powi(power);
    if !(1.0..=usize::MAX as f64 / 2.0).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_of_which_there_is_one() {
        let shown = [0, 1023, 1024, 3_565_158, 5 << 30, 3000 << 40].map(display_bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "3.4 MiB", "5.0 GiB", "3000.0 TiB"]);
    }
}
