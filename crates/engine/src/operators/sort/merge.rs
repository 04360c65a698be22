//! Merging sorted runs by ranges, so that many packets can work on one merge.
//!
//! Each run gives samples at regular distances, which are exact quantiles because the run is in order. The samples of
//! all runs, in order, give the *splitters*: rows that cut the order of all rows into ranges of about equal size. A
//! splitter is a row of a run and not a key: rows with equal keys are ordered by run and place, so even if all keys are
//! equal the ranges have equal sizes. A range is merged by a tree of losers over the runs' rows in it; for keys of
//! bytes the tree compares offset-value codes and looks at keys only where codes are equal.
//!
//! Invariant: the ranges are disjoint, cover all rows, and follow one another in the order `(key, run, place)`.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::gather::Pick;
use super::keys::{SortedBytes, SortedKeys, first_difference, settle};

/// Samples per range: how evenly ranges are cut.
const SAMPLES_PER_RANGE: usize = 16;

/// A row of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Splitter {
    /// The run's number.
    pub run: u32,
    /// The row in it.
    pub row: u32,
}

/// Where a range begins or ends in each run.
pub(super) type Bounds = Vec<u32>;

/// The keys of one run, as merging sees them.
trait Run {
    /// A number that orders the heads of runs.
    type Code: Copy + Ord;
    /// Not smaller than any code.
    const LAST: Self::Code;
    fn rows(&self) -> usize;
    /// Compares two rows by their keys.
    fn compare(&self, row: u32, other: &Self, other_row: u32) -> Ordering;
    /// The code of a row where no row before it was merged.
    fn first_code(&self, row: u32) -> Self::Code;
    /// The code of a row after the row before it was merged.
    fn next_code(&self, row: u32) -> Self::Code;
    /// The order of two rows with the same code, and the new code of the larger one.
    fn settle(code: Self::Code, a: (&Self, u32), b: (&Self, u32)) -> (Ordering, Self::Code);
}

/// Keys that are numbers are their own codes; those of 128 bits lie there as signed ones.
macro_rules! numbers {
    ($Stored:ty, $Code:ty) => {
        impl Run for [$Stored] {
            type Code = $Code;
            const LAST: $Code = <$Code>::MAX;
            fn rows(&self) -> usize {
                self.len()
            }
            fn compare(&self, row: u32, other: &Self, other_row: u32) -> Ordering {
                self.first_code(row).cmp(&other.first_code(other_row))
            }
            fn first_code(&self, row: u32) -> $Code {
                self[row as usize] as $Code
            }
            fn next_code(&self, row: u32) -> $Code {
                self.first_code(row)
            }
            fn settle(code: $Code, _: (&Self, u32), _: (&Self, u32)) -> (Ordering, $Code) {
                (Ordering::Equal, code)
            }
        }
    };
}

numbers!(u64, u64);
numbers!(i128, u128);

/// Keys of bytes have offset-value codes.
impl Run for SortedBytes {
    type Code = u64;
    const LAST: u64 = u64::MAX;
    fn rows(&self) -> usize {
        self.len()
    }
    fn compare(&self, row: u32, other: &Self, other_row: u32) -> Ordering {
        self.row(row as usize).cmp(other.row(other_row as usize))
    }
    fn first_code(&self, row: u32) -> u64 {
        first_difference(self.row(row as usize))
    }
    fn next_code(&self, row: u32) -> u64 {
        self.differences[row as usize]
    }
    fn settle(code: u64, a: (&Self, u32), b: (&Self, u32)) -> (Ordering, u64) {
        settle(code, a.0.row(a.1 as usize), b.0.row(b.1 as usize))
    }
}

/// Calls a generic function with the runs in their form, which is the same for all runs of a sort.
macro_rules! with_form {
    ($runs:expr, $form:ident => $call:expr) => {{
        let runs: &[&SortedKeys] = $runs;
        macro_rules! as_form {
            ($variant:ident, $Form:ty) => {{
                let $form: Vec<&$Form> = runs
                    .iter()
                    .map(|run| match run {
                        SortedKeys::$variant(keys) => &keys as &$Form,
                        _ => unreachable!("all runs of one sort have one form"),
                    })
                    .collect();
                $call
            }};
        }
        match runs[0] {
            SortedKeys::Narrow(_) => as_form!(Narrow, [u64]),
            SortedKeys::Wide(_) => as_form!(Wide, [i128]),
            SortedKeys::Bytes(_) => as_form!(Bytes, SortedBytes),
        }
    }};
}

/// Rows that cut what lies between two bounds into `ranges` ranges of about equal size: at most `ranges - 1`, in order.
/// There must be a run.
pub(super) fn splitters(runs: &[&SortedKeys], from: &Bounds, to: &Bounds, ranges: usize) -> Vec<Splitter> {
    with_form!(runs, form => find_splitters(&form, from, to, ranges))
}

/// Which of some rows comes first: its place.
pub(super) fn first_of(runs: &[&SortedKeys], rows: &[Splitter]) -> Option<usize> {
    with_form!(runs, form => (0..rows.len()).min_by(|&a, &b| order_of(&form, rows[a], rows[b])))
}

/// Where the rows from a splitter on begin in each run; without a splitter, the end of each run.
pub(super) fn bounds(runs: &[&SortedKeys], splitter: Option<Splitter>) -> Bounds {
    match splitter {
        None => runs.iter().map(|run| run.len() as u32).collect(),
        Some(splitter) => with_form!(runs, form => find_bounds(&form, splitter)),
    }
}

/// The first `count` rows, in order, of what lies between two bounds.
pub(super) fn merge(runs: &[&SortedKeys], from: &Bounds, to: &Bounds, count: usize) -> Vec<Pick> {
    with_form!(runs, form => merge_range(&form, from, to, count))
}

fn find_splitters<R: Run + ?Sized>(runs: &[&R], from: &Bounds, to: &Bounds, ranges: usize) -> Vec<Splitter> {
    let rows: usize = from.iter().zip(to).map(|(from, to)| (to - from) as usize).sum();
    let stride = (rows / ranges / SAMPLES_PER_RANGE).max(1);
    let mut samples = Vec::with_capacity(rows / stride + runs.len());
    for (run, (from, to)) in from.iter().zip(to).enumerate() {
        // From the middle of the first stride: a sample stands for the rows around it.
        let rows = (*from as usize + stride / 2..*to as usize).step_by(stride);
        samples.extend(rows.map(|row| Splitter { run: run as u32, row: row as u32 }));
    }
    samples.sort_unstable_by(|a, b| order_of(runs, *a, *b));
    let mut splitters: Vec<Splitter> =
        (1..ranges).filter_map(|range| samples.get(range * samples.len() / ranges).copied()).collect();
    splitters.dedup();
    splitters
}

/// The order in which all rows are merged: by key, and where keys are equal by run and place.
fn order_of<R: Run + ?Sized>(runs: &[&R], a: Splitter, b: Splitter) -> Ordering {
    let keys = runs[a.run as usize].compare(a.row, runs[b.run as usize], b.row);
    keys.then(a.run.cmp(&b.run)).then(a.row.cmp(&b.row))
}

fn find_bounds<R: Run + ?Sized>(runs: &[&R], splitter: Splitter) -> Bounds {
    let split = runs[splitter.run as usize];
    let bound = |(number, run): (usize, &&R)| {
        let before: fn(Ordering) -> bool = match number.cmp(&(splitter.run as usize)) {
            Ordering::Equal => return splitter.row,
            // Rows with the splitter's key come before it if their run does.
            Ordering::Less => |order: Ordering| order.is_le(),
            Ordering::Greater => |order: Ordering| order.is_lt(),
        };
        let (mut low, mut high) = (0, run.rows() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(run.compare(middle, split, splitter.row)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    runs.iter().enumerate().map(bound).collect()
}

/// The first row of an input that is not merged yet.
#[derive(Clone, Copy)]
struct Head<C> {
    code: C,
    /// The input's number; [`EXHAUSTED`] without rows.
    input: u32,
}

/// The number of an input without rows: it comes after all others.
const EXHAUSTED: u32 = u32::MAX;

/// What is left of one run in the range.
struct Input<'a, R: ?Sized> {
    run: &'a R,
    number: u32,
    row: u32,
    end: u32,
}

fn merge_range<R: Run + ?Sized>(runs: &[&R], from: &Bounds, to: &Bounds, count: usize) -> Vec<Pick> {
    let mut inputs: Vec<Input<'_, R>> = runs
        .iter()
        .enumerate()
        .map(|(number, run)| Input { run: *run, number: number as u32, row: from[number], end: to[number] })
        .filter(|input| input.row < input.end)
        .collect();
    let rows: usize = inputs.iter().map(|input| (input.end - input.row) as usize).sum();
    let count = count.min(rows);
    let mut picks = Vec::with_capacity(count);
    if let [input] = inputs.as_slice() {
        picks.extend((input.row..).take(count).map(|row| Pick { block: input.number, row }));
    } else if !inputs.is_empty() {
        let mut tree = Tree::new(&inputs);
        for _ in 0..count {
            let input = &mut inputs[tree.winner.input as usize];
            picks.push(Pick { block: input.number, row: input.row });
            input.row += 1;
            tree.replace_winner(&inputs);
        }
    }
    picks
}

/// A tree of losers (Knuth, volume 3, section 5.4.1): inputs are the leaves, every inner node remembers who lost there.
///
/// ```text
///             winner
///               |
///             losers[1]
///            /         \
///      losers[2]     losers[3]
///       /    \        /    \
///     [4]    [5]    [6]    [7]          leaf n + i is input i
/// ```
struct Tree<C> {
    winner: Head<C>,
    losers: Vec<Head<C>>,
}

impl<C: Copy + Ord> Tree<C> {
    /// A tree over inputs, at least two, that all have rows.
    fn new<R: Run<Code = C> + ?Sized>(inputs: &[Input<'_, R>]) -> Self {
        let count = inputs.len();
        let exhausted = Head { code: R::LAST, input: EXHAUSTED };
        let mut winners = vec![exhausted; count];
        winners.extend(
            inputs
                .iter()
                .enumerate()
                .map(|(number, input)| Head { code: input.run.first_code(input.row), input: number as u32 }),
        );
        let mut losers = vec![exhausted; count];
        for node in (1..count).rev() {
            let (mut winner, mut loser) = (winners[2 * node], winners[2 * node + 1]);
            play(inputs, &mut winner, &mut loser);
            winners[node] = winner;
            losers[node] = loser;
        }
        Self { winner: winners[1], losers }
    }

    /// The winner's row was taken: its input's next row plays against those who lost to it.
    fn replace_winner<R: Run<Code = C> + ?Sized>(&mut self, inputs: &[Input<'_, R>]) {
        let number = self.winner.input;
        let input = &inputs[number as usize];
        let mut candidate = if input.row < input.end {
            Head { code: input.run.next_code(input.row), input: number }
        } else {
            Head { code: R::LAST, input: EXHAUSTED }
        };
        let mut node = (inputs.len() + number as usize) / 2;
        while node > 0 {
            play(inputs, &mut candidate, &mut self.losers[node]);
            node /= 2;
        }
        self.winner = candidate;
    }
}

/// Puts the head that comes first into `winner`, the other into `loser`. Equal keys are ordered by input.
fn play<R: Run + ?Sized>(inputs: &[Input<'_, R>], winner: &mut Head<R::Code>, loser: &mut Head<R::Code>) {
    if winner.code != loser.code {
        // Nobody can foresee which of them comes first, a processor's branches neither.
        let swap = loser.code < winner.code;
        let first = select_unpredictable(swap, *loser, *winner);
        let second = select_unpredictable(swap, *winner, *loser);
        (*winner, *loser) = (first, second);
        return;
    }
    let swap = if winner.input == EXHAUSTED || loser.input == EXHAUSTED {
        // Not exhausted both, or it does not matter.
        loser.input < winner.input
    } else {
        let side = |head: &Head<R::Code>| {
            let input = &inputs[head.input as usize];
            (input.run, input.row)
        };
        let (order, code) = R::settle(winner.code, side(winner), side(loser));
        let swap = order.then(winner.input.cmp(&loser.input)).is_gt();
        if swap {
            winner.code = code;
        } else {
            loser.code = code;
        }
        swap
    };
    if swap {
        std::mem::swap(winner, loser);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn as_triples(runs: &[Vec<u64>], picks: &[Pick]) -> Vec<(u64, u32, u32)> {
        picks.iter().map(|pick| (runs[pick.block as usize][pick.row as usize], pick.block, pick.row)).collect()
    }

    proptest! {
        #[test]
        fn ranges_follow_one_another_in_order(
            runs in prop::collection::vec(prop::collection::vec(prop_oneof![0_u64..6, any::<u64>(), Just(u64::MAX)], 0..40), 1..7),
            ranges in 1_usize..9,
        ) {
            let runs: Vec<Vec<u64>> = runs.into_iter().map(|mut run| { run.sort_unstable(); run }).collect();
            let keys: Vec<SortedKeys> = runs.iter().cloned().map(|run| SortedKeys::Narrow(run.into())).collect();
            let keys: Vec<&SortedKeys> = keys.iter().collect();
            let mut from: Bounds = vec![0; keys.len()];
            let splitters = splitters(&keys, &from, &bounds(&keys, None), ranges);
            prop_assert!(splitters.len() < ranges);
            let mut merged = Vec::new();
            for splitter in splitters.into_iter().map(Some).chain([None]) {
                let to = bounds(&keys, splitter);
                merged.extend(as_triples(&runs, &merge(&keys, &from, &to, usize::MAX)));
                from = to;
            }
            let mut expected: Vec<(u64, u32, u32)> = runs
                .iter()
                .enumerate()
                .flat_map(|(run, keys)| keys.iter().enumerate().map(move |(row, &key)| (key, run as u32, row as u32)))
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn equal_keys_are_cut_into_equal_ranges() {
        let keys: Vec<SortedKeys> = (0..4).map(|_| SortedKeys::Narrow(vec![7; 1000].into())).collect();
        let keys: Vec<&SortedKeys> = keys.iter().collect();
        let mut before = 0;
        for splitter in splitters(&keys, &vec![0; 4], &vec![1000; 4], 8) {
            let rows: u32 = bounds(&keys, Some(splitter)).iter().sum();
            assert!((400..600).contains(&(rows - before)), "a range has {} of 4000 rows", rows - before);
            before = rows;
        }
    }
}
