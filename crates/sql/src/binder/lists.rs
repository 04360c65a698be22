//! Functions of a list's elements: lambdas, comprehensions and aggregates of lists. They are subqueries over the rows
//! that the list unnests to, so everything that a subquery may have may stand in them.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{aggregates, has_function};
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, Ident, Query, SelectItem, SetExpr};

use super::aggregates::is_other_form;
use super::operators::Way;
use super::scope::Level;
use super::subqueries::subquery_scalar;
use super::syntax::{bare_name, unnested, written};
use super::{Binder, normalized, place, placed};
use crate::algebra::{Constant, Scalar, SubqueryKind};
use crate::quoting::quoted;

/// How the queries made here call the list.
pub(super) const LIST: &str = "$list";
/// The function in FROM that gives the elements of a list, lists among them as they are.
pub(super) const ELEMENTS: &str = "list elements";
/// Aggregates whose value depends on the order of the elements.
const IN_ORDER: [&str; 6] = ["first", "last", "array_agg", "list", "string_agg", "group_concat"];

impl Binder<'_> {
    /// A function of a list's elements; `None` if the name is of none.
    pub(super) fn list_function(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let wrong = |wanted: &str| Error::input(format!("{name} takes {wanted}")).with_code("42883");
        match name {
            "list_reduce" | "array_reduce" | "reduce" => {
                let arguments = expressions(function).ok_or_else(|| wrong("a list and a lambda"))?;
                let (list, lambda, first) = match arguments[..] {
                    [list, lambda] => (list, lambda, None),
                    [list, lambda, first] => (list, lambda, Some(first)),
                    _ => return Err(wrong("a list, a lambda and a first value")),
                };
                let (names, body) = match lambda_of(lambda) {
                    Some((names, body)) if matches!(names.len(), 2 | 3) => (names, body),
                    _ => return Err(wrong("a lambda of two or three names, such as (x, y) -> x + y")),
                };
                let list = self.scalar(list, level)?;
                self.reduced(name, list, &names, body, first, level).map(Some)
            }
            "list_transform" | "list_apply" | "array_transform" | "array_apply" | "apply" | "list_filter"
            | "array_filter" | "filter" => {
                let arguments = expressions(function).ok_or_else(|| wrong("a list and a lambda"))?;
                let [list, lambda] = arguments[..] else { return Err(wrong("a list and a lambda")) };
                let Some((names, body)) = lambda_of(lambda).filter(|(names, _)| names.len() < 3) else {
                    return Err(wrong("a lambda as its second argument, such as x -> x + 1"));
                };
                let list = self.scalar(list, level)?;
                let element = names.first().map(|name| Expr::Identifier(name.clone()));
                match (name.ends_with("filter"), element) {
                    (true, Some(element)) => self.over_list(name, list, &names, &element, Some(body), level),
                    _ => self.over_list(name, list, &names, body, None, level),
                }
                .map(Some)
            }
            "list comprehension" => {
                let arguments = expressions(function).ok_or_else(|| wrong("expressions"))?;
                let (body, names, list, condition) = match arguments[..] {
                    [body, names, list] => (body, names, list, None),
                    [body, names, list, condition] => (body, names, list, Some(condition)),
                    _ => return Err(wrong("[x + 1 FOR x IN list IF x > 1]")),
                };
                let names = names_of(names).filter(|names| names.len() < 3);
                let names = names.ok_or_else(|| wrong("names of the element and its place"))?;
                let list = self.scalar(list, level)?;
                self.over_list("a list comprehension", list, &names, body, condition, level).map(Some)
            }
            "lambda" => {
                let error =
                    Error::input("a lambda stands in list_transform, list_filter or list_reduce").with_code("42601");
                Err(error)
            }
            "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" | "aggregate" => {
                let arguments = expressions(function).ok_or_else(|| wrong("a list and an aggregate's name"))?;
                let [list, aggregate, more @ ..] = &arguments[..] else {
                    return Err(wrong("a list and an aggregate's name"));
                };
                let literal = self.scalar(aggregate, level)?;
                let aggregate = Self::candidate(&literal).literal.ok_or_else(|| wrong("an aggregate's name"))?;
                self.aggregate_of_list(&aggregate.to_lowercase(), list, more, level).map(Some)
            }
            _ => {
                let aggregate = name.strip_prefix("list_").or_else(|| name.strip_prefix("array_"));
                let aggregate = aggregate.filter(|other| !aggregates(other).is_empty() || is_other_form(other));
                match (aggregate, expressions(function).as_deref()) {
                    (Some(aggregate), Some([list, more @ ..])) if !has_function(name) && function.over.is_none() => {
                        self.aggregate_of_list(aggregate, list, more, level).map(Some)
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    /// The array of an expression's values for the elements of a list, where a condition is true. NULL of NULL.
    fn over_list(
        &self,
        what: &str,
        list: Scalar,
        names: &[Ident],
        body: &Expr,
        condition: Option<&Expr>,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        // What the lambda does with an element says of which type it may be.
        if is_undecided(&list) {
            let of = |element| self.of_elements(list.clone(), &element);
            let made = self.over_list(what, of(SqlType::Integer)?, names, body, condition, level);
            return match made {
                Err(_) if self.may_try_again() => {
                    self.over_list(what, of(SqlType::Text)?, names, body, condition, level)
                }
                other => other,
            };
        }
        let element = names.first().map(normalized).unwrap_or_default();
        let index = names.get(1).map_or_else(|| "lambda index".to_owned(), normalized);
        let (list, from) = self.elements(what, list, &element, &index)?;
        let list = self.evaluated_once(list, level)?;
        let index = quoted(&index);
        let mut query = crate::parse::query(&format!("SELECT 1 FROM {from} ORDER BY \"elements\".{index} ASC"))?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(body.clone())];
            select.selection = condition.map(as_condition).transpose()?;
        }
        let made = self.with_list(list.clone(), &query, SubqueryKind::Array, level);
        let made = made.map_err(|error| placed(error, || place(body)))?;
        match made.sql_type().element().is_some_and(|element| element.element().is_some()) {
            true => self.list_of_lists(list, &from, (body, condition), &index, made.sql_type(), level),
            false => Ok(made),
        }
    }

    /// What [`over_list`](Self::over_list) gives where the values are lists, each of which may have its own length: an
    /// array of PostgreSQL has arrays of one length, so the values are those of a map by their places.
    fn list_of_lists(
        &self,
        list: Scalar,
        from: &str,
        (body, condition): (&Expr, Option<&Expr>),
        index: &str,
        sql_type: SqlType,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let filter = condition.map_or_else(String::new, |condition| format!(" WHERE CAST({condition} AS boolean)"));
        let text = format!(
            "SELECT map_values(map_from_entries(array_agg(ROW(\"elements\".{index}, {body}) \
             ORDER BY \"elements\".{index} ASC))) FROM {from}{filter}"
        );
        let values = self.with_list(list.clone(), &crate::parse::query(&text)?, SubqueryKind::Value, level)?;
        let values = self.cast(values, &sql_type, Way::Implicit)?;
        let nothing = Scalar::Array { elements: vec![], sql_type: sql_type.clone() };
        let values = Scalar::Coalesce(vec![values, nothing]);
        if !list.nullable() {
            return Ok(values);
        }
        let null = Scalar::Constant(Constant::null(sql_type.clone()));
        let arms = vec![(Scalar::IsNull(Box::new(list)), null)];
        Ok(Scalar::Case { arms, otherwise: Some(Box::new(values)), sql_type })
    }

    /// What a lambda makes of its value for the elements before, each element and its place, from the first value on,
    /// or from the first element. A recursive query counts the elements; it keeps the list, which only its begin reads.
    fn reduced(
        &self,
        what: &str,
        list: Scalar,
        names: &[Ident],
        body: &Expr,
        first: Option<&Expr>,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let list = self.typed(self.of_elements(list, &SqlType::Integer)?)?;
        if list.sql_type().element().is_none() {
            let message = format!("{what} takes a list, not {}", list.sql_type());
            return Err(Error::input(message).with_code("42804"));
        }
        let (value, element) = (quoted(&normalized(&names[0])), quoted(&normalized(&names[1])));
        // The place of the element, by the name that it has in the query around `at`.
        let place_from =
            |at: &str| names.get(2).map_or_else(String::new, |name| format!(", {at} AS {}", quoted(&normalized(name))));
        let (from, begin) = match first {
            Some(first) => (0, first.to_string()),
            None => (1, format!("array_get({LIST}, 1)")),
        };
        // The type of the value is that of what the lambda makes.
        let probe = format!(
            "SELECT {body} FROM (SELECT {begin} AS {value}, array_get({LIST}, 1) AS {element}{}) AS \"probe\"",
            place_from("1")
        );
        let made = self.with_list(list.clone(), &crate::parse::query(&probe)?, SubqueryKind::Value, level);
        let made = made.map_err(|error| placed(error, || place(body)))?.sql_type();
        let text = format!(
            "WITH RECURSIVE \"fold\"(\"at\", \"value\", \"list\") AS (SELECT {from}, CAST({begin} AS {made}), {LIST} \
             UNION ALL SELECT \"at\" + 1, CAST({body} AS {made}), \"list\" FROM (SELECT \"at\", \"list\", \
             \"value\" AS {value}, array_get(\"list\", \"at\" + 1) AS {element}{} FROM \"fold\" \
             WHERE \"at\" < len(\"list\")) AS \"step\") \
             SELECT \"value\" FROM \"fold\" ORDER BY \"at\" DESC LIMIT 1",
            place_from("\"at\" + 1")
        );
        let query = crate::parse::query(&text)?;
        self.with_list(list, &query, SubqueryKind::Value, level).map_err(|error| placed(error, || place(body)))
    }

    /// An aggregate of a list's elements.
    fn aggregate_of_list(&self, name: &str, list: &Expr, more: &[&Expr], level: &Level<'_>) -> Result<Scalar> {
        let list = self.of_elements(self.scalar(list, level)?, &SqlType::Integer)?;
        let (list, from) = self.elements(&format!("list_{name}"), list, "element", "place")?;
        let more = more.iter().map(|argument| format!(", {argument}")).collect::<String>();
        let (name, passes_nulls) = if name == "any_value" { ("first", true) } else { (name, false) };
        let order = if IN_ORDER.contains(&name) { " ORDER BY \"place\" ASC" } else { "" };
        // Elements of any type are joined as texts.
        let is_joined = matches!(name, "string_agg" | "group_concat" | "listagg");
        let element = list.sql_type().element().cloned().unwrap_or(SqlType::Text);
        let is_text = matches!(element.uncollated(), SqlType::Text | SqlType::Varchar(_) | SqlType::Bytea);
        let as_text = if is_joined && !is_text { "::text" } else { "" };
        let filter = if passes_nulls { " FILTER (WHERE \"element\" IS NOT NULL)" } else { "" };
        let aggregate = format!("{}(\"element\"{as_text}{more}{order}){filter}", quoted(name));
        let query = crate::parse::query(&format!("SELECT {aggregate} FROM {from}"))?;
        self.with_list(list, &query, SubqueryKind::Value, level)
    }

    /// A list with a type, and the part of FROM that gives its elements. Fails with 42804 if it is no list.
    fn elements(&self, what: &str, list: Scalar, element: &str, index: &str) -> Result<(Scalar, String)> {
        let list = self.typed(list)?;
        let (element, index) = (quoted(element), quoted(index));
        let from = match list.sql_type().element() {
            None => {
                let message = format!("{what} takes a list, not {}", list.sql_type());
                return Err(Error::input(message).with_code("42804"));
            }
            // Rows of records have a column for each field; here the record is wanted.
            Some(SqlType::Record(_)) => format!(
                "(SELECT array_get({LIST}, \"at\"::integer) AS {element}, \"at\" AS {index} \
                 FROM generate_series(1, len({LIST})) AS \"series\"(\"at\")) AS \"elements\""
            ),
            Some(_) => format!("\"{ELEMENTS}\"({LIST}) WITH ORDINALITY AS \"elements\"({element}, {index})"),
        };
        Ok((list, from))
    }

    /// A list of which nothing says what its elements are (NULL, `[]`, `[NULL]`) as one of these; others as they are.
    fn of_elements(&self, list: Scalar, element: &SqlType) -> Result<Scalar> {
        match is_undecided(&list) {
            true => self.cast(list, &SqlType::array_of(element.clone()), Way::Implicit),
            false => Ok(list),
        }
    }

    /// A query that reads a list, for a list that may be NULL.
    fn with_list(&self, list: Scalar, query: &Query, kind: SubqueryKind, level: &Level<'_>) -> Result<Scalar> {
        let list = self.evaluated_once(list, level)?;
        // The query around reads it, as if it had named it.
        if let Some(id) = list.as_column() {
            level.is_read.set(true);
            level.read.borrow_mut().insert(id);
        }
        let is_null = list.nullable().then(|| Scalar::IsNull(Box::new(list.clone())));
        self.lists.borrow_mut().push(list);
        let rows = self.one_column(query, level);
        self.lists.borrow_mut().pop();
        let value = subquery_scalar(kind, rows?);
        let sql_type = value.sql_type();
        Ok(match is_null {
            None => value,
            Some(is_null) => Scalar::Case {
                arms: vec![(is_null, Scalar::Constant(Constant::null(sql_type.clone())))],
                otherwise: Some(Box::new(value)),
                sql_type,
            },
        })
    }
}

/// Whether nothing says of which type the elements of a list are.
fn is_undecided(list: &Scalar) -> bool {
    let is_null = |scalar: &Scalar| scalar.as_constant().is_some_and(Constant::is_null);
    match list {
        Scalar::Array { elements, sql_type } => {
            sql_type.element() == Some(&SqlType::Unknown) && elements.iter().all(is_null)
        }
        other => other.sql_type() == SqlType::Unknown && is_null(other),
    }
}

/// What a lambda gives as a condition: numbers are true where they are not 0.
fn as_condition(condition: &Expr) -> Result<Expr> {
    let mut made = crate::parse::expression("CAST(NULL AS boolean)")?;
    if let Expr::Cast { expr, .. } = &mut made {
        **expr = condition.clone();
    }
    Ok(made)
}

/// The arguments, if they are expressions without names.
fn expressions(function: &Function) -> Option<Vec<&Expr>> {
    let expression = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expression)) => Some(expression),
        _ => None,
    };
    written(function).iter().map(expression).collect()
}

/// Whether an argument is a lambda.
pub(super) fn is_lambda(argument: &FunctionArg) -> bool {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => lambda_of(expression).is_some(),
        _ => false,
    }
}

/// The names and the body of a lambda.
pub(super) fn lambda_of(expression: &Expr) -> Option<(Vec<Ident>, &Expr)> {
    let Expr::Function(function) = expression else { return None };
    match expressions(function)?[..] {
        [names, body] if bare_name(function) == "lambda" => Some((names_of(names)?, body)),
        _ => None,
    }
}

fn names_of(expression: &Expr) -> Option<Vec<Ident>> {
    match unnested(expression) {
        Expr::Identifier(name) => Some(vec![name.clone()]),
        Expr::Tuple(names) if matches!(names.len(), 2 | 3) => names.iter().map(|name| names_of(name)?.pop()).collect(),
        _ => None,
    }
}
