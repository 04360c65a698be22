//! Calls, casts and comparisons: overloads are chosen, arguments cast, and literals get their types.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::coercion::{self, CastContext};
use diligence_types::functions::{Body, Candidate, ScalarCall, Special, Stability, path_text, resolve_scalar};
use diligence_types::record_type::RecordType;
use diligence_types::search::SearchKind;
use diligence_types::sql_type::{Category, RecordField};

use super::Binder;
use super::collations::{relabelled, unlabelled};
use super::common_types::{common_of_values, has_unknown, with_room};
use super::fields::{column_targets, with_nulls_of};
use super::syntax::sign_comparison;
use super::targets::Target;
use crate::algebra::{Comparison, Constant, Relation, Scalar};

/// PostgreSQL's functions of arrays of any type.
const OF_ANY_ARRAYS: [&str; 8] = [
    "||",
    "array_append",
    "array_cat",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
];

/// How a value gets into another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Without being asked for: it is known already that it may.
    Implicit,
    /// Where it is stored.
    Assignment,
    /// CAST.
    Explicit,
    /// TRY_CAST.
    Try,
}

impl Way {
    fn is_explicit(self) -> bool {
        matches!(self, Self::Explicit | Self::Try)
    }
}

impl Binder<'_> {
    /// The value with a type: `text`, if it has none, and so its elements and fields.
    pub(super) fn typed(&self, scalar: Scalar) -> Result<Scalar> {
        match scalar.sql_type() {
            sql_type if has_unknown(&sql_type) => self.cast(scalar, &of_texts(&sql_type), Way::Implicit),
            _ => Ok(scalar),
        }
    }

    /// The value in a type, where it is known that it may become it. Literals are read. Fails with 22P02, 22007, 22008
    /// or 22003 if a literal is no value of the type.
    pub(super) fn cast(&self, scalar: Scalar, to: &SqlType, way: Way) -> Result<Scalar> {
        if let SqlType::Domain(domain) = to {
            return self.of_domain(scalar, domain, way);
        }
        if let SqlType::Timed(timed) = to {
            return self.of_timed(scalar, timed, way);
        }
        if to.has_collation() {
            return Ok(relabelled(self.cast(scalar, &to.uncollated(), way)?, to));
        }
        match scalar {
            Scalar::Constant(Constant { value, sql_type: SqlType::Unknown }) => {
                if value.is_null() {
                    return Ok(Scalar::Constant(Constant::null(to.clone())));
                }
                let text = value.try_as_str().flatten().unwrap_or_default();
                match self.read_literal(text, to, way.is_explicit()) {
                    Err(_) if way == Way::Try => Ok(Scalar::Constant(Constant::null(to.clone()))),
                    // Only a cast that is written has the digits of its literal as its type.
                    Ok(value) if *to == SqlType::NUMERIC && !way.is_explicit() => Ok(value.cast(to.clone(), false)),
                    other => other,
                }
            }
            Scalar::Parameter { index, sql_type: SqlType::Unknown } => {
                let decided = self.decide(index, to);
                let scalar = Scalar::Parameter { index, sql_type: decided };
                self.cast(scalar, to, if way == Way::Implicit { Way::Explicit } else { way })
            }
            // What is known of the parts decides what a constructor's parts become.
            Scalar::Array { elements, sql_type } if *sql_type.innermost() == SqlType::Unknown => {
                let element = to.element().filter(|element| !has_unknown(element));
                let element = element.cloned().or_else(|| sql_type.element().map(of_texts)).unwrap_or(SqlType::Text);
                let to = if has_unknown(to) { &of_texts(to) } else { to };
                let elements =
                    elements.into_iter().map(|part| self.cast(part, &element, way)).collect::<Result<_>>()?;
                let array = Scalar::Array { elements, sql_type: SqlType::array_of(element) };
                self.cast(array, to, way)
            }
            Scalar::Record { fields, sql_type: from } if has_unknown(&from) => {
                // What is decided of the target decides the fields; the others are texts: the record is decided then.
                let to = if has_unknown(to) && *to != SqlType::Unknown { &of_texts(to) } else { to };
                let SqlType::Record(names) = &from else { return Err(Error::bug("a record without fields")) };
                let field = |(target, field): (Option<SqlType>, Scalar)| match target {
                    Some(target) => self.cast(field, &target, way),
                    None => self.typed(field),
                };
                let targets = column_targets(names, to);
                let fields = targets.into_iter().zip(fields).map(field).collect::<Result<Vec<_>>>()?;
                let types = names.iter().zip(&fields);
                let types = types.map(|(field, value)| RecordField { sql_type: value.sql_type(), ..field.clone() });
                let record = Scalar::Record { sql_type: SqlType::Record(names.with(types.collect())), fields };
                if matches!(to, SqlType::Unknown | SqlType::Text) && way == Way::Implicit {
                    return Ok(record);
                }
                self.cast(record, to, way)
            }
            scalar if scalar.sql_type().is_vector() && to.element().is_some() => {
                self.cast(self.vector_elements(scalar)?, to, way)
            }
            scalar => {
                let from = scalar.sql_type();
                // A text keeps its collation, whatever it becomes.
                if from == *to || from.has_collation() && from.uncollated() == *to {
                    return Ok(scalar);
                }
                match (&from, to) {
                    (SqlType::Char(Some(_)), SqlType::Char(None)) => return self.with_blanks(scalar),
                    (SqlType::Char(None), SqlType::Text | SqlType::Varchar(_) | SqlType::Name) => {
                        let text = self.call("rtrim", vec![scalar.cast(SqlType::Text, false)])?;
                        return self.cast(text, to, way);
                    }
                    _ => {}
                }
                let derived = self.derived_collation([&scalar])?;
                let (input, is_try) = (Box::new(scalar), way == Way::Try);
                let cast = Scalar::Cast { input, to: to.clone(), is_try, is_explicit: way.is_explicit() };
                Ok(self.with_derived(cast, &derived))
            }
        }
    }

    /// The type of a parameter: what was decided before, what its client says, or this.
    fn decide(&self, index: usize, to: &SqlType) -> SqlType {
        let mut parameters = self.parameters.borrow_mut();
        if parameters.len() <= index {
            parameters.resize(index + 1, None);
        }
        parameters[index].get_or_insert_with(|| to.without_modifier()).clone()
    }

    /// A parameter that is an array, to its client of any number of dimensions: of as many as a type that it becomes.
    fn with_depth(&self, scalar: Scalar, to: &SqlType) -> Scalar {
        match &scalar {
            Scalar::Parameter { index, sql_type: from @ SqlType::Array(_) } => match with_dimensions(from, to) {
                Some(deeper) => {
                    if let Some(decided) = self.parameters.borrow_mut().get_mut(*index) {
                        *decided = Some(deeper.clone());
                    }
                    Scalar::Parameter { index: *index, sql_type: deeper }
                }
                None => scalar,
            },
            _ => scalar,
        }
    }

    /// CAST. Fails with 42846 if the types know no cast, and where [`cast`](Self::cast) does.
    pub(super) fn explicit(&self, scalar: Scalar, to: &SqlType, is_try: bool) -> Result<Scalar> {
        let scalar = self.with_depth(scalar, to);
        let from = scalar.sql_type();
        // A parameter has the digits that its value has.
        if *to == SqlType::NUMERIC && matches!((&scalar, &from), (Scalar::Parameter { .. }, SqlType::Numeric(Some(_))))
        {
            return Ok(scalar);
        }
        let with_dimensions = with_dimensions(to, &from);
        let to = with_dimensions.as_ref().unwrap_or(to);
        // PostgreSQL has no such casts, and DuckDB has.
        if matches!(to, SqlType::Json | SqlType::Jsonb)
            && matches!(from, SqlType::Array(_) | SqlType::Record(_) | SqlType::Map(_))
            && coercion::cast_context(&from, to).is_none()
        {
            return self.call(if *to == SqlType::Json { "to_json" } else { "to_jsonb" }, vec![scalar]);
        }
        if from == SqlType::Json && is_scalar_type(to) && coercion::cast_context(&from, to).is_none() {
            let root = Scalar::Constant(Constant::text("$"));
            let text = self.call("json_extract_string", vec![scalar, root])?;
            return self.cast(text, to, if is_try { Way::Try } else { Way::Explicit });
        }
        if from != SqlType::Unknown && from != *to && coercion::cast_context(&from, to).is_none() && !has_unknown(&from)
        {
            let (from, to) = (told(&from), told(to));
            return Err(Error::input(format!("cannot cast type {from} to {to}")).with_code("42846"));
        }
        let scalar = if *to == SqlType::Bytea { self.padded(scalar)? } else { scalar };
        // The text of an array says how many dimensions it has.
        let to = match &scalar {
            Scalar::Constant(constant) if from == SqlType::Unknown && to.element().is_some() => {
                match constant.value.try_as_str().flatten() {
                    Some(text) => &diligence_types::text::array_type_of(text, to),
                    None => to,
                }
            }
            _ => to,
        };
        self.cast(scalar, to, if is_try { Way::Try } else { Way::Explicit })
    }

    /// The value as it is stored into a column of a type. Fails with 42804 if it must be cast explicitly.
    pub(super) fn assign(&self, scalar: Scalar, target: &Target) -> Result<Scalar> {
        let is_map = matches!(target.sql_type.base(), SqlType::Map(_));
        let scalar = if is_map && is_empty_map(&scalar) { empty_literal() } else { scalar };
        let scalar = self.with_depth(scalar, &target.sql_type);
        let scalar = with_nulls_of(scalar, target.sql_type.base());
        let (from, to) = (scalar.sql_type(), &target.sql_type.uncollated());
        if let Some(held) = with_dimensions(to, &from) {
            let count = dimensions(&held);
            let message =
                format!("an array of {count} dimensions does not fit into \"{}\", which has fewer", target.name);
            let hint = format!("declare it as {}{}", held.innermost(), "[]".repeat(count));
            return Err(Error::unsupported(message).with_code("0A000").with_hint(hint));
        }
        if !is_assignable(&from, to) {
            let (to, from) = (told(to), told(&from));
            let message = format!("column \"{}\" is of type {to} but expression is of type {from}", target.name);
            let hint = "you will need to rewrite or cast the expression";
            return Err(Error::input(message).with_code("42804").with_hint(hint));
        }
        self.cast(scalar, to, Way::Assignment)
    }

    /// The value in a type that its context wants. Fails with 42804, told by `message` of the type that it has, if it
    /// does not become it by itself.
    pub(super) fn wanted(
        &self,
        scalar: Scalar,
        to: &SqlType,
        message: impl FnOnce(&SqlType) -> String,
    ) -> Result<Scalar> {
        let from = scalar.sql_type();
        let allowed =
            from == SqlType::Unknown || from == *to || coercion::cast_context(&from, to) == Some(CastContext::Implicit);
        if !allowed {
            return Err(Error::input(message(&from)).with_code("42804"));
        }
        self.cast(scalar, to, Way::Implicit)
    }

    /// Values in their common type. Fails with 42804 if there is none: `what` is CASE, UNION, …
    pub(super) fn in_common(&self, scalars: Vec<Scalar>, what: &str) -> Result<(Vec<Scalar>, SqlType)> {
        let scalars = with_empty_maps(scalars);
        let common = common_of_values(&scalars.iter().collect::<Vec<_>>(), what)?;
        let common = self.collated_in_common(common, &scalars)?;
        // Records are decided here: nothing behind could put types into their fields.
        let common = if has_unknown_fields(&common) { of_texts(&common) } else { common };
        let scalars = scalars.into_iter().map(|scalar| self.held_as(scalar, &common));
        Ok((scalars.collect::<Result<_>>()?, common))
    }

    /// A value in the type that it has in common with others; a literal of `numeric` has digits of its own else.
    pub(super) fn held_as(&self, scalar: Scalar, common: &SqlType) -> Result<Scalar> {
        let value = self.cast(scalar, common, Way::Implicit)?;
        let has_own_digits = *common == SqlType::NUMERIC && matches!(value.sql_type(), SqlType::Numeric(Some(_)));
        Ok(if has_own_digits { value.cast(SqlType::NUMERIC, false) } else { value })
    }

    /// An argument, as far as choosing an overload needs it.
    pub(super) fn candidate(scalar: &Scalar) -> Candidate {
        let literal = match scalar {
            Scalar::Constant(constant) if !constant.is_null() => Some(match constant.value.try_as_str() {
                Some(Some(text)) => text.to_owned(),
                _ => constant.value.to_string(),
            }),
            _ => None,
        };
        Candidate { sql_type: scalar.sql_type().uncollated(), literal }
    }

    /// A function of a name. Fails with 42883 if no overload takes the arguments, 42725 if several do.
    pub(super) fn call(&self, name: &str, arguments: Vec<Scalar>) -> Result<Scalar> {
        if arguments.iter().any(|argument| argument.sql_type().is_vector()) {
            return self.call_of_vectors(name, arguments);
        }
        let arguments = self.decided_arrays(name, arguments)?;
        let candidates = arguments.iter().map(Self::candidate).collect::<Vec<_>>();
        let (call, arguments) = match resolve_scalar(name, &candidates) {
            Ok(call) => (call, arguments),
            Err(error) => self.narrowed(name, arguments, error)?,
        };
        if let (true, [_, Scalar::Constant(path), ..]) = (is_of_path(name), arguments.as_slice())
            && call.arguments.first() == Some(&SqlType::Jsonb)
            && let Some(Some(path)) = path.value.try_as_str()
        {
            // What is no path is an error before there are rows.
            path_text(path)?;
        }
        if !has_unknown(&call.returns) && !call.arguments.iter().any(has_unknown) {
            let (call, arguments) = with_room(name, call, arguments)?;
            return self.called(call, arguments);
        }
        // Nothing says what is in the arrays: texts, as in PostgreSQL.
        let arguments = arguments.into_iter().map(|argument| self.typed(argument)).collect::<Result<Vec<_>>>()?;
        let candidates = arguments.iter().map(Self::candidate).collect::<Vec<_>>();
        self.called(resolve_scalar(name, &candidates)?, arguments)
    }

    /// A function of INTEGER that is called with BIGINT, as DuckDB's counts and lengths are: `left(s, len(s) - 1)`.
    /// Fails with an error if no function takes INTEGER there either.
    fn narrowed(&self, name: &str, arguments: Vec<Scalar>, error: Error) -> Result<(ScalarCall, Vec<Scalar>)> {
        let is_wide = |argument: &Scalar| argument.sql_type() == SqlType::BigInt;
        let is_function = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_function || error.code() != Some("42883") || !arguments.iter().any(is_wide) {
            return Err(error);
        }
        let narrow = |argument: &Scalar| Candidate {
            sql_type: if is_wide(argument) { SqlType::Integer } else { argument.sql_type().uncollated() },
            ..Self::candidate(argument)
        };
        let candidates = arguments.iter().map(narrow).collect::<Vec<_>>();
        let Ok(call) = resolve_scalar(name, &candidates) else { return Err(error) };
        let arguments = arguments.into_iter().map(|argument| match is_wide(&argument) {
            true => self.cast(argument, &SqlType::Integer, Way::Assignment),
            false => Ok(argument),
        });
        Ok((call, arguments.collect::<Result<_>>()?))
    }

    /// Arguments of which some are arrays, and none says what is in them: these are arrays of texts, as in PostgreSQL.
    /// So are literals in an array, for its functions of any arrays: `ARRAY['1'] || 2` is refused.
    fn decided_arrays(&self, name: &str, arguments: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let is_for_all = arguments.iter().all(|argument| has_unknown(&argument.sql_type()));
        let is_for_literals = OF_ANY_ARRAYS.contains(&name);
        let decided = |argument: Scalar| match argument.sql_type() {
            SqlType::Array(_) if is_for_all || is_for_literals && has_literal(&argument) => self.typed(argument),
            _ => Ok(argument),
        };
        arguments.into_iter().map(decided).collect()
    }

    /// A call with its arguments cast.
    pub(super) fn called(&self, mut call: ScalarCall, arguments: Vec<Scalar>) -> Result<Scalar> {
        let derived = self.derived_collation(&arguments)?;
        self.collated_call(&mut call, &derived)?;
        // What is compared has one Arrow type.
        let is_comparison = matches!(&call.overload.body, Body::Special(special) if comparison_of(*special).is_some());
        let mut arguments = arguments
            .into_iter()
            .enumerate()
            .map(|(index, argument)| match call.arguments.get(index) {
                Some(to) if is_comparison => self.held_as(argument, to),
                Some(to) => self.cast(argument, to, Way::Implicit),
                None => self.typed(argument),
            })
            .collect::<Result<Vec<_>>>()?;
        // Its rows are of this time.
        if call.overload.stability == Stability::Volatile {
            self.is_transient.set(true);
        }
        if call.overload.takes_zone {
            arguments.push(Scalar::Constant(Constant::text(self.context.zone())));
        }
        if call.overload.takes_configuration {
            let name = Constant::text(self.context.search_configuration());
            let sql_type = SqlType::Search(SearchKind::Configuration);
            arguments.push(Scalar::Constant(Constant { sql_type, ..name }));
        }
        if let Body::Special(special) = &call.overload.body
            && let Some(comparison) = comparison_of(*special)
            && arguments.len() == 2
        {
            return self.keyed_comparison(comparison, arguments);
        }
        Ok(self.with_derived(Scalar::Call { call, arguments }, &derived))
    }

    /// An operator of one or two sides. Comparisons go by the key of a type that has one. Fails like
    /// [`call`](Self::call).
    pub(super) fn operator(&self, sign: &str, mut sides: Vec<Scalar>) -> Result<Scalar> {
        // Objects in JSON files are structs, which have their members as JSON has them.
        if path_function(sign).is_some()
            && let [json, _] = sides.as_mut_slice()
            && matches!(json.sql_type(), SqlType::Record(_) | SqlType::Map(_) | SqlType::Array(_))
        {
            *json = self.explicit(json.clone(), &SqlType::Json, false)?;
        }
        if sign == "||" && sides.iter().all(|side| side.sql_type().element().is_none()) {
            sides = sides.into_iter().map(|side| self.with_name(side)).collect::<Result<_>>()?;
        }
        if sides.iter().any(|side| side.sql_type().is_vector()) {
            sides = self.vector_sides(sides)?;
        }
        if let Some(comparison) = sign_comparison(sign)
            && sides.len() == 2
        {
            let mut sides = sides.into_iter();
            let (Some(left), Some(right)) = (sides.next(), sides.next()) else { return Err(Error::bug("no sides")) };
            return self.compare(comparison, left, right);
        }
        if let (Some(function), [json, path]) = (path_function(sign), sides.as_slice())
            && is_path(json, path)
        {
            return self.at_path(sign, function, sides);
        }
        if let Some(comparison) = pattern_comparison(sign) {
            return self.compare_bytes(sign, comparison, sides);
        }
        if let Some(like) = self.like_by_sign(sign, &sides) {
            return like;
        }
        // An interval is added to a time of day from either side.
        if let ("+", [interval, time]) = (sign, sides.as_slice())
            && (interval.sql_type(), time.sql_type()) == (SqlType::Interval, SqlType::TimeTz)
        {
            return self.call(sign, sides.into_iter().rev().collect());
        }
        // All elements count, whatever dimensions the arrays have.
        let are_arrays = sides.len() == 2 && sides.iter().all(|side| side.sql_type().element().is_some());
        if matches!(sign, "@>" | "<@" | "&&") && are_arrays {
            let sides = sides.into_iter().map(|side| self.flattened(side)).collect::<Result<Vec<_>>>()?;
            return self.call(sign, sides);
        }
        self.call(sign, sides)
    }

    /// `a ~<~ b`: texts by their bytes, whatever their collation is. Fails with 42883 for values of other types.
    fn compare_bytes(&self, sign: &str, comparison: Comparison, sides: Vec<Scalar>) -> Result<Scalar> {
        let types = sides.iter().map(Scalar::sql_type).collect::<Vec<_>>();
        let is_text = |sql_type: &SqlType| matches!(sql_type.category(), Category::String | Category::Unknown);
        if sides.len() != 2 || !types.iter().all(is_text) {
            return self.call(sign, sides);
        }
        let text = |side: Scalar| Ok(unlabelled(self.cast(side, &SqlType::Text, Way::Implicit)?));
        self.keyed_comparison(comparison, sides.into_iter().map(text).collect::<Result<_>>()?)
    }

    /// `j -> '$.a[0]'`: the member of that name, as in PostgreSQL, or else what DuckDB has at the path. A path to
    /// several values, `'$.a[*]'`, gives the list of them.
    fn at_path(&self, sign: &str, function: &str, sides: Vec<Scalar>) -> Result<Scalar> {
        if sides.get(1).and_then(|path| Self::candidate(path).literal).is_some_and(|path| path.contains('*')) {
            return self.call(function, sides);
        }
        let member = self.call(sign, sides.clone())?;
        let mut sides = sides;
        let sql_type = member.sql_type();
        if let Some(json) = sides.first_mut() {
            *json = self.explicit(json.clone(), &SqlType::Json, false)?;
        }
        let there = self.explicit(self.call(function, sides)?, &sql_type, false)?;
        Ok(Scalar::Coalesce(vec![member, there]))
    }

    /// All elements of an array of any dimensions, as an array of one.
    pub(super) fn flattened(&self, mut array: Scalar) -> Result<Scalar> {
        const FLATTEN: &str = "all elements";
        while matches!(array.sql_type().element(), Some(SqlType::Array(_))) {
            array = match array {
                Scalar::Array { elements, .. }
                    if elements.iter().all(|element| matches!(element, Scalar::Array { .. }))
                        && !elements.is_empty() =>
                {
                    let parts = elements.into_iter().flat_map(|element| match element {
                        Scalar::Array { elements, .. } => elements,
                        other => vec![other],
                    });
                    self.array(parts.collect())?
                }
                other => self.call(FLATTEN, vec![other])?,
            };
        }
        Ok(array)
    }
}

/// Whether a value is `MAP {}`, of which nothing says what would be in it.
fn is_empty_map(scalar: &Scalar) -> bool {
    let is_nothing = |part: &Scalar| matches!(part, Scalar::Array { elements, .. } if elements.is_empty());
    matches!(scalar, Scalar::Call { call, arguments }
        if call.overload.name == "map" && arguments.len() == 2 && arguments.iter().all(is_nothing))
}

/// The text of an empty map, which is read as one of the type that is wanted.
fn empty_literal() -> Scalar {
    let value = ScalarValue::Utf8View(Some("{}".to_owned()));
    Scalar::Constant(Constant { value, sql_type: SqlType::Unknown })
}

/// Whether a type is of maps, or of lists of structs or maps.
pub(super) fn has_entries(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Map(_) => true,
        SqlType::Array(_) => matches!(sql_type.innermost(), SqlType::Map(_) | SqlType::Record(_)),
        _ => false,
    }
}

/// Values of which empty maps, and NULLs within maps and lists of structs, have no type where others have.
pub(super) fn with_empty_maps(scalars: Vec<Scalar>) -> Vec<Scalar> {
    let decides = |scalar: &Scalar| has_entries(&scalar.sql_type()) && !is_empty_map(scalar);
    let mut types = scalars.iter().filter(|scalar| decides(scalar)).map(Scalar::sql_type).collect::<Vec<_>>();
    types.dedup();
    if types.is_empty() {
        return scalars;
    }
    let one_of = |scalar: Scalar| match is_empty_map(&scalar) {
        true => empty_literal(),
        false if types.len() > 1 && decides(&scalar) => types.iter().fold(scalar, with_nulls_of),
        false => scalar,
    };
    scalars.into_iter().map(one_of).collect()
}

/// A type as messages tell it: without what is in its parentheses.
fn told(sql_type: &SqlType) -> String {
    match sql_type.without_modifier() {
        SqlType::Char(_) => "character".to_owned(),
        other => other.to_string(),
    }
}

/// A row as `ROW(…)` makes it.
pub(super) fn row(fields: Vec<Scalar>) -> Scalar {
    named_row(fields, (1..).map(|index| format!("f{index}")))
}

/// A row with names of its fields.
pub(super) fn named_row(fields: Vec<Scalar>, names: impl Iterator<Item = String>) -> Scalar {
    let types = fields.iter().map(Scalar::sql_type).zip(names);
    let types = types.map(|(sql_type, name)| RecordField { name, sql_type }).collect();
    Scalar::Record { fields, sql_type: SqlType::Record(RecordType::row(types)) }
}

/// A struct with names of its fields.
pub(super) fn record(fields: Vec<Scalar>, names: impl Iterator<Item = String>) -> Scalar {
    let types = fields.iter().map(Scalar::sql_type).zip(names);
    let sql_type = SqlType::Record(types.map(|(sql_type, name)| RecordField { name, sql_type }).collect());
    Scalar::Record { fields, sql_type }
}

/// The type with texts where nothing has decided.
pub(super) fn of_texts(sql_type: &SqlType) -> SqlType {
    match sql_type {
        SqlType::Array(element) => SqlType::array_of(of_texts(element)),
        SqlType::Record(fields) => {
            let field = |field: &RecordField| RecordField { sql_type: of_texts(&field.sql_type), ..field.clone() };
            SqlType::Record(fields.with(fields.iter().map(field).collect()))
        }
        SqlType::Unknown => SqlType::Text,
        other => other.clone(),
    }
}

/// An array's type with as many dimensions as another has, if those are more: PostgreSQL's arrays have any number of
/// them, whatever their type says.
fn with_dimensions(to: &SqlType, from: &SqlType) -> Option<SqlType> {
    let (wanted, there) = (dimensions(to), dimensions(from));
    let is_deeper = 0 < wanted && wanted < there;
    is_deeper.then(|| (0..there).fold(to.innermost().clone(), |inner, _| SqlType::array_of(inner)))
}

/// How many dimensions an array has; 0 of what is none.
pub(crate) fn dimensions(sql_type: &SqlType) -> usize {
    sql_type.element().map_or(0, |element| 1 + dimensions(element))
}

/// Whether a literal that is not NULL stands in an array of which nothing says what is in it.
fn has_literal(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Array { elements, sql_type } => {
            *sql_type.innermost() == SqlType::Unknown && elements.iter().any(has_literal)
        }
        Scalar::Constant(constant) => constant.sql_type == SqlType::Unknown && !constant.is_null(),
        _ => false,
    }
}

/// Whether a record in a type has fields that are not decided.
fn has_unknown_fields(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Array(element) => has_unknown_fields(element),
        SqlType::Record(_) => has_unknown(sql_type),
        _ => false,
    }
}

/// Whether values of a type become those of another one where they are stored.
pub(crate) fn is_assignable(from: &SqlType, to: &SqlType) -> bool {
    let to = &to.uncollated();
    *from == SqlType::Unknown
        || from.uncollated() == to.base().uncollated()
        || has_unknown(from)
        || coercion::cast_context(from, to).is_some_and(|context| context <= CastContext::Assignment)
}

/// The comparison that an operator of the engine's is.
pub(super) fn comparison_of(special: Special) -> Option<Comparison> {
    Some(match special {
        Special::Equal => Comparison::Equal,
        Special::NotEqual => Comparison::NotEqual,
        Special::Less => Comparison::Less,
        Special::LessOrEqual => Comparison::LessOrEqual,
        Special::Greater => Comparison::Greater,
        Special::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Whether the second argument of a function is a path, if the first is JSON.
fn is_of_path(name: &str) -> bool {
    matches!(name, "@?" | "@@") || name.starts_with("jsonb_path_")
}

/// The comparison of an operator that PostgreSQL has for indexes of patterns.
fn pattern_comparison(sign: &str) -> Option<Comparison> {
    Some(match sign {
        "~<~" => Comparison::Less,
        "~<=~" => Comparison::LessOrEqual,
        "~>~" => Comparison::Greater,
        "~>=~" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Gives parameters that were met before their type was decided the type that was.
pub(super) fn settle_parameters(relation: &mut Relation, parameters: &[Option<SqlType>]) {
    if parameters.is_empty() {
        return;
    }
    stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || {
        for scalar in relation.scalars_mut() {
            settle(scalar, parameters);
        }
        for input in relation.inputs_mut() {
            settle_parameters(input, parameters);
        }
    });
}

fn settle(scalar: &mut Scalar, parameters: &[Option<SqlType>]) {
    if let Scalar::Parameter { index, sql_type } = scalar
        && *sql_type == SqlType::Unknown
    {
        *sql_type = parameters.get(*index).cloned().flatten().unwrap_or(SqlType::Text);
    }
    if let Scalar::Subquery(subquery) = scalar {
        settle_parameters(&mut subquery.relation, parameters);
    }
    for child in scalar.children_mut() {
        stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || settle(child, parameters));
    }
}

/// Whether a value of JSON that is no object and no array may be one of a type.
fn is_scalar_type(sql_type: &SqlType) -> bool {
    matches!(sql_type.category(), Category::Numeric | Category::Boolean | Category::DateTime | Category::Timespan)
        || *sql_type == SqlType::Uuid
}

/// The function that gives what is at a path, of an operator that takes a member.
fn path_function(sign: &str) -> Option<&'static str> {
    match sign {
        "->" => Some("json_extract"),
        "->>" => Some("json_extract_string"),
        _ => None,
    }
}

/// Whether a literal beside JSON is a path of DuckDB's.
fn is_path(json: &Scalar, path: &Scalar) -> bool {
    let literal = || Binder::candidate(path).literal.filter(|_| path.sql_type() == SqlType::Unknown);
    matches!(json.sql_type(), SqlType::Json | SqlType::Jsonb)
        && literal().is_some_and(|path| path == "$" || path.starts_with("$.") || path.starts_with("$["))
}
