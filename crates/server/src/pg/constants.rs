//! Constants apart from the text around them, for clients that write constants into their statements.
//!
//! A constant is taken out where a parameter would mean the same: behind an operator that compares, an integer also
//! behind `+` and `-`, and as a value of VALUES. Whatever else there is stays in the text, so that statements with the
//! same text differ in these constants only.

/// Bytes of a text that is looked at, at most: longer ones are no statements of a row.
const TEXT_BYTES_MAX: usize = 2 * 1024;
/// Constants of a statement, at most.
const CONSTANTS_MAX: usize = 64;
/// What statements begin with that are looked at.
const STARTS: [&str; 4] = ["SELECT", "UPDATE", "DELETE", "INSERT"];

/// A statement without its constants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Apart {
    /// The statement with `$1`, `$2`, … for the constants.
    pub text: String,
    /// The constants in their order.
    pub constants: Vec<Constant>,
}

/// A constant that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    /// Its value as text, without quotes.
    pub text: String,
    /// What it is, and where it stands.
    pub place: Place,
}

/// What a constant is, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An integer that is compared.
    ComparedInteger,
    /// An integer that is added or subtracted.
    AddedInteger,
    /// An integer of VALUES.
    GivenInteger,
    /// A text, wherever it stands.
    Text,
}

/// What stands before a place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Start,
    /// A word, a name in quotes, a constant or a closing parenthesis: something that has a value, or may have one.
    Operand,
    Values,
    Compares,
    Adds,
    Open,
    Comma,
    Other,
}

/// The constants of a statement apart from its text; `None` if it is none of [`STARTS`], has no such constants, or has
/// anything that is not understood here: comments, parameters, escapes, several statements.
pub(super) fn apart(text: &str) -> Option<Apart> {
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let is_start = |start: &&str| {
        text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
            && text.as_bytes().get(start.len()).is_some_and(u8::is_ascii_whitespace)
    };
    if text.len() > TEXT_BYTES_MAX || !STARTS.iter().any(is_start) {
        return None;
    }
    let out = Apart { text: String::with_capacity(text.len()), constants: Vec::new() };
    let mut scanner = Scanner { text, at: 0, out, before: Before::Start, depth: 0, rows_at: None };
    while scanner.step()? {}
    Some(scanner.out).filter(|out| !out.constants.is_empty() && out.constants.len() <= CONSTANTS_MAX)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    out: Apart,
    before: Before,
    depth: usize,
    /// How deep the values of VALUES stand, while there are some.
    rows_at: Option<usize>,
}

impl Scanner<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Where the bytes end that are such, from a place on.
    fn end(&self, from: usize, is_such: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[from..];
        rest.iter().position(|byte| !is_such(*byte)).map_or(self.text.len(), |length| from + length)
    }

    /// Takes the text up to a place over as it is.
    fn keep(&mut self, end: usize, what: Before) {
        self.out.text.push_str(&self.text[self.at..end]);
        (self.at, self.before) = (end, what);
    }

    /// Takes one token. False at the end; `None` for what is not understood.
    fn step(&mut self) -> Option<bool> {
        let start = self.end(self.at, |byte| byte.is_ascii_whitespace());
        if start > self.at && start < self.text.len() {
            self.out.text.push(' ');
        }
        self.at = start;
        let Some(byte) = self.byte(start) else { return Some(false) };
        if self.rows_at.is_some_and(|depth| self.depth < depth) && !matches!(byte, b'(' | b',') {
            self.rows_at = None;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word()?,
            b'0'..=b'9' => self.number(start)?,
            b'\'' => self.string()?,
            b'"' => {
                let length = self.text[start + 1..].find('"')?;
                self.keep(start + length + 2, Before::Operand);
            }
            b'(' => {
                self.depth += 1;
                self.keep(start + 1, Before::Open);
            }
            b')' => {
                self.depth = self.depth.checked_sub(1)?;
                self.keep(start + 1, Before::Operand);
            }
            b',' => self.keep(start + 1, Before::Comma),
            b'.' | b'*' | b'[' | b']' | b':' => self.keep(start + 1, Before::Other),
            b'=' | b'<' | b'>' | b'!' | b'+' | b'-' => self.operator()?,
            b'/' | b'%' | b'|' | b'&' if self.byte(start + 1) != Some(b'*') => self.keep(start + 1, Before::Other),
            _ => return None,
        }
        Some(true)
    }

    fn word(&mut self) -> Option<()> {
        let end = self.end(self.at, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
        // Prefixes of texts: E'…', X'…'; and names with a dollar sign.
        if matches!(self.byte(end), Some(b'\'' | b'$')) {
            return None;
        }
        let is_values = self.text[self.at..end].eq_ignore_ascii_case("values");
        if is_values {
            self.rows_at = Some(self.depth + 1);
        }
        self.keep(end, if is_values { Before::Values } else { Before::Operand });
        Some(())
    }

    fn operator(&mut self) -> Option<()> {
        let mut end = self.end(self.at, |byte| b"=<>!+-".contains(&byte));
        if self.text[self.at..end].contains("--") {
            return None;
        }
        // A minus behind another operator is a sign.
        if end > self.at + 1 && self.byte(end - 1) == Some(b'-') {
            end -= 1;
        }
        // Comments, and operators that people made.
        if self.byte(end).is_some_and(|byte| b"~@#%^&|`?*/".contains(&byte)) {
            return None;
        }
        let is_compared = matches!(&self.text[self.at..end], "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=");
        match &self.text[self.at..end] {
            _ if is_compared => self.keep(end, Before::Compares),
            "-" if self.place().is_some() => {
                let digits = self.end(end, |byte| byte == b' ');
                match self.byte(digits) {
                    Some(b'0'..=b'9') => self.number(digits)?,
                    _ => self.keep(end, Before::Other),
                }
            }
            "+" | "-" if self.before == Before::Operand => self.keep(end, Before::Adds),
            "+" | "-" => self.keep(end, Before::Other),
            _ => return None,
        }
        Some(())
    }

    /// What an integer would be here; `None` if it stays in the text.
    fn place(&self) -> Option<Place> {
        match self.before {
            Before::Compares => Some(Place::ComparedInteger),
            Before::Adds => Some(Place::AddedInteger),
            Before::Open | Before::Comma if self.rows_at == Some(self.depth) => Some(Place::GivenInteger),
            _ => None,
        }
    }

    /// Whether what begins behind a constant makes something else of it.
    fn is_followed(&self, end: usize) -> bool {
        let next = self.end(end, |byte| byte.is_ascii_whitespace());
        matches!(self.byte(next), Some(b':' | b'[' | b'.' | b'(' | b'\''))
    }

    /// A number whose digits begin at a place: there, or behind a minus.
    fn number(&mut self, digits: usize) -> Option<()> {
        let mut end = self.end(digits, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        if matches!(self.byte(end - 1), Some(b'e' | b'E')) && matches!(self.byte(end), Some(b'+' | b'-')) {
            end = self.end(end + 1, |byte| byte.is_ascii_digit());
        }
        let text = &self.text[digits..end];
        let is_integer = text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
        match self.place().filter(|_| is_integer && !self.is_followed(end)) {
            Some(place) => {
                let minus = if digits > self.at { "-" } else { "" };
                self.take_out(Constant { text: format!("{minus}{text}"), place }, end);
            }
            None => self.keep(end, Before::Operand),
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let mut end = self.at + 1;
        loop {
            end += self.text[end..].find('\'')? + 1;
            if self.byte(end) != Some(b'\'') {
                break;
            }
            end += 1;
        }
        let inner = &self.text[self.at + 1..end - 1];
        if inner.contains(['\\', '\0']) {
            return None;
        }
        match self.place().filter(|place| *place != Place::AddedInteger && !self.is_followed(end)) {
            Some(_) => self.take_out(Constant { text: inner.replace("''", "'"), place: Place::Text }, end),
            None => self.keep(end, Before::Operand),
        }
        Some(())
    }

    fn take_out(&mut self, constant: Constant, end: usize) {
        self.out.constants.push(constant);
        self.out.text.push_str(&format!("${}", self.out.constants.len()));
        (self.at, self.before) = (end, Before::Operand);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_taken_out_where_parameters_mean_the_same() {
        for (text, expected, constants) in [
            ("SELECT a FROM t WHERE k = 5;", "SELECT a FROM t WHERE k = $1", &["5"][..]),
            (
                "select a from t\n where k=-7 and n  <> 'it''s'",
                "select a from t where k=$1 and n <> $2",
                &["-7", "it's"],
            ),
            ("UPDATE t SET v = v + -3 WHERE k = 1", "UPDATE t SET v = v + $1 WHERE k = $2", &["-3", "1"]),
            (
                "UPDATE t SET v = v - 3, w = 'x' WHERE 1 = 1",
                "UPDATE t SET v = v - $1, w = $2 WHERE 1 = $3",
                &["3", "x", "1"],
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 'x', now(), f(2)), (-3, NULL, 1.5, 4) ON CONFLICT (a) DO UPDATE SET b = 9",
                "INSERT INTO t (a, b) VALUES ($1, $2, now(), f(2)), ($3, NULL, 1.5, $4) ON CONFLICT (a) DO UPDATE SET b = $5",
                &["1", "x", "-3", "4", "9"],
            ),
            (
                "DELETE FROM t WHERE d = date '2024-01-01' AND k IN (1, 2) AND z >= 3",
                "DELETE FROM t WHERE d = date '2024-01-01' AND k IN (1, 2) AND z >= $1",
                &["3"],
            ),
            (
                "SELECT a FROM t WHERE k = 1 ORDER BY 1 LIMIT 10",
                "SELECT a FROM t WHERE k = $1 ORDER BY 1 LIMIT 10",
                &["1"],
            ),
            (
                "SELECT a FROM t WHERE k = 5::text OR k = 7.5 OR k = 1e-3 OR k = 8",
                "SELECT a FROM t WHERE k = 5::text OR k = 7.5 OR k = 1e-3 OR k = $1",
                &["8"],
            ),
        ] {
            let apart = apart(text).unwrap();
            assert_eq!(apart.text, expected);
            assert_eq!(apart.constants.iter().map(|constant| &constant.text).collect::<Vec<_>>(), constants, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for text in [
            "SELECT 1",
            "SELECT a FROM t",
            "SELECT a FROM t WHERE k = $1 AND b = 2",
            "SELECT a FROM t WHERE k = 1 -- one",
            "SELECT a FROM t WHERE k = 1 /* one */",
            "SELECT a FROM t WHERE k = E'a\\n' AND b = 1",
            "SELECT a FROM t WHERE k = 'a\\n'",
            "SELECT a FROM t WHERE k = 1; SELECT 2",
            "SELECT a FROM t WHERE k =- 1 AND b @> 2",
            "SELECT a FROM t WHERE k = 'open",
            "CREATE TABLE t AS SELECT a FROM u WHERE k = 1",
            "SELECT a FROM t WHERE k = 1)",
            "SELECT $$a$$ WHERE k = 1",
        ] {
            assert_eq!(apart(text), None, "{text}");
        }
    }

    #[test]
    fn places_tell_what_is_compared_added_and_given() {
        let places = |text: &str| apart(text).unwrap().constants.iter().map(|one| one.place).collect::<Vec<_>>();
        use Place::*;
        assert_eq!(places("UPDATE t SET a = a + 1 WHERE k > 2"), [AddedInteger, ComparedInteger]);
        assert_eq!(places("INSERT INTO t VALUES (1, '2')"), [GivenInteger, Text]);
    }
}
