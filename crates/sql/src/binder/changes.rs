//! Statements that change the rows of a table: INSERT, UPDATE, DELETE and MERGE, as queries whose rows say what is to
//! be done.
//!
//! The columns of such a query, in this order, each part only where the statement has it:
//! 1. the number of the row that goes;
//! 2. which of the statement's actions the row is for (ON CONFLICT DO UPDATE and MERGE);
//! 3. the new values of all of the table's columns;
//! 4. for each CHECK whether it holds;
//! 5. what RETURNING gives.
//!
//! So a constraint and RETURNING see what is written, a default is computed once, and the writer applies at the end
//! what it was given: a statement never meets what it has written itself (Gamma's deferred update files: DeWitt et al.,
//! "A Performance Analysis of the Gamma Database Machine", 1988, section 8).

mod steps;

pub(crate) use steps::{MERGE_ACTION, MERGE_ACTION_OF};

use std::collections::HashMap;
use std::sync::Arc;

use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};
use diligence_catalog::RelationName;
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use sqlparser::ast::{
    self, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, With,
};

use super::modifiers::is_without_modifier;
use super::operators::row;
use super::scope::{Clause, Level, Namespace, Source, Withheld, Withs};
use super::sets::selected_values;
use super::sides::JoinedSide;
use super::subqueries::subquery_scalar;
use super::targets::{CHANGED, Given, Target, bad_generated, is_default, named};
use super::with::Definition;
use super::{Binder, Bound, Context, Output, Rows, place, placed, unsupported};
use crate::algebra::{Column, Comparison, Constant, Join as JoinOf, JoinKind, Relation, Scalar, Scan, SubqueryKind};
use crate::written::WrittenRows;

/// A table that a statement changes, and what the statement says beside the change itself.
pub(crate) struct Changed<'a> {
    /// What the statement calls the table.
    pub alias: &'a Ident,
    /// What may stand in front of that: the schema, if the table has no alias.
    pub qualifiers: Vec<String>,
    /// The table's columns.
    pub targets: &'a [Target],
    /// The conditions of its rows.
    pub checks: &'a [Arc<Expr>],
    /// RETURNING.
    pub returning: Option<&'a [SelectItem]>,
    /// The common table expressions before the statement.
    pub with: Option<&'a With>,
    /// Whether rows may be others than the query says, so that RETURNING is computed when they have been written: of a
    /// table of this version.
    pub later: Option<TableVersion>,
    /// Whether it is a view: then the rows as they are stand where a table's have numbers.
    pub is_view: bool,
    /// What the table is called, as `regclass` reads it; `None` of a view.
    pub relation: Option<String>,
}

/// A query that says what is to be done.
#[derive(Debug)]
pub(crate) struct BoundChange {
    /// Its rows; the columns are those of this room's description.
    pub rows: Bound,
    /// How many of the last columns RETURNING gives, or are needed for it, and which of them have no modifiers; `None`
    /// without it.
    pub returning: Option<(usize, Vec<usize>)>,
    /// RETURNING, if it is computed when the rows have been written.
    pub later: Option<BoundLater>,
}

/// What RETURNING gives of rows that have been written.
#[derive(Debug)]
pub(crate) struct BoundLater {
    /// A query of `from`.
    pub rows: Bound,
    /// The rows as they have been written, or have gone: the table's columns, and those columns of the statement's
    /// other tables that its query has last.
    pub from: Arc<WrittenRows>,
}

/// What becomes of rows that an INSERT proposes.
#[derive(Debug)]
pub(crate) struct BoundJudgement {
    /// A query of `from` that says what is to be done.
    pub change: BoundChange,
    /// The rows as triggers leave them, beside each the row that has its key, or NULLs, and the number of that.
    pub from: Arc<WrittenRows>,
}

/// A query on its way to a [`BoundChange`].
struct Made {
    relation: Relation,
    columns: Vec<Column>,
    /// How many of the last columns RETURNING gives, or are needed for it.
    returned: usize,
    later: Option<Later>,
    /// Which of those have digits and characters that are no modifiers.
    computed: Vec<usize>,
}

/// What RETURNING may name when the rows have been written.
struct Later {
    names: Namespace,
    columns: Vec<Column>,
    version: TableVersion,
}

/// What a column gets.
#[derive(Clone, Copy)]
pub(crate) enum NewValue<'a> {
    /// The value of an expression.
    Of(&'a Expr),
    /// A value of the one row of a query, whose others other columns get.
    InRow {
        /// The query.
        row: &'a ast::Query,
        /// Which of its columns.
        place: usize,
        /// How many it has to have.
        columns: usize,
    },
}

impl NewValue<'_> {
    /// Whether it is the word DEFAULT.
    pub(crate) fn is_default(self) -> bool {
        matches!(self, Self::Of(value) if is_default(value))
    }
}

/// A part of a key.
#[derive(Clone, Copy)]
pub(crate) enum KeyTerm<'a> {
    /// The column in this place.
    Column(usize),
    /// What is computed from columns.
    Value(&'a Expr),
}

/// What an INSERT does with a row whose key is there already.
pub(crate) struct Conflict<'a> {
    /// What the key is of.
    pub key: Vec<KeyTerm<'a>>,
    /// Which rows have a key; all if `None`.
    pub condition: Option<&'a Expr>,
    /// Whether NULL is a value like others: NULLS NOT DISTINCT.
    pub nulls_are_equal: bool,
    /// The columns that change, by place, with their values.
    pub values: Vec<(usize, NewValue<'a>)>,
    /// Which rows change.
    pub selection: Option<&'a Expr>,
    /// What each row that comes has to be, whether its key is there or not.
    pub demanded: Demanded<'a>,
}

/// What a table demands of rows before it is looked whether their keys are there.
#[derive(Clone)]
pub(crate) struct Demanded<'a> {
    /// The table.
    pub table: &'a RelationName,
    /// The places of columns that may not be NULL.
    pub present: Vec<usize>,
    /// The names of the conditions of [`Changed::checks`]; `None` for those that only written rows have to fulfill.
    pub checks: Vec<Option<&'a str>>,
}

/// The rows that a clause of MERGE is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Rows of the source that meet one of the table.
    Both,
    /// Rows of the source that meet none.
    SourceOnly,
    /// Rows of the table that meet none.
    TableOnly,
}

impl Meeting {
    /// Whether there is a row of the table.
    fn has_old(self) -> bool {
        self != Self::SourceOnly
    }
}

/// A clause of MERGE.
pub(crate) struct MergeStep<'a> {
    /// For which rows it is.
    pub meeting: Meeting,
    /// For which of them.
    pub condition: Option<&'a Expr>,
    /// The values that are given, by place; `None` where rows go or stay.
    pub values: Option<Vec<(usize, NewValue<'a>)>>,
    /// Whether nothing is done.
    pub is_nothing: bool,
    /// What becomes of values for identity columns of new rows.
    pub overriding: Overriding,
}

/// What becomes of the values that INSERT gives to identity columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// They are taken, unless a column is GENERATED ALWAYS.
    #[default]
    Nothing,
    /// They are taken: OVERRIDING SYSTEM VALUE.
    System,
    /// They are left out, and the columns count: OVERRIDING USER VALUE.
    User,
}

impl Overriding {
    fn of(self, target: &Target) -> Target {
        match self {
            Self::Nothing => target.clone(),
            Self::System => Target { is_always: false, ..target.clone() },
            Self::User => Target { is_always: false, is_ignored: target.counts, ..target.clone() },
        }
    }
}

/// Binds INSERT. Fails like [`bind_insert`](super::bind_insert).
pub(crate) fn bind_new_rows(
    source: Option<&ast::Query>,
    given: &Given,
    overriding: Overriding,
    conflict: Option<&Conflict<'_>>,
    changed: &Changed<'_>,
    context: &dyn Context,
) -> Result<BoundChange> {
    let binder = Binder::new(context);
    let targets = changed.targets.iter().map(|target| overriding.of(target)).collect::<Vec<_>>();
    binder.change(changed, |withs| {
        let (relation, columns) = binder.given_values(source, &targets, given, withs)?;
        let Some(conflict) = conflict else {
            let names = Namespace::default();
            return binder.written(relation, names, vec![], columns, changed, withs);
        };
        // Defaults and what is generated are known when a conflict is looked for.
        let (relation, columns) = binder.with_generated(relation, columns, changed, withs)?;
        // A column and no filter: one would be put together with those of the query, which leave rows out before it.
        let demanded = binder.proposed(&columns, &conflict.demanded, changed, withs)?;
        let demanded = demanded.map(|tests| (binder.column_for("proposed", &tests), tests));
        let (relation, is_proposed) = match demanded {
            Some((column, tests)) => (relation.mapped(vec![(column.clone(), tests)]), Some(column.scalar())),
            None => (relation, None),
        };
        let old = binder.from(&[old_rows(changed)], None, withs)?;
        let (mut names, number) = old_names(old.names, changed)?;
        let (new, mut conditions) = binder.key_of(conflict, &columns, changed, withs)?;
        let (there, wanted) = binder.key_of(conflict, &names.sources[0].columns, changed, withs)?;
        let is_same = if conflict.nulls_are_equal { Comparison::IsNotDistinctFrom } else { Comparison::Equal };
        for (new, there) in new.into_iter().zip(there) {
            conditions.push(binder.compare(is_same, new, there)?);
        }
        conditions.extend(wanted);
        conditions.extend(is_proposed);
        let (left, right) = (Box::new(relation), Box::new(old.relation));
        let join = JoinOf { kind: JoinKind::Left, left, right, on: Scalar::all(conditions) };
        names.pad(&binder, 0..1, 0..0);
        let number = Column { nullable: true, ..number };
        let excluded = Source::new(Some("excluded".to_owned()), columns.clone());
        let both = names.joined(Namespace::of_qualified(excluded))?;
        let steps = conflict.steps();
        binder.steps(Relation::Join(join), both, (number, vec![]), &steps, Some(&columns), changed, withs)
    })
}

/// Binds INSERT … ON CONFLICT DO UPDATE where triggers see the rows before it is asked which are there already: the
/// rows that are proposed, all of their columns and nothing else, and what becomes of them. `version` is that of no
/// other table. Fails like [`bind_new_rows`].
pub(crate) fn bind_proposed_rows(
    source: Option<&ast::Query>,
    given: &Given,
    overriding: Overriding,
    conflict: &Conflict<'_>,
    changed: &Changed<'_>,
    version: TableVersion,
    context: &dyn Context,
) -> Result<(Bound, BoundJudgement)> {
    let binder = Binder::new(context);
    let targets = changed.targets.iter().map(|target| overriding.of(target)).collect::<Vec<_>>();
    let withs = Withs::default();
    let definitions = changed.with.map(|with| binder.definitions(with, None, &withs)).transpose()?;
    let (relation, columns) = binder.given_values(source, &targets, given, &withs)?;
    let (relation, columns) = binder.with_generated(relation, columns, changed, &withs)?;
    let mut relation = binder.behind(definitions, relation, &columns);
    let judged = binder.judgement(conflict, changed, version)?;
    let parameters = binder.settled_parameters(&mut relation);
    let rows = Bound::new(relation, columns, parameters, true);
    Ok((rows, judged))
}

impl Conflict<'_> {
    /// The same as steps of MERGE: rows that are there change, others come, and rows that are there and that WHERE
    /// leaves out are only met.
    fn steps(&self) -> Vec<MergeStep<'_>> {
        let step = |meeting, condition, values| MergeStep {
            meeting,
            condition,
            values,
            is_nothing: false,
            overriding: Overriding::Nothing,
        };
        let mut steps =
            vec![step(Meeting::Both, self.selection, Some(self.values.clone())), step(Meeting::SourceOnly, None, None)];
        steps.extend(self.selection.map(|_| step(Meeting::Both, None, None)));
        steps
    }
}

/// Binds UPDATE: `values` are those of columns, by place. Fails with kind `Input` and PostgreSQL's SQLSTATE.
pub(crate) fn bind_update(
    values: &[(usize, NewValue<'_>)],
    from: &[TableWithJoins],
    selection: Option<&Expr>,
    changed: &Changed<'_>,
    context: &dyn Context,
) -> Result<BoundChange> {
    let binder = Binder::new(context);
    binder.change(changed, |withs| {
        let (relation, names, front) = binder.found_rows(from, changed, withs)?;
        let level = Level::new(None, withs, names, Clause::Where);
        let relation = binder.selected(relation, selection, &level)?;
        level.clause.set(Clause::Values);
        let mut columns = level.names.sources[0].columns.clone();
        let mut computed = Vec::new();
        let mut rows = RowValues::default();
        for (place, value) in values {
            let target = &changed.targets[*place];
            let scalar = binder.new_value(*value, target, &level, &mut rows)?;
            columns[*place] = binder.column_for(&target.name, &scalar);
            computed.push((columns[*place].clone(), scalar));
        }
        let relation = relation.mapped_one_by_one(level.hoisted.take()).mapped(computed);
        let Level { names, .. } = level;
        binder.written(relation, names, front, columns, changed, withs)
    })
}

/// Binds DELETE. Fails like [`bind_update`].
pub(crate) fn bind_delete(
    using: &[TableWithJoins],
    selection: Option<&Expr>,
    changed: &Changed<'_>,
    context: &dyn Context,
) -> Result<BoundChange> {
    let binder = Binder::new(context);
    binder.change(changed, |withs| {
        let (relation, names, front) = binder.found_rows(using, changed, withs)?;
        let level = Level::new(None, withs, names, Clause::Where);
        let relation = binder.selected(relation, selection, &level)?;
        let Level { names, .. } = level;
        let old = names.sources[0].columns.clone();
        let (relation, names) = binder.with_old_and_new(relation, names, (Some(old), None), changed)?;
        binder.returned(relation, names, front, changed, withs)
    })
}

/// Binds MERGE. Fails like [`bind_update`].
pub(crate) fn bind_merge(
    source: &TableFactor,
    on: &Expr,
    steps: &[MergeStep<'_>],
    changed: &Changed<'_>,
    context: &dyn Context,
) -> Result<BoundChange> {
    let binder = Binder::new(context);
    binder.change(changed, |withs| {
        let constraint = JoinConstraint::On(on.clone());
        let has = |meeting| steps.iter().any(|step| step.meeting == meeting);
        let join_operator = match (has(Meeting::SourceOnly), has(Meeting::TableOnly)) {
            (true, true) => JoinOperator::FullOuter(constraint),
            (true, false) => JoinOperator::LeftOuter(constraint),
            (false, true) => JoinOperator::RightOuter(constraint),
            (false, false) => JoinOperator::Inner(constraint),
        };
        let join = Join { relation: old_rows(changed).relation, global: false, join_operator };
        let from = TableWithJoins { relation: source.clone(), joins: vec![join] };
        let JoinedSide { relation, names } = binder.from(&[from], None, withs)?;
        let (old, sources) = (old_place(&names)?, names.sources.len());
        // Whether there is a row of the source is asked of all of it.
        let present = match has(Meeting::TableOnly) {
            true => (0..sources).filter(|place| *place != old).filter_map(|place| names.presence(place)).collect(),
            false => vec![],
        };
        let (names, number) = old_names(names, changed)?;
        binder.steps(relation, names, (number, present), steps, None, changed, withs)
    })
}

/// The name of the table that changes.
pub(super) fn changed_name() -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', CHANGED)])
}

/// The table with the numbers of its rows, as FROM has it.
fn old_rows(changed: &Changed<'_>) -> TableWithJoins {
    let alias = TableAlias { explicit: true, name: changed.alias.clone(), columns: vec![], at: None };
    let relation = TableFactor::Table {
        name: changed_name(),
        alias: Some(alias),
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    };
    TableWithJoins { relation, joins: vec![] }
}

/// Which of the sources is the table that changes.
fn old_place(names: &Namespace) -> Result<usize> {
    let is_number = |source: &Source| source.columns.last().is_some_and(|column| column.name == ROW_NUMBERS);
    names.sources.iter().position(is_number).ok_or_else(|| Error::bug("rows have no numbers"))
}

/// The names without the one of the rows' numbers, and the column that has these.
fn old_names(mut names: Namespace, changed: &Changed<'_>) -> Result<(Namespace, Column)> {
    let place = old_place(&names)?;
    let mut columns = names.sources[place].columns.clone();
    let number = columns.pop().ok_or_else(|| Error::bug("rows have no numbers"))?;
    names.replace_columns(place, columns);
    names.sources[place].number = Some(number.clone());
    names.sources[place].qualifiers.clone_from(&changed.qualifiers);
    names.sources[place].relation.clone_from(&changed.relation);
    Ok((names, number))
}

/// The rows of queries that give several columns a value.
#[derive(Default)]
struct RowValues(HashMap<*const ast::Query, Scalar>);

/// What `xmax` says of rows behind these columns: of new ones, or of those of steps; `None` of others.
fn xmax_of(front: &[Column]) -> Option<Scalar> {
    let zero = || Scalar::Constant(Constant::bigint(0));
    match front {
        [] => Some(zero()),
        // Of steps: the number of the row that was there.
        [number, _] => Some(Scalar::Case {
            arms: vec![(Scalar::IsNull(Box::new(number.scalar())), zero())],
            otherwise: Some(Box::new(Scalar::Constant(Constant::bigint(1)))),
            sql_type: SqlType::BigInt,
        }),
        _ => None,
    }
}

pub(super) fn alias_of(changed: &Changed<'_>) -> String {
    super::normalized(changed.alias)
}

impl Binder<'_> {
    /// A statement with the common table expressions before it. `body` gives its rows, with as many columns as there
    /// are outputs.
    fn change(&self, changed: &Changed<'_>, body: impl FnOnce(&Withs<'_>) -> Result<Made>) -> Result<BoundChange> {
        let withs = Withs { written: changed.with, ..Withs::default() };
        let definitions = changed.with.map(|with| self.definitions(with, None, &withs)).transpose()?;
        let Made { relation, columns, returned, later, computed } = body(&withs)?;
        let mut relation = self.behind(definitions, relation, &columns);
        let later = later.map(|later| self.returned_later(later, changed)).transpose()?;
        let parameters = self.settled_parameters(&mut relation);
        let is_transient = self.is_transient.get();
        let rows = Bound::new(relation, columns, parameters, is_transient);
        Ok(BoundChange { rows, returning: changed.returning.map(|_| (returned, computed)), later })
    }

    /// Rows behind the common table expressions that they read.
    fn behind(&self, definitions: Option<Vec<Definition>>, relation: Relation, columns: &[Column]) -> Relation {
        let Some(definitions) = definitions else { return relation };
        let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
        self.defined(definitions, Rows { relation, outputs: outputs.collect() }).relation
    }

    /// What becomes of proposed rows, as a query of these and of those that have their keys.
    fn judgement(
        &self,
        conflict: &Conflict<'_>,
        changed: &Changed<'_>,
        version: TableVersion,
    ) -> Result<BoundJudgement> {
        const NAME: &str = "ON CONFLICT";
        let own = changed.targets.iter().map(|target| self.numbers.named(&target.name, target.held(), true));
        let proposed = own.clone().collect::<Vec<_>>();
        let old = own.collect::<Vec<_>>();
        let number = self.numbers.named(ROW_NUMBERS, SqlType::BigInt, true);
        let all = proposed.iter().chain(&old).chain([&number]).cloned().collect::<Vec<_>>();
        // Rows that are there have the names of those that come.
        let fields = all.iter().enumerate().map(|(at, column)| column.sql_type.field(&format!("c{at}"), true));
        let fields = fields.collect::<Vec<_>>();
        let from = WrittenRows::new(NAME, Arc::new(arrow::datatypes::Schema::new(fields)), version);
        let columns = all.into_iter().enumerate().collect();
        let scan = Relation::Scan(Scan { table: from.clone(), name: NAME.to_owned(), columns, sample: None });
        let change = self.change(changed, |withs| {
            let mut there = Source::new(Some(alias_of(changed)), old.clone());
            there.number = Some(number.clone());
            there.qualifiers.clone_from(&changed.qualifiers);
            there.withheld = Withheld::of(self.context.withheld(&changed_name()), &old);
            let excluded = Source::new(Some("excluded".to_owned()), proposed.clone());
            let both = Namespace::of(there).joined(Namespace::of_qualified(excluded))?;
            let scan = match self.proposed(&proposed, &conflict.demanded, changed, withs)? {
                Some(tests) => scan.filtered(tests),
                None => scan,
            };
            self.steps(scan, both, (number, vec![]), &conflict.steps(), Some(&proposed), changed, withs)
        })?;
        Ok(BoundJudgement { change, from })
    }

    /// TRUE for rows that INSERT … ON CONFLICT proposes; `None` if nothing is demanded of them. Fails with 23502 and
    /// 23514 where it is computed, if one is not as the table demands.
    fn proposed(
        &self,
        columns: &[Column],
        demanded: &Demanded<'_>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Option<Scalar>> {
        let text = |text: &str| Scalar::Constant(Constant::text(text));
        let row = |column: &Column| match column.sql_type.is_vector() {
            true => column.scalar().cast(SqlType::Text, true),
            false => column.scalar(),
        };
        let test = |function: &str, says: Scalar, name: &str| {
            let about = [says, text(&demanded.table.schema), text(&demanded.table.name), text(name)];
            self.call(function, about.into_iter().chain(columns.iter().map(row)).collect())
        };
        let mut tests = Vec::new();
        for column in demanded.present.iter().map(|place| &columns[*place]).filter(|column| column.nullable) {
            let is_null = Scalar::IsNull(Box::new(column.scalar()));
            tests.push(test("proposed_not_null", is_null, &column.name)?);
        }
        let own = Namespace::of(Source::new(Some(alias_of(changed)), columns.to_vec()));
        let level = Level::new(None, withs, own, Clause::Default);
        for (check, name) in changed.checks.iter().zip(&demanded.checks) {
            if let Some(name) = name {
                tests.push(test("proposed_check", self.condition(check, &level, "CHECK")?, name)?);
            }
        }
        Ok((!tests.is_empty()).then(|| Scalar::all(tests)))
    }

    /// RETURNING as a query of the rows that have been written.
    fn returned_later(&self, later: Later, changed: &Changed<'_>) -> Result<BoundLater> {
        let Later { names, columns, version } = later;
        let withs = Withs::default();
        let definitions = changed.with.map(|with| self.definitions(with, None, &withs)).transpose()?;
        let fields = columns.iter().map(|column| column.sql_type.field(&column.name, true));
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        let from = WrittenRows::new("RETURNING", schema, version);
        let scan = Scan {
            table: from.clone(),
            name: "RETURNING".to_owned(),
            columns: columns.into_iter().enumerate().collect(),
            sample: None,
        };
        let made = self.items_returned(Relation::Scan(scan), names, vec![], changed, &withs)?;
        let mut relation = self.behind(definitions, made.relation, &made.columns);
        let parameters = self.settled_parameters(&mut relation);
        let columns = made.columns;
        let rows = Bound { computed: made.computed, ..Bound::new(relation, columns, parameters, true) };
        Ok(BoundLater { rows, from })
    }

    /// The key of rows with these columns, and whether they have one.
    fn key_of(
        &self,
        conflict: &Conflict<'_>,
        columns: &[Column],
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<(Vec<Scalar>, Vec<Scalar>)> {
        let names = Namespace::of(Source::new(Some(alias_of(changed)), columns.to_vec()));
        let level = Level::new(None, withs, names, Clause::Default);
        let term = |term: &KeyTerm<'_>| match term {
            KeyTerm::Column(place) => Ok(columns[*place].scalar()),
            KeyTerm::Value(value) => self.typed(self.scalar(value, &level)?),
        };
        let terms = conflict.key.iter().map(term).collect::<Result<Vec<_>>>()?;
        let condition = conflict.condition.map(|condition| self.condition(condition, &level, "WHERE")).transpose()?;
        Ok((terms, condition.into_iter().collect()))
    }

    /// The table's rows, joined with others: the table is the first source of the names. What stands in front of new
    /// rows: their numbers, or the rows of a view.
    fn found_rows(
        &self,
        others: &[TableWithJoins],
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<(Relation, Namespace, Vec<Column>)> {
        let mut from = vec![old_rows(changed)];
        from.extend_from_slice(others);
        let JoinedSide { relation, names } = self.from(&from, None, withs)?;
        if changed.is_view {
            let front = names.sources[0].columns.clone();
            return Ok((relation, names, front));
        }
        let (names, number) = old_names(names, changed)?;
        Ok((relation, names, vec![number]))
    }

    fn selected(&self, relation: Relation, selection: Option<&Expr>, level: &Level<'_>) -> Result<Relation> {
        let condition = selection.map(|condition| self.condition(condition, level, "WHERE")).transpose()?;
        let relation = self.with_markers(relation, &level.names);
        let relation = relation.mapped_one_by_one(level.hoisted.take());
        Ok(condition.into_iter().fold(relation, Relation::filtered))
    }

    /// What a column gets, as it is stored.
    fn new_value(
        &self,
        value: NewValue<'_>,
        target: &Target,
        level: &Level<'_>,
        rows: &mut RowValues,
    ) -> Result<Scalar> {
        let (row, place, columns) = match value {
            NewValue::Of(value) => return self.stored_value(value, target, level),
            NewValue::InRow { row, place, columns } => (row, place, columns),
        };
        let key = std::ptr::from_ref(row);
        let whole = match rows.0.get(&key) {
            Some(whole) => whole.clone(),
            None => {
                let whole = self.one_row(row, columns, level)?;
                rows.0.insert(key, whole.clone());
                whole
            }
        };
        let sql_type = match whole.sql_type() {
            SqlType::Record(fields) => fields.get(place).map(|field| field.sql_type.clone()),
            _ => None,
        };
        let sql_type = sql_type.ok_or_else(|| Error::bug("a row is no record"))?;
        let scalar = Scalar::Field { input: Box::new(whole), index: place, sql_type };
        self.assign(scalar, target).map_err(|error| placed(error, || super::place(row)))
    }

    /// The one row of a query, computed once for each row of the level. Fails with 42601 if it has not so many columns.
    fn one_row(&self, query: &ast::Query, columns: usize, level: &Level<'_>) -> Result<Scalar> {
        let mut rows = self.subquery(query, level)?;
        if rows.outputs.len() != columns {
            let error = Error::input("number of columns does not match number of values").with_code("42601");
            return Err(placed(error, || place(query)));
        }
        let fields = rows.outputs.into_iter().map(|output| output.scalar).collect();
        let fields = row(fields);
        let column = self.column_for("row", &fields);
        rows.outputs = vec![Output { name: column.name.clone(), scalar: column.scalar() }];
        rows.relation = rows.relation.mapped(vec![(column, fields)]);
        let subquery = subquery_scalar(SubqueryKind::Value, rows);
        let whole = self.column_for("row", &subquery);
        level.hoisted.borrow_mut().push((whole.clone(), subquery));
        Ok(whole.scalar())
    }

    /// The columns with those that are generated from others.
    fn with_generated(
        &self,
        relation: Relation,
        mut columns: Vec<Column>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<(Relation, Vec<Column>)> {
        if changed.targets.iter().all(|target| target.generated.is_none()) {
            return Ok((relation, columns));
        }
        let names = Namespace::of(Source::new(Some(alias_of(changed)), columns.clone()));
        let level = Level::new(None, withs, names, Clause::Default);
        let mut computed = Vec::new();
        for (target, column) in changed.targets.iter().zip(&mut columns) {
            if let Some(generated) = &target.generated {
                let scalar = self.assign(self.scalar(generated, &level)?, target)?;
                *column = self.column_for(&target.name, &scalar);
                computed.push((column.clone(), scalar));
            }
        }
        Ok((relation.mapped(computed), columns))
    }

    /// New rows with what is computed from them: generated columns, conditions, and what RETURNING gives. `front` is
    /// before the columns. The first source of `names` becomes the new rows; without sources they are the only one.
    fn written(
        &self,
        relation: Relation,
        mut names: Namespace,
        front: Vec<Column>,
        columns: Vec<Column>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Made> {
        let (xmax, is_of_steps) = (xmax_of(&front), front.len() == 2);
        let (relation, columns) = self.with_generated(relation, columns, changed, withs)?;
        let (relation, outputs) = self.with_checks(relation, front, &columns, changed, withs)?;
        let (old, new) = (names.sources.first().map(|source| source.columns.clone()), columns.clone());
        match names.sources.is_empty() {
            true => {
                names = self.own_names(columns, changed);
                names.sources[0].xmax = xmax;
            }
            false => names.replace_columns(0, columns),
        }
        let (relation, names) = match is_of_steps {
            true => (relation, self.without_old_and_new(names, changed)?),
            false => self.with_old_and_new(relation, names, (old, Some(new)), changed)?,
        };
        self.returned(relation, names, outputs, changed, withs)
    }

    /// New rows with what their conditions say, and the columns of both; `front` is before them.
    fn with_checks(
        &self,
        relation: Relation,
        front: Vec<Column>,
        columns: &[Column],
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<(Relation, Vec<Column>)> {
        let own = Namespace::of(Source::new(Some(alias_of(changed)), columns.to_vec()));
        let level = Level::new(None, withs, own, Clause::Default);
        let mut checks = Vec::with_capacity(changed.checks.len());
        for check in changed.checks {
            checks.push(self.condition(check, &level, "CHECK")?);
        }
        let mut computed = Vec::new();
        let mut outputs = front;
        outputs.extend(columns.iter().cloned());
        for check in checks {
            let scalar = match check {
                // A column that is a condition by itself.
                Scalar::Column { .. } => check.cast(SqlType::Boolean, true),
                other => other,
            };
            outputs.push(named("check", scalar, self.numbers, &mut computed));
        }
        Ok((relation.mapped(computed), outputs))
    }

    /// The rows with what RETURNING gives behind their columns, or what it is computed from later beside the rows.
    fn returned(
        &self,
        relation: Relation,
        mut names: Namespace,
        mut outputs: Vec<Column>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Made> {
        let (Some(_), Some(version)) = (changed.returning, changed.later) else {
            return self.items_returned(relation, names, outputs, changed, withs);
        };
        let own = names.sources[0].columns.iter();
        // What is read is what was written, whatever it was computed from.
        let own = own.map(|column| self.numbers.named(&column.name, column.sql_type.clone(), true));
        let mut columns = own.collect::<Vec<_>>();
        names.replace_columns(0, columns.clone());
        names.sources.iter_mut().for_each(|source| (source.number, source.xmax) = (None, None));
        let others = names.beside_first();
        outputs.extend(others.iter().cloned());
        let returned = others.len();
        columns.extend(others);
        let later = Some(Later { names, columns, version });
        Ok(Made { relation, columns: outputs, returned, later, computed: vec![] })
    }

    /// The rows with what RETURNING gives behind their columns.
    fn items_returned(
        &self,
        relation: Relation,
        names: Namespace,
        mut outputs: Vec<Column>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Made> {
        let Some(returning) = changed.returning else {
            return Ok(Made { relation, columns: outputs, returned: 0, later: None, computed: vec![] });
        };
        let mut select = crate::parse::query("SELECT 1")?;
        let SetExpr::Select(select) = select.body.as_mut() else { return Err(Error::bug("SELECT is none")) };
        select.projection = returning.to_vec();
        let level = Level::new(None, withs, names, Clause::Select);
        let mut items = self.items(select, &level)?;
        let refuse = |what: &str, code: &'static str| {
            let error = Error::input(format!("{what} are not allowed in RETURNING")).with_code(code);
            placed(error, || returning.first().and_then(place))
        };
        if !level.aggregates.borrow().is_empty() {
            return Err(refuse("aggregate functions", "42803"));
        }
        if !level.window_uses.borrow().is_empty() {
            return Err(refuse("window functions", "42P20"));
        }
        if !level.row_functions.borrow().is_empty() {
            return Err(unsupported("a function that gives rows in RETURNING"));
        }
        let (mut computed, mut unmodified) = (Vec::new(), Vec::new());
        let count = items.len();
        for (place, item) in items.iter_mut().enumerate() {
            let taken = std::mem::replace(&mut item.scalar, Scalar::boolean(false));
            let mut scalar = self.typed(taken)?;
            // Clients get the names of objects.
            if matches!(scalar.sql_type(), SqlType::Oid(_)) {
                scalar = self.looked_up(scalar, &SqlType::Text, &level)?;
            }
            unmodified.extend(is_without_modifier(&scalar).then_some(place));
            outputs.push(named(&item.name, scalar, self.numbers, &mut computed));
        }
        let relation = self.with_markers(relation, &level.names);
        let relation = relation.mapped_one_by_one(level.hoisted.take()).mapped(computed);
        Ok(Made { relation, columns: outputs, returned: count, later: None, computed: unmodified })
    }

    /// What an INSERT gives to a table: rows with all of its columns, in their types and their order.
    pub(super) fn given_values(
        &self,
        source: Option<&ast::Query>,
        table: &[Target],
        given: &Given,
        withs: &Withs<'_>,
    ) -> Result<(Relation, Vec<Column>)> {
        let mut places = match given {
            Given::All | Given::ByName => (0..table.len()).collect(),
            Given::Places(places) => places.clone(),
        };
        // A default that nobody takes is not computed.
        let taking = |place: &usize| match table.get(*place) {
            Some(target) if target.is_ignored => Some(Target { default: None, ..target.clone() }),
            target => target.cloned(),
        };
        let rows = match source {
            None => Rows { relation: Relation::one_row(), outputs: vec![] },
            Some(source) => match Binder::plain_values(source) {
                Some(values) if !matches!(given, Given::ByName) && !self.values_give_rows(values)? => {
                    let targets = places.iter().filter_map(taking).collect::<Vec<_>>();
                    self.values(values, None, withs, Some(&targets.iter().collect::<Vec<_>>()))?
                }
                values => {
                    let listed = values.filter(|_| !matches!(given, Given::ByName));
                    let listed = listed.map(|values| selected_values(values, &mut places)).transpose()?;
                    let rows = self.query_part(listed.as_ref().unwrap_or(source), None, withs)?;
                    if matches!(given, Given::ByName) {
                        places = self.places_of(&rows, table)?;
                    }
                    let targets = places.iter().filter_map(|place| table.get(*place)).collect::<Vec<_>>();
                    if let Some(target) = targets.iter().take(rows.outputs.len()).find(|target| !target.takes_values())
                    {
                        return Err(bad_generated(target));
                    }
                    self.stored(rows, &targets)?
                }
            },
        };
        if source.is_some() && matches!(given, Given::Places(_)) && places.len() > rows.outputs.len() {
            return Err(Error::input("INSERT has more target columns than expressions").with_code("42601"));
        }
        let mut values: Vec<Option<Scalar>> = vec![None; table.len()];
        for (place, output) in places.iter().zip(rows.outputs) {
            values[*place] = Some(output.scalar).filter(|_| !table[*place].is_ignored);
        }
        let mut columns = Vec::with_capacity(table.len());
        let mut computed = Vec::new();
        for (target, value) in table.iter().zip(values) {
            let scalar = match value {
                Some(scalar) => scalar,
                None => self.default(target, withs)?,
            };
            columns.push(named(&target.name, scalar, self.numbers, &mut computed));
        }
        Ok((rows.relation.mapped(computed), columns))
    }

    /// The places of columns that are named like those of some rows.
    fn places_of(&self, rows: &Rows, table: &[Target]) -> Result<Vec<usize>> {
        let place = |output: &Output| {
            let exact = table.iter().position(|target| target.name == output.name);
            let alike = || table.iter().position(|target| target.name.eq_ignore_ascii_case(&output.name));
            exact.or_else(alike).ok_or_else(|| {
                let error = Error::input(format!("the table has no column '{}'", output.name)).with_code("42703");
                error.with_hint("BY NAME takes columns that are named like the table's")
            })
        };
        rows.outputs.iter().map(place).collect()
    }
}
