//! Parameters in a statement's text: `$name` becomes `$1`, `$2`, …, as statements have them.

/// The text with `$1` in place of the first name, `$2` in place of the next one, and so on; and the names. Texts in
/// quotes and comments stay.
pub(super) fn numbered(text: &str) -> (String, Vec<&str>) {
    let is_word = |other: char| other.is_alphanumeric() || other == '_';
    let mut out = String::with_capacity(text.len());
    let mut names = Vec::<&str>::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let taken = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if character == '\'' || character == '"' {
            rest[1..].find(character).map_or(rest.len(), |end| end + 2)
        } else if is_word(character) {
            // A dollar sign within a word belongs to it.
            rest.find(|other| !is_word(other) && other != '$').unwrap_or(rest.len())
        } else if character == '$' {
            let end = rest[1..].find(|other| !is_word(other)).map_or(rest.len(), |end| end + 1);
            let (name, behind) = (&rest[1..end], &rest[end..]);
            if behind.starts_with('$') {
                let quote = &rest[..=end];
                rest[quote.len()..].find(quote).map_or(rest.len(), |close| 2 * quote.len() + close)
            } else if name.is_empty() {
                1
            } else {
                let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                out.push_str(&format!("${}", place + 1));
                rest = behind;
                continue;
            }
        } else {
            character.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    (out, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers_outside_of_quotes() {
        for (text, expected, names) in [
            ("SELECT $b, $a, $b", "SELECT $1, $2, $1", vec!["b", "a"]),
            ("SELECT '$a', \"$a\" -- $a\n, $a /* $b */", "SELECT '$a', \"$a\" -- $a\n, $1 /* $b */", vec!["a"]),
            ("SELECT $$it's $a$$, $é$ $a $é$, $a", "SELECT $$it's $a$$, $é$ $a $é$, $1", vec!["a"]),
            ("SELECT a$b, $3+$1", "SELECT a$b, $1+$2", vec!["3", "1"]),
            ("SELECT 'open $a", "SELECT 'open $a", vec![]),
            ("SELECT $ + $a$", "SELECT $ + $a$", vec![]),
        ] {
            assert_eq!(numbered(text), (expected.to_owned(), names), "{text}");
        }
    }
}
