//! Zone maps: what is known of the values in a zone of a table (a file, a row group, a cluster, a window, a fragment)
//! decides whether a condition may be true for one of its rows.
//!
//! A condition is judged for all zones at once. A part of it that has values is the range in which they lie; a part
//! that is a condition is what it may be: true, false, NULL. Of what nothing is known everything is possible, so that
//! a zone is left out only if none of its rows can be wanted.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Not;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar, StringArray, UInt64Array, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{CastOptions, SortOptions, cast_with_options, sort};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

/// How deep conditions are looked into; chains of AND and of OR count once.
const DEPTH_MAX: usize = 64;

/// What is known of a table's zones. Columns are those of the table's schema, by their places. An array has one value
/// for each zone.
pub trait ZoneMap {
    /// How many zones there are.
    fn zones(&self) -> usize;

    /// No value of a column is less; NULL where nothing is known, `None` where nothing is known of any zone.
    fn least(&self, column: usize) -> Option<ArrayRef>;

    /// No value of a column is greater; NULL where nothing is known, `None` where nothing is known of any zone.
    fn greatest(&self, column: usize) -> Option<ArrayRef>;

    /// How many NULLs a column has; NULL where nothing is known, `None` where nothing is known of any zone.
    fn nulls(&self, column: usize) -> Option<UInt64Array>;

    /// How many rows there are; NULL where nothing is known, `None` where nothing is known of any zone.
    fn rows(&self) -> Option<UInt64Array>;

    /// In which zones a column surely has none of some values, for maps that know more than bounds (Bloom filters).
    fn lacks(&self, _column: usize, _values: &[ScalarValue]) -> Option<BooleanBuffer> {
        None
    }
}

/// For each zone whether a condition over a table's columns may be true for one of its rows; `None` if it may in all
/// zones, or if nothing can be said.
pub fn may_be_true(
    condition: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    map: &(impl ZoneMap + ?Sized),
) -> Option<Vec<bool>> {
    let zones = map.zones();
    if zones == 0 {
        return None;
    }
    let judge = Judge { schema, map, zones, columns: RefCell::default() };
    let yes = judge.outcomes(condition, 0).yes;
    (yes.count_set_bits() < zones).then(|| yes.iter().collect())
}

/// What a condition may be for the rows of each zone.
#[derive(Clone)]
struct Outcomes {
    yes: BooleanBuffer,
    no: BooleanBuffer,
    null: BooleanBuffer,
}

/// Where the values of an expression lie, in each zone.
#[derive(Clone)]
struct Range {
    /// The bounds: one for each zone, or one for all if it is a constant.
    bounds: Option<(ArrayRef, ArrayRef)>,
    is_constant: bool,
    /// Whether there may be NULLs.
    null: BooleanBuffer,
    /// Whether there may be other values.
    value: BooleanBuffer,
}

struct Judge<'a, M: ?Sized> {
    schema: &'a SchemaRef,
    map: &'a M,
    zones: usize,
    /// The ranges of columns that were asked for.
    columns: RefCell<HashMap<usize, Range>>,
}

impl Outcomes {
    fn unknown(zones: usize) -> Self {
        let all = BooleanBuffer::new_set(zones);
        Self { yes: all.clone(), no: all.clone(), null: all }
    }

    fn not(self) -> Self {
        Self { yes: self.no, no: self.yes, null: self.null }
    }

    fn and(&self, other: &Self) -> Self {
        let null = &(&self.null & &(&other.yes | &other.null)) | &(&other.null & &self.yes);
        Self { yes: &self.yes & &other.yes, no: &self.no | &other.no, null }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(&other.not()).not()
    }
}

impl<M: ZoneMap + ?Sized> Judge<'_, M> {
    fn none(&self) -> BooleanBuffer {
        BooleanBuffer::new_unset(self.zones)
    }

    fn all(&self) -> BooleanBuffer {
        BooleanBuffer::new_set(self.zones)
    }

    /// What a condition may be.
    fn outcomes(&self, condition: &Arc<dyn PhysicalExpr>, depth: usize) -> Outcomes {
        let unknown = || Outcomes::unknown(self.zones);
        if depth > DEPTH_MAX {
            return unknown();
        }
        if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
            match binary.op() {
                Operator::And | Operator::Or => {
                    let is_and = *binary.op() == Operator::And;
                    let terms = terms(condition, *binary.op()).into_iter();
                    let terms = terms.map(|term| self.outcomes(term, depth + 1));
                    let joined = terms.reduce(|one, other| if is_and { one.and(&other) } else { one.or(other) });
                    return joined.unwrap_or_else(unknown);
                }
                operator => {
                    let (left, right) = (self.range(binary.left(), depth + 1), self.range(binary.right(), depth + 1));
                    let mut outcomes = self.compared(*operator, &left, &right);
                    if *operator == Operator::Eq {
                        let sides = [(binary.left(), binary.right()), (binary.right(), binary.left())];
                        for (one, other) in sides {
                            if let (Some(column), Some(value)) = (self.column(one), literal(other))
                                && let Some(lacks) = self.map.lacks(column, std::slice::from_ref(value))
                            {
                                outcomes.yes = &outcomes.yes & &lacks.not();
                            }
                        }
                    }
                    return outcomes;
                }
            }
        }
        if let Some(not) = condition.downcast_ref::<NotExpr>() {
            return self.outcomes(not.arg(), depth + 1).not();
        }
        if let Some(test) = condition.downcast_ref::<IsNullExpr>() {
            return self.is_null(test.arg(), depth);
        }
        if let Some(test) = condition.downcast_ref::<IsNotNullExpr>() {
            return self.is_null(test.arg(), depth).not();
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return self.listed(list, depth).unwrap_or_else(unknown);
        }
        if let Some(like) = condition.downcast_ref::<LikeExpr>() {
            return self.like(like, depth).unwrap_or_else(unknown);
        }
        // A column or a constant that is true or false.
        let Some(Range { bounds: Some((least, greatest)), is_constant, null, value }) =
            self.value(condition, depth + 1)
        else {
            return unknown();
        };
        if *least.data_type() != DataType::Boolean || *greatest.data_type() != DataType::Boolean {
            return unknown();
        }
        let is = |bounds: &ArrayRef, wanted: bool| {
            let bounds = bounds.as_boolean();
            let at = |zone: usize| {
                let zone = if is_constant { 0 } else { zone };
                bounds.is_null(zone) || bounds.value(zone) == wanted
            };
            &BooleanBuffer::collect_bool(self.zones, at) & &value
        };
        Outcomes { yes: is(&greatest, true), no: is(&least, false), null }
    }

    fn is_null(&self, input: &Arc<dyn PhysicalExpr>, depth: usize) -> Outcomes {
        let range = self.range(input, depth + 1);
        Outcomes { yes: range.null, no: range.value, null: self.none() }
    }

    /// Where an expression's values lie, of a condition too.
    fn range(&self, expression: &Arc<dyn PhysicalExpr>, depth: usize) -> Range {
        if let Some(range) = self.value(expression, depth) {
            return range;
        }
        let Outcomes { yes, no, null } = self.outcomes(expression, depth);
        Range { bounds: None, is_constant: false, null, value: &yes | &no }
    }

    /// The range of an expression that is no condition of its own.
    fn value(&self, expression: &Arc<dyn PhysicalExpr>, depth: usize) -> Option<Range> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(column) = self.column(expression) {
            return Some(self.column_range(column));
        }
        if let Some(value) = literal(expression) {
            let (null, some) = if value.is_null() { (self.all(), self.none()) } else { (self.none(), self.all()) };
            let array = value.to_array().ok().filter(|array| is_ordered(array.data_type()));
            let bounds = array.map(|array| (zeros_alike(array.clone()), zeros_alike(array)));
            return Some(Range { bounds, is_constant: true, null, value: some });
        }
        let cast = expression.downcast_ref::<CastExpr>()?;
        let mut range = self.value(cast.expr(), depth + 1)?;
        range.bounds = range.bounds.and_then(|(least, greatest)| {
            if !keeps_order(least.data_type(), cast.cast_type()) {
                return None;
            }
            // A bound that does not fit is none.
            let cast = |bounds| cast_with_options(&bounds, cast.cast_type(), &CastOptions::default()).ok();
            Some((cast(least)?, cast(greatest)?))
        });
        Some(range)
    }

    fn column(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        self.schema.index_of(expression.downcast_ref::<Column>()?.name()).ok()
    }

    fn column_range(&self, column: usize) -> Range {
        if let Some(range) = self.columns.borrow().get(&column) {
            return range.clone();
        }
        let (nulls, rows) = (self.map.nulls(column), self.map.rows());
        let at = |counts: &Option<UInt64Array>, zone: usize| {
            counts
                .as_ref()
                .filter(|counts| counts.len() == self.zones && counts.is_valid(zone))
                .map(|counts| counts.value(zone))
        };
        let null = BooleanBuffer::collect_bool(self.zones, |zone| at(&nulls, zone).is_none_or(|nulls| nulls > 0));
        let value = BooleanBuffer::collect_bool(self.zones, |zone| match (at(&nulls, zone), at(&rows, zone)) {
            (Some(nulls), Some(rows)) => nulls < rows,
            _ => true,
        });
        let fits = |bounds: &ArrayRef| bounds.len() == self.zones && is_ordered(bounds.data_type());
        let bounds = match (self.map.least(column), self.map.greatest(column)) {
            (Some(least), Some(greatest)) if fits(&least) && fits(&greatest) => {
                Some((zeros_alike(least), zeros_alike(greatest)))
            }
            _ => None,
        };
        let range = Range { bounds, is_constant: false, null, value };
        self.columns.borrow_mut().insert(column, range.clone());
        range
    }

    /// What a comparison of two expressions may be.
    fn compared(&self, operator: Operator, left: &Range, right: &Range) -> Outcomes {
        let both = &left.value & &right.value;
        let one_null = &(&left.null & &(&right.null | &right.value)) | &(&right.null & &left.value);
        let of = |yes: BooleanBuffer, no: BooleanBuffer| Outcomes {
            yes: &yes & &both,
            no: &no & &both,
            null: one_null.clone(),
        };
        let compare = |kernel: Kernel, one: Side, other: Side| {
            let unknown = || self.all();
            let (Some(left_bounds), Some(right_bounds)) = (&left.bounds, &right.bounds) else { return unknown() };
            let (one, other) = (one(left_bounds), other(right_bounds));
            self.possible(kernel, (one, left.is_constant), (other, right.is_constant)).unwrap_or_else(unknown)
        };
        let least: Side = |bounds| &bounds.0;
        let greatest: Side = |bounds| &bounds.1;
        // Equal values: the ranges meet. Other values: unless both ranges are the same single value.
        let meet = || &compare(cmp::lt_eq, least, greatest) & &compare(cmp::gt_eq, greatest, least);
        let differ = || &compare(cmp::lt, least, greatest) | &compare(cmp::gt, greatest, least);
        match operator {
            Operator::Lt => of(compare(cmp::lt, least, greatest), compare(cmp::gt_eq, greatest, least)),
            Operator::LtEq => of(compare(cmp::lt_eq, least, greatest), compare(cmp::gt, greatest, least)),
            Operator::Gt => of(compare(cmp::gt, greatest, least), compare(cmp::lt_eq, least, greatest)),
            Operator::GtEq => of(compare(cmp::gt_eq, greatest, least), compare(cmp::lt, least, greatest)),
            Operator::Eq => of(meet(), differ()),
            Operator::NotEq => of(differ(), meet()),
            Operator::IsNotDistinctFrom | Operator::IsDistinctFrom => {
                let Outcomes { yes, no, .. } = of(meet(), differ());
                let yes = &yes | &(&left.null & &right.null);
                let no = &no | &(&(&left.null & &right.value) | &(&right.null & &left.value));
                let outcomes = Outcomes { yes, no, null: self.none() };
                if operator == Operator::IsDistinctFrom { outcomes.not() } else { outcomes }
            }
            _ => Outcomes::unknown(self.zones),
        }
    }

    /// In which zones a comparison of bounds holds, or a bound is not known. `None` if these cannot be compared.
    fn possible(
        &self,
        kernel: Kernel,
        (left, is_left_constant): (&ArrayRef, bool),
        (right, is_right_constant): (&ArrayRef, bool),
    ) -> Option<BooleanBuffer> {
        let (left, right) = aligned(left, right)?;
        let compared = match (is_left_constant, is_right_constant) {
            (false, false) => kernel(&left, &right),
            (true, false) => kernel(&Scalar::new(left), &right),
            (false, true) => kernel(&left, &Scalar::new(right)),
            (true, true) => {
                let compared = kernel(&left, &right).ok()?;
                let holds = compared.is_null(0) || compared.value(0);
                return Some(if holds { self.all() } else { self.none() });
            }
        };
        let compared = compared.ok().filter(|compared| compared.len() == self.zones)?;
        Some(match compared.nulls() {
            None => compared.values().clone(),
            Some(known) => compared.values() | &known.inner().not(),
        })
    }

    /// IN and NOT IN of constants.
    fn listed(&self, list: &InListExpr, depth: usize) -> Option<Outcomes> {
        let values = list.list().iter().map(literal).collect::<Option<Vec<_>>>()?;
        if values.is_empty() {
            // Nothing is in an empty list, whatever it is.
            let outcomes = Outcomes { yes: self.none(), no: self.all(), null: self.none() };
            return Some(if list.negated() { outcomes.not() } else { outcomes });
        }
        let range = self.value(list.expr(), depth + 1)?;
        let has_null = values.iter().any(|value| value.is_null());
        let values = values.into_iter().filter(|value| !value.is_null()).cloned().collect::<Vec<_>>();
        let (mut yes, mut no) = (self.none(), self.all());
        if !values.is_empty() {
            (yes, no) = self.among(&values, &range).unwrap_or_else(|| (self.all(), self.all()));
            if let Some(lacks) = self.column(list.expr()).and_then(|column| self.map.lacks(column, &values)) {
                yes = &yes & &lacks.not();
            }
        }
        let (yes, no) = (&yes & &range.value, &no & &range.value);
        // A value that is none of them may be the one that is not known.
        let outcomes = match has_null {
            true => Outcomes { yes, null: &range.null | &no, no: self.none() },
            false => Outcomes { yes, no, null: range.null },
        };
        Some(if list.negated() { outcomes.not() } else { outcomes })
    }

    /// In which zones a range may have one of some values, and in which another.
    fn among(&self, values: &[ScalarValue], range: &Range) -> Option<(BooleanBuffer, BooleanBuffer)> {
        let (least, greatest) = range.bounds.as_ref().filter(|_| !range.is_constant)?;
        let values = ScalarValue::iter_to_array(values.iter().cloned()).ok()?;
        let (least, values_of_least) = aligned(least, &values)?;
        let (greatest, values) = aligned(greatest, &values)?;
        if values_of_least.data_type() != values.data_type() {
            return None;
        }
        let values = sort(&zeros_alike(values), None).ok()?;
        let options = SortOptions::default();
        let (below, above) =
            (make_comparator(&values, &least, options).ok()?, make_comparator(&values, &greatest, options).ok()?);
        let places = (0..values.len()).collect::<Vec<_>>();
        let is_one = |zone: usize| {
            let first = match least.is_null(zone) {
                true => 0,
                false => places.partition_point(|place| below(*place, zone) == Ordering::Less),
            };
            first < places.len() && (greatest.is_null(zone) || above(first, zone) != Ordering::Greater)
        };
        let is_other = |zone: usize| {
            let is_single = least.is_valid(zone) && greatest.is_valid(zone) && {
                let first = places.partition_point(|place| below(*place, zone) == Ordering::Less);
                first < places.len() && below(first, zone).is_eq() && above(first, zone).is_eq()
            };
            !is_single
        };
        Some((BooleanBuffer::collect_bool(self.zones, is_one), BooleanBuffer::collect_bool(self.zones, is_other)))
    }

    /// LIKE whose pattern begins with characters that stand for themselves.
    fn like(&self, like: &LikeExpr, depth: usize) -> Option<Outcomes> {
        if like.case_insensitive() {
            return None;
        }
        let pattern = match literal(like.pattern())? {
            ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                text
            }
            _ => return None,
        };
        let prefix = pattern.split(['%', '_', '\\']).next().unwrap_or_default();
        let range = self.value(like.expr(), depth + 1)?;
        let (least, greatest) = range.bounds.as_ref().filter(|_| !range.is_constant && !prefix.is_empty())?;
        let text = |bounds: &ArrayRef| cast_with_options(bounds, &DataType::Utf8, &CastOptions::default()).ok();
        if !is_text(least.data_type()) || !is_text(greatest.data_type()) {
            return None;
        }
        let (least, greatest) = (text(least)?, text(greatest)?);
        let (least, greatest) = (least.as_string::<i32>(), greatest.as_string::<i32>());
        let known = |bounds: &StringArray, zone: usize| bounds.is_valid(zone).then(|| bounds.value(zone).to_owned());
        let yes = BooleanBuffer::collect_bool(self.zones, |zone| {
            // A text with the prefix is not less than it, and is less than all that are greater and do not have it.
            let is_below = known(greatest, zone).is_some_and(|greatest| greatest.as_str() < prefix);
            let is_above =
                known(least, zone).is_some_and(|least| least.as_str() > prefix && !least.starts_with(prefix));
            !is_below && !is_above
        });
        let is_prefix_alone = pattern.len() == prefix.len() + 1 && pattern.ends_with('%');
        let no = BooleanBuffer::collect_bool(self.zones, |zone| {
            let begins = |bound: Option<String>| bound.is_some_and(|bound| bound.starts_with(prefix));
            !(is_prefix_alone && begins(known(least, zone)) && begins(known(greatest, zone)))
        });
        let outcomes = Outcomes { yes: &yes & &range.value, no: &no & &range.value, null: range.null };
        Some(if like.negated() { outcomes.not() } else { outcomes })
    }
}

/// One of two bounds.
type Side = fn(&(ArrayRef, ArrayRef)) -> &ArrayRef;

type Kernel = fn(&dyn arrow::array::Datum, &dyn arrow::array::Datum) -> Result<BooleanArray, ArrowError>;

/// The terms of a chain of AND or of OR.
fn terms(condition: &Arc<dyn PhysicalExpr>, operator: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let (mut open, mut terms) = (vec![condition], Vec::new());
    while let Some(next) = open.pop() {
        match next.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == operator => open.extend([binary.right(), binary.left()]),
            _ => terms.push(next),
        }
    }
    terms
}

fn literal(expression: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expression.downcast_ref::<Literal>().map(Literal::value)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether the order of a type's values is that of their arrays.
fn is_ordered(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::Interval(_) | DataType::Dictionary(..) | DataType::Null)
}

/// Floats in which both zeros are one, as they are for comparisons.
fn zeros_alike(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|number| number + 0.0))
        }
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|number| number + 0.0))
        }
        _ => array,
    }
}

/// Whether a cast makes of a lesser value no greater one. Floats do not count: theirs have no place for NaN.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    let is_exact = |data_type: &DataType| data_type.is_integer() || is_decimal(data_type);
    let is_moment = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Timestamp(_, None));
    from == to
        || is_exact(from) && (is_exact(to) || to.is_floating())
        || is_text(from) && is_text(to)
        || is_moment(from) && is_moment(to)
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Both in one type in which they compare as they are; `None` if there is none.
fn aligned(left: &ArrayRef, right: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let (one, other) = (left.data_type(), right.data_type());
    if one == other {
        return Some((left.clone(), right.clone()));
    }
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
        data_type if data_type.is_integer() => Some(0),
        _ => None,
    };
    let common = if is_text(one) && is_text(other) {
        DataType::Utf8View
    } else {
        DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale(one)?.max(scale(other)?))
    };
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |array| cast_with_options(array, &common, &strict).ok();
    Some((cast(left)?, cast(right)?))
}
