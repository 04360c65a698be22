//! Names as statements have to write them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Words that need quotes where a name stands.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean \
    both case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec decimal \
    default deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full \
    grant greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join \
    lateral leading least left like limit localtime localtimestamp national natural nchar none normalize not notnull null \
    nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real references \
    returning right row select session_user setof similar smallint some substring symmetric table tablesample then time \
    timestamp to trailing treat trim true union unique user using values varchar variadic verbose when where window with \
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// One that begins a type here, and means nothing to PostgreSQL.
const OF_OWN: &str = "struct";

static RESERVED_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| RESERVED.split_ascii_whitespace().chain([OF_OWN]).collect());

/// A name as a statement has to write it: in quotes, unless it is read as itself without them, as `quote_ident` and
/// PostgreSQL's definitions have it.
pub fn quoted_name(name: &str) -> Cow<'_, str> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_');
    let is_plain = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match starts && is_plain && !RESERVED_WORDS.contains(name) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))),
    }
}
