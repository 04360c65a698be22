//! Joins: what is compared, which columns USING and NATURAL merge, and the relation that comes of two sides.

use std::ops::Range;

use diligence_base::{Error, Result};
use sqlparser::ast::{Ident, JoinConstraint, JoinOperator};

use super::common_types::common_of;
use super::join_kinds::JoinedKind;
use super::lateral::combine;
use super::namespace::Shown;
use super::operators::Way;
use super::samples::nearest;
use super::scope::{Clause, Level, Namespace, Withs};
use super::sides::JoinedSide;
use super::{Binder, name_place, placed};
use crate::algebra::{Column, Comparison, JoinKind, Relation, Scalar};
use crate::parse::JOIN_ALIAS;

/// Columns that USING makes one.
struct MergedPair {
    left: Column,
    right: Column,
    /// Where they are shown without it, on the left and on the right.
    shown: (Shown, Shown),
}

impl Binder<'_> {
    /// Joins two sides. Fails with 42P10 if the left one is read where its rows are made up, and with 42601 without a
    /// condition where one is needed.
    pub(super) fn join(
        &self,
        left: JoinedSide,
        right: JoinedSide,
        operator: &JoinOperator,
        is_lateral: bool,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<JoinedSide> {
        let (kind, constraint) = JoinedKind::of(operator)?;
        self.check_join(&left.relation, &right.relation, kind, is_lateral)?;
        if matches!(constraint, JoinConstraint::None) && needs_condition(operator) {
            let error = Error::input("a JOIN needs a condition: ON … or USING (…)").with_code("42601");
            return Err(error.with_hint("CROSS JOIN joins each row with each"));
        }
        let (using, alias) = compared_names(constraint, &left.names, &right.names);
        let is_asof = matches!(operator, JoinOperator::AsOf { .. });
        let (merged, mut conditions) = self.compared_columns(&left.names, &right.names, &using, is_asof)?;
        let left_range = (0..left.names.sources.len(), 0..left.names.merged_count());
        let mut names = left.names.joined(right.names)?;
        let right_range = (left_range.0.end..names.sources.len(), left_range.1.end..names.merged_count());
        if let JoinConstraint::On(condition) = constraint {
            let level = Level::new(outer, withs, names, Clause::On);
            conditions.push(self.condition(condition, &level, "JOIN/ON")?);
            names = level.names;
        }
        let mut pad =
            |(sources, merged): &(Range<usize>, Range<usize>)| names.pad(self, sources.clone(), merged.clone());
        if kind.pads_left() {
            pad(&left_range);
        }
        if kind.pads_right() {
            pad(&right_range);
        }
        let sides = (left.relation, right.relation);
        let relation = self.relation_of_join(kind, sides, Scalar::all(conditions), is_lateral)?;
        match kind {
            JoinedKind::Semi | JoinedKind::Anti => names.keep(left_range.0),
            JoinedKind::RightSemi | JoinedKind::RightAnti => names.keep(right_range.0),
            _ if merged.is_empty() => {}
            _ => return self.with_merged_columns(JoinedSide { relation, names }, merged, kind, alias),
        }
        Ok(JoinedSide { relation, names })
    }

    /// Fails if rows are made up that are read by the other side, or locked.
    fn check_join(&self, left: &Relation, right: &Relation, kind: JoinedKind, is_lateral: bool) -> Result<()> {
        if is_lateral && !matches!(kind, JoinedKind::Inner | JoinedKind::Left | JoinedKind::Semi | JoinedKind::Anti) {
            let error = Error::input("invalid reference to the left side of a RIGHT or FULL JOIN").with_code("42P10");
            return Err(error.with_hint("the combining JOIN type must be INNER or LEFT for a LATERAL reference"));
        }
        let Some(locking) = &*self.locking.borrow() else { return Ok(()) };
        if kind.pads_right() {
            locking.refuse_nullable(right)?;
        }
        if kind.pads_left() {
            locking.refuse_nullable(left)?;
        }
        Ok(())
    }

    /// The columns of these names on both sides, and that they are equal. The last of an ASOF JOIN says how near a row
    /// is.
    fn compared_columns(
        &self,
        left: &Namespace,
        right: &Namespace,
        using: &[Ident],
        is_asof: bool,
    ) -> Result<(Vec<MergedPair>, Vec<Scalar>)> {
        let mut merged = Vec::with_capacity(using.len());
        let mut conditions = Vec::with_capacity(using.len());
        for (index, name) in using.iter().enumerate() {
            let (left_shown, right_shown) = (left.using(name, "left")?, right.using(name, "right")?);
            let (left_column, right_column) = (left.shown(left_shown), right.shown(right_shown));
            self.reads(left, left_column.id);
            self.reads(right, right_column.id);
            let is_nearest = is_asof && index + 1 == using.len();
            let comparison = if is_nearest { Comparison::GreaterOrEqual } else { Comparison::Equal };
            let equal = self.compare(comparison, left_column.scalar(), right_column.scalar());
            let types = [left_column.sql_type.clone(), right_column.sql_type.clone()];
            let equal = equal.map_err(|error| match common_of(&types, "JOIN/USING") {
                Err(unmatched) if error.code() == Some("42883") => unmatched,
                _ => error,
            });
            conditions.push(equal.map_err(|error| placed(error, || name_place(name)))?);
            let shown = (left_shown, left.shifted(right_shown));
            merged.push(MergedPair { left: left_column.clone(), right: right_column.clone(), shown });
        }
        Ok((merged, conditions))
    }

    fn relation_of_join(
        &self,
        kind: JoinedKind,
        (left, right): (Relation, Relation),
        on: Scalar,
        is_lateral: bool,
    ) -> Result<Relation> {
        Ok(match kind {
            JoinedKind::Inner => combine(JoinKind::Inner, left, right, on, is_lateral),
            JoinedKind::Left => combine(JoinKind::Left, left, right, on, is_lateral),
            JoinedKind::Full => combine(JoinKind::Full, left, right, on, false),
            JoinedKind::Positional => self.by_position(left, right)?,
            JoinedKind::AsOf => nearest(JoinKind::Inner, left, right, on)?,
            JoinedKind::AsOfLeft => nearest(JoinKind::Left, left, right, on)?,
            JoinedKind::AsOfRight => self.nearest_of_all(false, left, right, on)?,
            JoinedKind::AsOfFull => self.nearest_of_all(true, left, right, on)?,
            // The engine's left joins keep the left side.
            JoinedKind::Right => combine(JoinKind::Left, right, left, on, false),
            JoinedKind::Semi => combine(JoinKind::Semi, left, right, on, is_lateral),
            JoinedKind::Anti => combine(JoinKind::Anti, left, right, on, is_lateral),
            JoinedKind::RightSemi => combine(JoinKind::Semi, right, left, on, false),
            JoinedKind::RightAnti => combine(JoinKind::Anti, right, left, on, false),
        })
    }

    /// A side whose pairs of columns are one each, which the alias names as well.
    fn with_merged_columns(
        &self,
        side: JoinedSide,
        pairs: Vec<MergedPair>,
        kind: JoinedKind,
        alias: Option<String>,
    ) -> Result<JoinedSide> {
        let JoinedSide { relation, mut names } = side;
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(pairs.len());
        for MergedPair { left, right, shown } in pairs {
            let column = self.merged_column(&left, &right, kind, &mut computed)?;
            columns.push((column, shown.0, shown.1));
        }
        let merged = columns.iter().map(|(column, ..)| column.clone()).collect();
        names.merge(columns);
        if let Some(alias) = alias {
            names = names.joined(Namespace::of_merged(alias, merged))?;
        }
        Ok(JoinedSide { relation: relation.mapped(computed), names })
    }

    /// The column that two become: that of the side whose rows are all there, in the common type.
    fn merged_column(
        &self,
        left: &Column,
        right: &Column,
        kind: JoinedKind,
        computed: &mut Vec<(Column, Scalar)>,
    ) -> Result<Column> {
        let common = common_of(&[left.sql_type.clone(), right.sql_type.clone()], "JOIN/USING")?;
        let common = self.collated_in_common(common, [&left.scalar(), &right.scalar()])?;
        let cast = |column: &Column| self.cast(column.scalar(), &common, Way::Implicit);
        if matches!(kind, JoinedKind::Full | JoinedKind::AsOfFull) {
            let both = Scalar::Coalesce(vec![cast(left)?, cast(right)?]);
            let column = self.numbers.named(&left.name, common, true);
            computed.push((column.clone(), both));
            return Ok(column);
        }
        let kept = if matches!(kind, JoinedKind::Right | JoinedKind::AsOfRight) { right } else { left };
        if kept.sql_type == common {
            return Ok(Column { name: left.name.clone(), ..kept.clone() });
        }
        let scalar = cast(kept)?;
        let column = self.column_for(&left.name, &scalar);
        computed.push((column.clone(), scalar));
        Ok(column)
    }
}

fn needs_condition(operator: &JoinOperator) -> bool {
    !matches!(
        operator,
        JoinOperator::CrossJoin(_) | JoinOperator::CrossApply | JoinOperator::OuterApply | JoinOperator::InnerArrayJoin
    )
}

/// The names of USING and NATURAL, and the alias of the columns that they become.
fn compared_names(constraint: &JoinConstraint, left: &Namespace, right: &Namespace) -> (Vec<Ident>, Option<String>) {
    match constraint {
        JoinConstraint::Using(names) => {
            let names = names.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
            let mut names = names.collect::<Vec<Ident>>();
            let alias = names.last().and_then(|last| last.value.strip_prefix(JOIN_ALIAS)).map(str::to_owned);
            if alias.is_some() {
                names.pop();
            }
            (names, alias)
        }
        JoinConstraint::Natural => (left.common(right), None),
        JoinConstraint::On(_) | JoinConstraint::None => (vec![], None),
    }
}
