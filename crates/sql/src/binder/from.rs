//! FROM: tables, subqueries, functions and joins, to a relation and the names of its columns.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_types::SqlType;
use diligence_types::functions::{has_function, scalars};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LockClause, ObjectName, Query, SetExpr, TableAlias,
    TableFactor, TableSampleKind, TableWithJoins,
};

use super::functions::is_row_function;
use super::lateral::combine;
use super::lists::ELEMENTS;
use super::named_tables::WrittenTable;
use super::samples::sample_of;
use super::scope::{Clause, Level, Namespace, Withs};
use super::sides::{JoinedSide, named};
use super::syntax::{bare_name, written};
use super::{
    Binder, Named, Rows, STACK_GROWTH, STACK_RED_ZONE, name_place, normalized, place, placed, shown, unsupported,
};
use crate::algebra::{Column, JoinKind, Relation, Scalar, Scan};
use crate::parse::ROWS_OF;
use crate::routines::Definition;

/// The function whose rows are the elements of a list in DuckDB.
const SERIES: &str = "generate_series";

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
                let (alias, sample) = (alias.as_ref(), sample.as_ref());
                self.table(&WrittenTable { alias, sample, moment, ..WrittenTable::of(name) }, withs)
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                let around = if *lateral { Some(before) } else { outer };
                // DuckDB's subqueries are LATERAL where they have to be.
                let otherwise = (!*lateral && !before.names.sources.is_empty()).then_some(before);
                self.subquery_in_from(subquery, alias.as_ref(), (around, otherwise), sample.as_ref(), withs)
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
                self.unnested(array_exprs, *with_ordinality, alias.as_ref(), before, withs)
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

    /// A subquery, whose rows may be locked: within one level, or else, if names are missing there, within another.
    fn subquery_in_from(
        &self,
        subquery: &Query,
        alias: Option<&TableAlias>,
        (around, otherwise): (Option<&Level<'_>>, Option<&Level<'_>>),
        sample: Option<&TableSampleKind>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let called = alias.map(|alias| normalized(&alias.name));
        let locks = self.locking.borrow_mut().as_mut().map(|locking| locking.clauses_of(called.as_deref()));
        let locks = locks.filter(|locks| !locks.is_empty() && !matches!(*subquery.body, SetExpr::Values(_)));
        let rows = match (self.locked_query(subquery, locks.as_deref(), around, withs), otherwise) {
            (Err(error), Some(_)) if matches!(error.code(), Some("42703" | "42P01")) && self.may_try_again() => {
                self.locked_query(subquery, locks.as_deref(), otherwise, withs).map_err(|_| error)?
            }
            (rows, _) => rows?,
        };
        let rows = self.settled(rows)?;
        let columns = rows.columns();
        if let (Some(_), Some(locking)) = (locks, &mut *self.locking.borrow_mut()) {
            locking.found_within(&columns);
        }
        let relation = self.sampled(rows.relation, sample)?;
        named(relation, columns, alias, None)
    }

    /// `UNNEST(a, b)`: the elements of arrays side by side.
    fn unnested(
        &self,
        arrays: &[Expr],
        with_ordinality: bool,
        alias: Option<&TableAlias>,
        before: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let level = Level::new(Some(before), withs, Namespace::default(), Clause::From);
        let arrays = arrays.iter().map(|array| {
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
        self.rows_of(items, with_ordinality, alias)
    }

    /// The rows of a query under an alias.
    fn derived(&self, rows: Rows, alias: Option<&TableAlias>) -> Result<JoinedSide> {
        let rows = self.settled(rows)?;
        let columns = rows.columns();
        named(rows.relation, columns, alias, None)
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
            arguments.iter().try_for_each(|argument| self.items_of_part(argument, &level, &mut items))?;
        } else {
            if let Some(side) = self.foreign_table(&function, arguments, alias, &level)? {
                return Ok(side);
            }
            if let Err(error) = self.items_of(&function, arguments, &level, &mut items) {
                let value = self.value_alone(name, arguments, &level, error);
                items.push((function, value.map_err(|error| placed(error, || last.and_then(name_place)))?));
            }
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

    /// What only an expression calls, such as `now()` and `coalesce(a, b)`: an array of the one value. Fails with the
    /// error if it is no function there either.
    fn value_alone(
        &self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        level: &Level<'_>,
        error: Error,
    ) -> Result<Scalar> {
        if error.code() != Some("42883") {
            return Err(error);
        }
        let list = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let call = crate::parse::expression(&format!("{name}({list})"));
        let Ok(value) = call.and_then(|call| self.typed_scalar(&call, level)) else { return Err(error) };
        let sql_type = SqlType::array_of(value.sql_type());
        Ok(Scalar::Array { elements: vec![value], sql_type })
    }

    /// The arrays of a function in ROWS FROM. Fails with 42601 if it is no function.
    fn items_of_part(&self, part: &FunctionArg, level: &Level<'_>, items: &mut Vec<(String, Scalar)>) -> Result<()> {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(whole @ Expr::Function(call))) = part else {
            return Err(Error::input("ROWS FROM is a list of functions").with_code("42601"));
        };
        let name = bare_name(call);
        let arguments = match &call.args {
            FunctionArguments::Subquery(_) => return Err(unsupported("a subquery as a function's arguments")),
            _ => written(call),
        };
        if let (ROWS_OF, [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]) = (name.as_str(), arguments) {
            items.push((name, self.typed_scalar(array, level)?));
            return Ok(());
        }
        if let Some(array) = self.routine_array(call, level)? {
            items.push((name, array));
            return Ok(());
        }
        let error = match self.items_of(&name, arguments, level, items) {
            Err(error) if error.code() == Some("42883") => error,
            done => return done.map_err(|error| placed(error, || place(whole))),
        };
        // What only an expression calls, such as `current_date`.
        let value = self.typed_scalar(whole, level).map_err(|_| placed(error, || place(whole)))?;
        let sql_type = SqlType::array_of(value.sql_type());
        items.push((name, Scalar::Array { elements: vec![value], sql_type }));
        Ok(())
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
