//! What a table was declared with beside its columns' names and types.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::Expr;

pub use crate::deferral::Deferral;
use crate::distribution::Distribution;
pub use crate::index_form::{BTREE, IndexForm, PartForm};
use crate::{ExtendedStatistics, Trigger};

/// The rules of a table.
#[derive(Clone, Debug, Default)]
pub struct TableRules {
    /// Expressions for columns that an INSERT leaves out, by the columns' names.
    pub defaults: HashMap<String, Arc<Expr>>,
    /// Expressions of columns that are computed from others when a row is written (GENERATED … STORED).
    pub generated: BTreeMap<String, Arc<Expr>>,
    /// Columns that count (GENERATED … AS IDENTITY). Their defaults say where.
    pub identities: BTreeMap<String, Identity>,
    /// Conditions that every row fulfills, or leaves unknown.
    pub checks: Vec<Check>,
    /// Keys and indexes, in the order in which they were made.
    pub keys: Vec<Key>,
    /// References to other tables.
    pub references: Vec<Reference>,
    /// What COMMENT ON says: of the table under the empty name, of columns under theirs.
    pub comments: BTreeMap<String, String>,
    /// Conditions and references, by name, that rows from before them may break (NOT VALID).
    pub unproven: BTreeSet<String>,
    /// Whether rows that change are held neither against its references nor against those to it, and no row follows
    /// (DISABLE TRIGGER ALL).
    pub references_off: bool,
    /// What its rows are the answer of, if it is a materialized view.
    pub materialized: Option<Materialized>,
    /// How its rows are divided into fragments, and ordered on disk.
    pub distribution: Distribution,
    /// What it calls when its rows change, in the order of their names.
    pub triggers: Vec<Trigger>,
    /// What CREATE STATISTICS says of it, in the order in which it was said.
    pub statistics: Vec<ExtendedStatistics>,
}

/// What a materialized view shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Materialized {
    /// The text of its query.
    pub query: String,
    /// Whether it has an answer.
    pub is_populated: bool,
}

/// When a column that counts takes a value of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Only with OVERRIDING SYSTEM VALUE.
    Always,
    /// Whenever there is one.
    ByDefault,
}

/// A condition of a table's rows.
#[derive(Clone, Debug)]
pub struct Check {
    /// The constraint's name.
    pub name: String,
    /// The condition, over the table's columns.
    pub condition: Arc<Expr>,
}

/// Columns by which rows are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name of the constraint or of the index.
    pub name: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// What it promises.
    pub kind: KeyKind,
    /// Whether rows with NULL in a column are equal to each other.
    pub nulls_are_equal: bool,
    /// Of an index over expressions, or of some rows only.
    pub computed: Option<ComputedKey>,
    /// When a unique one is held against the rows.
    pub deferral: Deferral,
    /// What its declaration said beside that; `None` if nothing.
    pub form: Option<IndexForm>,
}

impl Key {
    /// A key of columns, of all rows.
    pub fn of_columns(name: impl Into<String>, columns: Vec<String>, kind: KeyKind, nulls_are_equal: bool) -> Self {
        Self {
            name: name.into(),
            columns,
            kind,
            nulls_are_equal,
            computed: None,
            deferral: Deferral::Never,
            form: None,
        }
    }

    /// Whether its columns alone find each row by it.
    pub fn is_whole(&self) -> bool {
        self.computed.is_none()
    }

    /// Whether it tells all rows apart at any time.
    pub fn tells_apart(&self) -> bool {
        self.kind.is_unique() && !self.is_deferrable()
    }

    /// Whether it may be held against the rows at the end of a transaction.
    pub fn is_deferrable(&self) -> bool {
        self.deferral != Deferral::Never
    }

    /// Whether it tells all rows apart by these columns, in this order.
    pub fn refers_to(&self, columns: &[String]) -> bool {
        self.kind.is_unique() && self.is_whole() && self.columns == columns
    }

    /// Whether it is of a column of the table, in whatever way.
    pub fn uses(&self, column: &str) -> bool {
        let columns = self.computed.as_ref().map_or(self.columns.as_slice(), |computed| computed.function.columns());
        columns.iter().chain(self.included()).any(|name| name == column)
    }

    /// The access method that it was declared with.
    pub fn method(&self) -> &str {
        self.form.as_ref().map_or(BTREE, |form| &form.method)
    }

    /// How the column of a place was declared.
    pub fn part(&self, place: usize) -> PartForm {
        self.form.as_ref().and_then(|form| form.parts.get(place)).cloned().unwrap_or_default()
    }

    /// The columns of INCLUDE.
    pub fn included(&self) -> &[String] {
        self.form.as_ref().map_or(&[], |form| &form.included)
    }

    /// By column of an exclusion constraint, the operator that compares two rows; none of another key.
    pub fn operators(&self) -> Vec<String> {
        let parts = self.form.as_ref().filter(|_| self.kind == KeyKind::Exclusion).map(|form| &form.parts);
        parts.into_iter().flatten().filter_map(|part| part.operator.clone()).collect()
    }
}

/// What an index has beside columns: values that are computed, or only some rows.
#[derive(Clone, Debug)]
pub struct ComputedKey {
    /// By column of the key, what its values are; `None` for a column of the table.
    pub expressions: Vec<Option<Arc<Expr>>>,
    /// Which rows it has; all if `None`.
    pub condition: Option<Arc<Expr>>,
    /// Computes both.
    pub function: Arc<dyn RowFunction>,
}

impl PartialEq for ComputedKey {
    fn eq(&self, other: &Self) -> bool {
        self.expressions == other.expressions && self.condition == other.condition
    }
}

impl Eq for ComputedKey {}

/// Computes values of rows from their columns.
pub trait RowFunction: fmt::Debug + Send + Sync {
    /// The names of the columns that it takes.
    fn columns(&self) -> &[String];
    /// The types of the values that it gives.
    fn types(&self) -> &[DataType];
    /// The same, as SQL has them.
    fn sql_types(&self) -> &[SqlType];
    /// How the values are computed, over the columns that it takes.
    fn expressions(&self) -> &[Arc<dyn PhysicalExpr>];
    /// Which rows are wanted, over the same columns; all if `None`.
    fn condition(&self) -> Option<&Arc<dyn PhysicalExpr>>;
    /// The values of rows with these columns, and which of the rows are wanted; all if `None`. Fails with kind `Value`
    /// where a value cannot be computed.
    fn compute(&self, columns: &[ArrayRef], rows: usize) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)>;
    /// Of an exclusion constraint: which rows of the one side may not stand beside the row in the same place of the
    /// other side. Both have the values that [`compute`](Self::compute) gives. NULL means that they may. Fails with
    /// kind `Bug` for another key.
    fn excludes(&self, _one: &[ArrayRef], _other: &[ArrayRef], _rows: usize) -> Result<BooleanArray> {
        Err(Error::bug("a key that is no exclusion constraint excludes nothing"))
    }
}

/// What a key promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// PRIMARY KEY: no two rows have equal values, and none is NULL.
    Primary,
    /// UNIQUE: no two rows have equal values.
    Unique,
    /// CREATE UNIQUE INDEX.
    UniqueIndex,
    /// CREATE INDEX: nothing.
    Index,
    /// EXCLUDE: no two rows have values of which all comparisons are true, each by the operator of its column.
    Exclusion,
}

impl KeyKind {
    /// Whether no two rows may have equal values.
    pub fn is_unique(self) -> bool {
        !matches!(self, Self::Index | Self::Exclusion)
    }

    /// Whether it says which rows may not stand beside each other.
    pub fn keeps_apart(self) -> bool {
        self != Self::Index
    }

    /// Whether it was declared as a constraint.
    pub fn is_constraint(self) -> bool {
        matches!(self, Self::Primary | Self::Unique | Self::Exclusion)
    }
}

/// A FOREIGN KEY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The constraint's name.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: ObjectId,
    /// Its columns.
    pub referred: Vec<String>,
    /// What becomes of rows whose referred row goes.
    pub on_delete: ReferenceAction,
    /// What becomes of rows whose referred row gets another key.
    pub on_update: ReferenceAction,
    /// When it is held against the rows.
    pub deferral: Deferral,
    /// Of those that refer, the columns that ON DELETE SET NULL and SET DEFAULT change; all of them if none is named.
    pub set_columns: Vec<String>,
    /// Whether either all of those that refer are NULL or none (MATCH FULL).
    pub is_full: bool,
}

impl Reference {
    /// The table that has the reference, before it has an id.
    pub const ITSELF: ObjectId = ObjectId(0);

    /// Whether it may be held against the rows at the end of a transaction.
    pub fn is_deferrable(&self) -> bool {
        self.deferral != Deferral::Never
    }

    /// The columns that change with the row that is referred to: when it goes, or when it gets another key.
    pub fn columns_set(&self, goes: bool) -> &[String] {
        if goes && !self.set_columns.is_empty() { &self.set_columns } else { &self.columns }
    }

    /// Whether rows that refer go or change with those which they refer to.
    pub fn changes_rows(&self) -> bool {
        let is_refusal = |action| matches!(action, ReferenceAction::Refuse | ReferenceAction::Restrict);
        !is_refusal(self.on_delete) || !is_refusal(self.on_update)
    }
}

/// What becomes of rows that refer to a row that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceAction {
    /// The statement fails, or the transaction if the reference is deferred; not if another row has the key by then (NO
    /// ACTION).
    Refuse,
    /// The statement fails.
    Restrict,
    /// They go, or change, as well.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

impl TableRules {
    /// The PRIMARY KEY.
    pub fn primary_key(&self) -> Option<&Key> {
        self.keys.iter().find(|key| key.kind == KeyKind::Primary)
    }

    /// Whether a constraint or an index has this name.
    pub fn has_name(&self, name: &str) -> bool {
        let mut names = self.checks.iter().map(|check| &check.name).chain(self.keys.iter().map(|key| &key.name));
        names.any(|known| known == name) || self.references.iter().any(|known| known.name == name)
    }

    /// The same, where constraint triggers count.
    pub fn has_constraint(&self, name: &str) -> bool {
        let is_it = |trigger: &Trigger| trigger.constraint.is_some() && trigger.name == name;
        self.has_name(name) || self.triggers.iter().any(is_it)
    }

    /// Whether a constraint of this name may be held against the rows at the end of a transaction.
    pub fn has_deferrable(&self, name: &str) -> bool {
        self.references.iter().any(|reference| reference.name == name && reference.is_deferrable())
            || self.keys.iter().any(|key| key.name == name && key.is_deferrable())
            || self.triggers.iter().any(|trigger| trigger.name == name && trigger.is_deferrable())
    }
}
