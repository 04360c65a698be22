//! Completes the word before the cursor with keywords and names of the session, and commands at the start of a line.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::commands::COMMANDS;

/// The most suggestions; more than a screen of them is no help.
const SUGGESTIONS_MAX: usize = 100;

/// The words of a session: keywords (in capitals), tables, columns, functions and settings. The shell sets them, and
/// the completer reads them.
#[derive(Clone, Default)]
pub struct Words(Arc<Mutex<KnownWords>>);

#[derive(Default)]
struct KnownWords {
    words: Vec<String>,
    /// The tables and views among the words.
    relations: Vec<String>,
}

impl Words {
    /// Replaces the words.
    pub fn set(&self, words: Vec<String>, relations: Vec<String>) {
        *self.0.lock() = KnownWords { words, relations };
    }
}

/// The completer of the line editor.
pub struct SqlCompleter {
    words: Words,
}

impl SqlCompleter {
    /// A completer for these words and the shell's commands.
    pub fn new(words: Words) -> Self {
        Self { words }
    }

    /// The words that match. Keywords take the case of the typed text; after a dot there are no keywords.
    fn fitting(&self, typed: &str, after_dot: bool) -> Vec<String> {
        let lower = typed.to_lowercase();
        let shout = typed.chars().any(char::is_uppercase);
        let known = self.words.0.lock();
        let fitting = known.words.iter().filter(|word| word.to_lowercase().starts_with(&lower)).filter_map(|word| {
            let is_keyword = word.chars().all(|c| c.is_ascii_uppercase());
            match (is_keyword, after_dot) {
                (true, true) => None,
                (true, false) if !shout => Some(word.to_lowercase()),
                _ => Some(word.clone()),
            }
        });
        let mut found: Vec<_> = fitting.collect();
        found.sort_by_key(|name| name.to_lowercase());
        found.dedup();
        found.truncate(SUGGESTIONS_MAX);
        found
    }

    /// The tables and views that match.
    fn relations(&self, typed: &str) -> Vec<String> {
        let lower = typed.to_lowercase();
        let known = self.words.0.lock();
        known.relations.iter().filter(|name| name.to_lowercase().starts_with(&lower)).cloned().collect()
    }
}

/// Keywords that precede the name of a table.
const BEFORE_TABLES: [&str; 8] = ["FROM", "JOIN", "INTO", "TABLE", "DESCRIBE", "UPDATE", "TRUNCATE", "COPY"];

/// Whether the text ends with a keyword that precedes the name of a table.
fn wants_table(before: &str) -> bool {
    let Some(text) = before.strip_suffix(char::is_whitespace) else { return false };
    let word = text.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    BEFORE_TABLES.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// The start of the word before `end`; with dots, the start of a qualified name.
fn word_start(line: &str, end: usize, with_dots: bool) -> usize {
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || (with_dots && c == '.');
    line[..end].trim_end_matches(in_word).len()
}

impl Completer for SqlCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let end = (0..=position.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        let (start, dotted) = (word_start(line, end, false), word_start(line, end, true));
        let (word, name) = (&line[start..end], &line[dotted..end]);
        let mut found = Vec::new();
        if name.starts_with('.') && line[..dotted].trim().is_empty() {
            let commands = COMMANDS.iter().filter(|command| command.name.starts_with(name));
            found.extend(commands.map(|command| (command.name.to_owned(), dotted)));
        } else {
            if wants_table(&line[..dotted]) {
                found.extend(self.relations(name).into_iter().map(|value| (value, dotted)));
            }
            // `system.qu` may be the start of a table in a schema, or of a column of a table.
            // Where a table is expected and one matches, offer nothing else.
            let tables_fit = !found.is_empty();
            if !tables_fit && dotted < start {
                found.extend(self.fitting(name, true).into_iter().map(|value| (value, dotted)));
            }
            if !tables_fit && !word.is_empty() {
                found.extend(self.fitting(word, dotted < start).into_iter().map(|value| (value, start)));
            }
        }
        let suggestions = found.into_iter().map(|(value, start)| Suggestion {
            value,
            span: Span::new(start, end),
            append_whitespace: true,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let words = Words::default();
        words.set(
            ["lineitem", "list_sort", "l_orderkey", "Größe", "SELECT", "WHEN", "WHERE", "system.queries"]
                .map(str::to_owned)
                .to_vec(),
            ["lineitem", "system.queries"].map(str::to_owned).to_vec(),
        );
        let result = SqlCompleter::new(words).complete(line, line.len());
        result.suggestions().iter().map(|suggestion| suggestion.value.clone()).collect()
    }

    #[test]
    fn keywords_take_the_case_of_the_typed_text() {
        assert_eq!(complete("SEL"), ["SELECT"]);
        assert_eq!(complete("select * from lineitem wh"), ["when", "where"]);
    }

    #[test]
    fn names_come_from_the_session() {
        assert_eq!(complete("select l_"), ["l_orderkey"]);
        assert_eq!(complete("select t.li"), ["lineitem", "list_sort"]);
        assert_eq!(complete("select * from li"), ["lineitem"], "only tables if one matches");
        assert_eq!(complete("select * from "), ["lineitem", "system.queries"]);
        assert_eq!(complete("select * from list"), ["list_sort"]);
        assert_eq!(complete("select * from (select grö"), ["Größe"]);
        assert_eq!(complete("select * from system.qu"), ["system.queries"]);
        assert_eq!(complete("select t.wh"), Vec::<String>::new());
        assert!(complete("select ").is_empty());
    }

    #[test]
    fn commands_stand_at_the_beginning() {
        assert_eq!(complete(".ta"), [".tables"]);
        assert_eq!(complete("select .ta"), Vec::<String>::new());
    }
}
