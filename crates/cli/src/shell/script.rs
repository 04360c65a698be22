//! The parts of a text: statements, and commands of the shell between them.
//!
//! A command begins with a backslash, wherever one stands outside of quotes and comments, or with a dot where a
//! statement could begin. It ends with its line. Here only semicolons, quotes and comments are told apart; the SQL
//! parser does the rest. Behind a COPY … FROM STDIN stand its rows, line by line.

use diligence_server::ProcessCopy;

use super::copy;

/// What a text begins with, up to its first command.
#[derive(Debug, PartialEq, Eq)]
struct Scanned {
    /// Where the first command begins, if there is one.
    command: Option<usize>,
    /// Where the statement begins that has no semicolon: behind the last semicolon.
    unfinished: usize,
    /// Whether there is nothing but blanks and comments from there.
    is_blank: bool,
    /// Whether a quote or a comment does not end.
    is_open: bool,
    /// Where the COPY … FROM STDIN begins whose semicolon is the last that was seen: its rows follow.
    copy: Option<usize>,
}

fn scan(text: &str) -> Scanned {
    let mut scanned = Scanned { command: None, unfinished: 0, is_blank: true, is_open: false, copy: None };
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("\\;") {
            scanned.is_blank = false;
            at += 2;
            continue;
        }
        if first == '\\' || (scanned.is_blank && !first.is_whitespace() && is_command(rest)) {
            scanned.command = Some(at);
            return scanned;
        }
        let (length, is_blank) = match enclosed(&text[..at], rest) {
            Some(Enclosed { length, is_comment }) => (length, is_comment),
            None if first == ';' => {
                let start = std::mem::replace(&mut scanned.unfinished, at + 1);
                scanned.is_blank = true;
                if copies_rows(&text[start..at]) && line_of(&text[at + 1..]).trim().is_empty() {
                    scanned.copy = Some(start);
                    return scanned;
                }
                (Some(1), true)
            }
            None => (Some(first.len_utf8()), first.is_whitespace()),
        };
        scanned.is_blank &= is_blank;
        let Some(length) = length else {
            scanned.is_open = true;
            return scanned;
        };
        at += length;
    }
    scanned
}

/// Statements with a semicolon for each `\;`, which stands between statements that run together.
pub fn with_semicolons(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("\\;") {
            out.push_str(" ;");
            at += 2;
            continue;
        }
        let length = match enclosed(&text[..at], rest) {
            Some(enclosed) => enclosed.length.unwrap_or(rest.len()),
            None => first.len_utf8(),
        };
        out.push_str(&rest[..length]);
        at += length;
    }
    out
}

/// A quoted text or a comment.
pub struct Enclosed {
    /// Its length in bytes; `None` if it does not end.
    pub length: Option<usize>,
    is_comment: bool,
}

/// The quoted text or the comment that begins here, behind `before`; `None` if there is neither.
pub fn enclosed(before: &str, rest: &str) -> Option<Enclosed> {
    let (length, is_comment) = match rest.chars().next()? {
        '\'' if is_escaped_string(before) => (escaped(rest), false),
        quote @ ('\'' | '"' | '`') => (quoted(rest, quote), false),
        '-' if rest.starts_with("--") => (Some(rest.find('\n').map_or(rest.len(), |end| end + 1)), true),
        '/' if rest.starts_with("/*") => (block_comment(rest), true),
        '$' => match dollar_quoted(rest) {
            Dollar::Quoted(length) => (Some(length), false),
            Dollar::Open => (None, false),
            Dollar::Sign => return None,
        },
        _ => return None,
    };
    Some(Enclosed { length, is_comment })
}

/// Words that are commands where they have a line to themselves.
const WORDS: [&str; 4] = ["exit", "quit", "help", "?"];

/// Whether the text begins with a command rather than with SQL.
pub fn is_command(text: &str) -> bool {
    let line = line_of(text.trim_start());
    if line.starts_with('\\') {
        return true;
    }
    let word = line.trim_end().trim_end_matches(';').trim_end();
    let is_dotted = line.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    is_dotted || WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn line_of(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Whether rows stand behind a statement. One that cannot be read fails when it runs, and its rows are none of it.
fn copies_rows(statement: &str) -> bool {
    let is_likely = statement.as_bytes().windows(5).any(|word| word.eq_ignore_ascii_case(b"stdin"));
    is_likely && ProcessCopy::of(statement).map_or(true, |copy| copy.is_some_and(|copy| copy.reads()))
}

/// The bytes of the rows that the text begins with, and of the line that ends them.
fn rows_length(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if line.trim_end_matches(['\r', '\n']) == "\\." {
            break;
        }
    }
    length
}

/// Whether the text is to be run as it is: it ends with a statement's semicolon or with a command, or has neither
/// statements nor commands.
pub fn is_complete(text: &str) -> bool {
    let scanned = scan(text);
    scanned.command.is_some() || (!scanned.is_open && scanned.is_blank)
}

/// Whether a statement of the text has its semicolon, and nothing stands behind it.
pub fn is_ended(text: &str) -> bool {
    let scanned = scan(text);
    scanned.command.is_none() && !scanned.is_open && scanned.is_blank && scanned.unfinished > 0
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// Statements.
    Sql(Piece),
    /// A COPY … FROM STDIN.
    CopyIn {
        /// The COPY.
        statement: Piece,
        /// Its rows; `None` if they come behind the text.
        rows: Option<String>,
    },
    /// A command, and the statement without a semicolon in front of it.
    Command {
        /// The command, to the end of its line.
        line: String,
        /// The lines of the text before it.
        lines_before: u64,
        /// The statement, if there is one.
        statement: Option<Piece>,
        /// The rows of a `\copy … FROM STDIN`; `None` of other commands, and if they come behind the text.
        rows: Option<String>,
    },
}

impl Part {
    /// As it stands in the text, about.
    pub fn text(&self) -> String {
        match self {
            Part::Sql(piece) => piece.text.trim().to_owned(),
            Part::CopyIn { statement, .. } => format!("{};", statement.text.trim()),
            Part::Command { line, statement: None, .. } => line.clone(),
            Part::Command { line, statement: Some(piece), .. } => format!("{} {line}", piece.text.trim()),
        }
    }
}

/// Statements, and where they are in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The statements. As many blanks stand before them as characters before them in their line.
    pub text: String,
    /// The lines before the first one.
    pub lines_before: u64,
}

/// Takes a text apart.
pub fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut from = 0;
    loop {
        let rest = &text[from..];
        let scanned = scan(rest);
        if let Some(start) = scanned.copy {
            let (start, end) = (from + start, from + scanned.unfinished);
            parts.extend(piece(text, from, start).map(Part::Sql));
            let rows = text[end..].find('\n').map(|feed| &text[end + feed + 1..]);
            let rows = rows.map(|rows| rows[..rows_length(rows)].to_owned());
            from = match (&rows, text[end..].find('\n')) {
                (Some(rows), Some(feed)) => end + feed + 1 + rows.len(),
                _ => text.len(),
            };
            parts.extend(piece(text, start, end).map(|statement| Part::CopyIn { statement, rows }));
            continue;
        }
        let Some(command) = scanned.command else {
            parts.extend(piece(text, from, text.len()).map(Part::Sql));
            return parts;
        };
        let unfinished = from + if scanned.is_blank { command } else { scanned.unfinished };
        parts.extend(piece(text, from, unfinished).map(Part::Sql));
        let line = line_of(&rest[command..]);
        let end = (from + command + line.len() + 1).min(text.len());
        let has_rows = copy::reads_rows(line) && text[..end].ends_with('\n');
        let rows = has_rows.then(|| text[end..end + rows_length(&text[end..])].to_owned());
        parts.push(Part::Command {
            line: line.trim().to_owned(),
            lines_before: text[..from + command].matches('\n').count() as u64,
            statement: piece(text, unfinished, from + command),
            rows: rows.clone(),
        });
        from = end + rows.map_or(0, |rows| rows.len());
    }
}

/// The statements between two places; `None` if there are only blanks.
fn piece(text: &str, from: usize, to: usize) -> Option<Piece> {
    let sql = &text[from..to];
    if sql.trim().is_empty() {
        return None;
    }
    let line = text[..from].rfind('\n').map_or(0, |end| end + 1);
    let blanks = " ".repeat(text[line..from].chars().count());
    let lines_before = text[..from].matches('\n').count() as u64;
    Some(Piece { text: format!("{blanks}{}", sql.trim_end()), lines_before })
}

/// Whether a quote behind this text begins a string with escapes: `E'it\'s'`.
fn is_escaped_string(before: &str) -> bool {
    let Some(rest) = before.strip_suffix(['e', 'E']) else { return false };
    !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The length of the string with escapes at the start, from its quote.
fn escaped(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => {
                characters.next();
            }
            '\'' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of the quoted string or name at the start; a doubled quote is part of it.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut from = 1;
    loop {
        let end = from + text[from..].find(quote)? + 1;
        if !text[end..].starts_with(quote) {
            return Some(end);
        }
        from = end + 1;
    }
}

/// The length of the block comment at the start. Block comments nest.
fn block_comment(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

/// What a dollar sign starts.
enum Dollar {
    /// A complete `$tag$ … $tag$` of this length.
    Quoted(usize),
    /// A quote that does not end.
    Open,
    /// Not a quote, but a parameter such as `$1`.
    Sign,
}

fn dollar_quoted(text: &str) -> Dollar {
    let tag_end = text[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).map(|end| end + 1);
    let Some(end) = tag_end.filter(|&end| text[end..].starts_with('$')) else { return Dollar::Sign };
    if text[1..end].starts_with(|c: char| c.is_ascii_digit()) {
        return Dollar::Sign;
    }
    let tag = &text[..=end];
    match text[tag.len()..].find(tag) {
        Some(at) => Dollar::Quoted(at + 2 * tag.len()),
        None => Dollar::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_at_its_semicolon() {
        for complete in [
            "SELECT 1;",
            "SELECT 1; \n",
            "SELECT 1; -- done",
            "SELECT 1; /* a; /* nested */ */",
            "SELECT ';', \"a;\"\"b\", 'it''s';",
            "SELECT $$;$$;",
            "SELECT $tag$ ' ; $$ $tag$;",
            "SELECT $1;",
            "SELECT 1 - -1;",
            "SELECT E'it\\'s', e'\\\\', 'a\\';",
            ";",
        ] {
            assert!(is_ended(complete) && is_complete(complete), "{complete}");
        }
        for open in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 'it'';",
            "SELECT \"a;",
            "SELECT 1 -- ;",
            "SELECT 1 /* ; ",
            "SELECT 1 /* /* */ ;",
            "SELECT $a$;$b$",
            "SELECT 1; SELECT 2",
            "SELECT '日;",
            "SELECT E'it\\';",
            "SELECT .5",
            "SELECT '\\x",
        ] {
            assert!(!is_ended(open) && !is_complete(open), "{open}");
        }
        for blank in ["", " \n", "-- nothing"] {
            assert!(!is_ended(blank) && is_complete(blank), "{blank}");
        }
    }

    #[test]
    fn commands_end_with_their_lines() {
        for command in ["\\x", " \\dance", ".tables", "EXIT ;", "?", "SELECT 1 \\g", "SELECT\n1\n\\gx", "-- why\n\\dt"]
        {
            assert!(is_complete(command), "{command}");
        }
        for sql in [".5 + 1", "SELECT quit", "quit now", "SELECT 1 -- \\g", "SELECT '\\g", "."] {
            assert!(!is_complete(sql), "{sql}");
        }
    }

    fn texts(text: &str) -> Vec<String> {
        let shown = |part: &Part| match part {
            Part::Sql(piece) => format!("{}: {}", piece.lines_before + 1, piece.text),
            Part::CopyIn { statement, rows } => {
                format!("{}: {} with {rows:?}", statement.lines_before + 1, statement.text.trim())
            }
            Part::Command { line, lines_before, rows: Some(rows), .. } => {
                format!("{}: {line} with {rows:?}", lines_before + 1)
            }
            Part::Command { line, lines_before, statement: None, .. } => format!("{}: {line}", lines_before + 1),
            Part::Command { line, statement: Some(piece), .. } => {
                format!("{line} of {}: {}", piece.lines_before + 1, piece.text)
            }
        };
        parts(text).iter().map(shown).collect()
    }

    #[test]
    fn a_text_falls_into_statements_and_commands() {
        assert_eq!(texts("SELECT 1; SELECT 2;"), ["1: SELECT 1; SELECT 2;"]);
        assert_eq!(
            texts("\\x\nSELECT 1;\n.timer on\n\\dt+ t ;\n"),
            ["1: \\x", "2: SELECT 1;", "3: .timer on", "4: \\dt+ t ;"]
        );
        assert_eq!(texts("SELECT 1\n\\g a b\nSELECT 2"), ["\\g a b of 1: SELECT 1", "3: SELECT 2"]);
        assert_eq!(texts("SELECT 1; SELECT 2 \\gx"), ["1: SELECT 1;", "\\gx of 1:           SELECT 2"]);
        assert_eq!(texts("SELECT 1;\n-- next\n\\dt"), ["1: SELECT 1;\n-- next", "3: \\dt"]);
        assert_eq!(texts("SELECT '\n.quit\n';\nquit"), ["1: SELECT '\n.quit\n';", "4: quit"]);
        assert_eq!(texts("  \n"), Vec::<String>::new());
    }

    #[test]
    fn statements_stand_together() {
        assert_eq!(texts("SELECT 1\\; SELECT 2;\n\\x"), ["1: SELECT 1\\; SELECT 2;", "2: \\x"]);
        assert_eq!(texts("SELECT 1 \\;\nSELECT 2 \\gx"), ["\\gx of 1: SELECT 1 \\;\nSELECT 2"]);
        assert!(!is_complete("SELECT 1\\;") && is_complete("SELECT 1\\; SELECT 2;"));
        assert_eq!(with_semicolons("SELECT '\\;' \\; SELECT 2 -- \\;"), "SELECT '\\;'  ; SELECT 2 -- \\;");
    }

    #[test]
    fn rows_stand_behind_a_copy() {
        assert_eq!(
            texts("SELECT 1; COPY t (a) FROM stdin;\n1;\n\\N\n\\.\nSELECT 2;"),
            ["1: SELECT 1;", "1: COPY t (a) FROM stdin; with Some(\"1;\\n\\\\N\\n\\\\.\\n\")", "5: SELECT 2;"]
        );
        assert_eq!(texts("COPY t FROM STDIN;"), ["1: COPY t FROM STDIN; with None"]);
        assert_eq!(texts("COPY t FROM STDIN;\n"), ["1: COPY t FROM STDIN; with Some(\"\")"]);
        assert_eq!(texts("COPY t FROM STDIN;\n1"), ["1: COPY t FROM STDIN; with Some(\"1\")"]);
        assert_eq!(
            texts("\\copy t FROM stdin\n1;\n\\.\nSELECT 2;"),
            ["1: \\copy t FROM stdin with \"1;\\n\\\\.\\n\"", "4: SELECT 2;"]
        );
        assert_eq!(texts("\\copy t FROM stdin"), ["1: \\copy t FROM stdin"]);
        assert_eq!(texts("\\copy t TO stdout\nSELECT 1;"), ["1: \\copy t TO stdout", "2: SELECT 1;"]);
        assert_eq!(texts("\\copy t FROM pstdin\nSELECT 1;"), ["1: \\copy t FROM pstdin", "2: SELECT 1;"]);
        for whole in ["COPY t TO STDOUT;\nSELECT 'stdin';", "COPY t FROM 'stdin';\nSELECT 1;"] {
            assert_eq!(texts(whole), [format!("1: {whole}")]);
        }
        assert!(is_complete("COPY t FROM STDIN;") && is_complete("COPY t FROM STDIN;\n1\n"));
    }
}
