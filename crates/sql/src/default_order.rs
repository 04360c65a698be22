//! The order that ORDER BY has where a statement does not say it: DuckDB's settings `default_order` and
//! `default_null_order`. PostgreSQL's order, ascending and NULLs behind all values, is the default.

/// What a part of ORDER BY means without ASC, DESC and NULLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefaultOrder {
    /// Whether a part without ASC and DESC is descending.
    pub descending: bool,
    /// Where NULLs come.
    pub nulls: NullsOrder,
}

/// Where NULLs come if a part of ORDER BY does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NullsOrder {
    /// As if NULL were larger than all values.
    #[default]
    Largest,
    /// As if it were smaller.
    Smallest,
    First,
    Last,
}

impl NullsOrder {
    /// The one that a setting says, by DuckDB's words; `None` if there is none of the name.
    pub fn of_setting(given: &str) -> Option<Self> {
        match given.trim().to_lowercase().replace([' ', '_'], "").as_str() {
            "nullsfirst" | "nullfirst" | "first" => Some(Self::First),
            "nullslast" | "nulllast" | "last" => Some(Self::Last),
            "nullsfirstonascnullslastondesc" | "nullsfirstonasclastondesc" | "sqlite" | "mysql" => Some(Self::Smallest),
            "nullslastonascnullsfirstondesc" | "nullslastonascfirstondesc" | "postgres" | "postgresql" => {
                Some(Self::Largest)
            }
            _ => None,
        }
    }

    /// As the setting shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "nulls_first",
            Self::Last => "nulls_last",
            Self::Smallest => "nulls_first_on_asc_last_on_desc",
            Self::Largest => "nulls_last_on_asc_first_on_desc",
        }
    }

    /// Whether NULLs come first in this direction.
    pub fn is_first(self, descending: bool) -> bool {
        match self {
            Self::First => true,
            Self::Last => false,
            Self::Smallest => !descending,
            Self::Largest => descending,
        }
    }
}

/// Whether the direction that a setting says is descending; `None` if it says none.
pub(crate) fn is_descending(given: &str) -> Option<bool> {
    match given.trim().to_lowercase().as_str() {
        "asc" | "ascending" => Some(false),
        "desc" | "descending" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_shown() {
        for nulls in [NullsOrder::Largest, NullsOrder::Smallest, NullsOrder::First, NullsOrder::Last] {
            assert_eq!(NullsOrder::of_setting(nulls.name()), Some(nulls));
        }
        assert_eq!(NullsOrder::of_setting("NULLS LAST"), Some(NullsOrder::Last));
        assert_eq!(NullsOrder::of_setting("sometimes"), None);
        assert_eq!((is_descending("DESC"), is_descending("up")), (Some(true), None));
        assert!(NullsOrder::Largest.is_first(true) && !NullsOrder::Largest.is_first(false));
    }
}
