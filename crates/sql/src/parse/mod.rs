//! Text to statements.
//!
//! Planning is recursive in many places, so a statement's depth is measured on its tokens
//! before anything recursive sees it: what is too deep is refused with a message, and what is deep gets a stack to fit
//! ([`with_stack`]).
//!
//! The syntax is PostgreSQL's: `tokens` replaces clauses that the parser does not know, `dialect` says how tight
//! operators bind, `statements` reads the statements that the parser does not have.

mod copy;
mod declared;
mod dialect;
mod statements;
mod tokens;
mod tree;

use std::ops::ControlFlow;

use diligence_base::limits::STATEMENT_BYTES_MAX;
use diligence_base::{Error, Result, Span};
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{self, VisitorMut};
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::errors;
use crate::walking::walk_mut;
pub(crate) use copy::COPY_FROM;
pub(crate) use declared::GIVEN_AS;
pub use declared::with_declared;
use dialect::PostgresSyntax;
use tokens::Rewritten;
pub(crate) use tokens::{
    ALTER_CONSTRAINT, ALTER_IDENTITY, ALTER_SEQUENCE, ATTACHED, AUTHORITY, BACKUP, BY_NAME, BY_POSITION, CHECK,
    CHECKPOINT, CLUSTERED, COLLATED_TYPE, COMBINE, CONCURRENTLY, CONFLICT_VALUE, CONFLICT_WHERE, CONSTRAINT,
    CURRENT_OF, DETACH, DISTRIBUTED, DO, DOMAIN, ELEMENT, EMPTY_SET, ENUM_OF, EQUAL_NULLS, EXCLUDES, EXECUTED, EXPORT,
    FOLD, GROUPING_SETS, HASH, IF_EXISTS, IGNORED, IMPORT, INCLUDED, JOIN_ALIAS, JSON_CALL, JSON_PASSING, KEY_SHARE,
    LIKE, LIMIT_PERCENT, NO_DATA, NO_KEY_UPDATE, NOTHING, OVERRIDING, OVERRIDING_USER, PIVOT_GROUPS, PIVOT_PRODUCT,
    PIVOT_VALUE, PREPARED, PROCEDURE, RANGE, REFRESH, REFUSED, ROUND_ROBIN, ROWS_OF, SET_CONSTRAINTS, SET_ELEMENT,
    SET_PART, TABLE_AT, UNIFORM, UNKNOWN_DROPS, UPKEEP, VARIABLE, VARIADIC_ARRAY, WHOLE_ROW,
};
pub use tree::SyntaxTree;
pub(crate) use tree::{CopySource, CopyTo, CreateExternalTable, Explain, NamedOption, lower, parts_of};

/// Levels that a statement may nest: parentheses, CASEs, subqueries, and operators in a row count one each. Workers
/// evaluate and drop expressions recursively on stacks of 8 MiB, at up to about 1 KiB a level.
pub const NESTING_MAX: usize = 4096;

/// How deep the parser's own recursion may go: the limit that users meet is [`NESTING_MAX`], and [`with_stack`]
/// provides the stack for what it lets through.
const PARSER_DEPTH_MAX: usize = 100_000;

/// Bytes of stack that planning may use per level. Measured on `1+1+…` and `((…))`, with room to spare.
const STACK_BYTES_PER_LEVEL: usize = 24 * 1024;

/// Levels that a SELECT counts besides, because planning one takes 50 KiB of stack.
const SELECT_LEVELS: usize = 4;

/// Bytes of stack that planning uses besides.
const STACK_BYTES_BASE: usize = 1024 * 1024;

/// A syntax tree and how deep it is.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The statement.
    pub statement: SyntaxTree,
    /// Levels, at most [`NESTING_MAX`].
    pub depth: usize,
}

/// Parses exactly one statement, as PostgreSQL reads it, and as the parser's generic dialect does if it is none of
/// PostgreSQL's. A semicolon at the end is allowed. Fails with kind `Input` on anything else.
pub fn parse_one(sql: &str) -> Result<Parsed> {
    parse_postgres(sql).or_else(|error| match parse_generic(sql) {
        Ok(parsed) if !is_query(&parsed.statement) => Ok(parsed),
        _ => Err(error),
    })
}

/// The tree of one expression. Fails with kind `Input` on anything else.
pub fn expression(text: &str) -> Result<ast::Expr> {
    let query = query(&format!("SELECT {text}"))?;
    if let ast::SetExpr::Select(select) = *query.body
        && let [ast::SelectItem::UnnamedExpr(expression)] = select.projection.as_slice()
    {
        return Ok(expression.clone());
    }
    Err(Error::input(format!("this is not one expression: {text}")).with_code("42601"))
}

/// The tree of a query that is part of the program.
pub(crate) fn query(sql: &str) -> Result<ast::Query> {
    match parse_one(sql)?.statement {
        SyntaxTree::Statement(statement) => match *statement {
            ast::Statement::Query(query) => Ok(*query),
            _ => Err(Error::bug("not a query")),
        },
        _ => Err(Error::bug("not a query")),
    }
}

/// Whether a statement is a query, or asks for a query's plan.
fn is_query(statement: &SyntaxTree) -> bool {
    match statement {
        SyntaxTree::Statement(statement) => matches!(statement.as_ref(), ast::Statement::Query(_)),
        SyntaxTree::Explain(explain) => is_query(&explain.statement),
        _ => false,
    }
}

/// The tree of PostgreSQL's syntax.
fn parse_postgres(sql: &str) -> Result<Parsed> {
    let read = |text: &str| tokens::rewritten(tokens(text, &PostgresSyntax::default())?);
    let Rewritten { tokens, mut clauses, queries } = read(sql)?;
    let dialect = PostgresSyntax::with_queries(queries);
    let (mut statement, depth) = parse_tokens(sql, tokens, &dialect, |text| Ok(read(text)?.tokens))?;
    if !clauses.is_empty() {
        // It breaks nowhere.
        let _ = with_stack(depth, || walk(&mut statement, &mut clauses));
    }
    Ok(Parsed { statement: untyped(into_table(statement))?, depth })
}

/// Columns of CREATE TABLE AS that only have names, and generated ones without a type. Fails with 42601 if there is no
/// query that they name.
fn untyped(mut statement: SyntaxTree) -> Result<SyntaxTree> {
    let has_type = |column: &ast::ColumnDef, wanted: &str| match &column.data_type {
        ast::DataType::Custom(name, _) => {
            name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == wanted)
        }
        _ => false,
    };
    if let SyntaxTree::Statement(inner) = &mut statement
        && let ast::Statement::CreateTable(create) = inner.as_mut()
    {
        let has_query = create.query.is_some();
        for column in create.columns.iter_mut().filter(|column| has_type(column, tokens::OF_VALUE)) {
            column.data_type = ast::DataType::Unspecified;
        }
        for column in create.columns.iter_mut().filter(|column| has_type(column, tokens::ONLY_NAMED)) {
            if !has_query {
                let error = Error::input(format!("the column {} has no type", column.name)).with_code("42601");
                return Err(error.with_hint("write CREATE TABLE t (a integer), or CREATE TABLE t (a) AS SELECT …"));
            }
            column.data_type = ast::DataType::Unspecified;
        }
    }
    Ok(statement)
}

/// `SELECT … INTO t FROM …` makes a table, as `CREATE TABLE t AS SELECT …` does.
fn into_table(mut statement: SyntaxTree) -> SyntaxTree {
    if let SyntaxTree::Statement(inner) = &mut statement
        && let ast::Statement::Query(query) = inner.as_mut()
        && let ast::SetExpr::Select(select) = query.body.as_mut()
        && let Some(into) = select.into.take()
    {
        let table = CreateTableBuilder::new(into.name).temporary(into.temporary).query(Some(query.clone()));
        **inner = ast::Statement::CreateTable(table.build());
    }
    statement
}

/// The tree of a statement that PostgreSQL does not have.
fn parse_generic(sql: &str) -> Result<Parsed> {
    let read = |text: &str| tokens(text, &GenericDialect {});
    let (statement, depth) = parse_tokens(sql, read(sql)?, &GenericDialect {}, read)?;
    Ok(Parsed { statement, depth })
}

/// Walks over a statement's queries and expressions, whatever kind of statement it is. The values of SET are no
/// expressions: they are read as they are written.
fn walk(statement: &mut SyntaxTree, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
    match statement {
        SyntaxTree::Statement(statement) if matches!(**statement, ast::Statement::Set(_)) => ControlFlow::Continue(()),
        SyntaxTree::Statement(statement) => walk_mut(&mut **statement, visitor),
        SyntaxTree::CopyTo(copy) => match &mut copy.source {
            CopySource::Query(query) => walk_mut(query, visitor),
            CopySource::Relation(..) => ControlFlow::Continue(()),
        },
        SyntaxTree::Explain(explain) => walk(&mut explain.statement, visitor),
        SyntaxTree::CreateExternalTable(_) | SyntaxTree::Reset(_) => ControlFlow::Continue(()),
    }
}

/// The tree of exactly one statement, and its depth. `read` makes tokens of a text as those were made.
fn parse_tokens(
    sql: &str,
    tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    read: impl Fn(&str) -> Result<Vec<TokenWithSpan>>,
) -> Result<(SyntaxTree, usize)> {
    let tokens = copy::with_copy_from(tokens);
    let depth = depth(&tokens);
    if depth.levels > NESTING_MAX {
        let error = Error::input(format!("the statement nests more than {NESTING_MAX} levels deep"));
        return Err(errors::at(error, depth.place).with_hint("long chains of OR are shorter as IN (…)"));
    }
    let (end, open) = (end_of(&tokens), open_parentheses(&tokens));
    let parse = |tokens| with_stack(depth.levels, || statements::statements(tokens, dialect));
    let statements = parse(tokens).map_err(|error| {
        // Of a parenthesis that is missing at the end the parser says that it found the last word.
        let closed = format!("{}\n{}", sql.trim_end().trim_end_matches(';'), ")".repeat(open));
        if open > 0 && read(&closed).is_ok_and(|tokens| parse(tokens).is_ok()) {
            let error = Error::input("expected ), found the end of the statement").with_code("42601");
            return errors::at(error, Some(end));
        }
        errors::at_end(errors::syntax(&error), end)
    })?;
    match <[_; 1]>::try_from(statements) {
        Ok([statement]) => Ok((statement, depth.levels)),
        Err(none) if none.is_empty() => Err(Error::input("there is no statement in the text")),
        Err(several) => Err(Error::input(format!("expected one statement, found {}", several.len()))
            .with_hint("send statements one by one")),
    }
}

/// How many parentheses are open at the end.
fn open_parentheses(tokens: &[TokenWithSpan]) -> usize {
    let count = |wanted: Token| tokens.iter().filter(|token| token.token == wanted).count();
    count(Token::LParen).saturating_sub(count(Token::RParen))
}

/// The place behind the last word.
fn end_of(tokens: &[TokenWithSpan]) -> Span {
    let last =
        tokens.iter().rfind(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon));
    let end = last.map_or(Location::new(1, 1), |token| token.span.end);
    Span { line: end.line, column: end.column }
}

/// Cuts a script at its semicolons, those in bodies of functions (`BEGIN ATOMIC …; END`) left out. Comments stay with
/// the statement after them; empty statements are left out.
pub fn split(sql: &str) -> Result<Vec<String>> {
    let tokens = tokens(sql, &GenericDialect {})?;
    let lines = LineIndex::new(sql);
    let mut statements = Vec::new();
    let (mut start, mut empty, mut body) = (0, true, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::SemiColon if at < body => {}
            Token::SemiColon => {
                let end = lines.offset(token.span.start);
                if !empty {
                    statements.push(sql[start..end].trim().to_owned());
                }
                (start, empty) = (lines.offset(token.span.end), true);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => {
                empty = false;
                if let Some(end) = tokens::body_end(&tokens, at) {
                    body = end;
                }
            }
        }
    }
    if !empty {
        statements.push(sql[start..].trim().to_owned());
    }
    Ok(statements)
}

/// Runs something that recurses with a statement's depth on a stack that is large enough for it.
pub fn with_stack<T>(depth: usize, body: impl FnOnce() -> T) -> T {
    let bytes = STACK_BYTES_BASE + depth * STACK_BYTES_PER_LEVEL;
    stacker::maybe_grow(bytes, bytes, body)
}

fn tokens(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>> {
    if sql.len() > STATEMENT_BYTES_MAX {
        return Err(Error::resource(format!(
            "the text has {} bytes; at most {STATEMENT_BYTES_MAX} are read",
            sql.len()
        ))
        .with_code("54000")
        .with_hint("load large data with COPY or from files"));
    }
    Tokenizer::new(dialect, sql).tokenize_with_location().map_err(|error| errors::syntax(&ParserError::from(error)))
}

struct Depth {
    levels: usize,
    place: Option<Span>,
}

/// A level's parts: what grows along an expression starts anew at a comma or a clause, what grows along set operations
/// and joins does not.
#[derive(Clone, Copy, Default)]
struct Level {
    operators: usize,
    chain: usize,
    selects: bool,
}

impl Level {
    fn levels(self) -> usize {
        self.operators + self.chain + if self.selects { SELECT_LEVELS } else { 0 }
    }
}

/// An upper bound, up to a small factor, on the depth of the tree that the tokens parse to.
fn depth(tokens: &[TokenWithSpan]) -> Depth {
    let mut open = vec![Level::default()];
    let mut below = 0;
    let mut most = Depth { levels: 0, place: None };
    for token in tokens {
        let last = open.len() - 1;
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                below += open[last].levels() + 1;
                open.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut open, &mut below),
            Token::Comma | Token::SemiColon => open[last].operators = 0,
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => {
                    below += open[last].levels() + 1;
                    open.push(Level::default());
                }
                Keyword::END => close(&mut open, &mut below),
                Keyword::SELECT => {
                    open[last].operators = 0;
                    open[last].selects = true;
                }
                Keyword::FROM
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::ORDER
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE => open[last].operators = 0,
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::JOIN => {
                    open[last].operators = 0;
                    open[last].chain += 1;
                }
                Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::LIKE | Keyword::BETWEEN => {
                    open[last].operators += 1;
                }
                _ => {}
            },
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Whitespace(_)
            | Token::Period
            | Token::EOF => {}
            // Everything else is an operator, or rare enough to count as one.
            _ => open[last].operators += 1,
        }
        let last = open.len() - 1;
        let levels = below + open[last].levels();
        if levels > most.levels {
            most.levels = levels;
            if levels <= NESTING_MAX + 1 {
                most.place = Some(Span { line: token.span.start.line, column: token.span.start.column });
            }
        }
    }
    most
}

fn close(open: &mut Vec<Level>, below: &mut usize) {
    // More closed than opened is the parser's to complain about.
    if open.len() > 1 {
        open.pop();
        let last = open[open.len() - 1];
        *below -= last.levels() + 1;
    }
}

/// Byte offsets of the tokenizer's lines and columns.
struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        Self { text, starts }
    }

    fn offset(&self, location: Location) -> usize {
        let Some(&start) = self.starts.get((location.line as usize).saturating_sub(1)) else { return self.text.len() };
        let rest = &self.text[start..];
        let characters = (location.column as usize).saturating_sub(1);
        start + rest.char_indices().nth(characters).map_or(rest.len(), |(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_cut_outside_of_strings_and_comments() {
        let script = "SELECT ';' AS é; -- one; comment\n/* two; */ SELECT 2;;\nSELECT \"a;b\" FROM t";
        assert_eq!(
            split(script).unwrap(),
            vec!["SELECT ';' AS é", "-- one; comment\n/* two; */ SELECT 2", "SELECT \"a;b\" FROM t"]
        );
        assert!(split("SELECT 'open").unwrap_err().span().is_some());
        assert!(split(" ; -- nothing\n ;").unwrap().is_empty());
    }

    #[test]
    fn depth_counts_what_nests_and_what_chains() {
        let levels = |sql: &str| depth(&tokens(sql, &GenericDialect {}).unwrap()).levels;
        assert!(levels("SELECT a, b, c FROM t WHERE a = 1") < SELECT_LEVELS + 5);
        assert!(levels(&format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100))) >= 100);
        assert!(levels(&format!("SELECT 1{}", "+1".repeat(500))) >= 500);
        assert!(levels(&format!("INSERT INTO t VALUES (1){}", ",(1+1)".repeat(500))) < 20);
        assert!(levels(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(300))) >= 300);
    }

    #[test]
    fn what_is_too_deep_is_refused_and_what_is_not_parses() {
        let nested = |count: usize| format!("SELECT {}1{}", "(".repeat(count), ")".repeat(count));
        assert!(parse_one(&nested(500)).is_ok());
        let error = parse_one(&nested(1_000_000)).unwrap_err();
        assert!(error.message().contains("4096 levels"), "{error}");
        assert!(error.span().is_some());
        let tables = |count: usize| format!("{}SELECT 1{}", "SELECT * FROM (".repeat(count), ") x".repeat(count));
        assert!(parse_one(&tables(500)).is_ok());
        assert!(parse_one(&tables(1000)).unwrap_err().message().contains("4096 levels"));
    }

    /// The query of a text as the front of our own reads it.
    fn own(sql: &str) -> String {
        query(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).to_string()
    }

    #[test]
    fn operators_bind_as_in_postgres() {
        fn shown(expression: &ast::Expr) -> String {
            use ast::Expr::{BinaryOp, Cast, Collate, IsDistinctFrom, IsNull, UnaryOp};
            match expression {
                BinaryOp { left, op, right } => format!("({} {op} {})", shown(left), shown(right)),
                UnaryOp { op, expr } => format!("({op} {})", shown(expr)),
                IsDistinctFrom(left, right) => format!("({} <d> {})", shown(left), shown(right)),
                IsNull(inner) => format!("({} IS NULL)", shown(inner)),
                Cast { expr, data_type, .. } => format!("({}::{data_type})", shown(expr)),
                Collate { expr, collation } => format!("({} COLLATE {collation})", shown(expr)),
                other => other.to_string(),
            }
        }
        for (text, expected) in [
            ("1 + 2 || 3 - 4", "((1 + 2) || (3 - 4))"),
            (
                "a || b = c || d AND NOT e = f OR g IS NULL",
                "((((a || b) = (c || d)) AND (NOT (e = f))) OR (g IS NULL))",
            ),
            ("-2 ^ 2", "((- 2) ^ 2)"),
            ("2 ^ 3 ^ 2 * 4", "(((2 ^ 3) ^ 2) * 4)"),
            ("-2::int", "(- (2::INT))"),
            ("~1 + 2", "(~ (1 + 2))"),
            ("5#3 + 1", "(5 # (3 + 1))"),
            ("a>=-1", "(a >= (- 1))"),
            ("a->-1", "(a -> (- 1))"),
            ("a ~ b = true", "((a ~ b) = true)"),
            ("a IS DISTINCT FROM b AND c", "((a <d> b) AND c)"),
            ("a = b isnull", "((a = b) IS NULL)"),
            ("a::text COLLATE \"C\" || b", "(((a::TEXT) COLLATE \"C\") || b)"),
            ("a COLLATE \"C\" COLLATE x < b", "(((a COLLATE \"C\") COLLATE x) < b)"),
            ("a BETWEEN SYMMETRIC b AND c + 1 AND d", "(\"between symmetric\"(a, b, c + 1) AND d)"),
        ] {
            let query = query(&format!("SELECT {text}")).unwrap();
            let ast::SetExpr::Select(select) = query.body.as_ref() else { panic!("{text}") };
            let [ast::SelectItem::UnnamedExpr(expression)] = select.projection.as_slice() else { panic!("{text}") };
            assert_eq!(shown(expression), expected, "{text}");
        }
    }

    #[test]
    fn clauses_of_postgres_become_others() {
        for (sql, expected) in [
            ("TABLE t", "SELECT * FROM t"),
            ("SELECT 'a' -- and\n  'b'", "SELECT 'ab'"),
            ("SELECT trim(leading from a), trim(both from a)", "SELECT TRIM(LEADING a), TRIM(BOTH a)"),
            ("SELECT a NOT LIKE ALL (ARRAY['x'])", "SELECT a !~~ ALL(ARRAY['x'])"),
            ("SELECT a ILIKE ANY ('x', 'y')", "SELECT a ~~* ANY(ARRAY['x', 'y'])"),
            ("SELECT a IN ((SELECT 1), 2)", "SELECT a IN ((SELECT 1), 2)"),
            ("SELECT ((SELECT 1) UNION (SELECT 2))", "SELECT ((SELECT 1) UNION (SELECT 2))"),
            ("SELECT a = ANY (VALUES (1), (2))", "SELECT a = ANY(VALUES (1), (2))"),
            ("SELECT EXISTS (SELECT)", "SELECT EXISTS (SELECT FROM (VALUES (NULL)) \"one row\")"),
            ("SELECT * FROM ROWS FROM (f(1), g(2)) AS t (a, b)", "SELECT * FROM \"rows from\"(f(1), g(2)) AS t (a, b)"),
            ("SELECT a, rows FROM (SELECT 1) AS t (rows)", "SELECT a, rows FROM (SELECT 1) AS t (rows)"),
            (
                "SELECT sum(a) OVER (w ORDER BY b GROUPS 1 PRECEDING EXCLUDE CURRENT ROW) FROM t",
                "SELECT sum(a) OVER (w PARTITION BY \"exclude current row\"() ORDER BY b GROUPS 1 PRECEDING) FROM t",
            ),
            (
                "SELECT 1 FROM t WINDOW w AS (PARTITION BY a ROWS 1 PRECEDING EXCLUDE TIES)",
                "SELECT 1 FROM t WINDOW w AS (PARTITION BY \"exclude ties\"(), a ROWS 1 PRECEDING)",
            ),
            (
                "SELECT 1 FROM t GROUP BY DISTINCT ROLLUP (a)",
                "SELECT 1 FROM t GROUP BY \"group by distinct\"(), ROLLUP (a)",
            ),
            ("SELECT a FROM t FETCH FIRST ROW ONLY OFFSET 2", "SELECT a FROM t LIMIT 1 OFFSET 2"),
            ("SELECT a FROM t ORDER BY a USING >", "SELECT a FROM t ORDER BY a DESC"),
            (
                "WITH RECURSIVE x AS (SELECT 1 LIMIT 1) SEARCH DEPTH FIRST BY a, b SET s \
                 CYCLE a SET m USING p SELECT 1",
                "WITH RECURSIVE x AS (SELECT 1 LIMIT 1 SETTINGS \"search depth\" = (a, b, s), \
                 \"cycle\" = ((a), m, true, false, p)) SELECT 1",
            ),
            ("WITH x AS NOT MATERIALIZED (TABLE t) SELECT 1", "WITH x AS NOT MATERIALIZED (SELECT * FROM t) SELECT 1"),
        ] {
            assert_eq!(own(sql), expected, "{sql}");
        }
    }

    #[test]
    fn clauses_of_duckdb_become_others() {
        assert_eq!(own("SELECT #1, a # 2 FROM t ORDER BY #1"), "SELECT \"columns at\"(1), a # 2 FROM t ORDER BY 1");
        assert_eq!(own("SELECT INTERVAL (a) DAYS, INTERVAL b HOUR"), "SELECT to_days(a), to_hours(b)");
        let tree = |sql: &str| parse_one(sql).unwrap().statement.to_string();
        let merge = tree("MERGE INTO t USING s USING (a, b) WHEN MATCHED THEN DELETE");
        assert!(merge.contains("ON (t.a = s.a AND t.b = s.b)"), "{merge}");
        let made = tree("CREATE TYPE e AS ENUM (SELECT a FROM t WHERE a <> 'x')");
        assert!(made.contains(ENUM_OF), "{made}");
        let pivot = own("SELECT * FROM t PIVOT (sum(v) FOR k IN (1) l IN (2, 3) GROUP BY g)");
        assert!(pivot.contains("pivot groups") && pivot.contains("pivot product"), "{pivot}");
    }

    #[test]
    fn what_postgres_does_not_read_is_refused() {
        for text in ["a < b < c", "a LIKE b LIKE c", "a IS DISTINCT FROM b IS NULL", "'a' 'b'"] {
            let error = parse_one(&format!("SELECT {text}")).unwrap_err();
            assert!(error.span().is_some(), "{text}: {error}");
        }
    }

    #[test]
    fn other_statements_are_read_as_postgresql_does_or_else_in_the_dialect() {
        let tree = |sql: &str| parse_one(sql).unwrap().statement.to_string();
        assert_eq!(tree("INSERT INTO t VALUES (1, DEFAULT)"), "INSERT INTO t VALUES (1, DEFAULT)");
        assert_eq!(tree("INSERT OVERWRITE TABLE t SELECT 1"), "INSERT OVERWRITE TABLE t SELECT 1");
        let chain = format!("SELECT 1{}", "+1".repeat(3000));
        assert!(parse_one(&chain).unwrap().depth >= 3000);
    }

    #[test]
    fn exactly_one_statement_is_wanted() {
        assert!(parse_one("SELECT 1;").is_ok());
        assert!(parse_one(" -- nothing").unwrap_err().message().contains("no statement"));
        for sql in ["SELECT 1 FROM (SELECT 1", "SELECT 1 FROM (SELECT 1;"] {
            let error = parse_one(sql).unwrap_err();
            assert_eq!(error.message(), "expected ), found the end of the statement");
            assert_eq!(error.span(), Some(Span { line: 1, column: 24 }));
        }
        let error = parse_one("SELECT 1 FROM (SELECT 1 x y").unwrap_err();
        assert!(!error.message().contains("the end"), "{error}");
        assert!(parse_one("SELECT 1; SELECT 2").unwrap_err().message().contains("found 2"));
    }
}
