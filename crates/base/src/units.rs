//! Numbers with their units, for people.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_of_which_there_is_one() {
        let shown = [0, 1023, 1024, 3_565_158, 5 << 30, 3000 << 40].map(display_bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "3.4 MiB", "5.0 GiB", "3000.0 TiB"]);
    }
}
