//! `pg_trigger`: the triggers of tables and views.

use diligence_base::ids::ObjectId;
use diligence_catalog::rules::Deferral;
use diligence_catalog::{Object, SessionSnapshot, Trigger, TriggerEvent};
use diligence_types::quoted_name;

use super::rows::Cell;

/// Triggers have numbers from here down, far from those of objects: so many for a table.
const NUMBERS_TO: i64 = 4_000_000_000;
const OF_TABLE: i64 = 64;
/// The number of a constraint trigger as a constraint is so far below that of the trigger.
const OF_CONSTRAINTS: i64 = 700_000_000;

/// The triggers of what the session sees, with their numbers.
fn all(snapshot: &SessionSnapshot) -> Vec<(i64, &Object, &Trigger)> {
    let mut found = Vec::new();
    for object in snapshot.catalog.objects().filter(|object| snapshot.sees(&object.name)) {
        let first = NUMBERS_TO - i64::from(object.oid()) % 10_000_000 * OF_TABLE;
        let numbered = object.relation.triggers().iter().zip(0..);
        found.extend(numbered.map(|(trigger, place)| (first - place, object.as_ref(), trigger)));
    }
    found
}

/// The number of a trigger that the session sees.
pub(super) fn number_of(snapshot: &SessionSnapshot, table: ObjectId, name: &str) -> Option<Cell> {
    let mut all = all(snapshot).into_iter();
    let found = all.find(|(_, object, trigger)| object.id == table && trigger.name == name);
    found.map(|(number, ..)| Cell::Number(number))
}

/// What a trigger is for, in PostgreSQL's bits.
fn bits(trigger: &Trigger) -> i64 {
    let event = |event: &TriggerEvent| match event {
        TriggerEvent::Insert => 4,
        TriggerEvent::Delete => 8,
        TriggerEvent::Update(_) => 16,
        TriggerEvent::Truncate => 32,
    };
    let events = trigger.events.iter().fold(0, |all, one| all | event(one));
    i64::from(trigger.is_row) | i64::from(trigger.is_before) << 1 | i64::from(trigger.is_instead) << 6 | events
}

/// A constraint trigger among the constraints of its table.
pub(super) struct TriggerConstraint<'a> {
    pub(super) number: i64,
    pub(super) object: &'a Object,
    pub(super) trigger: &'a Trigger,
}

/// Those that the session sees.
pub(super) fn constraints(snapshot: &SessionSnapshot) -> Vec<TriggerConstraint<'_>> {
    let all = all(snapshot).into_iter().filter(|(_, _, trigger)| trigger.constraint.is_some());
    all.map(|(oid, object, trigger)| TriggerConstraint { number: oid - OF_CONSTRAINTS, object, trigger }).collect()
}

pub(super) fn triggers(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, object, trigger): (i64, &Object, &Trigger)| {
        let function = snapshot.catalog.get(&trigger.function).map_or(0, |function| function.oid());
        let columns = trigger.events.iter().flat_map(|event| match event {
            TriggerEvent::Update(columns) => columns.as_slice(),
            _ => &[],
        });
        let schema = object.relation.schema().ok();
        let place = |column: &String| schema.as_ref()?.index_of(column).ok().map(|place| place as i64 + 1);
        let zero = || Cell::Number(0);
        vec![
            Cell::Number(oid),
            object.oid().into(),
            zero(),
            trigger.name.as_str().into(),
            function.into(),
            Cell::Number(bits(trigger)),
            trigger.state.letter().into(),
            false.into(),
            zero(),
            zero(),
            Cell::Number(if trigger.constraint.is_some() { oid - OF_CONSTRAINTS } else { 0 }),
            trigger.is_deferrable().into(),
            (trigger.constraint == Some(Deferral::Deferred)).into(),
            Cell::Number(trigger.arguments.len() as i64),
            Cell::Numbers(columns.filter_map(place).collect()),
            trigger.arguments.iter().map(|argument| format!("{argument}\\000")).collect::<String>().into(),
            trigger.when.clone().map_or(Cell::Null, Cell::Text),
            trigger.old_rows.clone().map_or(Cell::Null, Cell::Text),
            trigger.new_rows.clone().map_or(Cell::Null, Cell::Text),
        ]
    };
    all(snapshot).into_iter().map(row).collect()
}

/// The statements that make them, by their numbers: with the schemas of the table and of the function, without one of
/// them, and without both; and by which numbers these are found.
pub(super) fn texts(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, object, trigger): (i64, &Object, &Trigger)| {
        let whole = format!("{}.{}", quoted_name(&object.name.schema), quoted_name(&object.name.name));
        let bare = quoted_name(&object.name.name);
        let text = |table: &str, names_schema: bool| Cell::Text(trigger.definition_with(table, names_schema));
        let function = snapshot.catalog.get(&trigger.function).map_or(0, |function| function.oid());
        let schema = |name: &str| Cell::from(snapshot.schema_oid(name).unwrap_or_default());
        vec![
            Cell::Number(oid),
            text(&whole, true),
            text(&whole, false),
            text(&bare, true),
            text(&bare, false),
            schema(&object.name.schema),
            object.oid().into(),
            schema(&trigger.function.schema),
            function.into(),
        ]
    };
    all(snapshot).into_iter().map(row).collect()
}
