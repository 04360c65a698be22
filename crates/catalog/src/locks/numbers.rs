//! Sets of the numbers of rows, and of hashes of keys, that an owner has locked.

/// Numbers in sorted runs, of which a later one is at most half as long as the one before.
#[derive(Debug, Default)]
pub(super) struct NumberSet {
    pub(super) runs: Vec<Vec<u64>>,
}

/// Numbers for which the one side is searched, not walked along, if there are so many more on the other.
const SEARCH_FACTOR: usize = 16;

impl NumberSet {
    /// Adds numbers, which ascend.
    pub(super) fn add(&mut self, mut numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        while let Some(last) = self.runs.pop_if(|last| last.len() < 2 * numbers.len()) {
            numbers.extend(last);
            numbers.sort_unstable();
            numbers.dedup();
        }
        self.runs.push(numbers);
    }

    /// The first of these numbers, which ascend, that is in the set.
    pub(super) fn first_of(&self, numbers: &[u64]) -> Option<u64> {
        self.runs.iter().find_map(|run| {
            let (few, many) = if numbers.len() < run.len() { (numbers, run.as_slice()) } else { (&**run, numbers) };
            if few.len() * SEARCH_FACTOR < many.len() {
                return few.iter().find(|number| many.binary_search(number).is_ok()).copied();
            }
            let mut many = many.iter().peekable();
            few.iter().copied().find(|number| {
                while many.next_if(|other| *other < number).is_some() {}
                many.peek() == Some(&number)
            })
        })
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.runs.iter().any(|run| run.binary_search(&number).is_ok())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }
}
