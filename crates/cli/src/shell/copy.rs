//! `\copy`: COPY between a table and a file, a command or a stream of this machine.
//!
//! The statement is COPY … TO STDOUT or FROM STDIN: against a server, the rows go over the connection. Only files are
//! read and written by a database in this process itself, in all its formats. Those of psql, `text` and `binary`, are
//! none of them, and go the same way as to a server.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write, stdin, stdout};
use std::process::Stdio;

use crate::copied_lines::CopiedLines;
use crate::environment;
use crate::failure::Failure;
use crate::sink::Sink;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::CopyStream;

const USAGE: &str = "usage: \\copy TABLE [(COLUMN, …)] | (QUERY) FROM | TO 'FILE' | PROGRAM 'COMMAND' | STDIN | STDOUT \
                     [[WITH] (OPTION VALUE, …)]";

/// How names of files end whose formats a database reads itself.
const ENDINGS: [&str; 13] = [
    ".csv", ".tsv", ".tab", ".psv", ".json", ".jsonl", ".ndjson", ".ldjson", ".parquet", ".arrow", ".arrows", ".ipc",
    ".feather",
];

/// What is on this machine's side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    File(String),
    Program(String),
    /// The lines behind the command, or standard output.
    Stream,
    /// What the shell itself reads or writes, wherever the command is from.
    Own,
}

/// A `\copy`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    /// The table with its columns, or the query in parentheses.
    what: String,
    is_from: bool,
    place: Place,
    /// The options, as COPY has them.
    rest: String,
}

impl Copy {
    /// The COPY with another side.
    fn statement(&self, side: &str) -> String {
        let way = if self.is_from { "FROM" } else { "TO" };
        format!("COPY {} {way} {side} {}", self.what, self.rest).trim_end().to_owned()
    }
}

/// Whether rows stand behind a command: it is a `\copy … FROM STDIN`.
pub fn reads_rows(line: &str) -> bool {
    reads(line) == Some(Place::Stream)
}

/// Whether a command reads what the shell itself reads: it is a `\copy … FROM PSTDIN`.
pub fn reads_own(line: &str) -> bool {
    reads(line) == Some(Place::Own)
}

/// What a `\copy` of rows into a table reads.
fn reads(line: &str) -> Option<Place> {
    let line = line.trim().trim_end_matches(';');
    let argument = line.strip_prefix("\\copy").filter(|argument| argument.starts_with(char::is_whitespace))?;
    parse(argument).filter(|copy| copy.is_from).map(|copy| copy.place)
}

/// Runs a `\copy` with these arguments. FROM STDIN and FROM PSTDIN read `input`, or standard input if it is `None`; the
/// rows are read to their end, too, if it fails. Fails with [`Failure::Usage`] if the arguments are wrong or the file
/// cannot be opened, and as the COPY does.
pub fn run(argument: &str, runner: &Runner<'_>, input: Option<&mut dyn BufRead>) -> Result<(), Failure> {
    let copy = parse(argument).ok_or_else(|| Failure::Usage(USAGE.to_owned()))?;
    if let (Place::File(file), false) = (&copy.place, runner.copies())
        && !is_of_protocol(file, &copy.rest)
    {
        return runner.run(&Source::typed(copy.statement(&quoted(file))));
    }
    let statement = copy.statement(if copy.is_from { "STDIN" } else { "STDOUT" });
    match (&copy.place, copy.is_from) {
        (Place::File(file), true) => {
            let file = File::open(file).map_err(|error| Failure::Usage(format!("cannot read {file}: {error}")))?;
            runner.copy(&statement, CopyStream::From(&mut BufReader::new(file)), false)
        }
        (Place::Program(command), true) => {
            let failed = |error: std::io::Error| Failure::Usage(format!("cannot run {command}: {error}"));
            let mut child = environment::command(command).stdout(Stdio::piped()).spawn().map_err(failed)?;
            let mut output: Box<dyn Read> = match child.stdout.take() {
                Some(output) => Box::new(output),
                None => Box::new(std::io::empty()),
            };
            let copied = runner.copy(&statement, CopyStream::From(output.as_mut()), false);
            drop(output);
            let status = child.wait().map_err(failed)?;
            copied?;
            match status.success() {
                true => Ok(()),
                false => Err(Failure::Usage(format!("'{command}' has failed: {status}"))),
            }
        }
        (Place::Stream | Place::Own, true) => {
            let mut standard;
            let input: &mut dyn BufRead = match input {
                Some(input) => input,
                None => {
                    standard = stdin().lock();
                    &mut standard
                }
            };
            let mut lines = CopiedLines::new(input);
            let copied = runner.copy(&statement, CopyStream::From(&mut lines), false);
            let passed = lines.pass();
            copied?;
            passed.map_err(|error| Failure::Usage(format!("the rows of \\copy cannot be read: {error}"))).map(|_| ())
        }
        (Place::Stream | Place::Own, false) => runner.copy(&statement, CopyStream::To(&mut stdout().lock()), true),
        (place, false) => {
            let target = match place {
                Place::Program(command) => format!("|{command}"),
                Place::File(file) => file.clone(),
                Place::Stream | Place::Own => String::new(),
            };
            let mut output = BufWriter::new(Sink::open(&target)?);
            runner.copy(&statement, CopyStream::To(&mut output), false)?;
            output.flush().map_err(|error| Failure::output(&error))
        }
    }
}

/// Whether a file has rows as COPY has them on a connection: it is said to be of the format `text` or `binary`, or
/// nothing tells another one.
fn is_of_protocol(file: &str, options: &str) -> bool {
    let words = options.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let words = words.map(str::to_ascii_lowercase).collect::<Vec<_>>();
    let formats = words.windows(2).filter(|pair| pair[0] == "format").map(|pair| pair[1].as_str());
    let formats = formats.collect::<Vec<_>>();
    let first = words.iter().find(|word| *word != "with").map(String::as_str);
    if formats.iter().any(|format| ["text", "binary"].contains(format)) || first == Some("binary") {
        return true;
    }
    let is_told = !formats.is_empty() || words.iter().any(|word| ["csv", "stored"].contains(&word.as_str()));
    let name = file.to_ascii_lowercase();
    // Folders, patterns and URLs are a database's, too.
    let is_plain = !name.ends_with('/') && !name.contains("://") && !name.contains(['*', '?', '[']);
    let packed = [".gz", ".zst", ".bz2", ".xz"].iter().find_map(|ending| name.strip_suffix(ending));
    !is_told && is_plain && !ENDINGS.iter().any(|ending| packed.unwrap_or(&name).ends_with(ending))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Takes the arguments apart; `None` if they are no COPY.
fn parse(argument: &str) -> Option<Copy> {
    let tokens = tokens(argument);
    // The first FROM or TO outside of parentheses; those of a query are within.
    let at = tokens.iter().position(|token| is(token.text, "from") || is(token.text, "to"))?;
    if at == 0 {
        return None;
    }
    let side = tokens.get(at + 1)?;
    let (place, last) = match side.text {
        stream if ["stdin", "stdout"].iter().any(|name| is(stream, name)) => (Place::Stream, side),
        own if ["pstdin", "pstdout"].iter().any(|name| is(own, name)) => (Place::Own, side),
        program if is(program, "program") => {
            let command = tokens.get(at + 2)?;
            (Place::Program(unquoted(command.text)), command)
        }
        file => (Place::File(unquoted(file)), side),
    };
    Some(Copy {
        what: argument[..tokens[at].start].trim().to_owned(),
        is_from: is(tokens[at].text, "from"),
        place,
        rest: argument[last.start + last.text.len()..].trim().to_owned(),
    })
}

fn is(token: &str, word: &str) -> bool {
    token.eq_ignore_ascii_case(word)
}

/// The text without the quotes around it.
fn unquoted(text: &str) -> String {
    for quote in ["'", "\""] {
        if let Some(inside) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inside.replace(&quote.repeat(2), quote);
        }
    }
    text.to_owned()
}

/// A piece of the arguments between blanks, with all that its quotes and parentheses hold.
struct Token<'a> {
    text: &'a str,
    start: usize,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut start = None;
    let (mut depth, mut at) = (0usize, 0);
    while let Some(first) = text[at..].chars().next() {
        let mut length = first.len_utf8();
        match first {
            '\'' | '"' => {
                let mut inside = text[at + 1..].char_indices();
                length = inside.find(|(_, c)| *c == first).map_or(text.len() - at, |(end, _)| end + 2);
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && first.is_whitespace() {
            tokens.extend(start.take().map(|start| Token { text: &text[start..at], start }));
        } else {
            start.get_or_insert(at);
        }
        at += length;
    }
    tokens.extend(start.map(|start| Token { text: &text[start..], start }));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_psql() {
        let is = |argument: &str, what: &str, is_from: bool, place: Place, rest: &str| {
            let (what, rest) = (what.to_owned(), rest.to_owned());
            assert_eq!(parse(argument), Some(Copy { what, is_from, place, rest }), "{argument}");
        };
        let file = |name: &str| Place::File(name.to_owned());
        is("t from 'a b.csv' csv header", "t", true, file("a b.csv"), "csv header");
        is(
            "s.t (a, \"from\") FROM a.csv WITH (FORMAT csv)",
            "s.t (a, \"from\")",
            true,
            file("a.csv"),
            "WITH (FORMAT csv)",
        );
        is("(select ')' from t) to 'it''s' (header)", "(select ')' from t)", false, file("it's"), "(header)");
        is("t to stdout", "t", false, Place::Stream, "");
        is("t from pstdin", "t", true, Place::Own, "");
        assert!(reads_rows("\\copy t (a) FROM STDIN csv;") && reads_rows("\\copy t from stdin"));
        assert!(
            !reads_rows("\\copy t from pstdin")
                && !reads_rows("\\copy t to stdout")
                && !reads_rows("\\copyt from stdin")
        );
        is(
            "t FROM PROGRAM 'gzip -dc x'  where a > 1",
            "t",
            true,
            Place::Program("gzip -dc x".to_owned()),
            "where a > 1",
        );
        for (file, options) in
            [("a.txt", ""), ("a", "null '-'"), ("a.csv", "(format text)"), ("a.txt.gz", ""), ("a", "with binary")]
        {
            assert!(is_of_protocol(file, options), "{file} {options}");
        }
        for (file, options) in [
            ("a.csv", ""),
            ("A.JSON.gz", ""),
            ("a.txt", "csv header"),
            ("a", "(FORMAT 'parquet')"),
            ("a.parquet", "where b = 'binary'"),
            ("folder/", ""),
            ("s3://bucket/a", ""),
            ("folder/*", ""),
        ] {
            assert!(!is_of_protocol(file, options), "{file} {options}");
        }
        for wrong in ["", "t", "t from", "from 'a'", "t from program", "t into 'x'"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
