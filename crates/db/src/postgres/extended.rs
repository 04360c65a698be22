//! `pg_statistic_ext`: what CREATE STATISTICS says of tables.

use diligence_base::ids::ObjectId;
use diligence_catalog::authority::Subject;
use diligence_catalog::{ExtendedStatistics, Object, Relation, SessionSnapshot};
use diligence_types::quoted_name;

use super::roles;
use super::rows::Cell;

/// They have numbers from here down, far from those of triggers and their constraints: so many for a table.
const NUMBERS_TO: i64 = 2_500_000_000;
const OF_TABLE: i64 = 64;

/// Statistics with their number, their table and their schema.
type Numbered<'a> = (i64, &'a Object, &'a str, &'a ExtendedStatistics);

fn all(snapshot: &SessionSnapshot) -> Vec<Numbered<'_>> {
    let mut found = Vec::new();
    for object in snapshot.catalog.objects().filter(|object| snapshot.sees(&object.name)) {
        let Relation::Native(table) = &object.relation else { continue };
        let first = NUMBERS_TO - i64::from(object.oid()) % 10_000_000 * OF_TABLE;
        found.extend(table.rules().statistics.iter().zip(0..).map(|(own, place)| {
            let schema = own.schema.as_deref().unwrap_or(&object.name.schema);
            (first - place, object.as_ref(), schema, own)
        }));
    }
    found
}

/// The owner of a table.
fn owner(snapshot: &SessionSnapshot, id: ObjectId) -> Cell {
    roles::owner_oid(snapshot, Subject::Object(id))
}

/// The rows of `pg_statistic_ext`.
pub(super) fn statistics(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, object, schema, own): Numbered<'_>| {
        let columns = object.relation.schema().ok();
        let place = |column: &String| columns.as_ref()?.index_of(column).ok().map(|place| place as i64 + 1);
        let expressions = (!own.expressions.is_empty()).then(|| own.expressions.join(", "));
        vec![
            Cell::Number(oid),
            object.oid().into(),
            own.name.as_str().into(),
            snapshot.schema_oid(schema).unwrap_or_default().into(),
            owner(snapshot, object.id),
            own.target.unwrap_or(-1).into(),
            Cell::Numbers(own.columns.iter().filter_map(place).collect()),
            Cell::Texts(own.kinds.chars().map(String::from).collect()),
            expressions.map_or(Cell::Null, Cell::Text),
        ]
    };
    all(snapshot).into_iter().map(row).collect()
}

/// The statements that make them, by their numbers, what these list, and the expressions alone.
pub(super) fn texts(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, object, schema, own): Numbered<'_>| {
        let whole = format!("{}.{}", quoted_name(&object.name.schema), quoted_name(&object.name.name));
        vec![
            Cell::Number(oid),
            own.definition(schema, &whole).into(),
            own.definition(schema, &quoted_name(&object.name.name)).into(),
            own.listed().into(),
            if own.expressions.is_empty() { Cell::Null } else { Cell::Texts(own.expressions.clone()) },
            snapshot.schema_oid(&object.name.schema).unwrap_or_default().into(),
            object.oid().into(),
        ]
    };
    all(snapshot).into_iter().map(row).collect()
}
