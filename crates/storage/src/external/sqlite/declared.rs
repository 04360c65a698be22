//! The columns of a table, from the text of the CREATE TABLE that made it.

use arrow::datatypes::{DataType, Field, TimeUnit};

/// A column as it was declared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredColumn {
    pub name: String,
    /// The type that its values are read as.
    pub ty: DataType,
    /// Whether it is the number of its row, which records do not have.
    pub is_row_number: bool,
    pub is_generated: bool,
    /// What records have that were there before the column was.
    pub default: Option<Literal>,
}

/// A constant in a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Whole(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The constant behind DEFAULT; `None` if it is NULL or no constant.
fn default_of(constraints: &[Token]) -> Option<Literal> {
    let at = constraints.iter().position(|token| token.is("DEFAULT"))?;
    let mut rest = &constraints[at + 1..];
    // Constants may stand in parentheses.
    while let [Token::Mark('('), inner @ ..] = rest {
        rest = inner;
    }
    match rest {
        [Token::Quoted(text), ..] => return Some(Literal::Text(text.clone())),
        [Token::Word(word), Token::Quoted(digits), ..] if word.eq_ignore_ascii_case("x") => {
            let pairs = digits.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            return pairs.map(byte).collect::<Option<_>>().map(Literal::Blob);
        }
        [Token::Word(word), ..] if word.eq_ignore_ascii_case("true") => return Some(Literal::Whole(1)),
        [Token::Word(word), ..] if word.eq_ignore_ascii_case("false") => return Some(Literal::Whole(0)),
        _ => {}
    }
    // A number's sign, point and exponent are tokens of their own.
    let mut number = String::new();
    for token in rest {
        match token {
            Token::Mark(mark @ ('+' | '-' | '.')) => number.push(*mark),
            Token::Word(word) if word.starts_with(|first: char| first.is_ascii_digit()) => number.push_str(word),
            _ => break,
        }
    }
    let number = number.strip_prefix('+').unwrap_or(&number);
    let whole = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    };
    whole.map(Literal::Whole).or_else(|| number.parse().ok().map(Literal::Real))
}

impl DeclaredColumn {
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.ty.clone(), true)
    }
}

/// What a statement declares.
#[derive(Debug, PartialEq)]
pub(super) struct Declared {
    pub columns: Vec<DeclaredColumn>,
    pub is_without_rowid: bool,
}

/// A part of a statement.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word as it stands there.
    Word(String),
    /// A name in quotes, or a text.
    Quoted(String),
    Mark(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = |bytes: usize| rest.get(bytes..).unwrap_or_default();
        rest = match first {
            c if c.is_whitespace() => after(c.len_utf8()),
            '-' if rest.starts_with("--") => rest.split_once('\n').map_or("", |(_, rest)| rest),
            '/' if rest.starts_with("/*") => rest.split_once("*/").map_or("", |(_, rest)| rest),
            '"' | '`' | '\'' | '[' => {
                let close = if first == '[' { ']' } else { first };
                let mut name = String::new();
                let mut chars = rest.char_indices().skip(1).peekable();
                let end = loop {
                    let (at, c) = chars.next()?;
                    if c != close {
                        name.push(c);
                    } else if close != ']' && chars.peek().is_some_and(|(_, next)| *next == close) {
                        name.push(c);
                        chars.next();
                    } else {
                        break at + c.len_utf8();
                    }
                };
                tokens.push(Token::Quoted(name));
                after(end)
            }
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                after(end)
            }
            c => {
                tokens.push(Token::Mark(c));
                after(c.len_utf8())
            }
        };
    }
    Some(tokens)
}

/// Words that end the type of a column.
const CONSTRAINTS: [&str; 11] =
    ["CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS"];

/// What a CREATE TABLE declares; `None` if it cannot be understood.
pub(super) fn columns(sql: &str) -> Option<Declared> {
    let tokens = tokens(sql)?;
    let open = tokens.iter().position(|token| *token == Token::Mark('('))?;
    if !tokens.first()?.is("CREATE") || tokens[..open].iter().any(|token| token.is("VIRTUAL")) {
        return None;
    }
    // The parts between the commas of the outermost parentheses.
    let (mut parts, mut depth, mut close) = (vec![Vec::new()], 0usize, None);
    for (place, token) in tokens.iter().enumerate().skip(open + 1) {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') if depth == 0 => {
                close = Some(place);
                break;
            }
            Token::Mark(')') => depth -= 1,
            Token::Mark(',') if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(token.clone());
    }
    let behind = &tokens[close? + 1..];
    let is_without_rowid = behind.windows(2).any(|pair| pair[0].is("WITHOUT") && pair[1].is("ROWID"));
    let mut columns: Vec<DeclaredColumn> = Vec::new();
    let mut key: Option<String> = None;
    let mut integers = Vec::new();
    for part in &parts {
        let is_constraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
        if part.first().is_some_and(|first| is_constraint.iter().any(|word| first.is(word))) {
            if let Some(at) = part.iter().position(|token| token.is("PRIMARY")) {
                // PRIMARY KEY (a): the number of the row, if it is one column.
                if let [Token::Mark('('), Token::Word(name) | Token::Quoted(name), Token::Mark(')'), ..] =
                    part.get(at + 2..)?
                {
                    key = Some(name.clone());
                }
            }
            continue;
        }
        let (Token::Word(name) | Token::Quoted(name)) = part.first()? else { return None };
        let end = part.iter().skip(1).position(|token| CONSTRAINTS.iter().any(|word| token.is(word)));
        let end = end.map_or(part.len(), |end| end + 1);
        let mut told = String::new();
        for token in &part[1..end] {
            match token {
                Token::Word(word) | Token::Quoted(word) => {
                    if !told.is_empty() && !told.ends_with('(') {
                        told.push(' ');
                    }
                    told.push_str(word);
                }
                Token::Mark(mark) => told.push(*mark),
            }
        }
        let constraints = &part[end..];
        let primary = constraints.iter().position(|token| token.is("PRIMARY"));
        let is_descending = primary.is_some_and(|at| constraints.get(at + 2).is_some_and(|token| token.is("DESC")));
        let is_integer = told.eq_ignore_ascii_case("INTEGER");
        if is_integer {
            integers.push(name.clone());
        }
        columns.push(DeclaredColumn {
            name: name.clone(),
            ty: type_of(&told),
            is_row_number: primary.is_some() && is_integer && !is_descending,
            default: default_of(constraints),
            is_generated: constraints.iter().any(|token| token.is("GENERATED") || token.is("AS")),
        });
    }
    if let Some(key) = key.filter(|key| integers.iter().any(|name| name.eq_ignore_ascii_case(key))) {
        columns.iter_mut().filter(|column| column.name.eq_ignore_ascii_case(&key)).for_each(|column| {
            column.is_row_number = true;
        });
    }
    (!columns.is_empty()).then_some(Declared { columns, is_without_rowid })
}

/// The type that values of a declared type are read as.
fn type_of(told: &str) -> DataType {
    let upper = told.to_ascii_uppercase();
    let has = |part: &str| upper.contains(part);
    if has("INT") {
        DataType::Int64
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        DataType::Utf8View
    } else if has("BLOB") {
        DataType::BinaryView
    } else if has("REAL") || has("FLOA") || has("DOUB") || has("NUMERIC") || has("DECIMAL") {
        DataType::Float64
    } else if has("BOOL") {
        DataType::Boolean
    } else if has("DATETIME") || has("TIMESTAMP") {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    } else if has("DATE") {
        DataType::Date32
    } else {
        DataType::Utf8View
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sql: &str) -> Vec<(String, DataType, bool)> {
        let columns = columns(sql).unwrap().columns;
        columns.into_iter().map(|column| (column.name, column.ty, column.is_row_number)).collect()
    }

    #[test]
    fn columns_are_found_in_what_made_the_table() {
        let found = told(
            "CREATE TABLE \"a \"\"b\" (id INTEGER PRIMARY KEY, [x y] varchar(20) NOT NULL DEFAULT 'a,b', -- remark\n \
             `n` DECIMAL(10, 2), d datetime, any, FOREIGN KEY (n) REFERENCES t (n))",
        );
        let names = found.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["id", "x y", "n", "d", "any"]);
        assert_eq!(found[0], ("id".to_owned(), DataType::Int64, true));
        assert_eq!(found[1].1, DataType::Utf8View);
        assert_eq!(found[2].1, DataType::Float64);
        assert_eq!(found[4].1, DataType::Utf8View);
        let declared = columns(
            "CREATE TABLE t (a INT, b INT DEFAULT -5, c REAL DEFAULT 1.5e-3 NOT NULL, d TEXT DEFAULT 'x y', \
             e BLOB DEFAULT x'01ff', f INT DEFAULT NULL, g TEXT DEFAULT (7))",
        );
        let defaults = declared.unwrap().columns.into_iter().map(|column| column.default).collect::<Vec<_>>();
        assert_eq!(
            defaults,
            [
                None,
                Some(Literal::Whole(-5)),
                Some(Literal::Real(1.5e-3)),
                Some(Literal::Text("x y".to_owned())),
                Some(Literal::Blob(vec![1, 255])),
                None,
                Some(Literal::Whole(7)),
            ]
        );
        assert!(told("CREATE TABLE t (a INTEGER, b TEXT, PRIMARY KEY (a))")[0].2);
        assert!(!told("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")[0].2);
        assert!(!told("CREATE TABLE t (a INTEGER PRIMARY KEY DESC, b TEXT)")[0].2);
        assert!(columns("CREATE TABLE t (a TEXT PRIMARY KEY) WITHOUT ROWID").unwrap().is_without_rowid);
        assert!(columns("CREATE TABLE t (a INT, b INT AS (a + 1))").unwrap().columns[1].is_generated);
        assert_eq!(columns("CREATE VIRTUAL TABLE t USING fts5(a)"), None);
        assert_eq!(columns("CREATE TABLE t (a"), None);
    }
}
