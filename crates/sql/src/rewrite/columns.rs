//! The columns that a FROM shows: those of its tables in their order, with the keys of USING and NATURAL joins merged.
//!
//! A merged key stands at the place of the left one. Its value is the left key; in a RIGHT JOIN the right one; in a
//! FULL JOIN the first of both that is not NULL.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, ObjectName,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::references::{Names, replace_names};

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// What it is called.
    pub name: String,
    /// Where it comes from, in the order in which its value is looked for.
    pub sources: Vec<Source>,
    /// Whether it is a merged key.
    pub merged: bool,
}

/// A column of a table: its qualifier, if it has one, and its name.
pub(super) type Source = Vec<String>;

impl Column {
    /// The expression for its value, as if it stood at `span`.
    pub fn value(&self, span: Span) -> Expr {
        match self.sources.as_slice() {
            [source] => reference(source, span),
            sources => coalesce(sources, span),
        }
    }

    fn is_qualified(&self) -> bool {
        self.sources.iter().all(|source| source.len() > 1)
    }
}

/// A name as it is, whatever its letters, at a place.
pub(super) fn exact(name: &str, span: Span) -> Ident {
    Ident { value: name.to_owned(), quote_style: Some('"'), span }
}

fn reference(source: &Source, span: Span) -> Expr {
    match source.as_slice() {
        [name] => Expr::Identifier(exact(name, span)),
        parts => Expr::CompoundIdentifier(parts.iter().map(|part| exact(part, span)).collect()),
    }
}

fn coalesce(sources: &[Source], span: Span) -> Expr {
    let argument = |source| FunctionArg::Unnamed(FunctionArgExpr::Expr(reference(source, span)));
    let arguments = FunctionArgumentList {
        duplicate_treatment: None,
        args: sources.iter().map(argument).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(span, "coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(arguments),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Which sides of a join its rows have, and whose key counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sides {
    /// Both, and the left key.
    Left,
    /// Both, and the right key.
    Right,
    /// Both, and either key.
    Full,
    OnlyLeft,
    OnlyRight,
}

/// The columns of a join, or `None` for what is not understood here. A condition that DataFusion would understand
/// otherwise is written out.
pub(super) fn joined(
    left: Vec<Column>,
    right: Vec<Column>,
    join: &mut Join,
    normalize: impl Fn(&Ident) -> String,
) -> Option<Vec<Column>> {
    let (sides, constraint) = match &mut join.join_operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (Sides::Left, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Sides::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (Sides::Right, constraint),
        JoinOperator::FullOuter(constraint) => (Sides::Full, constraint),
        JoinOperator::LeftSemi(constraint) | JoinOperator::LeftAnti(constraint) => (Sides::OnlyLeft, constraint),
        JoinOperator::RightSemi(constraint) | JoinOperator::RightAnti(constraint) => (Sides::OnlyRight, constraint),
        JoinOperator::CrossJoin(constraint @ JoinConstraint::None) => (Sides::Left, constraint),
        _ => return None,
    };
    let keys = match constraint {
        JoinConstraint::On(condition) => {
            let both = left.iter().chain(&right).cloned().collect::<Vec<_>>();
            replace_names(condition, &Names::of(&both), &normalize);
            Vec::new()
        }
        JoinConstraint::Using(names) => {
            let names = names.iter().map(|name| match name.0.as_slice() {
                [part] => part.as_ident().map(|ident| (normalize(ident), ident.span)),
                _ => None,
            });
            names.collect::<Option<Vec<_>>>()?
        }
        JoinConstraint::Natural => {
            let shared = right.iter().filter(|column| left.iter().any(|other| other.name == column.name));
            shared.map(|column| (column.name.clone(), Span::empty())).collect()
        }
        JoinConstraint::None => Vec::new(),
    };
    let pairs = keys.iter().map(|(name, span)| Some((only(&left, name)?, only(&right, name)?, *span)));
    let pairs = pairs.collect::<Option<Vec<_>>>()?;
    // DataFusion would take any of the columns that a key was merged from, or none.
    if pairs.iter().any(|(left, right, _)| left.merged || right.merged) {
        let equal = |(left, right, span): &(&Column, &Column, Span)| Expr::BinaryOp {
            left: Box::new(left.value(*span)),
            op: BinaryOperator::Eq,
            right: Box::new(right.value(*span)),
        };
        let and =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
        *constraint = JoinConstraint::On(pairs.iter().map(equal).reduce(and)?);
    }
    match sides {
        Sides::OnlyLeft => return Some(left),
        Sides::OnlyRight => return Some(right),
        Sides::Left | Sides::Right | Sides::Full => {}
    }
    let merged = |left: &Column, right: &Column| Column {
        name: left.name.clone(),
        sources: match sides {
            Sides::Right | Sides::OnlyRight => right.sources.clone(),
            Sides::Full => left.sources.iter().chain(&right.sources).cloned().collect(),
            Sides::Left | Sides::OnlyLeft => left.sources.clone(),
        },
        merged: true,
    };
    let is_key = |column: &Column| keys.iter().any(|(name, _)| *name == column.name);
    let from_left = left.iter().map(|column| {
        let pair = pairs.iter().find(|(left, _, _)| left.name == column.name);
        pair.map_or_else(|| column.clone(), |(left, right, _)| merged(left, right))
    });
    let from_right = right.iter().filter(|column| !is_key(column)).cloned();
    Some(from_left.chain(from_right).collect())
}

/// The only column of a name, if it can be told from others by its table.
fn only<'a>(columns: &'a [Column], name: &str) -> Option<&'a Column> {
    let mut found = columns.iter().filter(|column| column.name == name);
    found.next().filter(|column| found.next().is_none() && column.is_qualified())
}
