//! How two parts of FROM are joined, as it is written.

use diligence_base::Result;
use sqlparser::ast::{Expr, JoinConstraint, JoinOperator, Value};

use super::{place, placed, unsupported};

/// How two sides are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinedKind {
    Inner,
    Left,
    Right,
    Full,
    /// Each row with the one of the same number.
    Positional,
    /// The nearest row of the right side.
    AsOf,
    /// The same, with NULLs where there is none.
    AsOfLeft,
    /// The nearest row of the right side, and the rows there that are nearest to none.
    AsOfRight,
    /// The rows of both.
    AsOfFull,
    Semi,
    Anti,
    RightSemi,
    RightAnti,
}

impl JoinedKind {
    /// The kind of a join, and its condition. Fails with 0A000 for what there is not.
    pub(super) fn of(operator: &JoinOperator) -> Result<(Self, &JoinConstraint)> {
        const NONE: &JoinConstraint = &JoinConstraint::None;
        Ok(match operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::StraightJoin(constraint) => (Self::Inner, constraint),
            JoinOperator::CrossJoin(constraint) => (Self::Inner, constraint),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Self::Left, constraint),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (Self::Right, constraint),
            JoinOperator::FullOuter(constraint) => (Self::Full, constraint),
            JoinOperator::Semi(constraint) | JoinOperator::LeftSemi(constraint) => (Self::Semi, constraint),
            JoinOperator::Anti(constraint) | JoinOperator::LeftAnti(constraint) => (Self::Anti, constraint),
            JoinOperator::RightSemi(constraint) => (Self::RightSemi, constraint),
            JoinOperator::RightAnti(constraint) => (Self::RightAnti, constraint),
            JoinOperator::CrossApply => (Self::Inner, NONE),
            JoinOperator::OuterApply => (Self::Left, NONE),
            JoinOperator::AsOf { match_condition, constraint } => match Self::of_nearest(match_condition) {
                Some(kind) => (kind, constraint),
                None => return Err(placed(unsupported("MATCH_CONDITION"), || place(match_condition))),
            },
            // What `POSITIONAL JOIN` is read as.
            JoinOperator::InnerArrayJoin => (Self::Positional, NONE),
            JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin => return Err(unsupported("ARRAY JOIN")),
        })
    }

    /// What stands for the kind of an ASOF JOIN; see `parse/tokens/duckdb`. Of SEMI and ANTI the nearest row is any.
    fn of_nearest(kind: &Expr) -> Option<Self> {
        let Expr::Value(value) = kind else { return None };
        let kind = match &value.value {
            Value::SingleQuotedString(kind) => kind.as_str(),
            // Views of older databases say it so.
            Value::Boolean(true) => "inner",
            Value::Boolean(false) => "left",
            _ => return None,
        };
        Some(match kind {
            "inner" => Self::AsOf,
            "left" => Self::AsOfLeft,
            "right" => Self::AsOfRight,
            "full" => Self::AsOfFull,
            "semi" => Self::Semi,
            "anti" => Self::Anti,
            _ => return None,
        })
    }

    /// Whether rows of the right side come without one of the left.
    pub(super) fn pads_left(self) -> bool {
        matches!(self, Self::Right | Self::Full | Self::Positional | Self::AsOfRight | Self::AsOfFull)
    }

    /// Whether rows of the left side come without one of the right.
    pub(super) fn pads_right(self) -> bool {
        matches!(self, Self::Left | Self::Full | Self::Positional | Self::AsOfLeft | Self::AsOfFull)
    }
}
