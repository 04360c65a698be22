//! What PostgreSQL's users write that asks for nothing here: words that are left out, and statements that become
//! `CALL "nothing statement"('TAG', t)`, of a table that must be there.
//!
//! * how rows are stored: UNLOGGED, storage parameters, REINDEX, CLUSTER, REPLICA IDENTITY, SET ACCESS METHOD heap;
//! * what is said of what is not there: COMMENT ON EXTENSION;
//! * extensions: DROP EXTENSION, LOAD, and where CREATE EXTENSION puts one;
//! * hints for a planner: COST, ROWS, LEAKPROOF and SUPPORT of a function;
//! * what EXPLAIN is to count or to leave out.
//!
//! `CREATE RECURSIVE VIEW v (a) AS q` becomes `CREATE VIEW v (a) AS WITH RECURSIVE v (a) AS (q) SELECT a FROM v`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// A statement with nothing to do, as the parser's tree has it: a call of this name, with its tag and a table.
pub(crate) const IGNORED: &str = "nothing statement";

/// DROP of what there is none of: the tag, and the words behind DROP.
pub(crate) const UNKNOWN_DROPS: [(&str, &[&str]); 18] = [
    ("DROP CAST", &["CAST"]),
    ("DROP RULE", &["RULE"]),
    ("DROP EVENT TRIGGER", &["EVENT", "TRIGGER"]),
    ("DROP LANGUAGE", &["LANGUAGE"]),
    ("DROP PROCEDURAL LANGUAGE", &["PROCEDURAL", "LANGUAGE"]),
    ("DROP TEXT SEARCH CONFIGURATION", &["TEXT", "SEARCH", "CONFIGURATION"]),
    ("DROP TEXT SEARCH DICTIONARY", &["TEXT", "SEARCH", "DICTIONARY"]),
    ("DROP TEXT SEARCH PARSER", &["TEXT", "SEARCH", "PARSER"]),
    ("DROP TEXT SEARCH TEMPLATE", &["TEXT", "SEARCH", "TEMPLATE"]),
    ("DROP SERVER", &["SERVER"]),
    ("DROP FOREIGN DATA WRAPPER", &["FOREIGN", "DATA", "WRAPPER"]),
    ("DROP FOREIGN TABLE", &["FOREIGN", "TABLE"]),
    ("DROP PUBLICATION", &["PUBLICATION"]),
    ("DROP SUBSCRIPTION", &["SUBSCRIPTION"]),
    ("DROP TABLESPACE", &["TABLESPACE"]),
    ("DROP CONVERSION", &["CONVERSION"]),
    ("DROP ACCESS METHOD", &["ACCESS", "METHOD"]),
    ("DROP TRANSFORM", &["TRANSFORM"]),
];

/// What stands behind the tag of a statement that runs beside others, and commits by itself.
pub(crate) const CONCURRENTLY: &str = " CONCURRENTLY";

/// Options of EXPLAIN about what is not measured apart here.
const EXPLAINED: [&str; 8] = ["BUFFERS", "TIMING", "COSTS", "WAL", "SETTINGS", "SUMMARY", "GENERIC_PLAN", "MEMORY"];

/// What COMMENT ON is accepted for, and nothing is kept of.
const UNTOLD: [&str; 7] = ["AGGREGATE", "CAST", "COLLATION", "EXTENSION", "LANGUAGE", "OPERATOR", "POLICY"];

/// Words that come behind a table's name, and are none.
const BEHIND_TABLES: [&str; 18] = [
    "AS", "CROSS", "EXCEPT", "FETCH", "FOR", "FULL", "GROUP", "HAVING", "INNER", "JOIN", "LEFT", "LIMIT", "ON",
    "ORDER", "SET", "UNION", "USING", "WHERE",
];

impl Text<'_> {
    /// The end of the statement in which a place is.
    fn end_of_statement(&self, at: usize) -> usize {
        let mut end = at;
        while !matches!(self.token(end), Token::EOF | Token::SemiColon) {
            end += 1;
        }
        end
    }

    /// Where a name that begins there ends.
    pub(super) fn name_end(&self, at: usize) -> usize {
        let mut end = at + 1;
        while *self.token(end) == Token::Period {
            end += 2;
        }
        end
    }

    /// A statement with nothing to do; `table` is the name of one that must be there.
    fn ignore(&mut self, at: usize, tag: &str, table: Option<(usize, usize)>) {
        let end = self.end_of_statement(at);
        let mut call = vec![word("CALL"), quoted(IGNORED), Token::LParen, Token::SingleQuotedString(tag.to_owned())];
        if let Some((from, to)) = table {
            call.push(Token::Comma);
            call.extend((from..to).map(|at| self.token(at).clone()));
        }
        call.push(Token::RParen);
        self.replace(at, call);
        self.drop(at + 1..end);
    }

    /// REINDEX and CLUSTER.
    pub(super) fn ignored_upkeep(&mut self, at: usize) {
        let is_cluster = self.is(at, "CLUSTER");
        let mut next = at + 1;
        if *self.token(next) == Token::LParen {
            next = self.closed.get(&next).copied().unwrap_or(next) + 1;
        }
        next += usize::from(self.is(next, "VERBOSE"));
        if is_cluster {
            let table = (!self.ends_statement(next)).then(|| (next, self.name_end(next)));
            return self.ignore(at, "CLUSTER", table);
        }
        const TAGS: [(&str, &str); 5] = [
            ("TABLE", "REINDEX"),
            ("INDEX", "REINDEX INDEX"),
            ("SCHEMA", "REINDEX SCHEMA"),
            ("DATABASE", "REINDEX DATABASE"),
            ("SYSTEM", "REINDEX SYSTEM"),
        ];
        let Some((_, tag)) = TAGS.into_iter().find(|(kind, _)| self.is(next, kind)) else { return };
        let is_concurrent = self.is(next + 1, "CONCURRENTLY");
        let name = next + 1 + usize::from(is_concurrent);
        let tag = if is_concurrent { format!("{tag}{CONCURRENTLY}") } else { tag.to_owned() };
        self.ignore(at, &tag, (!self.ends_statement(name)).then(|| (name, self.name_end(name))));
    }

    /// ALTER TABLE of how rows are stored, or of triggers that there are none of, as its only action.
    pub(super) fn ignored_alter(&mut self, at: usize) {
        if !self.is_any(at + 1, &["TABLE", "INDEX"]) {
            return;
        }
        let is_conditional = self.is(at + 2, "IF") && self.is(at + 3, "EXISTS");
        let mut name = if is_conditional { at + 4 } else { at + 2 };
        name += usize::from(self.is(name, "ONLY"));
        let action = self.name_end(name);
        let last = self.end_of_statement(at);
        if self.is(at + 1, "INDEX") {
            if self.is_any(action, &["SET", "RESET"]) && *self.token(action + 1) == Token::LParen {
                self.ignore(at, "ALTER INDEX", None);
            }
            return;
        }
        let is_parameters = self.is_any(action, &["SET", "RESET"])
            && self.closed.get(&(action + 1)).is_some_and(|closed| closed + 1 == last)
            && *self.token(action + 1) == Token::LParen
            && !self.is_any(action + 2, &["DISTRIBUTED", "CLUSTERED"]);
        let is_method = self.is(action + 1, "ACCESS")
            && self.is(action + 2, "METHOD")
            && self.is_any(action + 3, &["HEAP", "DEFAULT"]);
        let is_kind = self.is(action, "SET") && (is_method || self.is_any(action + 1, &["LOGGED", "UNLOGGED"]));
        let is_identity = self.is(action, "REPLICA") && self.is(action + 1, "IDENTITY");
        let is_cluster = self.is(action, "CLUSTER") && self.is(action + 1, "ON")
            || self.is(action, "SET")
                && self.is(action + 1, "WITHOUT")
                && self.is_any(action + 2, &["CLUSTER", "OIDS"]);
        let is_trigger = self.is_any(action, &["ENABLE", "DISABLE"])
            && self.is(action + 1, "TRIGGER")
            && (self.is(action + 2, "USER") || self.is(action, "ENABLE") && self.is(action + 2, "ALL"));
        let is_storage = self.without_storage(action, last);
        let is_unruled = self.is(action, "DISABLE") && self.is(action + 1, "ROW")
            || self.is(action, "NO") && self.is(action + 1, "FORCE");
        if is_unruled || is_storage || is_parameters || is_kind || is_identity || is_cluster || is_trigger {
            let table = (!is_conditional).then_some((name, action));
            self.ignore(at, "ALTER TABLE", table);
        }
    }

    /// Leaves out of the actions of ALTER TABLE those that say how columns are stored, as `ALTER COLUMN c SET
    /// STATISTICS 100`. Whether there are no others; then they stay.
    fn without_storage(&mut self, begin: usize, end: usize) -> bool {
        let (mut actions, mut from, mut place) = (Vec::new(), begin, begin);
        while place <= end {
            if place == end || *self.token(place) == Token::Comma {
                actions.push((from, place));
                from = place + 1;
            }
            place = self.closed.get(&place).copied().unwrap_or(place) + 1;
        }
        let is_one = |(from, _): &(usize, usize)| {
            let column = from + 1 + usize::from(self.is(from + 1, "COLUMN"));
            let has_options = self.is_any(column + 1, &["SET", "RESET"]) && *self.token(column + 2) == Token::LParen;
            let is_said = self.is_any(column + 2, &["STATISTICS", "STORAGE", "COMPRESSION"]);
            self.is(*from, "ALTER") && (has_options || self.is(column + 1, "SET") && is_said)
        };
        if actions.iter().all(is_one) {
            return true;
        }
        let stored = actions.iter().map(is_one).collect::<Vec<_>>();
        let mut is_kept_before = false;
        for ((from, to), is_stored) in actions.into_iter().zip(stored) {
            match (is_stored, is_kept_before) {
                (false, _) => is_kept_before = true,
                // With the comma before, or behind.
                (true, true) => self.drop(from - 1..to),
                (true, false) => self.drop(from..to + 1),
            }
        }
        false
    }

    /// What is said of tables that inherit from others, of which there are none: `FROM ONLY t`, `CHECK (…) NO INHERIT`.
    pub(super) fn without_heirs(&mut self, at: usize) {
        let is_only = self.is(at, "ONLY") && self.follows(at, &["FROM", "JOIN", "UPDATE"]);
        let is_named = match self.token(at + 1) {
            Token::Word(name) if name.quote_style.is_some() => true,
            Token::Word(_) => !self.is_any(at + 1, &BEHIND_TABLES),
            _ => false,
        };
        if is_only && is_named {
            self.drop(at..at + 1);
        }
        let is_said = self.is(at, "NO") && self.is(at + 1, "INHERIT") && at > 0;
        if is_said && *self.token(at - 1) == Token::RParen {
            self.drop(at..at + 2);
        }
    }

    /// COMMENT ON what is not kept.
    pub(super) fn ignored_comment(&mut self, at: usize) {
        if self.is(at + 1, "ON") && self.is_any(at + 2, &UNTOLD) {
            self.ignore(at, "COMMENT", None);
        }
    }

    /// DROP EXTENSION, and DROP INDEX CONCURRENTLY: one that ends in PURGE, for which the parser has a place.
    pub(super) fn ignored_drop(&mut self, at: usize) {
        let is_kind =
            |(_, kind): &&(&str, &[&str])| kind.iter().enumerate().all(|(place, name)| self.is(at + 1 + place, name));
        if let Some((tag, kind)) = UNKNOWN_DROPS.iter().find(is_kind) {
            let next = at + 1 + kind.len();
            if self.is(next, "IF") && self.is(next + 1, "EXISTS") {
                self.ignore(at, tag, None);
            }
            return;
        }
        // Nobody who uses it is in the way: FORCE.
        if self.is(at + 1, "DATABASE") {
            let end = self.end_of_statement(at);
            if end > at + 4 && self.is(end - 2, "FORCE") && *self.token(end - 3) == Token::LParen {
                self.drop(if self.is(end - 4, "WITH") { end - 4 } else { end - 3 }..end);
            }
        }
        if self.is(at + 1, "EXTENSION") {
            self.ignore(at, "DROP EXTENSION", None);
        }
        if self.is(at + 1, "INDEX") && self.is(at + 2, "CONCURRENTLY") && !self.ends_statement(at + 3) {
            self.drop(at + 2..at + 3);
            self.insert_or_end(self.end_of_statement(at), [word("PURGE")]);
        }
    }

    /// LOAD and INSTALL of an extension.
    pub(super) fn ignored_load(&mut self, at: usize) {
        if !self.ends_statement(at + 1) && self.ends_statement(at + 2) {
            self.ignore(at, "LOAD", None);
        }
    }

    /// What a function costs, and how many rows it gives.
    fn function_hints(&mut self, at: usize) {
        let end = self.end_of_statement(at);
        let mut place = at;
        while place < end {
            if let Some(closed) = self.closed.get(&place) {
                place = *closed;
            }
            let is_number = matches!(self.token(place + 1), Token::Number(..));
            // The body of a function that is not a text is another statement.
            if self.is_any(place, &["RETURN", "BEGIN"]) {
                return;
            }
            let words = match () {
                () if self.is_any(place, &["COST", "ROWS"]) && is_number => 2,
                () if self.is(place, "SUPPORT") && matches!(self.token(place + 1), Token::Word(_)) => 2,
                () if self.is(place, "NOT") && self.is(place + 1, "LEAKPROOF") => 2,
                () if self.is(place, "LEAKPROOF") => 1,
                () if self.is(place, "EXTERNAL") && self.is(place + 1, "SECURITY") => 1,
                () => 0,
            };
            self.drop(place..place + words);
            place += words.max(1);
        }
    }

    /// What CREATE of anything but a table says beside what it makes.
    fn ignored_clauses(&mut self, at: usize) {
        let replaced = self.is(at + 1, "OR") && self.is(at + 2, "REPLACE");
        let kind = if replaced { at + 3 } else { at + 1 };
        if self.is_any(kind, &["FUNCTION", "PROCEDURE"]) {
            self.modes_in_front(kind + 1);
            return self.function_hints(kind + 1);
        }
        if self.is(kind, "EXTENSION") {
            let name = if self.is(kind + 1, "IF") { kind + 4 } else { kind + 1 };
            let end = self.end_of_statement(at);
            if name + 1 < end {
                self.drop(name + 1..end);
            }
            return;
        }
        // CREATE INDEX i ON ONLY t.
        let index = if self.is(kind, "UNIQUE") { kind + 1 } else { kind };
        if self.is(index, "INDEX")
            && let Some(on) = (index + 1..index + 8).find(|place| self.is(*place, "ON"))
            && self.is(on + 1, "ONLY")
            && matches!(self.token(on + 2), Token::Word(_))
        {
            self.drop(on + 1..on + 2);
        }
    }

    /// Whether the statement makes or alters what has rows, or an index.
    pub(super) fn defines_rows(&self) -> bool {
        matches!(self.statement, Keyword::CREATE | Keyword::ALTER)
            && (self.begin + 1..self.begin + 5).any(|at| self.is_any(at, &["TABLE", "INDEX", "MATERIALIZED"]))
    }

    /// `TABLESPACE x` behind what a table or an index has, and `USING INDEX TABLESPACE x` behind a key.
    pub(super) fn tablespace(&mut self, at: usize) {
        let of_key = at > 1 && self.is(at - 1, "INDEX") && self.is(at - 2, "USING");
        let ends = at > 0 && *self.token(at - 1) == Token::RParen || self.follows(at, &["OIDS"]);
        let is_named = matches!(self.token(at + 1), Token::Word(_)) && !self.is(at + 1, "FROM");
        if is_named && (of_key || ends) && self.defines_rows() {
            self.drop(if of_key { at - 2 } else { at }..at + 2);
        }
    }

    /// Options in parentheses of which some have no value: they get this one. Where they end; `None` if there are none.
    pub(super) fn valued_options(&mut self, opened: usize, value: &str) -> Option<usize> {
        let closed = *self.closed.get(&opened)?;
        let mut has_value = false;
        for place in opened + 1..=closed {
            match self.token(place) {
                Token::Eq => has_value = true,
                Token::Comma | Token::RParen if !has_value => self.insert(place, [Token::Eq, word(value)]),
                Token::Comma => has_value = false,
                _ => {}
            }
        }
        Some(closed)
    }

    /// Where the options or the query of a view begin that a statement makes.
    fn view_body(&self, at: usize) -> Option<usize> {
        let view = (at + 1..at + 6).find(|place| self.is(*place, "VIEW"))?;
        let body = self.name_end(if self.is(view + 1, "IF") { view + 4 } else { view + 1 });
        Some(self.closed.get(&body).map_or(body, |closed| closed + 1))
    }

    /// `CREATE VIEW v AS q WITH LOCAL CHECK OPTION`: `CREATE VIEW v WITH (check_option = 'local') AS q`.
    fn check_option(&mut self, at: usize) {
        let end = self.end_of_statement(at);
        if end < at + 6 || !self.is(end - 1, "OPTION") || !self.is(end - 2, "CHECK") {
            return;
        }
        let (from, option) = match () {
            () if self.is(end - 3, "WITH") => (end - 3, "cascaded"),
            () if self.is(end - 3, "LOCAL") && self.is(end - 4, "WITH") => (end - 4, "local"),
            () if self.is(end - 3, "CASCADED") && self.is(end - 4, "WITH") => (end - 4, "cascaded"),
            () => return,
        };
        let Some(body) = self.view_body(at) else { return };
        let option = [word("check_option"), Token::Eq, Token::SingleQuotedString(option.to_owned())];
        match self.closed.get(&(body + 1)).copied().filter(|_| self.is(body, "WITH")) {
            Some(closed) => self.insert(closed, std::iter::once(Token::Comma).chain(option)),
            None if self.is(body, "AS") => {
                let with = [word("WITH"), Token::LParen].into_iter().chain(option);
                self.insert(body, with.chain([Token::RParen]));
            }
            None => return,
        }
        self.drop(from..end);
    }

    /// CREATE UNLOGGED TABLE, and CREATE RECURSIVE VIEW.
    pub(super) fn ignored_create(&mut self, at: usize) {
        if let Some(body) = self.view_body(at).filter(|body| self.is(*body, "WITH")) {
            self.valued_options(body + 1, "TRUE");
        }
        self.check_option(at);
        self.ignored_clauses(at);
        if self.is(at + 1, "UNLOGGED") && self.is(at + 2, "TABLE") {
            return self.drop(at + 1..at + 2);
        }
        let mut next = at + 1;
        next += if self.is(next, "OR") && self.is(next + 1, "REPLACE") { 2 } else { 0 };
        next += usize::from(self.is_any(next, &["TEMP", "TEMPORARY"]));
        if !self.is(next, "RECURSIVE") || !self.is(next + 1, "VIEW") {
            return;
        }
        let name = next + 2;
        let open = self.name_end(name);
        let Some(closed) = self.closed.get(&open).copied() else { return };
        if !self.is(closed + 1, "AS") {
            return;
        }
        let columns = (open..=closed).map(|at| self.token(at).clone()).collect::<Vec<_>>();
        let own = self.token(open - 1).clone();
        self.drop(next..next + 1);
        let front = [word("WITH"), word("RECURSIVE"), own.clone()].into_iter().chain(columns.clone());
        self.insert(closed + 2, front.chain([word("AS"), Token::LParen]));
        let shown = columns[1..columns.len() - 1].to_vec();
        let back = [Token::RParen, word("SELECT")].into_iter().chain(shown).chain([word("FROM"), own]);
        let end = self.end_of_statement(at);
        self.insert_or_end(end, back);
    }

    /// Options of EXPLAIN that say what is counted or left out: `(ANALYZE, BUFFERS)`.
    pub(super) fn ignored_explained(&mut self, at: usize) {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return };
        let mut items = Vec::new();
        let mut begin = at + 2;
        for place in at + 2..=closed {
            if place == closed || *self.token(place) == Token::Comma {
                items.push((begin, place));
                begin = place + 1;
            }
        }
        if *self.token(at + 1) != Token::LParen || !items.iter().any(|(from, _)| self.is_any(*from, &EXPLAINED)) {
            return;
        }
        let kept = items.iter().filter(|(from, _)| !self.is_any(*from, &EXPLAINED));
        let kept = kept.map(|(from, to)| (*from..*to).map(|at| self.token(at).clone()).collect::<Vec<_>>());
        let kept = kept.collect::<Vec<_>>();
        if kept.is_empty() {
            return self.drop(at + 1..closed + 1);
        }
        let kept = kept.join(&Token::Comma);
        self.drop(at + 2..closed);
        self.replace(at + 2, kept);
    }

    /// `U&'…' UESCAPE '!'`: the text itself.
    pub(super) fn unicode_escape(&mut self, at: usize) {
        let (Token::SingleQuotedString(mark), true) = (self.token(at + 1), at > 0) else { return };
        let Token::UnicodeStringLiteral(text) = self.token(at - 1) else { return };
        let mut letters = mark.chars();
        let (Some(mark), None) = (letters.next(), letters.next()) else { return };
        if let Some(text) = unescaped(text, mark) {
            self.replace(at - 1, [Token::SingleQuotedString(text)]);
            self.drop(at..at + 2);
        }
    }
}

/// A text in which a mark stands in front of the number of a letter: four digits, or six behind a plus.
fn unescaped(text: &str, mark: char) -> Option<String> {
    let mut made = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(mark) {
        made.push_str(&rest[..place]);
        rest = &rest[place + mark.len_utf8()..];
        if let Some(behind) = rest.strip_prefix(mark) {
            made.push(mark);
            rest = behind;
            continue;
        }
        let (digits, count) = match rest.strip_prefix('+') {
            Some(digits) => (digits, 6),
            None => (rest, 4),
        };
        let number = u32::from_str_radix(digits.get(..count)?, 16).ok()?;
        made.push(char::from_u32(number)?);
        rest = &digits[count..];
    }
    made.push_str(rest);
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::unescaped;
    use crate::parse::parse_one;

    fn read(sql: &str) -> String {
        match parse_one(sql).unwrap().statement {
            crate::parse::SyntaxTree::Statement(statement) => statement.to_string(),
            other => other.to_string(),
        }
    }

    #[test]
    fn what_asks_for_nothing_is_left_out_or_does_nothing() {
        assert_eq!(read("CREATE UNLOGGED TABLE t (a INT)"), "CREATE TABLE t (a INT)");
        for (sql, call) in [
            ("REINDEX TABLE CONCURRENTLY a.t", "('REINDEX CONCURRENTLY', a.t)"),
            ("REINDEX (VERBOSE) DATABASE d;", "('REINDEX DATABASE', d)"),
            ("REINDEX INDEX CONCURRENTLY s.i", "('REINDEX INDEX CONCURRENTLY', s.i)"),
            ("REINDEX SYSTEM", "('REINDEX SYSTEM')"),
            ("CLUSTER t USING i", "('CLUSTER', t)"),
            ("ALTER TABLE t SET (fillfactor = 70)", "('ALTER TABLE', t)"),
            ("ALTER TABLE IF EXISTS t REPLICA IDENTITY FULL", "('ALTER TABLE')"),
            ("ALTER TABLE t SET ACCESS METHOD heap", "('ALTER TABLE', t)"),
            ("ALTER INDEX s.i SET (fillfactor = 50)", "('ALTER INDEX')"),
            ("COMMENT ON EXTENSION plpgsql IS 'x'", "('COMMENT')"),
            ("COMMENT ON AGGREGATE f(int, text) IS NULL", "('COMMENT')"),
            ("DROP EXTENSION IF EXISTS a, b CASCADE", "('DROP EXTENSION')"),
            ("LOAD 'auto_explain'", "('LOAD')"),
        ] {
            assert_eq!(read(sql), format!("CALL \"nothing statement\"{call}"), "{sql}");
        }
        let view = "CREATE VIEW v (n) AS WITH RECURSIVE v (n) AS (SELECT 1) SELECT n FROM v";
        assert_eq!(read("CREATE RECURSIVE VIEW v (n) AS SELECT 1;"), view);
        assert_eq!(read("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT 1"), read("EXPLAIN (ANALYZE) SELECT 1"));
        assert_eq!(read("EXPLAIN (COSTS OFF) SELECT 1"), read("EXPLAIN SELECT 1"));
        assert_eq!(read("SELECT U&'d!0061t!+000061!!' UESCAPE '!'"), "SELECT 'data!'");
        assert_eq!(read("CREATE EXTENSION IF NOT EXISTS x WITH SCHEMA public"), "CREATE EXTENSION IF NOT EXISTS x");
        assert_eq!(read("DROP INDEX CONCURRENTLY IF EXISTS i"), "DROP INDEX IF EXISTS i PURGE");
        let function = |hints| format!("CREATE FUNCTION f(cost INT) RETURNS INT LANGUAGE sql {hints} AS 'SELECT 1'");
        assert_eq!(read(&function("COST 5 ROWS 3 NOT LEAKPROOF")), read(&function("")));
        assert_eq!(unescaped("!00", '!'), None);
    }
}
