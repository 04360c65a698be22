//! Completes the word before the cursor: keywords, names the session knows, and dot commands at the beginning.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::commands::COMMANDS;

/// Suggestions at most: more than a screen of them helps nobody.
const SUGGESTIONS_MAX: usize = 100;

/// Keywords worth completing: those that begin or join the parts of everyday statements.
const KEYWORDS: &str = "ALL ANALYZE AND ANTI ANY ARRAY AS ASC BETWEEN BY CASE CAST COPY CREATE CROSS CUBE CURRENT DATE DELIMITER DESC \
    DESCRIBE DISTINCT DROP ELSE END EXCEPT EXECUTE EXISTS EXPLAIN EXTERNAL EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL GROUP \
    GROUPING HAVING ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT LOCATION NATURAL NOT NULL NULLS \
    OFFSET ON OPTIONS OR ORDER OUTER OVER PARTITION PRECEDING PREPARE QUALIFY RANGE RECURSIVE RESET RIGHT ROLLUP ROW ROWS SELECT SEMI SET \
    SETS SHOW STORED TABLE TABLES THEN TIMESTAMP TO TRUE UNBOUNDED UNION UNNEST USING VALUES VIEW WHEN WHERE WINDOW WITH \
    WITHIN";

/// The names a session knows; the shell sets them, the completer reads them.
#[derive(Clone, Default)]
pub struct Words(Arc<Mutex<Vec<String>>>);

impl Words {
    /// Replaces the names.
    pub fn set(&self, words: Vec<String>) {
        *self.0.lock() = words;
    }
}

/// The completer of the line editor.
pub struct SqlCompleter {
    words: Words,
}

impl SqlCompleter {
    /// A completer that knows keywords, commands and these names.
    pub fn new(words: Words) -> Self {
        Self { words }
    }

    fn candidates(&self, before: &str, word: &str) -> Vec<String> {
        if before.trim().is_empty() && word.starts_with('.') {
            let fitting = COMMANDS.iter().filter(|command| command.name.starts_with(word));
            return fitting.map(|command| command.name.to_owned()).collect();
        }
        if word.is_empty() {
            return Vec::new();
        }
        let lower = word.to_lowercase();
        let fits = |text: &str| text.to_lowercase().starts_with(&lower);
        let is_keyword = |text: &str| KEYWORDS.split_whitespace().any(|keyword| keyword == text);
        let mut found: Vec<String> =
            self.words.0.lock().iter().filter(|word| fits(word) && !is_keyword(word)).cloned().collect();
        // Keywords follow the case of what was typed; after a dot there are only names.
        if !before.ends_with('.') {
            let shout = word.chars().any(char::is_uppercase);
            let fitting = KEYWORDS.split_whitespace().filter(|keyword| fits(keyword));
            found.extend(fitting.map(|keyword| if shout { keyword.to_owned() } else { keyword.to_lowercase() }));
        }
        found.sort_by_key(|name| name.to_lowercase());
        found.dedup_by_key(|name| name.to_lowercase());
        found.truncate(SUGGESTIONS_MAX);
        found
    }
}

/// Where the word before `end` begins.
fn word_start(line: &str, end: usize) -> usize {
    let before = &line[..end];
    let word = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
    // A dot at the very beginning belongs to a command.
    if word.trim_start() == "." { word.len() - 1 } else { word.len() }
}

impl Completer for SqlCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let end = (0..=position.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        let start = word_start(line, end);
        let suggestions = self.candidates(&line[..start], &line[start..end]).into_iter().map(|value| Suggestion {
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
        words.set(["lineitem", "l_orderkey", "Größe", "WHERE"].map(str::to_owned).to_vec());
        let result = SqlCompleter::new(words).complete(line, line.len());
        result.suggestions().iter().map(|suggestion| suggestion.value.clone()).collect()
    }

    #[test]
    fn keywords_follow_the_case_that_was_typed() {
        assert_eq!(complete("SEL"), ["SELECT"]);
        assert_eq!(complete("select * from lineitem wh"), ["when", "where"]);
    }

    #[test]
    fn names_come_from_the_session() {
        assert_eq!(complete("select l_"), ["l_orderkey"]);
        assert_eq!(complete("select t.li"), ["lineitem"]);
        assert_eq!(complete("select * from (select grö"), ["Größe"]);
        assert!(complete("select ").is_empty());
    }

    #[test]
    fn commands_stand_at_the_beginning() {
        assert_eq!(complete(".ta"), [".tables"]);
        assert_eq!(complete("select .ta"), Vec::<String>::new());
    }
}
