//! Comments, as PostgreSQL lists them.

use diligence_base::ids::ObjectId;
use diligence_catalog::authority::{Subject, Topic};
use diligence_catalog::{Relation, SessionSnapshot};

use super::declared::{Kind, PG_CLASS, declared};
use super::rows::Cell;
use super::{constraints, triggers};

/// The numbers of the tables of `pg_catalog` that have what comments are of.
const PG_TYPE: u32 = 1247;
const PG_PROC: u32 = 1255;
const PG_CONSTRAINT: u32 = 2606;
const PG_NAMESPACE: u32 = 2615;
const PG_TRIGGER: u32 = 2620;
const PG_COLLATION: u32 = 3456;

/// The rows of `pg_description`.
pub(super) fn comments(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        for (column, text) in &of.table.rules().comments {
            let place = match column.as_str() {
                "" => 0,
                column => of.table.schema().index_of(column).map_or(-1, |place| place as i64 + 1),
            };
            rows.push(vec![of.object.oid().into(), PG_CLASS.into(), Cell::Number(place), text.as_str().into()]);
        }
    }
    for (topic, text) in snapshot.catalog.authority().comments() {
        if let Some((number, class, column)) = topic_numbers(snapshot, topic) {
            rows.push(vec![number, class.into(), Cell::Number(column), text.as_str().into()]);
        }
    }
    rows
}

/// The number of what a comment is of, that of the table which has it, and the column; `None` for what the session does
/// not see, and for what is not of this database alone.
fn topic_numbers(snapshot: &SessionSnapshot, topic: &Topic) -> Option<(Cell, u32, i64)> {
    let object_of = |id: ObjectId| {
        let mut objects = snapshot.catalog.all_objects();
        objects.find(|object| object.id == id).filter(|object| snapshot.sees(&object.name))
    };
    match topic {
        Topic::Subject(Subject::Database | Subject::Language(_)) | Topic::Role(_) => None,
        Topic::Subject(Subject::Schema(id)) => {
            let (name, _) = snapshot.catalog.schemas().find(|(_, known)| known == id)?;
            Some((snapshot.schema_oid(name)?.into(), PG_NAMESPACE, 0))
        }
        Topic::Subject(Subject::Object(id)) => {
            let object = object_of(*id)?;
            let class = match &object.relation {
                Relation::Routine(_) => PG_PROC,
                Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => PG_TYPE,
                Relation::Collation(_) => PG_COLLATION,
                _ => PG_CLASS,
            };
            Some((object.oid().into(), class, 0))
        }
        Topic::Subject(Subject::Column(id, number)) => {
            let object = object_of(*id)?;
            let place = object.relation.schema().ok()?.index_of(&object.column_of(*number)?).ok()?;
            Some((object.oid().into(), PG_CLASS, place as i64 + 1))
        }
        Topic::Index(table, name) => {
            let of = declared(snapshot).into_iter().find(|of| of.object.id == *table)?;
            let (place, _) = of.keys().find(|(_, key)| key.name == *name)?;
            Some((of.number(Kind::Index, place), PG_CLASS, 0))
        }
        Topic::Constraint(of, name) => {
            let number = constraints::number_of(snapshot, object_of(*of)?.oid(), name)?;
            Some((number, PG_CONSTRAINT, 0))
        }
        Topic::Trigger(table, name) => Some((triggers::number_of(snapshot, *table, name)?, PG_TRIGGER, 0)),
    }
}
