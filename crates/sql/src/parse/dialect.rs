//! PostgreSQL's syntax of expressions, over what else the parser's generic dialect knows.
//!
//! The parser's own dialect for PostgreSQL reads `a >=-1` as one operator and knows no structs, so this is another one:
//! its tokens and clauses are the generic dialect's, how tight operators bind is PostgreSQL's (`gram.y`).

use std::any::TypeId;
use std::collections::HashSet;

use sqlparser::ast::{
    Array, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, TrimWhereField, TypedString, UnaryOperator,
};
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::{self, Keyword};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// The dialect of the front of our own.
#[derive(Debug, Default)]
pub(super) struct PostgresSyntax {
    /// The places of the opening parentheses around queries that themselves begin with a parenthesis.
    queries: HashSet<Location>,
}

impl PostgresSyntax {
    /// For a text where queries that begin with a parenthesis stand in the parentheses that open here.
    pub(super) fn with_queries(queries: HashSet<Location>) -> Self {
        Self { queries }
    }
}

/// How tight operators bind, in `gram.y`'s order.
mod tightness {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const OR: u8 = 10;
    pub(super) const AND: u8 = 20;
    pub(super) const NOT: u8 = 30;
    pub(super) const IS: u8 = 40;
    pub(super) const COMPARISON: u8 = 50;
    /// BETWEEN, IN, LIKE, ILIKE and SIMILAR TO.
    pub(super) const BETWEEN: u8 = 60;
    /// Every operator that is not one of arithmetic.
    pub(super) const OPERATOR: u8 = 70;
    pub(super) const PLUS_MINUS: u8 = 80;
    pub(super) const TIMES: u8 = 90;
    pub(super) const POWER: u8 = 100;
    pub(super) const AT_TIME_ZONE: u8 = 110;
    pub(super) const COLLATE: u8 = 120;
    pub(super) const UNARY_MINUS: u8 = 125;
    pub(super) const CAST: u8 = 140;
    pub(super) const PERIOD: u8 = 200;
}

/// Words that the parser keeps from being aliases of columns for other systems' clauses.
const COLUMN_ALIASES: &[Keyword] =
    &[Keyword::TOP, Keyword::VIEW, Keyword::SORT, Keyword::CLUSTER, Keyword::DISTRIBUTE, Keyword::ANALYZE];
/// The same of tables.
const TABLE_ALIASES: &[Keyword] = &[
    Keyword::TOP,
    Keyword::VIEW,
    Keyword::SORT,
    Keyword::CLUSTER,
    Keyword::DISTRIBUTE,
    Keyword::GLOBAL,
    Keyword::OUTPUT,
    Keyword::PREWHERE,
    Keyword::SETTINGS,
    Keyword::FORMAT,
    Keyword::START,
    Keyword::CONNECT,
    Keyword::MATCH_RECOGNIZE,
    Keyword::OPEN,
];

/// Whether a token ends an item of a SELECT list.
fn ends_item(token: &Token) -> bool {
    const CLAUSES: [Keyword; 12] = [
        Keyword::FROM,
        Keyword::WHERE,
        Keyword::GROUP,
        Keyword::HAVING,
        Keyword::ORDER,
        Keyword::LIMIT,
        Keyword::OFFSET,
        Keyword::FETCH,
        Keyword::UNION,
        Keyword::INTERSECT,
        Keyword::EXCEPT,
        Keyword::INTO,
    ];
    match token {
        Token::Comma | Token::RParen | Token::SemiColon | Token::EOF => true,
        Token::Word(word) => word.quote_style.is_none() && CLAUSES.contains(&word.keyword),
        _ => false,
    }
}

macro_rules! supported {
    ($($name:ident)*) => { $(fn $name(&self) -> bool { true })* };
}

impl Dialect for PostgresSyntax {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    /// `INNER ARRAY JOIN` is what `POSITIONAL JOIN` is read as.
    fn supports_array_join_syntax(&self) -> bool {
        true
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_' || !ch.is_ascii()
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch.is_ascii_digit() || ch == '_' || ch == '$' || !ch.is_ascii()
    }

    /// Without the signs of arithmetic, of which an operator's name may not end: `>=-1` is a comparison with a negative
    /// number.
    fn is_custom_operator_part(&self, ch: char) -> bool {
        matches!(ch, '<' | '>' | '=' | '~' | '!' | '@' | '#' | '%' | '^' | '&' | '|' | '?')
    }

    /// `SELECT 1 FOR UPDATE` locks rows, of which there are none. Behind `FROM t SELECT a`, QUALIFY and WINDOW begin
    /// clauses; they are names where the item ends behind them.
    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        match kw {
            Keyword::FOR => false,
            Keyword::QUALIFY | Keyword::WINDOW => ends_item(&parser.peek_token().token),
            kw => !keywords::RESERVED_FOR_COLUMN_ALIAS.contains(kw) || COLUMN_ALIASES.contains(kw),
        }
    }

    fn is_table_alias(&self, kw: &Keyword, _parser: &mut Parser) -> bool {
        !keywords::RESERVED_FOR_TABLE_ALIAS.contains(kw) || TABLE_ALIASES.contains(kw)
    }

    supported! {
        allow_extract_custom
        allow_extract_single_quotes
        support_map_literal_syntax
        supports_alter_column_type_using
        supports_array_typedef_with_brackets
        supports_asc_desc_in_column_definition
        supports_bitwise_shift_operators
        supports_comma_separated_set_assignments
        supports_comma_separated_trim
        supports_comment_on
        supports_constraint_keyword_without_name
        supports_create_index_with_clause
        supports_create_table_like_parenthesized
        supports_create_view_comment_syntax
        supports_data_type_signed_suffix
        supports_dictionary_syntax
        supports_empty_projections
        supports_explain_with_utility_options
        supports_extract_comma_syntax
        supports_filter_during_aggregation
        supports_from_first_select
        supports_geometric_types
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_insert_table_alias
        supports_numeric_literal_underscores
        supports_interval_options
        supports_key_column_option
        supports_left_associative_joins_without_parens
        supports_named_fn_args_with_assignment_operator
        supports_nested_comments
        supports_notnull_operator
        supports_order_by_all
        supports_parens_around_table_factor
        supports_parenthesized_set_variables
        supports_projection_trailing_commas
        supports_select_expr_star
        supports_select_wildcard_except
        supports_select_wildcard_exclude
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_select_wildcard_replace
        supports_table_versioning
        supports_set_names
        supports_start_transaction_modifier
        supports_string_escape_constant
        supports_struct_literal
        supports_unicode_string_literal
        supports_values_as_table_factor
        supports_window_clause_named_window_reference
        supports_window_function_null_treatment_arg
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        match prec {
            Precedence::Period => tightness::PERIOD,
            Precedence::DoubleColon => tightness::CAST,
            Precedence::AtTz => tightness::AT_TIME_ZONE,
            Precedence::MulDivModOp => tightness::TIMES,
            Precedence::PlusMinus => tightness::PLUS_MINUS,
            Precedence::Caret => tightness::POWER,
            Precedence::Xor | Precedence::Ampersand | Precedence::Pipe | Precedence::PgOther => tightness::OPERATOR,
            Precedence::Between | Precedence::Like => tightness::BETWEEN,
            Precedence::Eq => tightness::COMPARISON,
            Precedence::Is => tightness::IS,
            Precedence::UnaryNot => tightness::NOT,
            Precedence::And => tightness::AND,
            Precedence::Or => tightness::OR,
            // What is in front of an array slice's colon ends there.
            Precedence::Colon => tightness::UNKNOWN,
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let tightness = match &parser.peek_token_ref().token {
            Token::Word(word) => match word.keyword {
                Keyword::COLLATE => tightness::COLLATE,
                Keyword::OPERATOR if parser.peek_nth_token_ref(1).token == Token::LParen => tightness::OPERATOR,
                // Other systems' operators are names here.
                Keyword::OPERATOR
                | Keyword::XOR
                | Keyword::DIV
                | Keyword::MATCH
                | Keyword::MEMBER
                | Keyword::REGEXP
                | Keyword::RLIKE => tightness::UNKNOWN,
                Keyword::NoKeyword if is_word(&parser.peek_token_ref().token, "isnull") => tightness::IS,
                _ => return None,
            },
            Token::StringConcat
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
            | Token::Arrow
            | Token::LongArrow
            | Token::HashArrow
            | Token::HashLongArrow
            | Token::HashMinus
            | Token::AtArrow
            | Token::ArrowAt
            | Token::AtQuestion
            | Token::AtAt
            | Token::Question
            | Token::QuestionAnd
            | Token::QuestionPipe
            | Token::Overlap
            | Token::CaretAt
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::CustomBinaryOperator(_) => tightness::OPERATOR,
            Token::ExclamationMark | Token::LBracket | Token::Colon => tightness::UNKNOWN,
            _ => return None,
        };
        Some(Ok(tightness))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let TokenWithSpan { token, span } = parser.peek_token_ref();
        let next = &parser.peek_nth_token_ref(1).token;
        let (op, tightness) = match token {
            Token::LParen if self.queries.contains(&span.start) => return Some(subquery(parser)),
            Token::Word(word) if word.keyword == Keyword::VALUES && *next == Token::LParen => {
                return Some(parser.parse_query().map(Expr::Subquery));
            }
            Token::Minus => (UnaryOperator::Minus, tightness::UNARY_MINUS),
            Token::Plus => (UnaryOperator::Plus, tightness::UNARY_MINUS),
            Token::Tilde => (UnaryOperator::BitwiseNot, tightness::OPERATOR),
            Token::AtSign => (UnaryOperator::PGAbs, tightness::OPERATOR),
            Token::DoubleExclamationMark => (UnaryOperator::PGPrefixFactorial, tightness::OPERATOR),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, tightness::OPERATOR),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, tightness::OPERATOR),
            // The parser takes NOT EXISTS for one test: but `NOT EXISTS (…) IS UNKNOWN` is NOT of the whole.
            Token::Word(word)
                if word.keyword == Keyword::NOT
                    && matches!(next, Token::Word(next) if next.keyword == Keyword::EXISTS) =>
            {
                (UnaryOperator::Not, tightness::NOT)
            }
            Token::Word(word) if word.keyword == Keyword::TRIM && *next == Token::LParen => return Some(trim(parser)),
            Token::Word(word) if is_type_name(word.keyword) && is_string(next) => return Some(typed(parser)),
            // An alias is no string.
            text if is_string(text) && is_string(next) => {
                parser.advance_token();
                return Some(parser.expected_ref("an operator between two literals", parser.peek_token_ref()));
            }
            _ => return None,
        };
        parser.advance_token();
        Some(parser.parse_subexpr(tightness).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => {
                is_comparison(expr).then(|| refused(parser, "one of two comparisons"))
            }
            Token::Word(word) => match word.keyword {
                Keyword::IS | Keyword::NOTNULL if is_distinct(expr) => Some(refused(parser, "IS DISTINCT FROM")),
                Keyword::IS => is_distinct_from(parser, expr),
                Keyword::COLLATE => Some(collate(parser, expr)),
                Keyword::IN | Keyword::BETWEEN | Keyword::LIKE | Keyword::ILIKE | Keyword::SIMILAR => {
                    self.test(parser, expr, false)
                }
                Keyword::NOT => self.test(parser, expr, true),
                Keyword::NoKeyword if is_word(&parser.peek_token_ref().token, "isnull") => {
                    if is_distinct(expr) || matches!(expr, Expr::IsNull(_)) {
                        return Some(refused(parser, "what is tested for NULL"));
                    }
                    parser.advance_token();
                    Some(Ok(Expr::IsNull(Box::new(expr.clone()))))
                }
                _ => None,
            },
            // The parser takes comparisons and patterns alone in front of ANY and ALL.
            Token::AtArrow
            | Token::ArrowAt
            | Token::AtAt
            | Token::AtQuestion
            | Token::Overlap
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::CustomBinaryOperator(_)
                if parser.peek_nth_token_ref(2).token == Token::LParen =>
            {
                let quantifier = keyword_at(parser, 1);
                if !matches!(quantifier, Keyword::ANY | Keyword::SOME | Keyword::ALL) {
                    return None;
                }
                let op = BinaryOperator::Custom(parser.peek_token_ref().token.to_string());
                advance(parser, 2);
                Some(parser.parse_prefix().map(|right| quantified(expr.clone(), op, quantifier, right)))
            }
            _ => None,
        }
    }
}

impl PostgresSyntax {
    /// The forms of IN, BETWEEN and LIKE that the parser does not know.
    fn test(&self, parser: &mut Parser, value: &Expr, is_negated: bool) -> Option<Result<Expr, ParserError>> {
        let at = usize::from(is_negated);
        let is_open = matches!(
            value,
            Expr::Between { .. } | Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. }
        );
        if is_open && keyword_at(parser, at) != Keyword::NULL {
            return Some(refused(parser, "one of two tests"));
        }
        match (keyword_at(parser, at), keyword_at(parser, at + 1)) {
            // The parser takes any two parentheses for those of a subquery.
            (Keyword::IN, _)
                if parser.peek_nth_token_ref(at + 1).token == Token::LParen
                    && parser.peek_nth_token_ref(at + 2).token == Token::LParen
                    && !self.queries.contains(&parser.peek_nth_token_ref(at + 1).span.start)
                    && !matches!(value, Expr::InList { .. } | Expr::InSubquery { .. }) =>
            {
                advance(parser, at + 1);
                Some(parser.parse_prefix().map(|list| is_in(value.clone(), is_negated, list)))
            }
            // `x IN [1, 2]`, DuckDB's.
            (Keyword::IN, _) if parser.peek_nth_token_ref(at + 1).token == Token::LBracket => {
                advance(parser, at + 1);
                let (op, quantifier) = match is_negated {
                    false => (BinaryOperator::Eq, Keyword::ANY),
                    true => (BinaryOperator::NotEq, Keyword::ALL),
                };
                Some(
                    parser
                        .parse_prefix()
                        .map(|list| quantified(value.clone(), op, quantifier, Expr::Nested(Box::new(list)))),
                )
            }
            // `x IN list`, of a list, a map or a text that is no literal: DuckDB's.
            (Keyword::IN, next)
                if next != Keyword::UNNEST && matches!(parser.peek_nth_token_ref(at + 1).token, Token::Word(_)) =>
            {
                advance(parser, at + 1);
                Some(parser.parse_subexpr(tightness::BETWEEN).map(|list| {
                    let call = call("in value", [value.clone(), list]);
                    match is_negated {
                        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
                        false => call,
                    }
                }))
            }
            (Keyword::BETWEEN, Keyword::SYMMETRIC) => {
                advance(parser, at + 2);
                Some(bounds(parser).map(|(low, high)| {
                    let call = call("between symmetric", [value.clone(), low, high]);
                    match is_negated {
                        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
                        false => call,
                    }
                }))
            }
            (Keyword::BETWEEN, Keyword::ASYMMETRIC) => {
                advance(parser, at + 2);
                Some(bounds(parser).map(|(low, high)| Expr::Between {
                    expr: Box::new(value.clone()),
                    negated: is_negated,
                    low: Box::new(low),
                    high: Box::new(high),
                }))
            }
            (like @ (Keyword::LIKE | Keyword::ILIKE), quantifier @ (Keyword::ANY | Keyword::SOME | Keyword::ALL))
                if parser.peek_nth_token_ref(at + 2).token == Token::LParen =>
            {
                advance(parser, at + 2);
                let op = match (like == Keyword::ILIKE, is_negated) {
                    (false, false) => BinaryOperator::PGLikeMatch,
                    (false, true) => BinaryOperator::PGNotLikeMatch,
                    (true, false) => BinaryOperator::PGILikeMatch,
                    (true, true) => BinaryOperator::PGNotILikeMatch,
                };
                Some(parser.parse_prefix().map(|patterns| quantified(value.clone(), op, quantifier, patterns)))
            }
            _ => None,
        }
    }
}

/// The error for an operator that does not stand behind one of its kind.
fn refused(parser: &Parser, what: &str) -> Result<Expr, ParserError> {
    parser.expected_ref(&format!("parentheses around {what}"), parser.peek_token_ref())
}

/// A word that is not quoted.
fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

fn keyword_at(parser: &Parser, index: usize) -> Keyword {
    match &parser.peek_nth_token_ref(index).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn advance(parser: &mut Parser, tokens: usize) {
    for _ in 0..tokens {
        parser.advance_token();
    }
}

/// What may be a type's name in front of a literal, and is none of the names that the parser reads itself.
fn is_type_name(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::NoKeyword | Keyword::NAME)
}

fn is_string(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_))
}

/// `name '…'`: a literal of a type.
fn typed(parser: &mut Parser) -> Result<Expr, ParserError> {
    let data_type = DataType::Custom(ObjectName::from(vec![parser.parse_identifier()?]), vec![]);
    Ok(Expr::TypedString(TypedString { data_type, value: parser.parse_value()?, uses_odbc_syntax: false }))
}

/// `trim([BOTH | LEADING | TRAILING] [characters] [FROM] text, …)`.
fn trim(parser: &mut Parser) -> Result<Expr, ParserError> {
    advance(parser, 2);
    let side = parser.parse_one_of_keywords(&[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING]);
    let trim_where = side.map(|side| match side {
        Keyword::LEADING => TrimWhereField::Leading,
        Keyword::TRAILING => TrimWhereField::Trailing,
        _ => TrimWhereField::Both,
    });
    let mut what = None;
    if !parser.parse_keyword(Keyword::FROM) {
        let first = parser.parse_expr()?;
        if parser.parse_keyword(Keyword::FROM) {
            what = Some(first);
        } else {
            return trimmed(parser, trim_where, None, first);
        }
    }
    let text = parser.parse_expr()?;
    trimmed(parser, trim_where, what, text)
}

/// The rest of trim behind its text.
fn trimmed(
    parser: &mut Parser,
    trim_where: Option<TrimWhereField>,
    what: Option<Expr>,
    text: Expr,
) -> Result<Expr, ParserError> {
    let characters = match parser.consume_token(&Token::Comma) {
        true => Some(parser.parse_comma_separated(Parser::parse_expr)?),
        false => None,
    };
    parser.expect_token(&Token::RParen)?;
    let (expr, trim_what) = (Box::new(text), what.map(Box::new));
    Ok(Expr::Trim { expr, trim_where, trim_what, trim_characters: characters })
}

/// Comparisons do not stand in a row.
fn is_comparison(expression: &Expr) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(expression, Expr::BinaryOp { op: Eq | NotEq | Lt | LtEq | Gt | GtEq, .. })
}

fn is_distinct(expression: &Expr) -> bool {
    matches!(expression, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..))
}

/// IS [NOT] DISTINCT FROM, whose right operand ends at the next operator that binds less.
fn is_distinct_from(parser: &mut Parser, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let is_negated = keyword_at(parser, 1) == Keyword::NOT;
    let words = 2 + usize::from(is_negated);
    if keyword_at(parser, words - 1) != Keyword::DISTINCT || keyword_at(parser, words) != Keyword::FROM {
        return None;
    }
    advance(parser, words + 1);
    let right = match parser.parse_subexpr(tightness::IS) {
        Ok(right) => Box::new(right),
        Err(error) => return Some(Err(error)),
    };
    let left = Box::new(left.clone());
    Some(Ok(if is_negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }))
}

/// COLLATE behind a cast, an operator or another COLLATE; behind a name or a literal the parser reads it itself.
fn collate(parser: &mut Parser, expression: &Expr) -> Result<Expr, ParserError> {
    parser.advance_token();
    Ok(Expr::Collate { expr: Box::new(expression.clone()), collation: parser.parse_object_name(false)? })
}

/// A query in parentheses.
fn subquery(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}

/// `value IN list`, of a list that is one expression or several.
fn is_in(value: Expr, negated: bool, list: Expr) -> Expr {
    let expr = Box::new(value);
    let list = match list {
        Expr::Tuple(list) => list,
        Expr::Nested(one) => vec![*one],
        one => vec![one],
    };
    Expr::InList { expr, list, negated }
}

/// The bounds of BETWEEN.
fn bounds(parser: &mut Parser) -> Result<(Expr, Expr), ParserError> {
    let low = parser.parse_subexpr(tightness::BETWEEN)?;
    parser.expect_keyword_is(Keyword::AND)?;
    Ok((low, parser.parse_subexpr(tightness::BETWEEN)?))
}

/// `value op ANY (patterns)` and ALL; a list of patterns is an array of them.
fn quantified(value: Expr, op: BinaryOperator, quantifier: Keyword, patterns: Expr) -> Expr {
    let right = match patterns {
        Expr::Nested(array) => array,
        Expr::Tuple(elem) => Box::new(Expr::Array(Array { elem, named: true })),
        query => Box::new(query),
    };
    let left = Box::new(value);
    match quantifier {
        Keyword::ALL => Expr::AllOp { left, compare_op: op, right },
        _ => Expr::AnyOp { left, compare_op: op, right, is_some: quantifier == Keyword::SOME },
    }
}

/// A call of one of the functions whose names have a blank.
fn call<const COUNT: usize>(name: &str, arguments: [Expr; COUNT]) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
