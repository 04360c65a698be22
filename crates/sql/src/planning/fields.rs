//! Fields of columns that INSERT and UPDATE set, and elements that INSERT sets: `SET place.street = 'x'`, `INSERT INTO
//! t (place.street, place.number, phones[1])`.
//!
//! Fields of one column become one value of the column, before anything else looks at the statement: in UPDATE a call
//! of `"set field"`, in INSERT a row, or calls of `"set element"`.

use std::borrow::Cow;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{self, AssignmentTarget, Expr, Ident, ObjectName, SelectItem, SetExpr};

use super::changes::{ChangedTable, row_values};
use super::tables::name_in;
use crate::binder::{SET_FIELD, Target, is_default, no_composite, no_field};
use crate::parse::{ELEMENT, SET_ELEMENT, SET_PART};

/// What the query is called whose columns INSERT puts into fields.
const INSERTED: &str = "inserted";

impl ChangedTable {
    /// Assignments in which fields of a column are one value of it.
    pub(super) fn without_fields<'a>(&self, assignments: &'a [ast::Assignment]) -> Result<Cow<'a, [ast::Assignment]>> {
        let is_column = |name: &ObjectName| !self.is_field(name);
        let is_plain = |assignment: &ast::Assignment| match &assignment.target {
            AssignmentTarget::ColumnName(name) => is_column(name),
            AssignmentTarget::Tuple(names) => names.iter().all(is_column),
        };
        let sets_elements = assignments.iter().any(|assignment| is_call(&assignment.value, &[SET_ELEMENT, SET_PART]));
        if assignments.iter().all(is_plain) && !sets_elements {
            return Ok(Cow::Borrowed(assignments));
        }
        let mut whole = Vec::<ast::Assignment>::with_capacity(assignments.len());
        for assignment in assignments {
            if is_plain(assignment) {
                if !self.joins_elements(&mut whole, assignment) {
                    let mut assignment = assignment.clone();
                    // Another table may have a column of this name.
                    if let Some(base) = element_base(&mut assignment.value)
                        && let Expr::Identifier(column) = base
                    {
                        *base = Expr::CompoundIdentifier(vec![self.alias().clone(), column.clone()]);
                    }
                    whole.push(assignment);
                }
                continue;
            }
            let one = |target: &ObjectName, value: &Expr| ast::Assignment {
                target: AssignmentTarget::ColumnName(target.clone()),
                value: value.clone(),
            };
            let parts = match &assignment.target {
                AssignmentTarget::ColumnName(name) => vec![one(name, &assignment.value)],
                AssignmentTarget::Tuple(names) => {
                    let values = match &assignment.value {
                        Expr::Tuple(values) => values.iter().collect(),
                        other => row_values(other).ok_or_else(|| {
                            let error = Error::unsupported("fields of columns are not set to the row of a query");
                            error.with_code("0A000").with_hint("set them one by one")
                        })?,
                    };
                    if values.len() != names.len() {
                        let error = Error::input("number of columns does not match number of values");
                        return Err(error.with_code("42601"));
                    }
                    names.iter().zip(values).map(|(name, value)| one(name, value)).collect()
                }
            };
            for part in parts {
                self.add_part(&mut whole, part)?;
            }
        }
        Ok(Cow::Owned(whole))
    }

    /// Whether an assignment sets an element of a column of which another element was set: then one sets both.
    fn joins_elements(&self, whole: &mut [ast::Assignment], assignment: &ast::Assignment) -> bool {
        let is_element = |assignment: &ast::Assignment| is_call(&assignment.value, &[SET_ELEMENT, SET_PART]);
        let column = |assignment: &ast::Assignment| match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                name.0.last().and_then(|part| part.as_ident()).map(|name| name_in(name, &self.targets))
            }
            AssignmentTarget::Tuple(_) => None,
        };
        if !is_element(assignment) {
            return false;
        }
        let own = column(assignment);
        let known = whole.iter_mut().find(|known| is_element(known) && column(known) == own);
        let Some(known) = known.filter(|_| own.is_some()) else { return false };
        // What is set in the column becomes what is set in the column with the elements before.
        let mut value = assignment.value.clone();
        if let Some(base) = element_base(&mut value) {
            *base = known.value.clone();
        }
        known.value = value;
        true
    }

    /// Whether a name in SET is that of a field: `SET t.a` is of a column `t`, if there is one.
    fn is_field(&self, name: &ObjectName) -> bool {
        let first = name.0.first().and_then(|part| part.as_ident()).map(|first| name_in(first, &self.targets));
        name.0.len() > 1 && first.is_some_and(|first| self.targets.iter().any(|target| target.name == first))
    }

    fn add_part(&self, whole: &mut Vec<ast::Assignment>, part: ast::Assignment) -> Result<()> {
        let AssignmentTarget::ColumnName(name) = &part.target else { return Err(Error::bug("a target is no column")) };
        if !self.is_field(name) {
            whole.push(part);
            return Ok(());
        }
        if is_default(&part.value) {
            return Err(Error::unsupported("cannot set a subfield to DEFAULT").with_code("0A000"));
        }
        let names = name.0.iter().filter_map(|part| part.as_ident()).collect::<Vec<_>>();
        let [column, fields @ ..] = names.as_slice() else { return Err(Error::bug("a field has no column")) };
        let column = Ident::with_quote('"', name_in(column, &self.targets));
        let target = AssignmentTarget::ColumnName(ObjectName::from(vec![column.clone()]));
        let is_same = |known: &&mut ast::Assignment| known.target == target && is_call(&known.value, &[SET_FIELD]);
        let mut arguments = vec![text(&column.value)];
        let found = whole.iter_mut().find(is_same);
        arguments.push(match &found {
            Some(known) => known.value.clone(),
            None => Expr::CompoundIdentifier(vec![self.alias().clone(), column.clone()]),
        });
        arguments.extend(fields.iter().map(|field| text(&folded(field))));
        arguments.push(part.value);
        let value = call(SET_FIELD, arguments);
        match found {
            Some(known) => known.value = value,
            None => whole.push(ast::Assignment { target, value }),
        }
        Ok(())
    }
}

/// What an assignment sets an element or a part of, if it sets one.
fn element_base(value: &mut Expr) -> Option<&mut Expr> {
    if !is_call(value, &[SET_ELEMENT, SET_PART]) {
        return None;
    }
    let Expr::Function(call) = value else { return None };
    let ast::FunctionArguments::List(list) = &mut call.args else { return None };
    match list.args.first_mut() {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(base))) => Some(base),
        _ => None,
    }
}

/// An INSERT in which fields of a column are one value of it. Fails with 42703 for a field that is not there, 42804 for
/// one of a column that has none.
pub(super) fn inserted_whole<'a>(insert: &'a ast::Insert, targets: &[Target]) -> Result<Cow<'a, ast::Insert>> {
    if insert.columns.iter().all(|column| column.0.len() == 1) {
        return Ok(Cow::Borrowed(insert));
    }
    // The columns, and of each the paths of its fields and the places of their values.
    let mut columns = Vec::<(Ident, Vec<(Vec<String>, usize)>)>::new();
    for (place, column) in insert.columns.iter().enumerate() {
        let names = column.0.iter().filter_map(|part| part.as_ident()).collect::<Vec<_>>();
        let [first, fields @ ..] = names.as_slice() else { return Err(Error::bug("a column has no name")) };
        let name = Ident::with_quote('"', name_in(first, targets));
        let path = fields.iter().map(|field| folded(field)).collect::<Vec<_>>();
        match columns.iter_mut().find(|(known, paths)| *known == name && !paths[0].0.is_empty() && !path.is_empty()) {
            Some((_, paths)) => paths.push((path, place)),
            None => columns.push((name, vec![(path, place)])),
        }
    }
    let whole = |value: &dyn Fn(usize) -> Expr| {
        let values = columns.iter().map(|(name, paths)| match paths.as_slice() {
            [(path, place)] if path.is_empty() => Ok(value(*place)),
            paths => {
                let sql_type = targets.iter().find(|target| target.name == name.value).map(|target| &target.sql_type);
                let paths = paths.iter().map(|(path, place)| (path.as_slice(), *place)).collect::<Vec<_>>();
                let is_composite = sql_type.is_some_and(|own| matches!(own.base(), SqlType::Record(_)));
                if let Some(sql_type) = sql_type.filter(|_| !is_composite)
                    && let Some(places) = element_places(&paths)
                {
                    return elements_of(sql_type.base(), &places, value);
                }
                row_of(&name.value, sql_type, &paths, value)
            }
        });
        values.collect::<Result<Vec<_>>>()
    };
    let mut insert = insert.clone();
    if let Some(source) = &mut insert.source {
        match source.body.as_mut() {
            SetExpr::Values(values) if source.order_by.is_none() && source.limit_clause.is_none() => {
                for row in &mut values.rows {
                    let given = std::mem::take(&mut row.content);
                    if given.len() != insert.columns.len() {
                        let more = if given.len() > insert.columns.len() {
                            "expressions than target columns"
                        } else {
                            "target columns than expressions"
                        };
                        return Err(Error::input(format!("INSERT has more {more}")).with_code("42601"));
                    }
                    row.content = whole(&|place: usize| given[place].clone())?;
                }
            }
            _ => {
                let names = (0..insert.columns.len()).map(|place| Ident::with_quote('"', format!("value {place}")));
                let names = names.collect::<Vec<_>>();
                let value = |place: usize| {
                    Expr::CompoundIdentifier(vec![Ident::with_quote('"', INSERTED), names[place].clone()])
                };
                let items = whole(&value)?.into_iter().map(SelectItem::UnnamedExpr).collect();
                let mut query = crate::parse::query("SELECT 1 FROM (SELECT 1) AS \"inserted\"")?;
                if let SetExpr::Select(select) = query.body.as_mut() {
                    select.projection = items;
                    for from in &mut select.from {
                        if let ast::TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut from.relation {
                            *subquery = source.clone();
                            let column =
                                |name: &Ident| ast::TableAliasColumnDef { name: name.clone(), data_type: None };
                            alias.columns = names.iter().map(column).collect();
                        }
                    }
                }
                **source = query;
            }
        }
    }
    insert.columns = columns.into_iter().map(|(name, _)| ObjectName::from(vec![name])).collect();
    Ok(Cow::Owned(insert))
}

/// The places of elements of which paths are made, each with the place of its value. `None` if one is no element.
fn element_places<'p>(paths: &[(&'p [String], usize)]) -> Option<Vec<(Vec<&'p str>, usize)>> {
    let places = paths.iter().map(|(path, place)| {
        let numbers = path.iter().map(|part| part.strip_prefix(ELEMENT)).collect::<Option<Vec<_>>>()?;
        Some((numbers, *place))
    });
    places.collect()
}

/// The array of which these elements have these values. Fails with 42804 for a type without elements.
fn elements_of(sql_type: &SqlType, places: &[(Vec<&str>, usize)], value: &dyn Fn(usize) -> Expr) -> Result<Expr> {
    if !matches!(sql_type, SqlType::Array(_) | SqlType::Jsonb) {
        let message = format!("cannot subscript type {sql_type} because it does not support subscripting");
        return Err(Error::input(message).with_code("42804"));
    }
    let nothing = crate::parse::expression(&format!("CAST(NULL AS {})", with_dimensions(sql_type)))?;
    places.iter().try_fold(nothing, |array, (numbers, place)| {
        let value = value(*place);
        if is_default(&value) {
            return Err(Error::unsupported("cannot set an array element to DEFAULT").with_code("0A000"));
        }
        let mut arguments = vec![array];
        for number in numbers {
            arguments.push(crate::parse::expression(number)?);
        }
        arguments.push(value);
        Ok(call(SET_ELEMENT, arguments))
    })
}

/// A type as it is declared, with all of its dimensions.
fn with_dimensions(sql_type: &SqlType) -> String {
    match sql_type {
        SqlType::Array(element) => format!("{}[]", with_dimensions(element)),
        other => other.to_string(),
    }
}

/// The row of which these fields have these values, and all others none.
fn row_of(
    column: &str,
    sql_type: Option<&SqlType>,
    paths: &[(&[String], usize)],
    value: &dyn Fn(usize) -> Expr,
) -> Result<Expr> {
    let first = paths.first().and_then(|(path, _)| path.first()).map_or("", String::as_str);
    let fields = match sql_type.map(SqlType::base) {
        Some(SqlType::Record(fields)) => fields,
        Some(other) => return Err(no_composite(first, column, other)),
        None => {
            return Err(Error::input(format!("column \"{column}\" does not exist")).with_code("42703"));
        }
    };
    let unknown = paths.iter().filter_map(|(path, _)| path.first());
    if let Some(unknown) = unknown.into_iter().find(|name| fields.iter().all(|field| field.name != **name)) {
        let sql_type = SqlType::Record(fields.clone());
        return Err(no_field(unknown, column, &sql_type));
    }
    let values = fields.iter().map(|field| {
        let own = paths.iter().filter(|(path, _)| path.first() == Some(&field.name));
        let own = own.map(|(path, place)| (&path[1..], *place)).collect::<Vec<_>>();
        match own.as_slice() {
            [] => Ok(Expr::Value(ast::Value::Null.into())),
            // Of several values the last one counts.
            [.., ([], place)] => {
                let value = value(*place);
                match is_default(&value) {
                    true => Err(Error::unsupported("cannot set a subfield to DEFAULT").with_code("0A000")),
                    false => Ok(value),
                }
            }
            several => row_of(column, Some(&field.sql_type), several, value),
        }
    });
    Ok(call("row", values.collect::<Result<_>>()?))
}

/// Whether an expression calls one of some functions.
fn is_call(value: &Expr, names: &[&str]) -> bool {
    let Expr::Function(call) = value else { return false };
    let name = call.name.0.first().and_then(|name| name.as_ident());
    name.is_some_and(|name| names.contains(&name.value.as_str()))
}

/// A name as it is compared.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn text(text: &str) -> Expr {
    Expr::Value(ast::Value::SingleQuotedString(text.to_owned()).into())
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let argument = |argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument));
    let args = arguments.into_iter().map(argument).collect();
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
