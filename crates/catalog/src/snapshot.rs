//! The names of a database at one moment.
//!
//! The schemas and their objects are a tree of shared nodes. A change copies the nodes on its way to the root, and only
//! if a snapshot still has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::ids::ObjectId;

use crate::authority::Authority;
use crate::name::{DEFAULT_SCHEMA_ID, is_temporary, oid_of};
use crate::{DEFAULT_SCHEMA, NativeTable, Object, Relation, RelationName};

/// The names of a database at one moment. Cheap to clone. Keeps the rows of tables in memory as they were, so it is for
/// planning a statement, or for as long as a transaction is to see nothing else.
#[derive(Clone, Debug)]
pub struct CatalogSnapshot(pub(crate) Arc<Root>);

#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub schemas: BTreeMap<String, Arc<Schema>>,
    /// Folders that look like tables and are none, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// How often changes had been lost when it was made.
    pub losses: u64,
    /// Who may do what.
    pub authority: Arc<Authority>,
}

#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub id: ObjectId,
    pub objects: BTreeMap<String, Arc<Object>>,
}

impl Schema {
    pub fn new(id: ObjectId) -> Arc<Self> {
        Arc::new(Self { id, objects: BTreeMap::new() })
    }
}

impl Default for Root {
    fn default() -> Self {
        let schemas = BTreeMap::from([(DEFAULT_SCHEMA.to_owned(), Schema::new(DEFAULT_SCHEMA_ID))]);
        Self { schemas, left_out: BTreeMap::new(), losses: 0, authority: Arc::default() }
    }
}

impl Root {
    pub fn get(&self, name: &RelationName) -> Option<&Arc<Object>> {
        self.schemas.get(&name.schema)?.objects.get(&name.name)
    }

    /// The rows of a native table.
    pub fn rows_of(&self, table: ObjectId) -> Option<&NativeTable> {
        let mut objects = self.schemas.values().flat_map(|schema| schema.objects.values());
        match &objects.find(|object| object.id == table)?.relation {
            Relation::Native(rows) => Some(rows),
            _ => None,
        }
    }

    /// The sequences that a table's columns own.
    pub fn owned_by(&self, table: ObjectId) -> Vec<Arc<Object>> {
        let objects = self.schemas.values().flat_map(|schema| schema.objects.values());
        let is_owned = |object: &&Arc<Object>| match &object.relation {
            Relation::Sequence(sequence) => sequence.options.owner.as_ref().is_some_and(|(owner, _)| *owner == table),
            _ => false,
        };
        objects.filter(is_owned).cloned().collect()
    }
}

impl CatalogSnapshot {
    /// What has exactly this name.
    pub fn get(&self, name: &RelationName) -> Option<&Arc<Object>> {
        self.0.get(name)
    }

    /// What a statement means by a name. One without capitals finds one with capitals, if only one differs by nothing
    /// else: files are often named `Sales.csv`, and `FROM Sales` is read as `sales`.
    pub fn resolve(&self, name: &RelationName) -> Option<&Arc<Object>> {
        let objects = &self.0.schemas.get(&name.schema)?.objects;
        if let Some(object) = objects.get(&name.name) {
            return Some(object);
        }
        let mut alike = objects.iter().filter(|(known, _)| known.to_lowercase() == name.name);
        match (alike.next(), alike.next()) {
            (Some((_, only)), None) => Some(only),
            _ => None,
        }
    }

    /// The relations, in the order of their names.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.all_objects().filter(|object| object.relation.is_listed())
    }

    /// The schemas that a log keeps, with their ids.
    pub fn kept_schemas(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.schemas().filter(|(name, _)| !is_temporary(name))
    }

    /// The relations, the routines and the types.
    pub fn all_objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.0.schemas.values().flat_map(|schema| schema.objects.values())
    }

    /// The objects of one schema, in the order of their names; none if there is no such schema.
    pub fn objects_in(&self, schema: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.0.schemas.get(schema).into_iter().flat_map(|schema| schema.objects.values())
    }

    /// The routines of a name in one schema, whatever their arguments.
    pub fn routines(&self, schema: &str, name: &str) -> Vec<&Arc<Object>> {
        let first = RelationName::of_routine(schema, name, None).name;
        let objects = self.0.schemas.get(schema).into_iter().flat_map(|schema| schema.objects.range(first.clone()..));
        let is_of_name =
            |known: &str| known.strip_prefix(&first).is_some_and(|rest| rest.is_empty() || rest.starts_with('('));
        let of_name = objects.take_while(|(known, _)| known.starts_with(&first)).filter(|(known, _)| is_of_name(known));
        of_name.map(|(_, object)| object).collect()
    }

    /// The names of relations in one schema, in order; none if there is no such schema.
    pub fn names_in(&self, schema: &str) -> Vec<String> {
        let objects = self.0.schemas.get(schema).into_iter().flat_map(|schema| schema.objects.iter());
        let relations = objects.filter(|(_, object)| object.relation.is_listed());
        relations.map(|(name, _)| name.clone()).collect()
    }

    /// The schemas, in order.
    pub fn schema_names(&self) -> impl Iterator<Item = &str> {
        self.0.schemas.keys().map(String::as_str)
    }

    /// The schemas with their ids, in the order of their names.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.0.schemas.iter().map(|(name, schema)| (name.as_str(), schema.id))
    }

    /// Whether there is such a schema.
    pub fn has_schema(&self, schema: &str) -> bool {
        self.0.schemas.contains_key(schema)
    }

    /// The number by which PostgreSQL's clients know a schema; `None` if there is no such schema.
    pub fn schema_oid(&self, schema: &str) -> Option<u32> {
        self.0.schemas.get(schema).map(|schema| oid_of(schema.id))
    }

    /// Who may do what, as statements have said it.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.0.authority
    }

    /// What somebody may look for in vain, and why.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.left_out.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }
}
