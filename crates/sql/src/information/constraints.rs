//! What tables are declared with, as the views of `information_schema` show it.

use std::sync::Arc;

use diligence_base::ids::ObjectId;
use diligence_catalog::rules::{Deferral, Identity, Key, KeyKind, ReferenceAction, TableRules};
use diligence_catalog::{CATALOG_NAME, NativeTable, Object, Relation, SessionSnapshot};

use super::{Cell, Row};

/// The tables that the session may read, with their rules.
fn tables(snapshot: &SessionSnapshot) -> Vec<(Arc<Object>, Arc<NativeTable>)> {
    let readable = snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name));
    let table = |object: &Arc<Object>| match &object.relation {
        Relation::Native(table) => Some((object.clone(), table.clone())),
        _ => None,
    };
    readable.filter_map(table).collect()
}

fn constraint(object: &Object, name: &str) -> Row {
    let schema = object.name.schema.as_str();
    row! { "constraint_catalog": CATALOG_NAME, "constraint_schema": schema, "constraint_name": name }
}

fn of_table(object: &Object, name: &str) -> Row {
    let mut row = constraint(object, name);
    row.extend(row! {
        "table_catalog": CATALOG_NAME,
        "table_schema": object.name.schema.as_str(),
        "table_name": object.name.name.as_str(),
    });
    row
}

pub(super) fn table_constraints(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, table) in tables(snapshot) {
        let mut add = |name: &str, kind: &str, deferral: Deferral| {
            let yes_or_no = |is_it| if is_it { "YES" } else { "NO" };
            let mut row = of_table(&object, name);
            let more = row! {
                "constraint_type": kind,
                "is_deferrable": yes_or_no(deferral != Deferral::Never),
                "initially_deferred": yes_or_no(deferral == Deferral::Deferred),
                "enforced": "YES",
            };
            row.extend(more);
            rows.push(row);
        };
        let rules = table.rules();
        for key in rules.keys.iter().filter(is_shown) {
            add(&key.name, if key.kind == KeyKind::Primary { "PRIMARY KEY" } else { "UNIQUE" }, key.deferral);
        }
        rules.references.iter().for_each(|reference| add(&reference.name, "FOREIGN KEY", reference.deferral));
        rules.checks.iter().for_each(|check| add(&check.name, "CHECK", Deferral::Never));
    }
    rows
}

/// Whether a key is among the constraints of the standard, which has no EXCLUDE.
fn is_shown(key: &&Key) -> bool {
    key.kind.is_constraint() && key.kind.is_unique()
}

fn place(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}

pub(super) fn key_columns(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, table) in tables(snapshot) {
        let rules = table.rules();
        let keys = rules.keys.iter().filter(is_shown);
        let keys = keys.map(|key| (&key.name, &key.columns, false));
        let references = rules.references.iter().map(|reference| (&reference.name, &reference.columns, true));
        for (name, columns, is_reference) in keys.chain(references) {
            for (index, column) in columns.iter().enumerate() {
                let mut row = of_table(&object, name);
                row.extend(row! { "column_name": column.as_str(), "ordinal_position": place(index) });
                if is_reference {
                    row.extend(row! { "position_in_unique_constraint": place(index) });
                }
                rows.push(row);
            }
        }
    }
    rows
}

/// A referential action as PostgreSQL names it.
fn action(action: ReferenceAction) -> &'static str {
    match action {
        ReferenceAction::Refuse => "NO ACTION",
        ReferenceAction::Restrict => "RESTRICT",
        ReferenceAction::Cascade => "CASCADE",
        ReferenceAction::SetNull => "SET NULL",
        ReferenceAction::SetDefault => "SET DEFAULT",
    }
}

pub(super) fn references(snapshot: &SessionSnapshot) -> Vec<Row> {
    let all = tables(snapshot);
    let mut rows = Vec::new();
    for (object, table) in &all {
        for reference in &table.rules().references {
            let mut row = constraint(object, &reference.name);
            row.extend(row! {
                "match_option": if reference.is_full { "FULL" } else { "NONE" },
                "update_rule": action(reference.on_update),
                "delete_rule": action(reference.on_delete),
            });
            if let Some((other, there)) = all.iter().find(|(other, _)| other.id == reference.table)
                && let Some(key) = there.rules().keys.iter().find(|key| key.refers_to(&reference.referred))
            {
                row.extend(row! {
                    "unique_constraint_catalog": CATALOG_NAME,
                    "unique_constraint_schema": other.name.schema.as_str(),
                    "unique_constraint_name": key.name.as_str(),
                });
            }
            rows.push(row);
        }
    }
    rows
}

pub(super) fn checks(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, table) in tables(snapshot) {
        for check in &table.rules().checks {
            let mut row = constraint(&object, &check.name);
            row.extend(row! { "check_clause": format!("({})", check.condition) });
            rows.push(row);
        }
    }
    rows
}

pub(super) fn constrained_columns(snapshot: &SessionSnapshot) -> Vec<Row> {
    let all = tables(snapshot);
    let mut rows = Vec::new();
    let mut add = |owner: &Object, name: &str, table: &Object, columns: &[String]| {
        for column in columns {
            let mut row = of_table(table, name);
            row.extend(row! { "constraint_schema": owner.name.schema.as_str(), "column_name": column.as_str() });
            rows.push(row);
        }
    };
    for (object, table) in &all {
        for key in table.rules().keys.iter().filter(is_shown) {
            add(object, &key.name, object, &key.columns);
        }
        for reference in &table.rules().references {
            if let Some((other, _)) = all.iter().find(|(other, _)| other.id == reference.table) {
                add(object, &reference.name, other, &reference.referred);
            }
        }
    }
    rows
}

/// Whether a column of a table is an identity column.
fn counts(snapshot: &SessionSnapshot, table: ObjectId, column: &str) -> bool {
    let object = snapshot.catalog.all_objects().find(|object| object.id == table);
    let rules = object.and_then(|object| match &object.relation {
        Relation::Native(table) => Some(table.rules()),
        _ => None,
    });
    rules.is_some_and(|rules| rules.identities.contains_key(column))
}

pub(super) fn sequences(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name)) {
        let Relation::Sequence(sequence) = &object.relation else { continue };
        let options = &sequence.options;
        // Those of identity columns are not among them.
        if options.owner.as_ref().is_some_and(|(table, column)| counts(snapshot, *table, column)) {
            continue;
        }
        let data_type = match options.bits {
            16 => "smallint",
            32 => "integer",
            _ => "bigint",
        };
        rows.push(row! {
            "sequence_catalog": CATALOG_NAME,
            "sequence_schema": object.name.schema.as_str(),
            "sequence_name": object.name.name.as_str(),
            "data_type": data_type,
            "numeric_precision": i32::from(options.bits),
            "numeric_precision_radix": 2,
            "numeric_scale": 0,
            "start_value": options.start.to_string(),
            "minimum_value": options.min.to_string(),
            "maximum_value": options.max.to_string(),
            "increment": options.increment.to_string(),
            "cycle_option": if options.cycles { "YES" } else { "NO" },
        });
    }
    rows
}

/// What a table's rules say of a column.
pub(super) fn describe_column(rules: &TableRules, column: &str, row: &mut Row) {
    if let Some(generated) = rules.generated.get(column) {
        row.extend(row! { "is_generated": "ALWAYS", "generation_expression": format!("({generated})") });
    }
    if let Some(identity) = rules.identities.get(column) {
        let when = if *identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
        row.remove("column_default");
        row.extend(row! { "is_identity": "YES", "identity_generation": when });
    }
}

/// How a column counts, as its sequence does.
pub(super) fn describe_counting(snapshot: &SessionSnapshot, table: ObjectId, column: &str, row: &mut Row) {
    let owned = snapshot.catalog.objects().find_map(|object| match &object.relation {
        Relation::Sequence(sequence) => {
            let (of, own) = sequence.options.owner.as_ref()?;
            (*of == table && own == column).then_some(sequence)
        }
        _ => None,
    });
    let Some(sequence) = owned else { return };
    let options = &sequence.options;
    row.extend(row! {
        "identity_start": options.start.to_string(),
        "identity_increment": options.increment.to_string(),
        "identity_maximum": options.max.to_string(),
        "identity_minimum": options.min.to_string(),
        "identity_cycle": if options.cycles { "YES" } else { "NO" },
    });
}
