//! Which collation an expression has: PostgreSQL's rules (manual, section 23.2.1; `parse_collate.c`).
//!
//! A column has its own, implicitly; COLLATE gives one explicitly; a function's text has that of its arguments. Where
//! several meet, explicit ones win, and of implicit ones those that are not the database's; two that say different
//! things are an error if they are explicit, and undecided if not, which is an error where texts are compared.
//!
//! The collation is in the type ([`SqlType::collation`]); a cast that changes nothing else is a *label*, and says
//! whether the collation is explicit. Where texts are compared, keys in the collation's order take their place
//! ([`Binder::key`]); labels are gone then.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::collation::{Collation, TextOrder, undecided};
use diligence_types::functions::{self, AggregateBody, AggregateCall, AggregateOverload, ScalarCall};
use diligence_types::sql_type::Category;
use sqlparser::ast::{Expr, ObjectName};

use super::Binder;
use super::scope::Level;
use crate::algebra::Scalar;

/// What compares, in messages.
pub(super) const COMPARISON: &str = "string comparison";

/// The collation that several expressions have where they meet; `None` if it is the database's and nothing says so.
#[derive(Clone, Debug, Default)]
pub(super) struct Derived {
    collation: Option<Collation>,
    is_explicit: bool,
}

impl Derived {
    /// The collation, undecided or not.
    pub(super) fn collation(&self) -> Option<&Collation> {
        self.collation.as_ref()
    }

    /// The collation. Fails with 42P22 if two met, of which neither is explicit; `what` needs it.
    pub(super) fn decided(self, what: &str) -> Result<Option<Collation>> {
        match self.collation {
            Some(collation) if collation.other().is_some() => Err(undecided(what)),
            collation => Ok(collation),
        }
    }

    fn with(self, other: &Collation, is_explicit: bool) -> Result<Self> {
        let Some(own) = &self.collation else { return Ok(Self { collation: Some(other.clone()), is_explicit }) };
        if own.oid == other.oid && own == other {
            return Ok(Self { is_explicit: self.is_explicit || is_explicit, ..self });
        }
        match (self.is_explicit, is_explicit) {
            (true, true) => {
                let message =
                    format!("collation mismatch between explicit collations \"{}\" and \"{}\"", own.name, other.name);
                Err(Error::input(message).with_code("42P21"))
            }
            (true, false) => Ok(self),
            (false, true) => Ok(Self { collation: Some(other.clone()), is_explicit }),
            (false, false) if own.is_default() => Ok(Self { collation: Some(other.clone()), is_explicit }),
            (false, false) if own.other().is_some() || other.is_default() => Ok(self),
            (false, false) if other.other().is_some() => Ok(Self { collation: Some(other.clone()), is_explicit }),
            (false, false) => Ok(Self { collation: Some(Collation::undecided(own, other)), is_explicit }),
        }
    }
}

impl Binder<'_> {
    /// COLLATE. Fails with 42704 for an unknown collation, 42804 for what is no text.
    pub(super) fn collated(&self, expr: &Expr, collation: &ObjectName, level: &Level<'_>) -> Result<Scalar> {
        let collation = self.context.collation(collation)?;
        let scalar = self.typed_scalar(expr, level)?;
        let sql_type = scalar.sql_type();
        match sql_type.innermost().category() {
            Category::String | Category::Unknown => Ok(labelled(scalar, &collation, true)),
            _ => Err(not_collatable(&sql_type)),
        }
    }

    /// `collation for (x)`: the collation's name as a statement has to write it; NULL where two met. Fails with 42804
    /// for what is no text.
    pub(super) fn collation_for(&self, scalar: &Scalar) -> Result<Option<String>> {
        let sql_type = scalar.sql_type();
        if !sql_type.is_collatable() && sql_type != SqlType::Unknown {
            return Err(not_collatable(&sql_type));
        }
        Ok(match sql_type.collation() {
            None if sql_type == SqlType::Unknown => None,
            None => Some("\"default\"".to_owned()),
            Some(collation) if collation.other().is_some() => None,
            Some(collation) => Some(collation.to_string()),
        })
    }

    /// The collation that expressions have together. Fails with 42P21 if two of them say others explicitly.
    pub(super) fn derived_collation<'s>(&self, scalars: impl IntoIterator<Item = &'s Scalar>) -> Result<Derived> {
        scalars.into_iter().try_fold(Derived::default(), |derived, scalar| {
            let sql_type = scalar.sql_type();
            match sql_type.collation() {
                Some(collation) => derived.with(collation, is_explicit(scalar)),
                None => Ok(derived),
            }
        })
    }

    /// A type with the collation that expressions have together, whose common type it is.
    pub(super) fn collated_in_common<'s>(
        &self,
        common: SqlType,
        scalars: impl IntoIterator<Item = &'s Scalar>,
    ) -> Result<SqlType> {
        match self.derived_collation(scalars)?.collation() {
            Some(collation) => Ok(common.with_collation(Some(collation))),
            None => Ok(common),
        }
    }

    /// What a call takes and gives with the collation of its arguments. Fails with 42P22 where it needs one and two
    /// met, 0A000 where it cannot do with a nondeterministic one.
    pub(super) fn collated_call(&self, call: &mut ScalarCall, derived: &Derived) -> Result<()> {
        let Some(collation) = derived.collation() else { return Ok(()) };
        refuse(call, collation)?;
        let name = call.overload.name;
        if CASES.contains(&name) && matches!(collation.order, TextOrder::Icu { .. }) {
            let by_language = functions::scalars(&format!("collation_{name}")).first();
            call.overload = by_language.ok_or_else(|| Error::bug(format!("{name} in a language is not known")))?;
            call.arguments.iter_mut().for_each(|argument| *argument = argument.with_collation(Some(collation)));
        }
        if COMPARING.contains(&name) || super::syntax::sign_comparison(name).is_some() {
            for argument in &mut call.arguments {
                *argument = argument.with_collation(Some(collation));
            }
            call.returns = call.returns.with_collation(Some(collation));
        }
        Ok(())
    }

    /// What an aggregate takes and gives with the collation of its arguments: the least and the greatest are those by
    /// their keys. Fails with 42P22 where they need a collation and two met.
    pub(super) fn collated_aggregate(&self, name: &str, call: &mut AggregateCall, arguments: &[Scalar]) -> Result<()> {
        let derived = self.derived_collation(arguments)?;
        let Some(collation) = derived.collation() else { return Ok(()) };
        call.returns = call.returns.with_collation(Some(collation));
        if !matches!(name, "min" | "max") {
            return Ok(());
        }
        let collation = derived.decided(COMPARISON)?;
        for argument in &mut call.arguments {
            *argument = argument.with_collation(collation.as_ref());
        }
        let is_by_key = |overload: &&AggregateOverload| matches!(overload.body, AggregateBody::Extreme { .. });
        if call.arguments.first().is_some_and(|argument| functions::order_key(argument).is_some()) {
            call.overload = functions::aggregates(name)
                .iter()
                .find(is_by_key)
                .ok_or_else(|| Error::bug(format!("{name} by a key is not known")))?;
        }
        Ok(())
    }

    /// The text that a function gives, with the collation of its arguments.
    pub(super) fn with_derived(&self, scalar: Scalar, derived: &Derived) -> Scalar {
        match derived.collation() {
            Some(collation) if scalar.sql_type().is_collatable() => labelled(scalar, collation, derived.is_explicit),
            _ => scalar,
        }
    }

    /// Fails with 42P21 if an expression that is sorted or grouped by has two collations.
    pub(super) fn check_decided(&self, sql_type: &SqlType) -> Result<()> {
        let Some(collation) = sql_type.collation() else { return Ok(()) };
        let Some(other) = collation.other() else { return Ok(()) };
        Err(implicit_mismatch(&collation.name, other))
    }
}

/// The error for two implicit collations where one is needed.
pub(super) fn implicit_mismatch(one: &str, other: &str) -> Error {
    let message = format!("collation mismatch between implicit collations \"{one}\" and \"{other}\"");
    let hint = "You can choose the collation by applying the COLLATE clause to one or both expressions.";
    Error::input(message).with_code("42P21").with_hint(hint)
}

/// The error for a collation of what is no text.
pub(crate) fn not_collatable(sql_type: &SqlType) -> Error {
    Error::input(format!("collations are not supported by type {sql_type}")).with_code("42804")
}

/// The expression with another collation.
pub(super) fn labelled(scalar: Scalar, collation: &Collation, is_explicit: bool) -> Scalar {
    let sql_type = scalar.sql_type();
    let to = sql_type.with_collation(Some(collation));
    if sql_type == to && (!is_explicit || self::is_explicit(&scalar)) {
        return scalar;
    }
    Scalar::Cast { input: Box::new(unlabelled(scalar)), to, is_try: false, is_explicit }
}

/// The expression in a type that differs in collations only.
pub(super) fn relabelled(scalar: Scalar, to: &SqlType) -> Scalar {
    if scalar.sql_type() == *to {
        return scalar;
    }
    match unlabelled(scalar) {
        Scalar::Constant(mut constant) => {
            constant.sql_type = to.clone();
            Scalar::Constant(constant)
        }
        other => Scalar::Cast { input: Box::new(other), to: to.clone(), is_try: false, is_explicit: false },
    }
}

/// The expression without a label; columns and constants without a collation.
pub(super) fn unlabelled(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Cast { input, to, .. } if is_label(&input, &to) => unlabelled(*input),
        Scalar::Column { id, sql_type, nullable } if sql_type.has_collation() => {
            Scalar::Column { id, sql_type: sql_type.uncollated(), nullable }
        }
        Scalar::Constant(mut constant) if constant.sql_type.has_collation() => {
            constant.sql_type = constant.sql_type.uncollated();
            Scalar::Constant(constant)
        }
        other => other,
    }
}

/// Whether a cast changes no more than the collation.
fn is_label(input: &Scalar, to: &SqlType) -> bool {
    let from = input.sql_type();
    (from.has_collation() || to.has_collation()) && from.uncollated() == to.uncollated()
}

/// Whether COLLATE gave the expression its collation.
pub(super) fn is_explicit(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Cast { input, to, is_explicit, .. } => *is_explicit && is_label(input, to),
        Scalar::Case { arms, otherwise, .. } => {
            arms.iter().map(|(_, value)| value).chain(otherwise.as_deref()).any(is_explicit)
        }
        Scalar::Coalesce(inputs) | Scalar::Array { elements: inputs, .. } => inputs.iter().any(is_explicit),
        _ => false,
    }
}

/// Functions that compare their arguments.
const COMPARING: [&str; 10] = [
    "greatest",
    "least",
    "array_position",
    "array_positions",
    "array_remove",
    "array_replace",
    "@>",
    "<@",
    "&&",
    "width_bucket",
];
/// Functions that look for a text within another.
const SEARCHES: [&str; 8] =
    ["strpos", "position", "replace", "split_part", "string_to_array", "string_to_table", "starts_with", "^@"];
/// Functions of the form of letters.
const CASES: [&str; 3] = ["upper", "lower", "initcap"];

/// Fails with 0A000 for a function that cannot do with a nondeterministic collation, 42P22 for one that needs one.
fn refuse(call: &ScalarCall, collation: &Collation) -> Result<()> {
    let name = call.overload.name;
    let takes_pattern = matches!(name, "~" | "~*" | "!~" | "!~*")
        || name.starts_with("regexp_")
        || name == "substring" && matches!(call.arguments.get(1), Some(SqlType::Text));
    let needs = match name {
        _ if takes_pattern => "regular expression".to_owned(),
        _ if CASES.contains(&name) => format!("{name}() function"),
        _ if SEARCHES.contains(&name) => COMPARISON.to_owned(),
        _ => return Ok(()),
    };
    if collation.other().is_some() {
        return Err(undecided(&needs));
    }
    if collation.is_deterministic() || CASES.contains(&name) {
        return Ok(());
    }
    Err(nondeterministic(if takes_pattern { "regular expressions" } else { "substring searches" }))
}

/// The error for what a nondeterministic collation cannot do.
pub(super) fn nondeterministic(what: &str) -> Error {
    Error::unsupported(format!("nondeterministic collations are not supported for {what}")).with_code("0A000")
}

/// What values of a type are grouped by: a function, where it is not themselves.
pub(super) fn grouping_key(sql_type: &SqlType) -> Option<ScalarCall> {
    match sql_type.collation() {
        Some(_) if functions::is_equal_as_held(sql_type) => None,
        // Maps are equal as they are held.
        None if matches!(sql_type, SqlType::Map(_)) => None,
        _ => functions::order_key(sql_type),
    }
}
