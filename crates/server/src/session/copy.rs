//! COPY with the client, or with files in the forms that clients get, read: what is copied, and the options.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_db::Session;

use super::tokens::{Placed, Refused, TOKENS_MAX, Token, name, tokens};
use crate::encoding::copy::{Characters, CopyFormat, CopyOptions, Forced, Verbosity};
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
    /// Whether the query changes rows.
    pub writes: bool,
    /// The file of the server that gets them; none if the client does.
    pub file: Option<String>,
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
    /// The file of the server that has them; none if the client sends them.
    pub file: Option<String>,
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

/// The columns that a COPY brings, and their types. Fails with code 42703 or 42P10 if one is not there.
pub(crate) fn copied_into(session: &Session, copy: &CopyIn) -> Result<(Vec<String>, SchemaRef)> {
    let table = session.appendable(copy.schema.as_deref(), &copy.table)?;
    let columns = if copy.columns.is_empty() {
        table.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    } else {
        session.copied_columns(copy.schema.as_deref(), &copy.table, &copy.columns)?
    };
    if let Some((_, name)) = columns.iter().enumerate().find(|(place, name)| columns[..*place].contains(name)) {
        let message = format!("column \"{name}\" specified more than once");
        return Err(Error::input(message).with_code("42701"));
    }
    let fields = columns.iter().map(|name| {
        let field = table.field_with_name(name).ok().cloned();
        field.ok_or_else(|| {
            Error::input(format!("the table '{}' has no column '{name}'", copy.table)).with_code("42703")
        })
    });
    let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
    for (option, forced) in [("FORCE_NULL", &copy.options.force_null), ("FORCE_NOT_NULL", &copy.options.force_not_null)]
    {
        if let Some(name) = forced.stranger(&table) {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", copy.table);
            return Err(Error::input(message).with_code("42703"));
        }
        check_forced(option, forced, &schema)?;
    }
    Ok((columns, schema))
}

/// Fails with 42P10 if an option of COPY names a column that is not copied.
pub(crate) fn check_forced(option: &str, forced: &Forced, schema: &Schema) -> Result<()> {
    match forced.stranger(schema) {
        None => Ok(()),
        Some(name) => {
            Err(Error::input(format!("{option} column \"{name}\" not referenced by COPY")).with_code("42P10"))
        }
    }
}

/// The COPY … FROM STDIN or TO STDOUT that a statement is; `None` of others. Fails with kind `Input` if it cannot be
/// read.
pub(crate) fn with_client(sql: &str) -> Result<Option<CopyStatement>> {
    let tokens = tokens(sql, TOKENS_MAX);
    if !matches!(tokens.first(), Some((Token::Word(first), _)) if first.eq_ignore_ascii_case("COPY")) {
        return Ok(None);
    }
    let side = outside(&tokens, 1, &["TO", "FROM"]).and_then(|direction| tokens.get(direction + 1));
    let is_client = |side: &str| side.eq_ignore_ascii_case("STDIN") || side.eq_ignore_ascii_case("STDOUT");
    if !matches!(side, Some((Token::Word(side), _)) if is_client(side)) {
        return Ok(None);
    }
    copy(sql, &tokens).map_err(|refused| Error::input(refused.message).with_code(refused.code))
}

/// The COPY between a table and a file in a form that clients get, and the file's name; `None` of other statements,
/// also of those with files in other formats. Fails with kind `Input` if it cannot be read.
pub(crate) fn with_file(sql: &str) -> Result<Option<(CopyStatement, String)>> {
    let tokens = tokens(sql, TOKENS_MAX);
    if !matches!(tokens.first(), Some((Token::Word(first), _)) if first.eq_ignore_ascii_case("COPY")) {
        return Ok(None);
    }
    let found = copy(sql, &tokens).map_err(|refused| Error::input(refused.message).with_code(refused.code))?;
    Ok(found.and_then(|copy| {
        let file = match &copy {
            CopyStatement::Out(CopyOut { file, .. }) => file.clone(),
            CopyStatement::In(CopyIn { file, .. }) => file.clone(),
        };
        Some((copy, file?))
    }))
}

/// An option of COPY that is none of what is meant there.
fn not_meant(message: impl Into<String>) -> Refused {
    Refused { message: message.into(), code: "22023" }
}

/// An option of COPY that does not go with others.
fn not_with(message: impl Into<String>) -> Refused {
    Refused { message: message.into(), code: "0A000" }
}

/// COPY; `None` if it is one with files that the engine reads and writes. Fails if it cannot be read.
pub(super) fn copy(sql: &str, tokens: &[Placed<'_>]) -> Result<Option<CopyStatement>, Refused> {
    let symbol =
        |at: usize, wanted: &str| matches!(tokens.get(at), Some((Token::Symbol(found), _)) if *found == wanted);
    let is_word = |at: usize, wanted: &str| matches!(tokens.get(at), Some((Token::Word(found), _)) if found.eq_ignore_ascii_case(wanted));
    // Where the source ends.
    let Some(direction) = outside(tokens, 1, &["TO", "FROM"]) else { return Ok(None) };
    let is_from = is_word(direction, "FROM");
    let end = outside(tokens, direction + 2, &["WHERE"]).unwrap_or(tokens.len());
    let file = match tokens.get(direction + 1) {
        Some((Token::Quoted(path, '\''), _)) if is_as_with_clients(path, &tokens[direction + 2..end], is_from) => {
            Some(path.clone())
        }
        _ if is_word(direction + 1, "STDIN") || is_word(direction + 1, "STDOUT") => None,
        _ => return Ok(None),
    };
    // Which of the rows: behind the options.
    let condition = outside(tokens, direction + 2, &["WHERE"]);
    let by_name = file.as_deref().map(SaidOptions::of_file).unwrap_or_default();
    let options = copy_options(&tokens[direction + 2..condition.unwrap_or(tokens.len())], by_name)?;
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
        let writes = changes_rows(&tokens[2..direction - 1])?;
        let (query, table) = (Some(inside), Default::default());
        return Ok(Some(CopyStatement::Out(CopyOut { query, table, options, writes, file })));
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
        true => CopyStatement::In(CopyIn { schema, table, columns, options, condition, file }),
        false => {
            let (query, table) = (None, (schema, table, columns));
            CopyStatement::Out(CopyOut { query, table, options, writes: false, file })
        }
    }))
}

/// Whether a file has the form that clients send and get: text or binary, or, if it is read, CSV with what only
/// PostgreSQL says of it. The engine writes CSV in all its forms.
fn is_as_with_clients(path: &str, options: &[Placed<'_>], is_from: bool) -> bool {
    const SAY_SO: [&str; 6] = ["FORCE", "FORCE_QUOTE", "FORCE_NULL", "FORCE_NOT_NULL", "ON_ERROR", "LOG_VERBOSITY"];
    let says_so = |word: &str| is_from && SAY_SO.iter().any(|known| word.eq_ignore_ascii_case(known));
    let (mut says_form, mut is_listed) = (false, false);
    for (at, (token, _)) in options.iter().enumerate() {
        let value = match options.get(at + 1) {
            Some((Token::Word(value), _)) => value,
            Some((Token::Quoted(value, _), _)) => value.as_str(),
            _ => "",
        };
        match token {
            Token::Symbol("(") => is_listed = true,
            Token::Word(word) if says_so(word) => return true,
            Token::Word(word) if word.eq_ignore_ascii_case("FORMAT") => {
                says_form = true;
                if ["text", "binary"].iter().any(|form| value.eq_ignore_ascii_case(form)) {
                    return true;
                }
            }
            Token::Word(word) if !is_listed && word.eq_ignore_ascii_case("BINARY") => return true,
            Token::Word(word) if word.eq_ignore_ascii_case("CSV") => says_form = true,
            _ => {}
        }
    }
    let is_text = || [".txt", ".dat"].iter().any(|ending| path.to_ascii_lowercase().ends_with(ending));
    is_from && !says_form && is_text()
}

/// Whether the query of a COPY is a statement that changes rows. Fails with 0A000 if it is one that gives none.
fn changes_rows(tokens: &[Placed<'_>]) -> Result<bool, Refused> {
    let first = match tokens.first() {
        Some((Token::Word(word), _)) => word.to_ascii_uppercase(),
        _ => return Ok(false),
    };
    match first.as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => match outside(tokens, 1, &["RETURNING"]) {
            Some(_) => Ok(true),
            None => Err(not_with("COPY query must have a RETURNING clause")),
        },
        // What is behind it may change rows, too.
        "WITH" => {
            let changes = ["INSERT", "UPDATE", "DELETE", "MERGE"];
            let is_change = |token: &Token<'_>| match token {
                Token::Word(word) => changes.iter().any(|change| word.eq_ignore_ascii_case(change)),
                _ => false,
            };
            let outer = outside(tokens, 1, &changes).is_some() && outside(tokens, 1, &["RETURNING"]).is_none();
            if outer && outside(tokens, 1, &["SELECT", "VALUES", "TABLE"]).is_none() {
                return Err(not_with("COPY query must have a RETURNING clause"));
            }
            Ok(tokens.iter().any(|(token, _)| is_change(token)))
        }
        _ => Ok(false),
    }
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
    if !is_from && options.header_matches {
        return Err(not_with("cannot use \"match\" with HEADER in COPY TO"));
    }
    if !is_from && options.characters != Characters::Utf8 {
        return Err(not_with("COPY TO writes UTF8 only: leave out ENCODING"));
    }
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

fn copy_options(tokens: &[Placed<'_>], mut said: SaidOptions) -> Result<CopyOptions, Refused> {
    let tokens = tokens.iter().map(|(token, _)| token).collect::<Vec<_>>();
    let is_with = |token: &Token<'_>| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("WITH"));
    let is_listed = matches!(tokens.iter().find(|token| !is_with(token)), Some(Token::Symbol("(")));
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
        // DuckDB has other names for some.
        let word = match word.to_ascii_uppercase() {
            word if matches!(word.as_str(), "DELIM" | "SEP") => "DELIMITER".to_owned(),
            word if word == "NULLSTR" => "NULL".to_owned(),
            word => word,
        };
        at = said.read(&word, &tokens, at, is_listed)?;
    }
    said.checked()
}

/// What the options of a COPY have said so far.
#[derive(Default)]
struct SaidOptions {
    /// Options that may be said once.
    names: Vec<String>,
    format: CopyFormat,
    /// What is between the fields of CSV where nothing is said.
    usual_delimiter: Option<u8>,
    delimiter: Option<u8>,
    null: Option<String>,
    header: bool,
    header_matches: bool,
    characters: Characters,
    quote: Option<u8>,
    escape: Option<u8>,
    /// FORCE_QUOTE, FORCE_NULL, FORCE_NOT_NULL.
    forced: [Forced; 3],
    ignores_errors: bool,
    verbosity: Verbosity,
}

impl SaidOptions {
    /// What the name of a file says.
    fn of_file(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let endings = [(".csv", b','), (".tsv", b'\t'), (".tab", b'\t'), (".psv", b'|')];
        match endings.iter().find(|(ending, _)| name.ends_with(ending)) {
            Some((_, delimiter)) => {
                Self { format: CopyFormat::Csv, usual_delimiter: Some(*delimiter), ..Self::default() }
            }
            None => Self::default(),
        }
    }

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
            "HEADER" if is_match(tokens.get(at)) => {
                (self.header, self.header_matches) = (true, true);
                Ok(at + 1)
            }
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
            _ => {
                self.characters = Characters::named(text).ok_or_else(|| {
                    let known = "UTF8, LATIN1 or WIN1252";
                    not_meant(format!("argument to option \"encoding\" must be {known}, and is '{text}'"))
                })?;
            }
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
            delimiter: self.delimiter.unwrap_or(if csv { self.usual_delimiter.unwrap_or(b',') } else { b'\t' }),
            null: self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() }),
            header: self.header,
            header_matches: self.header_matches,
            characters: self.characters,
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

/// Whether HEADER is to have the columns' names.
fn is_match(token: Option<&&Token<'_>>) -> bool {
    match token {
        Some(Token::Word(word)) => word.eq_ignore_ascii_case("match"),
        Some(Token::Quoted(word, '\'')) => word.eq_ignore_ascii_case("match"),
        _ => false,
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
    if let (Some(_), None, true) = (given, said, is_listed) {
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
