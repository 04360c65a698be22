//! Which overload a call means: PostgreSQL's rules (manual, sections 10.2 and 10.3; `parse_func.c`, `parse_oper.c`).
//!
//! 1. An overload whose types are exactly the arguments'. Of an operator, an argument of unknown type first counts as
//!    one of the other argument's type.
//! 2. Otherwise those remain to whose types all arguments become implicitly; of them, in this order, those with the
//!    most exact types, those with the most exact or preferred types, those whose unknown arguments are of one category
//!    (of strings if that is among them) and of its preferred type, and the one that takes the known arguments' type
//!    for the unknown ones as well.
//!
//! What is chosen is completed: `anyelement` and its like get types, `numeric`s keep their digits, and the result's
//! type follows.

use std::fmt::Write;

use diligence_base::{Error, Result};

use super::catalog::DUCKDB;
use super::decimal::{Decimal, numeric_type};
use super::{
    AggregateCall, AggregateOverload, Argument, Body, Overload, Returns, ScalarCall, aggregates, arithmetic, register,
    scalars,
};
use crate::SqlType;
use crate::coercion::{self, CastContext};
use crate::search::SearchKind;
use crate::sql_type::Category;

/// An argument of a call, as far as choosing an overload needs it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its type; [`SqlType::Unknown`] for quoted literals and parameters that nothing has decided.
    pub sql_type: SqlType,
    /// Its text, if it is a literal.
    pub literal: Option<String>,
}

/// The scalar function or operator that a call means. Fails with kind `Input` and 42883 if no overload takes the
/// arguments, 42725 if several do as well, 42804 if an argument that may have any type has none.
pub fn resolve_scalar(name: &str, arguments: &[Candidate]) -> Result<ScalarCall> {
    let mut error = match resolve_given(name, arguments) {
        Err(error) if error.code() == Some("42725") => error,
        other => return other,
    };
    // Arrays of literals are of texts where that decides it; otherwise of what an array beside them has.
    let beside = arguments.iter().filter(|argument| !is_undecided(&argument.sql_type));
    let beside = beside.filter_map(|argument| argument.sql_type.element()).next();
    for element in std::iter::once(&SqlType::Text).chain(beside) {
        let decided = arguments.iter().map(|argument| match &argument.sql_type {
            SqlType::Array(_) if is_undecided(&argument.sql_type) => {
                Candidate { sql_type: array_decided(&argument.sql_type, element), literal: None }
            }
            _ => argument.clone(),
        });
        match resolve_given(name, &decided.collect::<Vec<_>>()) {
            Ok(call) => return Ok(call),
            // As texts there may be no such function.
            Err(other) if *element == SqlType::Text => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

/// An array of which nothing says what is in it, with these elements.
fn array_decided(sql_type: &SqlType, element: &SqlType) -> SqlType {
    match sql_type {
        SqlType::Array(inner) => SqlType::array_of(array_decided(inner, element)),
        _ => element.clone(),
    }
}

/// The same, with the types of the arguments as they are.
fn resolve_given(name: &str, arguments: &[Candidate]) -> Result<ScalarCall> {
    let overload = choose(name, scalars(name), arguments).or_else(|error| {
        // What PostgreSQL has a function of the name for, but not of these types.
        let others = scalars(&format!("{DUCKDB}{name}"));
        if others.is_empty() { Err(error) } else { choose(name, others, arguments).map_err(|_| error) }
    })?;
    let shape = shape_of(overload, arguments.len());
    let mut types = completed(name, &shape, arguments)?;
    match overload.body {
        Body::Special(special) => arithmetic::fit(special, &mut types),
        Body::Kernel(_) => arithmetic::fit_floats(overload.name, &mut types),
        Body::DataFusion(_) => {}
    }
    let literals: Vec<Option<String>> = arguments.iter().map(|argument| argument.literal.clone()).collect();
    let returns = match (&overload.body, &overload.returns) {
        (Body::Special(special), Returns::Type(SqlType::Numeric(_))) => arithmetic::numeric_result(*special, &types),
        _ => returned(&overload.returns, &shape, &types, &literals)?,
    };
    if overload.takes_zone {
        types.push(SqlType::Text);
    }
    if overload.takes_configuration {
        types.push(SqlType::Search(SearchKind::Configuration));
    }
    Ok(ScalarCall { overload, arguments: types, returns })
}

/// The aggregate that a call means. Fails like [`resolve_scalar`].
pub fn resolve_aggregate(name: &str, arguments: &[Candidate]) -> Result<AggregateCall> {
    let overload = choose(name, aggregates(name), arguments)?;
    let shape = shape_of(overload, arguments.len());
    let types = completed(name, &shape, arguments)?;
    let literals: Vec<Option<String>> = arguments.iter().map(|argument| argument.literal.clone()).collect();
    let returns = returned(&overload.returns, &shape, &types, &literals)?;
    Ok(AggregateCall { overload, arguments: types, returns })
}

/// Which of several routines of a name arguments of these types mean: its place. Each routine has as many parameters as
/// there are arguments. `None` if none takes them without a cast that the statement would have to say. Fails with kind
/// `Input` and 42725 if several do as well.
pub fn choose_routine(name: &str, routines: &[Vec<Argument>], arguments: &[SqlType]) -> Result<Option<usize>> {
    let types: Vec<&SqlType> = arguments.iter().collect();
    if let Some(found) = routines.iter().position(|shape| exact(shape, &types)) {
        return Ok(Some(found));
    }
    let fits = |shape: &[Argument]| {
        shape.iter().zip(&types).all(|(argument, sql_type)| becomes(sql_type, argument)) && agree(shape, &types)
    };
    let fitting: Vec<usize> = (0..routines.len()).filter(|index| fits(&routines[*index])).collect();
    match best(routines, fitting, &types) {
        Chosen::One(index) => Ok(Some(index)),
        Chosen::None => Ok(None),
        Chosen::Several => Err(ambiguous(name, &types)),
    }
}

/// What choosing needs of an overload.
trait Takes {
    fn fixed(&self) -> &[Argument];
    fn optional(&self) -> usize;
    fn variadic(&self) -> Option<&Argument>;
}

impl Takes for Overload {
    fn fixed(&self) -> &[Argument] {
        &self.arguments
    }

    fn optional(&self) -> usize {
        self.optional
    }

    fn variadic(&self) -> Option<&Argument> {
        self.variadic.as_ref()
    }
}

impl Takes for AggregateOverload {
    fn fixed(&self) -> &[Argument] {
        &self.arguments
    }

    fn optional(&self) -> usize {
        0
    }

    fn variadic(&self) -> Option<&Argument> {
        self.variadic.as_ref()
    }
}

/// What each of so many arguments is for an overload. Empty if it does not take so many.
fn shape_of(overload: &impl Takes, count: usize) -> Vec<Argument> {
    let fixed = overload.fixed();
    match overload.variadic() {
        Some(variadic) if count >= fixed.len() => {
            fixed.iter().chain(std::iter::repeat_n(variadic, count - fixed.len())).cloned().collect()
        }
        Some(_) => vec![],
        None => fixed.iter().take(count).cloned().collect(),
    }
}

fn takes_count(overload: &impl Takes, count: usize) -> bool {
    let fixed = overload.fixed().len();
    match overload.variadic() {
        // PostgreSQL wants at least one argument for VARIADIC, too.
        Some(_) => count > fixed,
        None => count <= fixed && count >= fixed - overload.optional(),
    }
}

fn is_operator(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

fn choose<T: Takes>(name: &str, overloads: &'static [T], arguments: &[Candidate]) -> Result<&'static T> {
    let types: Vec<&SqlType> = arguments.iter().map(|argument| &argument.sql_type).collect();
    let counted: Vec<&T> = overloads.iter().filter(|overload| takes_count(*overload, types.len())).collect();
    let shapes: Vec<Vec<Argument>> = counted.iter().map(|overload| shape_of(*overload, types.len())).collect();
    let is_exact = |types: &[&SqlType]| shapes.iter().position(|shape| exact(shape, types));
    if let Some(found) = is_exact(&types) {
        return Ok(counted[found]);
    }
    if let [left, right] = types[..]
        && is_operator(name)
        && (*left == SqlType::Unknown) != (*right == SqlType::Unknown)
    {
        let known = if *left == SqlType::Unknown { right } else { left };
        if let Some(found) = is_exact(&[known, known]) {
            return Ok(counted[found]);
        }
    }
    let fits = |shape: &Vec<Argument>| {
        shape.iter().zip(&types).all(|(argument, sql_type)| becomes(sql_type, argument)) && agree(shape, &types)
    };
    let fitting: Vec<usize> = (0..shapes.len()).filter(|index| fits(&shapes[*index])).collect();
    match best(&shapes, fitting, &types) {
        Chosen::One(index) => Ok(counted[index]),
        Chosen::None => Err(unknown_function(name, overloads, &types)),
        Chosen::Several => Err(ambiguous(name, &types)),
    }
}

fn exact(shape: &[Argument], types: &[&SqlType]) -> bool {
    shape.len() == types.len()
        && shape.iter().zip(types).all(|(argument, sql_type)| match argument {
            Argument::Exact(declared) => declared.is_same(sql_type),
            _ => false,
        })
}

/// Whether a value of the type is taken without a cast that the statement would have to say.
fn becomes(from: &SqlType, to: &Argument) -> bool {
    match to {
        Argument::Exact(to) => {
            *from == SqlType::Unknown || coercion::cast_context(from, to) == Some(CastContext::Implicit)
        }
        Argument::AnyElement | Argument::AnyCompatible | Argument::Any => true,
        Argument::AnyArray | Argument::AnyCompatibleArray => matches!(from, SqlType::Unknown | SqlType::Array(_)),
        Argument::AnyNonArray => !matches!(from, SqlType::Array(_)),
        Argument::AnyRecord => matches!(from, SqlType::Record(_)),
        Argument::AnyMap => matches!(from, SqlType::Map(_)),
        Argument::AnyEnum => matches!(from, SqlType::Unknown | SqlType::Enum(_)),
    }
}

/// Whether the arguments that must be of one type, or of types with a common one, are.
fn agree(shape: &[Argument], types: &[&SqlType]) -> bool {
    let (mut same, mut compatible) = (Vec::new(), Vec::new());
    for (argument, sql_type) in shape.iter().zip(types).filter(|(_, sql_type)| !is_undecided(sql_type)) {
        match (argument, sql_type) {
            (Argument::AnyElement | Argument::AnyEnum, sql_type) => same.push(*sql_type),
            (Argument::AnyArray, SqlType::Array(element)) => same.push(element.as_ref()),
            (Argument::AnyCompatible, sql_type) => compatible.push((**sql_type).clone()),
            (Argument::AnyCompatibleArray, SqlType::Array(element)) => compatible.push(element.as_ref().clone()),
            _ => {}
        }
    }
    same.windows(2).all(|pair| pair[0].is_same(pair[1]))
        && (compatible.len() < 2 || coercion::common_type(&compatible).is_some())
}

/// Whether nothing says yet what the values are: a literal in quotes, NULL, an array of these, or `[]`.
fn is_undecided(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Unknown => true,
        SqlType::Array(element) => is_undecided(element),
        _ => false,
    }
}

enum Chosen {
    None,
    One(usize),
    Several,
}

/// PostgreSQL's `func_select_candidate`.
fn best(shapes: &[Vec<Argument>], mut left: Vec<usize>, types: &[&SqlType]) -> Chosen {
    let done = |left: &[usize]| match left {
        [] => Some(Chosen::None),
        [one] => Some(Chosen::One(*one)),
        _ => None,
    };
    if let Some(chosen) = done(&left) {
        return chosen;
    }
    let is_same = |argument: &Argument, sql_type: &SqlType| match argument {
        Argument::Exact(declared) => declared.is_same(sql_type),
        _ => false,
    };
    let is_known = |sql_type: &SqlType| *sql_type != SqlType::Unknown;
    let keep_most = |left: &mut Vec<usize>, counts: &dyn Fn(&Argument, &SqlType) -> bool| {
        let score = |index: usize| {
            shapes[index]
                .iter()
                .zip(types)
                .filter(|(arg, sql_type)| is_known(sql_type) && counts(arg, sql_type))
                .count()
        };
        let most = left.iter().map(|index| score(*index)).max().unwrap_or(0);
        left.retain(|index| score(*index) == most);
    };
    keep_most(&mut left, &|argument, sql_type| is_same(argument, sql_type));
    if let Some(chosen) = done(&left) {
        return chosen;
    }
    keep_most(&mut left, &|argument, sql_type| {
        is_same(argument, sql_type)
            || matches!(argument, Argument::Exact(to) if to.is_preferred() && to.category() == sql_type.category())
    });
    if let Some(chosen) = done(&left) {
        return chosen;
    }
    let unknown: Vec<usize> = (0..types.len()).filter(|index| !is_known(types[*index])).collect();
    if unknown.is_empty() {
        return Chosen::Several;
    }
    if let Some(kept) = by_category(shapes, &left, &unknown) {
        left = kept;
        if let Some(chosen) = done(&left) {
            return chosen;
        }
    }
    // All known arguments of one type: the unknown ones count as of that type, too.
    let mut known = types.iter().filter(|sql_type| is_known(sql_type));
    if let Some(first) = known.next()
        && known.all(|other| other.is_same(first))
    {
        let alike: Vec<&SqlType> = vec![first; types.len()];
        let takes =
            |shape: &[Argument]| unknown.iter().all(|place| becomes(first, &shape[*place])) && agree(shape, &alike);
        let fitting: Vec<usize> = left.iter().copied().filter(|index| takes(&shapes[*index])).collect();
        if let [one] = fitting[..] {
            return Chosen::One(one);
        }
    }
    Chosen::Several
}

/// The candidates that remain when unknown arguments have one category, or `None` if they have several.
fn by_category(shapes: &[Vec<Argument>], left: &[usize], unknown: &[usize]) -> Option<Vec<usize>> {
    let facts = |argument: &Argument| match argument {
        Argument::Exact(declared) => (Some(declared.category()), declared.is_preferred()),
        _ => (None, false),
    };
    let mut wanted = Vec::new();
    for place in unknown {
        let found: Vec<_> = left.iter().map(|index| facts(&shapes[*index][*place])).collect();
        let has_strings = found.iter().any(|(category, _)| *category == Some(Category::String));
        let category = match has_strings {
            true => Some(Category::String),
            false => found.first()?.0,
        };
        if !has_strings && found.iter().any(|(other, _)| *other != category) {
            return None;
        }
        let is_preferred = found.iter().any(|(other, preferred)| *other == category && *preferred);
        wanted.push((*place, category, is_preferred));
    }
    let kept = left.iter().copied().filter(|index| {
        wanted.iter().all(|(place, category, wants_preferred)| {
            let (found, is_preferred) = facts(&shapes[*index][*place]);
            found == *category && (is_preferred || !wants_preferred)
        })
    });
    let kept: Vec<usize> = kept.collect();
    (!kept.is_empty()).then_some(kept)
}

/// The types to which the arguments are cast.
fn completed(name: &str, shape: &[Argument], arguments: &[Candidate]) -> Result<Vec<SqlType>> {
    let elements = || {
        shape.iter().zip(arguments).filter_map(|(argument, given)| match (argument, &given.sql_type) {
            (_, undecided) if is_undecided(undecided) => None,
            (Argument::AnyElement | Argument::AnyCompatible | Argument::AnyEnum, sql_type) => Some(sql_type.clone()),
            (Argument::AnyArray | Argument::AnyCompatibleArray, SqlType::Array(element)) => {
                Some(element.as_ref().clone())
            }
            _ => None,
        })
    };
    let is_compatible = shape.iter().any(|arg| matches!(arg, Argument::AnyCompatible | Argument::AnyCompatibleArray));
    let is_polymorphic = is_compatible
        || shape.iter().any(|arg| matches!(arg, Argument::AnyElement | Argument::AnyArray | Argument::AnyEnum));
    let types = || arguments.iter().map(|argument| &argument.sql_type).collect::<Vec<_>>();
    // Arrays of which nothing says what is in them: that is for the caller to decide.
    let has_arrays = arguments.iter().any(|argument| matches!(argument.sql_type, SqlType::Array(_)));
    let element = match is_polymorphic {
        false => SqlType::Unknown,
        true if is_compatible => {
            let all: Vec<SqlType> = elements().collect();
            match all.is_empty() && shape.contains(&Argument::AnyCompatibleArray) {
                true if has_arrays => SqlType::Unknown,
                true => return Err(undetermined("anycompatiblearray")),
                // Nothing but literals: they are texts.
                false if all.is_empty() => SqlType::Text,
                false => {
                    coercion::common_type(&all).ok_or_else(|| unknown_function::<Overload>(name, &[], &types()))?
                }
            }
        }
        true => {
            let mut all = elements();
            let first = match all.next() {
                Some(first) => first,
                None if shape.contains(&Argument::AnyArray) && has_arrays => SqlType::Unknown,
                None if shape.contains(&Argument::AnyArray) => return Err(undetermined("anyarray")),
                None if shape.contains(&Argument::AnyEnum) => return Err(undetermined("anyenum")),
                None => SqlType::Text,
            };
            match all.find(|other| !other.is_same(&first)) {
                None if elements().all(|other| other == first) => first,
                // Digits of several numbers, lengths of several texts.
                None => coercion::common_type(&elements().collect::<Vec<_>>()).unwrap_or(first.without_modifier()),
                Some(_) => return Err(unknown_function::<Overload>(name, scalars(name), &types())),
            }
        }
    };
    let completed = shape.iter().zip(arguments).map(|(argument, given)| match argument {
        Argument::AnyElement | Argument::AnyCompatible | Argument::AnyEnum => element.clone(),
        Argument::AnyArray | Argument::AnyCompatibleArray => SqlType::array_of(element.clone()),
        Argument::Any | Argument::AnyNonArray | Argument::AnyRecord | Argument::AnyMap => match &given.sql_type {
            SqlType::Unknown => SqlType::Text,
            known => known.clone(),
        },
        Argument::Exact(SqlType::Numeric(_)) => numeric_of(given),
        Argument::Exact(declared) if declared.is_same(&given.sql_type) => match declared {
            // Texts are held alike, however many characters they may have; only the type's name is another.
            SqlType::Char(_) => given.sql_type.clone(),
            _ => declared.clone(),
        },
        Argument::Exact(declared) => declared.clone(),
    });
    Ok(completed.collect())
}

fn undetermined(pseudo: &str) -> Error {
    Error::input(format!("could not determine polymorphic type {pseudo} because input has type unknown"))
        .with_code("42804")
}

/// The `numeric` that an argument becomes, with the digits that its own type can have.
fn numeric_of(given: &Candidate) -> SqlType {
    match (&given.sql_type, &given.literal) {
        (SqlType::Numeric(_), _) => given.sql_type.clone(),
        (SqlType::SmallInt, _) => numeric_type(5, 0),
        (SqlType::Integer, Some(literal)) | (SqlType::BigInt, Some(literal)) => {
            numeric_type(i32::try_from(literal.trim_start_matches('-').len()).unwrap_or(19).clamp(1, 19), 0)
        }
        (SqlType::Integer, None) => numeric_type(10, 0),
        (SqlType::BigInt, None) => numeric_type(19, 0),
        (SqlType::Unknown, Some(literal)) => match Decimal::parse(literal) {
            Some(value) => numeric_type(value.digits().max(value.scale + 1), value.scale),
            None => SqlType::NUMERIC,
        },
        _ => SqlType::NUMERIC,
    }
}

fn returned(returns: &Returns, shape: &[Argument], types: &[SqlType], literals: &[Option<String>]) -> Result<SqlType> {
    let element = || {
        shape.iter().zip(types).find_map(|(argument, sql_type)| match argument {
            Argument::AnyElement | Argument::AnyCompatible | Argument::AnyEnum => Some(sql_type.clone()),
            Argument::AnyArray | Argument::AnyCompatibleArray => sql_type.element().cloned(),
            _ => None,
        })
    };
    match returns {
        Returns::Type(sql_type) => Ok(sql_type.clone()),
        Returns::Element => element().ok_or_else(|| undetermined("anyelement")),
        Returns::Array => element().map(SqlType::array_of).ok_or_else(|| undetermined("anyarray")),
        Returns::Of(function) => function(types, literals),
    }
}

fn listed(types: &[&SqlType]) -> String {
    let names: Vec<String> = types.iter().map(|sql_type| sql_type.without_modifier().to_string()).collect();
    names.join(", ")
}

fn ambiguous(name: &str, types: &[&SqlType]) -> Error {
    let message = match (is_operator(name), types) {
        (true, [left, right]) => format!("operator is not unique: {} {name} {}", listed(&[left]), listed(&[right])),
        (true, [only]) => format!("operator is not unique: {name} {}", listed(&[only])),
        _ => format!("function {name}({}) is not unique", listed(types)),
    };
    Error::input(message).with_code("42725").with_hint("could not choose a best candidate; add explicit type casts")
}

/// The error for a call that no overload takes. Its hint says what there is.
fn unknown_function<T: Takes>(name: &str, overloads: &[T], types: &[&SqlType]) -> Error {
    let message = match (is_operator(name), types) {
        (true, [left, right]) => format!("operator does not exist: {} {name} {}", listed(&[left]), listed(&[right])),
        (true, [only]) => format!("operator does not exist: {name} {}", listed(&[only])),
        _ => format!("function {name}({}) does not exist", listed(types)),
    };
    let hint = match (overloads, is_operator(name)) {
        (_, true) => "no operator matches the given types; add explicit type casts".to_owned(),
        ([], false) => match nearest_function(name) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "no function has this name".to_owned(),
        },
        (_, false) => {
            let shown: Vec<String> = overloads.iter().take(6).map(|overload| shown(name, overload)).collect();
            format!("there is {}; add explicit type casts", shown.join(", "))
        }
    };
    Error::input(message).with_code("42883").with_hint(hint)
}

fn shown(name: &str, overload: &impl Takes) -> String {
    let word = |argument: &Argument| match argument {
        Argument::Exact(sql_type) => sql_type.to_string(),
        Argument::AnyElement | Argument::AnyCompatible | Argument::Any | Argument::AnyNonArray => "any".to_owned(),
        Argument::AnyArray | Argument::AnyCompatibleArray => "any[]".to_owned(),
        Argument::AnyRecord => "record".to_owned(),
        Argument::AnyMap => "map".to_owned(),
        Argument::AnyEnum => "anyenum".to_owned(),
    };
    let mut words: Vec<String> = overload.fixed().iter().map(word).collect();
    words.extend(overload.variadic().map(|argument| format!("{}, ...", word(argument))));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{name}({})", words.join(", "));
    text
}

/// The name that takes the fewest changes of a letter to become this one, if few enough.
pub fn nearest_function(name: &str) -> Option<&'static str> {
    let most = name.len() / 3;
    let near = register::names().filter(|known| !is_operator(known) && known.len().abs_diff(name.len()) <= most);
    near.map(|known| (distance(name, known), known)).filter(|(far, _)| *far <= most).min().map(|(_, known)| known)
}

/// Levenshtein's distance of two names.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (place, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
