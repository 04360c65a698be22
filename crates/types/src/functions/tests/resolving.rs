//! Which overload a call means, and what it says if there is none.

use crate::SqlType;
use crate::functions::{Candidate, resolve_aggregate, resolve_scalar};

fn candidates(types: &[&str]) -> Vec<Candidate> {
    let of = |name: &&str| Candidate { sql_type: SqlType::parse(name).expect("a type"), literal: None };
    types.iter().map(of).collect()
}

/// PostgreSQL 15: `SELECT pg_typeof(..)`; digits in parentheses are ours.
#[test]
fn results_have_postgresqls_types() {
    for (name, arguments, returns) in [
        ("+", &["integer", "bigint"][..], "bigint"),
        ("+", &["integer", "unknown"], "integer"),
        ("+", &["unknown", "date"], "ERROR 42725"),
        ("+", &["date", "unknown"], "ERROR 42725"),
        ("-", &["date", "unknown"], "integer"),
        ("-", &["timestamp", "unknown"], "interval"),
        ("+", &["integer", "real"], "double precision"),
        ("+", &["smallint", "real"], "double precision"),
        ("*", &["numeric(10,2)", "numeric(10,2)"], "numeric(21,4)"),
        ("+", &["numeric(10,2)", "integer"], "numeric(13,2)"),
        ("*", &["numeric(30,2)", "numeric(30,2)"], "numeric(76,4)"),
        ("*", &["numeric(30,15)", "numeric(30,15)"], "numeric(76,30)"),
        ("*", &["numeric", "numeric"], "numeric"),
        ("/", &["integer", "numeric(3,1)"], "numeric"),
        ("/", &["integer", "integer"], "integer"),
        ("+", &["numeric(5,2)", "double precision"], "double precision"),
        ("+", &["integer", "boolean"], "ERROR 42883"),
        ("||", &["unknown", "unknown"], "text"),
        ("||", &["text", "integer"], "text"),
        ("||", &["integer", "unknown"], "text"),
        ("||", &["integer[]", "integer"], "integer[]"),
        ("||", &["integer[]", "unknown"], "integer[]"),
        ("||", &["bytea", "unknown"], "bytea"),
        ("=", &["integer", "unknown"], "boolean"),
        ("=", &["date", "timestamp"], "boolean"),
        ("=", &["character(3)", "text"], "boolean"),
        ("=", &["integer", "text"], "ERROR 42883"),
        ("abs", &["unknown"], "double precision"),
        ("round", &["integer"], "double precision"),
        ("round", &["numeric(10,4)", "integer"], "numeric"),
        ("lower", &["integer"], "ERROR 42883"),
        ("lower", &["unknown"], "text"),
        ("substring", &["unknown", "integer"], "text"),
        ("date_trunc", &["unknown", "date"], "timestamp with time zone"),
        ("date_trunc", &["unknown", "timestamp"], "timestamp without time zone"),
        ("age", &["date", "date"], "interval"),
        ("sqrt", &["integer"], "double precision"),
        ("sqrt", &["numeric(5,2)"], "numeric"),
        ("power", &["integer", "integer"], "double precision"),
        ("power", &["numeric(3,1)", "integer"], "numeric"),
        ("ceil", &["integer"], "double precision"),
        ("array_append", &["integer[]", "bigint"], "bigint[]"),
        ("generate_series", &["integer", "integer"], "integer[]"),
        ("generate_series", &["integer", "bigint"], "bigint[]"),
        ("generate_series", &["date", "date", "interval"], "timestamp with time zone[]"),
        ("length", &["character varying(10)"], "integer"),
        ("concat", &["integer", "unknown", "date"], "text"),
        ("mod", &["integer", "bigint"], "bigint"),
        ("*", &["interval", "integer"], "interval"),
        ("to_char", &["integer", "unknown"], "text"),
        ("overlaps", &["date", "date", "date", "date"], "boolean"),
    ] {
        let answer = match resolve_scalar(name, &candidates(arguments)) {
            Ok(call) => call.returns.to_string(),
            Err(error) => format!("ERROR {}", error.code().expect("a code")),
        };
        assert_eq!(answer, returns, "{name} of {arguments:?}");
    }
}

#[test]
fn aggregates_have_postgresqls_types() {
    for (name, arguments, returns) in [
        ("count", &[][..], "bigint"),
        ("count", &["text"], "bigint"),
        ("sum", &["smallint"], "bigint"),
        ("sum", &["bigint"], "numeric(38,0)"),
        ("sum", &["real"], "real"),
        ("sum", &["numeric(12,2)"], "numeric(38,2)"),
        ("avg", &["integer"], "numeric"),
        ("avg", &["real"], "double precision"),
        ("min", &["character varying(3)"], "text"),
        ("max", &["interval"], "interval"),
        ("array_agg", &["date"], "date[]"),
        ("stddev", &["integer"], "numeric"),
        ("variance", &["real"], "double precision"),
        ("percentile_cont", &["double precision", "integer"], "double precision"),
        ("percentile_disc", &["double precision[]", "text"], "text[]"),
        ("sum", &["text"], "ERROR 42883"),
    ] {
        let answer = match resolve_aggregate(name, &candidates(arguments)) {
            Ok(call) => call.returns.to_string(),
            Err(error) => format!("ERROR {}", error.code().expect("a code")),
        };
        assert_eq!(answer, returns, "{name} of {arguments:?}");
    }
}

#[test]
fn errors_say_what_there_is() {
    let error = resolve_scalar("+", &candidates(&["integer", "boolean"])).unwrap_err();
    assert_eq!(error.message(), "operator does not exist: integer + boolean");
    let error = resolve_scalar("lowr", &candidates(&["integer", "unknown"])).unwrap_err();
    assert_eq!(error.message(), "function lowr(integer, unknown) does not exist");
    assert_eq!(error.hint(), Some("did you mean 'lower'?"));
    let error = resolve_scalar("left", &candidates(&["integer"])).unwrap_err();
    assert_eq!(error.hint(), Some("there is left(text, integer); add explicit type casts"));
    let error = resolve_scalar("+", &candidates(&["unknown", "unknown"])).unwrap_err();
    assert_eq!(error.message(), "operator is not unique: unknown + unknown");
}
