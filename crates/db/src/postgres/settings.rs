//! `pg_settings`: the settings of the client and of the engine, as SHOW has them.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use diligence_catalog::{RelationName, Resolved, SessionSnapshot};

use super::rows::Cell;
use crate::duration::duration;
use crate::known_settings::SettingKind::{self, Choice, Switch, Text, Time, Whole};
use crate::known_settings::{KNOWN, PRESET};

/// The settings that PostgreSQL does not have.
const OWN: &str = "Diligence";

/// The rows of a table of the system's, of so many texts each at most.
fn shown<const COLUMNS: usize>(snapshot: &SessionSnapshot, table: &str) -> Vec<[String; COLUMNS]> {
    let Some(Resolved::Computed(table)) = snapshot.get(&RelationName::new(diligence_catalog::SYSTEM_SCHEMA, table))
    else {
        return vec![];
    };
    let Ok(rows) = table.rows(snapshot) else { return vec![] };
    let text = |column: usize, row: usize| {
        let values = rows.columns().get(column).and_then(|column| column.as_string_view_opt());
        values.map(|values| values.value(row).to_owned()).unwrap_or_default()
    };
    (0..rows.num_rows()).map(|row| std::array::from_fn(|column| text(column, row))).collect()
}

pub(super) fn settings(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let client = shown::<2>(snapshot, "client_settings").into_iter().map(|[name, value]| (name, value));
    let client = client.collect::<BTreeMap<_, _>>();
    let own = shown::<4>(snapshot, "settings");
    let mut rows = BTreeMap::new();
    for (name, first, category, kind, description) in KNOWN {
        let engine = own.iter().find(|[known, ..]| known == name);
        let value = client.get(name).or(engine.map(|[_, value, ..]| value)).map_or(first, String::as_str);
        rows.insert(name.to_owned(), row(name, value, first, category, kind, description));
    }
    for [name, value, first, description] in &own {
        if !rows.contains_key(name) {
            rows.insert(name.clone(), row(name, value, first, OWN, kind_of(value), description));
        }
    }
    rows.into_values().collect()
}

/// `pg_cursors`.
pub(super) fn cursors(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |[name, statement, is_holdable, is_binary, is_scrollable, opened]: [String; 6]| {
        let flags = [is_holdable, is_binary, is_scrollable].map(|flag| Cell::Flag(flag == "t"));
        let [is_holdable, is_binary, is_scrollable] = flags;
        vec![
            name.as_str().into(),
            statement.as_str().into(),
            is_holdable,
            is_binary,
            is_scrollable,
            opened.as_str().into(),
        ]
    };
    shown(snapshot, "cursors").into_iter().map(row).collect()
}

/// `pg_prepared_statements`. How often which kind of plan was used is not counted.
pub(super) fn prepared_statements(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |[name, statement, since, types, is_of_sql]: [String; 5]| {
        let types = types.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        vec![
            name.as_str().into(),
            statement.as_str().into(),
            since.as_str().into(),
            Cell::Texts(types),
            Cell::Flag(is_of_sql == "t"),
        ]
    };
    shown(snapshot, "prepared_statements").into_iter().map(row).collect()
}

fn kind_of(value: &str) -> SettingKind {
    match value {
        "on" | "off" => Switch,
        value if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => Whole,
        _ => Text,
    }
}

/// A setting's name as PostgreSQL writes it.
fn written(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        name => name,
    }
}

fn row(name: &str, value: &str, first: &str, category: &str, kind: SettingKind, description: &str) -> Vec<Cell> {
    let milliseconds = |text: &str| match duration(text) {
        Ok(time) if kind == Time => time.as_millis().to_string(),
        _ => text.to_owned(),
    };
    let kind_name = match kind {
        Text => "string",
        Choice => "enum",
        Switch => "bool",
        Whole | Time => "integer",
    };
    let (value, first) = (milliseconds(value), milliseconds(first));
    let source = if value == first || category == PRESET { "default" } else { "session" };
    vec![
        written(name).into(),
        value.as_str().into(),
        if kind == Time { "ms".into() } else { Cell::Null },
        category.into(),
        description.into(),
        Cell::Null,
        if category == PRESET { "internal" } else { "user" }.into(),
        kind_name.into(),
        source.into(),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        first.as_str().into(),
        first.as_str().into(),
        Cell::Null,
        Cell::Null,
        false.into(),
    ]
}
