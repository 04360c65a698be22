//! FROM: tables, subqueries, functions and joins, to a relation and the names of its columns.

use std::ops::Range;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use diligence_types::functions::{has_function, scalars};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator, LockClause,
    ObjectName, Query, SetExpr, TableAlias, TableFactor, TableSampleKind, TableVersion, TableWithJoins,
};

use super::common_types::common_of;
use super::functions::{bare_name, is_row_function, written};
use super::join_kinds::JoinedKind;
use super::lists::ELEMENTS;
use super::operators::Way;
use super::samples::{nearest, row_count, sample_of, seed_of};
use super::scope::{Clause, Level, Namespace, Source, Withheld, Withs};
use super::targets::Target;
use super::{
    Binder, Named, Rows, STACK_GROWTH, STACK_RED_ZONE, VIEW_DEPTH_MAX, name_place, normalized, place, placed, shown,
    unsupported,
};
use crate::algebra::{
    Apply, Column, Comparison, Constant, Join, JoinKind, Relation, Scalar, Scan, TableFunction, WithTable,
};
use crate::errors;
use crate::parse::JOIN_ALIAS;
use crate::routines::Definition;
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA};

/// The function whose rows are the elements of a list in DuckDB.
const SERIES: &str = "generate_series";

/// A part of FROM: its rows and its names.
pub(super) struct JoinedSide {
    pub relation: Relation,
    pub names: Namespace,
}

/// The columns of a view, of those that its query has now: with `*`, its tables may have got more since it was made.
fn as_made(columns: Vec<Column>, made: &[String], is_renamed: bool) -> Vec<Column> {
    if made.is_empty() || columns.len() <= made.len() {
        return columns;
    }
    if is_renamed {
        return columns.into_iter().take(made.len()).collect();
    }
    let of_name = |name: &String| columns.iter().find(|column| column.name == *name).cloned();
    let picked = made.iter().map(of_name).collect::<Option<Vec<_>>>();
    picked.unwrap_or(columns)
}

impl Binder<'_> {
    /// FROM. Its parts with commas between them are joined; each may read those before it, if it is LATERAL or a
    /// function.
    pub(super) fn from(
        &self,
        from: &[TableWithJoins],
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let mut left = JoinedSide { relation: Relation::one_row(), names: Namespace::default() };
        for (index, part) in from.iter().enumerate() {
            if let Some(arguments) = sample_of(part) {
                left.relation = self.sample_of_rows(left.relation, arguments)?;
                continue;
            }
            let before = Level::new(outer, withs, left.names, Clause::From);
            let right = self.joined(part, outer, &before, withs)?;
            let is_lateral = before.is_read.get();
            left.names = before.names;
            left = match index {
                0 => right,
                _ => {
                    let names = left.names.joined(right.names)?;
                    let (left, right) = (left.relation, right.relation);
                    JoinedSide {
                        relation: combine(JoinKind::Inner, left, right, Scalar::boolean(true), is_lateral),
                        names,
                    }
                }
            };
        }
        Ok(left)
    }

    /// A part of FROM with the joins behind it.
    fn joined(
        &self,
        part: &TableWithJoins,
        outer: Option<&Level<'_>>,
        before: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let mut left = self.factor(&part.relation, outer, before, withs)?;
        for join in &part.joins {
            let level = Level::new(Some(before), withs, left.names, Clause::From);
            let right = self.factor(&join.relation, outer, &level, withs)?;
            let is_lateral = level.is_read.get();
            left.names = level.names;
            left = self.join(left, right, &join.join_operator, is_lateral, outer, withs)?;
        }
        Ok(left)
    }

    /// A query in FROM, whose rows are locked as these clauses say.
    fn locked_query(
        &self,
        query: &Query,
        locks: Option<&[LockClause]>,
        around: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let Some(locks) = locks else { return self.query(query, around, withs) };
        let mut locked = query.clone();
        locked.locks.extend_from_slice(locks);
        self.query(&locked, around, withs)
    }

    fn join(
        &self,
        left: JoinedSide,
        right: JoinedSide,
        operator: &JoinOperator,
        is_lateral: bool,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let (kind, constraint) = JoinedKind::of(operator)?;
        if is_lateral && !matches!(kind, JoinedKind::Inner | JoinedKind::Left | JoinedKind::Semi | JoinedKind::Anti) {
            let error = Error::input("invalid reference to the left side of a RIGHT or FULL JOIN").with_code("42P10");
            return Err(error.with_hint("the combining JOIN type must be INNER or LEFT for a LATERAL reference"));
        }
        if let Some(locking) = &*self.locking.borrow() {
            if kind.pads_right() {
                locking.refuse_nullable(&right.relation)?;
            }
            if kind.pads_left() {
                locking.refuse_nullable(&left.relation)?;
            }
        }
        let has_condition = !matches!(constraint, JoinConstraint::None);
        let needs_none = matches!(
            operator,
            JoinOperator::CrossJoin(_)
                | JoinOperator::CrossApply
                | JoinOperator::OuterApply
                | JoinOperator::InnerArrayJoin
        );
        if !has_condition && !needs_none {
            let error = Error::input("a JOIN needs a condition: ON … or USING (…)").with_code("42601");
            return Err(error.with_hint("CROSS JOIN joins each row with each"));
        }
        let mut join_alias = None;
        let using = match constraint {
            JoinConstraint::Using(names) => {
                let names = names.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
                let mut names = names.collect::<Vec<Ident>>();
                join_alias = names.last().and_then(|last| last.value.strip_prefix(JOIN_ALIAS)).map(str::to_owned);
                if join_alias.is_some() {
                    names.pop();
                }
                Some(names)
            }
            JoinConstraint::Natural => Some(left.names.common(&right.names)),
            JoinConstraint::On(_) | JoinConstraint::None => None,
        };
        let left_range = (0..left.names.sources.len(), 0..left.names.merged_count());
        let mut merged = Vec::new();
        let mut conditions = Vec::new();
        for name in using.iter().flatten() {
            let (left_shown, right_shown) = (left.names.using(name, "left")?, right.names.using(name, "right")?);
            let (left_column, right_column) = (left.names.shown(left_shown), right.names.shown(right_shown));
            self.reads(&left.names, left_column.id);
            self.reads(&right.names, right_column.id);
            // The last column of an ASOF JOIN says how near a row is.
            let is_nearest = matches!(operator, JoinOperator::AsOf { .. })
                && using.as_ref().is_some_and(|names| conditions.len() + 1 == names.len());
            let comparison = if is_nearest { Comparison::GreaterOrEqual } else { Comparison::Equal };
            let equal = self.compare(comparison, left_column.scalar(), right_column.scalar());
            conditions.push(equal.map_err(|error| placed(error, || name_place(name)))?);
            let pair = (left_column.clone(), right_column.clone());
            merged.push((pair, left_shown, left.names.shifted(right_shown)));
        }
        let mut names = left.names.joined(right.names)?;
        let right_range = (left_range.0.end..names.sources.len(), left_range.1.end..names.merged_count());
        if let JoinConstraint::On(condition) = constraint {
            let level = Level::new(outer, withs, names, Clause::On);
            conditions.push(self.condition(condition, &level, "JOIN/ON")?);
            names = level.names;
        }
        let on = Scalar::all(conditions);
        let mut pad =
            |(sources, merged): &(Range<usize>, Range<usize>)| names.pad(self, sources.clone(), merged.clone());
        if kind.pads_left() {
            pad(&left_range);
        }
        if kind.pads_right() {
            pad(&right_range);
        }
        let (left_relation, right_relation) = (left.relation, right.relation);
        let relation = match kind {
            JoinedKind::Inner => combine(JoinKind::Inner, left_relation, right_relation, on, is_lateral),
            JoinedKind::Left => combine(JoinKind::Left, left_relation, right_relation, on, is_lateral),
            JoinedKind::Full => combine(JoinKind::Full, left_relation, right_relation, on, false),
            JoinedKind::Positional => self.by_position(left_relation, right_relation)?,
            JoinedKind::AsOf => nearest(JoinKind::Inner, left_relation, right_relation, on)?,
            JoinedKind::AsOfLeft => nearest(JoinKind::Left, left_relation, right_relation, on)?,
            JoinedKind::AsOfRight => self.nearest_of_all(false, left_relation, right_relation, on)?,
            JoinedKind::AsOfFull => self.nearest_of_all(true, left_relation, right_relation, on)?,
            // The engine's left joins keep the left side.
            JoinedKind::Right => combine(JoinKind::Left, right_relation, left_relation, on, false),
            JoinedKind::Semi => combine(JoinKind::Semi, left_relation, right_relation, on, is_lateral),
            JoinedKind::Anti => combine(JoinKind::Anti, left_relation, right_relation, on, is_lateral),
            JoinedKind::RightSemi => combine(JoinKind::Semi, right_relation, left_relation, on, false),
            JoinedKind::RightAnti => combine(JoinKind::Anti, right_relation, left_relation, on, false),
        };
        match kind {
            JoinedKind::Semi | JoinedKind::Anti => names.keep(left_range.0),
            JoinedKind::RightSemi | JoinedKind::RightAnti => names.keep(right_range.0),
            _ => {}
        }
        if merged.is_empty()
            || matches!(kind, JoinedKind::Semi | JoinedKind::Anti | JoinedKind::RightSemi | JoinedKind::RightAnti)
        {
            return Ok(JoinedSide { relation, names });
        }
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(merged.len());
        for ((left, right), left_shown, right_shown) in merged {
            let common = common_of(&[left.sql_type.clone(), right.sql_type.clone()], "JOIN/USING")?;
            let common = self.collated_in_common(common, [&left.scalar(), &right.scalar()])?;
            let cast = |column: &Column| self.cast(column.scalar(), &common, Way::Implicit);
            let column = match kind {
                JoinedKind::Full | JoinedKind::AsOfFull => {
                    let both = Scalar::Coalesce(vec![cast(&left)?, cast(&right)?]);
                    let column = self.numbers.named(&left.name, common, true);
                    computed.push((column.clone(), both));
                    column
                }
                _ => {
                    let kept = if matches!(kind, JoinedKind::Right | JoinedKind::AsOfRight) { &right } else { &left };
                    if kept.sql_type == common {
                        Column { name: left.name.clone(), ..kept.clone() }
                    } else {
                        let scalar = cast(kept)?;
                        let column = self.column_for(&left.name, &scalar);
                        computed.push((column.clone(), scalar));
                        column
                    }
                }
            };
            columns.push((column, left_shown, right_shown));
        }
        let merged = columns.iter().map(|(column, ..)| column.clone()).collect();
        names.merge(columns);
        if let Some(alias) = join_alias {
            names = names.joined(Namespace::of_merged(alias, merged))?;
        }
        Ok(JoinedSide { relation: relation.mapped(computed), names })
    }

    fn factor(
        &self,
        factor: &TableFactor,
        outer: Option<&Level<'_>>,
        before: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || match factor {
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, sample, .. } => {
                if args.settings.is_some() {
                    return Err(unsupported("SETTINGS of a function in FROM"));
                }
                let side = self.table_function(name, &args.args, *with_ordinality, alias.as_ref(), before, withs)?;
                Ok(JoinedSide { relation: self.sampled(side.relation, sample.as_ref())?, names: side.names })
            }
            TableFactor::JsonTable { json_expr, json_path, columns, alias } => {
                let level = Level::new(Some(before), withs, Namespace::default(), Clause::From);
                let rows = self.json_table(json_expr, json_path, columns, &level, withs)?;
                self.derived(rows, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.table_function(name, args, *with_ordinality, alias.as_ref(), before, withs)
            }
            TableFactor::Table { name, alias, version, with_ordinality, partitions, sample, with_hints, .. } => {
                if *with_ordinality {
                    let error = Error::input("WITH ORDINALITY follows a function").with_code("42601");
                    return Err(error.with_hint("row_number() OVER () numbers rows"));
                }
                if !partitions.is_empty() || !with_hints.is_empty() {
                    return Err(unsupported("what is behind the table's name"));
                }
                let moment = version.as_ref().map(|version| self.moment(version, withs)).transpose()?;
                self.table(name, alias.as_ref(), sample.as_ref(), moment, withs)
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                let around = if *lateral { Some(before) } else { outer };
                let called = alias.as_ref().map(|alias| normalized(&alias.name));
                let locks = self.locking.borrow_mut().as_mut().map(|locking| locking.clauses_of(called.as_deref()));
                let locks = locks.filter(|locks| !locks.is_empty() && !matches!(*subquery.body, SetExpr::Values(_)));
                let rows = match self.locked_query(subquery, locks.as_deref(), around, withs) {
                    // DuckDB's subqueries are LATERAL where they have to be.
                    Err(error)
                        if !*lateral
                            && matches!(error.code(), Some("42703" | "42P01"))
                            && !before.names.sources.is_empty()
                            && self.may_try_again() =>
                    {
                        self.locked_query(subquery, locks.as_deref(), Some(before), withs).map_err(|_| error)?
                    }
                    other => other?,
                };
                let rows = self.settled(rows)?;
                let columns = rows.columns();
                if let (Some(_), Some(locking)) = (locks, &mut *self.locking.borrow_mut()) {
                    locking.found_within(&columns);
                }
                let relation = self.sampled(rows.relation, sample.as_ref())?;
                named(relation, columns, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let side = self.joined(table_with_joins, outer, before, withs)?;
                let Some(alias) = alias else { return Ok(side) };
                let columns = side.names.columns().cloned().collect();
                let relation = self.with_markers(side.relation, &side.names);
                named(relation, columns, Some(alias), None)
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_ordinality, .. } => {
                if *with_offset {
                    return Err(unsupported("WITH OFFSET").with_hint("WITH ORDINALITY counts from 1"));
                }
                let level = Level::new(Some(before), withs, Namespace::default(), Clause::From);
                let arrays = array_exprs.iter().map(|array| {
                    let rows = match array {
                        // A series is a list in DuckDB.
                        Expr::Function(call) if bare_name(call) == SERIES => {
                            self.row_array(SERIES, self.arguments(SERIES, written(call), &level)?)
                        }
                        array => self.row_array("unnest", vec![self.scalar(array, &level)?]),
                    };
                    rows.map_err(|error| placed(error, || place(array)))
                });
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let items = arrays.into_iter().map(|array| ("unnest".to_owned(), array)).collect();
                self.rows_of(items, *with_ordinality, alias.as_ref())
            }
            TableFactor::TableFunction { expr: Expr::Function(function), alias } => {
                self.table_function(&function.name, written(function), false, alias.as_ref(), before, withs)
            }
            TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } => {
                if let Some(default) = default_on_null {
                    return Err(placed(unsupported("DEFAULT ON NULL"), || place(default)));
                }
                let rows = self.pivot(table, aggregate_functions, value_column, value_source, outer, withs)?;
                self.derived(rows, alias.as_ref())
            }
            TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
                let keeps_nulls = matches!(null_inclusion, Some(ast::NullInclusion::IncludeNulls));
                let rows = self.unpivot(table, (name, value), columns, keeps_nulls, outer, withs)?;
                self.derived(rows, alias.as_ref())
            }
            other => Err(unsupported(format!("{other} in FROM"))),
        })
    }

    /// The rows of a query under an alias.
    fn derived(&self, rows: Rows, alias: Option<&TableAlias>) -> Result<JoinedSide> {
        let rows = self.settled(rows)?;
        let columns = rows.columns();
        named(rows.relation, columns, alias, None)
    }

    /// The moment that a table is asked for, in microseconds since 1970. Fails with 42601 for another clause, and with
    /// 0A000 if the moment is not the same for all rows.
    fn moment(&self, version: &TableVersion, withs: &Withs<'_>) -> Result<i64> {
        let of_time = |argument: &FunctionArg| match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } if normalized(name) == "timestamp" => {
                Some(value.clone())
            }
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. }
                if normalized(name) == "timestamp" =>
            {
                Some(value.clone())
            }
            _ => None,
        };
        let value = match version {
            TableVersion::ForSystemTimeAsOf(value) | TableVersion::TimestampAsOf(value) => Some(value.clone()),
            TableVersion::Function(Expr::Function(function)) => match written(function) {
                [argument] => of_time(argument),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| {
            let error = Error::input("a table of the past is asked for by a time").with_code("42601");
            error.with_hint("write FOR SYSTEM_TIME AS OF time, or AT (TIMESTAMP => time)")
        })?;
        let level = Level::new(None, withs, Namespace::default(), Clause::From);
        let target = Target::new("time", SqlType::TimestampTz);
        let scalar = self.assign(self.scalar(&value, &level)?, &target);
        let scalar = scalar.map_err(|error| placed(error, || place(&value)))?;
        let moment = self.context.value_now(&scalar).map_err(|error| placed(error, || place(&value)))?;
        moment.ok_or_else(|| placed(Error::value("the time is NULL").with_code("22004"), || place(&value)))
    }

    /// A table, a view or a common table expression. Fails with 42P01 if there is none of the name.
    fn table(
        &self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
        sample: Option<&TableSampleKind>,
        moment: Option<i64>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let parts = name.0.iter().filter_map(|part| part.as_ident()).collect::<Vec<_>>();
        if let [only] = parts.as_slice()
            && let Some(entry) = withs.find(&normalized(only)).filter(|_| moment.is_none())
        {
            if entry.gives_nothing {
                let message = format!("WITH query \"{}\" does not have a RETURNING clause", normalized(only));
                return Err(errors::at(Error::unsupported(message).with_code("0A000"), name_place(only)));
            }
            entry.reads.set(entry.reads.get() + 1);
            let columns = entry
                .columns
                .iter()
                .map(|column| self.numbers.named(&column.name, column.sql_type.clone(), column.nullable));
            let columns = columns.collect::<Vec<_>>();
            let table = WithTable { id: entry.id, name: normalized(only), columns: columns.clone() };
            let relation = self.sampled(Relation::With(table), sample)?;
            let mut side = named(relation, columns, alias, Some((normalized(only), vec![])))?;
            if entry.added > 0 {
                side.names.adds(entry.added);
            }
            return Ok(side);
        }
        let at = |error| placed(error, || parts.first().and_then(|part| name_place(part)));
        let found = match moment {
            None => self.context.table(name),
            Some(moment) => self.context.table_at(name, moment),
        };
        let Some(found) = found.map_err(at)? else { return Err(at(self.unknown_table(name))) };
        let withheld = self.context.withheld(name);
        let qualifiers = match parts.as_slice() {
            [] | [_] => vec![DEFAULT_SCHEMA.to_owned(), CATALOG_NAME.to_owned()],
            [front @ .., _] => front.iter().rev().map(|part| normalized(part)).collect(),
        };
        match found {
            Named::Table { mut table, name: own, key } => {
                let name_here = alias.map_or_else(|| own.clone(), |alias| normalized(&alias.name));
                let way = self.locking.borrow_mut().as_mut().and_then(|locking| locking.way_of(&name_here));
                let lockable = match way {
                    Some(_) if moment.is_some() => {
                        let error = Error::unsupported("rows of the past are not locked").with_code("0A000");
                        return Err(at(error));
                    }
                    Some((mode, way)) => Some(self.context.lockable(name, mode, way).map_err(at)?),
                    None => None,
                };
                if let Some(lockable) = &lockable {
                    table = lockable.table.clone();
                }
                let name = own;
                let mut columns = Vec::new();
                for (position, field) in table.schema().fields().iter().enumerate() {
                    let Some(sql_type) = SqlType::of_field(field) else {
                        let (column, ty) = (field.name(), field.data_type());
                        let message =
                            format!("the column '{column}' of '{name}' has a type that SQL does not know: {ty}");
                        return Err(at(Error::unsupported(message).with_code("0A000")));
                    };
                    let sql_type = sql_type.base().clone();
                    columns.push((position, self.numbers.named(field.name(), sql_type, field.is_nullable())));
                }
                let mut shown = columns.iter().map(|(_, column)| column.clone()).collect::<Vec<_>>();
                let has_number =
                    shown.last().is_some_and(|column| column.name == ROW_NUMBERS) && name != super::CHANGED;
                let number = if has_number { shown.pop() } else { None };
                if let Some(lockable) = lockable {
                    let number = number.clone().ok_or_else(|| Error::bug("rows have no numbers"))?;
                    if let Some(locking) = &mut *self.locking.borrow_mut() {
                        locking.found(number, lockable.function);
                    }
                }
                let mut scan = Scan { table, name: name.clone(), columns, sample: None };
                // A scan takes any of its rows.
                let is_apart = |sample| Ok::<_, Error>(row_count(sample)?.is_some() || seed_of(sample)?.is_some());
                let some = if sample.map(is_apart).transpose()? == Some(true) { sample } else { None };
                scan.sample = sample.filter(|_| some.is_none()).map(|sample| self.share(sample)).transpose()?;
                let key = shown.iter().filter(|column| key.contains(&column.name)).map(|column| column.id).collect();
                let withheld = Withheld::of(withheld, &shown);
                let rows = self.sampled(Relation::Scan(scan), some)?;
                let mut side = named(rows, shown, alias, Some((name, qualifiers)))?;
                side.names.sources[0].withheld = withheld;
                side.names.has_key(key);
                side.names.sources[0].number = number;
                side.names.sources[0].is_table = true;
                side.names.sources[0].relation = Some(super::table_numbers::written(&parts));
                Ok(Self::with_file_name(side))
            }
            Named::View { query, columns, made, name, schema } => {
                if self.view_depth.get() >= VIEW_DEPTH_MAX {
                    let message = format!("views nest too deep: the view '{name}' is below {VIEW_DEPTH_MAX} others");
                    return Err(at(Error::input(message).with_code("54001")));
                }
                self.view_depth.set(self.view_depth.get() + 1);
                self.context.enter_view(&schema, &name);
                let bound = self.query(&query, None, &Withs::default()).and_then(|rows| self.settled(rows));
                self.context.leave_view();
                self.view_depth.set(self.view_depth.get() - 1);
                // Places in the view's text are none in the statement's.
                let is_outermost = self.view_depth.get() == 0;
                let rows = bound.map_err(|error| match is_outermost {
                    true => at(error.context(format!("the view '{name}'"))),
                    false => error,
                })?;
                let mut shown = as_made(rows.columns(), &made, !columns.is_empty());
                for (column, name) in shown.iter_mut().zip(columns) {
                    column.name = name;
                }
                let withheld = Withheld::of(withheld, &shown);
                let relation = self.sampled(rows.relation, sample)?;
                let mut side = named(relation, shown, alias, Some((name, qualifiers)))?;
                side.names.sources[0].withheld = withheld;
                Ok(side)
            }
        }
    }

    fn unknown_table(&self, name: &ObjectName) -> Error {
        let text = name.0.iter().filter_map(|part| part.as_ident()).map(normalized).collect::<Vec<_>>().join(".");
        if let Some((message, hint)) = self.context.instead_of(&text) {
            return Error::input(message).with_code("42P01").with_hint(hint);
        }
        let error = Error::input(format!("no table is named '{text}'")).with_code("42P01");
        let known = self.context.relations();
        if known.is_empty() {
            return error.with_hint("there are no tables yet: open a folder with --data, or use CREATE TABLE");
        }
        errors::suggest(error, &text, &known)
    }

    /// A function in FROM, or several side by side.
    fn table_function(
        &self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        with_ordinality: bool,
        alias: Option<&TableAlias>,
        before: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let level = Level::new(Some(before), withs, Namespace::default(), Clause::From);
        let last = name.0.last().and_then(|part| part.as_ident());
        let function = last.map(normalized).unwrap_or_default();
        if let ("summarize", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query)))]) =
            (function.as_str(), arguments)
        {
            let rows = self.summary(query, None, withs)?;
            return self.derived(rows, alias);
        }
        if let ("describe", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query)))]) =
            (function.as_str(), arguments)
        {
            let rows = self.description(query, withs)?;
            return self.derived(rows, alias);
        }
        if function == "duckdb_variables" && arguments.is_empty() {
            return self.derived(self.known_variables()?, alias);
        }
        if let Some(text) = shown::query_of(&function, arguments)? {
            let rows = self.query(&crate::parse::query(&text)?, None, withs)?;
            return self.derived(rows, alias);
        }
        if let Some(rows) = self.routine_rows(name, arguments, alias, &level, withs)? {
            let own = alias.is_none().then(|| (function.clone(), vec![]));
            let rows = self.with_fields(self.settled(rows)?, &function);
            let mut columns = rows.columns();
            // A function's only column has its alias' name.
            let is_scalar = matches!(columns.as_slice(), [only] if only.name == function);
            if let (true, Some(alias)) = (is_scalar, alias) {
                columns[0].name = normalized(&alias.name);
            }
            // The name of an OUT parameter goes before that.
            if is_scalar && let [Definition { output: Some(output), .. }] = self.context.routines(name)?.as_slice() {
                columns[0].name.clone_from(output);
            }
            let mut relation = rows.relation;
            if with_ordinality {
                let (numbered, number, _) = self.numbered_alike(relation, &[], &[]);
                relation = numbered;
                columns.push(Column { name: "ordinality".to_owned(), ..number });
            }
            let mut side = named(relation, columns, alias.map(without_types).as_ref(), own)?;
            side.names.sources[0].is_scalar = is_scalar && !with_ordinality;
            return Ok(side);
        }
        if let Some(text) = shown::written_query(&function, arguments)? {
            return self.derived(self.query(&crate::parse::query(&text)?, None, withs)?, alias);
        }
        if let Some(rows) = self.record_set(&function, arguments, alias, &level, withs)? {
            return self.derived(rows, alias.map(without_types).as_ref());
        }
        let mut items = Vec::new();
        if function == "rows from" {
            for argument in arguments {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) = argument else {
                    return Err(Error::input("ROWS FROM is a list of functions").with_code("42601"));
                };
                let arguments = match &call.args {
                    FunctionArguments::Subquery(_) => return Err(unsupported("a subquery as a function's arguments")),
                    _ => written(call),
                };
                let (start, call_name) = (items.len(), bare_name(call));
                if let Some(array) = self.routine_array(call, &level)? {
                    items.push((call_name, array));
                    continue;
                }
                self.items_of(&call_name, arguments, &level, &mut items)
                    .map_err(|error| placed(error, || call.name.0.last()?.as_ident().and_then(name_place)))?;
                debug_assert!(items.len() > start, "a function gives a column");
            }
        } else {
            if let Some(side) = self.foreign_table(&function, arguments, alias, &level)? {
                return Ok(side);
            }
            self.items_of(&function, arguments, &level, &mut items)
                .map_err(|error| placed(error, || last.and_then(name_place)))?;
        }
        self.rows_of(items, with_ordinality, alias)
    }

    /// A function that is a table of the catalog's, if its arguments are known.
    fn foreign_table(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        level: &Level<'_>,
    ) -> Result<Option<JoinedSide>> {
        if is_row_function(name) || !scalars(name).is_empty() {
            return Ok(None);
        }
        if self.context.is_file_function(name) {
            let arguments =
                arguments.iter().map(|argument| self.file_argument(argument, level)).collect::<Result<Vec<_>>>()?;
            let found = self.context.file_function(name, &arguments)?;
            return match found {
                Some(Named::Table { table, name, .. }) => self.table_rows(table, name, alias).map(Some),
                _ => Ok(None),
            };
        }
        let mut known = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. } => (Some(normalized(name)), arg),
                FunctionArg::ExprNamed { .. } => return Ok(None),
            };
            let scalar = self.typed(self.argument(value, level)?)?;
            match scalar {
                Scalar::Constant(constant) => known.push((name, constant)),
                _ => return Ok(None),
            }
        }
        match self.context.table_function(name, &known)? {
            Some(Named::Table { table, name, .. }) => self.table_rows(table, name, alias).map(Some),
            Some(Named::View { query, name, .. }) => {
                let rows = self.query(&query, None, &Withs::default())?;
                let rows = self.settled(rows)?;
                let columns = rows.columns();
                named(rows.relation, columns, alias, Some((name, vec![]))).map(Some)
            }
            None => Ok(None),
        }
    }

    /// The rows of a table that a function gives.
    fn table_rows(&self, table: Arc<dyn Table>, name: String, alias: Option<&TableAlias>) -> Result<JoinedSide> {
        let columns = table.schema();
        let columns = columns.fields().iter().enumerate().filter_map(|(position, field)| {
            let sql_type = SqlType::of_field(field)?.base().clone();
            Some((position, self.numbers.named(field.name(), sql_type, field.is_nullable())))
        });
        let columns = columns.collect::<Vec<_>>();
        let shown = columns.iter().map(|(_, column)| column.clone()).collect();
        let scan = Scan { table, name: name.clone(), columns, sample: None };
        named(Relation::Scan(scan), shown, alias, Some((name, vec![]))).map(Self::with_file_name)
    }

    /// The arrays of a function's rows: several for `unnest` of several arrays.
    fn items_of(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        level: &Level<'_>,
        items: &mut Vec<(String, Scalar)>,
    ) -> Result<()> {
        let arguments = self.arguments(name, arguments, level)?;
        if name == "unnest" {
            for array in arguments {
                items.push((name.to_owned(), self.row_array(name, vec![array])?));
            }
            return Ok(());
        }
        if name == ELEMENTS {
            items.extend(arguments.into_iter().map(|list| (name.to_owned(), list)));
            return Ok(());
        }
        if is_row_function(name) || name == "range" {
            items.push((name.to_owned(), self.row_array(name, arguments)?));
            return Ok(());
        }
        // Any function is a table of one row.
        let value = match has_function(name) {
            true => self.call(name, arguments)?,
            false => self.named_call(name, arguments, level)?,
        };
        let value = self.typed(value)?;
        let sql_type = SqlType::array_of(value.sql_type());
        items.push((name.to_owned(), Scalar::Array { elements: vec![value], sql_type }));
        Ok(())
    }
}

/// An alias whose columns have names only.
fn without_types(alias: &TableAlias) -> TableAlias {
    let mut alias = alias.clone();
    alias.columns.iter_mut().for_each(|column| column.data_type = None);
    alias
}

/// A source under its alias, or else its own name and what may stand in front of it. Fails with 42P10 if the alias
/// names more columns than there are.
pub(super) fn named(
    relation: Relation,
    mut columns: Vec<Column>,
    alias: Option<&TableAlias>,
    own: Option<(String, Vec<String>)>,
) -> Result<JoinedSide> {
    let source = match alias {
        None => {
            let (name, qualifiers) = own.unzip();
            let mut source = Source::new(name, columns);
            source.qualifiers = qualifiers.unwrap_or_default();
            source
        }
        Some(alias) => {
            let name = normalized(&alias.name);
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    alias.columns.len()
                );
                return Err(errors::at(Error::input(message).with_code("42P10"), name_place(&alias.name)));
            }
            for (column, definition) in columns.iter_mut().zip(&alias.columns) {
                column.name = normalized(&definition.name);
            }
            Source::new(Some(name), columns)
        }
    };
    Ok(JoinedSide { relation, names: Namespace::of(source) })
}

/// A join; a dependent one if the right side reads the left. What is computed for each row of the left side alone is
/// put on top of it.
fn combine(kind: JoinKind, left: Relation, right: Relation, on: Scalar, is_lateral: bool) -> Relation {
    let (left, right) = (Box::new(left), Box::new(right));
    if !is_lateral {
        return Relation::Join(Join { kind, left, right, on });
    }
    let is_always = on.as_constant().and_then(Constant::as_bool) == Some(true);
    match (&kind, *right) {
        (JoinKind::Inner, right) if is_of_one_row(&right) => on_top(right, left).filtered(on),
        (JoinKind::Left, Relation::TableFunction(function)) if is_always && *function.input == Relation::one_row() => {
            Relation::TableFunction(TableFunction { input: left, keeps_all: true, ..function })
        }
        (_, right) => Relation::Apply(Apply { kind, left, right: Box::new(right), on }),
    }
}

/// Whether a relation only computes values, leaves out rows and calls functions, from one row without columns on.
fn is_of_one_row(relation: &Relation) -> bool {
    match relation {
        Relation::Map { input, .. } | Relation::Filter { input, .. } => is_of_one_row(input),
        Relation::TableFunction(function) => is_of_one_row(&function.input),
        Relation::Join(Join { kind: JoinKind::Inner, left, right, .. }) => is_of_one_row(left) && is_of_one_row(right),
        other => *other == Relation::one_row(),
    }
}

/// Such a relation, from other rows on.
fn on_top(relation: Relation, input: Box<Relation>) -> Relation {
    match relation {
        Relation::Map { input: below, columns } => Relation::Map { input: Box::new(on_top(*below, input)), columns },
        Relation::Filter { input: below, condition } => on_top(*below, input).filtered(condition),
        Relation::TableFunction(function) => {
            let input = Box::new(on_top(*function.input, input));
            Relation::TableFunction(TableFunction { input, ..function })
        }
        Relation::Join(join) => on_top(*join.right, Box::new(on_top(*join.left, input))).filtered(join.on),
        _ => *input,
    }
}

/// The table of `TABLE name`.
pub(super) fn table_of(table: &ast::Table) -> ObjectName {
    let parts = table.schema_name.iter().chain(&table.table_name).map(|name| Ident::new(name.clone()));
    ObjectName::from(parts.collect::<Vec<_>>())
}

impl Binder<'_> {
    /// `TABLE name`: all rows of a table.
    pub(super) fn whole_table(&self, table: &ast::Table, withs: &Withs<'_>) -> Result<JoinedSide> {
        self.table(&table_of(table), None, None, None, withs)
    }
}
