//! Calls of functions: which kind of function a name is, and the functions that are written like calls but are none.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{aggregates, argument_names, has_function, nearest_function};
use diligence_types::record_type::RecordType;
use diligence_types::search::SearchKind;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::{
    DataType as WrittenType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
};

use super::aggregates::is_other_form;
use super::common_types::common_of;
use super::operators::dimensions;
use super::row_functions::{LISTENING, ROW_FUNCTIONS};
use super::scope::Level;
use super::subqueries::subquery_scalar;
use super::syntax::{bare_name, is_distinct, written};
use super::{Binder, name_place, unsupported, windows};
use crate::algebra::{Column, Constant, FunctionItem, Scalar, SubqueryKind};
use crate::errors;
use crate::parse::JSON_CALL;

/// Whether a function gives rows.
pub(super) fn is_row_function(name: &str) -> bool {
    ROW_FUNCTIONS.contains(&name)
}

/// Functions of arrays and elements of one type: how many arguments have the type, at the front, and the places of the
/// arrays among them.
const OF_ARRAYS: [(&str, usize, &[usize]); 8] = [
    ("array_append", 2, &[0]),
    ("array_cat", 2, &[0, 1]),
    ("array_position", 2, &[0]),
    ("array_positions", 2, &[0]),
    ("array_prepend", 2, &[1]),
    ("array_remove", 2, &[0]),
    ("array_replace", 3, &[0]),
    ("width_bucket", 2, &[1]),
];

/// What DuckDB's users mean by a call that is an error in PostgreSQL whatever its values are, or for all values that
/// are not the same in both; `None` for others.
fn meant_by_duckdb(name: &str, function: &Function) -> Option<Function> {
    match (name, written(function)) {
        // A series is a list there, and its elements are the rows that it gives here.
        ("unnest", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))])
            if bare_name(inner) == "generate_series" =>
        {
            Some(inner.clone())
        }
        // A list's function of a series is one of the list.
        (_, arguments) if is_of_lists(name) && arguments.iter().any(is_series) => {
            let mut meant = function.clone();
            if let FunctionArguments::List(list) = &mut meant.args {
                for argument in list.args.iter_mut().filter(|argument| is_series(argument)) {
                    let all = crate::parse::expression(&format!("ARRAY(SELECT {argument})")).ok()?;
                    *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(all));
                }
            }
            Some(meant)
        }
        // `'0110'::BIT` has all of its bits there. Of one bit there is none but the first, which is the same.
        ("get_bit", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast { expr, data_type, .. })), _])
            if *data_type == WrittenType::Bit(None) && matches!(expr.as_ref(), Expr::Value(_)) =>
        {
            let mut meant = function.clone();
            if let FunctionArguments::List(list) = &mut meant.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast { data_type, .. }))) =
                    list.args.first_mut()
            {
                *data_type = WrittenType::BitVarying(None);
            }
            Some(meant)
        }
        ("count_star" | "rank_dense", []) => {
            let mut meant = function.clone();
            let name = if name == "count_star" { "count" } else { "dense_rank" };
            meant.name = ObjectName::from(vec![Ident::new(name)]);
            Some(meant)
        }
        _ => None,
    }
}

/// Whether a function is one of lists, which PostgreSQL does not have.
fn is_of_lists(name: &str) -> bool {
    const OTHERS: [&str; 6] = ["apply", "filter", "flatten", "len", "list comprehension", "reduce"];
    name.starts_with("list_") || OTHERS.contains(&name)
}

fn is_series(argument: &FunctionArg) -> bool {
    matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))
        if bare_name(inner) == "generate_series")
}

impl Binder<'_> {
    /// A call. Fails with 42883 if there is no such function.
    pub(super) fn function(&self, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        let name = bare_name(function);
        if let FunctionArguments::Subquery(query) = &function.args {
            return self.of_subquery(&name, query, level);
        }
        if let Some(meant) = meant_by_duckdb(&name, function) {
            return self.function(&meant, level);
        }
        if let Some(scalar) = self.routine(function, level)? {
            return Ok(scalar);
        }
        if let Some(call) = self.method_of_name(function, level) {
            return self.function(&call, level);
        }
        if let Some(kind) = name.strip_prefix(JSON_CALL) {
            return self.json_call(kind, function, level);
        }
        if function.over.is_some() {
            return self.window_function(&name, function, level);
        }
        if name == "grouping" || name == "grouping_id" {
            return self.grouping_call(function, level);
        }
        if !aggregates(&name).is_empty() || is_other_form(&name) {
            return self.aggregate(&name, function, level);
        }
        if windows::is_hypothetical(&name) && (!function.within_group.is_empty() || !written(function).is_empty()) {
            return self.hypothetical(&name, function, level);
        }
        if windows::is_window_function(&name) {
            let error = Error::input(format!("{name}() is a window function: it needs OVER (…) behind it"));
            return Err(error.with_code("42809").with_hint(format!("for example {name}() OVER (ORDER BY …)")));
        }
        let misplaced = [
            ("DISTINCT", is_distinct(function)),
            ("FILTER", function.filter.is_some()),
            ("WITHIN GROUP", !function.within_group.is_empty()),
        ];
        if let Some((clause, _)) = misplaced.iter().find(|(_, is_there)| *is_there) {
            if !has_function(&name) {
                return Err(self.unknown_function(&name, &[]));
            }
            let message = format!("{clause} specified, but {name} is not an aggregate function");
            return Err(Error::input(message).with_code("42809"));
        }
        if let Some(scalar) = self.list_function(&name, function, level)? {
            return Ok(scalar);
        }
        if let Some(scalar) = self.special(&name, function, level)? {
            return Ok(scalar);
        }
        if let Some(scalar) = self.of_duckdb(&name, function, level)? {
            return Ok(scalar);
        }
        let arguments = self.arguments(&name, written(function), level)?;
        self.named_call(&name, arguments, level)
    }

    /// A function of bound arguments.
    pub(super) fn named_call(&self, name: &str, arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Scalar> {
        let arguments = self.with_names(name, self.with_arrays_of_texts(name, arguments)?)?;
        // One whose elements are the other.
        if name == "array_cat"
            && let [one, other] = arguments.as_slice()
            && one.sql_type().element().is_some()
            && dimensions(&one.sql_type()) != dimensions(&other.sql_type())
        {
            return self.operator("||", arguments);
        }
        if matches!(name, "greatest" | "least") {
            let types = arguments.iter().map(Scalar::sql_type).collect::<Vec<_>>();
            common_of(&types, &name.to_uppercase())?;
        }
        // Where no rows may stand, DuckDB's function of the name is meant.
        if name == "regexp_matches" && !has_place_for_rows(level) {
            return self.call("regexp_like", arguments);
        }
        if is_row_function(name) {
            return self.row_function(name, arguments, level);
        }
        if name == "to_regtype"
            && let [Scalar::Constant(constant)] = arguments.as_slice()
            && let Some(Some(text)) = constant.value.try_as_str()
        {
            self.is_transient.set(true);
            let value = ScalarValue::Int64(self.context.object(OidKind::Type, text));
            return Ok(Scalar::Constant(Constant { value, sql_type: SqlType::Oid(OidKind::Type) }));
        }
        if let Some(template) = self.context.template(name, arguments.len()) {
            let arguments = arguments.into_iter().map(|argument| self.typed(argument)).collect::<Result<Vec<_>>>()?;
            self.templates.borrow_mut().push(Arc::new(arguments));
            let bound = self.scalar(&template, level);
            self.templates.borrow_mut().pop();
            return bound;
        }
        if let Some(function) = self.context.question(name) {
            self.is_transient.set(true);
            let arguments = arguments.into_iter().map(|argument| self.typed(argument)).collect::<Result<Vec<_>>>()?;
            let types = arguments.iter().map(|argument| argument.sql_type().arrow()).collect::<Vec<_>>();
            let answer = function.inner().return_type(&types).map_err(|_| self.unknown_function(name, &arguments))?;
            let sql_type = match answer {
                DataType::Null => SqlType::Void,
                answer => SqlType::of_arrow(&answer).unwrap_or(SqlType::Boolean),
            };
            return Ok(Scalar::Asked { function, arguments, sql_type });
        }
        if arguments.is_empty()
            && let Some(fact) = self.context.fact(name)
        {
            self.is_transient.set(true);
            return Ok(Scalar::Constant(fact));
        }
        if let [argument] = arguments.as_slice()
            && let Some(to) = self.cast_by_name(name, argument)?
        {
            return self.explicit(argument.clone(), &to, false);
        }
        match has_function(name) {
            true => self.call(name, arguments),
            false => Err(self.unknown_function(name, &arguments)),
        }
    }

    /// The type to which a call of one argument casts, as the function's name is a type's.
    fn cast_by_name(&self, name: &str, argument: &Scalar) -> Result<Option<SqlType>> {
        let known = SqlType::named(name, &[]);
        if has_function(name) {
            // Other functions of a range's name make it of something else than a literal.
            let is_literal = argument.sql_type() == SqlType::Unknown;
            let is_range = |known: &SqlType| matches!(known, SqlType::Range(_) | SqlType::Multirange(_));
            return Ok(known.filter(|known| is_literal && is_range(known)));
        }
        let made = || self.context.made_type(&ObjectName::from(vec![Ident::with_quote('"', name)]));
        let found = if known.is_some() { known } else { made()? };
        Ok(found.filter(|found| !matches!(found, SqlType::Record(_))))
    }

    /// The error for a name that is no function's.
    pub(super) fn unknown_function(&self, name: &str, arguments: &[Scalar]) -> Error {
        let types = arguments.iter().map(|argument| argument.sql_type().to_string()).collect::<Vec<_>>().join(", ");
        let error = Error::input(format!("function {name}({types}) does not exist")).with_code("42883");
        match nearest_function(name) {
            Some(near) => error.with_hint(format!("did you mean '{near}'?")),
            None => error,
        }
    }

    fn of_subquery(&self, name: &str, query: &Query, level: &Level<'_>) -> Result<Scalar> {
        match name {
            "array" => {
                let rows = self.one_column(query, level)?;
                Ok(subquery_scalar(SubqueryKind::Array, rows))
            }
            "exists" => Ok(subquery_scalar(SubqueryKind::Exists, self.subquery(query, level)?)),
            _ => {
                let rows = self.one_column(query, level)?;
                self.named_call(name, vec![subquery_scalar(SubqueryKind::Value, rows)], level)
            }
        }
    }

    /// The arguments of a function, those with names put in their places.
    pub(super) fn arguments(&self, name: &str, arguments: &[FunctionArg], level: &Level<'_>) -> Result<Vec<Scalar>> {
        let is_named = arguments.iter().any(|argument| !matches!(argument, FunctionArg::Unnamed(_)));
        if is_named && !argument_names(name).is_empty() {
            return self.named_arguments(name, arguments, level);
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function)))
                    if bare_name(function) == "variadic array" =>
                {
                    let array = self.arguments("variadic", written(function), level)?.into_iter().next();
                    let array = array.ok_or_else(|| Error::input("VARIADIC of nothing").with_code("42601"))?;
                    bound.extend(self.elements_of(name, array)?);
                }
                FunctionArg::Unnamed(argument) => bound.push(self.argument(argument, level)?),
                other => return Err(unsupported(format!("the name in {name}({other})"))),
            }
        }
        Ok(bound)
    }

    /// One argument; `t.*` is the row.
    pub(super) fn argument(&self, argument: &FunctionArgExpr, level: &Level<'_>) -> Result<Scalar> {
        match argument {
            FunctionArgExpr::Expr(expression) => self.scalar(expression, level),
            FunctionArgExpr::QualifiedWildcard(name) => {
                let names = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<Ident>>();
                self.whole_row(&names, level).ok_or_else(|| {
                    let error = Error::input(format!("no table or alias is named '{name}' here")).with_code("42P01");
                    errors::at(error, names.first().and_then(name_place))
                })
            }
            FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_) => {
                Err(Error::input("* stands for all columns of a SELECT or for the rows of count(*)").with_code("42601"))
            }
        }
    }

    /// The arguments of a function of arrays and elements: arrays of texts and texts, if nothing says another type of
    /// any of them.
    fn with_arrays_of_texts(&self, name: &str, mut arguments: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let of_name = |(known, ..): &&(&str, usize, &[usize])| *known == name;
        let Some((_, common, places)) = OF_ARRAYS.iter().find(of_name) else { return Ok(arguments) };
        let is_unknown = |argument: &Scalar| argument.sql_type() == SqlType::Unknown;
        let has_others = name == "width_bucket" && arguments.len() > *common;
        if has_others || arguments.len() < *common || !arguments[..*common].iter().all(is_unknown) {
            return Ok(arguments);
        }
        for place in *places {
            let array = std::mem::replace(&mut arguments[*place], Scalar::boolean(true));
            arguments[*place] = self.explicit(array, &SqlType::array_of(SqlType::Text), false)?;
        }
        Ok(arguments)
    }

    /// A function that gives rows, in a SELECT list: its column, which appears when the list's functions have been put
    /// below it. Fails with 0A000 where rows have no place.
    fn row_function(&self, name: &str, arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Scalar> {
        if !has_place_for_rows(level) {
            let place = if level.in_aggregate.get() { "aggregate function calls" } else { level.clause.get().name() };
            let message = format!("set-returning functions are not allowed in {place}");
            return Err(Error::input(message).with_code("0A000").with_hint("put it into FROM"));
        }
        let array = self.row_array(name, arguments)?;
        self.row_function_of(name, array, level)
    }

    /// The same for an array of its rows. Fails with 0A000 where rows have no place.
    pub(super) fn row_function_of(&self, name: &str, array: Scalar, level: &Level<'_>) -> Result<Scalar> {
        if !has_place_for_rows(level) {
            let message = format!("set-returning functions are not allowed in {}", level.clause.get().name());
            return Err(Error::input(message).with_code("0A000").with_hint("put it into FROM"));
        }
        let mut layers = level.row_functions.borrow_mut();
        // What is called twice gives its rows once: in the list and in GROUP BY, say.
        let met = layers.iter().flatten().find(|item| item.array == array).filter(|_| !array.is_volatile());
        if let Some(met) = met {
            return Ok(element_of(name, &array, &met.columns));
        }
        let (columns, scalar) = self.element_columns(name, &array);
        // It reads the rows of those in its arguments.
        let read = array.columns();
        let is_read =
            |items: &Vec<FunctionItem>| items.iter().flat_map(|item| &item.columns).any(|c| read.contains(&c.id));
        let layer = layers.iter().rposition(is_read).map_or(0, |layer| layer + 1);
        if layers.len() <= layer {
            layers.push(Vec::new());
        }
        layers[layer].push(FunctionItem { array, columns });
        Ok(scalar)
    }

    /// The array whose elements are a function's rows. Fails like [`call`](Self::call).
    pub(super) fn row_array(&self, name: &str, arguments: Vec<Scalar>) -> Result<Scalar> {
        if arguments.iter().any(|argument| argument.sql_type().is_vector()) {
            return self.rows_of_vectors(name, arguments);
        }
        if name == LISTENING
            && arguments.is_empty()
            && let Some(function) = self.context.question(name)
        {
            self.is_transient.set(true);
            return Ok(Scalar::Asked { function, arguments, sql_type: SqlType::array_of(SqlType::Text) });
        }
        if name != "unnest" {
            return self.call(name, arguments);
        }
        let [array] = one(arguments)
            .ok_or_else(|| Error::input("unnest() with several arguments stands in FROM").with_code("42883"))?;
        let mut array = match array.sql_type() {
            SqlType::Unknown => {
                return Err(Error::input("function unnest(unknown) is not unique").with_code("42725"));
            }
            SqlType::Array(_) => self.typed_array(array)?,
            SqlType::Multirange(_) => self.call("multirange_ranges", vec![array])?,
            SqlType::Search(SearchKind::Vector) => self.call("tsvector_lexemes", vec![array])?,
            other => {
                return Err(Error::input(format!("function unnest({other}) does not exist")).with_code("42883"));
            }
        };
        // All elements, of every dimension.
        while matches!(array.sql_type().element(), Some(SqlType::Array(_))) && has_function("flatten") {
            array = self.call("flatten", vec![array])?;
        }
        Ok(array)
    }

    /// An array whose elements have a type.
    pub(super) fn typed_array(&self, array: Scalar) -> Result<Scalar> {
        match array.sql_type() {
            sql_type @ SqlType::Array(_) if *sql_type.innermost() == SqlType::Unknown => self.typed(array),
            _ => Ok(array),
        }
    }

    /// The columns of an array's elements, and the value that an element is.
    pub(super) fn element_columns(&self, name: &str, array: &Scalar) -> (Vec<Column>, Scalar) {
        let columns = match array.sql_type().element() {
            Some(SqlType::Record(fields)) => {
                let columns = fields.iter().map(|field| self.numbers.named(&field.name, field.sql_type.clone(), true));
                columns.collect()
            }
            element => vec![self.numbers.named(name, element.cloned().unwrap_or(SqlType::Text), true)],
        };
        let scalar = element_of(name, array, &columns);
        (columns, scalar)
    }
}

/// The value that an element of an array is, whose parts are columns.
fn element_of(name: &str, array: &Scalar, columns: &[Column]) -> Scalar {
    match (array.sql_type().element(), columns) {
        (Some(element @ SqlType::Record(fields)), _) => {
            // What a function gives is a row; what an array has in it is what was put into it.
            let sql_type = match name {
                "unnest" => element.clone(),
                _ => SqlType::Record(RecordType::row(fields.iter().cloned().collect())),
            };
            Scalar::Record { fields: columns.iter().map(Column::scalar).collect(), sql_type }
        }
        (_, [column, ..]) => column.scalar(),
        (_, []) => Scalar::Constant(Constant::null(SqlType::Text)),
    }
}

/// Whether a function may give rows here.
fn has_place_for_rows(level: &Level<'_>) -> bool {
    level.clause.get().has_row_functions() && !level.in_aggregate.get() && !level.in_window.get()
}

fn one(arguments: Vec<Scalar>) -> Option<[Scalar; 1]> {
    arguments.try_into().ok()
}
