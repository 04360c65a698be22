//! What DataFusion has and PostgreSQL has no function of the name for, with the types that DuckDB gives it.

use datafusion_functions::{string, unicode};
use datafusion_functions_nested as nested;
use diligence_base::Error;

use super::Body;
use super::catalog::Catalog;
use super::columns::kernel;
use crate::SqlType;

/// Declares the functions whose names nothing else has taken.
pub(super) fn declare(catalog: &mut Catalog) {
    texts(catalog);
    lists(catalog);
    numbers(catalog);
}

fn add(catalog: &mut Catalog, signature: &'static str, body: Body) {
    let name = signature.split('(').next().unwrap_or_default();
    debug_assert!(!catalog.has_scalar(name), "{name} is there already");
    catalog.add(signature, body);
}

/// Numbers under PostgreSQL's names ([`DUCKDB`](super::catalog::DUCKDB)).
fn numbers(catalog: &mut Catalog) {
    catalog.add("duckdb %(double precision, double precision) -> double precision", kernel!(|a: f64, b: f64| a % b));
    catalog.add("duckdb %(real, real) -> real", kernel!(|a: f32, b: f32| a % b));
    catalog.add(
        "duckdb round(double precision, integer) -> double precision",
        kernel!(|a: f64, digits: i32| {
            let scale = 10_f64.powi(digits.clamp(-308, 308));
            let rounded = (a * scale).round() / scale;
            if rounded.is_finite() { rounded } else { a }
        }),
    );
}

fn texts(catalog: &mut Catalog) {
    add(catalog, "contains(text, text) -> boolean", Body::DataFusion(string::contains));
    catalog.add("len(text) -> bigint", kernel!(|a: &str| a.chars().count() as i64));
    add(catalog, "ends_with(text, text) -> boolean", Body::DataFusion(string::ends_with));
    add(catalog, "instr(text, text) -> integer", Body::DataFusion(unicode::strpos));
    // Beside the overload that is given costs.
    catalog.add("levenshtein(text, text) -> integer", Body::DataFusion(string::levenshtein));
    add(catalog, "find_in_set(text, text) -> integer", Body::DataFusion(unicode::find_in_set));
    add(catalog, "substr_index(text, text, bigint) -> text", Body::DataFusion(unicode::substr_index));
}

/// Lists under the names that DuckDB and DataFusion share.
fn lists(catalog: &mut Catalog) {
    let list_has = Body::DataFusion(nested::array_has::array_has_udf);
    for name in [
        "array_has(anycompatiblearray, anycompatible) -> boolean",
        "list_has(anycompatiblearray, anycompatible) -> boolean",
    ] {
        add(catalog, name, list_has.clone());
    }
    for name in [
        "array_contains(anycompatiblearray, anycompatible) -> boolean",
        "list_contains(anycompatiblearray, anycompatible) -> boolean",
    ] {
        add(catalog, name, list_has.clone());
    }
    let has_all = Body::DataFusion(nested::array_has::array_has_all_udf);
    let has_any = Body::DataFusion(nested::array_has::array_has_any_udf);
    for (name, body) in [
        ("array_has_all(anycompatiblearray, anycompatiblearray) -> boolean", &has_all),
        ("list_has_all(anycompatiblearray, anycompatiblearray) -> boolean", &has_all),
        ("array_has_any(anycompatiblearray, anycompatiblearray) -> boolean", &has_any),
        ("list_has_any(anycompatiblearray, anycompatiblearray) -> boolean", &has_any),
    ] {
        add(catalog, name, body.clone());
    }
    let flatten = Body::DataFusion(nested::flatten::flatten_udf);
    catalog.add("flatten(anyarray) -> anyelement", flatten).gives(|types, _| match types {
        [SqlType::Array(inner)] if inner.element().is_some() => Ok(inner.as_ref().clone()),
        _ => Err(Error::input("flatten takes a list of lists").with_code("42883")),
    });
    for (name, like) in [
        ("list_append(anycompatiblearray, anycompatible) -> anycompatiblearray", "array_append"),
        ("array_push_back(anycompatiblearray, anycompatible) -> anycompatiblearray", "array_append"),
        ("list_prepend(anycompatible, anycompatiblearray) -> anycompatiblearray", "array_prepend"),
        ("list_position(anycompatiblearray, anycompatible) -> integer", "array_position"),
        ("list_indexof(anycompatiblearray, anycompatible) -> integer", "array_position"),
        ("array_indexof(anycompatiblearray, anycompatible) -> integer", "array_position"),
    ] {
        catalog.alias(name, like);
    }
    for (name, body) in [
        ("array_pop_back(anyarray) -> anyarray", Body::DataFusion(nested::extract::array_pop_back_udf)),
        ("array_pop_front(anyarray) -> anyarray", Body::DataFusion(nested::extract::array_pop_front_udf)),
        ("array_distinct(anyarray) -> anyarray", Body::DataFusion(nested::set_ops::array_distinct_udf)),
        ("list_distinct(anyarray) -> anyarray", Body::DataFusion(nested::set_ops::array_distinct_udf)),
        (
            "array_intersect(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::set_ops::array_intersect_udf),
        ),
        (
            "list_intersect(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::set_ops::array_intersect_udf),
        ),
        (
            "array_union(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::set_ops::array_union_udf),
        ),
        (
            "list_union(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::set_ops::array_union_udf),
        ),
        (
            "array_except(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::except::array_except_udf),
        ),
        (
            "list_except(anycompatiblearray, anycompatiblearray) -> anycompatiblearray",
            Body::DataFusion(nested::except::array_except_udf),
        ),
        ("array_reverse(anyarray) -> anyarray", Body::DataFusion(nested::reverse::array_reverse_udf)),
        ("list_reverse(anyarray) -> anyarray", Body::DataFusion(nested::reverse::array_reverse_udf)),
        ("array_max(anyarray) -> anyelement", Body::DataFusion(nested::min_max::array_max_udf)),
        ("list_max(anyarray) -> anyelement", Body::DataFusion(nested::min_max::array_max_udf)),
        ("array_min(anyarray) -> anyelement", Body::DataFusion(nested::min_max::array_min_udf)),
        ("list_min(anyarray) -> anyelement", Body::DataFusion(nested::min_max::array_min_udf)),
    ] {
        add(catalog, name, body);
    }
}
