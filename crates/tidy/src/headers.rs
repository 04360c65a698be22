//! Every Rust file begins by saying what it is.

use crate::findings::Finding;
use crate::house::House;
use crate::lexer::{TokenKind, tokens};

/// Rust files that do not begin with `//!`.
pub fn check(house: &House) -> Vec<Finding> {
    let files = house.files.with_ending(".rs");
    let silent = files.filter(|(_, text)| tokens(text).first().is_none_or(|token| token.kind != TokenKind::InnerDoc));
    let findings = silent.map(|(path, _)| Finding {
        place: format!("{path}:1"),
        sentence:
            "the file does not begin with `//!`: say in a sentence or two what it is, and what is always true in it"
                .to_string(),
        key: path.to_string(),
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_opening_is_found() {
        let files = [("a.rs", "//! A.\nfn a() {}"), ("b.rs", "// B.\n//! C.\nfn b() {}"), ("c.rs", "")];
        let found = check(&House::of(&files));
        assert_eq!(found.iter().map(|finding| finding.place.as_str()).collect::<Vec<_>>(), ["b.rs:1", "c.rs:1"]);
    }
}
