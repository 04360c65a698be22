//! Triggers, as the SQL standard describes them: a row for each event.

use diligence_catalog::{CATALOG_NAME, RelationName, SessionSnapshot, TriggerEvent};

use super::{Cell, Row};

/// The standard knows no TRUNCATE.
fn word(event: &TriggerEvent) -> Option<&'static str> {
    match event {
        TriggerEvent::Insert => Some("INSERT"),
        TriggerEvent::Update(_) => Some("UPDATE"),
        TriggerEvent::Delete => Some("DELETE"),
        TriggerEvent::Truncate => None,
    }
}

fn named(trigger: &str, table: &RelationName) -> Row {
    row! {
        "trigger_catalog": CATALOG_NAME,
        "trigger_schema": table.schema.as_str(),
        "trigger_name": trigger,
        "event_object_catalog": CATALOG_NAME,
        "event_object_schema": table.schema.as_str(),
        "event_object_table": table.name.as_str(),
    }
}

/// `triggers`.
pub(super) fn triggers(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name)) {
        for (trigger, order) in object.relation.triggers().iter().zip(1..) {
            let definition = trigger.definition("t");
            let statement = definition.split_once("EXECUTE ").map_or("", |(_, rest)| rest);
            for event in trigger.events.iter().filter_map(word) {
                let mut row = named(&trigger.name, &object.name);
                row.insert("event_manipulation", event.into());
                row.insert("action_order", Cell::from(order));
                row.insert("action_statement", format!("EXECUTE {statement}").into());
                row.insert("action_orientation", if trigger.is_row { "ROW" } else { "STATEMENT" }.into());
                row.insert("action_timing", trigger.timing().into());
                if let Some(when) = &trigger.when {
                    row.insert("action_condition", when.as_str().into());
                }
                if let Some(name) = &trigger.old_rows {
                    row.insert("action_reference_old_table", name.as_str().into());
                }
                if let Some(name) = &trigger.new_rows {
                    row.insert("action_reference_new_table", name.as_str().into());
                }
                rows.push(row);
            }
        }
    }
    rows
}

/// `triggered_update_columns`.
pub(super) fn columns(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name)) {
        for trigger in object.relation.triggers() {
            for event in &trigger.events {
                let TriggerEvent::Update(columns) = event else { continue };
                for column in columns {
                    let mut row = named(&trigger.name, &object.name);
                    row.insert("event_object_column", column.as_str().into());
                    rows.push(row);
                }
            }
        }
    }
    rows
}
