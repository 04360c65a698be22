//! What each keyword begins, by the part of SQL that it belongs to. Each part says whether the word is its own.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::changes::{BY_NAME, OVERRIDING, OVERRIDING_USER};
use super::{CONSTRAINT, Text, TokenLevel, VARIABLE, quoted, word};

impl Text<'_> {
    /// A clause of a query.
    pub(super) fn query_word(&mut self, at: usize, keyword: Keyword, level: &mut TokenLevel) -> bool {
        match keyword {
            Keyword::FROM if !self.follows(at, &["DISTINCT"]) => level.in_from = true,
            Keyword::SELECT => {
                level.in_from = false;
                self.select(at);
            }
            Keyword::WHERE => {
                level.in_from = false;
                self.current_of(at);
            }
            Keyword::HAVING
            | Keyword::ORDER
            | Keyword::WINDOW
            | Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT => level.in_from = false,
            Keyword::LIMIT => {
                level.in_from = false;
                self.limit_percent(at);
            }
            Keyword::GROUP => {
                level.in_from = false;
                self.group_by(at);
            }
            Keyword::ROWS if level.in_from && self.is(at + 1, "FROM") && *self.token(at + 2) == Token::LParen => {
                self.rows_from(at);
            }
            Keyword::ROWS | Keyword::RANGE | Keyword::GROUPS if level.is_window => {
                level.in_frame = true;
                self.frame_offsets(at);
            }
            Keyword::GROUPING if self.is(at + 1, "SETS") && self.is_in_grouping_sets(level) => self.nested_sets(at),
            Keyword::EXCLUDE if level.in_frame => self.exclude(at, level.opened),
            // Names, unless something of the past is asked for.
            Keyword::AT | Keyword::BEFORE | Keyword::CHANGES if level.in_from && !self.is_of_past(at) => {
                let name = self.token(at).to_string().to_lowercase();
                self.replace(at, [quoted(&name)]);
            }
            Keyword::AS if level.in_from && self.declares_columns(at) => self.alias_of_call(at, level),
            Keyword::FOR if at >= self.locks_until => self.row_locks(at),
            Keyword::PIVOT if level.in_from && *self.token(at + 1) == Token::LParen => self.pivot_in_from(at),
            Keyword::FETCH => self.fetch(at),
            Keyword::USING if self.statement == Keyword::MERGE && self.joins_merged(at) => {}
            Keyword::USING => match self.token(at + 1) {
                Token::Lt => self.order_using(at, "ASC"),
                Token::Gt => self.order_using(at, "DESC"),
                _ => {}
            },
            Keyword::VALUES if *self.token(at + 1) == Token::LParen => self.values_of_rows(at),
            _ => return false,
        }
        true
    }

    /// A part of an expression.
    pub(super) fn expression_word(&mut self, at: usize, keyword: Keyword, level: &TokenLevel) -> bool {
        match keyword {
            Keyword::VARIADIC if at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma) => {
                self.variadic(at, level.opened);
            }
            // substring(a SIMILAR b ESCAPE c): substring(a FROM b FOR c).
            Keyword::SIMILAR if !self.is(at + 1, "TO") && self.is_in_substring(level) => {
                self.replace(at, [word("FROM")]);
            }
            Keyword::ESCAPE if self.is_in_substring(level) => self.replace(at, [word("FOR")]),
            // FILTER (condition), as in DuckDB.
            Keyword::FILTER
                if at > 0
                    && *self.token(at - 1) == Token::RParen
                    && *self.token(at + 1) == Token::LParen
                    && !self.is(at + 2, "WHERE") =>
            {
                self.insert(at + 2, [word("WHERE")]);
            }
            Keyword::UESCAPE => self.unicode_escape(at),
            Keyword::COLLATION if self.is(at + 1, "FOR") && *self.token(at + 2) == Token::LParen => {
                self.replace(at, [word("pg_collation_for")]);
                self.drop(at + 1..at + 2);
            }
            Keyword::COLLATE => self.collated_type(at),
            Keyword::JSON_TABLE if *self.token(at + 1) == Token::LParen => self.json_table(at),
            _ if *self.token(at + 1) == Token::LParen
                && self.is_any(at, &["JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"]) =>
            {
                self.json_query(at);
            }
            _ if self.is(at, "TRY") && *self.token(at + 1) == Token::LParen && self.is(at + 2, "CAST") => {
                self.try_cast(at);
            }
            _ => return false,
        }
        true
    }

    /// A clause of a statement that changes rows.
    pub(super) fn change_word(&mut self, at: usize, keyword: Keyword) -> bool {
        match keyword {
            Keyword::CONFLICT if self.follows(at, &["ON"]) => self.conflict(at),
            Keyword::SET if self.sets_an_element(at) => self.set_elements(at),
            Keyword::INSERT if self.is(at + 1, "INTO") => self.inserted_elements(at + 2),
            Keyword::THEN if self.is(at + 1, "DO") && self.is(at + 2, "NOTHING") => self.merge_nothing(at),
            Keyword::THEN if self.is_any(at + 1, &["INSERT", "UPDATE"]) => self.merged_whole(at),
            // The columns' places count anyway.
            Keyword::BY if self.is(at + 1, "POSITION") && self.ends_insert_target(at) => self.drop(at..at + 2),
            Keyword::BY if self.is(at + 1, "NAME") && self.ends_insert_target(at) => {
                self.insert_clause(at, 2, BY_NAME);
            }
            _ if self.is(at, "OVERRIDING") && self.is(at + 1, "SYSTEM") && self.is(at + 2, "VALUE") => {
                self.insert_clause(at, 3, OVERRIDING);
            }
            _ if self.is(at, "OVERRIDING") && self.is(at + 1, "USER") && self.is(at + 2, "VALUE") => {
                self.insert_clause(at, 3, OVERRIDING_USER);
            }
            _ => return false,
        }
        true
    }

    /// What a statement begins with, or executes.
    pub(super) fn statement_word(&mut self, at: usize, keyword: Keyword) -> bool {
        match keyword {
            Keyword::EXECUTE => self.executed(at),
            Keyword::ALTER if self.begins_statement(at) => {
                self.alter(at);
                self.ignored_alter(at);
            }
            Keyword::CREATE if self.begins_statement(at) => self.ignored_create(at),
            Keyword::EXPLAIN if self.begins_statement(at) => self.ignored_explained(at),
            Keyword::COMMENT if self.begins_statement(at) => self.ignored_comment(at),
            Keyword::DROP if self.begins_statement(at) => self.ignored_drop(at),
            Keyword::LOAD if self.begins_statement(at) => self.ignored_load(at),
            Keyword::INSTALL if self.begins_statement(at) => self.ignored_load(at),
            Keyword::SET if self.begins_statement(at) && self.is(at + 1, "CONSTRAINTS") => self.maintenance(at),
            Keyword::VARIABLE if self.follows(at, &["SET", "RESET"]) => self.variable(at),
            Keyword::VACUUM | Keyword::OPTIMIZE | Keyword::ANALYZE if self.begins_statement(at) => self.upkeep(at),
            Keyword::DO if self.begins_statement(at) => self.do_block(at),
            _ if self.begins_statement(at)
                && self.is_any(at, &["CHECKPOINT", "BACKUP", "CHECK", "EXPORT", "IMPORT"]) =>
            {
                self.maintenance(at);
            }
            _ if self.begins_statement(at) && self.is_any(at, &["REINDEX", "CLUSTER"]) => self.ignored_upkeep(at),
            _ if self.is(at, "REFRESH") && self.begins_statement(at) && self.is(at + 1, "MATERIALIZED") => {
                self.refresh(at);
            }
            _ => return false,
        }
        true
    }

    /// A clause of a definition: of a table, a type, a function, a sequence.
    pub(super) fn definition_word(&mut self, at: usize, keyword: Keyword, level: &TokenLevel) -> bool {
        match keyword {
            Keyword::EXCLUDE if matches!(self.statement, Keyword::CREATE | Keyword::ALTER) => self.exclusion(at),
            Keyword::LIKE if self.begins_table_like(at, level.opened) => self.table_like(at),
            Keyword::UNIQUE | Keyword::PRIMARY => self.included(at),
            // Nothing inherits.
            Keyword::NO
                if self.is(at + 1, "INHERIT")
                    && at > 0
                    && *self.token(at - 1) == Token::RParen
                    && matches!(self.statement, Keyword::CREATE | Keyword::ALTER) =>
            {
                self.drop(at..at + 2);
            }
            Keyword::FOREIGN if self.is(at + 1, "KEY") => self.set_by_deletion(at),
            Keyword::TABLE => self.table(at),
            Keyword::ENUM if self.statement == Keyword::CREATE => self.enum_of_query(at),
            Keyword::FUNCTION if self.follows(at, &["CREATE", "REPLACE"]) => self.function_as_macro(at),
            Keyword::ALTER if self.statement == Keyword::ALTER && self.is(at + 1, "CONSTRAINT") => {
                self.alter_constraint(at);
            }
            Keyword::SET | Keyword::RESTART | Keyword::DROP => self.alter_identity(at),
            Keyword::MATERIALIZED => self.materialized(at),
            Keyword::WITH if self.is(at + 1, "NO") && self.is(at + 2, "DATA") => self.without_data(at),
            Keyword::WITH if self.is(at + 1, "DATA") && self.ends_statement(at + 2) => self.drop(at..at + 2),
            // DROP MACRO [TABLE] f: DROP FUNCTION f.
            Keyword::MACRO if self.follows(at, &["DROP"]) => {
                self.replace(at, [word("FUNCTION")]);
                if self.is(at + 1, "TABLE") {
                    self.drop(at + 1..at + 2);
                }
            }
            Keyword::PROCEDURE if self.names_procedure(at) => self.procedure(at),
            _ if self.is_any(at, &["DISTRIBUTED", "CLUSTERED"]) && self.is(at + 1, "BY") => self.fragments(at),
            Keyword::DOMAIN if self.follows(at, &["CREATE", "ALTER", "DROP"]) && self.begins_statement(at - 1) => {
                self.domain(at);
            }
            Keyword::SEQUENCE if self.follows(at, &["CREATE", "TEMPORARY", "TEMP"]) => self.sequence(at),
            Keyword::IDENTITY if *self.token(at + 1) == Token::LParen => self.sequence_options(at + 2),
            Keyword::CONSTRAINT if self.follows(at, &["RENAME"]) => self.renamed_constraint(at),
            _ if self.is(at, "TABLESPACE") => self.tablespace(at),
            _ if self.is(at, "WITHOUT") && self.is(at + 1, "OIDS") && self.defines_rows() => self.drop(at..at + 2),
            _ => return false,
        }
        true
    }

    /// `f() AS (a integer, b text)`: `f() AS f (a integer, b text)`.
    fn alias_of_call(&mut self, at: usize, level: &TokenLevel) {
        let closed = at - 1;
        let opened = (level.opened..closed).rev().find(|open| self.closed.get(open) == Some(&closed));
        if let Some(name @ Token::Word(_)) = opened.and_then(|open| Some(self.token(open.checked_sub(1)?))) {
            self.insert(at + 1, [name.clone()]);
        }
    }

    /// `TRY(CAST(a AS b))`: `TRY_CAST(a AS b)`.
    fn try_cast(&mut self, at: usize) {
        let (outer, inner) = (self.closed.get(&(at + 1)).copied(), self.closed.get(&(at + 3)).copied());
        if let (Some(outer), Some(inner)) = (outer, inner)
            && outer == inner + 1
        {
            self.drop(at..at + 2);
            self.replace(at + 2, [word("TRY_CAST")]);
            self.drop(outer..outer + 1);
        }
    }

    /// `SET VARIABLE v`: the setting of that name.
    fn variable(&mut self, at: usize) {
        if let Token::Word(name) = self.token(at + 1) {
            self.replace(at, [quoted(&format!("{VARIABLE}{}", name.value.to_lowercase()))]);
            self.drop(at + 1..at + 2);
        }
    }

    /// `CREATE SEQUENCE [IF NOT EXISTS] [s.]a …`: its options.
    fn sequence(&mut self, at: usize) {
        let named = if self.is(at + 1, "IF") { at + 4 } else { at + 1 };
        let behind = if *self.token(named + 1) == Token::Period { named + 3 } else { named + 1 };
        self.sequence_options(behind);
    }

    /// `RENAME CONSTRAINT c`: the column of that name.
    fn renamed_constraint(&mut self, at: usize) {
        if let Token::Word(name) = self.token(at + 1) {
            let lower = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            self.replace(at, [quoted(&format!("{CONSTRAINT}{lower}"))]);
            self.drop(at + 1..at + 2);
        }
    }

    /// Whether AS without a name stands between a call and its columns: `f() AS (a integer, b text)`.
    pub(super) fn declares_columns(&self, at: usize) -> bool {
        let is_word = |at: usize| matches!(self.token(at), Token::Word(_));
        at > 0
            && *self.token(at - 1) == Token::RParen
            && *self.token(at + 1) == Token::LParen
            && is_word(at + 2)
            && is_word(at + 3)
            && !self
                .is_any(at + 2, &["SELECT", "WITH", "VALUES", "TABLE", "FROM", "INSERT", "UPDATE", "DELETE", "MERGE"])
    }

    fn is_in_substring(&self, level: &TokenLevel) -> bool {
        level.opened > 0 && self.is(level.opened - 1, "SUBSTRING")
    }

    /// Whether AT begins `AT (TIMESTAMP => …)`, `AT (VERSION => …)` or `AT TIME ZONE`.
    fn is_of_past(&self, at: usize) -> bool {
        let is_clause = *self.token(at + 1) == Token::LParen && self.is_any(at + 2, &["TIMESTAMP", "VERSION"]);
        self.is(at, "AT") && (is_clause || self.is_any(at + 1, &["TIME", "LOCAL"]))
    }
}
