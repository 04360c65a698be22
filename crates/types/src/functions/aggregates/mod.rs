//! Aggregates (manual, section 9.21).
//!
//! Most are DataFusion's accumulators of arguments cast to the types that PostgreSQL computes with. Others are:
//!
//! * of our own: `sum` of intervals (`interval_sum`), `min` and `max` of intervals, enums and `char(n)` by their order
//!   key (`extremes`), the value of a scalar subquery (`single_value`);
//! * made of all rows of a group at once (`rows`, `of_rows`): `string_agg`, `mode`, and whatever has DISTINCT or an
//!   ORDER BY that its value depends on; percentiles, which need the order of a few rows only (`percentiles`);
//! * rewritten by the binder into others ([`AggregateBody::Rewritten`]): `avg` of intervals as `sum(x) / count(x)`,
//!   variances and deviations of integers and decimals as `numeric_var_samp(count(x), sum(x), sum(x * x))` and its like
//!   among the scalar functions.

mod extremes;
mod interval_sum;
mod of_rows;
mod percentiles;
mod regression;
mod row_order;
mod rows;
mod single_value;

use std::sync::Arc;

use datafusion_common::error::DataFusionError;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate as foreign;
use diligence_base::Error;

use self::percentiles::Percentile;
use self::regression::{Measure, regression};
use super::AggregateBody;
use super::arithmetic::common;
use super::catalog::Catalog;
use super::decimal::{numeric_type, precision_scale};
use crate::SqlType;
use crate::range_type::RangeKind;

pub(super) use self::extremes::extreme;
pub use self::of_rows::RowsFunction;
pub(super) use self::rows::made_of;
pub use self::rows::{Computed, rows_udaf};
pub use self::single_value::single_value_udaf;

/// Types whose least and greatest value DataFusion finds as PostgreSQL does.
const ORDERED: [&str; 13] = [
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "real",
    "double precision",
    "text",
    "name",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "oid",
];

/// An accumulator of DataFusion's, of the arguments as they are.
fn as_is(function: fn() -> Arc<AggregateUDF>) -> AggregateBody {
    AggregateBody::DataFusion { function, casts: |types| vec![None; types.len()] }
}

/// An accumulator of DataFusion's, of arguments as floats.
fn of_doubles(function: fn() -> Arc<AggregateUDF>) -> AggregateBody {
    AggregateBody::DataFusion { function, casts: |types| vec![Some(SqlType::Double); types.len()] }
}

/// An error of ours on its way through DataFusion.
fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Declares the aggregates.
pub(super) fn declare(catalog: &mut Catalog) {
    sums(catalog);
    extremes(catalog);
    logic(catalog);
    collections(catalog);
    statistics(catalog);
    ordered_sets(catalog);
    duckdb(catalog);
    of_values(catalog);
    subqueries(catalog);
}

fn sums(catalog: &mut Catalog) {
    catalog.aggregate("count() -> bigint", as_is(foreign::count::count_udaf));
    catalog.aggregate("count(any) -> bigint", as_is(foreign::count::count_udaf));
    let bigints =
        || AggregateBody::DataFusion { function: foreign::sum::sum_udaf, casts: |_| vec![Some(SqlType::BigInt)] };
    catalog.aggregate("sum(smallint) -> bigint", bigints());
    catalog.aggregate("sum(integer) -> bigint", bigints());
    let exact = |casts| AggregateBody::DataFusion { function: foreign::sum::sum_udaf, casts };
    catalog
        .aggregate("sum(bigint) -> numeric", exact(|_| vec![Some(SqlType::decimal(38, 0))]))
        .gives(|_, _| Ok(SqlType::decimal(38, 0)));
    // 128 bits have room for the sum; the argument's scale stays.
    catalog
        .aggregate("sum(numeric) -> numeric", exact(|types| vec![Some(summed(&types[0]))]))
        .gives(|types, _| Ok(summed(&types[0])));
    catalog.aggregate(
        "sum(real) -> real",
        AggregateBody::DataFusion { function: foreign::sum::sum_udaf, casts: |_| vec![Some(SqlType::Double)] },
    );
    catalog.aggregate("sum(double precision) -> double precision", as_is(foreign::sum::sum_udaf));
    catalog.aggregate("sum(interval) -> interval", as_is(interval_sum::interval_sum));
    for integer in ["smallint", "integer", "bigint", "numeric"] {
        catalog.aggregate(leaked(format!("avg({integer}) -> numeric")), AggregateBody::Average);
    }
    catalog.aggregate("avg(real) -> double precision", of_doubles(foreign::average::avg_udaf));
    catalog.aggregate("avg(double precision) -> double precision", as_is(foreign::average::avg_udaf));
    catalog.aggregate("avg(interval) -> interval", AggregateBody::Rewritten);
    // DuckDB's.
    catalog.aggregate("avg(date) -> timestamp", AggregateBody::Rewritten);
    catalog.aggregate("avg(timestamp) -> timestamp", AggregateBody::Rewritten);
    catalog.aggregate("avg(timestamptz) -> timestamptz", AggregateBody::Rewritten);
}

/// The type of a sum of decimals.
fn summed(sql_type: &SqlType) -> SqlType {
    let (precision, scale) = precision_scale(sql_type);
    // A sum of more rows than any table has needs ten digits more.
    match precision {
        ..=28 => numeric_type(38, scale),
        _ => numeric_type(76, scale),
    }
}

fn extremes(catalog: &mut Catalog) {
    for (name, function) in
        [("min", foreign::min_max::min_udaf as fn() -> Arc<AggregateUDF>), ("max", foreign::min_max::max_udaf)]
    {
        for ordered in ORDERED {
            let overload = catalog.aggregate(leaked(format!("{name}({ordered}) -> {ordered}")), as_is(function));
            if ordered == "numeric" {
                overload.gives(|types, _| Ok(types[0].clone()));
            }
        }
        let by_key = || AggregateBody::Extreme { is_greatest: name == "max" };
        catalog.aggregate(leaked(format!("{name}(interval) -> interval")), by_key());
        catalog.aggregate(leaked(format!("{name}(anyenum) -> anyenum")), by_key());
        catalog.aggregate(leaked(format!("{name}(inet) -> inet")), by_key());
        catalog.aggregate(leaked(format!("{name}(bpchar) -> bpchar")), by_key()).gives(|types, _| Ok(types[0].clone()));
        catalog.aggregate(leaked(format!("{name}(anyarray) -> anyarray")), by_key());
        // DuckDB has these.
        catalog.aggregate(leaked(format!("{name}(boolean) -> boolean")), as_is(function));
        catalog.aggregate(leaked(format!("{name}(bytea) -> bytea")), as_is(function));
    }
}

fn logic(catalog: &mut Catalog) {
    let every = || as_is(foreign::bool_and_or::bool_and_udaf);
    catalog.aggregate("bool_and(boolean) -> boolean", every());
    catalog.aggregate("every(boolean) -> boolean", every());
    catalog.aggregate("bool_or(boolean) -> boolean", as_is(foreign::bool_and_or::bool_or_udaf));
    for (name, function) in [
        ("bit_and", foreign::bit_and_or_xor::bit_and_udaf as fn() -> Arc<AggregateUDF>),
        ("bit_or", foreign::bit_and_or_xor::bit_or_udaf),
        ("bit_xor", foreign::bit_and_or_xor::bit_xor_udaf),
    ] {
        for integer in ["smallint", "integer", "bigint"] {
            catalog.aggregate(leaked(format!("{name}({integer}) -> {integer}")), as_is(function));
        }
        catalog
            .aggregate(leaked(format!("{name}(bit) -> bit")), AggregateBody::Rewritten)
            .gives(|types, _| Ok(types[0].clone()));
    }
}

fn collections(catalog: &mut Catalog) {
    catalog.aggregate("array_agg(anyelement) -> anyarray", as_is(foreign::array_agg::array_agg_udaf));
    // Of arrays; of all else it is array_agg.
    catalog.aggregate("list(anyelement) -> anyarray", AggregateBody::Rows(RowsFunction::List));
    catalog.aggregate("string_agg(text, text) -> text", AggregateBody::Rows(RowsFunction::StringAgg));
    catalog.aggregate("string_agg(bytea, bytea) -> bytea", AggregateBody::Rows(RowsFunction::StringAgg));
}

fn statistics(catalog: &mut Catalog) {
    for (name, function) in [
        ("stddev", foreign::stddev::stddev_udaf as fn() -> Arc<AggregateUDF>),
        ("stddev_samp", foreign::stddev::stddev_udaf),
        ("stddev_pop", || regression(Measure::StddevPop)),
        ("variance", foreign::variance::var_samp_udaf),
        ("var_samp", foreign::variance::var_samp_udaf),
        ("var_pop", || regression(Measure::VarPop)),
    ] {
        for exact in ["smallint", "integer", "bigint", "numeric"] {
            catalog.aggregate(leaked(format!("{name}({exact}) -> numeric")), AggregateBody::Rewritten);
        }
        for float in ["real", "double precision"] {
            catalog.aggregate(leaked(format!("{name}({float}) -> double precision")), of_doubles(function));
        }
    }
    for (name, function) in [
        ("corr", (|| regression(Measure::Corr)) as fn() -> Arc<AggregateUDF>),
        ("covar_pop", || regression(Measure::CovarPop)),
        ("covar_samp", || regression(Measure::CovarSamp)),
        ("regr_avgx", || regression(Measure::AverageX)),
        ("regr_avgy", || regression(Measure::AverageY)),
        ("regr_intercept", || regression(Measure::Intercept)),
        ("regr_r2", || regression(Measure::R2)),
        ("regr_slope", || regression(Measure::Slope)),
        ("regr_sxx", || regression(Measure::Sxx)),
        ("regr_sxy", || regression(Measure::Sxy)),
        ("regr_syy", || regression(Measure::Syy)),
    ] {
        let signature = format!("{name}(double precision, double precision) -> double precision");
        catalog.aggregate(leaked(signature), as_is(function));
    }
    catalog
        .aggregate("regr_count(double precision, double precision) -> bigint", as_is(foreign::regr::regr_count_udaf));
}

fn ordered_sets(catalog: &mut Catalog) {
    catalog.aggregate("mode(anyelement) -> anyelement within group", AggregateBody::Rows(RowsFunction::Mode));
    catalog.aggregate(
        "percentile_cont(double precision, double precision) -> double precision within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Continuous)),
    );
    catalog.aggregate(
        "percentile_cont(double precision, interval) -> interval within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Continuous)),
    );
    catalog.aggregate(
        "percentile_cont(double precision[], double precision) -> double precision[] within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Continuous)),
    );
    catalog.aggregate(
        "percentile_cont(double precision[], interval) -> interval[] within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Continuous)),
    );
    catalog.aggregate(
        "percentile_disc(double precision, anyelement) -> anyelement within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Discrete)),
    );
    catalog.aggregate(
        "percentile_disc(double precision[], anyelement) -> anyarray within group",
        AggregateBody::Rows(RowsFunction::Percentile(Percentile::Discrete)),
    );
}

/// Aggregates that are a function of the array of a group's values, or of their count and sums.
fn of_values(catalog: &mut Catalog) {
    for signature in [
        "json_agg(any) -> json",
        "jsonb_agg(any) -> jsonb",
        "json_object_agg(any, any) -> json",
        "jsonb_object_agg(any, any) -> jsonb",
        "json_group_array(any) -> json",
        "json_group_object(any, any) -> json",
        "product(double precision) -> double precision",
        "geomean(double precision) -> double precision",
        "geometric_mean(double precision) -> double precision",
        "skewness(double precision) -> double precision",
        "kurtosis(double precision) -> double precision",
        "kurtosis_pop(double precision) -> double precision",
        "mad(double precision) -> double precision",
        "entropy(anyelement) -> double precision",
        "count_if(boolean) -> bigint",
        "countif(boolean) -> bigint",
        "fsum(double precision) -> double precision",
        "kahan_sum(double precision) -> double precision",
        "sumkahan(double precision) -> double precision",
        "favg(double precision) -> double precision",
        "mean(double precision) -> double precision",
        "mean(date) -> timestamp",
        "mean(timestamp) -> timestamp",
        "mean(timestamptz) -> timestamptz",
        "sem(double precision) -> double precision",
        "min(anyelement, bigint) -> anyarray",
        "max(anyelement, bigint) -> anyarray",
        "approx_top_k(anyelement, bigint) -> anyarray",
        "string_agg(text) -> text",
        "group_concat(anynonarray) -> text",
        "group_concat(anynonarray, text) -> text",
        "listagg(anynonarray) -> text",
        "listagg(anynonarray, text) -> text",
        "max_by_some(anyelement, any, bigint) -> anyarray",
        "min_by_some(anyelement, any, bigint) -> anyarray",
        "weighted_avg(double precision, double precision) -> double precision",
        "wavg(double precision, double precision) -> double precision",
        "json_group_structure(any) -> json",
        "bitstring_agg(bigint) -> varbit",
        "bitstring_agg(bigint, bigint, bigint) -> varbit",
    ] {
        catalog.aggregate(signature, AggregateBody::Rewritten);
    }
    for kind in RangeKind::ALL {
        let (range, many) = (kind.name(), kind.multirange_name());
        for signature in [
            format!("range_agg({range}) -> {many}"),
            format!("range_agg({many}) -> {many}"),
            format!("range_intersect_agg({range}) -> {range}"),
            format!("range_intersect_agg({many}) -> {many}"),
        ] {
            catalog.aggregate(leaked(signature), AggregateBody::Rewritten);
        }
    }
    for signature in [
        "histogram(anyelement) -> text",
        "histogram(anycompatible, anycompatiblearray) -> text",
        "histogram_exact(anycompatible, anycompatiblearray) -> text",
    ] {
        catalog.aggregate(signature, AggregateBody::Rewritten).gives(|types, _| {
            Ok(SqlType::Map(Arc::new((types.first().cloned().unwrap_or(SqlType::Text), SqlType::BigInt))))
        });
    }
}

/// The aggregate's accumulators of values and their keys, for [`AggregateBody::Extreme`].
pub fn extreme_udaf(is_greatest: bool) -> Arc<AggregateUDF> {
    extremes::extreme(is_greatest)
}

/// What the front makes of scalar subqueries.
fn subqueries(catalog: &mut Catalog) {
    catalog.aggregate("single_value(anyelement) -> anyelement", as_is(single_value_udaf));
}

/// What DuckDB and DataFusion have beside PostgreSQL's.
fn duckdb(catalog: &mut Catalog) {
    for name in ["any_value", "arbitrary", "first", "first_value"] {
        catalog.aggregate(
            leaked(format!("{name}(anyelement) -> anyelement")),
            as_is(foreign::first_last::first_value_udaf),
        );
    }
    for name in ["last", "last_value"] {
        catalog.aggregate(
            leaked(format!("{name}(anyelement) -> anyelement")),
            as_is(foreign::first_last::last_value_udaf),
        );
    }
    catalog.aggregate("median(double precision) -> double precision", of_doubles(foreign::median::median_udaf));
    catalog
        .aggregate("median(numeric) -> numeric", as_is(foreign::median::median_udaf))
        .gives(|types, _| Ok(common(types)));
    for name in ["approx_distinct", "approx_count_distinct"] {
        // Floats have no hash of their own: their texts tell them apart.
        let body = AggregateBody::DataFusion {
            function: foreign::approx_distinct::approx_distinct_udaf,
            casts: |types| {
                let is_float = |sql_type: &SqlType| matches!(sql_type, SqlType::Double | SqlType::Real);
                types.iter().map(|sql_type| is_float(sql_type).then_some(SqlType::Text)).collect()
            },
        };
        catalog.aggregate(leaked(format!("{name}(any) -> bigint")), body);
    }
    catalog.aggregate(
        "approx_median(double precision) -> double precision",
        of_doubles(foreign::approx_median::approx_median_udaf),
    );
    catalog.aggregate(
        "approx_percentile_cont(double precision, double precision) -> double precision",
        of_doubles(foreign::approx_percentile_cont::approx_percentile_cont_udaf),
    );
}
