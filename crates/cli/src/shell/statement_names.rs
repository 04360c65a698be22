//! The names that a statement brings with it: its tables, by their aliases, and its common table expressions.
//!
//! The statement is being typed, so it is not parsed: the words behind FROM, JOIN and their kin are looked at.

use diligence_db::Session;

/// The names of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatementNames {
    /// Each table: what it is called in the statement, and its name.
    pub tables: Vec<(String, String)>,
    /// The common table expressions.
    pub expressions: Vec<String>,
}

/// Words in front of a table.
const BEFORE_TABLES: [&str; 4] = ["FROM", "JOIN", "UPDATE", "INTO"];

/// Words behind a table that are neither its alias nor among the words that shells complete.
const NO_ALIASES: [&str; 6] = ["RETURNING", "TABLESAMPLE", "ASOF", "POSITIONAL", "QUALIFY", "OFFSET"];

/// The names in the statement in which the cursor is.
pub fn names_at(text: &str, cursor: usize) -> StatementNames {
    let from = text[..cursor].rfind(';').map_or(0, |end| end + 1);
    let to = text[cursor..].find(';').map_or(text.len(), |end| cursor + end);
    let tokens = tokens(&text[from..to]);
    let mut names = StatementNames::default();
    let mut at = 0;
    while at < tokens.len() {
        let is_before = BEFORE_TABLES.iter().any(|word| word.eq_ignore_ascii_case(&tokens[at]));
        if let [name, behind, bracket] = &tokens[at..(at + 3).min(tokens.len())]
            && is_name(name)
            && behind.eq_ignore_ascii_case("as")
            && bracket == "("
        {
            names.expressions.push(name.clone());
        }
        at += 1;
        // FROM a AS x, b y
        while is_before && tokens.get(at).is_some_and(|token| is_name(token)) {
            let table = tokens[at].clone();
            at += 1;
            if tokens.get(at).is_some_and(|token| token.eq_ignore_ascii_case("as")) {
                at += 1;
            }
            let alias = tokens.get(at).filter(|token| is_name(token)).cloned();
            at += usize::from(alias.is_some());
            let own = table.rsplit('.').next().unwrap_or_default().to_owned();
            names.tables.push((alias.unwrap_or(own), table));
            if tokens.get(at).is_none_or(|token| token != ",") {
                break;
            }
            at += 1;
        }
    }
    names
}

/// Whether the token is a name rather than a keyword or a sign.
fn is_name(token: &str) -> bool {
    let is_word = token.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"');
    let is_keyword = || Session::keywords().iter().chain(&NO_ALIASES).any(|word| word.eq_ignore_ascii_case(token));
    is_word && !is_keyword()
}

/// Words, with their dots and quoted parts, and signs. Strings are left out.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' => while characters.next().is_some_and(|c| c != '\'') {},
            '"' | '_' => tokens.push(word(character, &mut characters)),
            letter if letter.is_alphanumeric() => tokens.push(word(letter, &mut characters)),
            blank if blank.is_whitespace() => {}
            sign => tokens.push(sign.to_string()),
        }
    }
    tokens
}

fn word(first: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut word = first.to_string();
    let mut is_quoted = first == '"';
    while let Some(next) = rest.next_if(|c| is_quoted || c.is_alphanumeric() || matches!(c, '_' | '.' | '"')) {
        is_quoted ^= next == '"';
        word.push(next);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_aliases() {
        let tables = |text: &str| {
            let names = names_at(text, text.len());
            names.tables.iter().map(|(alias, table)| format!("{alias}={table}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(tables("SELECT * FROM orders AS o JOIN lineitem l ON o."), "o=orders l=lineitem");
        assert_eq!(tables("select x from a, s.b, \"C d\" e where "), "a=a b=s.b e=\"C d\"");
        assert_eq!(tables("UPDATE t SET "), "t=t");
        assert_eq!(tables("INSERT INTO t (a"), "t=t");
        assert_eq!(tables("SELECT 'FROM x' FROM y; SELECT * FROM z LEFT JOIN"), "z=z");
        assert_eq!(tables("SELECT * FROM (SELECT * FROM b) c"), "b=b");
        assert_eq!(names_at("SELECT  FROM t x; SELECT * FROM u", 7).tables, [("x".to_owned(), "t".to_owned())]);
    }

    #[test]
    fn expressions_have_names() {
        let names = names_at("WITH one AS (SELECT 1), two AS (SELECT 2) SELECT * FROM ", 55);
        assert_eq!(names.expressions, ["one", "two"]);
    }
}
