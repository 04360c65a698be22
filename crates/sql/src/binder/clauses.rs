//! The clauses in which expressions stand, and what may stand in each.

/// The part of a SELECT that is being bound: it decides what may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    From,
    On,
    Where,
    GroupBy,
    Having,
    Select,
    OrderBy,
    DistinctOn,
    Qualify,
    Window,
    Limit,
    Values,
    Default,
    Check,
    Generation,
    Index,
}

impl Clause {
    /// Its name, as messages have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::From => "functions in FROM",
            Self::On => "JOIN conditions",
            Self::Where => "WHERE",
            Self::GroupBy => "GROUP BY",
            Self::Having => "HAVING",
            Self::Select => "SELECT",
            Self::OrderBy => "ORDER BY",
            Self::DistinctOn => "DISTINCT ON",
            Self::Qualify => "QUALIFY",
            Self::Window => "window definitions",
            Self::Limit => "LIMIT",
            Self::Values => "VALUES",
            Self::Default => "DEFAULT expressions",
            Self::Check => "check constraints",
            Self::Generation => "column generation expressions",
            Self::Index => "index expressions",
        }
    }

    /// Whether it is among the rules of a table, where no subquery may stand.
    pub(super) fn is_rule(self) -> bool {
        matches!(self, Self::Default | Self::Check | Self::Generation | Self::Index)
    }

    /// Whether aggregates may stand there.
    pub(super) fn has_aggregates(self) -> bool {
        use Clause::{DistinctOn, Having, OrderBy, Qualify, Select, Window};
        matches!(self, Having | Select | OrderBy | DistinctOn | Qualify | Window)
    }

    /// Whether window functions may stand there.
    pub(super) fn has_windows(self) -> bool {
        matches!(self, Self::Select | Self::OrderBy | Self::DistinctOn | Self::Qualify)
    }

    /// Whether functions that give rows may stand there.
    pub(super) fn has_row_functions(self) -> bool {
        matches!(self, Self::Select | Self::OrderBy | Self::DistinctOn | Self::GroupBy)
    }
}
