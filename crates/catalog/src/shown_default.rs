//! Defaults of columns as PostgreSQL shows them, which is what drivers and frameworks read.

use diligence_types::SqlType;
use diligence_types::quoted_name;

use crate::name::DEFAULT_SCHEMA;

/// Functions without parentheses, which PostgreSQL writes in capitals.
const WORDS: [&str; 10] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
];

/// The default of a column of a type: `nextval('"public"."t_id_seq"')` as `nextval('t_id_seq'::regclass)`, and a
/// literal with its type, as `'a'::text`.
pub fn shown_default(text: &str, sql_type: &SqlType) -> String {
    let name = text.strip_prefix("nextval('").and_then(|rest| rest.strip_suffix("')"));
    if let Some(name) = name {
        let parts = name.split('.').map(|part| quoted_name(part.trim_matches('"'))).collect::<Vec<_>>();
        let parts = parts.iter().map(AsRef::as_ref).skip_while(|part| parts.len() > 1 && *part == DEFAULT_SCHEMA);
        return format!("nextval('{}'::regclass)", parts.collect::<Vec<_>>().join("."));
    }
    if WORDS.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_ascii_uppercase();
    }
    if let Some(digits) = text.strip_prefix('-').filter(|digits| is_number(digits)) {
        return format!("'-{digits}'::{}", type_of_number(digits));
    }
    if let Some(inner) = inner_of(text) {
        return shown_literal(text, inner, sql_type.base());
    }
    match text.rsplit_once("::") {
        Some((literal, written)) if inner_of(literal).is_some() => match SqlType::parse(written) {
            Some(written) => format!("{literal}::{}", written.without_modifier()),
            None => text.to_owned(),
        },
        _ => text.to_owned(),
    }
}

/// A literal without a type of its own.
fn shown_literal(text: &str, inner: &str, sql_type: &SqlType) -> String {
    match sql_type {
        SqlType::Boolean => match inner.trim().to_ascii_lowercase().as_str() {
            "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => "true".to_owned(),
            _ => "false".to_owned(),
        },
        SqlType::Integer if is_number(inner) => inner.to_owned(),
        _ => format!("{text}::{}", sql_type.without_modifier()),
    }
}

/// What stands between the quotes, if a text is one literal.
fn inner_of(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!inner.replace("''", "").contains('\'')).then_some(inner)
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// The type that PostgreSQL gives to a number that is written so.
fn type_of_number(digits: &str) -> SqlType {
    match digits.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => SqlType::Integer,
        Ok(_) => SqlType::BigInt,
        Err(_) => SqlType::NUMERIC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_types_and_sequences_their_names() {
        for (text, sql_type, shown) in [
            ("'n/a'", "text", "'n/a'::text"),
            ("'it''s'", "varchar(5)", "'it''s'::character varying"),
            ("'US'", "char(2)", "'US'::bpchar"),
            ("'{}'", "jsonb", "'{}'::jsonb"),
            ("'{}'", "text[]", "'{}'::text[]"),
            ("'2024-01-01'", "date", "'2024-01-01'::date"),
            ("'5'", "integer", "5"),
            ("'5'", "bigint", "'5'::bigint"),
            ("'no'", "boolean", "false"),
            ("-1", "integer", "'-1'::integer"),
            ("-1.5", "double precision", "'-1.5'::numeric"),
            ("5", "bigint", "5"),
            ("1 - 2", "integer", "1 - 2"),
            ("'a' || 'b'", "text", "'a' || 'b'"),
            ("'a'::TEXT", "text", "'a'::text"),
            ("'a'::VARCHAR(3)", "text", "'a'::character varying"),
            ("current_date", "date", "CURRENT_DATE"),
            ("now()", "timestamptz", "now()"),
            ("nextval('\"public\".\"t_id_seq\"')", "integer", "nextval('t_id_seq'::regclass)"),
            ("nextval('\"lab\".\"A b\"')", "integer", "nextval('lab.\"A b\"'::regclass)"),
        ] {
            assert_eq!(shown_default(text, &SqlType::parse(sql_type).unwrap()), shown, "{text} {sql_type}");
        }
    }
}
