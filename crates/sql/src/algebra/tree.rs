//! The trees of a statement: relations have expressions in them, and a subquery is an expression with a relation in it.

use std::sync::Arc;

use datafusion_expr::{AggregateUDF, ScalarUDF};
use diligence_engine::plan::{Exclusion, WindowFunction};
use diligence_storage::Table;
use diligence_types::SqlType;
use diligence_types::functions::{AggregateCall, ScalarCall};

use super::{Column, ColumnId, Comparison, Constant, WithId};

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

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// A column.
    Column {
        /// Its number.
        id: ColumnId,
        /// Its type.
        sql_type: SqlType,
        /// Whether a value may be NULL.
        nullable: bool,
    },
    /// A value known now.
    Constant(Constant),
    /// `$1`, `$2`, …, counted from 0: a value known when the plan is run.
    Parameter {
        /// Which one, from 0 on.
        index: usize,
        /// Its type; [`SqlType::Unknown`] until the context decides.
        sql_type: SqlType,
    },
    /// A function's or an operator's value.
    Call {
        /// What is called.
        call: ScalarCall,
        /// The arguments, cast already.
        arguments: Vec<Scalar>,
    },
    /// The same value in another type. `types::coercion` says what each pair of types means.
    Cast {
        /// The value.
        input: Box<Scalar>,
        /// The type that it becomes.
        to: SqlType,
        /// Whether a value that does not fit becomes NULL instead of an error (TRY_CAST).
        is_try: bool,
        /// Whether the statement says the cast: an explicit one cuts texts that are too long for a varchar.
        is_explicit: bool,
    },
    /// A comparison of two expressions of one type.
    Compare {
        /// How.
        comparison: Comparison,
        /// The left side.
        left: Box<Scalar>,
        /// The right side.
        right: Box<Scalar>,
    },
    /// True if all are, false if any is false, else NULL. Never fewer than two.
    And(Vec<Scalar>),
    /// False if all are, true if any is true, else NULL. Never fewer than two.
    Or(Vec<Scalar>),
    /// NOT.
    Not(Box<Scalar>),
    /// IS NULL.
    IsNull(Box<Scalar>),
    /// `value IN (a, b, …)` with elements of the value's type; NULL if no element is equal and the value or an element
    /// is NULL.
    InList {
        /// What is looked for.
        value: Box<Scalar>,
        /// Where.
        list: Vec<Scalar>,
        /// NOT IN.
        is_negated: bool,
    },
    /// LIKE and ILIKE of texts, with the escape character (backslash where the statement says none).
    Like {
        /// The text.
        value: Box<Scalar>,
        /// The pattern.
        pattern: Box<Scalar>,
        /// The character that makes the next one stand for itself; `None` for `ESCAPE ''`.
        escape: Option<char>,
        /// NOT LIKE.
        is_negated: bool,
        /// ILIKE.
        ignores_case: bool,
    },
    /// CASE: the value of the first arm whose condition is true.
    Case {
        /// Conditions and values.
        arms: Vec<(Scalar, Scalar)>,
        /// The value where none is true; NULL if absent.
        otherwise: Option<Box<Scalar>>,
        /// The type of all values.
        sql_type: SqlType,
    },
    /// COALESCE of expressions of one type.
    Coalesce(Vec<Scalar>),
    /// A row of values.
    Record {
        /// The fields' values.
        fields: Vec<Scalar>,
        /// The record's type.
        sql_type: SqlType,
    },
    /// A field of a record.
    Field {
        /// The record.
        input: Box<Scalar>,
        /// The field's position.
        index: usize,
        /// The field's type.
        sql_type: SqlType,
    },
    /// ARRAY[…] of elements of one type.
    Array {
        /// The elements.
        elements: Vec<Scalar>,
        /// The array's type.
        sql_type: SqlType,
    },
    /// What a function about the session answers (`has_table_privilege`), or does (`nextval`).
    Asked {
        /// The function, which has what it looks at.
        function: Arc<ScalarUDF>,
        /// Its arguments.
        arguments: Vec<Scalar>,
        /// The answer's type.
        sql_type: SqlType,
    },
    /// A subquery. None is left after `unnesting`.
    Subquery(Box<Subquery>),
}

/// A subquery inside of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    /// What is asked of its rows.
    pub kind: SubqueryKind,
    /// Its rows; columns that it does not produce itself come from around it.
    pub relation: Relation,
    /// The columns of each row, in the order of its SELECT list.
    pub columns: Vec<Column>,
}

/// What is asked of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    /// Whether there is a row.
    Exists,
    /// The value of its only column in its only row; NULL if there is no row, an error (21000) if there are several.
    Value,
    /// An array of all values of its only column, in the order of the rows; empty if there is none.
    Array,
    /// `left comparison ANY/ALL (subquery)`, `left IN (subquery)`. Several left sides are a row: equal if all are.
    Quantified {
        /// The left side, one expression per column, of the columns' types.
        left: Vec<Scalar>,
        /// How each is compared.
        comparison: Comparison,
        /// With how many of the rows.
        quantifier: Quantifier,
    },
}

/// With how many of a subquery's rows a comparison must be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Quantifier {
    /// With at least one: IN, ANY, SOME.
    Any,
    /// With every one: ALL. `NOT IN` is `<> ALL`.
    All,
}

impl Subquery {
    /// The type of its value.
    pub(crate) fn sql_type(&self) -> SqlType {
        match (&self.kind, self.columns.first()) {
            (SubqueryKind::Exists | SubqueryKind::Quantified { .. }, _) => SqlType::Boolean,
            (SubqueryKind::Value, Some(column)) => column.sql_type.clone(),
            (SubqueryKind::Array, Some(column)) => SqlType::array_of(column.sql_type.clone()),
            (_, None) => SqlType::Unknown,
        }
    }
}
