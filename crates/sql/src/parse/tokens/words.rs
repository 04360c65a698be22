//! Words that the parser takes for the beginning of a clause or an expression where PostgreSQL has a name: columns that
//! are called `key`, `index`, `interval` or `top`. They get quotes.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted};

/// What other systems begin a constraint with in a list of columns.
const CONSTRAINTS: [&str; 4] = ["INDEX", "KEY", "FULLTEXT", "SPATIAL"];
/// What begins an expression that goes on in a way of its own.
const BEGINNINGS: [&str; 5] = ["INTERVAL", "STRUCT", "TRIM", "EXISTS", "VALUES"];
/// Behind these, an expression or a column's name follows.
const BEFORE: [&str; 23] = [
    "SELECT",
    "DISTINCT",
    "ALL",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "BY",
    "SET",
    "ON",
    "HAVING",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "RETURNING",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "IN",
    "FROM",
    "QUALIFY",
    "USING",
];
/// Behind an expression, these follow.
const BEHIND: [&str; 32] = [
    "FROM",
    "AS",
    "IS",
    "IN",
    "NOT",
    "LIKE",
    "ILIKE",
    "SIMILAR",
    "BETWEEN",
    "AND",
    "OR",
    "ASC",
    "DESC",
    "NULLS",
    "THEN",
    "WHEN",
    "ELSE",
    "END",
    "ORDER",
    "GROUP",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WHERE",
    "RETURNING",
    "COLLATE",
    "ISNULL",
    "NOTNULL",
    "FOR",
];

impl Text<'_> {
    /// Quotes a word that is a name, if it begins something else for the parser.
    pub(super) fn unreserved(&mut self, at: usize) {
        let is_name = match () {
            () if self.is_any(at, &CONSTRAINTS) => self.names_an_element(at),
            () if self.is(at, "TOP") => self.names_top(at),
            () if self.is_any(at, &BEGINNINGS) => self.is_whole_expression(at),
            () => false,
        };
        if is_name {
            let name = self.token(at).to_string().to_lowercase();
            self.replace(at, [quoted(&name)]);
        }
    }

    /// Whether a column of this name is defined there: `(key text, …)`, `ADD index int`.
    fn names_an_element(&self, at: usize) -> bool {
        let begins_element = at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma)
            || self.follows(at, &["ADD", "COLUMN"])
            || self.follows(at, &["EXISTS"]);
        let is_definition = matches!(self.statement, Keyword::CREATE | Keyword::ALTER);
        is_definition && begins_element && matches!(self.token(at + 1), Token::Word(_))
    }

    /// `SELECT top, …`, and not `SELECT TOP 5`.
    fn names_top(&self, at: usize) -> bool {
        self.follows(at, &["SELECT", "DISTINCT", "ALL"])
            && !matches!(self.token(at + 1), Token::Number(..) | Token::LParen)
    }

    /// Whether an expression begins and ends with this word.
    fn is_whole_expression(&self, at: usize) -> bool {
        let is_read = matches!(
            self.statement,
            Keyword::SELECT
                | Keyword::WITH
                | Keyword::FROM
                | Keyword::INSERT
                | Keyword::UPDATE
                | Keyword::DELETE
                | Keyword::MERGE
                | Keyword::EXPLAIN
        );
        let is_index = self.statement == Keyword::CREATE && self.is_any(self.begin + 1, &["UNIQUE", "INDEX"]);
        let is_listed = |at: usize| matches!(self.token(at), Token::LParen | Token::Comma | Token::Period);
        let begins = at > 0 && (is_listed(at - 1) || self.is_any(at - 1, &BEFORE) || is_operator(self.token(at - 1)));
        let is_inserted = self.is(at, "VALUES") && !self.is_any(at.saturating_sub(1), &["SELECT", "BY", "SET"]);
        let ends = matches!(self.token(at + 1), Token::Comma | Token::RParen | Token::Period | Token::EOF)
            || *self.token(at + 1) == Token::SemiColon
            || *self.token(at + 1) == Token::DoubleColon
            || self.is_any(at + 1, &BEHIND)
            || is_operator(self.token(at + 1));
        // CAST(x AS interval), and names of types in lists of types.
        let is_type = self.is(at, "INTERVAL") && self.follows(at, &["AS"]);
        let is_exists = self.is(at, "EXISTS") && self.follows(at, &["NOT", "IF"]);
        (is_read || is_index) && begins && ends && !is_type && !is_exists && (!is_inserted || is_listed(at - 1))
    }
}

/// Whether a token stands between two expressions.
fn is_operator(token: &Token) -> bool {
    matches!(
        token,
        Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::StringConcat
            | Token::Arrow
            | Token::LongArrow
    )
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn read(sql: &str) -> String {
        match parse_one(sql).unwrap().statement {
            crate::parse::SyntaxTree::Statement(statement) => statement.to_string(),
            other => other.to_string(),
        }
    }

    #[test]
    fn names_that_begin_a_clause_elsewhere_get_quotes() {
        for (sql, expected) in [
            ("CREATE TABLE t (key text, Index int)", "CREATE TABLE t (\"key\" TEXT, \"index\" INT)"),
            ("CREATE TABLE t (a int, PRIMARY KEY (a))", "CREATE TABLE t (a INT, PRIMARY KEY (a))"),
            ("ALTER TABLE t ADD COLUMN key text", "ALTER TABLE t ADD COLUMN \"key\" TEXT"),
            ("SELECT top, interval FROM t", "SELECT \"top\", \"interval\" FROM t"),
            ("SELECT a FROM t WHERE interval = 'day'", "SELECT a FROM t WHERE \"interval\" = 'day'"),
            ("SELECT INTERVAL '1 day' + b", "SELECT INTERVAL '1 day' + b"),
            ("SELECT CAST(a AS INTERVAL)", "SELECT CAST(a AS INTERVAL)"),
            ("INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) VALUES (1)"),
            ("SELECT a WHERE NOT EXISTS (SELECT 1)", "SELECT a WHERE NOT EXISTS (SELECT 1)"),
            ("VALUES (1)", "VALUES (1)"),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }
}
