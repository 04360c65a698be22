//! Ranges of whole numbers, in which a condition wants the values of a column.

/// Ranges of whole numbers, as a column of integers, dates, times or short decimals stores them: those for which a
/// condition is true. NULL is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeRanges {
    column: usize,
    /// They ascend, and no two touch.
    ranges: Vec<(i64, i64)>,
}

impl WholeRanges {
    /// Ranges of a least and a greatest number each, in any order; a range whose least number is greater is empty.
    /// `column` is a position in the table's schema.
    pub fn new(column: usize, ranges: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut given = ranges.into_iter().filter(|(least, greatest)| least <= greatest).collect::<Vec<_>>();
        given.sort_unstable();
        let mut ranges = Vec::<(i64, i64)>::with_capacity(given.len());
        for (least, greatest) in given {
            match ranges.last_mut() {
                Some((_, last)) if least <= last.saturating_add(1) => *last = greatest.max(*last),
                _ => ranges.push((least, greatest)),
            }
        }
        Self { column, ranges }
    }

    /// The column's position in the table's schema.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The least and the greatest number of each range; the ranges ascend, and no two touch.
    pub fn ranges(&self) -> &[(i64, i64)] {
        &self.ranges
    }

    /// Whether a number is in one of them.
    pub fn has(&self, number: i64) -> bool {
        let behind = self.ranges.partition_point(|(least, _)| *least <= number);
        self.ranges[..behind].last().is_some_and(|(_, greatest)| number <= *greatest)
    }

    /// What is in these and in others; `None` if they are of another column.
    pub fn and(&self, others: &Self) -> Option<Self> {
        let mut both = Vec::new();
        let (mut left, mut right) = (self.ranges.as_slice(), others.ranges.as_slice());
        while let ([(least, greatest), left_rest @ ..], [(other_least, other_greatest), right_rest @ ..]) =
            (left, right)
        {
            both.push((*least.max(other_least), *greatest.min(other_greatest)));
            if greatest <= other_greatest { left = left_rest } else { right = right_rest }
        }
        (self.column == others.column).then(|| Self::new(self.column, both))
    }

    /// What is in these or in others; `None` if they are of another column.
    pub fn or(&self, others: &Self) -> Option<Self> {
        let all = self.ranges.iter().chain(&others.ranges).copied();
        (self.column == others.column).then(|| Self::new(self.column, all))
    }

    /// All numbers that are in none of them.
    #[must_use]
    pub fn others(&self) -> Self {
        let (mut from, mut others) = (Some(i64::MIN), Vec::with_capacity(self.ranges.len() + 1));
        for (least, greatest) in &self.ranges {
            if let (Some(from), Some(to)) = (from, least.checked_sub(1)) {
                others.push((from, to));
            }
            from = greatest.checked_add(1);
        }
        others.extend(from.map(|from| (from, i64::MAX)));
        Self::new(self.column, others)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some() -> impl Strategy<Value = Vec<(i64, i64)>> {
        let number = prop_oneof![Just(i64::MIN), Just(i64::MAX), -20..20i64, -20..20i64];
        proptest::collection::vec((number.clone(), number), 0..8)
    }

    proptest! {
        #[test]
        fn they_are_sets_of_numbers(left in some(), right in some()) {
            let is_in = |ranges: &[(i64, i64)], number: i64| {
                ranges.iter().any(|(least, greatest)| (*least..=*greatest).contains(&number))
            };
            let (one, other) = (WholeRanges::new(3, left.iter().copied()), WholeRanges::new(3, right.iter().copied()));
            let (both, either) = (one.and(&other).unwrap(), one.or(&other).unwrap());
            for number in (-25..25).chain([i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]) {
                let (in_one, in_other) = (is_in(&left, number), is_in(&right, number));
                prop_assert_eq!(one.has(number), in_one);
                prop_assert_eq!(both.has(number), in_one && in_other);
                prop_assert_eq!(either.has(number), in_one || in_other);
                prop_assert_eq!(one.others().has(number), !in_one);
            }
            for found in [&one, &both, &either, &one.others()] {
                let touches = |pair: &[(i64, i64)]| i128::from(pair[1].0) <= i128::from(pair[0].1) + 1;
                prop_assert!(!found.ranges().windows(2).any(touches));
            }
            prop_assert_eq!(one.others().others(), one.clone());
            prop_assert!(one.and(&WholeRanges::new(4, [])).is_none() && one.or(&WholeRanges::new(4, [])).is_none());
        }
    }
}
