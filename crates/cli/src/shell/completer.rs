//! Completes the word before the cursor: with commands, with the columns and aliases of the statement that is being
//! typed, and with keywords and names of the session.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::commands::COMMANDS;
use super::statement_names::{StatementNames, names_at};
use crate::target::KnownWords;

/// The most suggestions; more than a screen of them is no help.
const SUGGESTIONS_MAX: usize = 100;

/// The words of a session. The shell sets them, and the completer reads them.
#[derive(Clone, Default)]
pub struct Words(Arc<Mutex<KnownWords>>);

impl Words {
    /// Replaces the words.
    pub fn set(&self, words: KnownWords) {
        *self.0.lock() = words;
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

    /// The tables and views that match, and the statement's own.
    fn relations(&self, typed: &str, names: &StatementNames) -> Vec<String> {
        let known = self.words.0.lock();
        let all = names.expressions.iter().chain(&known.relations);
        all.filter(|name| begins(name, typed)).cloned().collect()
    }

    /// The columns of a table that match, as they are written in a statement.
    fn columns_of(&self, table: &str, typed: &str) -> Vec<String> {
        let known = self.words.0.lock();
        let same = |name: &str| name.eq_ignore_ascii_case(table) || name.replace('"', "") == table.replace('"', "");
        let columns = known.columns.iter().find(|(name, _)| same(name)).map(|(_, columns)| columns);
        columns.into_iter().flatten().filter(|name| begins(name, typed)).map(|name| written(name)).collect()
    }

    /// The columns of the statement's tables that match, and its aliases.
    fn of_statement(&self, typed: &str, names: &StatementNames) -> Vec<String> {
        let mut found = names.tables.iter().flat_map(|(_, table)| self.columns_of(table, typed)).collect::<Vec<_>>();
        if !typed.is_empty() {
            // What is being typed may look like an alias itself.
            let is_other = |alias: &&String| begins(alias, typed) && !alias.eq_ignore_ascii_case(typed);
            found.extend(names.tables.iter().map(|(alias, _)| alias).filter(is_other).cloned());
        }
        let mut seen = HashSet::new();
        found.retain(|name| seen.insert(name.clone()));
        found.truncate(SUGGESTIONS_MAX);
        found
    }
}

fn begins(name: &str, typed: &str) -> bool {
    name.to_lowercase().starts_with(&typed.to_lowercase())
}

/// The name as a statement has it: in quotes, if it has other characters than small letters.
fn written(name: &str) -> String {
    let is_plain = name.chars().all(|c| c == '_' || c.is_numeric() || (c.is_alphabetic() && !c.is_uppercase()))
        && !name.starts_with(|c: char| c.is_numeric());
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Words and signs behind which a column may stand.
const BEFORE_COLUMNS: [&str; 14] =
    ["SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "ON", "BY", "HAVING", "SET", "CASE", "WHEN", "THEN", "ELSE"];

/// Whether the text ends where a column may stand.
fn wants_column(before: &str) -> bool {
    let text = before.trim_end();
    if text.ends_with([',', '(', '=', '<', '>', '+', '-', '*', '/']) {
        return true;
    }
    let word = text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    text.len() < before.len() && BEFORE_COLUMNS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// The command that is being typed, from its dot or backslash on.
fn command_at(line: &str) -> Option<usize> {
    let start = line.trim_end_matches(|c: char| !c.is_whitespace()).len();
    let is_first = line[..start].trim().is_empty();
    let word = &line[start..];
    (word.starts_with('\\') || (is_first && word.starts_with('.'))).then_some(start)
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

impl SqlCompleter {
    /// The columns that match behind `alias.`; `None` if the statement has no such table, or its columns are unknown.
    fn columns_behind(&self, qualifier: &str, typed: &str, names: &StatementNames) -> Option<Vec<String>> {
        let qualifier = qualifier.strip_suffix('.')?;
        let (_, table) = names
            .tables
            .iter()
            .find(|(alias, table)| alias.eq_ignore_ascii_case(qualifier) || table.eq_ignore_ascii_case(qualifier))?;
        Some(self.columns_of(table, typed)).filter(|columns| !columns.is_empty())
    }
}

impl Completer for SqlCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let end = (0..=position.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        let (start, dotted) = (word_start(line, end, false), word_start(line, end, true));
        let (word, name) = (&line[start..end], &line[dotted..end]);
        let names = names_at(line, end);
        let mut found = Vec::new();
        if let Some(start) = command_at(&line[..end]) {
            let typed = &line[start..end];
            let commands = COMMANDS.iter().flat_map(|command| command.names());
            found.extend(commands.filter(|name| name.starts_with(typed)).map(|name| (name.to_owned(), start)));
        } else if let Some(columns) = self.columns_behind(&line[dotted..start], word, &names) {
            found.extend(columns.into_iter().map(|value| (value, start)));
        } else {
            if wants_table(&line[..dotted]) {
                found.extend(self.relations(name, &names).into_iter().map(|value| (value, dotted)));
            }
            // `system.qu` may be the start of a table in a schema, or of a column of a table.
            // Where a table is expected and one matches, offer nothing else.
            let tables_fit = !found.is_empty();
            if !tables_fit && dotted == start && (!word.is_empty() || wants_column(&line[..start])) {
                found.extend(self.of_statement(word, &names).into_iter().map(|value| (value, start)));
            }
            let mut others = Vec::new();
            if !tables_fit && dotted < start {
                others.extend(self.fitting(name, true).into_iter().map(|value| (value, dotted)));
            }
            if !tables_fit && !word.is_empty() {
                others.extend(self.fitting(word, dotted < start).into_iter().map(|value| (value, start)));
            }
            others.retain(|other| !found.contains(other));
            found.extend(others);
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
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        words.set(KnownWords {
            words: all(&[
                "lineitem",
                "list_sort",
                "l_orderkey",
                "Größe",
                "SELECT",
                "WHEN",
                "WHERE",
                "system.queries",
                "orders",
                "o_custkey",
                "o_orderkey",
            ]),
            relations: all(&["lineitem", "orders", "system.queries"]),
            columns: [
                ("lineitem".to_owned(), all(&["l_orderkey"])),
                ("orders".to_owned(), all(&["o_orderkey", "o_custkey", "Odd"])),
            ]
            .into(),
        });
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
        assert_eq!(complete("select * from "), ["lineitem", "orders", "system.queries"]);
        assert_eq!(complete("select * from list"), ["list_sort"]);
        assert_eq!(complete("select * from (select grö"), ["Größe"]);
        assert_eq!(complete("select * from system.qu"), ["system.queries"]);
        assert_eq!(complete("select t.wh"), Vec::<String>::new());
        assert!(complete("select ").is_empty());
    }

    #[test]
    fn the_statement_has_names_of_its_own() {
        assert_eq!(complete("select o_"), ["o_custkey", "o_orderkey"]);
        assert_eq!(complete("select * from orders as ox where ox."), ["o_orderkey", "o_custkey", "\"Odd\""]);
        assert_eq!(complete("select * from orders ox join lineitem l on l."), ["l_orderkey"]);
        assert_eq!(complete("select * from orders where o_o"), ["o_orderkey"]);
        assert_eq!(complete("select * from orders where "), ["o_orderkey", "o_custkey", "\"Odd\""]);
        assert_eq!(complete("select * from orders some_alias where som"), ["some_alias"]);
        assert_eq!(complete("with recent as (select 1) select * from rec"), ["recent"]);
        assert_eq!(complete("select * from orders "), Vec::<String>::new());
        assert_eq!(complete("select * from orders; select * from lineitem where l_"), ["l_orderkey"]);
    }

    #[test]
    fn commands_stand_at_the_beginning() {
        assert_eq!(complete(".ta"), [".tables"]);
        assert_eq!(complete("select .ta"), Vec::<String>::new());
        assert_eq!(complete("\\ti"), ["\\timing"]);
        assert_eq!(complete("select 1 \\gx"), ["\\gx"]);
    }
}
