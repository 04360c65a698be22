//! What an aggregate is made of, as values: so that it can be written down, and made again.

use std::sync::{Arc, LazyLock};

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::AggregateUDF;

use super::AggregateBody;
use super::aggregates::{Computed, RowsFunction, extreme, made_of, rows_udaf};
use super::register::{aggregate_names, aggregates};
use crate::SqlType;

/// The accumulators of the catalog's overloads, by name and place.
static ACCUMULATORS: LazyLock<Vec<(&'static str, usize, Arc<AggregateUDF>)>> = LazyLock::new(|| {
    let mut names = aggregate_names().collect::<Vec<_>>();
    names.sort_unstable();
    let places = names.into_iter().flat_map(|name| aggregates(name).iter().enumerate());
    let made = places.filter_map(|(place, overload)| match &overload.body {
        AggregateBody::DataFusion { function, .. } => Some((overload.name, place, function())),
        _ => None,
    });
    made.collect()
});

/// What an aggregate is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum AggregateOrigin {
    /// The accumulator of an overload.
    Overload {
        /// Its name.
        name: String,
        /// Its place among those of the name.
        place: usize,
    },
    /// `min` and `max` by an order key.
    Extreme {
        /// `max`.
        is_greatest: bool,
    },
    /// Of all rows of a group at once.
    Rows {
        /// What is computed: a number of ours, or an aggregate of an overload.
        computed: std::result::Result<usize, Box<AggregateOrigin>>,
        /// The types of the arguments.
        arguments: Vec<DataType>,
        /// The types of the keys, and how they sort.
        keys: Vec<(DataType, SortOptions)>,
        /// Whether rows with equal keys count once.
        is_distinct: bool,
        /// What comes out.
        returns: SqlType,
    },
}

impl AggregateOrigin {
    /// What an aggregate is made of; `None` if it is none that a statement can name.
    pub fn of(function: &AggregateUDF) -> Option<Self> {
        if let Some((computed, arguments, keys, is_distinct, returns)) = made_of(function) {
            let computed = match computed {
                Computed::Function(own) => Ok(RowsFunction::ALL.iter().position(|known| *known == own)?),
                Computed::Aggregate(inner) => Err(Box::new(Self::of(&inner)?)),
            };
            return Some(Self::Rows { computed, arguments, keys, is_distinct, returns });
        }
        let is_own = |is_greatest: &bool| *extreme(*is_greatest) == *function;
        if let Some(is_greatest) = [false, true].into_iter().find(is_own) {
            return Some(Self::Extreme { is_greatest });
        }
        let (name, place, _) = ACCUMULATORS.iter().find(|(.., known)| **known == *function)?;
        Some(Self::Overload { name: (*name).to_owned(), place: *place })
    }

    /// The aggregate; `None` if there is no such one. Fails if it does not take the arguments.
    pub fn aggregate(&self) -> Result<Option<Arc<AggregateUDF>>> {
        Ok(match self {
            Self::Overload { name, place } => {
                let is_meant = |(known, at, _): &&(&str, usize, _)| known == name && at == place;
                ACCUMULATORS.iter().find(is_meant).map(|(.., function)| function.clone())
            }
            Self::Extreme { is_greatest } => Some(extreme(*is_greatest)),
            Self::Rows { computed, arguments, keys, is_distinct, returns } => {
                let computed = match computed {
                    Ok(number) => RowsFunction::ALL.get(*number).copied().map(Computed::Function),
                    Err(inner) => inner.aggregate()?.map(Computed::Aggregate),
                };
                let Some(computed) = computed else { return Ok(None) };
                Some(rows_udaf(computed, arguments, keys, *is_distinct, returns)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion_functions_aggregate::count::count_udaf;

    use super::*;

    #[test]
    fn every_accumulator_is_made_again_of_what_it_was_made_of() {
        assert!(ACCUMULATORS.len() > 50);
        for (name, place, function) in ACCUMULATORS.iter() {
            let origin = AggregateOrigin::of(function).unwrap();
            assert_eq!(*origin.aggregate().unwrap().unwrap(), **function, "{name} {place}");
        }
        for is_greatest in [false, true] {
            let origin = AggregateOrigin::of(&extreme(is_greatest)).unwrap();
            assert_eq!(origin, AggregateOrigin::Extreme { is_greatest });
        }
    }

    #[test]
    fn aggregates_of_rows_are_made_again() {
        let keys = [(DataType::Int64, SortOptions { descending: true, nulls_first: false })];
        let computed = RowsFunction::ALL.into_iter().map(Computed::Function);
        for computed in computed.chain([Computed::Aggregate(count_udaf())]) {
            let made = rows_udaf(computed, &[DataType::Utf8View], &keys, true, &SqlType::Text).unwrap();
            let again = AggregateOrigin::of(&made).unwrap().aggregate().unwrap().unwrap();
            assert_eq!(again, made);
        }
        let missing = AggregateOrigin::Overload { name: "sum".to_owned(), place: 1000 };
        assert!(missing.aggregate().unwrap().is_none());
    }
}
