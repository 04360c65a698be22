//! Names of the files of a folder, as a statement wants them.

use std::hash::{BuildHasher, Hasher, RandomState};

use diligence_base::{Error, Result};

/// What stands for a name that no other file has.
const UNIQUE: [&str; 3] = ["{uuid}", "{uuidv4}", "{uuidv7}"];
/// What stands for the number of the file in its folder.
const NUMBER: &str = "{i}";

/// How the files of a folder are called, without the ending: `orders_{i}`, `orders_{uuid}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNames(String);

impl FileNames {
    /// The names of a pattern. Where nothing in it tells files apart, their number stands behind it. Fails with code
    /// 22023 for a pattern that names another folder, or files that no table would have.
    pub fn parse(pattern: &str) -> Result<Self> {
        let wrong = |what: &str| Err(Error::input(format!("'{pattern}' {what}")).with_code("22023"));
        if pattern.contains(['/', '\\', '\0']) {
            return wrong("is no name of a file: it names a folder");
        }
        if pattern.starts_with(['_', '.']) {
            return wrong("names files that no table would have: these do not begin with '_' or '.'");
        }
        let names = Self(pattern.to_owned());
        match names.are_unique() || pattern.contains(NUMBER) {
            true => Ok(names),
            false => Ok(Self(format!("{pattern}{NUMBER}"))),
        }
    }

    /// Whether each name is one that no other file has.
    pub fn are_unique(&self) -> bool {
        UNIQUE.iter().any(|unique| self.0.contains(unique))
    }

    /// The name of the file of this number.
    pub fn name(&self, number: usize) -> String {
        let mut name = self.0.replace(NUMBER, &number.to_string());
        for unique in UNIQUE {
            if name.contains(unique) {
                name = name.replace(unique, &random_uuid());
            }
        }
        name
    }
}

/// A random UUID, of version 4.
fn random_uuid() -> String {
    // Each state has keys of its own.
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random() & !0xf000 | 0x4000, random() & !(0b11 << 62) | 0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_pattern() {
        let name = |pattern: &str, number| FileNames::parse(pattern).unwrap().name(number);
        assert_eq!(name("orders_{i}", 7), "orders_7");
        assert_eq!(name("x_{i}_y", 0), "x_0_y");
        assert_eq!(name("orders", 3), "orders3");
        let unique = FileNames::parse("o_{uuid}").unwrap();
        let (one, other) = (unique.name(0), unique.name(0));
        assert!(unique.are_unique() && one != other && one.len() == "o_".len() + 36, "{one}");
        assert_eq!((&one[16..17], one.matches('-').count()), ("4", 4), "{one}");
        for wrong in ["a/b", "..\\x", "_{i}", ".x", "a\0"] {
            assert_eq!(FileNames::parse(wrong).unwrap_err().code(), Some("22023"), "{wrong}");
        }
    }
}
