//! Changes whose followers somebody else asks for one by one: triggers run before the rows of another table follow, and
//! behind that.
//!
//! ```text
//!   change_alone ─▶ following, of each reference to the table ─▶ change_alone of its rows ─▶ …
//!                                                                end_well, of all of them
//! ```

use diligence_base::Error;

use super::*;
use crate::ObjectRef;
use crate::rules::Reference;

/// A change of a table's rows that was made without what follows from it.
pub struct LedChange(ChangedTable);

/// How rows of another table follow a change.
pub enum Following {
    /// Nothing that they refer to has gone or has another key.
    Nothing,
    /// What is to become of them; nothing, if there are none.
    Rows(Option<RowChange>),
}

impl Catalog {
    /// Takes rows of a table away and adds others, whatever refers to them. Fails as [`change`](Self::change) does,
    /// but for references.
    pub fn change_alone(&self, table: &ObjectRef, change: RowChange) -> Result<LedChange> {
        let object = self.object(table)?;
        let staged = self.staged(&change.inserted)?;
        let writing = object.writer.lock();
        let mut made = VecDeque::new();
        let (position, before) = self.append(vec![staged], |root| {
            let deferred = self.deferred();
            let change = Carried::Rows(object.clone(), change);
            let (told, entry) = self.carry(root, change, false, deferred.as_deref(), &mut made)?;
            Ok((told, vec![(None, entry)]))
        })?;
        drop((writing, before));
        self.settle(position)?;
        self.note_changed(&made);
        made.pop_front().map(LedChange).ok_or_else(|| Error::bug("a change has changed nothing"))
    }

    /// The references to a table, with the tables that have them.
    pub fn referring(&self, table: &ObjectRef) -> Vec<(ObjectRef, Reference)> {
        let newest = self.newest();
        let all = references::referring(&newest, table.id);
        all.map(|(object, reference)| (object.reference(), reference.clone())).collect()
    }

    /// How the rows of a table follow a change by one of its references. Fails with code 23503 if one of them keeps a
    /// row from going, and as [`RowRules::followed`](crate::RowRules::followed) does.
    pub fn following(&self, led: &LedChange, table: &ObjectRef, reference: &Reference) -> Result<Following> {
        let root = self.newest();
        let object = self.object(table)?;
        let settle = |table: &NativeTable, followed: Followed<'_>| {
            let Followed { rows, columns, to_defaults } = followed;
            self.followed(&root, table, rows, columns, to_defaults)
        };
        let deferred = self.deferred();
        let is_deferred = deferred.as_deref().is_some_and(|deferred| deferred.has(reference));
        drop(deferred);
        if !references::has_gone_keys(&led.0, reference)? {
            return Ok(Following::Nothing);
        }
        let change = references::left_behind(&led.0, &object, reference, is_deferred, settle)?;
        Ok(Following::Rows(match change {
            Some(Carried::Rows(_, change)) => Some(change),
            _ => None,
        }))
    }

    /// Looks at what rows that came refer to. Fails with code 23503.
    pub fn end_well(&self, all: &[LedChange]) -> Result<()> {
        let root = self.newest();
        let deferred = self.deferred();
        all.iter().try_for_each(|led| references::came_well(&root, &led.0, deferred.as_deref()))
    }
}
