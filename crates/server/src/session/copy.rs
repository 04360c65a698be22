//! COPY with the client, read: what is copied, and the options.

use super::tokens::{Placed, Refused, Token, name};
use crate::encoding::copy::{CopyFormat, CopyOptions, Forced, Verbosity};
use crate::encoding::parameters::boolean;

/// A COPY with the client.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyStatement {
    /// COPY … TO STDOUT.
    Out(CopyOut),
    /// COPY … FROM STDIN.
    In(CopyIn),
}

/// COPY … TO STDOUT.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyOut {
    /// The query that gives the rows; none, if a table does.
    pub query: Option<String>,
    /// The table's schema, if it is named, the table, and its columns; all if there are none.
    pub table: (Option<String>, String, Vec<String>),
    /// How they are written.
    pub options: CopyOptions,
}

/// COPY … FROM STDIN.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyIn {
    /// The table's schema, if it is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The columns; all if empty.
    pub columns: Vec<String>,
    /// How rows are written.
    pub options: CopyOptions,
    /// Which of them the table gets.
    pub condition: Option<String>,
}

impl CopyOut {
    /// The query that gives the rows, with these columns of a table; all if there are none.
    pub fn query_of(&self, columns: &[String]) -> String {
        let (schema, table, _) = &self.table;
        let quote = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let list = match columns.is_empty() {
            true => "*".to_owned(),
            false => columns.iter().map(quote).collect::<Vec<_>>().join(", "),
        };
        let from = schema.iter().chain([table]).map(quote).collect::<Vec<_>>().join(".");
        self.query.clone().unwrap_or_else(|| format!("SELECT {list} FROM {from}"))
    }
}

/// An option of COPY that is none of what is meant there.
fn not_meant(message: impl Into<String>) -> Refused {
    Refused { message: message.into(), code: "22023" }
}

/// An option of COPY that does not go with others.
fn not_with(message: impl Into<String>) -> Refused {
    Refused { message: message.into(), code: "0A000" }
}

/// COPY; `None` if it is none with the client. Fails if it cannot be read.
pub(super) fn copy(sql: &str, tokens: &[Placed<'_>]) -> Result<Option<CopyStatement>, Refused> {
    let symbol =
        |at: usize, wanted: &str| matches!(tokens.get(at), Some((Token::Symbol(found), _)) if *found == wanted);
    let is_word = |at: usize, wanted: &str| matches!(tokens.get(at), Some((Token::Word(found), _)) if found.eq_ignore_ascii_case(wanted));
    // Where the source ends.
    let Some(direction) = outside(tokens, 1, &["TO", "FROM"]) else { return Ok(None) };
    if !is_word(direction + 1, "STDIN") && !is_word(direction + 1, "STDOUT") {
        return Ok(None);
    }
    let is_from = is_word(direction, "FROM");
    // Which of the rows: behind the options.
    let condition = outside(tokens, direction + 2, &["WHERE"]);
    let options = copy_options(&tokens[direction + 2..condition.unwrap_or(tokens.len())])?;
    if condition.is_some() && !is_from {
        return Err("WHERE clause not allowed with COPY TO".into());
    }
    check_direction(&options, is_from)?;
    let condition = condition.map(|at| {
        let from = tokens[at].1 + "WHERE".len();
        sql[from..].trim().trim_end_matches(';').trim_end().to_owned()
    });
    if symbol(1, "(") {
        if is_from {
            return Err("COPY FROM needs a table".into());
        }
        let inside = sql[tokens[1].1 + 1..tokens[direction - 1].1].trim().to_owned();
        return Ok(Some(CopyStatement::Out(CopyOut { query: Some(inside), table: Default::default(), options })));
    }
    let mut table = name(tokens, 1)?;
    let mut schema = None;
    let mut at = 2;
    if symbol(2, ".") {
        schema = Some(table);
        table = name(tokens, 3)?;
        at = 4;
    }
    let mut columns = Vec::new();
    if symbol(at, "(") {
        at += 1;
        loop {
            columns.push(name(tokens, at)?);
            at += 2;
            if symbol(at - 1, ")") {
                break;
            }
            if !symbol(at - 1, ",") {
                return Err("expected , or ) behind a column".into());
            }
        }
    }
    if at != direction {
        return Err("expected TO STDOUT or FROM STDIN".into());
    }
    Ok(Some(match is_from {
        true => CopyStatement::In(CopyIn { schema, table, columns, options, condition }),
        false => CopyStatement::Out(CopyOut { query: None, table: (schema, table, columns), options }),
    }))
}

/// The place of the first of these words outside of parentheses, from a place on.
fn outside(tokens: &[Placed<'_>], from: usize, words: &[&str]) -> Option<usize> {
    let mut depth = 0;
    for (at, (token, _)) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Symbol("(") => depth += 1,
            Token::Symbol(")") => depth -= 1,
            Token::Word(word) if depth == 0 && words.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// Fails if an option is one of the other direction.
fn check_direction(options: &CopyOptions, is_from: bool) -> Result<(), Refused> {
    let refused = [
        (options.force_quote != Forced::None && is_from, "FORCE_QUOTE only available using COPY TO"),
        (options.force_null != Forced::None && !is_from, "FORCE_NULL only available using COPY FROM"),
        (options.force_not_null != Forced::None && !is_from, "FORCE_NOT_NULL only available using COPY FROM"),
        (options.ignores_errors && !is_from, "ON_ERROR only available using COPY FROM"),
    ];
    match refused.iter().find(|(is_refused, _)| *is_refused) {
        Some((_, message)) => Err(not_with(format!("COPY {message}"))),
        None => Ok(()),
    }
}

/// The columns that an option names, from a place on: `*`, or names with commas between them, which may have
/// parentheses around them; and where they end.
fn forced_columns(tokens: &[&Token<'_>], at: usize) -> Result<(Forced, usize), String> {
    let symbol = |at: usize, wanted: &str| matches!(tokens.get(at), Some(Token::Symbol(found)) if *found == wanted);
    if symbol(at, "*") {
        return Ok((Forced::All, at + 1));
    }
    let is_listed = symbol(at, "(");
    let mut at = at + usize::from(is_listed);
    let mut names = Vec::new();
    loop {
        names.push(match tokens.get(at) {
            Some(Token::Word(name)) => name.to_lowercase(),
            Some(Token::Quoted(name, '"')) => name.clone(),
            _ => return Err("expected the name of a column".to_owned()),
        });
        at += 1;
        if !symbol(at, ",") {
            break;
        }
        at += 1;
    }
    if is_listed && !symbol(at, ")") {
        return Err("expected ) behind columns".to_owned());
    }
    Ok((Forced::Named(names), at + usize::from(is_listed)))
}

fn copy_options(tokens: &[Placed<'_>]) -> Result<CopyOptions, Refused> {
    let tokens = tokens.iter().map(|(token, _)| token).collect::<Vec<_>>();
    let is_with = |token: &Token<'_>| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("WITH"));
    let is_listed = matches!(tokens.iter().find(|token| !is_with(token)), Some(Token::Symbol("(")));
    let mut said = SaidOptions::default();
    let mut at = 0;
    while at < tokens.len() {
        if matches!(tokens[at], Token::Symbol("(" | ")" | "," | ";")) {
            at += 1;
            continue;
        }
        let Token::Word(word) = tokens[at] else { return Err("expected an option of COPY".into()) };
        at += 1;
        if matches!(tokens.get(at), Some(Token::Word(filler)) if filler.eq_ignore_ascii_case("AS")) {
            at += 1;
        }
        at = said.read(&word.to_ascii_uppercase(), &tokens, at, is_listed)?;
    }
    said.checked()
}

/// What the options of a COPY have said so far.
#[derive(Default)]
struct SaidOptions {
    /// Options that may be said once.
    names: Vec<String>,
    format: CopyFormat,
    delimiter: Option<u8>,
    null: Option<String>,
    header: bool,
    quote: Option<u8>,
    escape: Option<u8>,
    /// FORCE_QUOTE, FORCE_NULL, FORCE_NOT_NULL.
    forced: [Forced; 3],
    ignores_errors: bool,
    verbosity: Verbosity,
}

impl SaidOptions {
    /// Reads an option, whose value begins at a place, and says where what follows it begins.
    fn read(&mut self, word: &str, tokens: &[&Token<'_>], at: usize, is_listed: bool) -> Result<usize, Refused> {
        self.note(word)?;
        match word {
            "WITH" => Ok(at),
            "CSV" | "BINARY" => {
                self.format = if word == "CSV" { CopyFormat::Csv } else { CopyFormat::Binary };
                Ok(at)
            }
            "FORMAT" | "ON_ERROR" | "LOG_VERBOSITY" => {
                let name = match tokens.get(at) {
                    Some(Token::Word(name)) => name.to_ascii_lowercase(),
                    Some(Token::Quoted(name, _)) => name.to_ascii_lowercase(),
                    _ => String::new(),
                };
                self.choose(word, &name)?;
                Ok(at + 1)
            }
            "FORCE" | "FORCE_QUOTE" | "FORCE_NULL" | "FORCE_NOT_NULL" => self.force(word, tokens, at),
            "HEADER" | "FREEZE" => {
                let (said, at) = flag(word, tokens, at, is_listed)?;
                // Rows of this system are always as PostgreSQL's are when they are frozen.
                if word == "HEADER" {
                    self.header = said.unwrap_or(true);
                }
                Ok(at)
            }
            "DELIMITER" | "DELIMITERS" | "NULL" | "QUOTE" | "ESCAPE" | "ENCODING" => {
                let Some(Token::Quoted(text, '\'')) = tokens.get(at) else {
                    return Err(format!("{} requires a text in quotes", word.to_lowercase()).into());
                };
                self.spell(word, text)?;
                Ok(at + 1)
            }
            _ => Err(format!("option \"{}\" not recognized", word.to_lowercase()).into()),
        }
    }

    /// Fails if an option says what another one has said, in the same words or in others.
    fn note(&mut self, word: &str) -> Result<(), Refused> {
        let meant = match word {
            "CSV" | "BINARY" => "FORMAT",
            "DELIMITERS" => "DELIMITER",
            "WITH" | "FORCE" => return Ok(()),
            other => other,
        };
        if self.names.iter().any(|known| known == meant) {
            return Err("conflicting or redundant options".into());
        }
        self.names.push(meant.to_owned());
        Ok(())
    }

    /// An option whose value is one of some names.
    fn choose(&mut self, word: &str, name: &str) -> Result<(), Refused> {
        match (word, name) {
            ("FORMAT", "text") => self.format = CopyFormat::Text,
            ("FORMAT", "csv") => self.format = CopyFormat::Csv,
            ("FORMAT", "binary") => self.format = CopyFormat::Binary,
            ("FORMAT", _) => return Err(not_meant(format!("COPY format \"{name}\" not recognized"))),
            ("ON_ERROR", "stop") => self.ignores_errors = false,
            ("ON_ERROR", "ignore") => self.ignores_errors = true,
            (_, "silent") => self.verbosity = Verbosity::Silent,
            (_, "default") => self.verbosity = Verbosity::Default,
            (_, "verbose") => self.verbosity = Verbosity::Verbose,
            _ => return Err(not_meant(format!("COPY {word} \"{name}\" not recognized"))),
        }
        Ok(())
    }

    /// An option that names columns, and where it ends.
    fn force(&mut self, word: &str, tokens: &[&Token<'_>], at: usize) -> Result<usize, Refused> {
        let is = |at: usize, wanted: &str| match tokens.get(at) {
            Some(Token::Word(word)) => word.eq_ignore_ascii_case(wanted),
            _ => false,
        };
        // What PostgreSQL had before there were parentheses has blanks in place of underscores.
        let (which, words) = match word {
            "FORCE_QUOTE" => (0, 0),
            "FORCE_NULL" => (1, 0),
            "FORCE_NOT_NULL" => (2, 0),
            _ if is(at, "QUOTE") => (0, 1),
            _ if is(at, "NULL") => (1, 1),
            _ if is(at, "NOT") && is(at + 1, "NULL") => (2, 2),
            _ => return Err("expected QUOTE, NULL or NOT NULL behind FORCE".into()),
        };
        let (columns, end) = forced_columns(tokens, at + words)?;
        self.forced[which] = columns;
        Ok(end)
    }

    /// An option whose value is a text.
    fn spell(&mut self, word: &str, text: &str) -> Result<(), Refused> {
        let one = |what: &str| match text.as_bytes() {
            [byte] => Ok(Some(*byte)),
            _ => Err(not_with(format!("COPY {what} must be a single one-byte character"))),
        };
        match word {
            "DELIMITER" | "DELIMITERS" => self.delimiter = one("delimiter")?,
            "NULL" => self.null = Some(text.to_owned()),
            "QUOTE" => self.quote = one("quote")?,
            "ESCAPE" => self.escape = one("escape")?,
            _ if matches!(text.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode") => {}
            _ => return Err(not_meant(format!("argument to option \"encoding\" must be UTF8, and is '{text}'"))),
        }
        Ok(())
    }

    /// The options, with what is the usual where nothing was said. Fails if they do not go together.
    fn checked(self) -> Result<CopyOptions, Refused> {
        self.check_format()?;
        let csv = self.format == CopyFormat::Csv;
        let quote = self.quote.unwrap_or(b'"');
        let [force_quote, force_null, force_not_null] = self.forced;
        let options = CopyOptions {
            force_quote,
            force_null,
            force_not_null,
            ignores_errors: self.ignores_errors,
            verbosity: self.verbosity,
            format: self.format,
            delimiter: self.delimiter.unwrap_or(if csv { b',' } else { b'\t' }),
            null: self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() }),
            header: self.header,
            quote,
            escape: self.escape.unwrap_or(quote),
        };
        check_characters(&options)?;
        Ok(options)
    }

    /// Fails if an option is one of another format.
    fn check_format(&self) -> Result<(), Refused> {
        let first = |said: &[(bool, &'static str)]| said.iter().find(|(is_said, _)| *is_said).map(|(_, name)| *name);
        let csv = self.format == CopyFormat::Csv;
        if self.format == CopyFormat::Binary {
            let said = [(self.delimiter.is_some(), "DELIMITER"), (self.null.is_some(), "NULL")];
            if let Some(name) = first(&said) {
                return Err(format!("cannot specify {name} in BINARY mode").into());
            }
            if self.header {
                return Err(not_with("cannot specify HEADER in BINARY mode"));
            }
        }
        let said = [(self.quote.is_some(), "quote"), (self.escape.is_some(), "escape")];
        if let (Some(name), false) = (first(&said), csv) {
            return Err(not_with(format!("COPY {name} available only in CSV mode")));
        }
        let [quote, null, not_null] = self.forced.each_ref().map(|forced| *forced != Forced::None);
        let said = [(quote, "FORCE_QUOTE"), (null, "FORCE_NULL"), (not_null, "FORCE_NOT_NULL")];
        if let (Some(name), false) = (first(&said), csv) {
            return Err(not_with(format!("COPY {name} requires CSV mode")));
        }
        Ok(())
    }
}

/// What an option says that is on or off, if it says so, and where it ends. Fails if it says something else, in the
/// parentheses in which options have values.
fn flag(word: &str, tokens: &[&Token<'_>], at: usize, is_listed: bool) -> Result<(Option<bool>, usize), Refused> {
    let given = match tokens.get(at) {
        Some(Token::Word(value)) => Some(*value),
        Some(Token::Quoted(value, '\'')) => Some(value.as_str()),
        Some(Token::Symbol(number)) if number.starts_with(|digit: char| digit.is_ascii_digit()) => Some(*number),
        _ => None,
    };
    let said = given.and_then(boolean);
    if let (Some(given), None, true) = (given, said, is_listed) {
        if word == "HEADER" && given.eq_ignore_ascii_case("match") {
            return Err(not_with("COPY reads no HEADER match: write HEADER, and name the columns"));
        }
        let also = if word == "HEADER" { " or \"match\"" } else { "" };
        return Err(format!("{} requires a Boolean value{also}", word.to_lowercase()).into());
    }
    Ok((said, at + usize::from(said.is_some())))
}

/// Fails if characters that mean something are each other's, or cannot be told from values.
fn check_characters(options: &CopyOptions) -> Result<(), Refused> {
    let CopyOptions { format, delimiter, null, quote, .. } = options;
    let csv = *format == CopyFormat::Csv;
    if matches!(delimiter, b'\n' | b'\r') {
        return Err(not_meant("COPY delimiter cannot be newline or carriage return"));
    }
    if null.contains(['\n', '\r']) {
        return Err(not_meant("COPY null representation cannot use newline or carriage return"));
    }
    // Each of these has a meaning behind a backslash.
    if *format == CopyFormat::Text
        && (matches!(delimiter, b'\\' | b'.') || delimiter.is_ascii_digit() || delimiter.is_ascii_lowercase())
    {
        return Err(not_meant(format!("COPY delimiter cannot be \"{}\"", char::from(*delimiter))));
    }
    if csv && (matches!(quote, b'\n' | b'\r') || delimiter == quote) {
        return Err(not_meant("COPY delimiter and quote must be different"));
    }
    if *format != CopyFormat::Binary && null.as_bytes().contains(delimiter) {
        return Err(not_with("COPY delimiter must not appear in the NULL specification"));
    }
    if csv && null.as_bytes().contains(quote) {
        return Err(not_with("CSV quote character must not appear in the NULL specification"));
    }
    Ok(())
}
