//! What a name in FROM stands for: a common table expression, a table or a view.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA};
use diligence_storage::Table;
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableSampleKind, TableVersion,
};

use super::samples::{row_count, seed_of};
use super::scope::{Clause, Level, Namespace, WithEntry, Withheld, Withs};
use super::sides::{JoinedSide, named};
use super::syntax::written;
use super::targets::{CHANGED, Target};
use super::{Binder, Named, VIEW_DEPTH_MAX, name_place, normalized, place, placed, table_numbers};
use crate::algebra::{Column, Relation, Scan, WithTable};
use crate::errors;

/// A name in FROM, and what stands behind it.
pub(super) struct WrittenTable<'w> {
    pub name: &'w ObjectName,
    pub alias: Option<&'w TableAlias>,
    pub sample: Option<&'w TableSampleKind>,
    /// The moment of the past that its rows are of.
    pub moment: Option<i64>,
}

impl<'w> WrittenTable<'w> {
    /// A name alone.
    pub(super) fn of(name: &'w ObjectName) -> Self {
        Self { name, alias: None, sample: None, moment: None }
    }

    fn parts(&self) -> Vec<&'w Ident> {
        self.name.0.iter().filter_map(|part| part.as_ident()).collect()
    }

    /// What may stand in front of the name of its columns' table.
    fn qualifiers(&self) -> Vec<String> {
        match self.parts().as_slice() {
            [] | [_] => vec![DEFAULT_SCHEMA.to_owned(), CATALOG_NAME.to_owned()],
            [front @ .., _] => front.iter().rev().map(|part| normalized(part)).collect(),
        }
    }

    /// An error with the place of the name.
    fn at(&self, error: Error) -> Error {
        placed(error, || self.parts().first().and_then(|part| name_place(part)))
    }
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
    /// The moment that a table is asked for, in microseconds since 1970. Fails with 42601 for another clause, and with
    /// 0A000 if the moment is not the same for all rows.
    pub(super) fn moment(&self, version: &TableVersion, withs: &Withs<'_>) -> Result<i64> {
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
    pub(super) fn table(&self, written: &WrittenTable<'_>, withs: &Withs<'_>) -> Result<JoinedSide> {
        if let [only] = written.parts().as_slice()
            && let Some(entry) = withs.find(&normalized(only)).filter(|_| written.moment.is_none())
        {
            return self.with_table(only, &entry, written);
        }
        let found = match written.moment {
            None => self.context.table(written.name),
            Some(moment) => self.context.table_at(written.name, moment),
        };
        let found = found.map_err(|error| written.at(error))?;
        match found.ok_or_else(|| written.at(self.unknown_table(written.name)))? {
            Named::Table { table, name, key } => self.stored_table(table, name, &key, written),
            view @ Named::View { .. } => self.view(view, written),
        }
    }

    /// A common table expression.
    fn with_table(&self, name: &Ident, entry: &WithEntry, written: &WrittenTable<'_>) -> Result<JoinedSide> {
        if entry.gives_nothing {
            let message = format!("WITH query \"{}\" does not have a RETURNING clause", normalized(name));
            return Err(errors::at(Error::unsupported(message).with_code("0A000"), name_place(name)));
        }
        entry.reads.set(entry.reads.get() + 1);
        let columns = entry
            .columns
            .iter()
            .map(|column| self.numbers.named(&column.name, column.sql_type.clone(), column.nullable));
        let columns = columns.collect::<Vec<_>>();
        let table = WithTable { id: entry.id, name: normalized(name), columns: columns.clone() };
        let relation = self.sampled(Relation::With(table), written.sample)?;
        let mut side = named(relation, columns, written.alias, Some((normalized(name), vec![])))?;
        if entry.added > 0 {
            side.names.adds(entry.added);
        }
        Ok(side)
    }

    /// The rows of a table, which may be locked.
    fn stored_table(
        &self,
        mut table: Arc<dyn Table>,
        name: String,
        key: &[String],
        written: &WrittenTable<'_>,
    ) -> Result<JoinedSide> {
        let withheld = self.context.withheld(written.name);
        let name_here = written.alias.map_or_else(|| name.clone(), |alias| normalized(&alias.name));
        let way = self.locking.borrow_mut().as_mut().and_then(|locking| locking.way_of(&name_here));
        let lockable = match way {
            Some(_) if written.moment.is_some() => {
                let error = Error::unsupported("rows of the past are not locked").with_code("0A000");
                return Err(written.at(error));
            }
            Some((mode, way)) => {
                Some(self.context.lockable(written.name, mode, way).map_err(|error| written.at(error))?)
            }
            None => None,
        };
        if let Some(lockable) = &lockable {
            table = lockable.table.clone();
        }
        let columns = self.columns_of(table.as_ref(), &name).map_err(|error| written.at(error))?;
        let mut shown = columns.iter().map(|(_, column)| column.clone()).collect::<Vec<_>>();
        let has_number = shown.last().is_some_and(|column| column.name == ROW_NUMBERS) && name != CHANGED;
        let number = if has_number { shown.pop() } else { None };
        if let Some(lockable) = lockable {
            let number = number.clone().ok_or_else(|| Error::bug("rows have no numbers"))?;
            if let Some(locking) = &mut *self.locking.borrow_mut() {
                locking.found(number, lockable.function);
            }
        }
        let scan = Scan { table, name: name.clone(), columns, sample: None };
        let key = shown.iter().filter(|column| key.contains(&column.name)).map(|column| column.id).collect();
        self.note_origins(written.name, &shown);
        let withheld = Withheld::of(withheld, &shown);
        let rows = self.sampled_scan(scan, written.sample)?;
        let mut side = named(rows, shown, written.alias, Some((name, written.qualifiers())))?;
        side.names.has_key(key);
        let source = &mut side.names.sources[0];
        source.withheld = withheld;
        source.number = number;
        source.is_table = true;
        source.relation = Some(table_numbers::written(&written.parts()));
        Ok(Self::with_file_name(side))
    }

    /// The columns of a table with their places. Fails with 0A000 for a type that SQL does not know.
    fn columns_of(&self, table: &dyn Table, name: &str) -> Result<Vec<(usize, Column)>> {
        let mut columns = Vec::new();
        for (position, field) in table.schema().fields().iter().enumerate() {
            let Some(sql_type) = SqlType::of_field(field) else {
                let (column, ty) = (field.name(), field.data_type());
                let message = format!("the column '{column}' of '{name}' has a type that SQL does not know: {ty}");
                return Err(Error::unsupported(message).with_code("0A000"));
            };
            let sql_type = sql_type.base().clone();
            columns.push((position, self.numbers.named(field.name(), sql_type, field.is_nullable())));
        }
        Ok(columns)
    }

    /// A scan, which takes any of its rows as a sample; a number of rows, or a seed, is one of its rows.
    fn sampled_scan(&self, mut scan: Scan, sample: Option<&TableSampleKind>) -> Result<Relation> {
        let Some(sample) = sample else { return Ok(Relation::Scan(scan)) };
        if row_count(sample)?.is_some() || seed_of(sample)?.is_some() {
            return self.sampled(Relation::Scan(scan), Some(sample));
        }
        scan.sample = Some(self.share(sample)?);
        Ok(Relation::Scan(scan))
    }

    /// The rows of a view's query.
    fn view(&self, view: Named, written: &WrittenTable<'_>) -> Result<JoinedSide> {
        let Named::View { query, columns, made, name, schema } = view else { return Err(Error::bug("no view")) };
        if self.view_depth.get() >= VIEW_DEPTH_MAX {
            let message = format!("views nest too deep: the view '{name}' is below {VIEW_DEPTH_MAX} others");
            return Err(written.at(Error::input(message).with_code("54001")));
        }
        let withheld = self.context.withheld(written.name);
        self.view_depth.set(self.view_depth.get() + 1);
        self.context.enter_view(&schema, &name);
        let bound = self.query(&query, None, &Withs::default()).and_then(|rows| self.settled(rows));
        self.context.leave_view();
        self.view_depth.set(self.view_depth.get() - 1);
        // Places in the view's text are none in the statement's.
        let is_outermost = self.view_depth.get() == 0;
        let rows = bound.map_err(|error| match is_outermost {
            true => written.at(error.context(format!("the view '{name}'"))),
            false => error,
        })?;
        let mut shown = as_made(rows.columns(), &made, !columns.is_empty());
        for (column, name) in shown.iter_mut().zip(columns) {
            column.name = name;
        }
        self.note_origins(written.name, &shown);
        let withheld = Withheld::of(withheld, &shown);
        let relation = self.sampled(rows.relation, written.sample)?;
        let mut side = named(relation, shown, written.alias, Some((name, written.qualifiers())))?;
        side.names.sources[0].withheld = withheld;
        Ok(side)
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

    /// `TABLE name`: all rows of a table.
    pub(super) fn whole_table(&self, table: &ast::Table, withs: &Withs<'_>) -> Result<JoinedSide> {
        self.table(&WrittenTable::of(&table_of(table)), withs)
    }
}

/// The table of `TABLE name`.
pub(super) fn table_of(table: &ast::Table) -> ObjectName {
    let parts = table.schema_name.iter().chain(&table.table_name).map(|name| Ident::new(name.clone()));
    ObjectName::from(parts.collect::<Vec<_>>())
}
