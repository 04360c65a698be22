//! DuckDB's functions that are expressions of others, as its own macros are.

use diligence_base::Result;
use sqlparser::ast::Expr;

/// Names, numbers of arguments, and expressions of `$1`, `$2`, …, in the order of the names.
const FORMULAS: [(&str, usize, &str); 15] = [
    ("ago", 1, "now() - CAST($1 AS interval)"),
    ("constant_or_null", 2, "CASE WHEN $2 IS NOT NULL THEN $1 END"),
    ("current_connection_id", 0, "CAST(pg_backend_pid() AS BIGINT)"),
    ("current_localtime", 0, "localtime"),
    ("current_localtimestamp", 0, "localtimestamp"),
    ("current_transaction_id", 0, "txid_current()"),
    ("days_in_month", 1, "day(last_day($1))"),
    ("enum_range_boundary", 2, "enum_range($1, $2)"),
    ("fdiv", 2, "floor(CAST($1 AS DOUBLE PRECISION) / CAST($2 AS DOUBLE PRECISION))"),
    ("get_current_time", 0, "localtime"),
    ("in_search_path", 2, "$2 = ANY(current_schemas(true))"),
    ("switch", 2, "map_extract_value($2, $1)"),
    ("switch", 3, "CASE WHEN map_contains($2, $1) THEN map_extract_value($2, $1) ELSE $3 END"),
    ("timezone_hour", 1, "CAST(date_part('timezone_hour', CAST($1 AS timestamptz)) AS BIGINT)"),
    ("timezone_minute", 1, "CAST(date_part('timezone_minute', CAST($1 AS timestamptz)) AS BIGINT)"),
];

/// The expression that a function of so many arguments is; `None` if it is none of these.
pub(crate) fn formula(name: &str, arguments: usize) -> Option<Result<Expr>> {
    let (_, _, text) = FORMULAS.iter().find(|(known, count, _)| *known == name && *count == arguments)?;
    Some(crate::parse::expression(text))
}

/// The names of these functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FORMULAS.iter().map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_formula_parses_and_takes_the_name_of_no_function() {
        for (name, count, text) in FORMULAS {
            assert!(formula(name, count).is_some_and(|formula| formula.is_ok()), "{text}");
            assert!(!diligence_types::functions::has_function(name), "{name}");
        }
        assert!(FORMULAS.is_sorted_by_key(|(name, ..)| *name));
    }
}
