//! Types of the catalog's vectors: `int2vector` and `oidvector`.
//!
//! A value is held as its text, numbers with blanks between them. It is an array to functions and operators; unlike in
//! other arrays, its elements are counted from 0.

use diligence_base::{Error, Result};

use super::SqlType;

/// Which of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorKind {
    /// `int2vector`.
    SmallInt,
    /// `oidvector`.
    Oid,
}

impl VectorKind {
    /// All of them.
    pub const ALL: [VectorKind; 2] = [Self::SmallInt, Self::Oid];

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "int2vector",
            Self::Oid => "oidvector",
        }
    }

    /// The type of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// PostgreSQL's numbers of the type and of its arrays.
    pub fn oids(self) -> (u32, u32) {
        match self {
            Self::SmallInt => (22, 1006),
            Self::Oid => (30, 1013),
        }
    }

    /// The type of the elements.
    pub fn element(self) -> SqlType {
        match self {
            Self::SmallInt => SqlType::SmallInt,
            Self::Oid => SqlType::OID,
        }
    }

    /// Writes the one form of a value that a text means. Fails with 22P02 if an element is no number, 22003 if it is
    /// none of the elements' type.
    pub fn write(self, text: &str, out: &mut String) -> Result<()> {
        let range = match self {
            Self::SmallInt => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Self::Oid => 0..=i64::from(u32::MAX),
        };
        for (place, word) in text.split_ascii_whitespace().enumerate() {
            let number = word.parse::<i64>().map_err(|_| {
                let element = self.element();
                Error::input(format!("invalid input syntax for type {element}: \"{word}\"")).with_code("22P02")
            })?;
            if !range.contains(&number) {
                let message = format!("value \"{word}\" is out of range for type {}", self.element());
                return Err(Error::input(message).with_code("22003"));
            }
            if place > 0 {
                out.push(' ');
            }
            out.push_str(&number.to_string());
        }
        Ok(())
    }
}

impl SqlType {
    /// Whether it is one of the vectors.
    pub fn is_vector(&self) -> bool {
        matches!(self, Self::Vector(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_one_form() {
        let written = |kind: VectorKind, text: &str| {
            let mut out = String::new();
            kind.write(text, &mut out).map(|()| out)
        };
        assert_eq!(written(VectorKind::SmallInt, "  1 -2   03 ").unwrap(), "1 -2 3");
        assert_eq!(written(VectorKind::Oid, "").unwrap(), "");
        assert_eq!(written(VectorKind::SmallInt, "1 x").unwrap_err().code(), Some("22P02"));
        assert_eq!(written(VectorKind::SmallInt, "40000").unwrap_err().code(), Some("22003"));
        assert_eq!(written(VectorKind::Oid, "-1").unwrap_err().code(), Some("22003"));
    }
}
