//! `COLUMNS(…)` and its kin: an item of the SELECT list, or a condition, once for each column that is meant.
//!
//! `f(*COLUMNS(…))` has all of them as arguments instead.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    RenameSelectItem, Value, VisitorMut, WildcardAdditionalOptions,
};

use super::lists::lambda_of;
use super::scope::Level;
use super::select_list::is_like;
use super::syntax::{bare_name, written};
use super::turned::{UNPACKED, is_columns, value_name};
use super::{Binder, normalized, place, placed};
use crate::quoting::{literal, quoted};
use crate::walking::{each_expression, walk_mut};

/// A call that is `#1`: the column with a number.
const AT: &str = "columns at";

/// A column that is meant, and what stands for it.
type Chosen = (String, Expr);

impl Binder<'_> {
    /// The items that an item of the SELECT list with `COLUMNS(…)` stands for, each with the column; `None` without
    /// one. An item that has all columns as arguments is one, without a column.
    pub(super) fn of_columns(&self, item: &Expr, level: &Level<'_>) -> Result<Option<Vec<(Option<String>, Expr)>>> {
        let Some(call) = call_of(item) else { return Ok(None) };
        let Expr::Function(function) = &call else { return Err(Error::bug("COLUMNS is a call")) };
        let chosen = self.meant(&call, level).map_err(|error| placed(error, || place(&call)))?;
        if bare_name(function) == UNPACKED {
            let mut expression = item.clone();
            let done = walk_mut(&mut expression, &mut Unpack { call: &call, chosen: &chosen });
            debug_assert!(done.is_continue());
            if expression == *item {
                let error = Error::input("*COLUMNS(…) stands among the arguments of a function or in a list");
                let error = error.with_code("42601").with_hint("COLUMNS(…) stands anywhere, once for each column");
                return Err(placed(error, || place(&call)));
            }
            let further = self.of_columns(&expression, level)?;
            return Ok(Some(further.unwrap_or_else(|| vec![(None, expression)])));
        }
        let expanded = chosen.into_iter().map(|(name, column)| {
            let mut expression = item.clone();
            let done = walk_mut(&mut expression, &mut Put { call: &call, column: &column });
            debug_assert!(done.is_continue());
            (Some(name), expression)
        });
        Ok(Some(expanded.collect()))
    }

    /// A condition with `COLUMNS(…)`: it is to be true for each column.
    pub(super) fn condition_of_columns(&self, condition: &Expr, level: &Level<'_>) -> Result<Option<Expr>> {
        let Some(each) = self.of_columns(condition, level)? else { return Ok(None) };
        let all = each.into_iter().map(|(_, expression)| Expr::Nested(Box::new(expression)));
        Ok(all.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        }))
    }

    /// The name that an alias gives to a column of `COLUMNS('pattern')`: `\1` in it is what the first group of the
    /// pattern has found in the column's name, and `\0` the whole. Fails with 2201B as the pattern does.
    pub(super) fn alias_of_columns(&self, alias: &str, column: Option<&str>, item: &Expr) -> Result<String> {
        let (Some(column), true) = (column, alias.contains('\\')) else { return Ok(alias.to_owned()) };
        let pattern = match call_of(item) {
            Some(Expr::Function(function)) => match (bare_name(&function).as_str(), written(&function)) {
                ("columns", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))]) => {
                    value.value.clone().into_string()
                }
                ("columns similar", [.., FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))]) => {
                    value.value.clone().into_string().map(|pattern| format!("^(?:{pattern})$"))
                }
                _ => None,
            },
            _ => None,
        };
        let groups = match pattern {
            Some(pattern) => diligence_types::functions::groups_of_match(column, &pattern)?.unwrap_or_default(),
            None => vec![column.to_owned()],
        };
        let (mut name, mut rest) = (String::new(), alias.chars().peekable());
        while let Some(letter) = rest.next() {
            let group = match letter {
                '\\' => rest.peek().and_then(|digit| digit.to_digit(10)),
                _ => None,
            };
            match group {
                Some(group) => {
                    rest.next();
                    name.push_str(groups.get(group as usize).map_or("", String::as_str));
                }
                None => name.push(letter),
            }
        }
        Ok(name)
    }

    fn meant(&self, call: &Expr, level: &Level<'_>) -> Result<Vec<Chosen>> {
        let Expr::Function(function) = call else { return Err(Error::bug("COLUMNS is a call")) };
        if let [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)), pattern @ ..] = written(function) {
            let (pattern, options) = match pattern {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => {
                    (value.value.clone().into_string(), None)
                }
                [FunctionArg::Unnamed(FunctionArgExpr::WildcardWithOptions(options))] => (None, Some(options)),
                _ => (None, None),
            };
            let names = table.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<_>>();
            let own = match level.names.source(&names) {
                Some(source) => Some(source.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>()),
                None => self.names_of_fields(&names, level),
            };
            let own = own
                .ok_or_else(|| Error::input(format!("no table or alias is named '{table}' here")).with_code("42P01"))?;
            let of_table = |name: &String| {
                let parts = names.iter().cloned().chain([Ident::with_quote('"', name)]);
                (name.clone(), Expr::CompoundIdentifier(parts.collect()))
            };
            // `t.* EXCLUDE (a)`
            if let Some(options) = options {
                let chosen = starred(options, &own)?.into_iter().map(|(name, column)| match column {
                    Expr::Identifier(own) => (name, of_table(&own.value).1),
                    other => (name, other),
                });
                let chosen = chosen.collect::<Vec<_>>();
                return match chosen.is_empty() {
                    true => Err(Error::input(format!("no column of '{table}' is left")).with_code("42703")),
                    false => Ok(chosen),
                };
            }
            let mut chosen = Vec::new();
            for name in &own {
                // `t.* LIKE 'p'`
                let fits = match &pattern {
                    Some(pattern) => fits(&bare_name(function), name, pattern)?,
                    None => true,
                };
                chosen.extend(fits.then(|| of_table(name)));
            }
            return match chosen.is_empty() {
                true => Err(Error::input(format!("no column of '{table}' fits")).with_code("42703")),
                false => Ok(chosen),
            };
        }
        let names = level.names.columns().map(|column| column.name.clone()).collect::<Vec<_>>();
        self.chosen_columns(call, &names)
    }

    /// The names of the fields of a struct that is a column: `COLUMNS(s.*)`. `None` of anything else.
    fn names_of_fields(&self, names: &[Ident], level: &Level<'_>) -> Option<Vec<String>> {
        let column = match names {
            [name] => Expr::Identifier(name.clone()),
            names => Expr::CompoundIdentifier(names.to_vec()),
        };
        match self.scalar(&column, level).ok()?.sql_type() {
            SqlType::Record(fields) => Some(fields.iter().map(|field| field.name.clone()).collect()),
            _ => None,
        }
    }

    /// The columns of these that `COLUMNS(…)` means: of a star, of a pattern, of a list of names, or of a lambda. Fails
    /// with 42703 if there is none.
    pub(super) fn chosen_columns(&self, call: &Expr, names: &[String]) -> Result<Vec<Chosen>> {
        let Expr::Function(function) = call else { return Err(Error::bug("COLUMNS is a call")) };
        let wrong = || Error::input("COLUMNS takes *, a pattern, a list of names or a lambda").with_code("42883");
        // `* EXCLUDE (a) LIKE 'p'`
        if let [
            FunctionArg::Unnamed(FunctionArgExpr::WildcardWithOptions(options)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))),
        ] = written(function)
        {
            let pattern = value.value.clone().into_string().ok_or_else(wrong)?;
            let mut chosen = Vec::new();
            for column in starred(options, names)? {
                if fits(&bare_name(function), &column.0, &pattern)? {
                    chosen.push(column);
                }
            }
            return match chosen.is_empty() {
                true => Err(Error::input(format!("no column fits {call}")).with_code("42703")),
                false => Ok(chosen),
            };
        }
        let [FunctionArg::Unnamed(argument)] = written(function) else { return Err(wrong()) };
        let plain = |name: &String| (name.clone(), Expr::Identifier(Ident::with_quote('"', name)));
        let chosen = match argument {
            FunctionArgExpr::Wildcard => names.iter().map(plain).collect::<Vec<_>>(),
            FunctionArgExpr::WildcardWithOptions(options) => starred(options, names)?,
            FunctionArgExpr::Expr(Expr::Value(value)) => {
                if let (Value::Number(digits, _), AT) = (&value.value, bare_name(function).as_str()) {
                    let place = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                    let name = place.and_then(|place| names.get(place));
                    let none = || {
                        let message = format!("there is no column #{digits}: FROM has {} columns", names.len());
                        Error::input(message).with_code("42703")
                    };
                    return Ok(vec![plain(name.ok_or_else(none)?)]);
                }
                let Value::SingleQuotedString(pattern) = &value.value else { return Err(wrong()) };
                let mut chosen = Vec::new();
                for name in names {
                    if fits(&bare_name(function), name, pattern)? {
                        chosen.push(plain(name));
                    }
                }
                chosen
            }
            FunctionArgExpr::Expr(Expr::Array(list)) => list.elem.iter().map(|name| plain(&value_name(name))).collect(),
            // `[name FOR name IN (*) IF …]`
            FunctionArgExpr::Expr(comprehension) if comprehended(comprehension).is_some() => {
                let (argument, condition) = comprehended(comprehension).ok_or_else(wrong)?;
                self.chosen_by(argument, condition, names)?.iter().map(plain).collect()
            }
            FunctionArgExpr::Expr(lambda) => match lambda_of(lambda) {
                Some((arguments, body)) if arguments.len() == 1 => {
                    self.chosen_by(&arguments[0], body, names)?.iter().map(plain).collect()
                }
                _ => return Err(wrong()),
            },
            FunctionArgExpr::QualifiedWildcard(_) => return Err(wrong()),
        };
        match chosen.is_empty() {
            true => Err(Error::input(format!("no column fits {call}")).with_code("42703")),
            false => Ok(chosen),
        }
    }

    /// The names for which a lambda is true.
    fn chosen_by(&self, argument: &Ident, body: &Expr, names: &[String]) -> Result<Vec<String>> {
        let rows = names.iter().enumerate().map(|(place, name)| format!("({}, {place})", literal(name)));
        let rows = rows.collect::<Vec<_>>().join(", ");
        let name = quoted(&normalized(argument));
        let mut body = body.clone();
        let done = walk_mut(&mut body, &mut RegularExpressions);
        debug_assert!(done.is_continue());
        let text = format!(
            "SELECT {name}::text FROM (VALUES {rows}) AS \"columns\"({name}, \"place of the column\") WHERE ({body}) \
             ORDER BY \"place of the column\" ASC"
        );
        let rows = self.context.texts_of(&crate::parse::query(&text)?)?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }
}

/// The columns of `*` with what stands behind it.
fn starred(options: &WildcardAdditionalOptions, names: &[String]) -> Result<Vec<Chosen>> {
    let mut gone = Vec::<&Ident>::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => gone.extend(name.0.last().and_then(|part| part.as_ident())),
        Some(ExcludeSelectItem::Multiple(all)) => gone.extend(all.iter().filter_map(|name| name.0.last()?.as_ident())),
        None => {}
    }
    if let Some(except) = &options.opt_except {
        gone.push(&except.first_element);
        gone.extend(&except.additional_elements);
    }
    let is = |written: &Ident, name: &str| normalized(written) == name || written.value.eq_ignore_ascii_case(name);
    let replaced = options.opt_replace.iter().flat_map(|replaced| &replaced.items).collect::<Vec<_>>();
    let chosen = names.iter().filter(|name| !gone.iter().any(|gone| is(gone, name))).map(|name| {
        let other = replaced.iter().find(|element| is(&element.column_name, name));
        let column = match other {
            Some(element) => Expr::Nested(Box::new(element.expr.clone())),
            None => Expr::Identifier(Ident::with_quote('"', name)),
        };
        let renamed = match &options.opt_rename {
            Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
            Some(RenameSelectItem::Multiple(several)) => several,
            None => &[],
        };
        let other = renamed.iter().find(|one| is(&one.ident, name));
        (other.map_or_else(|| name.clone(), |one| normalized(&one.alias)), column)
    });
    Ok(chosen.collect())
}

/// Whether a column's name fits the pattern of a call of this name.
fn fits(function: &str, name: &str, pattern: &str) -> Result<bool> {
    let kind = function.strip_prefix("columns ").unwrap_or_default();
    let (negated, kind) = kind.strip_prefix("not ").map_or((false, kind), |kind| (true, kind));
    let fits = match kind {
        "like" => is_like(name, pattern),
        "ilike" => is_like(&name.to_lowercase(), &pattern.to_lowercase()),
        "similar" => diligence_types::functions::is_match(name, &format!("^(?:{pattern})$"))?,
        "glob" => is_like(name, &pattern.replace('*', "%").replace('?', "_")),
        _ => diligence_types::functions::is_match(name, pattern)?,
    };
    Ok(fits != negated)
}

/// The first `COLUMNS(…)` of an expression; one that is unpacked comes first.
fn call_of(item: &Expr) -> Option<Expr> {
    let mut call = None;
    let found = each_expression(item, |part| match part {
        Expr::Function(function) if is_columns(&bare_name(function)) => {
            let is_unpacked = bare_name(function) == UNPACKED;
            if call.is_none() || is_unpacked {
                call = Some(part.clone());
            }
            if is_unpacked { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    let _ = found;
    call
}

/// In a lambda of COLUMNS, SIMILAR TO takes a regular expression, as `* SIMILAR TO` does.
struct RegularExpressions;

impl VisitorMut for RegularExpressions {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::SimilarTo { negated, expr, pattern, escape_char: None } = &*expression {
            let not = if *negated { "NOT " } else { "" };
            let call = crate::parse::expression(&format!("({not}regexp_full_match({expr}, {pattern}))"));
            // What does not read as a call stays what it is.
            if let Ok(call) = call {
                *expression = call;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Puts a column where `COLUMNS(…)` stands.
struct Put<'p> {
    call: &'p Expr,
    column: &'p Expr,
}

impl VisitorMut for Put<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        if expression == self.call {
            *expression = self.column.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Puts all columns where `*COLUMNS(…)` stands among arguments or elements.
struct Unpack<'p> {
    call: &'p Expr,
    chosen: &'p [Chosen],
}

impl VisitorMut for Unpack<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        match expression {
            Expr::Array(array) => {
                let elements =
                    std::mem::take(&mut array.elem).into_iter().flat_map(|element| match element == *self.call {
                        true => self.chosen.iter().map(|(_, column)| column.clone()).collect(),
                        false => vec![element],
                    });
                array.elem = elements.collect();
            }
            Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
                let has_names = name.0.last().and_then(|part| part.as_ident());
                let has_names = has_names.is_some_and(|name| name.value.eq_ignore_ascii_case("struct_pack"));
                let is_call = |argument: &FunctionArg| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => argument == self.call,
                    _ => false,
                };
                let arguments = std::mem::take(&mut list.args).into_iter().flat_map(|argument| {
                    if !is_call(&argument) {
                        return vec![argument];
                    }
                    let own = |(name, column): &Chosen| match has_names {
                        true => FunctionArg::Named {
                            name: Ident::with_quote('"', name),
                            arg: FunctionArgExpr::Expr(column.clone()),
                            operator: sqlparser::ast::FunctionArgOperator::Assignment,
                        },
                        false => FunctionArg::Unnamed(FunctionArgExpr::Expr(column.clone())),
                    };
                    self.chosen.iter().map(own).collect()
                });
                list.args = arguments.collect();
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name and the condition of a comprehension that chooses among names of columns, as it comes from the parser:
/// `"list comprehension"(c, (c), (*), condition)`.
fn comprehended(expression: &Expr) -> Option<(&Ident, &Expr)> {
    let Expr::Function(function) = expression else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(body))),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Nested(name))),
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(condition)),
    ] = written(function)
    else {
        return None;
    };
    let is_one = bare_name(function) == "list comprehension";
    match name.as_ref() {
        Expr::Identifier(name) if is_one && body.value == name.value => Some((name, condition)),
        _ => None,
    }
}
