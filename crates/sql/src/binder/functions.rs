//! Calls of functions: which kind of function a name is, and the functions that are written like calls but are none.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{aggregates, argument_names, has_function, nearest_function, scalars};
use diligence_types::record_type::RecordType;
use diligence_types::search::SearchKind;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::{
    DataType as WrittenType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Query, Value,
};

use super::aggregates::is_other_form;
use super::fields::SET_FIELD;
use super::operators::{Way, dimensions, record, row};
use super::row_functions::{LISTENING, ROW_FUNCTIONS};
use super::scope::Level;
use super::subqueries::{constant_elements, subquery_scalar};
use super::targets::Target;
use super::{Binder, name_place, normalized, unsupported, windows};
use crate::algebra::{Column, Comparison, Constant, FunctionItem, Scalar, SubqueryKind};
use crate::errors;
use crate::parse::{CURRENT_OF, GIVEN_AS, JSON_CALL, WHOLE_ROW};

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

/// A function's name without its schema.
pub(super) fn bare_name(function: &Function) -> String {
    function.name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default()
}

/// The arguments as they are written.
pub(super) fn written(function: &Function) -> &[FunctionArg] {
    match &function.args {
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
    }
}

/// DISTINCT.
pub(super) fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
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
        let arguments = self.with_arrays_of_texts(name, arguments)?;
        // One whose elements are the other.
        if name == "array_cat"
            && let [one, other] = arguments.as_slice()
            && one.sql_type().element().is_some()
            && dimensions(&one.sql_type()) != dimensions(&other.sql_type())
        {
            return self.operator("||", arguments);
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

    /// The fields of `ROW(…)`: of `t.*`, all of the columns.
    fn row_fields(&self, arguments: &[FunctionArg], level: &Level<'_>) -> Result<Vec<Scalar>> {
        let mut fields = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    let names = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<_>>();
                    match self.fields_of_row(&names, level)? {
                        Some(columns) => fields.extend(columns),
                        None => fields.extend(self.arguments("row", std::slice::from_ref(argument), level)?),
                    }
                }
                one => fields.extend(self.arguments("row", std::slice::from_ref(one), level)?),
            }
        }
        Ok(fields)
    }

    /// `a[1][2] = x`: the array with another array in a place, which has another element. Fails with 2202E for more
    /// places than there are dimensions.
    fn with_inner_element(&self, array: Scalar, places: &[Scalar], element: Scalar) -> Result<Scalar> {
        let SqlType::Array(own) = array.sql_type() else {
            return Err(Error::input("wrong number of array subscripts").with_code("2202E"));
        };
        let Some((place, inner)) = places.split_first() else { return Err(Error::bug("an element without a place")) };
        let element = match inner {
            [] => self.assign(element, &Target::new("", own.as_ref().clone()))?,
            inner => {
                let there = self.call("array_get", vec![array.clone(), place.clone()])?;
                self.with_inner_element(there, inner, element)?
            }
        };
        self.call("array_with_element", vec![array, place.clone(), element])
    }

    /// The columns of a source, each by itself; `None` if the names are none's.
    fn fields_of_row(&self, names: &[Ident], level: &Level<'_>) -> Result<Option<Vec<Scalar>>> {
        let Some(whole) = self.whole_row(names, level) else { return Ok(None) };
        let SqlType::Record(types) = whole.sql_type() else { return Ok(Some(vec![whole])) };
        if let Scalar::Record { fields, .. } = whole {
            return Ok(Some(fields));
        }
        let field = |name: &str| self.field(whole.clone(), &Ident::with_quote('"', name));
        types.iter().map(|own| field(&own.name)).collect::<Result<_>>().map(Some)
    }

    /// What is written like a call but is an expression of its own.
    fn special(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let bound = || self.arguments(name, written(function), level);
        let wrong = |wanted: &str| Error::input(format!("{name} takes {wanted}")).with_code("42883");
        Ok(Some(match name {
            "coalesce" | "ifnull" | "nvl" if name == "coalesce" || !has_function(name) => {
                let values = self.without_rows("COALESCE", level, bound)?;
                if values.is_empty() {
                    return Err(wrong("at least one argument").with_code("42601"));
                }
                let (values, _) = self.in_common(values, "COALESCE")?;
                match values.len() {
                    1 => values.into_iter().next().ok_or_else(|| Error::bug("no argument"))?,
                    _ => Scalar::Coalesce(values),
                }
            }
            "nullif" => {
                let [left, right] = two(bound()?).ok_or_else(|| wrong("two arguments").with_code("42601"))?;
                // The value has the type by which it is compared.
                let left = match (left.sql_type(), right.sql_type()) {
                    (SqlType::Unknown, SqlType::Varchar(_)) => self.cast(left, &SqlType::Text, Way::Implicit)?,
                    (SqlType::Unknown, other) if other != SqlType::Unknown => self.cast(left, &other, Way::Implicit)?,
                    (SqlType::Varchar(_), _) => left.cast(SqlType::Text, false),
                    (from, other) => match compared_number(&from, &other) {
                        Some(wider) => left.cast(wider, false),
                        None => left,
                    },
                };
                let left = self.evaluated_once(left, level)?;
                let equal = self.compare(Comparison::Equal, left.clone(), right)?;
                let left = self.typed(left)?;
                let sql_type = left.sql_type();
                let null = Scalar::Constant(Constant::null(sql_type.clone()));
                Scalar::Case { arms: vec![(equal, null)], otherwise: Some(Box::new(left)), sql_type }
            }
            "if" | "iif" if !has_function(name) => {
                let [condition, yes, no] = three(bound()?).ok_or_else(|| wrong("three arguments"))?;
                let condition = self.wanted(condition, &SqlType::Boolean, |from| {
                    format!("argument of {name} must be type boolean, not type {from}")
                })?;
                let (values, sql_type) = self.in_common(vec![yes, no], "CASE")?;
                let [yes, no] = two(values).ok_or_else(|| Error::bug("two values are two"))?;
                Scalar::Case { arms: vec![(condition, yes)], otherwise: Some(Box::new(no)), sql_type }
            }
            "nvl2" if !has_function(name) => {
                let [tested, yes, no] = three(bound()?).ok_or_else(|| wrong("three arguments"))?;
                let is_null = Scalar::IsNull(Box::new(self.typed(tested)?));
                let (values, sql_type) = self.in_common(vec![no, yes], "CASE")?;
                let [no, yes] = two(values).ok_or_else(|| Error::bug("two values are two"))?;
                Scalar::Case { arms: vec![(is_null, no)], otherwise: Some(Box::new(yes)), sql_type }
            }
            "to_regnamespace" | "to_regprocedure" | "to_regrole" => {
                let [text] = one(bound()?).ok_or_else(|| wrong("a name"))?;
                let kind = match name {
                    "to_regnamespace" => OidKind::Namespace,
                    "to_regrole" => OidKind::Role,
                    _ => OidKind::Signature,
                };
                self.object_or_null(&text, kind)?
            }
            "pg_column_size" => {
                let [value] = one(bound()?).ok_or_else(|| wrong("one argument"))?;
                self.column_size(self.typed(value)?)?
            }
            "octet_length" => {
                let [value] = one(bound()?).ok_or_else(|| wrong("one argument"))?;
                self.call(name, vec![self.padded(value)?])?
            }
            "pg_collation_for" => {
                let [scalar] = <[Scalar; 1]>::try_from(bound()?).map_err(|_| wrong("one argument"))?;
                let name = self.collation_for(&scalar)?;
                Scalar::Constant(name.map_or_else(|| Constant::null(SqlType::Text), Constant::text))
            }
            "row" => row(self.row_fields(written(function), level)?),
            WHOLE_ROW => {
                let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name))] = written(function) else {
                    return Err(wrong("the name of a table"));
                };
                let names = match name {
                    Expr::Identifier(name) => vec![name.clone()],
                    Expr::CompoundIdentifier(names) => names.clone(),
                    _ => vec![],
                };
                match self.fields_of_row(&names, level)? {
                    Some(fields) => row(fields),
                    // A variable, in PL/pgSQL.
                    None => self.scalar(name, level)?,
                }
            }
            "struct" if scalars(name).is_empty() => record(bound()?, (1..).map(|index| format!("c{}", index - 1))),
            "struct_pack" => {
                let mut names = Vec::new();
                let fields = written(function).iter().map(|argument| match argument {
                    FunctionArg::Named { name, arg, .. } => {
                        names.push(normalized(name));
                        let scalar = self.argument(arg, level)?;
                        self.typed(scalar)
                    }
                    // A column's name is its field's.
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(
                        column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
                    )) => {
                        names.push(self.column_name(column));
                        self.typed_scalar(column, level)
                    }
                    _ => Err(wrong("arguments with names: struct_pack(a := 1)")),
                });
                let fields = fields.collect::<Result<Vec<_>>>()?;
                record(fields, names.into_iter())
            }
            // A union is held as a struct of the one member that it has.
            "union_value" => {
                let [FunctionArg::Named { name, arg, .. }] = written(function) else {
                    return Err(wrong("one argument with a name: union_value(a := 1)"));
                };
                let value = self.argument(arg, level)?;
                record(vec![self.typed(value)?], std::iter::once(normalized(name)))
            }
            "union_tag" => {
                let [union] = one(bound()?).ok_or_else(|| wrong("a union"))?;
                match union.sql_type() {
                    SqlType::Record(fields) if fields.len() == 1 => {
                        Scalar::Constant(Constant::text(fields[0].name.clone()))
                    }
                    _ => return Err(wrong("a union")),
                }
            }
            "struct_extract" | "union_extract" => {
                let [row, field] = two(bound()?).ok_or_else(|| wrong("a struct and the name of a field"))?;
                let is_number = matches!(field.sql_type(), SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
                match Self::candidate(&field).literal.filter(|_| !is_number) {
                    Some(name) => self.field(row, &Ident::with_quote('"', name))?,
                    None if is_number => self.subscript(row, field)?,
                    None => return Err(wrong("the name of a field as a literal")),
                }
            }
            "struct_keys" => {
                let [row] = one(bound()?).ok_or_else(|| wrong("a struct"))?;
                let SqlType::Record(fields) = row.sql_type() else { return Err(wrong("a struct")) };
                let names = fields.iter().map(|field| Scalar::Constant(Constant::text(field.name.clone())));
                self.array(names.collect())?
            }
            "struct_insert" => {
                let [FunctionArg::Unnamed(row), more @ ..] = written(function) else {
                    return Err(wrong("a struct and fields: struct_insert(s, a := 1)"));
                };
                let row = self.argument(row, level)?;
                let SqlType::Record(known) = row.sql_type() else { return Err(wrong("a struct first")) };
                let field = |field: &diligence_types::sql_type::RecordField| {
                    self.field(row.clone(), &Ident::with_quote('"', field.name.clone()))
                };
                let mut fields = known.iter().map(field).collect::<Result<Vec<_>>>()?;
                let mut names = known.iter().map(|field| field.name.clone()).collect::<Vec<_>>();
                for argument in more {
                    let FunctionArg::Named { name, arg, .. } = argument else {
                        return Err(wrong("fields with names: struct_insert(s, a := 1)"));
                    };
                    names.push(normalized(name));
                    let value = self.argument(arg, level)?;
                    fields.push(self.typed(value)?);
                }
                record(fields, names.into_iter())
            }
            "normalize" if written(function).len() == 2 => {
                let [FunctionArg::Unnamed(text), FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(form)))] =
                    written(function)
                else {
                    return Ok(None);
                };
                let form = Scalar::Constant(Constant::text(form.value.clone()));
                self.call("normalize", vec![self.argument(text, level)?, form])?
            }
            // A literal is a text here, and not that of a list.
            "list_slice" | "array_slice" | "list_extract" | "list_element" | "array_extract"
                if begins_with_text(written(function)) =>
            {
                let mut arguments = bound()?;
                if let Some(text) = arguments.first_mut() {
                    *text = self.explicit(text.clone(), &SqlType::Text, false)?;
                }
                self.call(name, arguments)?
            }
            "in value" => {
                let [value, list] = two(bound()?).ok_or_else(|| wrong("a value and a list"))?;
                self.in_value(value, list)?
            }
            SET_FIELD => self.with_field_set(bound()?)?,
            "json_populate_record" | "jsonb_populate_record" => {
                match self.populated_row(name, written(function), level)? {
                    Some(row) => self.scalar(&row, level)?,
                    None => return Ok(None),
                }
            }
            CURRENT_OF => {
                let cursor = match written(function) {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(cursor))] => cursor.to_string(),
                    _ => String::new(),
                };
                let message = format!("cursor \"{}\" does not exist", cursor.trim_matches('\''));
                let hint =
                    "it may be one of the PL/pgSQL function that the statement is in, or of DECLARE in the transaction";
                return Err(Error::input(message).with_code("34000").with_hint(hint));
            }
            "set element" => {
                let mut arguments = bound()?.into_iter();
                let mut arguments = (arguments.next(), arguments.next_back(), arguments.collect::<Vec<_>>());
                let (Some(value), Some(element)) = (arguments.0.take(), arguments.1.take()) else {
                    return Err(wrong("a value, a place and an element"));
                };
                let mut places = arguments.2;
                match (value.sql_type(), places.len()) {
                    (SqlType::Array(own), 1) => {
                        let place = places.swap_remove(0);
                        let target = Target::new("", own.as_ref().clone());
                        let element = self.assign(element, &target)?;
                        self.call("array_with_element", vec![value, place, element])?
                    }
                    (SqlType::Jsonb, _) => {
                        let is_place = places.first().is_some_and(|place| place.sql_type() == SqlType::Integer);
                        let texts = places.into_iter().map(|place| self.cast(place, &SqlType::Text, Way::Explicit));
                        let path = self.array(texts.collect::<Result<_>>()?)?;
                        let json = |text: &str| {
                            self.cast(Scalar::Constant(Constant::text(text)), &SqlType::Jsonb, Way::Explicit)
                        };
                        let value = Scalar::Coalesce(vec![value, json(if is_place { "[]" } else { "{}" })?]);
                        let element = self.cast(element, &SqlType::Jsonb, Way::Implicit)?;
                        let element = Scalar::Coalesce(vec![element, json("null")?]);
                        self.call("jsonb_with_element", vec![value, path, element])?
                    }
                    (SqlType::Array(own), _) if own.element().is_some() => {
                        self.with_inner_element(value, &places, element)?
                    }
                    (SqlType::Array(_), _) => {
                        let error = Error::input("wrong number of array subscripts").with_code("2202E");
                        return Err(error.with_hint("the column's type has one dimension: declare it as type[][]"));
                    }
                    (other, _) => {
                        let message = format!("cannot subscript type {other} because it does not support subscripting");
                        return Err(Error::input(message).with_code("42804"));
                    }
                }
            }
            "set part" => {
                let [value, low, high, part] =
                    <[Scalar; 4]>::try_from(bound()?).map_err(|_| wrong("an array, two places and an array"))?;
                let target = Target::new("", value.sql_type());
                let part = self.assign(part, &target)?;
                self.call("array_with_part", vec![value, low, high, part])?
            }
            // Of several dimensions: an array of arrays.
            "array_fill" => {
                let [element, lengths] =
                    two(bound()?).ok_or_else(|| wrong("an element and the array of its lengths"))?;
                if matches!(&element, Scalar::Constant(constant) if constant.sql_type == SqlType::Unknown) {
                    let message = "could not determine polymorphic type because input has type unknown";
                    let hint = "cast the element: array_fill(NULL::integer, …)";
                    return Err(Error::input(message).with_code("42804").with_hint(hint));
                }
                let known = match &lengths {
                    Scalar::Array { elements, .. } => elements.clone(),
                    Scalar::Constant(constant) if constant.sql_type.element().is_some() && !constant.is_null() => {
                        constant_elements(constant)?
                    }
                    _ => vec![],
                };
                if known.len() < 2 {
                    return Ok(Some(self.call("array_fill", vec![element, lengths])?));
                }
                let mut filled = self.typed(element)?;
                for length in known.into_iter().rev() {
                    filled = self.call("array_fill", vec![filled, self.array(vec![length])?])?;
                }
                filled
            }
            "get_current_timestamp" => {
                bound()?;
                self.now()
            }
            "date_add" if !has_function(name) => {
                let [day, interval] = two(bound()?).ok_or_else(|| wrong("a date and an interval"))?;
                self.operator("+", vec![day, interval])?
            }
            "datetrunc" if !has_function(name) => self.call("date_trunc", bound()?)?,
            "named_struct" => {
                let mut names = Vec::new();
                let mut fields = Vec::new();
                let mut arguments = bound()?.into_iter();
                while let Some(field) = arguments.next() {
                    let value = arguments.next().ok_or_else(|| wrong("pairs of a name and a value"))?;
                    names.push(Self::candidate(&field).literal.ok_or_else(|| wrong("names as literals"))?);
                    fields.push(self.typed(value)?);
                }
                record(fields, names.into_iter())
            }
            GIVEN_AS => {
                let [given, name] = two(bound()?).ok_or_else(|| wrong("a parameter and the name of a type"))?;
                let sql_type = Self::candidate(&name).literal.and_then(|name| SqlType::parse(&name));
                self.explicit(given, &sql_type.ok_or_else(|| wrong("the name of a type"))?, false)?
            }
            "make_array" | "list_value" => self.array(bound()?)?,
            "format"
            | "concat_ws"
            | "json_extract_path"
            | "json_extract_path_text"
            | "jsonb_extract_path"
            | "jsonb_extract_path_text"
            | "jsonb_build_array"
            | "num_nulls"
            | "num_nonnulls" => match self.variadic_array(name, written(function), level)? {
                Some(value) => value,
                None => return Ok(None),
            },
            "between symmetric" => {
                let [value, one, other] = three(bound()?).ok_or_else(|| wrong("three arguments"))?;
                let there = self.between(value.clone(), one.clone(), other.clone())?;
                let back = self.between(value, other, one)?;
                Scalar::any([there, back])
            }
            "now" | "transaction_timestamp" | "current_timestamp" => {
                bound()?;
                self.with_digits(self.now(), function)?
            }
            "statement_timestamp" | "clock_timestamp" => {
                bound()?;
                self.statement_time()
            }
            "current_date" | "today" if written(function).is_empty() => self.now().cast(SqlType::Date, true),
            "current_time" => self.with_digits(self.now().cast(SqlType::TimeTz, true), function)?,
            "localtime" => self.with_digits(self.now().cast(SqlType::Time, true), function)?,
            "localtimestamp" => self.with_digits(self.now().cast(SqlType::Timestamp, true), function)?,
            "pg_typeof" => {
                let [argument] = one(bound()?).ok_or_else(|| wrong("one argument"))?;
                let argument = self.typed_array(argument)?;
                let name = argument.sql_type().without_modifier().to_string();
                let name = if name == "bpchar" { "character".to_owned() } else { name };
                Scalar::Constant(Constant::text(name))
            }
            "getvariable" => {
                let [name] = one(bound()?).ok_or_else(|| wrong("one argument"))?;
                let literal = Self::candidate(&name).literal;
                self.is_transient.set(true);
                let name = literal.ok_or_else(|| wrong("the name of a variable in quotes"))?;
                let value = self.context.variable(&name.to_lowercase());
                Scalar::Constant(value.unwrap_or_else(|| Constant::null(SqlType::Text)))
            }
            "current_setting" => {
                let arguments = bound()?;
                let literal = arguments.first().and_then(|argument| Self::candidate(argument).literal);
                self.is_transient.set(true);
                let Some(setting) = literal else {
                    // The name comes with the values of parameters, or from a row.
                    let name = arguments.into_iter().next().ok_or_else(|| wrong("the name of a setting"))?;
                    let name = self.cast(name, &SqlType::Text, Way::Explicit)?;
                    let arm = |(known, value): (String, String)| {
                        let known = Scalar::Constant(Constant::text(known));
                        let is_it = self.compare(Comparison::Equal, name.clone(), known)?;
                        Ok((is_it, Scalar::Constant(Constant::text(value))))
                    };
                    let arms = self.context.settings().into_iter().map(arm).collect::<Result<Vec<_>>>()?;
                    let null = Scalar::Constant(Constant::null(SqlType::Text));
                    return Ok(Some(match arms.is_empty() {
                        true => null,
                        false => Scalar::Case { arms, otherwise: None, sql_type: SqlType::Text },
                    }));
                };
                match self.context.setting(&setting.to_lowercase()) {
                    Some(value) => Scalar::Constant(Constant::text(value)),
                    None if arguments.len() > 1 => Scalar::Constant(Constant::null(SqlType::Text)),
                    None => {
                        let message = format!("unrecognized configuration parameter \"{setting}\"");
                        return Err(Error::input(message).with_code("42704"));
                    }
                }
            }
            _ => return Ok(None),
        }))
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

fn two(arguments: Vec<Scalar>) -> Option<[Scalar; 2]> {
    arguments.try_into().ok()
}

fn three(arguments: Vec<Scalar>) -> Option<[Scalar; 3]> {
    arguments.try_into().ok()
}

/// The type in which a number is compared with one of another type, if that is not its own and not an integer.
fn compared_number(from: &SqlType, other: &SqlType) -> Option<SqlType> {
    let is_integer = |one: &SqlType| matches!(one, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
    match (from, other) {
        (from, SqlType::Numeric(_)) if is_integer(from) => Some(SqlType::NUMERIC),
        (SqlType::Numeric(_), SqlType::Real | SqlType::Double) => Some(SqlType::Double),
        (from, SqlType::Real | SqlType::Double) if is_integer(from) => Some(SqlType::Double),
        _ => None,
    }
}

fn begins_with_text(arguments: &[FunctionArg]) -> bool {
    match arguments.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => {
            matches!(value.value, Value::SingleQuotedString(_))
        }
        _ => false,
    }
}
