//! The steps of MERGE and of ON CONFLICT DO UPDATE: which of them a row is for, and what it makes of the row.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;

use super::super::Binder;
use super::super::scope::{Clause, Level, Namespace, Source, Withs};
use super::{Changed, Made, Meeting, MergeStep, RowValues, alias_of};
use crate::algebra::{Column, Comparison, Constant, Relation, Scalar};

/// What RETURNING of MERGE calls what was done with a row.
pub(crate) const MERGE_ACTION: &str = "merge_action";

/// What it calls the source of that. No statement can write it.
pub(crate) const MERGE_ACTION_OF: &str = "\u{1}merged";

impl Binder<'_> {
    /// The rows that steps make of others: the first step that fits a row counts. `number` is that of a row of the
    /// table, and what is NULL where there is no row of the source; nothing, if there always is one. `inserted` are the
    /// values of new rows, if one step inserts them as they are.
    #[allow(clippy::too_many_arguments, reason = "the parts of one MERGE, put together by its only caller")]
    pub(super) fn steps(
        &self,
        relation: Relation,
        names: Namespace,
        (number, present): (Column, Vec<Column>),
        steps: &[MergeStep<'_>],
        inserted: Option<&[Column]>,
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Made> {
        let level = Level::new(None, withs, names, Clause::Where);
        let is_null = |column: &Column| Scalar::IsNull(Box::new(column.scalar()));
        let has_no_source = || Scalar::all(present.iter().map(is_null));
        let index = |index: usize| {
            let value = ScalarValue::Int32(Some(i32::try_from(index).unwrap_or(i32::MAX)));
            Scalar::Constant(Constant { value, sql_type: SqlType::Integer })
        };
        let own = level.names.sources.iter().position(|source| source.name.as_deref() == Some(&alias_of(changed)));
        let own = own.ok_or_else(|| Error::bug("the table that changes has no name"))?;
        // A clause of MERGE sees the sides that its rows have.
        let reach = |meeting: Meeting| {
            level.names.reach(|source| match meeting {
                _ if inserted.is_some() => true,
                Meeting::Both => true,
                Meeting::SourceOnly => source != own,
                Meeting::TableOnly => source == own,
            });
        };
        let mut arms = Vec::with_capacity(steps.len());
        let mut count = 0;
        for step in steps {
            let fits = match step.meeting {
                Meeting::Both if present.is_empty() => is_null(&number).negate(),
                Meeting::Both => Scalar::all([is_null(&number).negate(), has_no_source().negate()]),
                Meeting::SourceOnly => is_null(&number),
                Meeting::TableOnly => has_no_source(),
            };
            reach(step.meeting);
            let condition = step.condition.map(|condition| self.condition(condition, &level, "WHEN")).transpose()?;
            // The rows that nothing is done with are not among those that come out.
            let action = match step.is_nothing {
                true => Scalar::Constant(Constant::null(SqlType::Integer)),
                false => index(count),
            };
            count += usize::from(!step.is_nothing);
            arms.push((Scalar::all(std::iter::once(fits).chain(condition)), action));
        }
        let action = Scalar::Case { arms, otherwise: None, sql_type: SqlType::Integer };
        let action_column = self.column_for("action", &action);
        level.clause.set(Clause::Values);
        let old = level.names.sources[own].columns.clone();
        let mut values = vec![Vec::new(); changed.targets.len()];
        for (place, step) in steps.iter().filter(|step| !step.is_nothing).enumerate() {
            let is_inserted = !step.meeting.has_old() && inserted.is_some();
            if step.values.is_none() && !is_inserted {
                continue;
            }
            reach(step.meeting);
            let mut rows = RowValues::default();
            for (at, target) in changed.targets.iter().enumerate() {
                let given = step.values.iter().flatten().find(|(given, _)| *given == at);
                let value = match (given, inserted) {
                    (Some((_, value)), _) => self.new_value(*value, &step.overriding.of(target), &level, &mut rows)?,
                    (None, Some(inserted)) if is_inserted => inserted[at].scalar(),
                    (None, _) if step.meeting.has_old() => old[at].scalar(),
                    (None, _) => self.default(target, withs)?,
                };
                let is_step = self.compare(Comparison::Equal, action_column.scalar(), index(place))?;
                values[at].push((is_step, value));
            }
        }
        let relation = self.with_markers(relation, &level.names);
        let relation = relation.mapped_one_by_one(level.hoisted.take()).mapped(vec![(action_column.clone(), action)]);
        let relation = relation.filtered(Scalar::IsNull(Box::new(action_column.scalar())).negate());
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(values.len());
        for (target, arms) in changed.targets.iter().zip(values) {
            let value = match arms.is_empty() {
                true => Scalar::Constant(Constant::null(target.held())),
                false => Scalar::Case { arms, otherwise: None, sql_type: target.held() },
            };
            let column = self.numbers.named(&target.name, target.held(), true);
            computed.push((column.clone(), value));
            columns.push(column);
        }
        let relation = relation.mapped(computed);
        let front = vec![number, action_column];
        match (inserted, changed.returning) {
            (None, Some(_)) => self.merged(relation, front, (columns, &old), steps, changed, withs),
            // RETURNING sees the table's new rows only.
            _ => self.written(relation, Namespace::default(), front, columns, changed, withs),
        }
    }

    /// What MERGE … RETURNING gives: the rows that come, those that go as they were, and beside each what was done.
    fn merged(
        &self,
        relation: Relation,
        front: Vec<Column>,
        (columns, old): (Vec<Column>, &[Column]),
        steps: &[MergeStep<'_>],
        changed: &Changed<'_>,
        withs: &Withs<'_>,
    ) -> Result<Made> {
        let action = front.last().cloned().ok_or_else(|| Error::bug("steps have no numbers"))?;
        let (relation, columns) = self.with_generated(relation, columns, changed, withs)?;
        let (relation, outputs) = self.with_checks(relation, front, &columns, changed, withs)?;
        let (mut done, mut goes) = (Vec::new(), Vec::new());
        for (place, step) in steps.iter().filter(|step| !step.is_nothing).enumerate() {
            let number = i32::try_from(place).map_err(|_| Error::input("MERGE has too many clauses"))?;
            let number = Scalar::Constant(Constant::integer(number));
            let is_step = self.compare(Comparison::Equal, action.scalar(), number)?;
            let name = match (&step.values, step.meeting.has_old()) {
                (None, _) => "DELETE",
                (Some(_), true) => "UPDATE",
                (Some(_), false) => "INSERT",
            };
            if step.values.is_none() {
                goes.push(is_step.clone());
            }
            done.push((is_step, Scalar::Constant(Constant::text(name))));
        }
        let mut computed = Vec::new();
        let case = |arms, otherwise, sql_type| Scalar::Case { arms, otherwise, sql_type };
        let mut shown = columns.clone();
        if !goes.is_empty() {
            let goes = Scalar::any(goes);
            for (column, old) in shown.iter_mut().zip(old) {
                let arms = vec![(goes.clone(), old.scalar())];
                let scalar = case(arms, Some(Box::new(column.scalar())), column.sql_type.clone());
                *column = self.numbers.named(&column.name, column.sql_type.clone(), true);
                computed.push((column.clone(), scalar));
            }
        }
        let what = self.numbers.named(MERGE_ACTION, SqlType::Text, true);
        computed.push((what.clone(), case(done, None, SqlType::Text)));
        let beside = Namespace::of(Source::new(Some(MERGE_ACTION_OF.to_owned()), vec![what]));
        let names = self.own_names(shown, changed).joined(beside)?;
        self.returned(relation.mapped(computed), names, outputs, changed, withs)
    }
}
