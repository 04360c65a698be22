//! Rows of functions in FROM, and the names that DuckDB has for columns without one of their own, or for
//! what the list has.

use diligence_base::{Error, Result};
use diligence_storage::external::ROW_NUMBER_COLUMN;
use diligence_types::SqlType;
use sqlparser::ast::{Ident, TableAlias};

use super::scope::{Level, Source};
use super::sides::{JoinedSide, named};
use super::{Binder, name_place, normalized};
use crate::algebra::{Column, FunctionItem, Relation, Scalar, TableFunction};
use crate::errors;
use crate::external::{FILE_NAMES, FILE_NAMES_BEHIND_NUMBERS};

/// The column with the name of a row's file, which `*` does not stand for.
const FILE_NAME: &str = "filename";

/// What stands in front of a name that the list gives, where no table has this name.
const ALIAS: &str = "alias";

/// Functions whose column has their name in DuckDB, whatever the alias is.
const NAMED_BY_FUNCTION: [&str; 3] = ["generate_series", "range", "unnest"];

impl Binder<'_> {
    /// Rows of arrays side by side.
    pub(super) fn rows_of(
        &self,
        arrays: Vec<(String, Scalar)>,
        with_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<JoinedSide> {
        let is_single = arrays.len() == 1;
        let mut items = Vec::with_capacity(arrays.len());
        let mut shown = Vec::new();
        let first = arrays.first().map(|(name, _)| name.clone()).unwrap_or_default();
        let mut is_scalar = is_single && !with_ordinality;
        let own_name = NAMED_BY_FUNCTION.contains(&first.as_str()).then(|| first.clone());
        let has_types = alias.is_some_and(|alias| alias.columns.iter().any(|column| column.data_type.is_some()));
        // One name for structs: `FROM t, unnest(t.items) AS u(item)` has `item.price`.
        let names = alias.filter(|_| is_single && !has_types).map_or(0, |alias| alias.columns.len());
        let has_one_name = names == 1 + usize::from(with_ordinality);
        let mut whole = Vec::new();
        for (name, array) in arrays {
            // A function's only column has its alias' name.
            let name = match alias {
                // Those have a name of their own.
                _ if name.contains("_array_elements") => "value".to_owned(),
                Some(alias) if is_single => normalized(&alias.name),
                _ => name,
            };
            let (columns, element) = self.element_columns(&name, &array);
            is_scalar &= columns.len() == 1;
            let is_struct = matches!(array.sql_type().element(), Some(SqlType::Record(kind)) if !kind.is_row());
            if has_one_name && is_struct && first == "unnest" {
                let column = self.column_for(&name, &element);
                shown.push(column.clone());
                whole.push((column, element));
                is_scalar = false;
            } else {
                shown.extend(columns.iter().cloned());
            }
            items.push(FunctionItem { array, columns });
        }
        let ordinality = with_ordinality.then(|| self.numbers.named("ordinality", SqlType::BigInt, false));
        shown.extend(ordinality.clone());
        let function = TableFunction { input: Box::new(Relation::one_row()), items, ordinality, keeps_all: false };
        let mut relation = Relation::TableFunction(function);
        if !whole.is_empty() {
            relation = relation.mapped(whole);
        }
        if has_types && let Some(alias) = alias {
            if is_scalar || alias.columns.len() != shown.len() {
                let message = "a column definition list is only allowed for functions returning \"record\"";
                return Err(errors::at(Error::input(message).with_code("42601"), name_place(&alias.name)));
            }
            let mut computed = Vec::new();
            for (column, definition) in shown.iter_mut().zip(&alias.columns) {
                let Some(data_type) = &definition.data_type else { continue };
                let scalar = self.explicit(column.scalar(), &self.sql_type(data_type)?, false)?;
                if scalar.as_column().is_none() {
                    let cast = self.column_for(&column.name, &scalar);
                    computed.push((cast.clone(), scalar));
                    *column = cast;
                }
            }
            relation = relation.mapped(computed);
        }
        let mut side = named(relation, shown, alias, Some((first, vec![])))?;
        if let [source] = side.names.sources.as_mut_slice() {
            source.own_name = own_name.filter(|_| is_scalar);
            source.is_scalar = is_scalar;
        }
        Ok(side)
    }

    /// Gives the names of files in the last column, if it has them, the name by which they are found. The numbers of
    /// rows may stand in front of it.
    pub(super) fn with_file_name(mut side: JoinedSide) -> JoinedSide {
        if let [source] = side.names.sources.as_mut_slice()
            && let Some(last) = source.columns.last_mut()
        {
            let added = match last.name.as_str() {
                FILE_NAMES => 1,
                FILE_NAMES_BEHIND_NUMBERS => 2,
                _ => return side,
            };
            FILE_NAME.clone_into(&mut last.name);
            side.names.adds(added);
        }
        side
    }

    /// `alias.name`: what the list calls by the name, also where a column has it. `None` for other names.
    pub(super) fn by_alias(&self, names: &[Ident], level: &Level<'_>) -> Result<Option<Scalar>> {
        let [front, name] = names else { return Ok(None) };
        if front.quote_style.is_some() || !front.value.eq_ignore_ascii_case(ALIAS) {
            return Ok(None);
        }
        let wanted = normalized(name);
        let known = level.chain().find_map(|at| at.aliases.borrow().get(&wanted).cloned());
        if known.is_some() { Ok(known) } else { self.listed(name, level) }
    }

    /// The column that DuckDB has by a name which nothing has here: `col0` of VALUES, `column0` of a file without a
    /// header, `range` of `range(3) AS r`. `None` if there is none, or several. Names of files and numbers of their
    /// rows are given when the statement is bound once more.
    pub(super) fn by_other_name(&self, front: &[Ident], name: &Ident, level: &Level<'_>) -> Option<Scalar> {
        let wanted = normalized(name);
        if wanted == FILE_NAME || wanted == ROW_NUMBER_COLUMN {
            self.context.misses_row_numbers();
        }
        for at in level.chain() {
            let sources = match front {
                [] => at.names.sources.iter().collect::<Vec<_>>(),
                front => at.names.source(front).into_iter().collect(),
            };
            let mut found = sources.into_iter().filter_map(|source| other_name(source, &wanted));
            match (found.next(), found.next()) {
                (Some(column), None) => {
                    let scalar = column.scalar();
                    self.met(at, level, &scalar, std::slice::from_ref(name));
                    return Some(scalar);
                }
                (Some(_), Some(_)) => return None,
                _ => {}
            }
        }
        None
    }
}

fn other_name<'s>(source: &'s Source, wanted: &str) -> Option<&'s Column> {
    if source.own_name.as_deref() == Some(wanted) {
        return source.columns.first();
    }
    // DuckDB counts from 0: `col0` of VALUES, and `column0`, or `column00` of many, in a file without a header.
    let (digits, name) = match wanted.strip_prefix("column") {
        Some(digits) => (digits, "column_"),
        None => (wanted.strip_prefix("col")?, "column"),
    };
    let place = digits.parse::<usize>().ok()?;
    source.columns.get(place).filter(|column| column.name == format!("{name}{}", place + 1))
}
