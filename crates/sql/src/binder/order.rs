//! ORDER BY, DISTINCT ON and LIMIT of a query.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{
    Expr, Fetch, FunctionArg, FunctionArgExpr, LimitClause, OrderBy, OrderByKind, OrderByOptions, Query, SelectItem,
    SetExpr, TableFactor, UnaryOperator, Value, ValueWithSpan,
};

use super::locking::Locking;
use super::operators::Way;
use super::scope::{Clause, Item, Level, Namespace, Withs};
use super::syntax::{bare_name, written};
use super::{Binder, Rows, name_place, normalized, place, placed, unsupported};
use crate::algebra::{Column, Constant, Limit, Relation, Scalar, SortKey};
use crate::errors;
use crate::parse::LIMIT_PERCENT;

/// What ORDER BY and DISTINCT ON sort by: an item of the list, or an expression of their own.
pub(super) enum By {
    Item(usize),
    Scalar(Scalar),
}

/// A part of ORDER BY.
pub(super) struct Key<'e> {
    pub by: By,
    pub options: &'e OrderByOptions,
    pub expression: Option<&'e Expr>,
}

/// The item of a list of so many that a constant in ORDER BY, GROUP BY or DISTINCT ON means, from 0; `None` for
/// anything that is no constant. Fails with 42P10 for a position that is not in the list, with 42601 for another
/// constant.
pub(super) fn item_at(expression: &Expr, clause: &str, items: usize) -> Result<Option<usize>> {
    let (sign, value) = match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        expression => ("", expression),
    };
    let position = match value {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => return Ok(None),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            format!("{sign}{number}").parse::<i32>().ok()
        }
        Expr::Value(_) if sign.is_empty() => None,
        _ => return Ok(None),
    };
    let (code, message) = match position {
        Some(position) => match usize::try_from(position).ok().filter(|position| (1..=items).contains(position)) {
            Some(position) => return Ok(Some(position - 1)),
            None => ("42P10", format!("{clause} position {position} is not in select list")),
        },
        None => ("42601", format!("non-integer constant in {clause}")),
    };
    Err(errors::at(Error::input(message).with_code(code), place(expression)))
}

impl Binder<'_> {
    /// The item of the list that a part of ORDER BY or DISTINCT ON means, or the expression that it is.
    pub(super) fn by(&self, expression: &Expr, clause: &str, items: &[Item<'_>], level: &Level<'_>) -> Result<By> {
        if let Some(index) = item_at(expression, clause, items.len())? {
            return Ok(By::Item(index));
        }
        if let Expr::Identifier(name) = expression {
            let wanted = normalized(name);
            // A cast of a column has its name, but the column is meant where both are there.
            let is_cast = |item: &Item<'_>| matches!(item.expression, Some(Expr::Cast { .. }));
            let wanted = wanted.as_str();
            let named = || items.iter().enumerate().filter(move |(_, item)| item.name == wanted);
            let has_other = named().any(|(_, item)| !is_cast(item));
            let mut named = named().filter(|(_, item)| !has_other || !is_cast(item));
            if let Some((index, item)) = named.next() {
                if named.any(|(_, other)| other.scalar != item.scalar) {
                    let error = Error::input(format!("{clause} \"{wanted}\" is ambiguous")).with_code("42702");
                    return Err(errors::at(error, name_place(name)));
                }
                return Ok(By::Item(index));
            }
        }
        let scalar = self.typed_scalar(expression, level)?;
        match items.iter().position(|item| Relation::are_alike(&item.scalar, &scalar)) {
            Some(index) => Ok(By::Item(index)),
            None => Ok(By::Scalar(scalar)),
        }
    }

    pub(super) fn keys<'e>(
        &self,
        order: Option<&'e OrderBy>,
        items: &[Item<'_>],
        level: &Level<'_>,
    ) -> Result<Vec<Key<'e>>> {
        level.clause.set(Clause::OrderBy);
        let Some(order) = order else { return Ok(vec![]) };
        if order.interpolate.is_some() {
            return Err(unsupported("INTERPOLATE"));
        }
        match &order.kind {
            OrderByKind::Expressions(keys) => {
                let mut all = Vec::with_capacity(keys.len());
                for written in keys {
                    if written.with_fill.is_some() {
                        return Err(unsupported("WITH FILL"));
                    }
                    let key = |by: By| Key { by, options: &written.options, expression: Some(&written.expr) };
                    match self.of_columns(&written.expr, level)? {
                        None => all.push(key(self.by(&written.expr, "ORDER BY", items, level)?)),
                        Some(each) => {
                            for (_, expression) in each {
                                all.push(key(self.by(&expression, "ORDER BY", items, level)?));
                            }
                        }
                    }
                }
                Ok(all)
            }
            OrderByKind::All(options) => {
                Ok((0..items.len()).map(|index| Key { by: By::Item(index), options, expression: None }).collect())
            }
        }
    }

    pub(super) fn distinct_on(&self, expressions: &[Expr], items: &[Item<'_>], level: &Level<'_>) -> Result<Vec<By>> {
        level.clause.set(Clause::DistinctOn);
        let mut all = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let by = |expression: &Expr| self.by(expression, "DISTINCT ON", items, level);
            match self.of_columns(expression, level)? {
                None => all.push(by(expression)?),
                Some(each) => {
                    for (_, expression) in each {
                        all.push(by(&expression)?);
                    }
                }
            }
        }
        Ok(all)
    }

    /// ORDER BY of a set operation: by names and positions of its columns. Fails with 0A000 for another expression.
    pub(super) fn ordered(&self, mut rows: Rows, order: &OrderBy) -> Result<(Rows, Vec<SortKey>)> {
        let columns = rows.columns();
        let all = match &order.kind {
            OrderByKind::Expressions(keys) => keys.as_slice(),
            OrderByKind::All(options) => {
                let key = |column: &Column| self.sorted(column.scalar(), options, None);
                let keys = columns.iter().map(key).collect::<Result<Vec<_>>>()?;
                rows.relation = self.sorted_relation(rows.relation, &keys)?;
                return Ok((rows, keys));
            }
        };
        let mut keys = Vec::with_capacity(all.len());
        for written in all {
            let position = item_at(&written.expr, "ORDER BY", columns.len())?;
            let mut expression = &written.expr;
            while let Expr::Nested(inner) = expression {
                expression = inner;
            }
            let found = match expression {
                _ if position.is_some() => position.and_then(|position| columns.get(position)),
                Expr::Identifier(name) => {
                    let wanted = normalized(name);
                    let found = columns.iter().find(|column| column.name == wanted);
                    Some(found.ok_or_else(|| {
                        let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
                        let known = columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
                        errors::suggest(errors::at(error, name_place(name)), &name.value, &known)
                    })?)
                }
                _ => None,
            };
            let scalar = match found {
                Some(column) => column.scalar(),
                None if !matches!(expression, Expr::Collate { .. }) => {
                    let error = Error::input("invalid UNION/INTERSECT/EXCEPT ORDER BY clause").with_code("0A000");
                    let hint = "add the expression to every SELECT, or put the set operation into FROM";
                    return Err(placed(error.with_hint(hint), || place(&written.expr)));
                }
                None => {
                    let withs = Withs::default();
                    let names = Namespace::of(super::scope::Source::new(None, columns.clone()));
                    let level = Level::new(None, &withs, names, Clause::Limit);
                    self.typed_scalar(&written.expr, &level).map_err(|error| {
                        error.with_hint("behind a set operation ORDER BY sees the result's columns only")
                    })?
                }
            };
            keys.push(self.sorted(scalar, &written.options, Some(&written.expr))?);
        }
        rows.relation = self.sorted_relation(rows.relation, &keys)?;
        Ok((rows, keys))
    }

    /// LIMIT, OFFSET and FETCH, of rows that are locked if `locking` says so.
    pub(super) fn limited(
        &self,
        mut rows: Rows,
        keys: Vec<SortKey>,
        query: &Query,
        locking: Option<Locking>,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit: given, offset: skipped, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(unsupported("LIMIT … BY"));
                }
                (limit, offset) = (given.as_ref(), skipped.as_ref().map(|offset| &offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset: skipped, limit: given }) => {
                (limit, offset) = (Some(given), Some(skipped));
            }
            None => {}
        }
        let mut ties = None;
        let mut fetch = match limit {
            Some(limit) => match percentage(limit) {
                Some(share) => self.count(&share_of(query, share)?, "LIMIT", outer, withs)?,
                None => self.count(limit, "LIMIT", outer, withs)?,
            },
            None => None,
        };
        if let Some(Fetch { with_ties, percent, quantity }) = &query.fetch {
            fetch = match quantity {
                Some(share) if *percent => self.count(&share_of(query, share)?, "LIMIT", outer, withs)?,
                Some(quantity) => self.count(quantity, "LIMIT", outer, withs)?,
                None => Some(Scalar::Constant(Constant::bigint(1))),
            };
            if *with_ties {
                if keys.is_empty() {
                    let message = "WITH TIES cannot be specified without ORDER BY clause";
                    return Err(Error::input(message).with_code("42601"));
                }
                ties = Some(self.comparable(&keys)?);
            }
        }
        let skip = match offset {
            Some(offset) => self.count(offset, "OFFSET", outer, withs)?,
            None => None,
        };
        if let Some(locking) = locking {
            rows = self.locked(rows, locking, fetch.as_ref(), skip.as_ref())?;
        }
        if skip.is_some() || fetch.is_some() {
            rows.relation = Relation::Limit(Limit { input: Box::new(rows.relation), skip, fetch, ties });
        }
        Ok(rows)
    }

    /// A number of rows; `None` for all. Fails with 2201W and 2201X if it is negative, 42804 if it is no number.
    pub(super) fn count(
        &self,
        expression: &Expr,
        clause: &str,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Option<Scalar>> {
        let level = Level::new(outer, withs, Namespace::default(), Clause::Limit);
        let at = |error| placed(error, || place(expression));
        let scalar = match self.scalar(expression, &level) {
            Err(error) if error.code() == Some("42703") => {
                let message = format!("argument of {clause} must not contain variables");
                return Err(at(Error::input(message).with_code("42P10")));
            }
            other => other?,
        };
        if let Scalar::Constant(constant) = &scalar
            && constant.is_null()
        {
            return Ok(None);
        }
        // As an assignment does: 2.5 rows are 3.
        let from = scalar.sql_type();
        if from != SqlType::Unknown && from.category() != diligence_types::sql_type::Category::Numeric {
            let message = format!("argument of {clause} must be type bigint, not type {from}");
            return Err(at(Error::input(message).with_code("42804")));
        }
        let scalar = match scalar {
            Scalar::Constant(Constant { value: datafusion_common::ScalarValue::Int32(Some(value)), .. }) => {
                Scalar::Constant(Constant::bigint(i64::from(value)))
            }
            other => self.cast(other, &SqlType::BigInt, Way::Assignment).map_err(at)?,
        };
        if let Scalar::Constant(Constant { value: datafusion_common::ScalarValue::Int64(Some(value)), .. }) = &scalar
            && *value < 0
        {
            let code = if clause == "LIMIT" { "2201W" } else { "2201X" };
            return Err(at(Error::input(format!("{clause} must not be negative")).with_code(code)));
        }
        Ok(Some(scalar))
    }
}

/// The number that LIMIT takes a percentage of; `None` for a number of rows.
fn percentage(limit: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = limit else { return None };
    if bare_name(function) != LIMIT_PERCENT {
        return None;
    }
    match written(function) {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(share))] => Some(share),
        _ => None,
    }
}

/// So many percent of the rows of a query, rounded down.
fn share_of(query: &Query, share: &Expr) -> Result<Expr> {
    let text = format!("SELECT (SELECT floor(count(*) * ({share}) / 100.0)::bigint FROM (SELECT 1) AS \"all\")");
    let mut counting = crate::parse::query(&text)?;
    let whole = Query { limit_clause: None, fetch: None, order_by: None, locks: vec![], ..query.clone() };
    if let SetExpr::Select(select) = counting.body.as_mut()
        && let Some(SelectItem::UnnamedExpr(Expr::Subquery(mut count))) = select.projection.pop()
    {
        if let SetExpr::Select(select) = count.body.as_mut()
            && let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
        {
            **subquery = whole;
        }
        return Ok(Expr::Subquery(count));
    }
    Err(Error::bug("a query that counts is none"))
}
