//! Memory budgets.

use std::str::FromStr;

use diligence_allocator::RESIDENT_BASE_BYTES;

/// A memory budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The text on the command line.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// The bytes that our process may have resident with a budget.
pub fn resident_allowed_bytes(budget_bytes: u64) -> u64 {
    budget_bytes / 10 * 11 + RESIDENT_BASE_BYTES as u64
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.to_ascii_lowercase().as_str() {
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return Err("expected a whole number of MB, GB, MiB or GiB".to_owned()),
        };
        let number: Option<u64> = number.parse().ok().filter(|number| *number > 0);
        let bytes = number.and_then(|number| number.checked_mul(factor)).ok_or("expected a positive number")?;
        Ok(Self { name: text.to_owned(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_units() {
        let bytes = |text: &str| text.parse::<Budget>().map(|budget| budget.bytes);
        assert_eq!((bytes("8GB"), bytes("256MB"), bytes("1GiB")), (Ok(8_000_000_000), Ok(256_000_000), Ok(1 << 30)));
        assert!(bytes("8").is_err() && bytes("0MB").is_err() && bytes("99999999999GB").is_err());
    }
}
