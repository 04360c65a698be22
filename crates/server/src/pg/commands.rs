//! Statements that the session answers itself: transactions, the client's settings, cursors, COPY with the client.
//!
//! They are told by their first words. What is none of them, or is written in a way that is not known here, goes to the
//! planner, which says what is wrong with it.

use diligence_db::{CursorWay, Isolation};

use crate::encoding::copy::{CopyFormat, CopyOptions, Forced, Verbosity};

/// A token of a statement: enough to tell these few statements.
#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    /// A word as it is written.
    Word(&'a str),
    /// A word in double quotes, or a text in single quotes.
    Quoted(String, char),
    /// Anything else, character by character; numbers are one.
    Symbol(&'a str),
}

/// A statement for the session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// BEGIN, START TRANSACTION.
    Begin(TransactionMode),
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// COMMIT AND CHAIN and ROLLBACK AND CHAIN: another one like it begins.
    Chain {
        /// Whether its changes stay.
        commits: bool,
    },
    /// SAVEPOINT name.
    Savepoint(String),
    /// RELEASE SAVEPOINT name.
    Release(String),
    /// ROLLBACK TO SAVEPOINT name.
    RollbackTo(String),
    /// SET name = value.
    Set(String, String, Lasts),
    /// SET name = DEFAULT, RESET name.
    Reset(String, Lasts),
    /// RESET ALL.
    ResetAll,
    /// SHOW name.
    Show(String),
    /// SET TRANSACTION.
    SetTransaction(TransactionMode),
    /// SET SESSION CHARACTERISTICS: what transactions are from now on.
    SetTransactions(TransactionMode),
    /// DISCARD ALL and its parts.
    Discard,
    /// DEALLOCATE; all if `None`.
    Deallocate(Option<String>),
    /// CLOSE; all if `None`.
    Close(Option<String>),
    /// DECLARE name CURSOR FOR a query.
    Declare(Declared),
    /// FETCH a number of rows from a cursor; all if `None`.
    Fetch(CursorWay, String),
    /// MOVE: as FETCH, without the rows.
    Move(CursorWay, String),
    /// UNLISTEN: nothing was listened to.
    Unlisten,
    /// COPY … TO STDOUT.
    CopyOut(CopyOut),
    /// COPY … FROM STDIN.
    CopyIn(CopyIn),
}

/// What a statement says of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionMode {
    /// What it sees of others.
    pub isolation: Option<Isolation>,
    /// READ WRITE or READ ONLY.
    pub writes: Option<bool>,
}

/// How long what SET says lasts, if the block that it is in does not roll back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// As long as the session: SET, RESET.
    Session,
    /// As long as the block: SET LOCAL.
    Block,
}

/// DECLARE of a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it reads.
    pub query: String,
    /// The whole statement.
    pub statement: String,
    /// Whether it goes back.
    pub is_scroll: bool,
    /// Whether it outlives its transaction.
    pub is_holdable: bool,
    /// Whether its rows are sent in binary form.
    pub is_binary: bool,
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

/// Why a statement of the session cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// What is wrong.
    pub message: String,
    /// The SQLSTATE.
    pub code: &'static str,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self { message, code: "42601" }
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
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

/// The statement for the session, if it is one. Fails if it cannot be read.
pub fn command(sql: &str) -> Result<Option<Command>, Refused> {
    let tokens = tokens(sql, TOKENS_MAX);
    let word = |index: usize| match tokens.get(index) {
        Some((Token::Word(word), _)) => word.to_ascii_uppercase(),
        _ => String::new(),
    };
    let (first, second, third) = (word(0), word(1), word(2));
    let count = tokens.iter().filter(|(token, _)| *token != Token::Symbol(";")).count();
    Ok(Some(match (first.as_str(), second.as_str(), third.as_str()) {
        ("BEGIN", ..) | ("START", "TRANSACTION", _) => Command::Begin(mode(&tokens)),
        ("COMMIT", "PREPARED", _) | ("ROLLBACK", "PREPARED", _) => return Ok(None),
        ("COMMIT" | "END", ..) if chains(&tokens) => Command::Chain { commits: true },
        ("COMMIT", ..) | ("END", ..) => Command::Commit,
        ("ROLLBACK", "TO", _) => Command::RollbackTo(savepoint(&tokens, 2)?),
        ("ROLLBACK", "TRANSACTION" | "WORK", "TO") => Command::RollbackTo(savepoint(&tokens, 3)?),
        ("ROLLBACK" | "ABORT", ..) if chains(&tokens) => Command::Chain { commits: false },
        ("ROLLBACK", ..) | ("ABORT", ..) => Command::Rollback,
        ("SAVEPOINT", ..) => Command::Savepoint(name(&tokens, 1)?),
        ("RELEASE", ..) => Command::Release(savepoint(&tokens, 1)?),
        ("SET", "TRANSACTION", _) => Command::SetTransaction(mode(&tokens)),
        ("SET", "SESSION", "CHARACTERISTICS") => Command::SetTransactions(mode(&tokens)),
        // DuckDB's variables are the engine's, and so is what references wait for.
        ("SET" | "RESET", "VARIABLE", _) | ("SET", "CONSTRAINTS", _) => return Ok(None),
        // The role is the one that has logged in.
        ("SET" | "RESET", "ROLE", _) | ("SET" | "RESET", "SESSION", "AUTHORIZATION") => return Ok(None),
        ("SET", ..) => return Ok(set(&tokens)),
        ("RESET", "ALL", _) => Command::ResetAll,
        ("RESET", ..) if count >= 2 => Command::Reset(setting_name(&tokens[1..]), Lasts::Session),
        ("SHOW", "ALL" | "TABLES" | "COLUMNS" | "FUNCTIONS", _) => return Ok(None),
        ("SHOW", ..) if count >= 2 => Command::Show(setting_name(&tokens[1..])),
        ("DISCARD", ..) => Command::Discard,
        ("DEALLOCATE", ..) => {
            let at = if second == "PREPARE" { 2 } else { 1 };
            Command::Deallocate(if word(at) == "ALL" { None } else { Some(name(&tokens, at)?) })
        }
        ("CLOSE", "ALL", _) => Command::Close(None),
        ("CLOSE", ..) => Command::Close(Some(name(&tokens, 1)?)),
        ("DECLARE", ..) => return Ok(declare(sql, &tokens)?),
        ("FETCH", ..) => return Ok(fetch(&tokens).map(|(way, name)| Some(Command::Fetch(way, name)))?),
        ("MOVE", ..) => return Ok(fetch(&tokens).map(|(way, name)| Some(Command::Move(way, name)))?),
        ("UNLISTEN", ..) => Command::Unlisten,
        ("COPY", ..) => return copy(sql, &tokens),
        _ => return Ok(None),
    }))
}

/// Tokens that are looked at: a COPY names up to some thousand columns.
const TOKENS_MAX: usize = 20_000;

type Placed<'a> = (Token<'a>, usize);

/// Tokens with the places where they begin. Stops early at statements that are none of ours.
fn tokens(sql: &str, most: usize) -> Vec<Placed<'_>> {
    const FIRST: [&str; 21] = [
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "RESET",
        "SHOW",
        "DISCARD",
        "DEALLOCATE",
        "CLOSE",
        "DECLARE",
        "FETCH",
        "MOVE",
        "UNLISTEN",
        "COPY",
        "LISTEN",
        "NOTIFY",
    ];
    let mut found: Vec<Placed<'_>> = Vec::new();
    let mut at = 0;
    while let Some(character) = sql[at..].chars().next() {
        if found.len() >= most {
            break;
        }
        if let [(Token::Word(first), _)] = found.as_slice()
            && !FIRST.iter().any(|known| known.eq_ignore_ascii_case(first))
        {
            break;
        }
        let rest = &sql[at..];
        if character.is_whitespace() {
            at += character.len_utf8();
        } else if rest.starts_with("--") {
            at += rest.find('\n').map_or(rest.len(), |end| end + 1);
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if character == '\'' || character == '"' {
            let (text, length) = quoted(rest, character, false);
            found.push((Token::Quoted(text, character), at));
            at += length;
        } else if matches!(character, 'e' | 'E') && rest[1..].starts_with('\'') {
            let (text, length) = quoted(&rest[1..], '\'', true);
            found.push((Token::Quoted(text, '\''), at));
            at += 1 + length;
        } else if character.is_alphabetic() || character == '_' {
            let end = rest.find(|other: char| !other.is_alphanumeric() && other != '_' && other != '$');
            let end = end.unwrap_or(rest.len());
            found.push((Token::Word(&rest[..end]), at));
            at += end;
        } else if character.is_ascii_digit() {
            let end = rest.find(|other: char| !other.is_ascii_alphanumeric() && other != '.').unwrap_or(rest.len());
            found.push((Token::Symbol(&rest[..end]), at));
            at += end;
        } else {
            let end = character.len_utf8();
            found.push((Token::Symbol(&rest[..end]), at));
            at += end;
        }
    }
    found
}

/// What is in the quotes, and how many bytes that is with them. With `escapes`, as in E'…'.
fn quoted(text: &str, quote: char, escapes: bool) -> (String, usize) {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((place, character)) = characters.next() {
        if escapes && character == '\\' {
            match characters.next() {
                Some((_, 't')) => value.push('\t'),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 'b')) => value.push('\u{8}'),
                Some((_, other)) => value.push(other),
                None => break,
            }
        } else if character != quote {
            value.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return (value, place + quote.len_utf8());
        }
    }
    (value, text.len())
}

fn name(tokens: &[Placed<'_>], at: usize) -> Result<String, String> {
    match tokens.get(at) {
        Some((Token::Word(word), _)) => Ok(word.to_lowercase()),
        Some((Token::Quoted(text, '"'), _)) => Ok(text.clone()),
        _ => Err("expected a name".to_owned()),
    }
}

/// What the words behind BEGIN or SET TRANSACTION say.
fn mode(tokens: &[Placed<'_>]) -> TransactionMode {
    let words = tokens.iter().filter_map(|(token, _)| match token {
        Token::Word(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    });
    let words = words.collect::<Vec<_>>();
    let mut mode = TransactionMode::default();
    for pair in words.windows(2) {
        match (pair[0].as_str(), pair[1].as_str()) {
            ("READ", "ONLY") => mode.writes = Some(false),
            ("READ", "WRITE") => mode.writes = Some(true),
            ("READ", "COMMITTED" | "UNCOMMITTED") => mode.isolation = Some(Isolation::ReadCommitted),
            ("REPEATABLE", "READ") => mode.isolation = Some(Isolation::RepeatableRead),
            ("LEVEL", "SERIALIZABLE") => mode.isolation = Some(Isolation::Serializable),
            _ => {}
        }
    }
    mode
}

/// Whether COMMIT or ROLLBACK ends with AND CHAIN.
fn chains(tokens: &[Placed<'_>]) -> bool {
    let words = tokens.iter().filter_map(|(token, _)| match token {
        Token::Word(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    });
    let words = words.skip(1).filter(|word| !matches!(word.as_str(), "WORK" | "TRANSACTION")).collect::<Vec<_>>();
    words == ["AND", "CHAIN"]
}

/// A name, with or without SAVEPOINT before it.
fn savepoint(tokens: &[Placed<'_>], at: usize) -> Result<String, String> {
    let is_word = matches!(tokens.get(at), Some((Token::Word(word), _)) if word.eq_ignore_ascii_case("SAVEPOINT"));
    name(tokens, if is_word { at + 1 } else { at })
}

/// `a.b`, `time zone`, `transaction isolation level`.
fn setting_name(tokens: &[Placed<'_>]) -> String {
    let mut name = String::new();
    for (token, _) in tokens {
        match token {
            Token::Word(word) => {
                if !name.is_empty() && !name.ends_with('.') {
                    name.push('_');
                }
                name.push_str(&word.to_lowercase());
            }
            Token::Quoted(text, '"') => name.push_str(text),
            Token::Symbol(".") => name.push('.'),
            _ => break,
        }
    }
    match name.as_str() {
        "time_zone" => "timezone".to_owned(),
        "transaction_isolation_level" => "transaction_isolation".to_owned(),
        "session_authorization" => "session_authorization".to_owned(),
        _ => name,
    }
}

fn set(tokens: &[Placed<'_>]) -> Option<Command> {
    let is =
        |token: &Placed<'_>, word: &str| matches!(&token.0, Token::Word(found) if found.eq_ignore_ascii_case(word));
    let mut at = 1;
    let lasts = if tokens.get(at).is_some_and(|token| is(token, "LOCAL")) { Lasts::Block } else { Lasts::Session };
    if lasts == Lasts::Block || tokens.get(at).is_some_and(|token| is(token, "SESSION")) {
        at += 1;
    }
    let (name, values) = if tokens.get(at).is_some_and(|token| is(token, "TIME"))
        && tokens.get(at + 1).is_some_and(|token| is(token, "ZONE"))
    {
        ("timezone".to_owned(), &tokens[at + 2..])
    } else if tokens.get(at).is_some_and(|token| is(token, "NAMES")) {
        ("client_encoding".to_owned(), &tokens[at + 1..])
    } else {
        let sign = tokens.iter().position(|token| token.0 == Token::Symbol("=") || is(token, "TO"))?;
        (setting_name(tokens.get(at..sign)?), &tokens[sign + 1..])
    };
    let mut value = String::new();
    for (token, _) in values.iter().filter(|(token, _)| *token != Token::Symbol(";")) {
        let part = match token {
            Token::Word(word) => (*word).to_owned(),
            Token::Quoted(text, _) => text.clone(),
            Token::Symbol(",") => ", ".to_owned(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
        };
        value.push_str(&part);
    }
    if name.is_empty() || values.is_empty() {
        return None;
    }
    if value.eq_ignore_ascii_case("default") {
        return Some(Command::Reset(name, lasts));
    }
    Some(Command::Set(name, value, lasts))
}

fn declare(sql: &str, tokens: &[Placed<'_>]) -> Result<Option<Command>, String> {
    let is = |token: &Token<'_>, word: &str| matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word));
    let mut declared = Declared { name: name(tokens, 1)?, statement: sql.trim().to_owned(), ..Declared::default() };
    let place = tokens.iter().skip(2).position(|(token, _)| is(token, "FOR")).ok_or("expected FOR and a query")?;
    let between = &tokens[2..2 + place];
    let before = |at: usize, word: &str| at > 0 && is(&between[at - 1].0, word);
    for (at, (token, _)) in between.iter().enumerate() {
        if is(token, "SCROLL") {
            declared.is_scroll = !before(at, "NO");
        } else if is(token, "HOLD") {
            declared.is_holdable = before(at, "WITH");
        } else if is(token, "BINARY") {
            declared.is_binary = true;
        } else if !["NO", "WITH", "WITHOUT", "CURSOR", "INSENSITIVE", "ASENSITIVE"].iter().any(|word| is(token, word)) {
            return Err(
                "expected DECLARE name [BINARY] [INSENSITIVE] [NO SCROLL] CURSOR [WITH HOLD] FOR query".to_owned()
            );
        }
    }
    declared.query = sql[tokens[2 + place].1 + 3..].trim().to_owned();
    Ok(Some(Command::Declare(declared)))
}

/// Where which cursor goes.
fn fetch(tokens: &[Placed<'_>]) -> Result<(CursorWay, String), String> {
    let word = |at: usize| match tokens.get(at) {
        Some((Token::Word(word), _)) => word.to_ascii_uppercase(),
        _ => String::new(),
    };
    // A number, and where what follows it begins.
    let number = |at: usize| -> Result<Option<(i64, usize)>, String> {
        let symbol = |at: usize| match tokens.get(at) {
            Some((Token::Symbol(symbol), _)) => Some(*symbol),
            _ => None,
        };
        let (sign, at) = match symbol(at) {
            Some("-") => (-1, at + 1),
            Some("+") => (1, at + 1),
            _ => (1, at),
        };
        let Some(digits) = symbol(at).filter(|symbol| *symbol != ";") else { return Ok(None) };
        let number: i64 = digits.parse().map_err(|_| "expected a number of rows".to_owned())?;
        Ok(Some((sign * number, at + 1)))
    };
    let wanted = |at: usize| number(at)?.ok_or_else(|| "expected a number".to_owned());
    let counted = |at: usize, sign: i64, all: CursorWay| -> Result<(CursorWay, usize), String> {
        if word(at) == "ALL" {
            return Ok((all, at + 1));
        }
        let (count, at) = number(at)?.unwrap_or((1, at));
        Ok((CursorWay::By(sign * count), at))
    };
    let (way, mut at) = match word(1).as_str() {
        "NEXT" => (CursorWay::By(1), 2),
        "PRIOR" => (CursorWay::By(-1), 2),
        "FIRST" => (CursorWay::To(1), 2),
        "LAST" => (CursorWay::To(-1), 2),
        "ABSOLUTE" => wanted(2).map(|(to, at)| (CursorWay::To(to), at))?,
        "RELATIVE" => wanted(2).map(|(by, at)| (CursorWay::Relative(by), at))?,
        "BACKWARD" => counted(2, -1, CursorWay::AllBackward)?,
        "FORWARD" => counted(2, 1, CursorWay::All)?,
        _ => counted(1, 1, CursorWay::All)?,
    };
    if matches!(word(at).as_str(), "FROM" | "IN") {
        at += 1;
    }
    name(tokens, at).map(|name| (way, name)).map_err(|_| "expected the name of a cursor".to_owned())
}

fn copy(sql: &str, tokens: &[Placed<'_>]) -> Result<Option<Command>, Refused> {
    let is = |at: usize, word: &str| matches!(tokens.get(at), Some((Token::Word(found), _)) if found.eq_ignore_ascii_case(word));
    let symbol =
        |at: usize, wanted: &str| matches!(tokens.get(at), Some((Token::Symbol(found), _)) if *found == wanted);
    // Where the source ends: TO or FROM outside of parentheses.
    let mut depth = 0;
    let mut direction = None;
    for (at, (token, _)) in tokens.iter().enumerate().skip(1) {
        match token {
            Token::Symbol("(") => depth += 1,
            Token::Symbol(")") => depth -= 1,
            Token::Word(word)
                if depth == 0 && (word.eq_ignore_ascii_case("TO") || word.eq_ignore_ascii_case("FROM")) =>
            {
                direction = Some(at);
                break;
            }
            _ => {}
        }
    }
    let Some(direction) = direction else { return Ok(None) };
    if !is(direction + 1, "STDIN") && !is(direction + 1, "STDOUT") {
        return Ok(None);
    }
    // Which of the rows: behind the options, outside of parentheses.
    let mut depth = 0;
    let mut condition = None;
    for (at, (token, _)) in tokens.iter().enumerate().skip(direction + 2) {
        match token {
            Token::Symbol("(") => depth += 1,
            Token::Symbol(")") => depth -= 1,
            Token::Word(word) if depth == 0 && word.eq_ignore_ascii_case("WHERE") => {
                condition = Some(at);
                break;
            }
            _ => {}
        }
    }
    let options = copy_options(&tokens[direction + 2..condition.unwrap_or(tokens.len())])?;
    if condition.is_some() && !is(direction, "FROM") {
        return Err("WHERE clause not allowed with COPY TO".into());
    }
    let refused = [
        (options.force_quote != Forced::None && is(direction, "FROM"), "FORCE_QUOTE only available using COPY TO"),
        (options.force_null != Forced::None && is(direction, "TO"), "FORCE_NULL only available using COPY FROM"),
        (
            options.force_not_null != Forced::None && is(direction, "TO"),
            "FORCE_NOT_NULL only available using COPY FROM",
        ),
        (options.ignores_errors && is(direction, "TO"), "ON_ERROR only available using COPY FROM"),
    ];
    if let Some((_, message)) = refused.iter().find(|(is_refused, _)| *is_refused) {
        return Err(not_with(format!("COPY {message}")));
    }
    let condition = condition.map(|at| {
        let from = tokens[at].1 + "WHERE".len();
        sql[from..].trim().trim_end_matches(';').trim_end().to_owned()
    });
    if symbol(1, "(") {
        if is(direction, "FROM") {
            return Err("COPY FROM needs a table".into());
        }
        let inside = sql[tokens[1].1 + 1..tokens[direction - 1].1].trim().to_owned();
        return Ok(Some(Command::CopyOut(CopyOut { query: Some(inside), table: Default::default(), options })));
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
    if is(direction, "FROM") {
        return Ok(Some(Command::CopyIn(CopyIn { schema, table, columns, options, condition })));
    }
    Ok(Some(Command::CopyOut(CopyOut { query: None, table: (schema, table, columns), options })))
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
    let mut format = CopyFormat::Text;
    let mut said = Vec::new();
    let (mut delimiter, mut null, mut header, mut quote, mut escape) = (None, None, false, None, None);
    let tokens = tokens.iter().map(|(token, _)| token).collect::<Vec<_>>();
    let mut forced = [Forced::None, Forced::None, Forced::None];
    let (mut ignores_errors, mut verbosity) = (false, Verbosity::Default);
    let text = |at: usize| match tokens.get(at) {
        Some(Token::Quoted(text, '\'')) => Some(text.clone()),
        _ => None,
    };
    let one = |text: String, what: &str| match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(not_with(format!("COPY {what} must be a single one-byte character"))),
    };
    let is_with = |token: &Token<'_>| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("WITH"));
    let is_listed = matches!(tokens.iter().find(|token| !is_with(token)), Some(Token::Symbol("(")));
    let mut at = 0;
    while at < tokens.len() {
        if matches!(tokens[at], Token::Symbol("(" | ")" | "," | ";")) {
            at += 1;
            continue;
        }
        let Token::Word(word) = tokens[at] else { return Err("expected an option of COPY".into()) };
        let word = word.to_ascii_uppercase();
        at += 1;
        if matches!(tokens.get(at), Some(Token::Word(filler)) if filler.eq_ignore_ascii_case("AS")) {
            at += 1;
        }
        // Those that say the same twice, or one thing and another.
        let meant = match word.as_str() {
            "CSV" | "BINARY" => Some("FORMAT"),
            "DELIMITERS" => Some("DELIMITER"),
            "WITH" | "FORCE" => None,
            other => Some(other),
        };
        if let Some(meant) = meant {
            if said.iter().any(|known| *known == meant) {
                return Err("conflicting or redundant options".into());
            }
            said.push(meant.to_owned());
        }
        match word.as_str() {
            "WITH" => {}
            "FORMAT" => {
                let name = match tokens.get(at) {
                    Some(Token::Word(name)) => name.to_ascii_lowercase(),
                    Some(Token::Quoted(name, _)) => name.to_ascii_lowercase(),
                    _ => String::new(),
                };
                format = match name.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    _ => return Err(not_meant(format!("COPY format \"{name}\" not recognized"))),
                };
                at += 1;
            }
            "FORCE" | "FORCE_QUOTE" | "FORCE_NULL" | "FORCE_NOT_NULL" => {
                let is = |at: usize, wanted: &str| match tokens.get(at) {
                    Some(Token::Word(word)) => word.eq_ignore_ascii_case(wanted),
                    _ => false,
                };
                // What PostgreSQL had before there were parentheses has blanks in place of underscores.
                let which = match word.as_str() {
                    "FORCE_QUOTE" => 0,
                    "FORCE_NULL" => 1,
                    "FORCE_NOT_NULL" => 2,
                    _ if is(at, "QUOTE") => 0,
                    _ if is(at, "NULL") => 1,
                    _ if is(at, "NOT") && is(at + 1, "NULL") => 2,
                    _ => return Err("expected QUOTE, NULL or NOT NULL behind FORCE".into()),
                };
                if word == "FORCE" {
                    at += if which == 2 { 2 } else { 1 };
                }
                (forced[which], at) = forced_columns(&tokens, at)?;
            }
            "ON_ERROR" => {
                let name = match tokens.get(at) {
                    Some(Token::Word(name)) => name.to_ascii_lowercase(),
                    Some(Token::Quoted(name, _)) => name.to_ascii_lowercase(),
                    _ => String::new(),
                };
                at += 1;
                ignores_errors = match name.as_str() {
                    "stop" => false,
                    "ignore" => true,
                    _ => return Err(not_meant(format!("COPY ON_ERROR \"{name}\" not recognized"))),
                };
            }
            "LOG_VERBOSITY" => {
                let name = match tokens.get(at) {
                    Some(Token::Word(name)) => name.to_ascii_lowercase(),
                    Some(Token::Quoted(name, _)) => name.to_ascii_lowercase(),
                    _ => String::new(),
                };
                at += 1;
                verbosity = match name.as_str() {
                    "silent" => Verbosity::Silent,
                    "default" => Verbosity::Default,
                    "verbose" => Verbosity::Verbose,
                    _ => return Err(not_meant(format!("COPY LOG_VERBOSITY \"{name}\" not recognized"))),
                };
            }
            "CSV" => format = CopyFormat::Csv,
            "BINARY" => format = CopyFormat::Binary,
            "HEADER" | "FREEZE" => {
                let given = match tokens.get(at) {
                    Some(Token::Word(value)) => Some((*value).to_owned()),
                    Some(Token::Quoted(value, '\'')) => Some(value.clone()),
                    Some(Token::Symbol(number)) if number.starts_with(|digit: char| digit.is_ascii_digit()) => {
                        Some((*number).to_owned())
                    }
                    _ => None,
                };
                let said = given.as_deref().and_then(crate::encoding::parameters::boolean);
                if let (Some(given), true) = (&given, is_listed) {
                    if said.is_none() && word == "HEADER" && given.eq_ignore_ascii_case("match") {
                        return Err(not_with("COPY reads no HEADER match: write HEADER, and name the columns"));
                    }
                    if said.is_none() {
                        let also = if word == "HEADER" { " or \"match\"" } else { "" };
                        return Err(format!("{} requires a Boolean value{also}", word.to_lowercase()).into());
                    }
                }
                at += usize::from(said.is_some());
                // Rows of this system are always as PostgreSQL's are when they are frozen.
                if word == "HEADER" {
                    header = said.unwrap_or(true);
                }
            }
            "DELIMITER" | "DELIMITERS" | "NULL" | "QUOTE" | "ESCAPE" | "ENCODING" => {
                let value = text(at).ok_or_else(|| format!("{} requires a text in quotes", word.to_lowercase()))?;
                at += 1;
                match word.as_str() {
                    "DELIMITER" | "DELIMITERS" => delimiter = Some(one(value, "delimiter")?),
                    "NULL" => null = Some(value),
                    "QUOTE" => quote = Some(one(value, "quote")?),
                    "ESCAPE" => escape = Some(one(value, "escape")?),
                    _ if matches!(value.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode") => {}
                    _ => {
                        let message = format!("argument to option \"encoding\" must be UTF8, and is '{value}'");
                        return Err(not_meant(message));
                    }
                }
            }
            _ => return Err(format!("option \"{}\" not recognized", word.to_lowercase()).into()),
        }
    }
    let csv = format == CopyFormat::Csv;
    if format == CopyFormat::Binary {
        let is_said = [delimiter.is_some(), null.is_some()];
        if let Some((_, name)) = is_said.into_iter().zip(["DELIMITER", "NULL"]).find(|(is_said, _)| *is_said) {
            return Err(format!("cannot specify {name} in BINARY mode").into());
        }
        if header {
            return Err(not_with("cannot specify HEADER in BINARY mode"));
        }
    }
    let is_said = [quote.is_some(), escape.is_some()];
    if let (Some((_, name)), false) = (is_said.into_iter().zip(["quote", "escape"]).find(|(is_said, _)| *is_said), csv)
    {
        return Err(not_with(format!("COPY {name} available only in CSV mode")));
    }
    let quote = quote.unwrap_or(b'"');
    let names = ["FORCE_QUOTE", "FORCE_NULL", "FORCE_NOT_NULL"];
    if let Some((_, name)) = forced.iter().zip(names).find(|(forced, _)| **forced != Forced::None && !csv) {
        return Err(not_with(format!("COPY {name} requires CSV mode")));
    }
    let [force_quote, force_null, force_not_null] = forced;
    let delimiter = delimiter.unwrap_or(if csv { b',' } else { b'\t' });
    let null = null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() });
    if matches!(delimiter, b'\n' | b'\r') {
        return Err(not_meant("COPY delimiter cannot be newline or carriage return"));
    }
    if null.contains(['\n', '\r']) {
        return Err(not_meant("COPY null representation cannot use newline or carriage return"));
    }
    // Each of these has a meaning behind a backslash.
    if format == CopyFormat::Text
        && (delimiter == b'\\' || delimiter == b'.' || delimiter.is_ascii_digit() || delimiter.is_ascii_lowercase())
    {
        return Err(not_meant(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
    }
    if csv && (matches!(quote, b'\n' | b'\r') || delimiter == quote) {
        return Err(not_meant("COPY delimiter and quote must be different"));
    }
    if format != CopyFormat::Binary && null.as_bytes().contains(&delimiter) {
        return Err(not_with("COPY delimiter must not appear in the NULL specification"));
    }
    if csv && null.as_bytes().contains(&quote) {
        return Err(not_with("CSV quote character must not appear in the NULL specification"));
    }
    Ok(CopyOptions {
        force_quote,
        force_null,
        force_not_null,
        ignores_errors,
        verbosity,
        format,
        delimiter,
        null,
        header,
        quote,
        escape: escape.unwrap_or(quote),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sql: &str) -> Command {
        command(sql).unwrap().unwrap_or_else(|| panic!("{sql}"))
    }

    #[test]
    fn statements_of_the_session_are_told_by_their_words() {
        assert_eq!(found("/* x */ begin;"), Command::Begin(TransactionMode::default()));
        let mode = TransactionMode { isolation: Some(Isolation::ReadCommitted), writes: None };
        assert_eq!(found("START TRANSACTION ISOLATION LEVEL READ COMMITTED"), Command::Begin(mode));
        let mode = TransactionMode { isolation: Some(Isolation::Serializable), writes: Some(false) };
        assert_eq!(found("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY"), Command::Begin(mode));
        let mode = TransactionMode { isolation: Some(Isolation::RepeatableRead), writes: Some(true) };
        assert_eq!(found("set transaction isolation level repeatable read read write"), Command::SetTransaction(mode));
        assert_eq!(found("commit and chain;"), Command::Chain { commits: true });
        assert_eq!(found("ABORT WORK AND CHAIN"), Command::Chain { commits: false });
        assert_eq!((found("END AND NO CHAIN"), found("ROLLBACK AND NO CHAIN")), (Command::Commit, Command::Rollback));
        for sql in ["ROLLBACK TO SAVEPOINT A", "rollback work to a;", "ROLLBACK TRANSACTION TO SAVEPOINT \"a\""] {
            assert_eq!(found(sql), Command::RollbackTo("a".into()), "{sql}");
        }
        assert_eq!(found("SAVEPOINT \"A\""), Command::Savepoint("A".into()));
        assert_eq!(found("RELEASE a"), found("RELEASE SAVEPOINT a"));
        assert!(command("SAVEPOINT").is_err() && command("ROLLBACK TO 1").is_err());
        let set = |name: &str, value: &str| Command::Set(name.into(), value.into(), Lasts::Session);
        assert_eq!(found("SET extra_float_digits = 3"), set("extra_float_digits", "3"));
        assert_eq!(found("SET SESSION statement_timeout TO '5s'"), set("statement_timeout", "5s"));
        assert_eq!(found("set time zone 'UTC'"), set("timezone", "UTC"));
        assert_eq!(found("SET a.b = -1"), set("a.b", "-1"));
        assert_eq!(found("SET search_path = a, \"B\""), set("search_path", "a, B"));
        assert_eq!(found("SET packets TO DEFAULT"), Command::Reset("packets".into(), Lasts::Session));
        assert_eq!(found("set local packets = 2"), Command::Set("packets".into(), "2".into(), Lasts::Block));
        assert_eq!(found("SET LOCAL TIME ZONE DEFAULT"), Command::Reset("timezone".into(), Lasts::Block));
        assert_eq!(found("SHOW TRANSACTION ISOLATION LEVEL"), Command::Show("transaction_isolation".into()));
        let declared = |sql: &str, is_scroll, is_holdable, is_binary| {
            let (name, query, statement) = ("c".to_owned(), "SELECT 1".to_owned(), sql.to_owned());
            Command::Declare(Declared { name, query, statement, is_scroll, is_holdable, is_binary })
        };
        for (words, flags) in [
            ("CURSOR WITH HOLD", (false, true, false)),
            ("BINARY INSENSITIVE SCROLL CURSOR WITHOUT HOLD", (true, false, true)),
            ("NO SCROLL CURSOR", (false, false, false)),
        ] {
            let sql = format!("DECLARE c {words} FOR SELECT 1");
            assert_eq!(found(&sql), declared(&sql, flags.0, flags.1, flags.2));
        }
        for (sql, way) in [
            ("FETCH FORWARD 10 FROM \"c\"", CursorWay::By(10)),
            ("FETCH c", CursorWay::By(1)),
            ("fetch prior from c", CursorWay::By(-1)),
            ("FETCH -3 IN c", CursorWay::By(-3)),
            ("FETCH BACKWARD -2 c", CursorWay::By(2)),
            ("FETCH ALL c", CursorWay::All),
            ("FETCH BACKWARD ALL IN c;", CursorWay::AllBackward),
            ("FETCH ABSOLUTE -1 FROM c", CursorWay::To(-1)),
            ("FETCH RELATIVE 0 c", CursorWay::Relative(0)),
            ("FETCH LAST c", CursorWay::To(-1)),
        ] {
            assert_eq!(found(sql), Command::Fetch(way, "c".into()), "{sql}");
        }
        assert_eq!(found("MOVE FORWARD ALL IN c"), Command::Move(CursorWay::All, "c".into()));
        for sql in
            ["SELECT 1", "", "WITH x AS (SELECT 1) SELECT * FROM x", "SHOW ALL", "COPY t TO 'file'", "(SELECT 1)"]
        {
            assert_eq!(command(sql), Ok(None), "{sql}");
        }
    }

    #[test]
    fn copy_is_read_with_its_options() {
        let Command::CopyIn(copy) = found("COPY s.\"T\" (a, \"B\") FROM STDIN WITH (FORMAT csv, HEADER, NULL 'x')")
        else {
            panic!("no COPY FROM");
        };
        assert_eq!((copy.schema.as_deref(), copy.table.as_str()), (Some("s"), "T"));
        assert_eq!(copy.columns, ["a", "B"]);
        assert_eq!(
            (copy.options.format, copy.options.header, copy.options.null.as_str()),
            (CopyFormat::Csv, true, "x")
        );
        for (text, header) in
            [("HEADER off, FREEZE", false), ("FREEZE on, HEADER", true), ("freeze false, header true", true)]
        {
            let Command::CopyIn(copy) = found(&format!("COPY t FROM STDIN WITH ({text})")) else { panic!("{text}") };
            assert_eq!(copy.options.header, header, "{text}");
        }
        let Command::CopyOut(copy) = found("COPY (SELECT a FROM t) TO STDOUT DELIMITER AS E'\\t' CSV") else {
            panic!("no COPY TO");
        };
        assert_eq!((copy.query.as_deref(), copy.options.delimiter), (Some("SELECT a FROM t"), b'\t'));
        let Command::CopyOut(copy) = found("COPY t TO STDOUT (FORMAT BINARY)") else { panic!("no COPY TO") };
        assert_eq!((copy.query_of(&[]).as_str(), copy.options.format), ("SELECT * FROM \"t\"", CopyFormat::Binary));
        assert_eq!(copy.query_of(&["A".to_owned(), "b".to_owned()]), "SELECT \"A\", \"b\" FROM \"t\"");
        let text = "COPY t (a, b) FROM STDIN (FORMAT csv, FORCE_NULL (a, \"B\"), FORCE_NOT_NULL *, ON_ERROR ignore, \
                    LOG_VERBOSITY verbose) \
                    WHERE a IN (1, 2);";
        let Command::CopyIn(copy) = found(text) else { panic!("no COPY FROM") };
        assert_eq!(copy.condition.as_deref(), Some("a IN (1, 2)"));
        let named = Forced::Named(vec!["a".to_owned(), "B".to_owned()]);
        assert_eq!((&copy.options.force_null, &copy.options.force_not_null), (&named, &Forced::All));
        assert_eq!((copy.options.ignores_errors, copy.options.verbosity), (true, Verbosity::Verbose));
        let Command::CopyOut(copy) = found("COPY t TO STDOUT CSV FORCE QUOTE a, \"B\" HEADER") else {
            panic!("no COPY TO");
        };
        assert_eq!((&copy.options.force_quote, copy.options.header), (&named, true));
        for wrong in [
            "COPY t TO STDOUT (FORCE_QUOTE *)",
            "COPY t TO STDOUT (FORMAT csv, FORCE_NULL *)",
            "COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)",
            "COPY t FROM STDIN (ON_ERROR retry)",
            "COPY t FROM STDIN (LOG_VERBOSITY loud)",
            "COPY t TO STDOUT WHERE a > 1",
        ] {
            assert!(command(wrong).is_err(), "{wrong}");
        }
        for (options, code) in [
            ("FORMAT parquet", "22023"),
            ("DELIMITER 'ab'", "0A000"),
            ("DELIMITER E'\\n'", "22023"),
            ("DELIMITER 'a'", "22023"),
            ("NULL E'\\n'", "22023"),
            ("FORMAT binary, HEADER", "0A000"),
            ("FORMAT binary, NULL 'x'", "42601"),
            ("QUOTE '\"'", "0A000"),
            ("FORMAT csv, QUOTE ','", "22023"),
            ("FORMAT csv, ESCAPE ''", "0A000"),
            ("FORMAT csv, NULL 'a,b'", "0A000"),
            ("FORMAT csv, NULL 'a\"b'", "0A000"),
            ("FORMAT csv, FORMAT csv", "42601"),
            ("NULL 'a', NULL 'b'", "42601"),
            ("NOSUCH 1", "42601"),
            ("HEADER 3", "42601"),
            ("FORMAT csv, HEADER maybe", "42601"),
            ("FREEZE 7", "42601"),
            ("ENCODING 'nothing'", "22023"),
            ("FORCE_NULL (a)", "0A000"),
        ] {
            let refused = command(&format!("COPY t FROM STDIN ({options})")).unwrap_err();
            assert_eq!(refused.code, code, "{options}: {}", refused.message);
        }
        assert!(command("COPY t FROM STDIN (FORMAT csv, DELIMITER 'a', HEADER 1, NULL 'x')").is_ok());
        assert!(command("COPY t FROM STDIN CSV HEADER DELIMITER ';' FORCE NOT NULL a FORCE NULL b").is_ok());
    }
}
