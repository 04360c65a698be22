//! Subscripts, slices, fields and methods behind a value.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{aggregates, has_function};
use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Subscript,
};

use super::lists::is_lambda;
use super::operators::Way;
use super::scope::Level;
use super::syntax::{bare_name, written};
use super::{Binder, unsupported};
use crate::algebra::{Constant, Quantifier, Scalar};

/// The function that takes an element of an array.
const SUBSCRIPT: &str = "array_get";

/// The function that takes a part of an array.
const SLICE: &str = "array part";

/// The function that takes a part of a dimension that is not the outer one.
const SLICE_WITHIN: &str = "array part within";

/// Functions of DuckDB whose results are lists, beside those that begin with `list_`.
const LIST_FUNCTIONS: [&str; 13] = [
    "flatten",
    "list comprehension",
    "map_entries",
    "map_keys",
    "map_values",
    "range",
    "regexp_extract_all",
    "split",
    "str_split",
    "str_split_regex",
    "string_split",
    "string_split_regex",
    "struct_values",
];

/// Whether a function gives a list that only DuckDB has. Its places count from the end if they are negative, which is
/// an element that does not exist of PostgreSQL's arrays.
fn gives_list(function: &Function) -> bool {
    let name = bare_name(function);
    name.starts_with("list_") || LIST_FUNCTIONS.contains(&name.as_str())
}

/// Whether an expression in front of a subscript is a list as only DuckDB writes it: `[1, 2]`, `string_split(a, ',')`,
/// and any call that is not in parentheses.
fn is_list_of_duckdb(root: &Expr) -> bool {
    matches!(root, Expr::Function(_) | Expr::Array(_)) || is_list(root)
}

fn is_list(expression: &Expr) -> bool {
    match expression {
        Expr::Array(array) => !array.named,
        Expr::Function(function) => gives_list(function),
        Expr::Nested(inner) => is_list(inner),
        _ => false,
    }
}

/// A method as the call that it is, of a function that a statement made or that stands for others: what is before the
/// point is the first argument as it is written.
fn written_method(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let is_written = |access: &AccessExpr| match access {
        AccessExpr::Dot(Expr::Function(function)) => {
            let name = bare_name(function);
            function.over.is_none() && !has_function(&name) && aggregates(&name).is_empty()
        }
        _ => false,
    };
    called(root, chain, chain.iter().position(is_written)?)
}

/// A value with the method at a place of what is behind it as a call.
fn called(root: &Expr, chain: &[AccessExpr], at: usize) -> Option<Expr> {
    let AccessExpr::Dot(Expr::Function(function)) = &chain[at] else { return None };
    let object = |root: Expr, chain: &[AccessExpr]| match chain {
        [] => root,
        chain => Expr::CompoundFieldAccess { root: Box::new(root), access_chain: chain.to_vec() },
    };
    let first = FunctionArg::Unnamed(FunctionArgExpr::Expr(object(root.clone(), &chain[..at])));
    let mut call = function.clone();
    let FunctionArguments::List(list) = &mut call.args else { return None };
    list.args.insert(0, first);
    Some(object(Expr::Function(call), &chain[at + 1..]))
}

impl Binder<'_> {
    /// `name.upper()`, of which the parser makes a function of a schema: the call with the column as its first
    /// argument; `None` if the names in front are of no column.
    pub(super) fn method_of_name(&self, function: &Function, level: &Level<'_>) -> Option<Function> {
        let parts = function.name.0.iter().map(|part| part.as_ident().cloned()).collect::<Option<Vec<_>>>()?;
        let (name, front) = parts.split_last()?;
        let value = match front {
            [] => return None,
            [column] => Expr::Identifier(column.clone()),
            names => Expr::CompoundIdentifier(names.to_vec()),
        };
        if !self.is_column(front, level) {
            return None;
        }
        let mut call = function.clone();
        let FunctionArguments::List(list) = &mut call.args else { return None };
        list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
        call.name = ObjectName::from(vec![name.clone()]);
        Some(call)
    }

    /// Subscripts, slices and fields behind a value.
    pub(super) fn accessed(&self, root: &Expr, chain: &[AccessExpr], level: &Level<'_>) -> Result<Scalar> {
        if let Some(call) = list_method(root, chain) {
            return self.scalar(&call, level);
        }
        if let Some(call) = written_method(root, chain) {
            return self.scalar(&call, level);
        }
        // Rows have no elements, so the list of them is meant.
        if let (Expr::Function(series), Some(AccessExpr::Subscript(_))) = (root, chain.first())
            && bare_name(series) == "generate_series"
        {
            let list = crate::parse::expression(&format!("ARRAY(SELECT {series})"))?;
            return self.accessed(&list, chain, level);
        }
        // `t.a[1]`, `s.t.a.b`: the names up to the first subscript are one.
        let mut names = match root {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(names) => names.clone(),
            _ => vec![],
        };
        let mut chain = chain.iter().peekable();
        if !names.is_empty() {
            while let Some(AccessExpr::Dot(Expr::Identifier(name))) = chain.peek() {
                names.push(name.clone());
                chain.next();
            }
        }
        let mut scalar = match names.as_slice() {
            [] => self.typed_scalar(root, level)?,
            [name] => self.identifier(name, level)?,
            names => self.compound(names, level)?,
        };
        let mut is_list = is_list_of_duckdb(root);
        while let Some(access) = chain.next() {
            let counts_from_end = is_list && matches!(scalar.sql_type(), SqlType::Array(_));
            is_list = match access {
                AccessExpr::Dot(Expr::Function(method)) => gives_list(method),
                AccessExpr::Dot(_) => false,
                AccessExpr::Subscript(_) => is_list,
            };
            if !counts_from_end && is_slice_within(access, chain.peek().copied(), &scalar) {
                let mut slices = vec![access];
                while let Some(next) = chain.next_if(|next| bounds_of(next).is_some()) {
                    slices.push(next);
                }
                scalar = self.sliced(scalar, &slices, level)?;
                continue;
            }
            scalar = match access {
                AccessExpr::Dot(Expr::Identifier(name)) => self.field(scalar, name)?,
                // A call as a method: what is before the point is the first argument.
                AccessExpr::Dot(Expr::Function(function)) if function.over.is_none() => {
                    let name = bare_name(function);
                    let mut arguments = vec![scalar];
                    arguments.extend(self.arguments(&name, written(function), level)?);
                    self.named_call(&name, arguments, level)?
                }
                AccessExpr::Dot(other) => return Err(unsupported(format!(".{other}"))),
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    let index = self.scalar(index, level)?;
                    match counts_from_end {
                        true => self.call("list_extract", vec![scalar, index])?,
                        false => self.subscript(scalar, index)?,
                    }
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })
                    if is_text(&scalar) =>
                {
                    let bound = |bound: &Option<Expr>, open| self.bound(bound.as_ref(), open, level);
                    let (low, high) = (bound(lower_bound, 1)?, bound(upper_bound, -1)?);
                    self.call("text part", vec![scalar, low, high])?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })
                    if scalar.sql_type().is_vector() =>
                {
                    let low = self.bound(lower_bound.as_ref(), 0, level)?;
                    let high = self.bound(upper_bound.as_ref(), i32::MAX - 1, level)?;
                    let (low, high) = (self.counted_from_1(low)?, self.counted_from_1(high)?);
                    self.call(SLICE, vec![self.vector_elements(scalar)?, low, high])?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                    let bound = |bound: &Option<Expr>, open| self.bound(bound.as_ref(), open, level);
                    let (low, high) = (bound(lower_bound, 1)?, bound(upper_bound, i32::MAX)?);
                    self.call(if counts_from_end { "list_slice" } else { SLICE }, vec![scalar, low, high])?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: Some(step) }) => {
                    let bound = |bound: &Option<Expr>, open| self.bound(bound.as_ref(), open, level);
                    let (low, high) = (bound(lower_bound, 1)?, bound(upper_bound, i32::MAX)?);
                    self.call("list_slice", vec![scalar, low, high, self.scalar(step, level)?])?
                }
            };
        }
        Ok(scalar)
    }

    /// `a[1:2][2:3]`: a part of each dimension. Beside a slice a subscript is the end of one that begins at 1, as in
    /// PostgreSQL.
    fn sliced(&self, array: Scalar, slices: &[&AccessExpr], level: &Level<'_>) -> Result<Scalar> {
        let mut dimensions = 0;
        let mut sql_type = array.sql_type();
        while let SqlType::Array(element) = &sql_type {
            dimensions += 1;
            sql_type = element.as_ref().clone();
        }
        let nothing = slices.len() > dimensions;
        let mut array = array;
        for (depth, slice) in slices.iter().take(dimensions).enumerate() {
            let Some((low, high)) = bounds_of(slice) else { return Err(Error::bug("a slice without bounds")) };
            let (low, high) = (self.bound(low, 1, level)?, self.bound(high, i32::MAX, level)?);
            array = match depth {
                0 => self.call(SLICE, vec![array, low, high])?,
                depth => {
                    let depth = i32::try_from(depth).map_err(|_| Error::bug("more dimensions than a type has"))?;
                    self.call(SLICE_WITHIN, vec![array, Scalar::Constant(Constant::integer(depth)), low, high])?
                }
            };
        }
        match nothing {
            // There is nothing in a dimension that the array does not have.
            true => {
                let none = [1, 0].map(|bound| Scalar::Constant(Constant::integer(bound)));
                let [low, high] = none;
                self.call(SLICE, vec![array, low, high])
            }
            false => Ok(array),
        }
    }

    /// A bound of a slice as an integer, as an assignment makes it one; where none is written, what stands for it.
    fn bound(&self, bound: Option<&Expr>, open: i32, level: &Level<'_>) -> Result<Scalar> {
        let Some(bound) = bound else { return Ok(Scalar::Constant(Constant::integer(open))) };
        let bound = self.scalar(bound, level)?;
        match bound.sql_type() {
            SqlType::BigInt | SqlType::Numeric(_) => self.cast(bound, &SqlType::Integer, Way::Assignment),
            _ => Ok(bound),
        }
    }

    /// `value IN list` of a list, a map or a text. Fails with 42601 for anything else.
    pub(super) fn in_value(&self, value: Scalar, list: Scalar) -> Result<Scalar> {
        match list.sql_type() {
            // A list is one of the elements; PostgreSQL's arrays of arrays have none but the innermost.
            SqlType::Array(element)
                if matches!((&*element, value.sql_type()), (SqlType::Array(_), SqlType::Array(_))) =>
            {
                self.call("list_contains", vec![list, value])
            }
            SqlType::Array(_) => self.over_array(value, "=", Quantifier::Any, list),
            SqlType::Map(_) => self.call("map_contains", vec![list, value]),
            _ if is_text(&list) => self.call("contains", vec![list, value]),
            other => {
                let error = Error::input(format!("IN takes a list, not {other}")).with_code("42601");
                Err(error.with_hint("write IN (…)"))
            }
        }
    }

    /// `value[index]`. Fails with 42804 if a value of the type has no parts.
    pub(super) fn subscript(&self, scalar: Scalar, index: Scalar) -> Result<Scalar> {
        match scalar.sql_type() {
            SqlType::Vector(_) => {
                let index = self.counted_from_1(index)?;
                self.subscript(self.vector_elements(scalar)?, index)
            }
            SqlType::Record(_) => match &index {
                Scalar::Constant(constant) => match constant.value.try_as_str() {
                    Some(Some(name)) => self.field(scalar, &Ident::with_quote('"', name)),
                    _ => self.numbered_field(scalar, &index),
                },
                _ => Err(Error::input("a field of a struct is named by a literal").with_code("42804")),
            },
            SqlType::Array(_) => {
                // PostgreSQL makes it an integer as an assignment does.
                let index = match index.sql_type() {
                    SqlType::BigInt | SqlType::Numeric(_) | SqlType::Double | SqlType::Real => {
                        self.cast(index, &SqlType::Integer, Way::Assignment)?
                    }
                    _ => index,
                };
                self.call(SUBSCRIPT, vec![scalar, index])
            }
            _ if is_text(&scalar) => self.call("text element", vec![scalar, index]),
            SqlType::Map(_) => self.call("map_extract_value", vec![scalar, index]),
            SqlType::Json => self.operator("->", vec![scalar, index]),
            // A step of a path, which takes '1' for a place and 1 for a key, and finds nothing in a scalar.
            SqlType::Jsonb => {
                let step = self.explicit(index, &SqlType::Text, false)?;
                let sql_type = SqlType::array_of(SqlType::Text);
                self.operator("#>", vec![scalar, Scalar::Array { elements: vec![step], sql_type }])
            }
            other => {
                let message = format!("cannot subscript type {other} because it does not support subscripting");
                Err(Error::input(message).with_code("42804"))
            }
        }
    }
}

/// The bounds of a subscript or a slice without a step; `None` for anything else.
fn bounds_of(access: &AccessExpr) -> Option<(Option<&Expr>, Option<&Expr>)> {
    match access {
        AccessExpr::Subscript(Subscript::Index { index }) => Some((None, Some(index))),
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
            Some((lower_bound.as_ref(), upper_bound.as_ref()))
        }
        _ => None,
    }
}

/// Whether an array of several dimensions has subscripts in a row of which the first or the second is a slice.
fn is_slice_within(access: &AccessExpr, next: Option<&AccessExpr>, array: &Scalar) -> bool {
    let is_slice = |access: &AccessExpr| {
        matches!(access, AccessExpr::Subscript(Subscript::Slice { stride: None, .. })) && bounds_of(access).is_some()
    };
    let has_dimensions = array.sql_type().element().is_some_and(|element| element.element().is_some());
    let Some(next) = next.filter(|next| bounds_of(next).is_some()) else { return false };
    has_dimensions && bounds_of(access).is_some() && (is_slice(access) || is_slice(next))
}

/// Whether a value is a text, or a literal in quotes.
pub(super) fn is_text(scalar: &Scalar) -> bool {
    matches!(scalar.sql_type().uncollated(), SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Unknown)
}

/// `l.list_transform(x -> x + 1)`: `list_transform(l, x -> x + 1)`, if there is a method that takes a lambda or is a
/// function of a list's elements.
fn list_method(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let is_of_list = |access: &AccessExpr| match access {
        AccessExpr::Dot(Expr::Function(function)) => {
            bare_name(function).starts_with("list_") || written(function).iter().any(is_lambda)
        }
        _ => false,
    };
    called(root, chain, chain.iter().position(is_of_list)?)
}
