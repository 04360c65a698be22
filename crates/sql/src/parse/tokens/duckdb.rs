//! Clauses of DuckDB that the parser does not know, made of others. What they become:
//!
//! * `list_filter(l, x -> x > 1)`, `list_filter(l, lambda x: x > 1)`: `list_filter(l, "lambda"(x, x > 1))`; two names
//!   are a row, `"lambda"((x, i), …)`;
//! * `[x + 1 for x in l if x > 1]`: `"list comprehension"(x + 1, x, l, x > 1)`;
//! * `SELECT a: 1`: `SELECT 1 AS a`; `FROM a: t`: `FROM t AS a`;
//! * `FROM t … USING SAMPLE 10%`: a last part of FROM, `"using sample"(10, '%')`;
//! * `ASOF LEFT JOIN t USING (a)`: `ASOF JOIN t MATCH_CONDITION ('left') USING (a)`; 'inner' if no kind is said;
//! * `t TABLESAMPLE 10%`, `t TABLESAMPLE reservoir(10%)`: `t TABLESAMPLE BERNOULLI (10)`; `t TABLESAMPLE 10`:
//!   `t TABLESAMPLE BERNOULLI (10 ROWS)`;
//! * `x GLOB 'a*'`: `x OPERATOR(~~~) 'a*'`;
//! * `CREATE TYPE t AS STRUCT (…)`: `CREATE TYPE t AS (…)`; `CREATE TYPE t AS integer`: `CREATE DOMAIN t AS integer`;
//! * `#1`: `"columns at"(1)`; `2 ** 3`: `2 ^ 3`; `FROM t WHERE …` without SELECT: `SELECT * FROM t WHERE …`;
//! * `a POSITIONAL JOIN b`: `a INNER ARRAY JOIN b`;
//! * `SUMMARIZE q`: `SELECT * FROM "summarize"((q))`;
//! * `UNPIVOT t ON a, b INTO NAME n VALUE v`: `SELECT * FROM t UNPIVOT (v FOR n IN (a, b))`, and PIVOT likewise; of
//!   several values, `((v, w) FOR n IN ((a, b), …))`.

use super::{Text, quoted, word};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// The columns that PIVOT groups by, where it says so.
pub(crate) const PIVOT_GROUPS: &str = "pivot groups";

/// What PIVOT is by, where it is by several: their values are combined.
pub(crate) const PIVOT_PRODUCT: &str = "pivot product";

/// What stands for POSITIONAL in front of JOIN.
const POSITIONAL: [&str; 2] = ["INNER", "ARRAY"];

/// Functions that take a lambda.
const LAMBDA_FUNCTIONS: [&str; 12] = [
    "columns",
    "list_transform",
    "list_apply",
    "array_transform",
    "array_apply",
    "list_filter",
    "array_filter",
    "apply",
    "filter",
    "list_reduce",
    "array_reduce",
    "reduce",
];

/// Words behind which an operand begins.
const BEFORE_OPERANDS: [&str; 29] = [
    "SELECT",
    "DISTINCT",
    "ALL",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "ON",
    "USING",
    "HAVING",
    "QUALIFY",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "BETWEEN",
    "BY",
    "SET",
    "IN",
    "LIKE",
    "ILIKE",
    "ESCAPE",
    "AS",
    "RETURNING",
    "VALUES",
    "LIMIT",
    "OFFSET",
    "FILTER",
];

/// Functions whose arguments may have words between them. As methods they have none.
const CALLED_WITH_WORDS: [&str; 4] = ["substring", "substr", "trim", "overlay"];

/// What is open.
#[derive(Default)]
pub(super) struct Open {
    /// Where; of the statement itself, its begin.
    at: usize,
    /// A bracket or a brace.
    is_parenthesis: bool,
    /// Whether it is a list comprehension, whose FOR has been met.
    is_comprehension: bool,
    /// Whether a SELECT list is being read.
    in_list: bool,
    /// The name that stands in front of the expression that is being read.
    alias: Option<Token>,
    /// Where FROM begins and ends.
    from: Option<usize>,
    from_end: Option<usize>,
}

impl Text<'_> {
    /// What a token means to the clauses above.
    pub(super) fn duckdb(&mut self, at: usize, opens: &mut Vec<Open>) {
        let token = self.token(at);
        let Some(last) = opens.last_mut() else {
            opens.push(Open { at, is_parenthesis: true, ..Open::default() });
            return self.duckdb(at, opens);
        };
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_parenthesis = *token == Token::LParen;
                opens.push(Open { at, is_parenthesis, ..Open::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.end_alias(at, last);
                if last.is_comprehension {
                    self.replace(at, [Token::RParen]);
                }
                if opens.len() > 1 {
                    opens.pop();
                }
            }
            Token::Comma => {
                self.end_alias(at, last);
                let opened = last.at;
                self.last_comma(at, opened);
            }
            Token::SemiColon => {
                self.end_alias(at, last);
                opens.clear();
            }
            Token::Arrow => self.arrow(at, last),
            Token::Mul if self.is_power(at) => {
                self.replace(at, [Token::Caret]);
                self.drop(at + 1..at + 2);
            }
            Token::Mul if self.begins_item(at, last) => self.star_like(at, at),
            Token::Mul if self.follows(at, &["BY"]) && self.is(at.saturating_sub(2), "ORDER") => {
                self.replace(at, [word("ALL")]);
            }
            // `t.*`
            Token::Mul if at > 2 && *self.token(at - 1) == Token::Period && self.begins_item(at - 2, last) => {
                self.star_like(at - 2, at);
            }
            Token::Mul if self.is(at + 1, "COLUMNS") && *self.token(at + 2) == Token::LParen => self.unpacked(at),
            Token::Mul if self.is_any(at + 1, &["EXCLUDE", "REPLACE", "RENAME"]) => self.star_of_table(at, last.at),
            // `x.substring(1, 2)`: a function whose own clauses the parser would read.
            Token::Word(found) if self.is_plain_call(at) => self.replace(at, [quoted(&found.value.to_lowercase())]),
            Token::Word(found) => {
                let is_named = *self.token(at + 1) == Token::Colon && self.begins_item(at, last);
                if is_named {
                    last.alias = Some(token.clone());
                    self.drop(at..at + 2);
                } else if *self.token(at + 1) == Token::Colon && self.begins_factor(at, last) {
                    self.named_factor(at);
                } else if found.quote_style.is_none() {
                    self.duckdb_word(at, found.keyword, last);
                }
            }
            _ => {}
        }
    }

    /// Whether a method is called there in whose arguments the parser would read clauses.
    fn is_plain_call(&self, at: usize) -> bool {
        let is_method = at > 0 && *self.token(at - 1) == Token::Period && *self.token(at + 1) == Token::LParen;
        is_method && self.is_any(at, &CALLED_WITH_WORDS)
    }

    /// `f(*COLUMNS(…))`: all of the columns are arguments.
    fn unpacked(&mut self, at: usize) {
        if at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma | Token::LBracket) {
            self.drop(at..at + 1);
            self.replace(at + 1, [quoted("unpacked columns")]);
        }
    }

    /// Whether two stars stand side by side between two operands.
    fn is_power(&self, at: usize) -> bool {
        *self.token(at + 1) == Token::Mul && self.words[at + 1] == self.words[at] + 1 && self.is_behind_operand(at)
    }

    /// Whether `#1` stands there, a column by its place.
    pub(super) fn is_position(&self, at: usize) -> bool {
        matches!(self.token(at + 1), Token::Number(..))
            && self.words[at + 1] == self.words[at] + 1
            && !self.is_behind_operand(at)
    }

    /// `#1`: a column of FROM, `"columns at"(1)`; behind ORDER BY and GROUP BY one of the SELECT list, `1`.
    pub(super) fn position(&mut self, at: usize) {
        let number = self.token(at + 1).clone();
        let clauses = ["SELECT", "WHERE", "HAVING", "QUALIFY", "ON", "BY"];
        let clause = (0..at).rev().find(|place| self.is_any(*place, &clauses));
        match clause.is_some_and(|clause| self.is(clause, "BY")) {
            true => self.replace(at, []),
            false => {
                self.replace(at, [quoted("columns at"), Token::LParen]);
                self.replace(at + 1, [number, Token::RParen]);
            }
        }
    }

    fn is_behind_operand(&self, at: usize) -> bool {
        at > 0
            && match self.token(at - 1) {
                // Many names are words of some statement: `name GLOB 'a*'`.
                Token::Word(word) => word.quote_style.is_some() || !self.is_any(at - 1, &BEFORE_OPERANDS),
                token => {
                    matches!(token, Token::Number(..) | Token::RParen | Token::RBracket | Token::SingleQuotedString(_))
                }
            }
    }

    /// `x GLOB 'a*'`.
    fn glob(&mut self, at: usize) {
        if self.is_behind_operand(at) && matches!(self.token(at + 1), Token::SingleQuotedString(_)) {
            let sign = Token::CustomBinaryOperator("~~~".to_owned());
            self.replace(at, [word("OPERATOR"), Token::LParen, sign, Token::RParen]);
        }
    }

    /// `TABLESAMPLE 10%` and `TABLESAMPLE method(10%)`, or with PERCENT; `TABLESAMPLE 10`, `10 ROWS` and
    /// `reservoir(10)`.
    fn table_sample(&mut self, at: usize) {
        let has_method = *self.token(at + 2) == Token::LParen;
        let first = if has_method { at + 3 } else { at + 1 };
        let is_share = *self.token(first + 1) == Token::Mod || self.is(first + 1, "PERCENT");
        let says_rows = self.is(first + 1, "ROWS");
        let is_rows = !is_share && (says_rows || !has_method || self.is(at + 1, "RESERVOIR"));
        let count = self.token(first).clone();
        if !is_share && !is_rows || !matches!(count, Token::Number(..)) {
            return;
        }
        let mut end = first + 1 + usize::from(is_share || says_rows);
        let mut seed = None;
        if *self.token(end) == Token::LParen && !has_method {
            seed = self.seed_of_method(end);
            end = self.closed.get(&end).map_or(end, |closed| closed + 1);
        } else if has_method {
            end += usize::from(*self.token(end) == Token::RParen);
        }
        let method = if has_method && self.is(at + 1, "SYSTEM") { "SYSTEM" } else { "BERNOULLI" };
        let unit = is_rows.then(|| word("ROWS"));
        let sample = [word(method), Token::LParen, count].into_iter().chain(unit).chain([Token::RParen]);
        let seed = seed.map(|seed| [word("REPEATABLE"), Token::LParen, seed, Token::RParen]);
        self.replace(at + 1, sample.chain(seed.into_iter().flatten()).collect::<Vec<_>>());
        self.drop(at + 2..end);
    }

    /// The seed in `(bernoulli, 42)`.
    fn seed_of_method(&self, opened: usize) -> Option<Token> {
        let is_seed = *self.token(opened + 2) == Token::Comma && *self.token(opened + 4) == Token::RParen;
        is_seed.then(|| self.token(opened + 3).clone())
    }

    /// `CREATE TYPE t AS` a struct, or another type's name.
    fn created_type(&mut self, at: usize) {
        let Some(told) = [at + 2, at + 4].into_iter().find(|place| self.is(*place, "AS")).map(|place| place + 1) else {
            return;
        };
        if self.is(told, "STRUCT") && *self.token(told + 1) == Token::LParen {
            self.drop(told..told + 1);
        } else if matches!(self.token(told), Token::Word(_)) && !self.is_any(told, &["ENUM", "RANGE"]) {
            self.domain(at);
        }
    }

    /// Puts SELECT * in front of a query that begins with FROM, has no SELECT and goes on behind FROM.
    fn select_everything(&mut self, at: usize, open: &Open) {
        let is_inserted = at > 2 && self.is(at - 3, "INSERT") && self.is(at - 2, "INTO");
        let begins = at == open.at
            || is_inserted
            || at > 0 && open.at == at - 1 && *self.token(at - 1) == Token::LParen
            || self.follows(at, &["UNION", "EXCEPT", "INTERSECT", "ALL", "AS"])
            || self.is_explained(at)
            || self.is_body_of_macro(at)
            || self.is_behind_ctes(at, open);
        // A function's argument: `trim(FROM x)`.
        let is_argument = open.at > 0
            && open.at + 1 == at
            && matches!(self.token(open.at - 1), Token::Word(word)
            if word.keyword == Keyword::NoKeyword || word.keyword == Keyword::TRIM);
        if !begins || is_argument {
            return;
        }
        let (mut next, mut goes_on) = (at + 1, is_inserted);
        loop {
            match self.token(next) {
                Token::LParen => match self.closed.get(&next) {
                    Some(closed) => next = *closed,
                    None => return,
                },
                Token::RParen | Token::SemiColon | Token::EOF => break,
                _ if self.is(next, "SELECT") => return self.select_behind_from(at, open),
                _ if self.is_any(next, &["UNION", "EXCEPT", "INTERSECT"]) => break,
                _ => goes_on |= self.is_any(next, &["WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW"]),
            }
            next += 1;
        }
        if goes_on {
            self.insert(at, [word("SELECT"), Token::Mul]);
        }
    }

    /// `(FROM t SELECT …)` as a value: `(SELECT * FROM (FROM t SELECT …))`.
    fn select_behind_from(&mut self, at: usize, open: &Open) {
        const BEFORE_VALUES: [&str; 16] = [
            "SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "QUALIFY", "CASE", "WHEN", "THEN",
            "ELSE", "BETWEEN", "BY", "SET",
        ];
        if open.at == 0 || open.at + 1 != at || *self.token(open.at) != Token::LParen {
            return;
        }
        let is_value = match self.token(open.at - 1) {
            // The first argument of a call.
            Token::LParen => {
                const BEFORE_QUERIES: [&str; 6] = ["FROM", "JOIN", "LATERAL", "AS", "EXISTS", "IN"];
                let is_word = open.at > 1 && matches!(self.token(open.at - 2), Token::Word(_));
                is_word && !self.is_any(open.at - 2, &BEFORE_QUERIES)
            }
            Token::Word(_) => self.follows(open.at, &BEFORE_VALUES),
            Token::Comma | Token::LBracket | Token::Eq | Token::Neq | Token::Lt | Token::Gt => true,
            Token::LtEq | Token::GtEq | Token::Plus | Token::Minus | Token::Mul | Token::Div => true,
            Token::Mod | Token::StringConcat | Token::Assignment => true,
            _ => false,
        };
        if let Some(closed) = self.closed.get(&open.at).copied().filter(|_| is_value) {
            self.insert(at, [word("SELECT"), Token::Mul, word("FROM"), Token::LParen]);
            self.insert(closed, [Token::RParen]);
        }
    }

    /// Ends what the text's end ends.
    pub(super) fn duckdb_end(&mut self, opens: &mut [Open]) {
        let end = self.words.len();
        if let [open] = opens {
            self.end_alias(end, open);
        }
    }

    /// Whether an item of a SELECT list begins at a place.
    fn begins_item(&self, at: usize, open: &Open) -> bool {
        open.in_list
            && at > 0
            && (*self.token(at - 1) == Token::Comma || self.is_any(at - 1, &["SELECT", "DISTINCT", "ALL"]))
    }

    /// Whether a table, or what stands for one, begins at a place of FROM.
    fn begins_factor(&self, at: usize, open: &Open) -> bool {
        let is_in_from = open.from.is_some() && open.from_end.is_none() && !open.in_list;
        is_in_from && at > 0 && (*self.token(at - 1) == Token::Comma || self.is_any(at - 1, &["FROM", "JOIN"]))
    }

    /// `FROM a: t`: `FROM t AS a`.
    fn named_factor(&mut self, at: usize) {
        let alias = self.token(at).clone();
        let first = at + 2;
        let name_end = if *self.token(first) == Token::LParen { first } else { self.name_end(first) };
        let end = self.closed.get(&name_end).map_or(name_end, |closed| closed + 1);
        self.drop(at..at + 2);
        self.insert_or_end(end, [word("AS"), alias]);
    }

    /// Whether what stands in parentheses are the columns of CREATE TABLE.
    fn is_table_of(&self, opened: usize) -> bool {
        let Some(mut name) = opened.checked_sub(1).filter(|_| self.statement == Keyword::CREATE) else { return false };
        while name > 1 && *self.token(name - 1) == Token::Period {
            name -= 2;
        }
        self.follows(name, &["TABLE", "EXISTS"])
    }

    /// A comma behind the last part of a list, which means nothing. Arguments and names of columns have none.
    fn last_comma(&mut self, at: usize, opened: usize) {
        const CLAUSES: [&str; 7] = ["WHERE", "GROUP", "HAVING", "ORDER", "UNION", "EXCEPT", "INTERSECT"];
        let is_last = match self.token(at + 1) {
            Token::RBracket | Token::RBrace => true,
            Token::RParen => {
                // Names of functions and tables are before all others.
                let lists = ["IN", "VALUES", "EXCLUDE", "EXCEPT", "REPLACE", "RENAME", "ROW", "BY", "ON"];
                let is_named =
                    opened > 0 && matches!(self.token(opened - 1), Token::Word(_)) && !self.is_any(opened - 1, &lists);
                self.statement != Keyword::CREATE && !is_named || self.is_table_of(opened)
            }
            Token::SemiColon | Token::EOF => {
                let clause = |place: &usize| {
                    self.is_any(*place, &["SELECT", "FROM", "VALUES", "SET", "GROUP", "ORDER", "LIMIT", "OFFSET"])
                };
                let found = (0..at).rev().find(clause);
                found.is_some_and(|found| self.is_any(found, &["SELECT", "FROM", "VALUES", "SET", "GROUP"]))
            }
            _ => {
                self.is_any(at + 1, &CLAUSES)
                    || self.is(at + 1, "LIMIT") && matches!(self.token(at + 2), Token::Number(..))
            }
        };
        if is_last {
            self.drop(at..at + 1);
        }
    }

    fn end_alias(&mut self, at: usize, open: &mut Open) {
        if let Some(alias) = open.alias.take() {
            self.insert_or_end(at, [word("AS"), alias]);
        }
    }

    fn duckdb_word(&mut self, at: usize, keyword: Keyword, open: &mut Open) {
        let begins = at == open.at || at > 0 && *self.token(at - 1) == Token::SemiColon;
        match keyword {
            Keyword::SELECT => (open.in_list, open.from, open.from_end) = (true, None, None),
            Keyword::FROM if !self.follows(at, &["DISTINCT"]) => {
                self.end_alias(at, open);
                self.select_everything(at, open);
                (open.in_list, open.from, open.from_end) = (false, Some(at), None);
            }
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::WINDOW
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT
                if open.is_parenthesis =>
            {
                // EXCEPT behind a star leaves out columns, WITHIN GROUP belongs to an aggregate.
                let is_other = match keyword {
                    Keyword::EXCEPT => at > 0 && *self.token(at - 1) == Token::Mul,
                    Keyword::GROUP => !self.is(at + 1, "BY"),
                    _ => false,
                };
                if is_other {
                    return;
                }
                self.end_alias(at, open);
                open.in_list = false;
                if open.from.is_some() {
                    open.from_end.get_or_insert(at);
                }
            }
            Keyword::USING if self.is(at + 1, "SAMPLE") => self.sample(at, open),
            Keyword::TABLESAMPLE => self.table_sample(at),
            Keyword::TYPE if self.follows(at, &["CREATE"]) => self.created_type(at),
            Keyword::SCHEMA if self.statement == Keyword::SET && at < 3 => self.set_schema(at),
            _ if self.is(at, "GLOB") => self.glob(at),
            Keyword::AT => self.moment(at),
            Keyword::FOR if self.is(at + 1, "SYSTEM_TIME") => self.system_time(at),
            Keyword::FOR if !open.is_parenthesis && !open.is_comprehension => self.comprehension(at, open),
            Keyword::IF if open.is_comprehension => self.replace(at, [Token::Comma]),
            Keyword::ASOF => self.asof(at),
            Keyword::INTERVAL => self.interval(at),
            Keyword::REPLACE => self.star_replace(at),
            _ if self.is(at, "POSITIONAL") && self.is(at + 1, "JOIN") => self.replace(at, POSITIONAL.map(word)),
            Keyword::STRUCT if at > 2 && self.follows(at, &["AS"]) && self.is(at - 3, "TYPE") => {}
            Keyword::STRUCT if at > 0 && (*self.token(at - 1) == Token::DoubleColon || self.follows(at, &["AS"])) => {
                self.struct_type(at + 1);
            }
            // The type of a column or of a field.
            Keyword::STRUCT if at > 0 && *self.token(at + 1) == Token::LParen && self.is_typed(at - 1, at + 2) => {
                self.struct_type(at + 1);
            }
            // The type of a map's values.
            Keyword::STRUCT if *self.token(at + 1) == Token::LParen && open.at > 0 && self.is(open.at - 1, "MAP") => {
                self.struct_type(at + 1);
            }
            Keyword::PIVOT | Keyword::UNPIVOT
                if begins || self.begins_query(at, open) || self.is_made(at, open) || self.is_read(at) =>
            {
                if keyword == Keyword::PIVOT { self.pivot_statement(at) } else { self.unpivot_statement(at) }
            }
            // Other names of the same.
            _ if self.is_any(at, &["PIVOT_WIDER", "PIVOT_LONGER"])
                && (begins || self.begins_query(at, open) || self.is_made(at, open)) =>
            {
                if self.is(at, "PIVOT_WIDER") {
                    self.pivot_statement(at)
                } else {
                    self.unpivot_statement(at)
                }
            }
            _ if self.is(at, "LAMBDA") && open.is_parenthesis => self.lambda(at, open),
            Keyword::ATTACH if begins => self.attach(at),
            Keyword::DETACH if begins => self.detach(at),
            _ if self.is(at, "SUMMARIZE") && (begins || self.begins_query(at, open)) => self.summarize(at),
            _ if self.is(at, "SHOW") && (begins || self.begins_query(at, open)) => self.show(at, begins),
            _ if self.is_any(at, &["DESCRIBE", "DESC"]) && (begins || self.begins_query(at, open)) => {
                self.describe(at, begins);
            }
            _ if self.is(at, "PRAGMA") && begins => self.pragma(at),
            _ => {}
        }
    }

    /// Whether a query begins at a place: behind a parenthesis, or behind what WITH names.
    fn begins_query(&self, at: usize, open: &Open) -> bool {
        let first = open.at + usize::from(*self.token(open.at) == Token::LParen);
        let is_behind_with = self.is(first, "WITH") && *self.token(at + 1) != Token::LParen;
        at > 0
            && match self.token(at - 1) {
                Token::LParen => open.at == at - 1,
                Token::RParen => is_behind_with && open.from.is_none(),
                _ => false,
            }
    }

    /// Whether the query of CREATE VIEW, CREATE TABLE or CREATE MACRO begins at a place.
    fn is_made(&self, at: usize, open: &Open) -> bool {
        let is_made = self.follows(at, &["AS"]) || self.is_body_of_macro(at);
        self.statement == Keyword::CREATE && is_made && open.from.is_none() && !open.in_list
    }

    /// Whether the query of `CREATE MACRO … AS TABLE` begins at a place.
    fn is_body_of_macro(&self, at: usize) -> bool {
        self.statement == Keyword::CREATE && at > 2 && self.is(at - 1, "TABLE") && self.is(at - 2, "AS")
    }

    /// Whether the query of EXPLAIN, DESCRIBE or INSERT begins at a place.
    fn is_read(&self, at: usize) -> bool {
        self.is_explained(at) || self.statement == Keyword::INSERT && self.ends_insert_target(at)
    }

    /// Whether what EXPLAIN or DESCRIBE is of begins at a place.
    fn is_explained(&self, at: usize) -> bool {
        if at <= self.begin || !self.is_any(self.begin, &["EXPLAIN", "DESCRIBE", "DESC"]) {
            return false;
        }
        let mut first = self.begin + 1;
        if *self.token(first) == Token::LParen {
            first = self.closed.get(&first).map_or(first, |closed| closed + 1);
        }
        while self.is_any(first, &["ANALYZE", "ANALYSE", "VERBOSE"]) {
            first += 1;
        }
        first == at
    }

    /// Whether the query begins at a place behind the last common table expression.
    fn is_behind_ctes(&self, at: usize, open: &Open) -> bool {
        if open.in_list || !self.begins_query(at, open) || *self.token(at - 1) != Token::RParen {
            return false;
        }
        let opened = (open.at..at).rev().find(|opened| self.closed.get(opened) == Some(&(at - 1)));
        opened.is_some_and(|opened| self.follows(opened, &["AS", "MATERIALIZED"]))
    }

    fn is_name(&self, at: usize) -> bool {
        match self.token(at) {
            Token::Word(word) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
            _ => false,
        }
    }

    /// Whether the word at a place has the type STRUCT whose first field begins at another: it is a name, which may be
    /// a word of statements where a field and its type follow, as in `location STRUCT(x integer)`.
    fn is_typed(&self, at: usize, first: usize) -> bool {
        let is_word = |place| matches!(self.token(place), Token::Word(_));
        let is_field = || is_word(first) && is_word(first + 1) && !self.is(first + 1, "AS");
        self.is_name(at) || is_word(at) && is_field()
    }

    /// `::STRUCT(a integer)`: `::STRUCT<a integer>`.
    fn struct_type(&mut self, opened: usize) {
        if let Some(closed) = self.closed.get(&opened).copied() {
            self.replace(opened, [Token::Lt]);
            self.replace(closed, [Token::Gt]);
        }
    }

    /// Where the argument of a call ends that begins at a place: the comma or the parenthesis behind it.
    fn argument_end(&self, mut at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        loop {
            match self.token(at) {
                Token::LParen => at = *self.closed.get(&at)?,
                Token::LBracket | Token::LBrace => depth += 1,
                Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
                Token::Comma | Token::RParen if depth == 0 => return Some(at),
                Token::EOF | Token::SemiColon => return None,
                _ => {}
            }
            at += 1;
        }
    }

    /// `x -> …` and `(x, i) -> …` as an argument of a function that takes a lambda.
    fn arrow(&mut self, at: usize, open: &Open) {
        let is_call = open.is_parenthesis && open.at > 0 && self.is_any(open.at - 1, &LAMBDA_FUNCTIONS);
        if !is_call || at < 2 {
            return;
        }
        let start = match self.token(at - 1) {
            Token::Word(_) => at - 1,
            Token::RParen => match (open.at..at).rev().find(|opened| self.closed.get(opened) == Some(&(at - 1))) {
                Some(opened) => opened,
                None => return,
            },
            _ => return,
        };
        let begins = *self.token(start - 1) == Token::Comma || start - 1 == open.at;
        if let Some(end) = self.argument_end(at + 1).filter(|_| begins) {
            self.insert(start, [quoted("lambda"), Token::LParen]);
            self.replace(at, [Token::Comma]);
            self.insert(end, [Token::RParen]);
        }
    }

    /// `lambda x: …`, `lambda x, i: …` and `lambda x, y, i: …`.
    fn lambda(&mut self, at: usize, open: &Open) {
        let is_call = open.at > 0 && self.is_any(open.at - 1, &LAMBDA_FUNCTIONS);
        let colon = [at + 2, at + 4, at + 6].into_iter().find(|place| *self.token(*place) != Token::Comma);
        let Some(colon) = colon.filter(|place| *self.token(*place) == Token::Colon) else { return };
        if let Some(end) = self.argument_end(colon + 1).filter(|_| is_call) {
            self.replace(at, [quoted("lambda"), Token::LParen, Token::LParen]);
            self.replace(colon, [Token::RParen, Token::Comma]);
            self.insert(end, [Token::RParen]);
        }
    }

    /// `[… for x in l if …]` and `[… for x, i in l]`.
    fn comprehension(&mut self, at: usize, open: &mut Open) {
        let has_place = *self.token(at + 2) == Token::Comma;
        let inside = at + if has_place { 4 } else { 2 };
        if *self.token(open.at) != Token::LBracket || !self.is(inside, "IN") {
            return;
        }
        open.is_comprehension = true;
        self.replace(open.at, [quoted("list comprehension"), Token::LParen]);
        self.replace(at, [Token::Comma, Token::LParen]);
        self.replace(inside, [Token::RParen, Token::Comma]);
    }

    /// `USING SAMPLE 10%`, `10 PERCENT`, `10 ROWS` and `10`, with a method in parentheses behind it or in front, and a
    /// seed beside the method or behind REPEATABLE.
    fn sample(&mut self, at: usize, open: &Open) {
        let Some(from) = open.from else { return };
        let mut next = at + 2;
        if *self.token(next + 1) == Token::LParen {
            // `reservoir(10 ROWS)`, `bernoulli(10 PERCENT)`
            next += 2;
        }
        let count = self.token(next).clone();
        if !matches!(count, Token::Number(..)) {
            return;
        }
        let is_share = *self.token(next + 1) == Token::Mod || self.is(next + 1, "PERCENT");
        let mut end = next + 1 + usize::from(is_share || self.is(next + 1, "ROWS"));
        while matches!(self.token(end), Token::RParen) && next > at + 2 && self.closed.get(&(next - 1)) == Some(&end) {
            end += 1;
        }
        let mut seed = None;
        if *self.token(end) == Token::LParen {
            seed = self.seed_of_method(end);
            end = self.closed.get(&end).map_or(end, |closed| closed + 1);
        }
        if self.is(end, "REPEATABLE") && *self.token(end + 3) == Token::RParen {
            seed = Some(self.token(end + 2).clone());
            end += 4;
        }
        let unit = Token::SingleQuotedString(if is_share { "percent" } else { "rows" }.to_owned());
        let mut call = vec![quoted("using sample"), Token::LParen, count, Token::Comma, unit];
        call.extend(seed.into_iter().flat_map(|seed| [Token::Comma, seed]));
        call.push(Token::RParen);
        let place = open.from_end.filter(|place| *place > from).unwrap_or(at);
        self.drop(at..end);
        self.insert_or_end(place, [Token::Comma].into_iter().chain(call));
    }

    /// `INTERVAL (x + 1) DAY` and `INTERVAL x DAY`: `to_days(x)`.
    fn interval(&mut self, at: usize) {
        const UNITS: [(&str, &str); 13] = [
            ("millennium", "to_millennia"),
            ("century", "to_centuries"),
            ("decade", "to_decades"),
            ("year", "to_years"),
            ("quarter", "to_quarters"),
            ("month", "to_months"),
            ("week", "to_weeks"),
            ("day", "to_days"),
            ("hour", "to_hours"),
            ("minute", "to_minutes"),
            ("second", "to_seconds"),
            ("millisecond", "to_milliseconds"),
            ("microsecond", "to_microseconds"),
        ];
        let unit_at = |place: usize| match self.token(place) {
            Token::Word(word) if word.quote_style.is_none() => {
                let name = word.value.to_lowercase();
                let name = match name.as_str() {
                    "millennia" => "millennium",
                    "centuries" => "century",
                    other => other.strip_suffix('s').unwrap_or(other),
                };
                UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, function)| *function)
            }
            _ => None,
        };
        let closed = self.closed.get(&(at + 1)).copied().filter(|_| *self.token(at + 1) == Token::LParen);
        match (closed, self.token(at + 1)) {
            // PostgreSQL's `INTERVAL (3) '1.2345 s'`, whose digits the parser does not keep: a cast.
            (Some(closed), _) if matches!(self.token(closed + 1), Token::SingleQuotedString(_)) => {
                let digits = (at + 2..closed).map(|at| self.token(at).clone()).collect::<Vec<_>>();
                self.replace(at, [word("CAST"), Token::LParen]);
                self.drop(at + 1..closed + 1);
                let sql_type = [word("AS"), word("INTERVAL"), Token::LParen].into_iter().chain(digits);
                self.insert_or_end(closed + 2, sql_type.chain([Token::RParen, Token::RParen]));
            }
            (Some(closed), _) => {
                if let Some(function) = unit_at(closed + 1) {
                    self.replace(at, [word(function)]);
                    self.drop(closed + 1..closed + 2);
                }
            }
            // What PostgreSQL has no word for.
            (None, Token::Number(..))
                if self.is_any(at + 2, &["decades", "centuries", "millennia", "quarter", "quarters"]) =>
            {
                if let Some(function) = unit_at(at + 2) {
                    self.replace(at, [word(function), Token::LParen]);
                    self.replace(at + 2, [Token::RParen]);
                }
            }
            (None, Token::Word(_)) if self.is_name(at + 1) && unit_at(at + 1).is_none() => {
                if let Some(function) = unit_at(at + 2) {
                    self.replace(at, [word(function), Token::LParen]);
                    self.replace(at + 2, [Token::RParen]);
                }
            }
            _ => {}
        }
    }

    /// `ASOF [LEFT] JOIN t ON …`.
    fn asof(&mut self, at: usize) {
        const KINDS: [&str; 5] = ["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"];
        let kind = KINDS.into_iter().find(|kind| self.is(at + 1, kind));
        let join = at + 1 + usize::from(kind.is_some() || self.is(at + 1, "INNER"));
        let join = join + usize::from(kind.is_some() && self.is(join, "OUTER"));
        if !self.is(join, "JOIN") {
            return;
        }
        let mut place = join + 1;
        while !self.is_any(place, &["ON", "USING", "MATCH_CONDITION"]) {
            match self.token(place) {
                Token::EOF | Token::SemiColon | Token::RParen => return,
                Token::LParen => match self.closed.get(&place) {
                    Some(closed) => place = *closed,
                    None => return,
                },
                _ => {}
            }
            place += 1;
        }
        self.drop(at + 1..join);
        if !self.is(place, "MATCH_CONDITION") {
            let kind = Token::SingleQuotedString(kind.unwrap_or("INNER").to_lowercase());
            self.insert(place, [word("MATCH_CONDITION"), Token::LParen, kind, Token::RParen]);
        }
    }

    /// Where the statement ends that a place is in, or the parentheses around it.
    pub(super) fn statement_end(&self, mut at: usize) -> usize {
        loop {
            at = match self.token(at) {
                Token::EOF | Token::SemiColon | Token::RParen => return at,
                Token::LParen => self.closed.get(&at).map_or(at, |closed| *closed) + 1,
                _ => at + 1,
            };
        }
    }

    fn summarize(&mut self, at: usize) {
        let is_query = *self.token(at + 1) == Token::LParen
            || self.is_any(at + 1, &["SELECT", "WITH", "FROM", "VALUES", "TABLE", "SUMMARIZE", "PIVOT", "UNPIVOT"]);
        let call = [word("SELECT"), Token::Mul, word("FROM"), quoted("summarize"), Token::LParen, Token::LParen];
        let end = self.statement_end(at);
        let table = match () {
            () if self.is_only_from(at + 1, end) => vec![word("SELECT"), Token::Mul],
            () if is_query => vec![],
            () => vec![word("SELECT"), Token::Mul, word("FROM")],
        };
        self.replace(at, call.into_iter().chain(table));
        self.insert_or_end(end, [Token::RParen, Token::RParen]);
    }

    /// The first of these words behind a place, outside of parentheses.
    pub(super) fn next_of(&self, mut at: usize, names: &[&str]) -> Option<usize> {
        loop {
            match self.token(at) {
                Token::EOF | Token::SemiColon | Token::RParen => return None,
                Token::LParen => at = *self.closed.get(&at)?,
                _ if self.is_any(at, names) => return Some(at),
                _ => {}
            }
            at += 1;
        }
    }

    pub(super) fn select_all(&mut self, at: usize) {
        self.replace(at, [word("SELECT"), Token::Mul, word("FROM")]);
    }

    /// `UNPIVOT t ON a, b INTO NAME n VALUE v`.
    fn unpivot_statement(&mut self, at: usize) {
        let Some(on) = self.next_of(at, &["ON"]) else { return };
        let end = self.next_of(on, &["INTO", "ORDER", "LIMIT"]).unwrap_or_else(|| self.statement_end(on));
        let (mut name, mut values, mut behind) = (quoted("name"), vec![quoted("value")], end);
        if self.is(end, "INTO") && self.is(end + 1, "NAME") && self.is_any(end + 3, &["VALUE", "VALUES"]) {
            (name, values) = (self.token(end + 2).clone(), vec![self.token(end + 4).clone()]);
            behind = end + 5;
            // Several values are a row.
            while *self.token(behind) == Token::Comma {
                values.extend([Token::Comma, self.token(behind + 1).clone()]);
                behind += 2;
            }
            if values.len() > 1 {
                values.insert(0, Token::LParen);
                values.push(Token::RParen);
            }
        }
        for (begin, item_end) in self.items(on + 1, end) {
            // All columns, or all but some: `COLUMNS(* …)`.
            if *self.token(begin) == Token::Mul {
                self.replace(begin, [word("COLUMNS"), Token::LParen, Token::Mul]);
                self.insert_or_end(item_end, [Token::RParen]);
            }
        }
        self.select_all(at);
        let head = [word("UNPIVOT"), Token::LParen].into_iter().chain(values);
        let head = head.chain([word("FOR"), name, word("IN"), Token::LParen]).collect::<Vec<_>>();
        self.replace(on, head);
        self.drop(end..behind);
        self.insert_or_end(end, [Token::RParen, Token::RParen]);
    }
}
