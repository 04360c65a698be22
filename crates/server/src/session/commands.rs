//! Statements that the session answers itself: transactions, the client's settings, cursors, COPY with the client.
//!
//! They are told by their first words. What is none of them, or is written in a way that is not known here, goes to the
//! planner, which says what is wrong with it.

use diligence_base::Error;
use diligence_db::{CursorWay, Isolation, Session};

use super::copy::{CopyIn, CopyOut, CopyStatement, copy};
use super::cursors::{Declared, declare, fetch};
use super::tokens::{Placed, Refused, TOKENS_MAX, Token, name, tokens};

/// A statement for the session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// BEGIN.
    Begin(TransactionMode),
    /// START TRANSACTION: as BEGIN.
    Start(TransactionMode),
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
    /// DISCARD ALL, PLANS, SEQUENCES and TEMP.
    Discard(Discarded),
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
    /// COPY … TO STDOUT.
    CopyOut(CopyOut),
    /// COPY … FROM STDIN.
    CopyIn(CopyIn),
}

/// What DISCARD is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// Everything that the session has.
    All,
    /// Plans of prepared statements, which are made again where they are needed.
    Plans,
    /// What the session knows of sequences. Sequences give no numbers in advance.
    Sequences,
    /// Temporary tables and views.
    Temporary,
}

impl Discarded {
    /// What the statement is called when it is done.
    pub fn tag(self) -> &'static str {
        match self {
            Self::All => "DISCARD ALL",
            Self::Plans => "DISCARD PLANS",
            Self::Sequences => "DISCARD SEQUENCES",
            Self::Temporary => "DISCARD TEMP",
        }
    }

    /// Gives back a part of what a session has. Everything is given back by [`Session::discard`]. Fails as
    /// [`Session::drop_temporary`] does.
    pub fn give_back(self, session: &Session) -> Result<(), Error> {
        match self {
            Self::All => session.discard(),
            Self::Plans => {}
            Self::Sequences => session.forget_numbers(),
            Self::Temporary => session.drop_temporary()?,
        }
        Ok(())
    }
}

/// What a statement says of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionMode {
    /// What it sees of others.
    pub isolation: Option<Isolation>,
    /// READ WRITE or READ ONLY.
    pub writes: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE.
    pub is_deferrable: Option<bool>,
}

/// How long what SET says lasts, if the block that it is in does not roll back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// As long as the session: SET, RESET.
    Session,
    /// As long as the block: SET LOCAL.
    Block,
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
        ("BEGIN", ..) => Command::Begin(mode(&tokens, behind_noise(&tokens, 1))?),
        ("START", "TRANSACTION", _) => Command::Start(mode(&tokens, 2)?),
        ("COMMIT", "PREPARED", _) | ("ROLLBACK", "PREPARED", _) => return Ok(None),
        ("COMMIT" | "END", ..) if chains(&tokens)? => Command::Chain { commits: true },
        ("COMMIT", ..) | ("END", ..) => Command::Commit,
        ("ROLLBACK", "TO", _) => Command::RollbackTo(savepoint(&tokens, 2)?),
        ("ROLLBACK", "TRANSACTION" | "WORK", "TO") => Command::RollbackTo(savepoint(&tokens, 3)?),
        ("ROLLBACK" | "ABORT", ..) if chains(&tokens)? => Command::Chain { commits: false },
        ("ROLLBACK", ..) | ("ABORT", ..) => Command::Rollback,
        ("SAVEPOINT", ..) => Command::Savepoint(last_name(&tokens, 1)?),
        ("RELEASE", ..) => Command::Release(savepoint(&tokens, 1)?),
        ("SET", "TRANSACTION", "SNAPSHOT") => {
            let message = "SET TRANSACTION SNAPSHOT is not supported".to_owned();
            return Err(Refused { message, code: "0A000" });
        }
        ("SET", "TRANSACTION", _) => Command::SetTransaction(some_mode(&tokens, 2)?),
        ("SET", "SESSION", "CHARACTERISTICS") if (word(3), word(4)) == ("AS".into(), "TRANSACTION".into()) => {
            Command::SetTransactions(some_mode(&tokens, 5)?)
        }
        // DuckDB's variables are the engine's, and so is what references wait for.
        ("SET" | "RESET", "VARIABLE", _) | ("SET", "CONSTRAINTS", _) => return Ok(None),
        // The role is the one that has logged in.
        ("SET" | "RESET", "ROLE", _) | ("SET" | "RESET", "SESSION", "AUTHORIZATION") => return Ok(None),
        ("SET", ..) => return Ok(set(&tokens)),
        ("RESET", "ALL", _) => Command::ResetAll,
        ("RESET", ..) if count >= 2 => Command::Reset(setting_name(&tokens[1..]), Lasts::Session),
        ("SHOW", "ALL" | "TABLES" | "COLUMNS" | "DATABASES" | "FUNCTIONS", _) => return Ok(None),
        ("SHOW", ..) if count >= 2 => Command::Show(setting_name(&tokens[1..])),
        ("DISCARD", "ALL", _) => Command::Discard(Discarded::All),
        ("DISCARD", "PLANS", _) => Command::Discard(Discarded::Plans),
        ("DISCARD", "SEQUENCES", _) => Command::Discard(Discarded::Sequences),
        ("DISCARD", "TEMP" | "TEMPORARY", _) => Command::Discard(Discarded::Temporary),
        ("DEALLOCATE", ..) => {
            let at = if second == "PREPARE" { 2 } else { 1 };
            Command::Deallocate(if word(at) == "ALL" { None } else { Some(name(&tokens, at)?) })
        }
        ("CLOSE", "ALL", _) => Command::Close(None),
        ("CLOSE", ..) => Command::Close(Some(name(&tokens, 1)?)),
        ("DECLARE", ..) => Command::Declare(declare(sql, &tokens)?),
        ("FETCH", ..) => fetch(&tokens).map(|(way, name)| Command::Fetch(way, name))?,
        ("MOVE", ..) => fetch(&tokens).map(|(way, name)| Command::Move(way, name))?,
        ("COPY", ..) => match copy(sql, &tokens)? {
            Some(CopyStatement::Out(copy)) => Command::CopyOut(copy),
            Some(CopyStatement::In(copy)) => Command::CopyIn(copy),
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// The place behind WORK or TRANSACTION, which say nothing.
fn behind_noise(tokens: &[Placed<'_>], at: usize) -> usize {
    let is_noise = matches!(word_at(tokens, at).as_str(), "WORK" | "TRANSACTION");
    at + usize::from(is_noise)
}

/// A word in capitals; empty if there is something else.
fn word_at(tokens: &[Placed<'_>], at: usize) -> String {
    match tokens.get(at) {
        Some((Token::Word(word), _)) => word.to_ascii_uppercase(),
        _ => String::new(),
    }
}

fn is_end(tokens: &[Placed<'_>], at: usize) -> bool {
    tokens.get(at).is_none_or(|(token, _)| *token == Token::Symbol(";"))
}

/// What is wrong where something else should be.
fn unexpected(tokens: &[Placed<'_>], at: usize) -> String {
    match tokens.get(at).map(|(token, _)| token) {
        None | Some(Token::Symbol(";")) => "syntax error at end of input".to_owned(),
        Some(Token::Word(text) | Token::Symbol(text)) => format!("syntax error at or near \"{text}\""),
        Some(Token::Quoted(text, quote)) => format!("syntax error at or near \"{quote}{text}{quote}\""),
    }
}

/// What the words behind BEGIN or SET TRANSACTION say. Fails at others.
fn mode(tokens: &[Placed<'_>], mut at: usize) -> Result<TransactionMode, String> {
    let mut mode = TransactionMode::default();
    while !is_end(tokens, at) {
        let words: [String; 4] = std::array::from_fn(|next| word_at(tokens, at + next));
        let mut isolated = |isolation, words| {
            mode.isolation = Some(isolation);
            words
        };
        at += match words.each_ref().map(String::as_str) {
            ["ISOLATION", "LEVEL", "SERIALIZABLE", _] => isolated(Isolation::Serializable, 3),
            ["ISOLATION", "LEVEL", "REPEATABLE", "READ"] => isolated(Isolation::RepeatableRead, 4),
            ["ISOLATION", "LEVEL", "READ", "COMMITTED" | "UNCOMMITTED"] => isolated(Isolation::ReadCommitted, 4),
            ["READ", "ONLY" | "WRITE", ..] => {
                mode.writes = Some(words[1] == "WRITE");
                2
            }
            ["DEFERRABLE", ..] => {
                mode.is_deferrable = Some(true);
                1
            }
            ["NOT", "DEFERRABLE", ..] => {
                mode.is_deferrable = Some(false);
                2
            }
            ["ISOLATION", "LEVEL", "REPEATABLE" | "READ", _] => return Err(unexpected(tokens, at + 3)),
            ["ISOLATION", "LEVEL", ..] => return Err(unexpected(tokens, at + 2)),
            ["ISOLATION" | "READ" | "NOT", ..] => return Err(unexpected(tokens, at + 1)),
            _ => return Err(unexpected(tokens, at)),
        };
        if matches!(tokens.get(at), Some((Token::Symbol(","), _))) {
            at += 1;
            if is_end(tokens, at) {
                return Err(unexpected(tokens, at));
            }
        }
    }
    Ok(mode)
}

/// The same, where it has to say something.
fn some_mode(tokens: &[Placed<'_>], at: usize) -> Result<TransactionMode, String> {
    if is_end(tokens, at) { Err(unexpected(tokens, at)) } else { mode(tokens, at) }
}

/// Whether COMMIT or ROLLBACK ends with AND CHAIN. Fails at what does not belong to them.
fn chains(tokens: &[Placed<'_>]) -> Result<bool, String> {
    let at = behind_noise(tokens, 1);
    let words: [String; 3] = std::array::from_fn(|next| word_at(tokens, at + next));
    let (chains, end) = match words.each_ref().map(String::as_str) {
        ["AND", "CHAIN", _] => (true, at + 2),
        ["AND", "NO", "CHAIN"] => (false, at + 3),
        ["AND", "NO", _] => return Err(unexpected(tokens, at + 2)),
        ["AND", ..] => return Err(unexpected(tokens, at + 1)),
        _ => (false, at),
    };
    if is_end(tokens, end) { Ok(chains) } else { Err(unexpected(tokens, end)) }
}

/// A name that nothing follows.
fn last_name(tokens: &[Placed<'_>], at: usize) -> Result<String, String> {
    let name = name(tokens, at)?;
    if is_end(tokens, at + 1) { Ok(name) } else { Err(unexpected(tokens, at + 1)) }
}

/// A name, with or without SAVEPOINT before it.
fn savepoint(tokens: &[Placed<'_>], at: usize) -> Result<String, String> {
    let is_word = word_at(tokens, at) == "SAVEPOINT" && !is_end(tokens, at + 1);
    last_name(tokens, if is_word { at + 1 } else { at })
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
    // DuckDB's `SET schema = 's'` is read where `SET SCHEMA 's'` is.
    if name.is_empty() || values.is_empty() || name == "schema" {
        return None;
    }
    let is_local_zone = name == "timezone" && value.eq_ignore_ascii_case("local");
    if is_local_zone || value.eq_ignore_ascii_case("default") {
        return Some(Command::Reset(name, lasts));
    }
    Some(Command::Set(name, value, lasts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::copy::{CopyFormat, Forced, Verbosity};

    fn found(sql: &str) -> Command {
        command(sql).unwrap().unwrap_or_else(|| panic!("{sql}"))
    }

    #[test]
    fn statements_of_the_session_are_told_by_their_words() {
        assert_eq!(found("/* x */ begin;"), Command::Begin(TransactionMode::default()));
        let mode =
            TransactionMode { isolation: Some(Isolation::ReadCommitted), writes: None, ..TransactionMode::default() };
        assert_eq!(found("START TRANSACTION ISOLATION LEVEL READ COMMITTED"), Command::Start(mode));
        let mode = TransactionMode {
            isolation: Some(Isolation::Serializable),
            writes: Some(false),
            ..TransactionMode::default()
        };
        assert_eq!(found("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY"), Command::Begin(mode));
        let mode = TransactionMode {
            isolation: Some(Isolation::RepeatableRead),
            writes: Some(true),
            ..TransactionMode::default()
        };
        assert_eq!(found("set transaction isolation level repeatable read read write"), Command::SetTransaction(mode));
        let mode = TransactionMode { isolation: None, writes: Some(false), is_deferrable: Some(false) };
        assert_eq!(found("BEGIN WORK READ ONLY, NOT DEFERRABLE;"), Command::Begin(mode));
        let mode = TransactionMode { is_deferrable: None, ..mode };
        let all = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";
        assert_eq!(found(all), Command::SetTransactions(mode));
        for (sql, near) in [
            ("BEGIN ISOLATION LEVEL nonsense", "or near \"nonsense\""),
            ("START TRANSACTION ISOLATION nope", "or near \"nope\""),
            ("SET TRANSACTION ISOLATION LEVEL READ twice", "or near \"twice\""),
            ("BEGIN READ often", "or near \"often\""),
            ("BEGIN immediately;", "or near \"immediately\""),
            ("BEGIN ISOLATION LEVEL", "end of input"),
        ] {
            let refused = command(sql).unwrap_err();
            assert_eq!((refused.message, refused.code), (format!("syntax error at {near}"), "42601"), "{sql}");
        }
        assert_eq!(command("SET TRANSACTION SNAPSHOT '1'").unwrap_err().code, "0A000");
        assert_eq!(found("discard all"), Command::Discard(Discarded::All));
        assert_eq!(found("DISCARD TEMPORARY;"), Command::Discard(Discarded::Temporary));
        assert_eq!(command("DISCARD EVERYTHING"), Ok(None));
        // The engine knows who listens.
        assert_eq!(command("UNLISTEN *"), Ok(None));
        assert_eq!(found("commit and chain;"), Command::Chain { commits: true });
        assert_eq!(found("ABORT WORK AND CHAIN"), Command::Chain { commits: false });
        assert_eq!((found("END AND NO CHAIN"), found("ROLLBACK AND NO CHAIN")), (Command::Commit, Command::Rollback));
        for sql in ["ROLLBACK TO SAVEPOINT A", "rollback work to a;", "ROLLBACK TRANSACTION TO SAVEPOINT \"a\""] {
            assert_eq!(found(sql), Command::RollbackTo("a".into()), "{sql}");
        }
        assert_eq!(found("SAVEPOINT \"A\""), Command::Savepoint("A".into()));
        assert_eq!(found("RELEASE a"), found("RELEASE SAVEPOINT a"));
        assert!(command("SAVEPOINT").is_err() && command("ROLLBACK TO 1").is_err());
        for (sql, at) in [
            ("BEGIN IMMEDIATE", "at or near \"IMMEDIATE\""),
            ("begin isolation level nonsense", "at or near \"nonsense\""),
            ("BEGIN WORK ISOLATION LEVEL READ;", "at end of input"),
            ("START TRANSACTION READ ONLY,", "at end of input"),
            ("BEGIN , READ ONLY", "at or near \",\""),
            ("SET TRANSACTION", "at end of input"),
            ("SET TRANSACTION READ NEVER", "at or near \"NEVER\""),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION 'x'", "at or near \"'x'\""),
            ("COMMIT nonsense", "at or near \"nonsense\""),
            ("ROLLBACK AND NO", "at end of input"),
            ("END WORK AND CHAIN 1", "at or near \"1\""),
            ("SAVEPOINT a b", "at or near \"b\""),
            ("RELEASE SAVEPOINT a, b", "at or near \",\""),
        ] {
            let refused = command(sql).unwrap_err();
            assert_eq!((refused.message, refused.code), (format!("syntax error {at}"), "42601"), "{sql}");
        }
        assert_eq!(command("SET TRANSACTION SNAPSHOT '1-2'").unwrap_err().code, "0A000");
        let mode = TransactionMode {
            isolation: Some(Isolation::ReadCommitted),
            writes: Some(false),
            is_deferrable: Some(false),
        };
        let sql = "BEGIN TRANSACTION READ WRITE NOT DEFERRABLE ISOLATION LEVEL READ UNCOMMITTED, READ ONLY";
        assert_eq!(found(sql), Command::Begin(mode));
        let set = |name: &str, value: &str| Command::Set(name.into(), value.into(), Lasts::Session);
        assert_eq!(found("SET extra_float_digits = 3"), set("extra_float_digits", "3"));
        assert_eq!(found("SET SESSION statement_timeout TO '5s'"), set("statement_timeout", "5s"));
        assert_eq!(found("set time zone 'UTC'"), set("timezone", "UTC"));
        assert_eq!(found("SET a.b = -1"), set("a.b", "-1"));
        assert_eq!(found("SET search_path = a, \"B\""), set("search_path", "a, B"));
        assert_eq!(found("SET packets TO DEFAULT"), Command::Reset("packets".into(), Lasts::Session));
        assert_eq!(found("set local packets = 2"), Command::Set("packets".into(), "2".into(), Lasts::Block));
        assert_eq!(found("SET LOCAL TIME ZONE DEFAULT"), Command::Reset("timezone".into(), Lasts::Block));
        assert_eq!(found("SET TIME ZONE LOCAL"), Command::Reset("timezone".into(), Lasts::Session));
        assert_eq!(found("SHOW TRANSACTION ISOLATION LEVEL"), Command::Show("transaction_isolation".into()));
        let declared = |sql: &str, is_scroll, is_forward, is_holdable, is_binary| {
            let (name, query, statement) = ("c".to_owned(), "SELECT 1".to_owned(), sql.to_owned());
            Command::Declare(Declared { name, query, statement, is_scroll, is_forward, is_holdable, is_binary })
        };
        for (words, flags) in [
            ("CURSOR WITH HOLD", (false, false, true, false)),
            ("BINARY INSENSITIVE SCROLL CURSOR WITHOUT HOLD", (true, false, false, true)),
            ("NO SCROLL CURSOR", (false, true, false, false)),
        ] {
            let sql = format!("DECLARE c {words} FOR SELECT 1");
            assert_eq!(found(&sql), declared(&sql, flags.0, flags.1, flags.2, flags.3));
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
        for sql in [
            "SELECT 1",
            "",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SHOW ALL",
            "SHOW DATABASES",
            "COPY t TO 'file'",
            "(SELECT 1)",
        ] {
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
        // Names of files and of options say what they say to the engine.
        for (text, delimiter, null) in [
            ("COPY t FROM 'in.TSV' (HEADER, NULLSTR '-', ON_ERROR ignore)", b'\t', "-"),
            ("COPY t FROM 'in.csv' (DELIM ';', FORCE_NULL (a))", b';', ""),
            ("COPY t FROM 'in.csv' (FORMAT text, SEP ';')", b';', "\\N"),
        ] {
            let Command::CopyIn(copy) = found(text) else { panic!("no COPY FROM: {text}") };
            let is_text = text.contains("FORMAT text");
            let format = if is_text { CopyFormat::Text } else { CopyFormat::Csv };
            let options = &copy.options;
            assert_eq!((options.format, options.delimiter, options.null.as_str()), (format, delimiter, null), "{text}");
        }
        let to_file = "COPY t TO 'out.csv' (DELIM ';', FORCE_QUOTE *)";
        assert!(!matches!(command(to_file), Ok(Some(Command::CopyOut(_)))), "{to_file}");
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
