//! Which rows a condition wants, as ranges of keys of an index.
//!
//! A condition is taken apart where it is joined by AND. Of its parts those count that compare the columns of a key,
//! from the first on, or what an index computes, with constants. The others are left to the scan, which looks at the
//! whole condition for each row that it gets: the ranges need only have all rows that it is true of.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use crate::index::KeyRange;
use crate::keys::{LONG_KEY_BYTES, comparable, converter, indexed_bytes};
use crate::rules::Key;
use crate::run::Bound;

/// Ranges of keys that are looked for at once, at most.
const RANGES_MAX: usize = 1024;

/// What a NULL begins with in a key; no value does.
const NULL: u8 = 0xff;

/// A condition, taken apart.
pub(crate) struct Conditions<'a> {
    parts: Vec<&'a Arc<dyn PhysicalExpr>>,
    facts: Vec<Fact<'a>>,
}

/// What a part of a condition says of a value.
struct Fact<'a> {
    subject: &'a Arc<dyn PhysicalExpr>,
    says: Says,
}

#[derive(Clone)]
enum Says {
    /// It is one of these.
    OneOf(Vec<ScalarValue>),
    /// It is as large as this, or larger; only larger, if `is_strict`.
    From {
        value: ScalarValue,
        is_strict: bool,
    },
    /// It is as large as this, or smaller; only smaller, if `is_strict`.
    To {
        value: ScalarValue,
        is_strict: bool,
    },
    /// A text that begins with this one, and is before the other.
    BeginsWith(String, Option<String>),
    Null,
}

impl<'a> Conditions<'a> {
    pub(crate) fn of(condition: &'a Arc<dyn PhysicalExpr>) -> Self {
        let mut parts = Vec::new();
        take_apart(condition, &mut parts);
        let facts = parts.iter().flat_map(|part| facts(part)).collect();
        Self { parts, facts }
    }

    /// The ranges of a key that have all rows of which the conditions are true; `None` if they say nothing of it.
    /// `types` are those of its values.
    pub(crate) fn ranges(&self, key: &Key, types: &[DataType], schema: &SchemaRef) -> Option<Vec<KeyRange>> {
        let subjects = self.subjects(key, schema)?;
        let mut equal = vec![Vec::new()];
        let mut rest = None;
        let mut known = 0;
        for (subject, data_type) in subjects.iter().zip(types) {
            let said = self.said_of(subject, data_type);
            if said.is_empty() || !has_order(data_type) {
                break;
            }
            if let Some(values) = said.iter().find_map(|says| match says {
                Says::OneOf(values) => Some(values.clone()),
                Says::Null => ScalarValue::try_from(data_type).ok().map(|null| vec![null]),
                _ => None,
            }) && equal.len() * values.len() <= RANGES_MAX
            {
                let longer = |before: &Vec<ScalarValue>, value: &ScalarValue| {
                    before.iter().chain([value]).cloned().collect::<Vec<_>>()
                };
                equal = equal.iter().flat_map(|before| values.iter().map(|value| longer(before, value))).collect();
                known += 1;
                continue;
            }
            rest = Some(said);
            break;
        }
        if known == 0 && rest.is_none() {
            return None;
        }
        let is_whole = known == types.len();
        let prefixes = encoded(&types[..known], &equal)?;
        let mut ranges = Vec::with_capacity(prefixes.len());
        for (bytes, before) in prefixes.into_iter().zip(&equal) {
            match &rest {
                None if is_whole => {
                    let bytes = indexed_bytes(&bytes).into_owned();
                    let bound = |is_behind| Bound { bytes: bytes.clone(), is_behind };
                    ranges.push(KeyRange { from: bound(false), to: bound(true) });
                }
                None => {
                    ranges.push(KeyRange { from: bound(bytes.clone(), false, false), to: bound(bytes, true, true) });
                }
                Some(said) => {
                    ranges.push(within(said, &types[..=known], before, bytes.clone())?);
                    // Some comparisons take a NaN with a sign for the least value.
                    let nan = ScalarValue::Float64(Some(f64::NAN)).cast_to(&types[known]);
                    if let Ok(nan) = nan
                        && types[known].is_floating()
                    {
                        let said = [Says::OneOf(vec![nan])];
                        ranges.push(within(&said, &types[..=known], before, bytes)?);
                    }
                }
            }
        }
        Some(ranges)
    }

    /// A range of a key that has exactly the rows of which the conditions are true: how many of the first columns have
    /// one value in it, and whether they bound the next one. `None` if the conditions say more, or something else.
    pub(crate) fn exact_range(
        &self,
        key: &Key,
        types: &[DataType],
        schema: &SchemaRef,
    ) -> Option<(usize, bool, KeyRange)> {
        // Each part has said one thing, and each thing is about one of the columns.
        if self.facts.len() != self.parts.len() || key.computed.is_some() {
            return None;
        }
        let subjects = self.subjects(key, schema)?;
        let (mut equal, mut used, mut is_bounded) = (0, 0, false);
        for (subject, data_type) in subjects.iter().zip(types) {
            let said = self.said_of(subject, data_type);
            let about = self.facts.iter().filter(|fact| subject.is(fact.subject)).count();
            if said.len() != about || data_type.is_floating() && about > 0 {
                return None;
            }
            used += about;
            let is_one = |says: &Says| matches!(says, Says::OneOf(values) if values.len() == 1);
            let is_bound = |says: &Says| matches!(says, Says::From { .. } | Says::To { .. });
            if about == 1 && is_one(&said[0]) {
                equal += 1;
                continue;
            }
            is_bounded = about > 0 && said.iter().all(is_bound);
            break;
        }
        if used != self.facts.len() || used != equal && !is_bounded {
            return None;
        }
        let [range] = self.ranges(key, types, schema)?.try_into().ok()?;
        let is_cut = |bound: &Bound| bound.bytes.len() >= LONG_KEY_BYTES;
        (!is_cut(&range.from) && !is_cut(&range.to)).then_some((equal, is_bounded, range))
    }

    /// All keys.
    pub(crate) fn whole_range() -> KeyRange {
        KeyRange { from: bound(Vec::new(), false, false), to: bound(Vec::new(), true, true) }
    }

    /// A range of keys whose first columns have one value, without those whose next one is NULL.
    pub(crate) fn without_nulls(range: KeyRange, is_bounded: bool) -> KeyRange {
        match is_bounded {
            true => range,
            false => {
                let end = [range.from.bytes.as_slice(), &[NULL]].concat();
                KeyRange { to: bound(end, false, true), ..range }
            }
        }
    }

    /// What the key's columns are; `None` if the conditions do not say that the index has the rows.
    fn subjects(&self, key: &Key, schema: &SchemaRef) -> Option<Vec<ConditionSubject>> {
        let Some(computed) = &key.computed else {
            return key.columns.iter().map(|name| schema.index_of(name).ok().map(ConditionSubject::Column)).collect();
        };
        let function = &computed.function;
        if let Some(condition) = function.condition() {
            let condition = of_table(condition, schema).ok()?;
            let mut needed = Vec::new();
            take_apart(&condition, &mut needed);
            if !needed.into_iter().all(|needed| self.implies(needed)) {
                return None;
            }
        }
        let subjects = function.expressions().iter().map(|expression| {
            let expression = of_table(expression, schema).ok()?;
            Some(match expression.downcast_ref::<Column>() {
                Some(column) => ConditionSubject::Column(column.index()),
                None => ConditionSubject::Computed(expression),
            })
        });
        subjects.collect()
    }

    /// Whether a condition is true wherever these are, as far as it can be seen.
    fn implies(&self, needed: &Arc<dyn PhysicalExpr>) -> bool {
        if self.parts.iter().any(|part| is_same(part, needed)) {
            return true;
        }
        // What is compared is not NULL.
        needed.downcast_ref::<IsNotNullExpr>().is_some_and(|needed| {
            let is_compared =
                |fact: &&Fact<'_>| is_same(fact.subject, needed.arg()) && !matches!(fact.says, Says::Null);
            self.facts.iter().any(|fact| is_compared(&fact))
        })
    }

    fn said_of(&self, subject: &ConditionSubject, data_type: &DataType) -> Vec<Says> {
        self.facts
            .iter()
            .filter(|fact| subject.is(fact.subject))
            .filter_map(|fact| fact.says.fitted(data_type))
            .collect()
    }
}

/// What a key has in one of its columns.
enum ConditionSubject {
    /// A column of the table, by its place.
    Column(usize),
    /// What is computed from the table's columns.
    Computed(Arc<dyn PhysicalExpr>),
}

impl ConditionSubject {
    fn is(&self, other: &Arc<dyn PhysicalExpr>) -> bool {
        match self {
            Self::Computed(expression) => is_same(expression, other),
            Self::Column(place) => {
                let is_it = |other: &Arc<dyn PhysicalExpr>| {
                    other.downcast_ref::<Column>().is_some_and(|column| column.index() == *place)
                };
                // An integer is compared with a wider one.
                is_it(other)
                    || other
                        .downcast_ref::<CastExpr>()
                        .is_some_and(|cast| cast.cast_type().is_signed_integer() && is_it(cast.expr()))
            }
        }
    }
}

impl Says {
    /// The same of values of a type; `None` if they cannot be compared with it.
    fn fitted(&self, data_type: &DataType) -> Option<Self> {
        let fit = |value: &ScalarValue| fitted(value, data_type);
        Some(match self {
            Self::OneOf(values) => {
                let present = values.iter().filter(|value| !value.is_null());
                // What does not fit is equal to nothing, where both are integers.
                let both = |own: DataType| own.is_signed_integer() && data_type.is_signed_integer();
                let fits = |value: &&ScalarValue| fit(value).is_some() || !both(value.data_type());
                Self::OneOf(present.filter(fits).map(fit).collect::<Option<_>>()?)
            }
            // There are two zeros, which an index does not tell apart.
            Self::From { value, is_strict } => {
                Self::From { value: fit(value)?, is_strict: *is_strict && !data_type.is_floating() }
            }
            Self::To { value, is_strict } => {
                Self::To { value: fit(value)?, is_strict: *is_strict && !data_type.is_floating() }
            }
            Self::BeginsWith(..) if *data_type != DataType::Utf8View => return None,
            Self::BeginsWith(..) | Self::Null => self.clone(),
        })
    }
}

/// A value of another type that is the same, if there is one.
fn fitted(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    let own = value.data_type();
    if own == *data_type {
        return (!value.is_null()).then(|| value.clone());
    }
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_alike = own.is_signed_integer() && data_type.is_signed_integer() || is_text(&own) && is_text(data_type);
    let fitted = value.cast_to(data_type).ok().filter(|fitted| is_alike && !fitted.is_null())?;
    (fitted.cast_to(&own).ok()? == *value).then_some(fitted)
}

/// Whether the order of a type's values as keys is that of comparisons.
fn has_order(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Utf8View
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    ) || data_type.is_integer()
        || data_type.is_floating()
}

fn take_apart<'a>(condition: &'a Arc<dyn PhysicalExpr>, parts: &mut Vec<&'a Arc<dyn PhysicalExpr>>) {
    match condition.downcast_ref::<BinaryExpr>() {
        Some(both) if *both.op() == Operator::And => {
            take_apart(both.left(), parts);
            take_apart(both.right(), parts);
        }
        _ => parts.push(condition),
    }
}

fn facts(part: &Arc<dyn PhysicalExpr>) -> Vec<Fact<'_>> {
    let literal = |expression: &Arc<dyn PhysicalExpr>| expression.downcast_ref::<Literal>().map(|l| l.value().clone());
    if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
        if *binary.op() == Operator::Or {
            return one_of(binary).into_iter().collect();
        }
        let (subject, value, operator) = match (literal(binary.left()), literal(binary.right())) {
            (None, Some(value)) => (binary.left(), value, *binary.op()),
            (Some(value), None) => match binary.op().swap() {
                Some(operator) => (binary.right(), value, operator),
                None => return vec![],
            },
            _ => return vec![],
        };
        let says = match operator {
            Operator::Eq => Says::OneOf(vec![value]),
            Operator::Gt | Operator::GtEq => Says::From { value, is_strict: operator == Operator::Gt },
            Operator::Lt | Operator::LtEq => Says::To { value, is_strict: operator == Operator::Lt },
            Operator::IsNotDistinctFrom if value.is_null() => Says::Null,
            Operator::IsNotDistinctFrom => Says::OneOf(vec![value]),
            _ => return vec![],
        };
        return vec![Fact { subject, says }];
    }
    if let Some(list) = part.downcast_ref::<InListExpr>() {
        let values = list.list().iter().map(literal).collect::<Option<Vec<_>>>().filter(|_| !list.negated());
        return values.map(|values| Fact { subject: list.expr(), says: Says::OneOf(values) }).into_iter().collect();
    }
    if let Some(null) = part.downcast_ref::<IsNullExpr>() {
        return vec![Fact { subject: null.arg(), says: Says::Null }];
    }
    if let Some(like) = part.downcast_ref::<LikeExpr>()
        && !like.negated()
        && !like.case_insensitive()
        && let Some(pattern) = literal(like.pattern())
        && let Some(Some(pattern)) = pattern.try_as_str()
    {
        return beginning(pattern).map(|says| Fact { subject: like.expr(), says }).into_iter().collect();
    }
    vec![]
}

/// Alternatives that all say which value one thing has.
fn one_of(either: &BinaryExpr) -> Option<Fact<'_>> {
    let [left, right] = [either.left(), either.right()].map(|side| facts(side).pop());
    match (left?, right?) {
        (Fact { subject, says: Says::OneOf(mut values) }, Fact { subject: other, says: Says::OneOf(others) })
            if is_same(subject, other) =>
        {
            values.extend(others);
            Some(Fact { subject, says: Says::OneOf(values) })
        }
        _ => None,
    }
}

/// What a pattern of LIKE says of all texts that fit it; `None` if nothing.
fn beginning(pattern: &str) -> Option<Says> {
    let mut text = String::new();
    let mut characters = pattern.chars();
    let mut is_all = true;
    while let Some(character) = characters.next() {
        match character {
            '%' | '_' => {
                is_all = false;
                break;
            }
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
    if is_all {
        return Some(Says::OneOf(vec![ScalarValue::Utf8View(Some(text))]));
    }
    (!text.is_empty()).then(|| {
        let next = successor(&text);
        Says::BeginsWith(text, next)
    })
}

/// The least text that is behind all that begin with this one, if there is one. Texts are in the order of their bytes,
/// which is that of their characters.
fn successor(text: &str) -> Option<String> {
    let mut before = text.to_owned();
    while let Some(last) = before.pop() {
        if let Some(next) = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32) {
            before.push(next);
            return Some(before);
        }
    }
    None
}

/// The range of keys that begin with these values, and of whose next one all this is said.
fn within(said: &[Says], types: &[DataType], before: &[ScalarValue], prefix: Vec<u8>) -> Option<KeyRange> {
    // NULLs come last, and no comparison is true of them.
    let end = [prefix.as_slice(), &[NULL]].concat();
    let mut range = KeyRange { from: bound(prefix, false, false), to: bound(end, false, true) };
    let at = |value: ScalarValue, is_behind: bool, is_end: bool| {
        let values = before.iter().cloned().chain([value]).collect();
        let bytes = encoded(types, &[values])?.pop()?;
        Some(bound(bytes, is_behind, is_end))
    };
    let text = |text: &String| ScalarValue::Utf8View(Some(text.clone()));
    for says in said {
        let (from, to) = match says {
            Says::From { value, is_strict } => (Some(at(value.clone(), *is_strict, false)?), None),
            Says::To { value, is_strict } => (None, Some(at(value.clone(), !*is_strict, true)?)),
            Says::BeginsWith(first, next) => {
                let next = next.as_ref().map(|next| at(text(next), false, true).ok_or(()));
                (Some(at(text(first), false, false)?), next.transpose().ok()?)
            }
            // More values than there may be ranges: from the first to the last.
            Says::OneOf(values) => {
                let all =
                    values.iter().map(|value| encoded(types, &[[before, std::slice::from_ref(value)].concat()])?.pop());
                let all = all.collect::<Option<Vec<_>>>()?;
                let (first, last) = (all.iter().min()?.clone(), all.iter().max()?.clone());
                (Some(bound(first, false, false)), Some(bound(last, true, true)))
            }
            Says::Null => return None,
        };
        if let Some(from) = from.filter(|from| order(from) > order(&range.from)) {
            range.from = from;
        }
        if let Some(to) = to.filter(|to| order(to) < order(&range.to)) {
            range.to = to;
        }
    }
    Some(range)
}

fn order(bound: &Bound) -> (&[u8], bool) {
    (&bound.bytes, bound.is_behind)
}

/// A bound of a range. What is too long for an index is cut, so that the range has no row less.
fn bound(mut bytes: Vec<u8>, is_behind: bool, is_end: bool) -> Bound {
    if bytes.len() <= LONG_KEY_BYTES {
        return Bound { bytes, is_behind };
    }
    bytes.truncate(LONG_KEY_BYTES);
    Bound { bytes, is_behind: is_end }
}

/// Rows of values as bytes of a key.
fn encoded(types: &[DataType], rows: &[Vec<ScalarValue>]) -> Option<Vec<Vec<u8>>> {
    if types.is_empty() {
        return Some(vec![Vec::new(); rows.len()]);
    }
    if rows.is_empty() {
        return Some(Vec::new());
    }
    let column = |place: usize| -> Option<ArrayRef> {
        let values = rows.iter().map(|row| row[place].clone());
        Some(comparable(&ScalarValue::iter_to_array(values).ok()?))
    };
    let columns = (0..types.len()).map(column).collect::<Option<Vec<_>>>()?;
    let encoded = converter(types).ok()?.convert_columns(&columns).ok()?;
    Some(encoded.iter().map(|row| row.data().to_vec()).collect())
}

/// Whether two expressions compute the same: their form is the same, and so is the time zone of their functions.
fn is_same(left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>) -> bool {
    let (own, others) = (left.children(), right.children());
    if own.len() != others.len() || !own.iter().zip(&others).all(|(left, right)| is_same(left, right)) {
        return false;
    }
    if let (Some(left), Some(right)) =
        (left.downcast_ref::<ScalarFunctionExpr>(), right.downcast_ref::<ScalarFunctionExpr>())
    {
        let zone = |call: &ScalarFunctionExpr| call.config_options().execution.time_zone.clone();
        return left.fun() == right.fun() && zone(left) == zone(right);
    }
    // Of the same inputs, only what is done with them is compared.
    let others = others.into_iter().cloned().collect();
    left.clone().with_new_children(others).is_ok_and(|left| &left == right)
}

/// An expression over an index's own columns, over those of the table.
fn of_table(expression: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = expression.clone().transform(|expression| {
        let Some(column) = expression.downcast_ref::<Column>() else { return Ok(Transformed::no(expression)) };
        let place = schema.index_of(column.name())?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
    });
    moved.map(|moved| moved.data).map_err(from_datafusion)
}
