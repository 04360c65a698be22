//! UNION, INTERSECT, EXCEPT and VALUES.

use std::collections::HashMap;
use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_engine::plan::WindowFunction;
use diligence_types::SqlType;
use sqlparser::ast::{self, Expr, SetExpr, SetOperator, SetQuantifier, Values};

use super::collations::grouping_key;
use super::common_types::{common_of_values, with_own_digits};
use super::functions::is_row_function;
use super::operators::{of_texts, with_empty_maps};
use super::scope::{Clause, Level, Namespace, Withs};
use super::targets::{Target, is_default, too_many};
use super::{Binder, Output, Rows, normalized, place, placed, unsupported};
use crate::algebra::{
    Column, Comparison, Constant, Join, JoinKind, Relation, Scalar, SetKind, SetOperation, Window, WindowFrame,
    WindowItem, WindowKind,
};
use crate::errors;
use crate::walking::each_expression;

impl Binder<'_> {
    /// A set operation. Fails with 42601 for another number of columns, 42804 for types without a common one.
    pub(super) fn set_operation(&self, body: &SetExpr, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        let SetExpr::SetOperation { left, op, set_quantifier, right } = body else {
            return self.set_expression(body, outer, withs, true);
        };
        // UNIONs of one kind in a row are one operation of many inputs.
        let mut parts = vec![right.as_ref()];
        let mut first = left.as_ref();
        while let SetExpr::SetOperation { left, op: other, set_quantifier: other_quantifier, right } = first {
            if *op != SetOperator::Union || other != op || other_quantifier != set_quantifier {
                break;
            }
            parts.push(right);
            first = left;
        }
        parts.push(first);
        let inputs = parts.into_iter().rev().map(|part| {
            let rows = stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || {
                self.set_expression(part, outer, withs, true)
            });
            Ok((rows?, part))
        });
        let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
        let kind = match op {
            SetOperator::Union => SetKind::Union,
            SetOperator::Intersect => SetKind::Intersect,
            SetOperator::Except | SetOperator::Minus => SetKind::Except,
        };
        let is_all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
        if matches!(set_quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName) {
            by_name(&mut inputs);
        }
        let name = match kind {
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        };
        let width = inputs.first().map_or(0, |(rows, _)| rows.outputs.len());
        if let Some((_, part)) = inputs.iter().find(|(rows, _)| rows.outputs.len() != width) {
            let error = Error::input(format!("each {name} query must have the same number of columns"));
            return Err(errors::at(error.with_code("42601"), place(*part)));
        }
        let mut types = Vec::with_capacity(width);
        for index in 0..width {
            let scalars = inputs.iter().map(|(rows, _)| &rows.outputs[index].scalar).collect::<Vec<_>>();
            let literals = inputs.iter().map(|(rows, _)| written(rows, index)).collect::<Vec<_>>();
            let common = common_of_values(&scalars, name).map(|common| with_own_digits(common, &literals));
            let common = common.and_then(|common| self.collated_in_common(common, scalars));
            let common = common.map_err(|error| placed(error, || inputs.last().and_then(|(_, part)| place(*part))))?;
            if !is_all || kind != SetKind::Union {
                self.check_decided(&common)?;
            }
            // What is in arrays and rows is decided here: it is that of the columns.
            types.push(of_texts(&common));
        }
        let names = inputs.first().map(|(rows, _)| rows.outputs.iter().map(|output| output.name.clone()).collect());
        let names: Vec<String> = names.unwrap_or_default();
        let mut bound = Vec::with_capacity(inputs.len());
        let mut nullable = vec![false; width];
        for (rows, part) in inputs {
            let (relation, columns) = self.in_types(rows, &types).map_err(|error| placed(error, || place(part)))?;
            for (nullable, column) in nullable.iter_mut().zip(&columns) {
                *nullable |= column.nullable;
            }
            bound.push((relation, columns));
        }
        let new = names.iter().zip(&types).zip(nullable);
        let columns = new.map(|((name, sql_type), nullable)| self.numbers.named(name, sql_type.clone(), nullable));
        let columns = columns.collect::<Vec<_>>();
        let outputs = |columns: &[Column]| {
            let output = |column: &Column| Output { name: column.name.clone(), scalar: column.scalar() };
            columns.iter().map(output).collect()
        };
        let is_plain = is_all && kind == SetKind::Union;
        let has_keys = !is_plain && types.iter().any(|sql_type| grouping_key(sql_type).is_some());
        if has_keys && kind != SetKind::Union {
            let (relation, shown) = self.by_keys(kind, is_all, bound)?;
            let shown = shown.into_iter().zip(names).map(|(column, name)| Column { name, ..column });
            return Ok(Rows { relation, outputs: outputs(&shown.collect::<Vec<_>>()) });
        }
        let inputs =
            bound.into_iter().map(|(relation, columns)| (relation, columns.iter().map(|column| column.id).collect()));
        let operation =
            SetOperation { kind, is_all: is_all || has_keys, inputs: inputs.collect(), columns: columns.clone() };
        let mut relation = Relation::Set(operation);
        if has_keys {
            relation = self.distinct(relation, &columns)?;
        }
        Ok(Rows { relation, outputs: outputs(&columns) })
    }

    /// Rows with their columns in these types.
    pub(super) fn in_types(&self, rows: Rows, types: &[SqlType]) -> Result<(Relation, Vec<Column>)> {
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(types.len());
        for (output, sql_type) in rows.outputs.into_iter().zip(types) {
            let scalar = self.held_as(output.scalar, sql_type)?;
            columns.push(match scalar {
                Scalar::Column { id, sql_type, nullable } => Column { id, name: output.name, sql_type, nullable },
                other => {
                    let column = self.column_for(&output.name, &other);
                    computed.push((column.clone(), other));
                    column
                }
            });
        }
        Ok((rows.relation.mapped(computed), columns))
    }

    /// INTERSECT and EXCEPT by keys: the left side's first rows with or without a partner, as often as there are others
    /// like them if `is_all`.
    fn by_keys(
        &self,
        kind: SetKind,
        is_all: bool,
        bound: Vec<(Relation, Vec<Column>)>,
    ) -> Result<(Relation, Vec<Column>)> {
        let mut inputs = bound.into_iter();
        let (Some((left, shown)), Some((right, others))) = (inputs.next(), inputs.next()) else {
            return Err(Error::bug("a set operation of fewer than two inputs"));
        };
        let (left, left_keys) = self.with_keys(left, &shown)?;
        let (right, right_keys) = self.with_keys(right, &others)?;
        let on = left_keys
            .iter()
            .zip(&right_keys)
            .map(|(left, right)| Scalar::compare(Comparison::IsNotDistinctFrom, left.scalar(), right.scalar()));
        let kind = if kind == SetKind::Intersect { JoinKind::Semi } else { JoinKind::Anti };
        if is_all {
            // Of equal rows the first of one side is the partner of the first of the other.
            let (left, own, shown) = self.numbered_alike(left, &left_keys, &shown);
            let (right, other, _) = self.numbered_alike(right, &right_keys, &[]);
            let on = Scalar::all(on.chain([Scalar::equal(own.scalar(), other.scalar())]));
            let join = Join { kind, left: Box::new(left), right: Box::new(right), on };
            return Ok((Relation::Join(join), shown));
        }
        let on = Scalar::all(on);
        let left = Relation::Distinct {
            input: Box::new(left),
            on: left_keys.iter().map(|key| key.id).collect(),
            keeps_all: true,
        };
        Ok((Relation::Join(Join { kind, left: Box::new(left), right: Box::new(right), on }), shown))
    }

    /// Rows with their numbers among those of equal keys, and these columns as the first of them has them.
    pub(super) fn numbered_alike(
        &self,
        input: Relation,
        keys: &[Column],
        shown: &[Column],
    ) -> (Relation, Column, Vec<Column>) {
        let item = |function, arguments| {
            let frame = WindowFrame::known(datafusion_expr::WindowFrame::new(None));
            WindowItem { kind: WindowKind::Engine(function), arguments, filter: None, order: vec![], frame }
        };
        let number = self.numbers.named("row_number", SqlType::BigInt, false);
        let firsts =
            shown.iter().map(|column| self.numbers.named(&column.name, column.sql_type.clone(), column.nullable));
        let firsts = firsts.collect::<Vec<_>>();
        let first = WindowFunction::Nth { nth: 1, ignore_nulls: false };
        let values = shown.iter().zip(&firsts);
        let values = values.map(|(column, value)| (value.clone(), item(first.clone(), vec![column.scalar()])));
        let items = std::iter::once((number.clone(), item(WindowFunction::RowNumber, vec![]))).chain(values);
        let partition = keys.iter().map(Column::scalar).collect();
        let window = Window { input: Box::new(input), partition, order: vec![], items: items.collect() };
        (Relation::Window(window), number, firsts)
    }

    /// Whether one row of values to insert stands for several, since functions in it give rows.
    pub(super) fn values_give_rows(&self, values: &Values) -> Result<bool> {
        let [row] = values.rows.as_slice() else { return Ok(false) };
        let mut called = Vec::new();
        for value in &row.content {
            let done = each_expression(value, |part| {
                if let Expr::Function(function) = part {
                    called.push(function.name.clone());
                }
                ControlFlow::Continue(())
            });
            debug_assert!(done.is_continue());
        }
        for name in called {
            let last = name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default();
            if is_row_function(&last) || self.context.routines(&name)?.iter().any(|routine| routine.gives_rows) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// VALUES; with targets, each value as it is stored into its column. Fails with 42601 for lists of another length.
    pub(super) fn values(
        &self,
        values: &Values,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        targets: Option<&[&Target]>,
    ) -> Result<Rows> {
        let level = Level::new(outer, withs, Namespace::default(), Clause::Values);
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let error = Error::input("VALUES lists must all be the same length").with_code("42601");
                return Err(errors::at(error, row.content.first().and_then(place)));
            }
            if let Some(value) = targets.and_then(|targets| row.content.get(targets.len())) {
                return Err(errors::at(too_many(), place(value)));
            }
            let scalars = row.content.iter().enumerate().map(|(index, value)| match targets {
                None => self.scalar(value, &level),
                Some(targets) => {
                    let target = targets.get(index).ok_or_else(|| errors::at(too_many(), place(value)))?;
                    self.stored_value(value, target, &level)
                }
            });
            rows.push(scalars.collect::<Result<Vec<_>>>()?);
        }
        if targets.is_none() {
            for index in 0..width {
                let nothing = || Scalar::boolean(false);
                let column = rows.iter_mut().map(|row| std::mem::replace(&mut row[index], nothing()));
                let column = with_empty_maps(column.collect());
                rows.iter_mut().zip(column).for_each(|(row, value)| row[index] = value);
                let column = rows.iter().map(|row| &row[index]).collect::<Vec<_>>();
                let common = with_own_digits(of_texts(&common_of_values(&column, "VALUES")?), &column);
                let common = self.collated_in_common(common, rows.iter().map(|row| &row[index]))?;
                for (row, written) in rows.iter_mut().zip(&values.rows) {
                    let taken = std::mem::replace(&mut row[index], Scalar::boolean(false));
                    let cast = self.held_as(taken, &common);
                    row[index] = cast.map_err(|error| placed(error, || place(&written.content[index])))?;
                }
            }
        }
        let columns = (0..width).map(|index| {
            let nullable = rows.iter().any(|row| row[index].nullable());
            let sql_type = rows.first().map_or(SqlType::Text, |row| row[index].sql_type());
            self.numbers.named(format!("column{}", index + 1), sql_type, nullable)
        });
        let columns = columns.collect::<Vec<_>>();
        let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
        let outputs = outputs.collect();
        Ok(Rows { relation: Relation::Values { columns, rows }, outputs })
    }
}

/// What the SELECT list of an input has in a place: the literal of `SELECT 1.5`, not the column that has it.
fn written(rows: &Rows, index: usize) -> &Scalar {
    let scalar = &rows.outputs[index].scalar;
    let Relation::Map { columns, .. } = &rows.relation else { return scalar };
    let computed = columns.iter().find(|(column, _)| scalar.as_column() == Some(column.id));
    computed.map_or(scalar, |(_, value)| value)
}

/// `VALUES (a, b)` as `SELECT a, b`. What is DEFAULT is left out, as its place is.
pub(super) fn selected_values(values: &Values, places: &mut Vec<usize>) -> Result<ast::Query> {
    let mut query = crate::parse::query("SELECT 1")?;
    if let (SetExpr::Select(select), [row]) = (query.body.as_mut(), values.rows.as_slice()) {
        let mut is_given = row.content.iter().map(|value| !is_default(value));
        places.retain(|_| is_given.next().unwrap_or(true));
        let given = row.content.iter().filter(|value| !is_default(value)).cloned();
        select.projection = given.map(ast::SelectItem::UnnamedExpr).collect();
    }
    Ok(query)
}

/// BY NAME: columns of one name go together; where an input lacks one, it is NULL.
fn by_name(inputs: &mut [(Rows, &SetExpr)]) {
    let mut names = Vec::<String>::new();
    for (rows, _) in inputs.iter() {
        for output in &rows.outputs {
            if !names.contains(&output.name) {
                names.push(output.name.clone());
            }
        }
    }
    for (rows, _) in inputs {
        let mut outputs = rows.outputs.drain(..).map(|output| (output.name, output.scalar)).collect::<HashMap<_, _>>();
        let null =
            || Scalar::Constant(Constant { value: Constant::null(SqlType::Text).value, sql_type: SqlType::Unknown });
        rows.outputs = names
            .iter()
            .map(|name| Output { name: name.clone(), scalar: outputs.remove(name).unwrap_or_else(null) })
            .collect();
    }
}

/// The error for what a recursive query cannot have.
pub(super) fn misplaced_recursion(name: &str, place: &str) -> Error {
    unsupported(format!("a recursive reference to \"{name}\" in {place}"))
}
