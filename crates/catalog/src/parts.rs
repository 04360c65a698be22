//! Parts of a text that a log keeps: control characters stand between them, so those of a part itself are written
//! otherwise. Texts of earlier versions have none in their parts, and are read as they are.

/// Stands before the digit that says which character is meant.
const INSTEAD: char = '\u{10}';
/// The first of the characters that are written otherwise: this one, and those between parts.
const FIRST: u32 = INSTEAD as u32;
const LAST: u32 = 0x14;

/// A part as it stands among others.
pub(crate) fn shielded(part: &str) -> String {
    let mut shielded = String::with_capacity(part.len());
    for character in part.chars() {
        match char::from_digit(u32::from(character).wrapping_sub(FIRST), LAST - FIRST + 1) {
            Some(digit) => shielded.extend([INSTEAD, digit]),
            None => shielded.push(character),
        }
    }
    shielded
}

/// The part that stands so among others.
pub(crate) fn unshielded(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let meant = match character {
            INSTEAD => characters.next().and_then(|digit| char::from_u32(FIRST + digit.to_digit(10)?)),
            other => Some(other),
        };
        part.extend(meant);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_nothing_that_stands_between_parts() {
        for part in ["", "a", "żółw", "\u{10}", "\u{11}\u{12}", "a\u{10}1b\u{13}\u{14}\u{15}\u{f}"] {
            let shielded = shielded(part);
            assert!(!shielded.contains(['\u{11}', '\u{12}', '\u{13}', '\u{14}']), "{shielded:?}");
            assert_eq!(unshielded(&shielded), part);
        }
        assert_eq!(unshielded("as it was"), "as it was");
    }
}
