//! Statements that `sqlparser` does not know or reads otherwise, on its parser: CREATE EXTERNAL TABLE, COPY … TO,
//! EXPLAIN, RESET.

use sqlparser::ast::{Expr, Ident, ObjectName, UtilityOption, Value};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::PARSER_DEPTH_MAX;
use super::tree::{CopySource, CopyTo, CreateExternalTable, Explain, NamedOption, SyntaxTree};

type Parsed<T> = Result<T, ParserError>;

/// The trees of all statements in a list of tokens. Fails at the first token that cannot follow those before.
pub(super) fn statements(tokens: Vec<TokenWithSpan>, dialect: &dyn Dialect) -> Parsed<Vec<SyntaxTree>> {
    let parser = Parser::new(dialect).with_tokens_with_locations(tokens).with_recursion_limit(PARSER_DEPTH_MAX);
    let mut parser = StatementParser { parser };
    let mut found = Vec::new();
    loop {
        let mut is_separated = found.is_empty();
        while parser.parser.consume_token(&Token::SemiColon) {
            is_separated = true;
        }
        let next = parser.parser.peek_token();
        if next.token == Token::EOF {
            return Ok(found);
        }
        if !is_separated {
            return parser.parser.expected("end of statement", next);
        }
        found.push(parser.statement()?);
    }
}

/// The parser with our statements.
struct StatementParser<'a> {
    parser: Parser<'a>,
}

impl StatementParser<'_> {
    fn statement(&mut self) -> Parsed<SyntaxTree> {
        let keyword = |token: TokenWithSpan| match token.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        match keyword(self.parser.peek_token()) {
            Keyword::CREATE => {
                let is_replacing = self.parser.parse_keywords(&[
                    Keyword::CREATE,
                    Keyword::OR,
                    Keyword::REPLACE,
                    Keyword::EXTERNAL,
                    Keyword::TABLE,
                ]);
                if is_replacing || self.parser.parse_keywords(&[Keyword::CREATE, Keyword::EXTERNAL, Keyword::TABLE]) {
                    return self.create_external_table(is_replacing).map(SyntaxTree::CreateExternalTable);
                }
            }
            Keyword::COPY if keyword(self.parser.peek_nth_token(1)) != Keyword::INTO => {
                self.parser.next_token();
                return self.copy_to().map(SyntaxTree::CopyTo);
            }
            Keyword::EXPLAIN => {
                self.parser.next_token();
                return self.explain().map(SyntaxTree::Explain);
            }
            Keyword::RESET => {
                self.parser.next_token();
                return self.reset().map(SyntaxTree::Reset);
            }
            _ => {}
        }
        self.parser.parse_statement().map(|statement| SyntaxTree::Statement(Box::new(statement)))
    }

    /// What follows CREATE [OR REPLACE] EXTERNAL TABLE.
    fn create_external_table(&mut self, or_replace: bool) -> Parsed<CreateExternalTable> {
        let if_not_exists = self.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        if if_not_exists && or_replace {
            return error("IF NOT EXISTS and OR REPLACE exclude each other");
        }
        let name = self.parser.parse_object_name(true)?;
        let (mut columns, constraints) = self.parser.parse_columns()?;
        let (mut format, mut location, mut partitioned_by, mut options) = (None, None, None, None);
        loop {
            if self.parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
                once(&mut format, "STORED AS", self.word("the name of a format")?.to_uppercase())?;
            } else if self.parser.parse_keyword(Keyword::LOCATION) {
                let place = self.parser.parse_literal_string()?;
                once(&mut location, "LOCATION", place)?;
            } else if self.parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
                // Names of columns, or columns with their types.
                let behind = self.parser.peek_nth_token(2);
                let names = if matches!(behind.token, Token::Comma | Token::RParen) {
                    self.names()?
                } else {
                    let (more, constraints) = self.parser.parse_columns()?;
                    if !constraints.is_empty() {
                        return error("columns of PARTITIONED BY have no constraints");
                    }
                    let names = more.iter().map(|column| column.name.clone()).collect();
                    columns.extend(more);
                    names
                };
                once(&mut partitioned_by, "PARTITIONED BY", names)?;
            } else if self.parser.parse_keyword(Keyword::OPTIONS) {
                let given = self.options(&mut partitioned_by)?;
                once(&mut options, "OPTIONS", given)?;
            } else {
                self.end()?;
                break;
            }
        }
        let Some(format) = format else { return error("CREATE EXTERNAL TABLE needs STORED AS, and found none") };
        let Some(location) = location else { return error("CREATE EXTERNAL TABLE needs LOCATION, and found none") };
        let (partitioned_by, options) = (partitioned_by.unwrap_or_default(), options.unwrap_or_default());
        Ok(CreateExternalTable {
            name,
            columns,
            constraints,
            format,
            partitioned_by,
            options,
            location,
            or_replace,
            if_not_exists,
        })
    }

    /// What follows COPY.
    fn copy_to(&mut self) -> Parsed<CopyTo> {
        let source = if self.parser.consume_token(&Token::LParen) {
            let query = self.parser.parse_query()?;
            self.parser.expect_token(&Token::RParen)?;
            CopySource::Query(query)
        } else {
            let name = self.parser.parse_object_name(true)?;
            let is_listed = self.parser.peek_token().token == Token::LParen;
            let columns = if is_listed { self.names()? } else { Vec::new() };
            CopySource::Relation(name, columns)
        };
        if self.parser.parse_keyword(Keyword::FROM) {
            self.file_is_named()?;
            return self.parser.expected("the name of a file in quotes", self.parser.peek_token());
        }
        let (mut target, mut format, mut partitioned_by, mut options) = (None, None, None, None);
        loop {
            if self.parser.parse_keyword(Keyword::TO) {
                self.file_is_named()?;
                let place = self.parser.parse_literal_string()?;
                once(&mut target, "TO", place)?;
            } else if self.parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
                once(&mut format, "STORED AS", self.word("the name of a format")?)?;
            } else if self.parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
                let names = self.names()?;
                once(&mut partitioned_by, "PARTITIONED BY", names)?;
            } else if self.parser.parse_keyword(Keyword::OPTIONS)
                || self.parser.parse_keyword(Keyword::WITH)
                || target.is_some() && self.parser.peek_token().token == Token::LParen
            {
                let given = self.options(&mut partitioned_by)?;
                once(&mut options, "OPTIONS", given)?;
            } else {
                self.end()?;
                break;
            }
        }
        let Some(target) = target else { return error("COPY needs TO and the name of a file, and found none") };
        let (partitioned_by, options) = (partitioned_by.unwrap_or_default(), options.unwrap_or_default());
        Ok(CopyTo { source, target, format, partitioned_by, options })
    }

    /// Fails if a COPY names no file, but the client or a program.
    fn file_is_named(&self) -> Parsed<()> {
        let Token::Word(word) = self.parser.peek_token().token else { return Ok(()) };
        match word.value.to_ascii_uppercase().as_str() {
            "STDOUT" => error(
                "COPY TO STDOUT needs the command, or a client of PostgreSQL's protocol; over HTTP send the query \
                 itself with Accept: text/csv; in a program COPY … TO '/dev/stdout' (FORMAT csv) writes to standard output",
            ),
            "STDIN" => error(
                "COPY FROM STDIN needs the command, or a client of PostgreSQL's protocol; over HTTP use INSERT; in a \
                 program COPY … FROM '/dev/stdin' (FORMAT csv) reads standard input",
            ),
            "PROGRAM" => error(
                "COPY does not run programs; the shell's \\copy does, and COPY reads and writes pipes that have a name",
            ),
            _ => Ok(()),
        }
    }

    /// What follows EXPLAIN. A parenthesis is that of options, unless a query begins behind it.
    fn explain(&mut self) -> Parsed<Explain> {
        let (mut analyze, mut verbose, mut json) = (false, false, false);
        if self.parser.peek_token().token == Token::LParen && !begins_query(&self.parser.peek_nth_token(1).token) {
            for option in self.parser.parse_utility_options()? {
                match option.name.value.to_ascii_lowercase().as_str() {
                    "analyze" => analyze = truth(&option)?,
                    "verbose" => verbose = truth(&option)?,
                    "format" => match &option.arg {
                        Some(Expr::Identifier(name)) => json = is_json(&name.value)?,
                        Some(Expr::Value(value)) => {
                            json = is_json(&value.value.clone().into_string().unwrap_or_default())?
                        }
                        _ => return error("EXPLAIN's FORMAT is TEXT or JSON"),
                    },
                    _ => return error(&format!("unrecognized EXPLAIN option \"{}\"", option.name.value)),
                }
            }
        } else {
            analyze = self.parser.parse_keyword(Keyword::ANALYZE);
            verbose = self.parser.parse_keyword(Keyword::VERBOSE);
            if self.parser.parse_keyword(Keyword::FORMAT) {
                json = is_json(&self.word("TEXT or JSON")?)?;
            }
        }
        Ok(Explain { analyze, verbose, json, statement: Box::new(self.statement()?) })
    }

    /// What follows RESET: names with dots between them.
    fn reset(&mut self) -> Parsed<ObjectName> {
        let mut parts = Vec::new();
        loop {
            parts.push(Ident::new(self.word("the name of a setting")?));
            if !self.parser.consume_token(&Token::Period) {
                self.end()?;
                return Ok(ObjectName::from(parts));
            }
        }
    }

    /// `(name, …)`.
    fn names(&mut self) -> Parsed<Vec<Ident>> {
        self.parser.expect_token(&Token::LParen)?;
        let names = self.parser.parse_comma_separated(Parser::parse_identifier)?;
        self.parser.expect_token(&Token::RParen)?;
        Ok(names)
    }

    /// `[a, b]`, as DuckDB writes lists.
    fn bracketed_names(&mut self) -> Parsed<Vec<Ident>> {
        self.parser.expect_token(&Token::LBracket)?;
        let names = self.parser.parse_comma_separated(Parser::parse_identifier)?;
        self.parser.expect_token(&Token::RBracket)?;
        Ok(names)
    }

    /// `(name value, …)`, where names may have dots between their parts, and a name alone means true. `PARTITION_BY
    /// (column, …)` is DuckDB's spelling of PARTITIONED BY.
    fn options(&mut self, partitioned_by: &mut Option<Vec<Ident>>) -> Parsed<Vec<NamedOption>> {
        self.parser.expect_token(&Token::LParen)?;
        let mut options = Vec::new();
        loop {
            let mut name = self.word("the name of an option")?;
            while self.parser.consume_token(&Token::Period) {
                name = format!("{name}.{}", self.word("the name of an option")?);
            }
            if name.eq_ignore_ascii_case("partition_by") {
                let names = match self.parser.peek_token().token {
                    Token::LParen => self.names()?,
                    Token::LBracket => self.bracketed_names()?,
                    _ => vec![self.parser.parse_identifier()?],
                };
                once(partitioned_by, "PARTITION_BY", names)?;
            } else {
                self.option_values(name, &mut options)?;
            }
            let is_followed = self.parser.consume_token(&Token::Comma);
            if self.parser.consume_token(&Token::RParen) {
                return Ok(options);
            }
            if !is_followed {
                return self.parser.expected("',' or ')' after an option", self.parser.peek_token());
            }
        }
    }

    /// A value, or several: of `name (a, b)` and `name *` each is an option of that name, `name {a: 1}` is `name::a`.
    fn option_values(&mut self, name: String, options: &mut Vec<NamedOption>) -> Parsed<()> {
        if self.parser.consume_token(&Token::Mul) {
            options.push((name, Value::SingleQuotedString("*".to_owned())));
        } else if matches!(self.parser.peek_token().token, Token::LParen | Token::LBracket) {
            let is_bracketed = self.parser.peek_token().token == Token::LBracket;
            let names = if is_bracketed { self.bracketed_names()? } else { self.names()? };
            let names = names.into_iter().map(|column| super::lower(&column));
            options.extend(names.map(|column| (name.clone(), Value::SingleQuotedString(column))));
        } else if self.parser.consume_token(&Token::LBrace) {
            while !self.parser.consume_token(&Token::RBrace) {
                let key = self.word("a name, ':' and a value")?;
                self.parser.expect_token(&Token::Colon)?;
                options.push((format!("{name}::{key}"), self.option_value()?));
                if !self.parser.consume_token(&Token::Comma) && self.parser.peek_token().token != Token::RBrace {
                    return self.parser.expected("',' or '}' after a value", self.parser.peek_token());
                }
            }
        } else {
            options.push((name, self.option_value()?));
        }
        Ok(())
    }

    fn option_value(&mut self) -> Parsed<Value> {
        let next = self.parser.peek_token();
        let value = match next.token.clone() {
            Token::Comma | Token::RParen => return Ok(Value::SingleQuotedString("true".to_owned())),
            Token::Word(word) => Value::SingleQuotedString(word.value),
            Token::SingleQuotedString(text) => Value::SingleQuotedString(text),
            Token::DoubleQuotedString(text) => Value::DoubleQuotedString(text),
            Token::EscapedStringLiteral(text) => Value::EscapedStringLiteral(text),
            Token::Number(digits, is_long) => Value::Number(digits, is_long),
            _ => return self.parser.expected("a text, a number or a word", next),
        };
        self.parser.next_token();
        Ok(value)
    }

    /// A word, quoted in any way or not at all.
    fn word(&mut self, what: &str) -> Parsed<String> {
        let next = self.parser.next_token();
        match next.token {
            Token::Word(word) => Ok(word.value),
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                Ok(text)
            }
            _ => self.parser.expected(what, next),
        }
    }

    /// Fails unless the statement ends here.
    fn end(&self) -> Parsed<()> {
        let next = self.parser.peek_token();
        match next.token {
            Token::EOF | Token::SemiColon => Ok(()),
            _ => self.parser.expected("end of statement", next),
        }
    }
}

fn error<T>(message: &str) -> Parsed<T> {
    Err(ParserError::ParserError(message.to_owned()))
}

/// Keeps what a clause says. Fails if it has been said before.
fn once<T>(place: &mut Option<T>, clause: &str, value: T) -> Parsed<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => error(&format!("{clause} is given twice")),
    }
}

fn begins_query(token: &Token) -> bool {
    match token {
        Token::LParen => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT
                | Keyword::WITH
                | Keyword::VALUES
                | Keyword::TABLE
                | Keyword::FROM
                | Keyword::INSERT
                | Keyword::UPDATE
                | Keyword::DELETE
                | Keyword::MERGE
        ),
        _ => false,
    }
}

fn is_json(format: &str) -> Parsed<bool> {
    match format.to_ascii_lowercase().as_str() {
        "json" => Ok(true),
        "text" => Ok(false),
        other => {
            error(&format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"; plans are TEXT or JSON"))
        }
    }
}

/// Whether an option of EXPLAIN is on: also if it has no value.
fn truth(option: &UtilityOption) -> Parsed<bool> {
    let text = match &option.arg {
        None => return Ok(true),
        Some(Expr::Identifier(name)) => name.value.clone(),
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(truth) => return Ok(*truth),
            Value::Number(digits, _) => digits.clone(),
            other => other.clone().into_string().unwrap_or_default(),
        },
        Some(other) => other.to_string(),
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => error(&format!("{} requires a Boolean value", option.name.value.to_ascii_lowercase())),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn statements_read_as_they_are_written() {
        for (written, read) in [
            ("EXPLAIN SELECT 1", "EXPLAIN SELECT 1"),
            ("explain analyze verbose format json select 1", "EXPLAIN ANALYZE VERBOSE FORMAT JSON SELECT 1"),
            ("EXPLAIN (ANALYZE on, VERBOSE 1, FORMAT 'json') SELECT 1", "EXPLAIN ANALYZE VERBOSE FORMAT JSON SELECT 1"),
            ("EXPLAIN (ANALYZE off, FORMAT text) SELECT 1", "EXPLAIN SELECT 1"),
            ("EXPLAIN (SELECT 1) UNION SELECT 2", "EXPLAIN (SELECT 1) UNION SELECT 2"),
            ("RESET a.b", "RESET a.b"),
            ("COPY t TO 'a.csv'", "COPY t TO 'a.csv'"),
            (
                "COPY s.t (a, \"B\") TO 'a''b' WITH (FORMAT csv, HEADER);",
                "COPY s.t (a, \"B\") TO 'a''b' OPTIONS ('FORMAT' 'csv', 'HEADER' 'true')",
            ),
            (
                "COPY (SELECT 1) TO 'f/' STORED AS PARQUET PARTITIONED BY (a, \"b c\") OPTIONS (x.y 2)",
                "COPY (SELECT 1) TO 'f/' STORED AS PARQUET PARTITIONED BY (a, \"b c\") OPTIONS ('x.y' 2)",
            ),
            (
                "COPY t TO 'f/' (FORMAT parquet, PARTITION_BY (a, b), APPEND)",
                "COPY t TO 'f/' PARTITIONED BY (a, b) OPTIONS ('FORMAT' 'parquet', 'APPEND' 'true')",
            ),
            (
                "CREATE EXTERNAL TABLE IF NOT EXISTS t (a INT NOT NULL) STORED AS csv LOCATION 'a' OPTIONS (delimiter ';')",
                "CREATE EXTERNAL TABLE IF NOT EXISTS t (a INT NOT NULL) STORED AS CSV OPTIONS ('delimiter' ';') LOCATION 'a'",
            ),
            (
                "CREATE OR REPLACE EXTERNAL TABLE t (a INT) STORED AS PARQUET PARTITIONED BY (y INT, m TEXT) LOCATION 'a/'",
                "CREATE OR REPLACE EXTERNAL TABLE t (a INT, y INT, m TEXT) STORED AS PARQUET PARTITIONED BY (y, m) \
                 LOCATION 'a/'",
            ),
        ] {
            let tree = parse_one(written).unwrap().statement;
            assert_eq!(tree.to_string(), read, "{written}");
            assert_eq!(parse_one(read).unwrap().statement, tree, "{read}");
        }
    }

    #[test]
    fn wrong_statements_say_what_is_wrong() {
        for (sql, message) in [
            ("EXPLAIN (COLOR) SELECT 1", "unrecognized EXPLAIN option \"COLOR\""),
            ("EXPLAIN (ANALYZE maybe) SELECT 1", "analyze requires a Boolean value"),
            ("EXPLAIN FORMAT tree SELECT 1", "TEXT or JSON"),
            ("COPY t TO 'a' TO 'b'", "TO is given twice"),
            ("COPY t", "COPY needs TO"),
            ("COPY t TO 'a' (FORMAT csv", "expected ), found the end of the statement"),
            ("COPY t TO 'a' (FORMAT csv HEADER)", "after an option"),
            ("CREATE EXTERNAL TABLE t LOCATION 'a'", "needs STORED AS"),
            ("CREATE EXTERNAL TABLE t STORED AS CSV", "needs LOCATION"),
            ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a' WITH x", "expected end of statement, found WITH"),
            ("RESET", "expected the name of a setting"),
            ("RESET a b", "expected end of statement, found b"),
        ] {
            let error = parse_one(sql).unwrap_err();
            assert!(error.message().contains(message), "{sql}: {error}");
            assert_eq!(error.code(), Some("42601"), "{sql}");
        }
    }
}
