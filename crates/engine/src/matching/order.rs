//! The order of a plan's rows, and which places in it are there, or wanted.
//!
//! ```text
//!   kept     ORDER BY day, town, door  LIMIT 100             places 0 .. 100 of the order (day, town, door)
//!   wanted   ORDER BY day, town        LIMIT 10 OFFSET 20    places 20 .. 30 of the order (day, town)
//! ```
//!
//! Rows in the order of a key are in the order of each key that it begins with. So the rows at the wanted places are
//! those at the same places of what is kept, if the wanted keys are the first of the kept ones, and the places are
//! there. Where the wanted keys leave ties, any of the tied rows may come first, and those of the longer key are as
//! good as others. The other way round it is wrong: rows that are tied by the shorter key may be cut off, although the
//! longer one puts them first.

use arrow::compute::SortOptions;

use super::canonical::Canonical;
use crate::plan::{Node, Plan};

/// The order of a plan's rows, and of all rows in it those that the plan gives.
#[derive(Clone)]
pub(super) struct Order {
    /// What rows are compared by, over leaves, the most significant first.
    pub keys: Vec<(Canonical, SortOptions)>,
    pub places: Places,
    /// Whether a state that was built for the plan has these places only, and not all rows.
    pub only_places: bool,
}

/// The places `skip..end` in an order; to the last one if there is no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    skip: usize,
    end: Option<usize>,
}

/// What is to be taken of ordered rows.
pub(super) struct Slice {
    /// Of what is there.
    places: Places,
    /// Rows that there are at most, if it is less than all.
    kept: Option<usize>,
    /// Whether there are more keys than wanted.
    is_longer: bool,
}

impl Places {
    pub const ALL: Self = Self { skip: 0, end: None };

    /// These places of what a limit gives, as places of what the limit is of.
    pub fn below_limit(self, skip: usize, fetch: Option<usize>) -> Self {
        let ends = [self.end, fetch].into_iter().flatten().min();
        let place = |place: usize| place.saturating_add(skip);
        Self { skip: place(self.skip), end: ends.map(place) }
    }

    /// How many there are, at most.
    fn count(self) -> Option<usize> {
        Some(self.end?.saturating_sub(self.skip))
    }

    /// These places, counted from the first of `all`; `None` if they are not all among them.
    fn among(self, all: Places) -> Option<Self> {
        let is_there = match (self.end, all.end) {
            (_, None) => true,
            (Some(end), Some(last)) => end <= last,
            (None, Some(_)) => false,
        };
        let skip = self.skip.checked_sub(all.skip).filter(|_| is_there)?;
        Some(Self { skip, end: self.end.map(|end| end.saturating_sub(all.skip)) })
    }

    /// Whether a plan that gives these places has given all rows there are, if it gave so many.
    pub fn are_all_of(self, rows: usize) -> bool {
        self.skip == 0 && self.count().is_none_or(|count| rows < count)
    }
}

impl Slice {
    /// What a query that wants an order takes of a state with another one; `None` if it is not provably there.
    pub fn of(kept: &Order, wanted: &Order) -> Option<Self> {
        if !kept.keys.starts_with(&wanted.keys) {
            return None;
        }
        let there = if kept.only_places { kept.places } else { Places::ALL };
        let places = wanted.places.among(there)?;
        Some(Self { places, kept: there.count(), is_longer: kept.keys.len() > wanted.keys.len() })
    }

    /// The rows that it takes of others, which come in order.
    pub fn plan(&self, input: Plan) -> Plan {
        let Places { skip, .. } = self.places;
        if self.places == Places::ALL {
            return input;
        }
        let schema = input.schema.clone();
        let node = Node::Limit { input: Box::new(input), skip, fetch: self.places.count() };
        Plan { ordered: true, ..Plan::new(node, schema) }
    }

    /// For people: what is taken, if it is not all.
    pub fn describe_places(&self) -> Option<String> {
        let of = self.kept.map_or_else(String::new, |kept| format!(" of {kept}"));
        match (self.places.skip, self.places.count()) {
            (0, Some(count)) if self.kept != Some(count) => Some(format!("limited to the first {count}{of} rows")),
            (0, _) => None,
            (skip, Some(count)) => Some(format!("limited to the {count} rows after the first {skip}{of}")),
            (skip, None) => Some(format!("limited to all rows after the first {skip}")),
        }
    }

    /// For people.
    pub fn describe_order(&self) -> &'static str {
        if self.is_longer { "in the order of a longer key" } else { "in the same order" }
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    fn places(skip: usize, end: Option<usize>) -> Places {
        Places { skip, end }
    }

    #[test]
    fn limits_of_limits_are_places_of_the_rows_below() {
        let page = Places::ALL.below_limit(5, Some(10));
        assert_eq!(page, places(5, Some(15)));
        // The sort below keeps the first fifteen, or, as somebody else cuts as well, twelve.
        assert_eq!(page.below_limit(0, Some(15)), page);
        assert_eq!(page.below_limit(0, Some(12)), places(5, Some(12)));
        assert_eq!(page.below_limit(3, None), places(8, Some(18)));
        assert_eq!(Places::ALL.below_limit(7, None), places(7, None));
        assert_eq!(Places::ALL.below_limit(usize::MAX, Some(usize::MAX)).count(), Some(0));
    }

    #[test]
    fn places_are_there_or_not() {
        let kept = places(5, Some(15));
        assert_eq!(places(7, Some(10)).among(kept), Some(places(2, Some(5))));
        assert_eq!(kept.among(kept), Some(places(0, Some(10))));
        for (skip, end) in [(4, Some(10)), (7, Some(16)), (7, None), (0, None), (20, Some(25))] {
            assert_eq!(places(skip, end).among(kept), None, "{skip} {end:?}");
        }
        assert_eq!(places(7, Some(10)).among(Places::ALL), Some(places(7, Some(10))));
        assert_eq!(places(7, None).among(places(3, None)), Some(places(4, None)));
    }

    #[test]
    fn all_rows_were_given_if_there_was_room_for_more() {
        assert!(places(0, Some(10)).are_all_of(9) && places(0, None).are_all_of(9));
        assert!(!places(0, Some(10)).are_all_of(10) && !places(1, Some(10)).are_all_of(3));
        assert!(!places(0, Some(0)).are_all_of(0));
    }
}
