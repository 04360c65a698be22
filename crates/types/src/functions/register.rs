//! All functions by name: the register of what the families declare.

use std::sync::LazyLock;

use super::catalog::{Catalog, DUCKDB};
use super::{
    AggregateOverload, Overload, arithmetic, arrays, bins, bits, bytes, collated, comparisons, date_units, datetime,
    digests, dimensions, domains, duckdb, enums, foreign, formatting, graphemes, hashes, intervals, json, lists, maps,
    math, more_texts, multiranges, networks, numeric, others, patterns, proposals, ranges, strftime, strings,
    text_search, zoned_times,
};

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog::default();
    arithmetic::declare(&mut catalog);
    comparisons::declare(&mut catalog);
    collated::declare(&mut catalog);
    math::declare(&mut catalog);
    numeric::declare(&mut catalog);
    strings::declare(&mut catalog);
    patterns::declare(&mut catalog);
    bytes::declare(&mut catalog);
    datetime::declare(&mut catalog);
    date_units::declare(&mut catalog);
    intervals::declare(&mut catalog);
    formatting::declare(&mut catalog);
    arrays::declare(&mut catalog);
    dimensions::declare(&mut catalog);
    json::declare(&mut catalog);
    maps::declare(&mut catalog);
    lists::declare(&mut catalog);
    bins::declare(&mut catalog);
    enums::declare(&mut catalog);
    domains::declare(&mut catalog);
    proposals::declare(&mut catalog);
    bits::declare(&mut catalog);
    ranges::declare(&mut catalog);
    multiranges::declare(&mut catalog);
    networks::declare(&mut catalog);
    zoned_times::declare(&mut catalog);
    text_search::declare(&mut catalog);
    others::declare(&mut catalog);
    graphemes::declare(&mut catalog);
    hashes::declare(&mut catalog);
    digests::declare(&mut catalog);
    super::aggregates::declare(&mut catalog);
    more_texts::declare(&mut catalog);
    strftime::declare(&mut catalog);
    duckdb::declare(&mut catalog);
    // What PostgreSQL has no function of the name for.
    foreign::declare(&mut catalog);
    catalog
});

/// The scalar functions and operators of a name, in lower case.
pub fn scalars(name: &str) -> &'static [Overload] {
    CATALOG.scalars.get(name).map_or(&[], Vec::as_slice)
}

/// The aggregates of a name, in lower case.
pub fn aggregates(name: &str) -> &'static [AggregateOverload] {
    CATALOG.aggregates.get(name).map_or(&[], Vec::as_slice)
}

/// The names of all aggregates, in no order.
pub(super) fn aggregate_names() -> impl Iterator<Item = &'static str> {
    CATALOG.aggregates.keys().copied()
}

/// Whether a function, an aggregate or an operator has this name.
pub fn has_function(name: &str) -> bool {
    !scalars(name).is_empty() || !aggregates(name).is_empty()
}

/// The names by which arguments of a function may be given (`make_interval(days => 10)`), in their order. Empty if the
/// function's arguments have no names.
pub fn argument_names(function: &str) -> &'static [&'static str] {
    match function {
        "make_date" => &["year", "month", "day"],
        "make_time" => &["hour", "min", "sec"],
        "make_timestamp" => &["year", "month", "mday", "hour", "min", "sec"],
        "make_timestamptz" => &["year", "month", "mday", "hour", "min", "sec", "timezone"],
        "make_interval" => &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        "jsonb_insert" => &["jsonb_in", "path", "replacement", "insert_after"],
        "jsonb_set" => &["jsonb_in", "path", "replacement", "create_if_missing"],
        "jsonb_set_lax" => &["jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"],
        "json_populate_record" | "json_populate_recordset" => &["base", "from_json", "use_json_as_text"],
        "parse_ident" => &["str", "strict"],
        "json_each" | "jsonb_each" | "json_each_text" | "jsonb_each_text" => &["from_json"],
        "json_array_elements" | "jsonb_array_elements" => &["from_json"],
        "json_array_elements_text" | "jsonb_array_elements_text" => &["from_json"],
        name if name.starts_with("jsonb_path_") => &["target", "path", "vars", "silent"],
        _ => &[],
    }
}

/// The names of all functions, operators and aggregates, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CATALOG.scalars.keys().chain(CATALOG.aggregates.keys()).copied().filter(|name| !name.starts_with(DUCKDB))
}
