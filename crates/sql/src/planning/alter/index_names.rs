//! DROP INDEX and ALTER INDEX … RENAME TO.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::rules::Key;
use diligence_catalog::{NativeTable, Object, Relation, RelationName, Resolved};
use sqlparser::ast::ObjectName;

use super::{Altered, Around, BoundStatement, Command, Declaration, From, Statement, lower};
use crate::parse::IF_EXISTS;

impl Around<'_> {
    /// DROP INDEX. Fails with 42704 if there is no index of a name, 42809 if it is something else's, and with 2BP01 if
    /// a constraint is it.
    pub(in crate::planning) fn drop_indexes(&self, names: &[ObjectName], if_exists: bool) -> Result<Statement> {
        const TAG: &str = "DROP INDEX";
        let mut gone = BTreeMap::<RelationName, Vec<String>>::new();
        for name in names {
            let name = self.index_name(name)?;
            let Some((object, key)) = self.index_named(&name) else {
                if let Some(other) = self.at.snapshot.catalog.get(&name) {
                    let error = Error::input(format!("\"{}\" is not an index", name.name)).with_code("42809");
                    let kind = other.relation.kind();
                    return Err(error.with_hint(format!("Use DROP {} to remove a {kind}.", kind.to_uppercase())));
                }
                if if_exists {
                    self.tell_missing_object("index", &name);
                    continue;
                }
                return Err(Error::input(format!("index \"{name}\" does not exist")).with_code("42704"));
            };
            self.at.snapshot.rights.check_owner(&object.name)?;
            if key.kind.is_constraint() {
                let message = format!("cannot drop index {name} because constraint {name} requires it");
                let hint = format!("ALTER TABLE {} DROP CONSTRAINT {name}", object.name);
                return Err(Error::input(message).with_code("2BP01").with_hint(hint));
            }
            gone.entry(object.name.clone()).or_default().push(name.name);
        }
        let mut commands = Vec::new();
        for (table_name, keys) in gone {
            let Some(Resolved::Object(object)) = self.at.snapshot.get(&table_name) else { continue };
            let Relation::Native(table) = &object.relation else { continue };
            let from = (0..table.schema().fields().len()).map(From::Column).collect();
            let declaration = Declaration::of(object.name.clone(), table);
            let mut altered = Altered::new(declaration, from);
            altered.declaration.rules.keys.retain(|key| !keys.contains(&key.name));
            self.check_referred(&object, table, &altered)?;
            match self.altered(&object, altered, TAG)? {
                BoundStatement::Other(Statement::Command(command)) => commands.push(command),
                _ => return Err(Error::bug("an index is dropped by a query")),
            }
        }
        Ok(Statement::Command(match commands.len() {
            0 => Command::Nothing(TAG),
            1 => commands.remove(0),
            _ => Command::All { commands, tag: TAG },
        }))
    }

    /// What an index, or another relation, is called in a statement that changes it: without a schema, the first one of
    /// the path, in which temporary tables' indexes come first. Fails as [`relation_name`](Self::relation_name).
    pub(in crate::planning) fn index_name(&self, name: &ObjectName) -> Result<RelationName> {
        Ok(self.index_along_path(self.relation_name(name)?, name.0.len() == 1))
    }

    fn index_along_path(&self, name: RelationName, is_bare: bool) -> RelationName {
        let mut schemas = self.schemas().into_iter().filter(|_| is_bare);
        let candidate =
            |schema: String| Some(RelationName::new(schema, &name.name)).filter(|candidate| self.is_taken(candidate));
        schemas.find_map(candidate).unwrap_or(name)
    }

    /// The index of a name, and its table.
    pub(in crate::planning) fn index_named(&self, name: &RelationName) -> Option<(&Arc<Object>, &Key)> {
        let mut objects = self.at.snapshot.catalog.objects().filter(|object| object.name.schema == name.schema);
        objects.find_map(|object| match &object.relation {
            Relation::Native(table) => {
                let mut keys = table.rules().keys.iter();
                keys.find(|key| key.name == name.name).map(|key| (object, key))
            }
            _ => None,
        })
    }

    /// Whether an index has the name of a relation that is to be made, where that is fine. Fails with 42P07 where it is
    /// not.
    pub(in crate::planning) fn is_index_name(&self, name: &RelationName, if_not_exists: bool) -> Result<bool> {
        if self.index_named(name).is_none() {
            return Ok(false);
        }
        if if_not_exists {
            self.tell_existing_relation(&name.name);
            return Ok(true);
        }
        let error = Error::input(format!("relation \"{}\" already exists", name.name)).with_code("42P07");
        Err(error.with_hint("an index has this name: take another one, or ALTER INDEX … RENAME TO"))
    }

    /// Fails with code 42809 if a name is an index' that is to be something else's.
    pub(in crate::planning) fn refuse_index(&self, name: &RelationName, kind: &str) -> Result<()> {
        if self.at.snapshot.catalog.get(name).is_some() || self.index_named(name).is_none() {
            return Ok(());
        }
        let error = Error::input(format!("\"{}\" is not a {kind}", name.name)).with_code("42809");
        Err(error.with_hint("Use DROP INDEX to remove an index."))
    }

    /// Whether an index or another relation of the schema has the name.
    pub(in crate::planning) fn is_taken(&self, name: &RelationName) -> bool {
        self.at.snapshot.catalog.get(name).is_some() || self.index_named(name).is_some()
    }

    /// ALTER INDEX … RENAME TO. Fails with 42704 if there is no such index, and with 42P07 if the name is taken.
    pub(in crate::planning) fn rename_index(&self, name: &ObjectName, to: &ObjectName) -> Result<BoundStatement> {
        let is_bare = name.0.len() == 1;
        let mut name = self.relation_name(name)?;
        let is_conditional = name.name.strip_prefix(IF_EXISTS).map(str::to_owned);
        if let Some(bare) = &is_conditional {
            name.name.clone_from(bare);
        }
        let name = self.index_along_path(name, is_bare);
        let to = to.0.last().and_then(|part| part.as_ident()).map(lower);
        let to = to.ok_or_else(|| Error::input("an index gets a name").with_code("42601"))?;
        let tables = self.at.snapshot.catalog.objects().filter(|object| object.name.schema == name.schema);
        let mut keyed = tables.filter_map(|object| match &object.relation {
            Relation::Native(table) => Some((object, table)),
            _ => None,
        });
        let has = |table: &NativeTable, name: &str| table.rules().keys.iter().any(|key| key.name == name);
        let Some((object, table)) = keyed.find(|(_, table)| has(table, &name.name)) else {
            if is_conditional.is_some() {
                self.tell_missing_object("relation", &name);
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing("ALTER INDEX"))));
            }
            return Err(Error::input(format!("relation \"{}\" does not exist", name.name)).with_code("42P01"));
        };
        self.at.snapshot.rights.check_owner(&object.name)?;
        if self.is_taken(&RelationName::new(&name.schema, &to)) {
            return Err(Error::input(format!("relation \"{to}\" already exists")).with_code("42P07"));
        }
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let declaration = Declaration::of(object.name.clone(), table);
        let mut altered = Altered::new(declaration, from);
        for key in altered.declaration.rules.keys.iter_mut().filter(|key| key.name == name.name) {
            key.name.clone_from(&to);
        }
        altered.renamed.push((name.name, to));
        self.altered(object, altered, "ALTER INDEX")
    }
}
