//! Aggregates that are functions of the array of a group's values, or of their count and sums: JSON's, of ranges,
//! histograms, products, moments.

use diligence_base::{Error, Result};
use diligence_types::SqlType;

use super::aggregates::Call;
use super::operators::{Way, record};
use super::{Binder, unsupported};
use crate::algebra::{AggregateItem, Constant, Scalar, SortKey};

/// Puts an item where it belongs and gives its column.
type Place<'p> = &'p dyn Fn(AggregateItem, bool) -> Scalar;

impl Binder<'_> {
    /// An aggregate of this family. Fails with 0A000 for another name.
    pub(super) fn made(&self, name: &str, arguments: Vec<Scalar>, parts: &Call, place: Place<'_>) -> Result<Scalar> {
        if let [first, more @ ..] = arguments.as_slice()
            && let Some(made) = self.of_duckdb_alone(name, first, more, parts, place)?
        {
            return Ok(made);
        }
        let mut arguments = arguments.into_iter();
        let first = arguments.next().ok_or_else(|| Error::bug("an aggregate without an argument"))?;
        let second = arguments.next();
        match (name, second) {
            ("json_agg" | "jsonb_agg" | "json_group_array", None) => {
                let is_binary = name == "jsonb_agg";
                // Arrays of arrays would have to be of one length.
                let value = match first.sql_type() {
                    SqlType::Array(_) => self.call(if is_binary { "to_jsonb" } else { "to_json" }, vec![first])?,
                    _ => first,
                };
                let values = self.collected(value, parts, place)?;
                self.call(if is_binary { "jsonb_of_values" } else { "json_of_values" }, vec![values])
            }
            ("json_object_agg" | "jsonb_object_agg" | "json_group_object", Some(value)) => {
                let pair = record(vec![first, value], ["key".to_owned(), "value".to_owned()].into_iter());
                let pairs = self.collected(pair, parts, place)?;
                let function = if name == "jsonb_object_agg" { "jsonb_of_pairs" } else { "json_of_pairs" };
                self.call(function, vec![pairs])
            }
            (
                "histogram"
                | "product"
                | "entropy"
                | "mad"
                | "range_agg"
                | "range_intersect_agg"
                | "bit_and"
                | "bit_or"
                | "bit_xor",
                None,
            ) => {
                let values = self.collected(first, parts, place)?;
                self.call(&format!("{name}_of_values"), vec![values])
            }
            ("approx_top_k", Some(count)) => {
                let values = self.collected(first, parts, place)?;
                self.call("top_of_values", vec![values, count])
            }
            ("min" | "max", Some(count)) => {
                let key = SortKey { scalar: first.clone(), descending: name == "max", nulls_first: false };
                let is_there = Scalar::IsNull(Box::new(first.clone())).negate();
                let filter = Some(Scalar::all([is_there].into_iter().chain(parts.filter.clone())));
                let is_distinct = parts.is_distinct;
                let ordered = Call { arguments: vec![], is_distinct, filter, order: vec![key], is_within_group: false };
                let values = self.collected(first, &ordered, place)?;
                let one = Scalar::Constant(Constant::integer(1));
                let count = self.cast(count, &SqlType::Integer, Way::Explicit)?;
                self.call("array_slice", vec![values, one, count])
            }
            ("max_by_some" | "min_by_some", Some(by)) => {
                let count = arguments.next().ok_or_else(|| Error::bug("three arguments are three"))?;
                let key = SortKey { scalar: by.clone(), descending: name == "max_by_some", nulls_first: false };
                let is_there = |scalar: &Scalar| Scalar::IsNull(Box::new(scalar.clone())).negate();
                let are_there = [is_there(&first), is_there(&by)];
                let filter = Some(Scalar::all(are_there.into_iter().chain(parts.filter.clone())));
                let order = vec![key];
                let ordered = Call { arguments: vec![], is_distinct: false, filter, order, is_within_group: false };
                let values = self.collected(first, &ordered, place)?;
                let one = Scalar::Constant(Constant::integer(1));
                let count = self.cast(count, &SqlType::Integer, Way::Explicit)?;
                self.call("array_slice", vec![values, one, count])
            }
            ("string_agg" | "group_concat" | "listagg", by) => {
                let first = self.explicit(first, &SqlType::Text, false)?;
                let by = by.unwrap_or_else(|| Scalar::Constant(Constant::text(",")));
                self.ordered_aggregate("string_agg", vec![first, by], parts, place)
            }
            ("fsum" | "kahan_sum" | "sumkahan", None) => self.ordered_aggregate("sum", vec![first], parts, place),
            ("favg" | "mean", None) => self.ordered_aggregate("avg", vec![first], parts, place),
            ("geomean" | "geometric_mean", None) => {
                let logarithm = self.call("ln", vec![first])?;
                let mean = self.ordered_aggregate("avg", vec![logarithm], parts, place)?;
                self.call("exp", vec![mean])
            }
            ("sem", None) => {
                let deviation = self.ordered_aggregate("stddev_pop", vec![first.clone()], parts, place)?;
                let count = self.ordered_aggregate("count", vec![first], parts, place)?;
                let root = self.call("sqrt", vec![self.cast(count, &SqlType::Double, Way::Explicit)?])?;
                self.operator("/", vec![deviation, root])
            }
            ("count_if" | "countif", None) => {
                let filter = Some(Scalar::all([first.clone()].into_iter().chain(parts.filter.clone())));
                let is_distinct = parts.is_distinct;
                let counted = Call { arguments: vec![], is_distinct, filter, order: vec![], is_within_group: false };
                self.ordered_aggregate("count", vec![first], &counted, place)
            }
            ("skewness" | "kurtosis" | "kurtosis_pop", None) => self.moments(name, first, parts, place),
            _ => Err(unsupported(format!("the aggregate {name}"))),
        }
    }

    /// Those that only DuckDB has: by bins, of bits, with weights, of the structure of JSON. `None` for any other.
    fn of_duckdb_alone(
        &self,
        name: &str,
        first: &Scalar,
        more: &[Scalar],
        parts: &Call,
        place: Place<'_>,
    ) -> Result<Option<Scalar>> {
        let made = match (name, more) {
            ("histogram" | "histogram_exact", [bins]) => {
                // What is beyond all bins is under infinity, which numerics do not have.
                let (first, bins) = match first.sql_type() {
                    SqlType::Numeric(_) => {
                        let bounds = SqlType::array_of(SqlType::Double);
                        let first = self.cast(first.clone(), &SqlType::Double, Way::Explicit)?;
                        (first, self.cast(bins.clone(), &bounds, Way::Explicit)?)
                    }
                    _ => (first.clone(), bins.clone()),
                };
                let values = self.collected(first, parts, place)?;
                let is_exact = Scalar::Constant(Constant::boolean(name == "histogram_exact"));
                self.call("histogram_in_bins", vec![values, bins, is_exact])?
            }
            ("bitstring_agg", bounds) => {
                let values = self.collected(first.clone(), parts, place)?;
                let (least, most) = match bounds {
                    [least, most] => (least.clone(), most.clone()),
                    _ => (
                        self.plain("min", vec![first.clone()], parts, place)?,
                        self.plain("max", vec![first.clone()], parts, place)?,
                    ),
                };
                self.call("bitstring_of_values", vec![values, least, most])?
            }
            ("weighted_avg" | "wavg", [weight]) => {
                let are_there = [first, weight].map(|scalar| Scalar::IsNull(Box::new(scalar.clone())).negate());
                let filter = Some(Scalar::all(are_there.into_iter().chain(parts.filter.clone())));
                let is_distinct = parts.is_distinct;
                let both = Call { arguments: vec![], is_distinct, filter, order: vec![], is_within_group: false };
                let product = self.operator("*", vec![first.clone(), weight.clone()])?;
                let sum = self.ordered_aggregate("sum", vec![product], &both, place)?;
                let weights = self.ordered_aggregate("sum", vec![weight.clone()], &both, place)?;
                self.operator("/", vec![sum, weights])?
            }
            ("json_group_structure", []) => {
                let values = self.collected(first.clone(), parts, place)?;
                let json = self.call("json_of_values", vec![values])?;
                let structure = self.call("json_structure", vec![json])?;
                self.operator("->", vec![structure, Scalar::Constant(Constant::integer(0))])?
            }
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// The moment in the middle of dates or timestamps: that of the mean of their microseconds.
    pub(super) fn mean_moment(&self, moment: Scalar, parts: &Call, place: Place<'_>) -> Result<Scalar> {
        let utc = || Scalar::Constant(Constant::text("UTC"));
        let has_zone = moment.sql_type() == SqlType::TimestampTz;
        let moment = match has_zone {
            true => self.call("timezone", vec![utc(), moment])?,
            false => self.cast(moment, &SqlType::Timestamp, Way::Explicit)?,
        };
        let microseconds = self.call("epoch_us", vec![moment])?;
        let mean = self.ordered_aggregate("avg", vec![microseconds], parts, place)?;
        let mean = self.call("make_timestamp", vec![self.cast(mean, &SqlType::BigInt, Way::Explicit)?])?;
        if has_zone { self.call("timezone", vec![utc(), mean]) } else { Ok(mean) }
    }

    /// The array of a group's values.
    fn collected(&self, value: Scalar, parts: &Call, place: Place<'_>) -> Result<Scalar> {
        self.ordered_aggregate("array_agg", vec![value], parts, place)
    }

    /// A function of the count and the sums of the first powers.
    fn moments(&self, name: &str, value: Scalar, parts: &Call, place: Place<'_>) -> Result<Scalar> {
        let mut sums = vec![self.ordered_aggregate("count", vec![value.clone()], parts, place)?];
        let mut power = value.clone();
        for degree in 1..=(if name == "skewness" { 3 } else { 4 }) {
            if degree > 1 {
                power = self.operator("*", vec![power, value.clone()])?;
            }
            sums.push(self.ordered_aggregate("sum", vec![power.clone()], parts, place)?);
        }
        self.call(&format!("{name}_of_sums"), sums)
    }
}
