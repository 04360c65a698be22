//! Follows a path through a value.
//!
//! In lax mode a member of an array is that of its elements, what is no array is an array of one, and what is not there
//! is nothing. In strict mode each of these is an error. Within a predicate an error makes it unknown.

use std::cell::RefCell;
use std::cmp::Ordering;

use diligence_base::{Error, Result};

use super::super::super::decimal::Decimal;
use super::moments::Moment;
use super::read::{Node, Path, PathStep, Sign};
use crate::text::Zone;
use crate::text::json::{Json, unique, write_key};

/// The SQLSTATE of a variable that is not there.
pub(super) const UNKNOWN_VARIABLE: &str = "42704";

/// What following a path has found.
pub(super) struct Found {
    /// The values, up to the first error.
    values: Vec<Json>,
    /// The first error: one of PostgreSQL's SQLSTATEs 22012, 22033, 22036, 22038, 22039, 2203A, 2203B and 2203C.
    error: Option<Error>,
    is_strict: bool,
}

impl Found {
    /// The values; if errors are silent, those up to the first one.
    pub(super) fn values(self, is_silent: bool) -> Result<Vec<Json>> {
        match self.error {
            Some(error) if !is_silent => Err(error),
            _ => Ok(self.values),
        }
    }

    /// Whether there is a value. Lax paths are followed as far as the first one; unknown after a silent error.
    pub(super) fn exists(self, is_silent: bool) -> Result<Option<bool>> {
        match self.error {
            _ if !self.is_strict && !self.values.is_empty() => Ok(Some(true)),
            Some(error) if !is_silent => Err(error),
            Some(_) => Ok(None),
            None => Ok(Some(!self.values.is_empty())),
        }
    }
}

/// The values to which a path leads. With a zone, moments without one are in it. Fails with 42704 if a variable is not
/// there, and with 0A000 if there is no zone for a comparison that needs it.
pub(super) fn follow(path: &Path, root: &Json, variables: &[(String, Json)], zone: Option<Zone>) -> Result<Found> {
    check_variables(&path.node, variables)?;
    let follower = Follower { root, variables, is_lax: !path.is_strict, zone, refused: RefCell::new(None) };
    let place = Place { current: root, last: None, is_lax: !path.is_strict };
    let (values, error) = match &path.node {
        Node::Steps(start, steps) => follower.steps(start, steps, &place),
        node => match follower.values(node, &place) {
            Ok(values) => (values, None),
            Err(error) => (vec![], Some(error)),
        },
    };
    if let Some(error) = follower.refused.into_inner() {
        return Err(error);
    }
    let shown = |value| match value {
        Json::Text(text) => Json::Text(Moment::held(&text).map_or(text, Moment::shown)),
        other => other,
    };
    Ok(Found { values: values.into_iter().map(shown).collect(), error, is_strict: path.is_strict })
}

struct Follower<'a> {
    root: &'a Json,
    variables: &'a [(String, Json)],
    is_lax: bool,
    /// The zone of moments that have none.
    zone: Option<Zone>,
    /// An error that no predicate hides.
    refused: RefCell<Option<Error>>,
}

/// What `@` and `last` are, and whether what is not there is nothing.
#[derive(Clone, Copy)]
struct Place<'a> {
    current: &'a Json,
    last: Option<i64>,
    is_lax: bool,
}

/// Fails with 42704 if a path names a variable that is not there: no predicate and no silence hides that.
fn check_variables(node: &Node, variables: &[(String, Json)]) -> Result<()> {
    let check = |node: &Node| check_variables(node, variables);
    match node {
        Node::Variable(name) if !variables.iter().any(|(known, _)| known == name) => {
            failed(format!("could not find jsonpath variable \"{name}\""), UNKNOWN_VARIABLE)
        }
        Node::Root | Node::Current | Node::Last | Node::Variable(_) | Node::Value(_) => Ok(()),
        Node::Steps(start, steps) => {
            check(start)?;
            steps.iter().try_for_each(|step| match step {
                PathStep::Filter(test) => check(test),
                PathStep::Places(places) => places.iter().try_for_each(|(from, to)| {
                    check(from)?;
                    to.as_ref().map_or(Ok(()), check)
                }),
                _ => Ok(()),
            })
        }
        Node::Signed(_, inner)
        | Node::Not(inner)
        | Node::Exists(inner)
        | Node::LikeRegex(inner, _)
        | Node::IsUnknown(inner) => check(inner),
        Node::Arithmetic(_, left, right)
        | Node::And(left, right)
        | Node::Or(left, right)
        | Node::Compare(left, _, right)
        | Node::StartsWith(left, right) => {
            check(left)?;
            check(right)
        }
    }
}

fn failed<T>(message: impl Into<String>, code: &'static str) -> Result<T> {
    Err(Error::value(message).with_code(code))
}

impl Follower<'_> {
    /// The values behind all steps up to the first error, and the error: each value goes all of its way before the
    /// next one does.
    fn steps(&self, start: &Node, steps: &[PathStep], place: &Place<'_>) -> (Vec<Json>, Option<Error>) {
        let mut place = *place;
        let mut values = match self.values(start, &place) {
            Ok(values) => values,
            Err(error) => return (vec![], Some(error)),
        };
        let mut first = None;
        for step in steps {
            let mut next = Vec::new();
            for value in &values {
                if let Err(error) = self.step(step, value, &place, &mut next) {
                    // What is behind this value comes after the error.
                    first = Some(error);
                    break;
                }
            }
            values = next;
            // Behind levels, some values have what others have not.
            place.is_lax |= matches!(step, PathStep::Levels(..));
        }
        (values, first)
    }

    fn values(&self, node: &Node, place: &Place<'_>) -> Result<Vec<Json>> {
        Ok(match node {
            Node::Root => vec![self.root.clone()],
            Node::Current => vec![place.current.clone()],
            Node::Last => vec![Json::Number(place.last.unwrap_or(-1).to_string())],
            Node::Value(value) => vec![value.clone()],
            Node::Variable(name) => match self.variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => vec![value.clone()],
                None => return failed(format!("could not find jsonpath variable \"{name}\""), "42704"),
            },
            Node::Steps(start, steps) => match self.steps(start, steps, place) {
                (_, Some(error)) => return Err(error),
                (values, None) => values,
            },
            Node::Signed(is_negative, inner) => {
                let signed = |value: Json| match (decimal_of(&value), is_negative) {
                    (None, _) => {
                        let sign = if *is_negative { '-' } else { '+' };
                        let message = format!("operand of unary jsonpath operator {sign} is not a numeric value");
                        failed(message, "2203B")
                    }
                    (Some(_), false) => Ok(value),
                    (Some(number), true) => Ok(Json::Number(number.negated().to_string())),
                };
                self.unwrapped(inner, place)?.into_iter().map(signed).collect::<Result<_>>()?
            }
            Node::Arithmetic(sign, left, right) => {
                let side = |node: &Node, name: &str| match self.unwrapped(node, place)?.as_slice() {
                    [one] if decimal_of(one).is_some() => decimal_of(one).ok_or_else(|| Error::bug("a number")),
                    _ => {
                        let message =
                            format!("{name} operand of jsonpath operator {sign} is not a single numeric value");
                        failed(message, "22038")
                    }
                };
                let (left, right) = (side(left, "left")?, side(right, "right")?);
                let result = match sign {
                    '+' => left.add(right)?,
                    '-' => left.subtract(right)?,
                    '*' => left.multiply(right)?,
                    '/' => left.divide(right)?,
                    _ => left.remainder(right)?,
                };
                vec![Json::Number(result.to_string())]
            }
            predicate => vec![self.holds(predicate, place).map_or(Json::Null, Json::Boolean)],
        })
    }

    /// Elements in place of arrays, in lax mode.
    fn unwrapped(&self, node: &Node, place: &Place<'_>) -> Result<Vec<Json>> {
        let values = self.values(node, place)?;
        if !self.is_lax {
            return Ok(values);
        }
        let each = |value| match value {
            Json::Array(items) => items,
            one => vec![one],
        };
        Ok(values.into_iter().flat_map(each).collect())
    }

    /// Whether a predicate is true; `None` if it is unknown.
    fn holds(&self, predicate: &Node, place: &Place<'_>) -> Option<bool> {
        match predicate {
            Node::Not(inner) => self.holds(inner, place).map(|value| !value),
            Node::And(left, right) => match (self.holds(left, place), self.holds(right, place)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Node::Or(left, right) => match (self.holds(left, place), self.holds(right, place)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Node::Compare(left, sign, right) => {
                let right = self.unwrapped(right, place).ok();
                self.any(left, place, |value| self.any_of(right.as_deref()?, |other| self.compare(value, *sign, other)))
            }
            Node::Exists(node) => self.values(node, place).ok().map(|values| !values.is_empty()),
            Node::StartsWith(node, start) => {
                let Ok(Some(Json::Text(start))) = self.values(start, place).map(|values| values.into_iter().next())
                else {
                    return None;
                };
                self.any(node, place, |value| match value {
                    Json::Text(text) if Moment::held(text).is_none() => Some(text.starts_with(start.as_str())),
                    _ => None,
                })
            }
            Node::LikeRegex(node, like) => self.any(node, place, |value| match value {
                Json::Text(text) if Moment::held(text).is_none() => Some(like.regex.is_match(text)),
                _ => None,
            }),
            Node::IsUnknown(inner) => Some(self.holds(inner, place).is_none()),
            values => match self.values(values, place).as_deref() {
                Ok([Json::Boolean(value)]) => Some(*value),
                _ => None,
            },
        }
    }

    /// `None` for kinds that are not compared.
    fn compare(&self, left: &Json, sign: Sign, right: &Json) -> Option<bool> {
        match (held(left), held(right)) {
            (None, None) => compare(left, sign, right),
            (Some(left), Some(right)) => match left.compare(right, self.zone) {
                Ok(order) => Some(fits(order?, sign)),
                Err(error) => {
                    self.refused.borrow_mut().get_or_insert(error);
                    None
                }
            },
            (Some(_), None) if matches!(right, Json::Null) => compare(&Json::Boolean(true), sign, right),
            (None, Some(_)) if matches!(left, Json::Null) => compare(left, sign, &Json::Boolean(true)),
            _ => None,
        }
    }

    fn any(&self, node: &Node, place: &Place<'_>, test: impl FnMut(&Json) -> Option<bool>) -> Option<bool> {
        self.any_of(&self.unwrapped(node, place).ok()?, test)
    }

    /// In lax mode the first value that passes decides, in strict mode the first of which it is unknown.
    fn any_of(&self, values: &[Json], mut test: impl FnMut(&Json) -> Option<bool>) -> Option<bool> {
        let (mut is_unknown, mut is_found) = (false, false);
        for value in values {
            match test(value) {
                Some(true) if self.is_lax => return Some(true),
                None if !self.is_lax => return None,
                Some(true) => is_found = true,
                Some(false) => {}
                None => is_unknown = true,
            }
        }
        if is_found || !is_unknown { Some(is_found) } else { None }
    }

    fn step(&self, step: &PathStep, value: &Json, place: &Place<'_>, out: &mut Vec<Json>) -> Result<()> {
        match (step, value) {
            (PathStep::Member(name), Json::Object(members)) => match members.iter().find(|(key, _)| key == name) {
                Some((_, value)) => out.push(value.clone()),
                None if place.is_lax => {}
                None => return failed(format!("JSON object does not contain key \"{name}\""), "2203A"),
            },
            (PathStep::Members, Json::Object(members)) => out.extend(members.iter().map(|(_, value)| value.clone())),
            // Of an array the members of its elements are meant.
            (PathStep::Member(_) | PathStep::Members, Json::Array(items)) if self.is_lax => {
                for item in items.iter().filter(|item| !matches!(item, Json::Array(_))) {
                    self.step(step, item, place, out)?;
                }
            }
            (PathStep::Member(_) | PathStep::Members, _) if place.is_lax => {}
            (PathStep::Member(_), _) => {
                return failed("jsonpath member accessor can only be applied to an object", "2203A");
            }
            (PathStep::Members, _) => {
                return failed("jsonpath wildcard member accessor can only be applied to an object", "2203C");
            }
            (PathStep::Elements, Json::Array(items)) => out.extend(items.iter().cloned()),
            (PathStep::Elements, one) if self.is_lax => out.push(one.clone()),
            (PathStep::Elements, _) if place.is_lax => {}
            (PathStep::Elements, _) => {
                return failed("jsonpath wildcard array accessor can only be applied to an array", "22039");
            }
            (PathStep::Places(places), value) => self.places(places, value, place, out)?,
            (PathStep::Levels(from, to), value) => levels(value, 0, (*from, *to), out),
            (PathStep::Filter(test), value) => {
                let one = std::slice::from_ref(value);
                let items = match value {
                    Json::Array(items) if self.is_lax => items.as_slice(),
                    _ => one,
                };
                let passes = |item: &&Json| self.holds(test, &Place { current: item, ..*place }) == Some(true);
                out.extend(items.iter().filter(passes).cloned());
            }
            (PathStep::Method(name @ ("size" | "type")), value) => out.push(self.about(name, value)?),
            (PathStep::Method(name), Json::Array(items)) if self.is_lax => {
                for item in items {
                    method(name, item, out)?;
                }
            }
            (PathStep::Method(name), value) => method(name, value, out)?,
            (PathStep::Datetime(template), Json::Array(items)) if self.is_lax => {
                for item in items {
                    out.push(moment(item, Some(template.as_str()))?);
                }
            }
            (PathStep::Datetime(template), value) => out.push(moment(value, Some(template.as_str()))?),
        }
        Ok(())
    }

    fn about(&self, name: &str, value: &Json) -> Result<Json> {
        Ok(match (name, value) {
            ("size", Json::Array(items)) => Json::Number(items.len().to_string()),
            ("size", _) if self.is_lax => Json::Number("1".to_owned()),
            ("size", _) => {
                return failed("jsonpath item method .size() can only be applied to an array", "22039");
            }
            (_, Json::Null) => Json::Text("null".to_owned()),
            (_, Json::Boolean(_)) => Json::Text("boolean".to_owned()),
            (_, Json::Number(_)) => Json::Text("number".to_owned()),
            (_, Json::Text(text)) => Json::Text(Moment::held(text).map_or("string", Moment::type_name).to_owned()),
            (_, Json::Array(_)) => Json::Text("array".to_owned()),
            (_, Json::Object(_)) => Json::Text("object".to_owned()),
        })
    }

    fn places(
        &self,
        places: &[(Node, Option<Node>)],
        value: &Json,
        place: &Place<'_>,
        out: &mut Vec<Json>,
    ) -> Result<()> {
        let one = std::slice::from_ref(value);
        let items = match value {
            Json::Array(items) => items.as_slice(),
            _ if self.is_lax => one,
            _ if place.is_lax => return Ok(()),
            _ => return failed("jsonpath array accessor can only be applied to an array", "22039"),
        };
        let last = items.len() as i64 - 1;
        let number = |node: &Node| {
            let values = self.values(node, &Place { last: Some(last), ..*place })?;
            let number = match values.as_slice() {
                [one] => decimal_of(one),
                _ => None,
            };
            match number.map(|number| number.truncated(0).to_integer()) {
                Some(Some(number)) => Ok(number),
                Some(None) => failed("jsonpath array subscript is out of integer range", "22033"),
                None => failed("jsonpath array subscript is not a single numeric value", "22033"),
            }
        };
        for (from, to) in places {
            let from = number(from)?;
            let to = to.as_ref().map_or(Ok(from), number)?;
            if !place.is_lax && (from < 0 || from > to || to > last) {
                return failed("jsonpath array subscript is out of bounds", "22033");
            }
            out.extend((from.max(0)..=to.min(last)).map(|at| items[at as usize].clone()));
        }
        Ok(())
    }
}

/// A value and what is in it, so deep as wanted; without an end, all of them, without a beginning, the leaves.
fn levels(value: &Json, level: u32, wanted: (Option<u32>, Option<u32>), out: &mut Vec<Json>) {
    let (from, to) = wanted;
    let is_leaf = !matches!(value, Json::Array(_) | Json::Object(_));
    if from.map_or(is_leaf, |from| level >= from) && (from.is_none() || to.is_none_or(|to| level <= to)) {
        out.push(value.clone());
    }
    if to.is_some_and(|to| level >= to) {
        return;
    }
    match value {
        Json::Array(items) => items.iter().for_each(|item| levels(item, level + 1, wanted, out)),
        Json::Object(members) => members.iter().for_each(|(_, item)| levels(item, level + 1, wanted, out)),
        _ => {}
    }
}

fn decimal_of(value: &Json) -> Option<Decimal> {
    match value {
        Json::Number(text) => Decimal::parse(text),
        _ => None,
    }
}

/// `None` for kinds that are not compared.
fn compare(left: &Json, sign: Sign, right: &Json) -> Option<bool> {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        // Null is not equal to anything else, and not less.
        (Json::Null, other) | (other, Json::Null) if !matches!(other, Json::Array(_) | Json::Object(_)) => {
            return Some(sign == Sign::NotEqual);
        }
        (Json::Boolean(_), Json::Boolean(_)) | (Json::Number(_), Json::Number(_)) | (Json::Text(_), Json::Text(_)) => {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            write_key(&mut a, left);
            write_key(&mut b, right);
            a.cmp(&b)
        }
        _ => return None,
    };
    Some(fits(order, sign))
}

fn fits(order: Ordering, sign: Sign) -> bool {
    match sign {
        Sign::Equal => order.is_eq(),
        Sign::NotEqual => order.is_ne(),
        Sign::Less => order.is_lt(),
        Sign::LessOrEqual => order.is_le(),
        Sign::Greater => order.is_gt(),
        Sign::GreaterOrEqual => order.is_ge(),
    }
}

fn held(value: &Json) -> Option<Moment> {
    match value {
        Json::Text(text) => Moment::held(text),
        _ => None,
    }
}

/// The moment that a text is, held as a text.
fn moment(value: &Json, template: Option<&str>) -> Result<Json> {
    match (value, template) {
        (Json::Text(text), None) if Moment::held(text).is_none() => Moment::read(text),
        (Json::Text(text), Some(template)) if Moment::held(text).is_none() => Moment::read_as(text, template),
        _ => return failed("jsonpath item method .datetime() can only be applied to a string", "22007"),
    }
    .map(|moment| Json::Text(moment.hold()))
}

fn method(name: &'static str, value: &Json, out: &mut Vec<Json>) -> Result<()> {
    let number = || match decimal_of(value) {
        Some(number) => Ok(number),
        None => failed(format!("jsonpath item method .{name}() can only be applied to a numeric value"), "22036"),
    };
    let result = match (name, value) {
        ("double", Json::Number(text) | Json::Text(text)) => {
            let known = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            match known.and_then(|number| crate::text::json::parse(&number.to_string()).ok()) {
                Some(number) => number,
                None => {
                    let message = "string argument of jsonpath item method .double() is not a valid representation of \
                                   a double precision number";
                    return failed(message, "22036");
                }
            }
        }
        ("double", _) => {
            let message = "jsonpath item method .double() can only be applied to a string or numeric value";
            return failed(message, "22036");
        }
        ("datetime", value) => moment(value, None)?,
        ("keyvalue", Json::Object(members)) => {
            out.extend(members.iter().map(|(key, value)| {
                let pair =
                    [("id", Json::Number("0".to_owned())), ("key", Json::Text(key.clone())), ("value", value.clone())];
                Json::Object(unique(pair.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
            }));
            return Ok(());
        }
        ("keyvalue", _) => {
            return failed("jsonpath item method .keyvalue() can only be applied to an object", "2203C");
        }
        ("abs", _) => Json::Number(number()?.abs().to_string()),
        ("floor" | "ceiling", _) => {
            let number = number()?;
            let cut = number.truncated(0);
            let goes_down = name == "floor";
            let one = Decimal::integer(1_i64);
            let whole = match number.cmp(&cut) {
                Ordering::Less if goes_down => cut.subtract(one)?,
                Ordering::Greater if !goes_down => cut.add(one)?,
                _ => cut,
            };
            Json::Number(whole.to_string())
        }
        _ => return Err(Error::bug(format!("the method {name} of a path"))),
    };
    out.push(result);
    Ok(())
}
