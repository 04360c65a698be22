//! INSERT … ON CONFLICT: by which key rows conflict, and what becomes of those that do.

use diligence_base::{Error, Result};
use diligence_catalog::NativeTable;
use diligence_catalog::rules::Key;
use sqlparser::ast::{self, OnConflictAction};

use super::around::Around;
use super::changes::ChangedTable;
use crate::binder::{self, BoundChange, BoundJudgement, Changed, Conflict, Context, Given, KeyTerm, Overriding};
use crate::write::native::{ChangeWay, ConflictKey, Layout, Proposed, Step};
use crate::write::triggers::Operation;

/// What PostgreSQL says of rows that conflict with one another.
const TWICE: &str = "ON CONFLICT DO UPDATE command cannot affect row a second time";

/// The rows that an INSERT brings, and their table.
pub(super) struct InsertedRows<'a> {
    pub changed: &'a ChangedTable,
    pub table: &'a NativeTable,
    pub source: Option<&'a ast::Query>,
    /// The columns that it has values for.
    pub given: Given,
    pub overriding: Overriding,
}

impl InsertedRows<'_> {
    /// The rows, bound. Fails as the binder does.
    pub(super) fn bound(
        &self,
        conflict: Option<&Conflict<'_>>,
        described: &Changed<'_>,
        context: &dyn Context,
    ) -> Result<BoundChange> {
        binder::bind_new_rows(self.source, &self.given, self.overriding, conflict, described, context)
    }
}

impl Around<'_> {
    /// The rows, and how they are written where some conflict with those of the table. Fails with 42601 without a key
    /// to update by, and 42809 and 55000 for one that cannot be the one.
    pub(super) fn on_conflict(
        &self,
        rows: &InsertedRows<'_>,
        on: &ast::OnConflict,
        described: &Changed<'_>,
    ) -> Result<(ChangeWay, BoundChange)> {
        let changed = rows.changed;
        let key = changed.conflict_key(on.conflict_target.as_ref(), self)?;
        let update = match &on.action {
            OnConflictAction::DoNothing => {
                changed.refuse_deferrable(key)?;
                let bound = rows.bound(None, described, self)?;
                return Ok((ChangeWay::InsertNew(key.iter().map(|key| key.name.clone()).collect()), bound));
            }
            OnConflictAction::DoUpdate(update) => update,
        };
        // DuckDB takes the only key that there is.
        let key = key.or_else(|| changed.only_key()).ok_or_else(|| {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            Error::input(message).with_code("42601").with_hint("For example, ON CONFLICT (column_name).")
        })?;
        if !key.kind.is_unique() {
            let message = "ON CONFLICT DO UPDATE not supported with exclusion constraints";
            return Err(Error::input(message).with_code("42809").with_hint("DO NOTHING leaves such rows out"));
        }
        changed.refuse_deferrable(Some(key))?;
        self.updating(rows, key, update, described)
    }

    /// DO UPDATE.
    fn updating(
        &self,
        rows: &InsertedRows<'_>,
        key: &Key,
        update: &ast::DoUpdate,
        described: &Changed<'_>,
    ) -> Result<(ChangeWay, BoundChange)> {
        let changed = rows.changed;
        let assignments = changed.without_fields(&update.assignments)?;
        let conflict = Conflict {
            values: changed.values(&assignments)?,
            selection: update.selection.as_ref(),
            ..conflict_by(key, rows)
        };
        let steps = vec![Step::Update, Step::Insert, Step::Lock];
        self.set_changed(rows.table.numbered());
        if !changed.has_triggers_before(Operation::Insert) {
            let bound = rows.bound(Some(&conflict), described, self)?;
            return Ok((ChangeWay::Steps { steps, twice: TWICE, key: Some(written_key(key, changed)) }, bound));
        }
        let version = self.next_table_version();
        let (source, given, overriding) = (rows.source, &rows.given, rows.overriding);
        let (rows, judgement) =
            binder::bind_proposed_rows(source, given, overriding, &conflict, described, version, self)?;
        let BoundJudgement { change, from } = judgement;
        let BoundChange { rows: judged, returning, later } = change;
        let way = Proposed {
            layout: Layout { has_numbers: true, has_steps: true, ..changed.layout() },
            steps,
            twice: TWICE,
            key: written_key(key, changed),
            key_name: key.name.clone(),
            judged: self.computes_later(judged, from),
        };
        Ok((ChangeWay::Proposed(way), BoundChange { rows, returning, later }))
    }
}

fn place(column: &String, changed: &ChangedTable) -> usize {
    changed.targets.iter().position(|target| target.name == *column).unwrap_or(0)
}

/// A conflict by a key, of which nothing is set.
fn conflict_by<'k>(key: &'k Key, rows: &InsertedRows<'k>) -> Conflict<'k> {
    let changed = rows.changed;
    let computed = key.computed.as_ref();
    let expression = |place: usize| computed.and_then(|computed| computed.expressions.get(place)?.as_deref());
    let term = |(at, name): (usize, &String)| match expression(at) {
        Some(value) => KeyTerm::Value(value),
        None => KeyTerm::Column(place(name, changed)),
    };
    Conflict {
        key: key.columns.iter().enumerate().map(term).collect(),
        condition: computed.and_then(|computed| computed.condition.as_deref()),
        nulls_are_equal: key.nulls_are_equal,
        values: vec![],
        selection: None,
        demanded: changed.demanded(rows.table),
    }
}

/// The key as the writer finds rows by it.
fn written_key(key: &Key, changed: &ChangedTable) -> ConflictKey {
    let function = key.computed.as_ref().map(|computed| computed.function.clone());
    let of = function.as_ref().map_or(key.columns.as_slice(), |function| function.columns());
    let places = of.iter().map(|column| place(column, changed)).collect::<Vec<_>>();
    let sql_types = match &function {
        Some(function) => function.sql_types().to_vec(),
        None => places.iter().map(|place| changed.targets[*place].sql_type.clone()).collect(),
    };
    ConflictKey { places, function, sql_types, nulls_are_equal: key.nulls_are_equal }
}
