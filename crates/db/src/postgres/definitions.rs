//! Indexes and constraints as statements say them.

use diligence_catalog::operator_classes::default_class;
use diligence_catalog::rules::{Deferral, Key, KeyKind, PartForm, Reference, ReferenceAction};
use diligence_catalog::{DEFAULT_SCHEMA, NativeTable, RelationName};
use diligence_types::SqlType;
use diligence_types::quoted_name;
use sqlparser::ast::Expr;

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted_name(name)).collect::<Vec<_>>().join(", ")
}

pub(super) fn qualified(name: &RelationName) -> String {
    match name.schema.as_str() {
        DEFAULT_SCHEMA => quoted_name(&name.name).into_owned(),
        schema => format!("{}.{}", quoted_name(schema), quoted_name(&name.name)),
    }
}

/// `CREATE INDEX …`, as `pg_get_indexdef` shows it.
pub(crate) fn index_definition(of: &NativeTable, table: &RelationName, key: &Key) -> String {
    let unique = if key.kind.is_unique() { "UNIQUE " } else { "" };
    let table = format!("{}.{}", quoted_name(&table.schema), quoted_name(&table.name));
    let condition = key_condition(key).map(|condition| format!(" WHERE ({condition})")).unwrap_or_default();
    format!("CREATE {unique}INDEX {} ON {table} {}{condition}", quoted_name(&key.name), how(of, key, true))
}

/// The same as it is shown to people: without a schema that is not needed, and without parentheses.
pub(super) fn short_index_definition(of: &NativeTable, table: &RelationName, key: &Key) -> String {
    let unique = if key.kind.is_unique() { "UNIQUE " } else { "" };
    let condition = key_condition(key).map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    format!(
        "CREATE {unique}INDEX {} ON {} {}{condition}",
        quoted_name(&key.name),
        qualified(table),
        how(of, key, false)
    )
}

/// The access method, the columns and the parameters; if it is `whole`, with each operator in parentheses.
fn how(of: &NativeTable, key: &Key, whole: bool) -> String {
    let expressions = key.computed.as_ref().map_or(&[][..], |computed| &computed.expressions);
    let is_operator = |place: usize| {
        let expression = expressions.get(place).and_then(Option::as_ref);
        expression.is_some_and(|expression| matches!(**expression, Expr::BinaryOp { .. }))
    };
    let types = key_types(of, key);
    let part = |(place, text): (usize, String)| {
        let PartForm { operator_class, is_descending, nulls_first, .. } = key.part(place);
        let by_default = types.get(place).and_then(|sql_type| default_class(key.method(), sql_type.as_ref()?));
        let class = operator_class.filter(|name| by_default.is_none_or(|class| class.name != name));
        let class = class.map(|name| format!(" {}", quoted_name(&name))).unwrap_or_default();
        let order = match (is_descending, nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        let text = if whole && is_operator(place) { format!("({text})") } else { text };
        format!("{text}{class}{order}")
    };
    let parts = key_parts(key).into_iter().enumerate().map(part).collect::<Vec<_>>().join(", ");
    let nulls = if key.nulls_are_equal && key.kind.is_unique() { " NULLS NOT DISTINCT" } else { "" };
    let options = key.form.as_ref().map_or(&[][..], |form| &form.options);
    let options = options.iter().map(|(name, value)| format!("{}={}", quoted_name(name), option_value(value)));
    let options = options.collect::<Vec<_>>().join(", ");
    let options = if options.is_empty() { options } else { format!(" WITH ({options})") };
    format!("USING {} ({parts}){}{nulls}{options}", key.method(), including(key))
}

/// A parameter's value: in quotes, unless it is a name.
fn option_value(value: &str) -> String {
    let is_name = quoted_name(value) == value && !matches!(value, "true" | "false" | "on");
    if is_name { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
}

/// ` INCLUDE (…)`, if there is one.
fn including(key: &Key) -> String {
    if key.included().is_empty() { String::new() } else { format!(" INCLUDE ({})", list(key.included())) }
}

/// The types of a key's values.
pub(super) fn key_types(of: &NativeTable, key: &Key) -> Vec<Option<SqlType>> {
    let of_column = |name: &String| SqlType::of_field(of.schema().field_with_name(name).ok()?);
    match &key.computed {
        Some(computed) => computed.function.sql_types().iter().cloned().map(Some).collect(),
        None => key.columns.iter().map(of_column).collect(),
    }
}

/// The column of an expression that only gives it another collation.
pub(super) fn collated_column(expression: &Expr) -> Option<String> {
    let Expr::Collate { expr, .. } = expression else { return None };
    match expr.as_ref() {
        Expr::Identifier(name) if name.quote_style.is_some() => Some(name.value.clone()),
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        _ => None,
    }
}

/// The columns of a key as they are written: those of the table in quotes, where they must be.
pub(super) fn key_parts(key: &Key) -> Vec<String> {
    let is_column = |place: usize| key.computed.as_ref().is_none_or(|computed| computed.expressions[place].is_none());
    let part =
        |(place, name): (usize, &String)| if is_column(place) { quoted_name(name).into_owned() } else { name.clone() };
    key.columns.iter().enumerate().map(part).collect()
}

/// The expressions among the columns of a key, with commas between them; `None` if there are none.
pub(super) fn key_expressions(key: &Key) -> Option<String> {
    let expressions = key.computed.as_ref()?.expressions.iter().flatten();
    let expressions = expressions.filter(|expression| collated_column(expression).is_none());
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

/// `PRIMARY KEY (…)`, `UNIQUE (…)` or `EXCLUDE …`.
pub(crate) fn key_definition(key: &Key) -> String {
    if key.kind == KeyKind::Exclusion {
        let parts = key_parts(key).into_iter().zip(key.operators());
        let parts = parts.map(|(part, operator)| format!("{part} WITH {operator}")).collect::<Vec<_>>().join(", ");
        let condition = key_condition(key).map(|condition| format!(" WHERE (({condition}))")).unwrap_or_default();
        let (method, deferred) = (key.method(), deferred(key.deferral));
        return format!("EXCLUDE USING {method} ({parts}){}{condition}{deferred}", including(key));
    }
    let kind = match (key.kind, key.nulls_are_equal) {
        (KeyKind::Primary, _) => "PRIMARY KEY",
        (_, true) => "UNIQUE NULLS NOT DISTINCT",
        (_, false) => "UNIQUE",
    };
    format!("{kind} ({}){}{}", list(&key.columns), including(key), deferred(key.deferral))
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
    let set = &reference.set_columns;
    let set = if set.is_empty() { String::new() } else { format!(" ({})", list(set)) };
    format!(
        "FOREIGN KEY ({}) REFERENCES {referred}({}){}{}{}{}{}",
        list(&reference.columns),
        list(&reference.referred),
        if reference.is_full { " MATCH FULL" } else { "" },
        action("UPDATE", reference.on_update),
        action("DELETE", reference.on_delete),
        set,
        deferred(reference.deferral)
    )
}
