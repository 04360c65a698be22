//! Operators over relations.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion_expr::AggregateUDF;
use diligence_engine::plan::{Exclusion, WindowFunction};
use diligence_storage::Table;
use diligence_types::functions::AggregateCall;

use super::{Column, ColumnId, Constant, Numbers, Scalar, WithId};

/// Rows, and how they come about. Cloning is cheap enough: nothing big is in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Relation {
    /// Reads a table.
    Scan(Scan),
    /// Rows of expressions; no columns and one row for a SELECT without FROM.
    Values {
        /// The columns.
        columns: Vec<Column>,
        /// Per row an expression per column, of its type.
        rows: Vec<Vec<Scalar>>,
    },
    /// The input's columns and computed ones behind them.
    Map {
        /// Where rows come from.
        input: Box<Relation>,
        /// New columns and their expressions over the input.
        columns: Vec<(Column, Scalar)>,
    },
    /// Rows for which the condition is true.
    Filter {
        /// Where rows come from.
        input: Box<Relation>,
        /// The condition.
        condition: Scalar,
    },
    /// A join.
    Join(Join),
    /// A dependent join: the right side is computed anew for each row of the left. Gone after `unnesting`.
    Apply(Apply),
    /// Groups.
    Aggregate(Aggregate),
    /// Functions of the rows around each row; all columns of the input stay.
    Window(Window),
    /// Rows without duplicates among `on`; of equal ones the first, where the input is sorted (DISTINCT ON).
    Distinct {
        /// Where rows come from.
        input: Box<Relation>,
        /// What is compared; the relation's columns are these, unless `keeps_all`.
        on: Vec<ColumnId>,
        /// DISTINCT ON: all columns of the input stay, those of the first row.
        keeps_all: bool,
    },
    /// An order.
    Sort {
        /// Where rows come from.
        input: Box<Relation>,
        /// The keys, most significant first.
        keys: Vec<SortKey>,
    },
    /// LIMIT and OFFSET.
    Limit(Limit),
    /// UNION, INTERSECT, EXCEPT.
    Set(SetOperation),
    /// WITH RECURSIVE.
    Recursive(Recursive),
    /// The rows of a common table expression or, in a recursive term, of the step before.
    With(WithTable),
    /// Common table expressions, computed at most once, and what reads them by [`Relation::With`].
    Definitions {
        /// What each gives, its columns included, in an order in which each reads only those before it.
        definitions: Vec<(WithId, Relation, Vec<Column>)>,
        /// What reads them.
        input: Box<Relation>,
    },
    /// Rows that functions of the input's columns give: UNNEST, generate_series, … Each row of the input is joined with
    /// the rows that its values give.
    TableFunction(TableFunction),
}

/// Reads a table.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// What is read.
    pub table: Arc<dyn Table>,
    /// Its name in the statement, for EXPLAIN.
    pub name: String,
    /// Positions in the table's schema and the columns that they become, in their SQL types: where Arrow's type of the
    /// file differs, lowering casts.
    pub columns: Vec<(usize, Column)>,
    /// TABLESAMPLE: the share of rows, from 0 to 1, and whether whole clusters are taken.
    pub sample: Option<(f64, bool)>,
}

impl PartialEq for Scan {
    fn eq(&self, other: &Self) -> bool {
        self.table.identity() == other.table.identity() && self.columns == other.columns && self.sample == other.sample
    }
}

/// How rows of two sides are put together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JoinKind {
    /// Pairs for which the condition is true.
    Inner,
    /// These, and left rows without a partner, padded with NULLs.
    Left,
    /// These, and rows of both sides without a partner.
    Full,
    /// Left rows with a partner.
    Semi,
    /// Left rows without a partner.
    Anti,
    /// All left rows, with a truth value: whether there is a partner; NULL if there is none, but a pair for which the
    /// condition is NULL.
    Mark(Column),
    /// Left rows with at most one partner, padded with NULLs where there is none; several partners are an error
    /// (21000).
    Single,
}

/// A join.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    /// How.
    pub kind: JoinKind,
    /// The left side.
    pub left: Box<Relation>,
    /// The right side.
    pub right: Box<Relation>,
    /// The condition over both sides' columns.
    pub on: Scalar,
}

/// A dependent join: `right` may read columns of `left`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Apply {
    /// How; never [`JoinKind::Full`].
    pub kind: JoinKind,
    /// The left side.
    pub left: Box<Relation>,
    /// The right side, computed for each row of the left.
    pub right: Box<Relation>,
    /// The condition over both sides' columns.
    pub on: Scalar,
}

/// Groups and aggregates. Its columns: `groups`, `grouping_id`, `aggregates`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    /// Where rows come from.
    pub input: Box<Relation>,
    /// What is grouped by.
    pub groups: Vec<(Column, Scalar)>,
    /// Several sets of the groups, if there are.
    pub sets: Option<GroupingSets>,
    /// What is computed per group. Without groups there is one group, also of no rows.
    pub aggregates: Vec<(Column, AggregateItem)>,
}

/// GROUPING SETS, ROLLUP, CUBE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupingSets {
    /// Per set, whether each of the groups is in it; where it is not, its column is NULL.
    pub sets: Vec<Vec<bool>>,
    /// A `bigint` column that tells the set by its position in `sets`: what GROUPING() is computed from.
    pub set_index: Column,
}

/// One aggregate.
#[derive(Clone, Debug)]
pub(crate) struct AggregateItem {
    /// Which, with its types.
    pub call: AggregateCall,
    /// The arguments over the input, cast already.
    pub arguments: Vec<Scalar>,
    /// DISTINCT.
    pub is_distinct: bool,
    /// Only rows for which this is true count.
    pub filter: Option<Scalar>,
    /// The order in which rows are looked at.
    pub order: Vec<SortKey>,
    /// The aggregate that statements made of functions; the overload of the call says nothing then.
    pub made: Option<MadeAggregate>,
}

/// An aggregate that statements made, whose states are made in processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MadeAggregate {
    /// What the statement calls it.
    pub name: String,
    /// What gives the state of a group.
    pub function: Arc<AggregateUDF>,
    /// The state of no rows.
    pub first: Constant,
}

impl AggregateItem {
    /// Its name, for people.
    pub fn name(&self) -> &str {
        self.made.as_ref().map_or(self.call.overload.name, |made| &made.name)
    }

    /// What it gives for no rows, if that is not NULL.
    pub fn of_no_rows(&self) -> Option<Scalar> {
        match &self.made {
            Some(made) => (!made.first.is_null()).then(|| Scalar::Constant(made.first.clone())),
            None => {
                matches!(self.call.overload.name, "count" | "regr_count" | "approx_distinct" | "approx_count_distinct")
                    .then(|| Scalar::Constant(Constant::bigint(0)))
            }
        }
    }
}

impl PartialEq for AggregateItem {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.call.overload, other.call.overload)
            && self.made == other.made
            && self.call.arguments == other.call.arguments
            && self.arguments == other.arguments
            && self.is_distinct == other.is_distinct
            && self.filter == other.filter
            && self.order == other.order
    }
}

/// One part of an order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    /// What is compared.
    pub scalar: Scalar,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

impl SortKey {
    /// The keys in whose order the engine finds this one's. NULLS FIRST and LAST are about the values themselves:
    /// within an array or a row, NULL is always the greatest. What is sorted by the engine has NULLs everywhere on one
    /// side.
    pub fn physical(&self) -> Vec<Self> {
        let is_nested = self.scalar.sql_type().arrow().is_nested();
        if !is_nested || self.nulls_first == self.descending {
            return vec![self.clone()];
        }
        let is_null = Scalar::IsNull(Box::new(self.scalar.clone()));
        let apart = Self { scalar: is_null, descending: self.nulls_first, nulls_first: false };
        vec![apart, Self { nulls_first: self.descending, ..self.clone() }]
    }
}

/// Functions over one partitioning and order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    /// Where rows come from.
    pub input: Box<Relation>,
    /// Rows with equal values are a partition.
    pub partition: Vec<Scalar>,
    /// The order within a partition.
    pub order: Vec<SortKey>,
    /// What is computed.
    pub items: Vec<(Column, WindowItem)>,
}

/// One function of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowItem {
    /// Which.
    pub kind: WindowKind,
    /// Its arguments over the input, those with a value per row.
    pub arguments: Vec<Scalar>,
    /// Only rows for which this is true count; for aggregates alone.
    pub filter: Option<Scalar>,
    /// The order in which an aggregate looks at the rows of a frame, if not that of the window.
    pub order: Vec<SortKey>,
    /// The rows that it looks at.
    pub frame: WindowFrame,
}

/// Which function of a window.
#[derive(Clone, Debug)]
pub(crate) enum WindowKind {
    /// Ranks, shifts and values of the frame's rows, as the engine has them; the SQL type is the column's.
    Engine(WindowFunction),
    /// An aggregate of the frame.
    Aggregate {
        /// Which, with its types.
        call: AggregateCall,
        /// DISTINCT.
        is_distinct: bool,
    },
}

impl PartialEq for WindowKind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Engine(a), Self::Engine(b)) => format!("{a:?}") == format!("{b:?}"),
            (
                Self::Aggregate { call: a, is_distinct: a_distinct },
                Self::Aggregate { call: b, is_distinct: b_distinct },
            ) => std::ptr::eq(a.overload, b.overload) && a.arguments == b.arguments && a_distinct == b_distinct,
            _ => false,
        }
    }
}

/// The frame of a window's function: DataFusion's, which the engine takes, with what it leaves out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowFrame {
    /// Its units and bounds.
    pub frame: datafusion_expr::WindowFrame,
    /// What it leaves out.
    pub excludes: Exclusion,
    /// The distances of its start and its end, where they are not known before the lowering: of parameters. The bounds
    /// in `frame` say only the side.
    pub distances: [Option<Scalar>; 2],
}

impl WindowFrame {
    /// A frame whose bounds are known, with all of its rows.
    pub(crate) fn known(frame: datafusion_expr::WindowFrame) -> Self {
        Self { frame, excludes: Exclusion::NoOthers, distances: [None, None] }
    }
}

impl WindowItem {
    /// Its expressions.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = &Scalar> {
        let order = self.order.iter().map(|key| &key.scalar);
        self.arguments.iter().chain(&self.filter).chain(order).chain(self.frame.distances.iter().flatten())
    }

    /// The same, to be changed.
    pub(crate) fn scalars_mut(&mut self) -> impl Iterator<Item = &mut Scalar> {
        let order = self.order.iter_mut().map(|key| &mut key.scalar);
        self.arguments.iter_mut().chain(&mut self.filter).chain(order).chain(self.frame.distances.iter_mut().flatten())
    }
}

/// LIMIT and OFFSET: numbers known now, or of parameters and subqueries that the lowering reads first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// Where rows come from.
    pub input: Box<Relation>,
    /// Rows left out first: a `bigint`.
    pub skip: Option<Scalar>,
    /// Rows kept at most: a `bigint`; NULL is all.
    pub fetch: Option<Scalar>,
    /// WITH TIES: rows that are equal to the last in this order stay, too.
    pub ties: Option<Vec<SortKey>>,
}

/// Which set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

/// A set operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetOperation {
    /// Which.
    pub kind: SetKind,
    /// ALL: duplicates count.
    pub is_all: bool,
    /// The inputs, at least two, each with the columns that are compared, in order, of the result's types.
    pub inputs: Vec<(Relation, Vec<ColumnId>)>,
    /// The result's columns.
    pub columns: Vec<Column>,
}

/// WITH RECURSIVE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recursive {
    /// What its rows are called in the step.
    pub id: WithId,
    /// Its name in the statement.
    pub name: String,
    /// Where it begins, with its columns in order.
    pub base: (Box<Relation>, Vec<ColumnId>),
    /// What it does with the rows of the step before, which it reads as [`Relation::With`] of `id`.
    pub step: (Box<Relation>, Vec<ColumnId>),
    /// UNION: a row that was there before is not there again.
    pub is_distinct: bool,
    /// The result's columns.
    pub columns: Vec<Column>,
}

/// The rows of a common table expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WithTable {
    /// Which.
    pub id: WithId,
    /// Its name in the statement.
    pub name: String,
    /// Per column of the definition, the column that it becomes here.
    pub columns: Vec<Column>,
}

/// Functions that give rows, side by side (ROWS FROM); shorter ones are padded with NULLs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableFunction {
    /// Where rows come from; a relation of one row without columns, if the functions depend on nothing.
    pub input: Box<Relation>,
    /// The functions.
    pub items: Vec<FunctionItem>,
    /// WITH ORDINALITY: a `bigint` column that counts from 1.
    pub ordinality: Option<Column>,
    /// LEFT JOIN LATERAL … ON true: a row of the input without rows stays, with NULLs.
    pub keeps_all: bool,
}

/// One function that gives rows. Its argument is an array per row of the input, whose elements are the rows:
/// `generate_series` and its kin are scalar functions that give arrays, UNNEST is the array itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionItem {
    /// The array.
    pub array: Scalar,
    /// The columns: one, or one per field of the elements' record.
    pub columns: Vec<Column>,
}

impl Relation {
    /// One row without columns.
    pub(crate) fn one_row() -> Self {
        Self::Values { columns: vec![], rows: vec![vec![]] }
    }

    /// The rows for which a condition is true; the relation itself if it always is.
    pub(crate) fn filtered(self, condition: Scalar) -> Self {
        match condition.as_constant().and_then(super::Constant::as_bool) {
            Some(true) => self,
            _ => Self::Filter { input: Box::new(self), condition },
        }
    }

    /// With computed columns; the relation itself if there are none.
    pub(crate) fn mapped(self, columns: Vec<(Column, Scalar)>) -> Self {
        if columns.is_empty() { self } else { Self::Map { input: Box::new(self), columns } }
    }

    /// With computed columns of which some read others that stand before them.
    pub(crate) fn mapped_one_by_one(self, columns: Vec<(Column, Scalar)>) -> Self {
        let (mut relation, mut layer) = (self, Vec::<(Column, Scalar)>::new());
        for (column, scalar) in columns {
            let read = scalar.columns();
            if layer.iter().any(|(before, _)| read.contains(&before.id)) {
                relation = relation.mapped(std::mem::take(&mut layer));
            }
            layer.push((column, scalar));
        }
        relation.mapped(layer)
    }

    /// The relations right below.
    pub(crate) fn inputs(&self) -> Vec<&Relation> {
        match self {
            Self::Scan(_) | Self::Values { .. } | Self::With(_) => vec![],
            Self::Map { input, .. }
            | Self::Filter { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. } => vec![input],
            Self::Join(join) => vec![&join.left, &join.right],
            Self::Apply(apply) => vec![&apply.left, &apply.right],
            Self::Aggregate(aggregate) => vec![&aggregate.input],
            Self::Window(window) => vec![&window.input],
            Self::Limit(limit) => vec![&limit.input],
            Self::Set(set) => set.inputs.iter().map(|(input, _)| input).collect(),
            Self::Recursive(recursive) => vec![&recursive.base.0, &recursive.step.0],
            Self::Definitions { definitions, input } => {
                definitions.iter().map(|(_, relation, _)| relation).chain([input.as_ref()]).collect()
            }
            Self::TableFunction(function) => vec![&function.input],
        }
    }

    /// The same, to be changed.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Relation> {
        match self {
            Self::Scan(_) | Self::Values { .. } | Self::With(_) => vec![],
            Self::Map { input, .. }
            | Self::Filter { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. } => vec![input],
            Self::Join(join) => vec![&mut join.left, &mut join.right],
            Self::Apply(apply) => vec![&mut apply.left, &mut apply.right],
            Self::Aggregate(aggregate) => vec![&mut aggregate.input],
            Self::Window(window) => vec![&mut window.input],
            Self::Limit(limit) => vec![&mut limit.input],
            Self::Set(set) => set.inputs.iter_mut().map(|(input, _)| input).collect(),
            Self::Recursive(recursive) => vec![&mut recursive.base.0, &mut recursive.step.0],
            Self::Definitions { definitions, input } => {
                definitions.iter_mut().map(|(_, relation, _)| relation).chain([input.as_mut()]).collect()
            }
            Self::TableFunction(function) => vec![&mut function.input],
        }
    }

    /// The expressions of this operator, those of its inputs not included.
    pub(crate) fn scalars(&self) -> Vec<&Scalar> {
        match self {
            Self::Scan(_) | Self::With(_) | Self::Set(_) | Self::Recursive(_) | Self::Definitions { .. } => vec![],
            Self::Distinct { .. } => vec![],
            Self::Values { rows, .. } => rows.iter().flatten().collect(),
            Self::Map { columns, .. } => columns.iter().map(|(_, scalar)| scalar).collect(),
            Self::Filter { condition, .. } => vec![condition],
            Self::Join(Join { on, .. }) | Self::Apply(Apply { on, .. }) => vec![on],
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(_, scalar)| scalar);
                let items = aggregate.aggregates.iter().flat_map(|(_, item)| {
                    item.arguments.iter().chain(&item.filter).chain(item.order.iter().map(|key| &key.scalar))
                });
                groups.chain(items).collect()
            }
            Self::Window(window) => {
                let keys = window.partition.iter().chain(window.order.iter().map(|key| &key.scalar));
                let items = window.items.iter().flat_map(|(_, item)| item.scalars());
                keys.chain(items).collect()
            }
            Self::Sort { keys, .. } => keys.iter().map(|key| &key.scalar).collect(),
            Self::Limit(limit) => {
                let ties = limit.ties.iter().flatten().map(|key| &key.scalar);
                limit.skip.iter().chain(&limit.fetch).chain(ties).collect()
            }
            Self::TableFunction(function) => function.items.iter().map(|item| &item.array).collect(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn scalars_mut(&mut self) -> Vec<&mut Scalar> {
        match self {
            Self::Scan(_) | Self::With(_) | Self::Set(_) | Self::Recursive(_) | Self::Definitions { .. } => vec![],
            Self::Distinct { .. } => vec![],
            Self::Values { rows, .. } => rows.iter_mut().flatten().collect(),
            Self::Map { columns, .. } => columns.iter_mut().map(|(_, scalar)| scalar).collect(),
            Self::Filter { condition, .. } => vec![condition],
            Self::Join(Join { on, .. }) | Self::Apply(Apply { on, .. }) => vec![on],
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter_mut().map(|(_, scalar)| scalar);
                let items = aggregate.aggregates.iter_mut().flat_map(|(_, item)| {
                    let order = item.order.iter_mut().map(|key| &mut key.scalar);
                    item.arguments.iter_mut().chain(&mut item.filter).chain(order)
                });
                groups.chain(items).collect()
            }
            Self::Window(window) => {
                let keys = window.partition.iter_mut().chain(window.order.iter_mut().map(|key| &mut key.scalar));
                let items = window.items.iter_mut().flat_map(|(_, item)| item.scalars_mut());
                keys.chain(items).collect()
            }
            Self::Sort { keys, .. } => keys.iter_mut().map(|key| &mut key.scalar).collect(),
            Self::Limit(limit) => {
                let ties = limit.ties.iter_mut().flatten().map(|key| &mut key.scalar);
                limit.skip.iter_mut().chain(&mut limit.fetch).chain(ties).collect()
            }
            Self::TableFunction(function) => function.items.iter_mut().map(|item| &mut item.array).collect(),
        }
    }

    /// The columns that come out, in order.
    pub(crate) fn columns(&self) -> Vec<Column> {
        match self {
            Self::Scan(scan) => scan.columns.iter().map(|(_, column)| column.clone()).collect(),
            Self::Values { columns, .. } => columns.clone(),
            Self::With(table) => table.columns.clone(),
            Self::Map { input, columns } => {
                let mut all = input.columns();
                all.extend(columns.iter().map(|(column, _)| column.clone()));
                all
            }
            Self::Filter { input, .. } | Self::Sort { input, .. } | Self::Definitions { input, .. } => input.columns(),
            Self::Limit(limit) => limit.input.columns(),
            Self::Distinct { input, on, keeps_all } => {
                let columns = input.columns();
                if *keeps_all {
                    return columns;
                }
                let found = on.iter().map(|id| columns.iter().find(|column| column.id == *id).cloned());
                found.flatten().collect()
            }
            Self::Join(join) => joined_columns(&join.kind, &join.left, &join.right),
            Self::Apply(apply) => joined_columns(&apply.kind, &apply.left, &apply.right),
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(column, _)| column.clone());
                let index = aggregate.sets.iter().map(|sets| sets.set_index.clone());
                let items = aggregate.aggregates.iter().map(|(column, _)| column.clone());
                groups.chain(index).chain(items).collect()
            }
            Self::Window(window) => {
                let mut all = window.input.columns();
                all.extend(window.items.iter().map(|(column, _)| column.clone()));
                all
            }
            Self::Set(set) => set.columns.clone(),
            Self::Recursive(recursive) => recursive.columns.clone(),
            Self::TableFunction(function) => {
                let mut all = function.input.columns();
                all.extend(function.items.iter().flat_map(|item| item.columns.iter().cloned()));
                all.extend(function.ordinality.clone());
                all
            }
        }
    }

    /// The numbers of the columns that come out.
    pub(crate) fn column_ids(&self) -> BTreeSet<ColumnId> {
        self.columns().into_iter().map(|column| column.id).collect()
    }

    /// The columns that it reads from around it: those that nothing in it produces.
    pub(crate) fn free_columns(&self) -> BTreeSet<ColumnId> {
        let mut read = BTreeSet::new();
        let mut produced = BTreeSet::new();
        self.collect(&mut read, &mut produced);
        read.difference(&produced).copied().collect()
    }

    /// Whether it reads columns from around it.
    pub(crate) fn is_correlated(&self) -> bool {
        !self.free_columns().is_empty()
    }

    fn collect(&self, read: &mut BTreeSet<ColumnId>, produced: &mut BTreeSet<ColumnId>) {
        for scalar in self.scalars() {
            scalar.add_columns(read);
        }
        // Numbers are unique in a statement, so what is produced anywhere below is not read from around.
        match self {
            Self::Distinct { on, .. } => read.extend(on),
            Self::Set(set) => set.inputs.iter().for_each(|(_, columns)| read.extend(columns)),
            Self::Recursive(recursive) => read.extend(recursive.base.1.iter().chain(&recursive.step.1)),
            _ => {}
        }
        produced.extend(self.produced());
        for input in self.inputs() {
            input.collect(read, produced);
        }
    }

    /// The columns that this operator itself makes.
    pub(crate) fn produced(&self) -> Vec<ColumnId> {
        match self {
            Self::Scan(scan) => scan.columns.iter().map(|(_, column)| column.id).collect(),
            Self::Values { columns, .. } => columns.iter().map(|column| column.id).collect(),
            Self::With(table) => table.columns.iter().map(|column| column.id).collect(),
            Self::Map { columns, .. } => columns.iter().map(|(column, _)| column.id).collect(),
            Self::Join(Join { kind, .. }) | Self::Apply(Apply { kind, .. }) => match kind {
                JoinKind::Mark(mark) => vec![mark.id],
                _ => vec![],
            },
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(column, _)| column.id);
                let index = aggregate.sets.iter().map(|sets| sets.set_index.id);
                groups.chain(index).chain(aggregate.aggregates.iter().map(|(column, _)| column.id)).collect()
            }
            Self::Window(window) => window.items.iter().map(|(column, _)| column.id).collect(),
            Self::Set(set) => set.columns.iter().map(|column| column.id).collect(),
            Self::Recursive(recursive) => recursive.columns.iter().map(|column| column.id).collect(),
            Self::TableFunction(function) => {
                let columns = function.items.iter().flat_map(|item| &item.columns).chain(&function.ordinality);
                columns.map(|column| column.id).collect()
            }
            Self::Filter { .. }
            | Self::Distinct { .. }
            | Self::Sort { .. }
            | Self::Limit(_)
            | Self::Definitions { .. } => vec![],
        }
    }

    /// Replaces columns that come from around the relation by expressions, where `replacement` has one.
    pub(crate) fn substitute_free(&mut self, replacement: &dyn Fn(ColumnId) -> Option<Scalar>) {
        for scalar in self.scalars_mut() {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            *scalar = taken.substituted(replacement);
        }
        for input in self.inputs_mut() {
            input.substitute_free(replacement);
        }
    }

    /// A copy whose columns have new numbers, and the new column of each old one.
    pub(crate) fn with_new_ids(&self, numbers: &Numbers) -> (Relation, HashMap<ColumnId, ColumnId>) {
        let mut copy = self.clone();
        let mut renamed = HashMap::new();
        copy.number_anew(numbers, &mut renamed);
        let map = renamed.clone();
        copy.rename(&map);
        (copy, renamed)
    }

    /// An expression whose subqueries have numbers by the order of their parts: those of two that are written alike are
    /// equal, though each was bound by itself.
    pub(crate) fn numbered_alike(scalar: &Scalar) -> Scalar {
        let numbers = Numbers::beyond();
        let column = numbers.named("", scalar.sql_type(), true);
        match Self::one_row().mapped(vec![(column, scalar.clone())]).with_new_ids(&numbers) {
            (Self::Map { mut columns, .. }, _) if columns.len() == 1 => columns.remove(0).1,
            _ => scalar.clone(),
        }
    }

    /// Whether two expressions are written alike: subqueries in them may have been bound one by one.
    pub(crate) fn are_alike(one: &Scalar, other: &Scalar) -> bool {
        one == other
            || one.has_subquery() && other.has_subquery() && Self::numbered_alike(one) == Self::numbered_alike(other)
    }

    /// Gives every produced column a new number, and notes which.
    fn number_anew(&mut self, numbers: &Numbers, renamed: &mut HashMap<ColumnId, ColumnId>) {
        for id in self.produced() {
            renamed.entry(id).or_insert_with(|| numbers.column());
        }
        for scalar in self.scalars() {
            scalar.visit(&mut |part| {
                if let Scalar::Subquery(subquery) = part {
                    let mut inner = subquery.relation.clone();
                    inner.number_anew(numbers, renamed);
                }
            });
        }
        for input in self.inputs_mut() {
            input.number_anew(numbers, renamed);
        }
    }

    /// Replaces the numbers of columns, produced and read, by others.
    pub(crate) fn rename(&mut self, renamed: &HashMap<ColumnId, ColumnId>) {
        let new = |id: &mut ColumnId| {
            if let Some(other) = renamed.get(id) {
                *id = *other;
            }
        };
        for scalar in self.scalars_mut() {
            rename_scalar(scalar, renamed);
        }
        match self {
            Self::Scan(scan) => scan.columns.iter_mut().for_each(|(_, column)| new(&mut column.id)),
            Self::Values { columns, .. } => columns.iter_mut().for_each(|column| new(&mut column.id)),
            Self::With(table) => table.columns.iter_mut().for_each(|column| new(&mut column.id)),
            Self::Map { columns, .. } => columns.iter_mut().for_each(|(column, _)| new(&mut column.id)),
            Self::Join(Join { kind: JoinKind::Mark(mark), .. })
            | Self::Apply(Apply { kind: JoinKind::Mark(mark), .. }) => new(&mut mark.id),
            Self::Aggregate(aggregate) => {
                aggregate.groups.iter_mut().for_each(|(column, _)| new(&mut column.id));
                aggregate.sets.iter_mut().for_each(|sets| new(&mut sets.set_index.id));
                aggregate.aggregates.iter_mut().for_each(|(column, _)| new(&mut column.id));
            }
            Self::Window(window) => window.items.iter_mut().for_each(|(column, _)| new(&mut column.id)),
            Self::Distinct { on, .. } => on.iter_mut().for_each(new),
            Self::Set(set) => {
                set.columns.iter_mut().for_each(|column| new(&mut column.id));
                set.inputs.iter_mut().for_each(|(_, columns)| columns.iter_mut().for_each(new));
            }
            Self::Recursive(recursive) => {
                recursive.columns.iter_mut().for_each(|column| new(&mut column.id));
                recursive.base.1.iter_mut().chain(&mut recursive.step.1).for_each(new);
            }
            Self::Definitions { definitions, .. } => definitions
                .iter_mut()
                .for_each(|(_, _, columns)| columns.iter_mut().for_each(|column| new(&mut column.id))),
            Self::TableFunction(function) => {
                let columns = function.items.iter_mut().flat_map(|item| &mut item.columns);
                columns.chain(&mut function.ordinality).for_each(|column| new(&mut column.id));
            }
            Self::Join(_) | Self::Apply(_) | Self::Filter { .. } | Self::Sort { .. } | Self::Limit(_) => {}
        }
        for input in self.inputs_mut() {
            input.rename(renamed);
        }
    }
}

fn rename_scalar(scalar: &mut Scalar, renamed: &HashMap<ColumnId, ColumnId>) {
    match scalar {
        Scalar::Column { id, .. } => {
            if let Some(other) = renamed.get(id) {
                *id = *other;
            }
        }
        Scalar::Subquery(subquery) => {
            subquery.relation.rename(renamed);
            for column in &mut subquery.columns {
                if let Some(other) = renamed.get(&column.id) {
                    column.id = *other;
                }
            }
        }
        _ => {}
    }
    for child in scalar.children_mut() {
        rename_scalar(child, renamed);
    }
}

fn joined_columns(kind: &JoinKind, left: &Relation, right: &Relation) -> Vec<Column> {
    let padded = |relation: &Relation| {
        relation.columns().into_iter().map(|column| Column { nullable: true, ..column }).collect::<Vec<_>>()
    };
    match kind {
        JoinKind::Inner => [left.columns(), right.columns()].concat(),
        JoinKind::Left | JoinKind::Single => [left.columns(), padded(right)].concat(),
        JoinKind::Full => [padded(left), padded(right)].concat(),
        JoinKind::Semi | JoinKind::Anti => left.columns(),
        JoinKind::Mark(mark) => [left.columns(), vec![mark.clone()]].concat(),
    }
}
