//! Indexes and constraints as statements say them.

use diligence_catalog::rules::{Deferral, Key, KeyKind, Reference, ReferenceAction};
use diligence_catalog::{DEFAULT_SCHEMA, RelationName};

/// A name as it is written: in quotes, where it must be.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

pub(super) fn qualified(name: &RelationName) -> String {
    match name.schema.as_str() {
        DEFAULT_SCHEMA => quoted(&name.name),
        schema => format!("{}.{}", quoted(schema), quoted(&name.name)),
    }
}

/// `CREATE INDEX …`, as `pg_get_indexdef` shows it.
pub(crate) fn index_definition(table: &RelationName, key: &Key) -> String {
    let unique = if key.kind.is_unique() { "UNIQUE " } else { "" };
    let table = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
    let nulls = if key.nulls_are_equal && key.kind.is_unique() { " NULLS NOT DISTINCT" } else { "" };
    let (columns, condition) = (key_parts(key).join(", "), key_condition(key));
    let condition = condition.map(|condition| format!(" WHERE ({condition})")).unwrap_or_default();
    format!("CREATE {unique}INDEX {} ON {table} USING btree ({columns}){nulls}{condition}", quoted(&key.name))
}

/// The columns of a key as they are written: those of the table in quotes, where they must be.
pub(super) fn key_parts(key: &Key) -> Vec<String> {
    let is_column = |place: usize| key.computed.as_ref().is_none_or(|computed| computed.expressions[place].is_none());
    let part = |(place, name): (usize, &String)| if is_column(place) { quoted(name) } else { name.clone() };
    key.columns.iter().enumerate().map(part).collect()
}

/// The expressions among the columns of a key, with commas between them; `None` if there are none.
pub(super) fn key_expressions(key: &Key) -> Option<String> {
    let expressions = key.computed.as_ref()?.expressions.iter().flatten();
    let shown = expressions.map(|expression| expression.to_string()).collect::<Vec<_>>();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The condition of the rows that are in an index.
pub(super) fn key_condition(key: &Key) -> Option<String> {
    let condition = key.computed.as_ref().and_then(|computed| computed.condition.as_ref());
    condition.map(|condition| condition.to_string())
}

/// What a definition ends with that says when it is held against the rows.
pub(super) fn deferred(deferral: Deferral) -> &'static str {
    match deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// `PRIMARY KEY (…)` or `UNIQUE (…)`.
pub(crate) fn key_definition(key: &Key) -> String {
    let kind = match (key.kind, key.nulls_are_equal) {
        (KeyKind::Primary, _) => "PRIMARY KEY",
        (_, true) => "UNIQUE NULLS NOT DISTINCT",
        (_, false) => "UNIQUE",
    };
    format!("{kind} ({}){}", list(&key.columns), deferred(key.deferral))
}

/// `FOREIGN KEY (…) REFERENCES …`; `referred` is the other table.
pub(crate) fn reference_definition(reference: &Reference, referred: &str) -> String {
    let action = |event: &str, action: ReferenceAction| match action {
        ReferenceAction::Refuse => String::new(),
        ReferenceAction::Restrict => format!(" ON {event} RESTRICT"),
        ReferenceAction::Cascade => format!(" ON {event} CASCADE"),
        ReferenceAction::SetNull => format!(" ON {event} SET NULL"),
        ReferenceAction::SetDefault => format!(" ON {event} SET DEFAULT"),
    };
    format!(
        "FOREIGN KEY ({}) REFERENCES {referred}({}){}{}{}",
        list(&reference.columns),
        list(&reference.referred),
        action("UPDATE", reference.on_update),
        action("DELETE", reference.on_delete),
        deferred(reference.deferral)
    )
}
