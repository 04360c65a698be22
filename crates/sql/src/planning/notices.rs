//! What a statement tells its client beside its result: what there is already, what there is not, what goes along.

use diligence_base::{Error, Result};
use diligence_catalog::{Object, ObjectRef, Relation, RelationName};
use diligence_engine::stages::{Level, Message};

use super::around::Around;
use crate::statement::Command;

impl Around<'_> {
    fn note(&self, said: Error) {
        let mut notices = self.notices.borrow_mut();
        // What is bound twice says it once.
        if notices.iter().all(|known| known.text() != said.message()) {
            notices.push(Message { level: Level::Notice, said });
        }
    }

    /// Tells that there is no such thing, `what` with its name, where a statement says IF EXISTS.
    pub(super) fn tell_missing(&self, what: &str) {
        self.note(Error::input(format!("{what} does not exist, skipping")).with_code("00000"));
    }

    /// Tells that there is no relation of this kind and name, or not even its schema.
    pub(super) fn tell_missing_object(&self, kind: &str, name: &RelationName) {
        match self.at.snapshot.catalog.has_schema(&name.schema) || name.is_temporary() {
            true => self.tell_missing(&format!("{kind} \"{}\"", name.name)),
            false => self.tell_missing(&format!("schema \"{}\"", name.schema)),
        }
    }

    /// Tells what is left out where a statement says IF EXISTS, or fails for it with code 55000.
    pub(super) fn skip_or_fail(&self, message: String, if_exists: bool) -> Result<()> {
        if !if_exists {
            return Err(Error::input(message).with_code("55000"));
        }
        self.note(Error::input(format!("{message}, skipping")).with_code("00000"));
        Ok(())
    }

    /// Tells that there is such a thing, `what` with its name, where a statement says IF NOT EXISTS; `code` is that of
    /// the error that it would be otherwise.
    pub(super) fn tell_existing(&self, what: &str, code: &'static str) {
        self.note(Error::input(format!("{what} already exists, skipping")).with_code(code));
    }

    /// Tells that there is a relation of this name.
    pub(super) fn tell_existing_relation(&self, name: &str) {
        self.tell_existing(&format!("relation \"{name}\""), "42P07");
    }

    /// Tells what else CASCADE drops: each with its kind in front.
    pub(super) fn tell_cascades(&self, dropped: &[String]) {
        let lines = dropped.iter().map(|what| format!("drop cascades to {what}")).collect::<Vec<_>>();
        match lines.as_slice() {
            [] => {}
            [only] => self.note(Error::input(only.clone()).with_code("00000")),
            _ => {
                let message = format!("drop cascades to {} other objects", lines.len());
                self.note(Error::input(message).with_code("00000").with_detail(lines.join("\n")));
            }
        }
    }

    /// What goes along with these relations: views of them, and the foreign keys of other tables.
    pub(super) fn tell_dropped_with(&self, names: &[RelationName], views: &[RelationName]) {
        let catalog = &self.at.snapshot.catalog;
        let mut dropped =
            views.iter().filter_map(|name| catalog.get(name)).map(|object| shown(object)).collect::<Vec<_>>();
        let ids = names.iter().filter_map(|name| catalog.get(name)).map(|object| object.id).collect::<Vec<_>>();
        for other in catalog.objects().filter(|other| !ids.contains(&other.id)) {
            let Relation::Native(table) = &other.relation else { continue };
            let gone = table.rules().references.iter().filter(|reference| ids.contains(&reference.table));
            dropped.extend(gone.map(|reference| format!("constraint {} on table {}", reference.name, other.name)));
        }
        self.tell_cascades(&dropped);
    }

    /// Tells which tables TRUNCATE … CASCADE empties beside these. Fails if that cannot be known.
    pub(super) fn tell_emptied_with(&self, tables: &[ObjectRef]) -> Result<()> {
        let all = self.planner.catalogs().catalog().emptied_with(tables, true)?;
        for other in all.iter().skip(tables.len()) {
            let message = format!("truncate cascades to table \"{}\"", other.name.name);
            self.note(Error::input(message).with_code("00000"));
        }
        Ok(())
    }

    /// What goes along with a schema: what is in it, and views of that.
    pub(super) fn tell_dropped_in(&self, schema: &str, views: &[RelationName]) {
        let catalog = &self.at.snapshot.catalog;
        let is_shown = |object: &&std::sync::Arc<Object>| match &object.relation {
            // Those that columns own go with their tables.
            Relation::Sequence(sequence) => sequence.options.owner.is_none(),
            _ => true,
        };
        let within = catalog.all_objects().filter(|object| object.name.schema == schema).filter(is_shown);
        let views = views.iter().filter_map(|name| catalog.get(name));
        let dropped = within.chain(views).map(|object| shown(object)).collect::<Vec<_>>();
        self.tell_cascades(&dropped);
    }

    /// The command with what the statement has to tell.
    pub(super) fn noted(&self, command: Command) -> Command {
        match self.notices.take() {
            none if none.is_empty() => command,
            notices => Command::Noted { command: Box::new(command), notices },
        }
    }
}

/// An object with its kind in front.
fn shown(object: &Object) -> String {
    let name = &object.name;
    let kind = match &object.relation {
        Relation::View(_) => "view",
        relation if relation.materialized().is_some() => "materialized view",
        Relation::Sequence(_) => "sequence",
        Relation::Routine(_) => {
            let own = name.routine().unwrap_or(&name.name).replace(", ", ",");
            return format!("function {}", RelationName::new(&name.schema, own));
        }
        Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => "type",
        Relation::Collation(_) => "collation",
        Relation::Files(_) | Relation::Table(_) | Relation::Native(_) => "table",
    };
    format!("{kind} {name}")
}
