//! What a join's build side tells the scan on its probe side: which keys it has, exactly or by a Bloom filter (Gamma's
//! bit vector filter), and their bounds.
//!
//! A filter is filled once, when the build side is complete; until then, and if the build side is too large, it keeps
//! every row. Integer-like keys in a small range are kept as one bit per value; a join whose own table is of that kind
//! lends it. The Bloom filter is blocked: all bits of a key are in one 64-bit word (Putze, Sanders, Singler, *Cache-,
//! Hash- and Space-Efficient Bloom Filters*, WEA 2007), so a test is one load; 12 bits per key and 4 bits set let about
//! 1 % pass.
//!
//! Invariants:
//! * Never a false negative: a row whose key is on the build side is kept. NULL is not kept.
//! * The filter watches itself: once it has let most rows pass it says that it is not worthwhile.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::{RowFilter, WholeRanges};

use super::hashing::hash_word;
use super::key_words::{KeyColumn, KeyData, KeyKind, word_to_scalar};
use crate::batch::prefetch::{AHEAD, prefetch};
use crate::batch::without_nulls;
use crate::expressions::stored_number;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Values per key up to which one bit per value is used. A Bloom filter is five times smaller, but it must hash, it
/// lets some rows pass, and it is never read in order.
const EXACT_VALUES_PER_KEY: u64 = 64;

/// Values for which one bit each is used however few keys there are: 128 KiB, a part of the second-level cache.
const EXACT_VALUES_ALWAYS: u64 = if cfg!(test) { 64 } else { 1 << 20 };

/// Bits per key of a Bloom filter.
const BLOOM_BITS_PER_KEY: usize = 12;

/// Keys that are told one by one, at most: so many rows are looked up in an index.
pub const FEW_KEYS: usize = 1024;

/// Ranges of keys that are looked for among packed numbers, at most: more are found sooner when these are decoded.
const RANGES_MAX: usize = 8;

/// Words of which it is asked at once whether they are there.
const FEW_STEP: usize = 8192;

/// Rows after which a filter judges itself, and the share that passes, in percent, above which it gives up: testing a
/// row costs about as much as the join's own lookup of a row that passes.
const JUDGED_ROWS: u64 = 64 << 10;
const PASSED_PERCENT_MAX: u64 = 80;

/// A join's build side as a condition on a column of its probe side.
#[derive(Default)]
pub struct RuntimeFilter {
    state: OnceLock<RuntimeFilterState>,
    judgement: Judgement,
}

/// Whether a filter is worth asking, by what it has let pass so far.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    rows_tested: AtomicU64,
    rows_passed: AtomicU64,
    gave_up: AtomicBool,
}

impl Judgement {
    /// So many more rows were tested, and so many of them passed.
    pub fn watch(&self, tested: usize, passed: usize) {
        let passed = self.rows_passed.fetch_add(passed as u64, Ordering::Relaxed) + passed as u64;
        let tested = self.rows_tested.fetch_add(tested as u64, Ordering::Relaxed) + tested as u64;
        if tested >= JUDGED_ROWS && passed * 100 > tested * PASSED_PERCENT_MAX {
            self.gave_up.store(true, Ordering::Relaxed);
        }
    }

    /// False once most rows have passed.
    pub fn is_worthwhile(&self) -> bool {
        !self.gave_up.load(Ordering::Relaxed)
    }
}

enum RuntimeFilterState {
    Empty,
    Set {
        test: Test,
        kind: KeyKind,
        bounds: Option<(ScalarValue, ScalarValue)>,
        /// The same as words, and the type of the values.
        words: Option<(u64, u64)>,
        logical: DataType,
    },
}

enum Test {
    Work(Arc<FilterWork>),
    Words(Arc<dyn WordSet>),
}

/// Words of which it is known exactly which are there: the dense table of a join with one key.
pub(super) trait WordSet: Send + Sync {
    /// Which of these are there.
    fn contains(&self, words: &[u64]) -> BooleanBuffer;
}

impl fmt::Debug for RuntimeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.get() {
            None => "unset",
            Some(RuntimeFilterState::Empty) => "empty",
            Some(RuntimeFilterState::Set { .. }) => "set",
        };
        write!(f, "RuntimeFilter({state})")
    }
}

impl RuntimeFilter {
    /// A filter that nobody has filled yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The filter as a condition on a column of a table.
    pub fn row_filter(self: &Arc<Self>, table_column: usize) -> Arc<dyn RowFilter> {
        Arc::new(ColumnFilter { filter: self.clone(), columns: [table_column], ranges: OnceLock::new() })
    }

    /// The smallest and the largest key of the build side, in the logical type. `None` while unknown, without keys, and
    /// for types other than integers, decimals of up to 18 digits, dates and times.
    pub fn bounds(&self) -> Option<(ScalarValue, ScalarValue)> {
        match self.state.get() {
            Some(RuntimeFilterState::Set { bounds, .. }) => bounds.clone(),
            _ => None,
        }
    }

    /// The keys of the build side, where they are few and known one by one: [`FEW_KEYS`] at most. `None` otherwise, and
    /// where there are no [`bounds`](Self::bounds).
    pub fn few_keys(&self) -> Option<Vec<ScalarValue>> {
        let Some(RuntimeFilterState::Set { test, words: Some((min, max)), logical, .. }) = self.state.get() else {
            return None;
        };
        let words = match test {
            Test::Work(work) => work.few(*min, *max)?,
            Test::Words(set) if max - min < EXACT_VALUES_ALWAYS => {
                let mut found = Vec::new();
                for first in (*min..=*max).step_by(FEW_STEP) {
                    let words = (first..=(first + FEW_STEP as u64 - 1).min(*max)).collect::<Vec<_>>();
                    found.extend(set.contains(&words).set_indices().map(|at| words[at]));
                    if found.len() > FEW_KEYS {
                        return None;
                    }
                }
                found
            }
            Test::Words(_) => return None,
        };
        words.into_iter().map(|word| word_to_scalar(word, logical).ok()).collect()
    }

    /// True once it is known that the build side has no key at all: no row passes.
    pub fn is_empty_build(&self) -> bool {
        matches!(self.state.get(), Some(RuntimeFilterState::Empty))
    }

    /// The build side is complete and has no key.
    pub(super) fn set_empty(&self) {
        // A filter that is set already stays as it is: it keeps more.
        let _ = self.state.set(RuntimeFilterState::Empty);
    }

    /// The build side is complete.
    pub(super) fn set_work(&self, work: Arc<FilterWork>, bounds: Option<(u64, u64)>, logical: &DataType) -> Result<()> {
        self.set(Test::Work(work), bounds, logical)
    }

    /// The build side is complete, and the words of its one key are the test.
    pub(super) fn set_words(
        &self,
        words: Arc<dyn WordSet>,
        bounds: Option<(u64, u64)>,
        logical: &DataType,
    ) -> Result<()> {
        self.set(Test::Words(words), bounds, logical)
    }

    fn set(&self, test: Test, bounds: Option<(u64, u64)>, logical: &DataType) -> Result<()> {
        let scalar = |word| word_to_scalar(word, logical);
        let words = bounds;
        let bounds = bounds.map(|(min, max)| Ok::<_, Error>((scalar(min)?, scalar(max)?))).transpose()?;
        let _ = self.state.set(RuntimeFilterState::Set {
            test,
            kind: KeyKind::of(logical)?,
            bounds,
            words,
            logical: logical.clone(),
        });
        Ok(())
    }

    fn keep(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let (test, kind) = match self.state.get() {
            None => return Ok(BooleanArray::new(BooleanBuffer::new_set(array.len()), None)),
            Some(RuntimeFilterState::Empty) => {
                return Ok(BooleanArray::new(BooleanBuffer::new_unset(array.len()), None));
            }
            Some(RuntimeFilterState::Set { test, kind, .. }) => (test, kind),
        };
        let kept = match array.as_any_dictionary_opt() {
            Some(dictionary) if dictionary.values().len() <= array.len() => {
                let of_values = test.run(kind, dictionary.values())?;
                let keys = cast(dictionary.keys(), &DataType::Int32).map_err(from_arrow)?;
                let keys = keys.as_primitive::<Int32Type>().values();
                // The key of a NULL may be anything.
                let kept = BooleanBuffer::collect_bool(keys.len(), |row| {
                    let key = keys[row] as usize;
                    key < of_values.len() && of_values.value(key)
                });
                without_nulls(kept, dictionary.keys().nulls())
            }
            _ => test.run(kind, array)?,
        };
        self.judgement.watch(array.len(), kept.count_set_bits());
        Ok(BooleanArray::new(kept, None))
    }
}

struct ColumnFilter {
    filter: Arc<RuntimeFilter>,
    columns: [usize; 1],
    /// The keys as ranges of whole numbers; `None` if these are many, or not known.
    ranges: OnceLock<Option<WholeRanges>>,
}

impl RowFilter for ColumnFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        match columns {
            [column] => self.filter.keep(column),
            _ => Err(Error::bug(format!("a runtime filter of one column got {}", columns.len()))),
        }
    }

    fn is_worthwhile(&self) -> bool {
        self.filter.state.get().is_some() && self.filter.judgement.is_worthwhile()
    }

    fn ranges(&self) -> Option<&WholeRanges> {
        // Before it is filled nothing is known.
        self.filter.state.get()?;
        let ranges = || {
            let keys = self.filter.few_keys()?;
            let keys = keys.iter().map(|key| stored_number(key).map(|key| (key, key))).collect::<Option<Vec<_>>>()?;
            Some(WholeRanges::new(self.columns[0], keys)).filter(|ranges| ranges.ranges().len() <= RANGES_MAX)
        };
        self.ranges.get_or_init(ranges).as_ref()
    }

    fn is_of_values(&self) -> bool {
        // It stays as it is once it is filled, and it is not asked before.
        true
    }
}

impl Test {
    fn run(&self, kind: &KeyKind, array: &ArrayRef) -> Result<BooleanBuffer> {
        let column = kind.column(array)?;
        let kept = match (self, &column.data) {
            (Test::Words(set), KeyData::Words(words)) => set.contains(words),
            (Test::Words(_), KeyData::Bytes(..)) => return Err(Error::bug("a set of words was asked for strings")),
            (Test::Work(work), data) => work.test(data),
        };
        Ok(without_nulls(kept, column.nulls.as_ref()))
    }
}

/// A filter's bits, set by several workers.
pub(super) struct FilterWork {
    words: Vec<AtomicU64>,
    /// One bit per value from `.0` to `.0 + .1`; otherwise a Bloom filter.
    exact: Option<(u64, u64)>,
    /// The keys' words, where they are few and no bits tell them.
    few: Option<Mutex<Vec<u64>>>,
}

impl FilterWork {
    /// A filter for so many keys, whose words have these bounds if they have words. `None` if there are more keys than
    /// `keys_max` and a Bloom filter would be needed.
    pub fn new(bounds: Option<(u64, u64)>, keys: usize, keys_max: usize) -> Option<Self> {
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        if let Some((min, max)) = bounds {
            let span = max.saturating_sub(min);
            if span < EXACT_VALUES_ALWAYS.max(EXACT_VALUES_PER_KEY.saturating_mul(keys as u64)) {
                return Some(Self { words: words((span / 64 + 1) as usize), exact: Some((min, span)), few: None });
            }
        }
        let few = (bounds.is_some() && keys <= FEW_KEYS).then(Mutex::default);
        (keys <= keys_max).then(|| Self { words: words(keys * BLOOM_BITS_PER_KEY / 64 + 1), exact: None, few })
    }

    /// All words, which are between these; `None` if they are not known one by one, or more than [`FEW_KEYS`].
    fn few(&self, min: u64, max: u64) -> Option<Vec<u64>> {
        let Some((first, span)) = self.exact else { return self.few.as_ref().map(|few| few.lock().clone()) };
        if span >= EXACT_VALUES_ALWAYS || first > min || max - first > span {
            return None;
        }
        let mut found = Vec::new();
        for (at, bits) in self.words.iter().enumerate() {
            let bits = bits.load(Ordering::Relaxed);
            if found.len() + bits.count_ones() as usize > FEW_KEYS {
                return None;
            }
            found.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + at as u64 * 64 + bit));
        }
        Some(found)
    }

    /// Bytes of the bits.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Adds a chunk's keys.
    pub fn add(&self, column: &KeyColumn, valid: Option<&NullBuffer>) {
        let merged = NullBuffer::union(column.nulls.as_ref(), valid);
        if let (Some(few), KeyData::Words(words)) = (&self.few, &column.data) {
            let is_there = |row: &usize| merged.as_ref().is_none_or(|merged| merged.is_valid(*row));
            few.lock().extend((0..words.len()).filter(is_there).map(|row| words[row]));
        }
        match (&merged, &column.data, self.exact) {
            (None, KeyData::Words(words), None) => return self.add_bloom(words.len(), |row| hash_word(words[row])),
            (None, KeyData::Bytes(_, hashes), _) => return self.add_hashes(hashes),
            _ => {}
        }
        let rows: Box<dyn Iterator<Item = usize>> = match (&merged, &column.data) {
            (Some(valid), _) => Box::new(valid.valid_indices()),
            (None, KeyData::Words(words)) => Box::new(0..words.len()),
            (None, KeyData::Bytes(_, hashes)) => Box::new(0..hashes.len()),
        };
        for row in rows {
            let (at, bits) = match (&column.data, self.exact) {
                (KeyData::Words(words), Some((min, _))) => {
                    let distance = words[row] - min;
                    ((distance / 64) as usize, 1 << (distance % 64))
                }
                (KeyData::Words(words), None) => self.bloom(hash_word(words[row])),
                (KeyData::Bytes(_, hashes), _) => self.bloom(hashes[row]),
            };
            self.set(at, bits);
        }
    }

    /// Adds hashes, to a Bloom filter that is only asked about hashes.
    pub fn add_hashes(&self, hashes: &[u64]) {
        self.add_bloom(hashes.len(), |row| hashes[row]);
    }

    /// Adds the hashes of so many rows; their words are far apart, so they are asked for before they are needed.
    #[inline(always)]
    fn add_bloom(&self, rows: usize, hash: impl Fn(usize) -> u64) {
        for row in 0..rows {
            if row + AHEAD < rows {
                prefetch(&self.words, self.bloom(hash(row + AHEAD)).0);
            }
            let (at, bits) = self.bloom(hash(row));
            self.set(at, bits);
        }
    }

    /// Looks before it writes: keys repeat, and a write takes the cache line from the other workers.
    #[inline(always)]
    fn set(&self, at: usize, bits: u64) {
        if self.words[at].load(Ordering::Relaxed) & bits != bits {
            self.words[at].fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// The word of a hash and its bits there.
    #[inline(always)]
    fn bloom(&self, hash: u64) -> (usize, u64) {
        let at = (((hash >> 32) * self.words.len() as u64) >> 32) as usize;
        let bit = |shift: u32| 1u64 << (hash >> shift & 63);
        (at, bit(0) | bit(6) | bit(12) | bit(18))
    }

    /// Whether a hash may have been added to the Bloom filter.
    #[inline(always)]
    pub fn is_in_bloom(&self, hash: u64) -> bool {
        let (at, bits) = self.bloom(hash);
        self.words[at].load(Ordering::Relaxed) & bits == bits
    }

    fn test(&self, data: &KeyData) -> BooleanBuffer {
        match (data, self.exact) {
            (KeyData::Words(words), Some((min, span))) => BooleanBuffer::collect_bool(words.len(), |row| {
                let distance = words[row].wrapping_sub(min);
                distance <= span
                    && self.words[(distance / 64) as usize].load(Ordering::Relaxed) >> (distance % 64) & 1 == 1
            }),
            (KeyData::Words(words), None) => {
                BooleanBuffer::collect_bool(words.len(), |row| self.is_in_bloom(hash_word(words[row])))
            }
            (KeyData::Bytes(_, hashes), _) => {
                BooleanBuffer::collect_bool(hashes.len(), |row| self.is_in_bloom(hashes[row]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal64Array, Decimal128Array, DictionaryArray, Int64Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn a_filter_that_lets_most_pass_is_not_worthwhile() {
        let (rows, most) = (JUDGED_ROWS as usize, PASSED_PERCENT_MAX as usize);
        let judgement = Judgement::default();
        judgement.watch(rows - 1, rows - 1);
        assert!(judgement.is_worthwhile(), "too few to judge by");
        judgement.watch(1, 1);
        assert!(!judgement.is_worthwhile());
        let judgement = Judgement::default();
        judgement.watch(100 * rows, most * rows);
        assert!(judgement.is_worthwhile());
        judgement.watch(100, 100);
        assert!(!judgement.is_worthwhile());
    }

    fn filled(array: ArrayRef, logical: &DataType) -> Arc<RuntimeFilter> {
        let kind = KeyKind::of(logical).unwrap();
        let column = kind.column(&array).unwrap();
        let valid: Vec<u64> = (0..array.len())
            .filter(|&row| !column.is_null(row))
            .filter_map(|row| column.words().get(row).copied())
            .collect();
        let bounds = valid.iter().min().copied().zip(valid.iter().max().copied());
        let work = FilterWork::new(bounds, array.len(), usize::MAX).unwrap();
        work.add(&column, None);
        let filter = RuntimeFilter::new();
        filter.set_work(Arc::new(work), bounds, logical).unwrap();
        filter
    }

    fn kept(filter: &Arc<RuntimeFilter>, array: ArrayRef) -> Vec<bool> {
        let mask = filter.row_filter(3).keep(&[array]).unwrap();
        assert_eq!(mask.null_count(), 0);
        mask.values().iter().collect()
    }

    #[test]
    fn keys_pass_and_null_does_not() {
        let build = Int64Array::from(vec![Some(5), None, Some(900), Some(7)]);
        let filter = filled(Arc::new(build), &DataType::Int64);
        let probe = Int64Array::from(vec![Some(5), Some(6), None, Some(900), Some(-1), Some(901)]);
        assert_eq!(kept(&filter, Arc::new(probe)), vec![true, false, false, true, false, false]);
        let bounds = filter.bounds().unwrap();
        assert_eq!(bounds, (ScalarValue::Int64(Some(5)), ScalarValue::Int64(Some(900))));
    }

    #[test]
    fn few_keys_are_told_one_by_one() {
        let told = |keys: Vec<Option<i64>>| {
            let filter = filled(Arc::new(Int64Array::from(keys)), &DataType::Int64);
            let keys = filter.few_keys()?.into_iter().map(|key| match key {
                ScalarValue::Int64(Some(key)) => key,
                other => panic!("{other:?}"),
            });
            Some(keys.collect::<std::collections::BTreeSet<_>>())
        };
        // As bits and as a Bloom filter.
        assert_eq!(told(vec![Some(5), None, Some(7), Some(5)]), Some([5, 7].into()));
        assert_eq!(told(vec![Some(-5), None, Some(1 << 60), Some(0)]), Some([-5, 0, 1 << 60].into()));
        assert_eq!(told((0..=FEW_KEYS as i64).map(Some).collect()), None);
        assert_eq!(told((0..=FEW_KEYS as i64).map(|key| Some(key << 30)).collect()), None);
        let texts = filled(Arc::new(StringViewArray::from(vec!["a"])), &DataType::Utf8View);
        assert!(texts.few_keys().is_none() && RuntimeFilter::new().few_keys().is_none());
    }

    #[test]
    fn keys_that_lie_together_are_ranges() {
        let ranges = |keys: Vec<Option<i64>>| {
            let filter = filled(Arc::new(Int64Array::from(keys)), &DataType::Int64).row_filter(3);
            filter.ranges().map(|ranges| (ranges.column(), ranges.ranges().to_vec()))
        };
        assert_eq!(ranges(vec![Some(7), None, Some(5), Some(6), Some(40)]), Some((3, vec![(5, 7), (40, 40)])));
        assert_eq!(ranges(vec![Some(-1 << 60), Some(1 << 60)]).unwrap().1, [(-1 << 60, -1 << 60), (1 << 60, 1 << 60)]);
        assert_eq!(ranges((0..100).map(|key| Some(key * 2)).collect()), None);
        // What is not filled yet has none, and has them later.
        let filter = RuntimeFilter::new();
        let of_column = filter.row_filter(0);
        assert!(of_column.ranges().is_none());
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![3, 4]));
        let column = KeyKind::of(&DataType::Int64).unwrap().column(&keys).unwrap();
        let bounds = Some((column.words()[0], column.words()[1]));
        let work = FilterWork::new(bounds, 2, usize::MAX).unwrap();
        work.add(&column, None);
        filter.set_work(Arc::new(work), bounds, &DataType::Int64).unwrap();
        assert_eq!(of_column.ranges().unwrap().ranges(), [(3, 4)]);
    }

    #[test]
    fn physical_forms_agree() {
        let logical = DataType::Decimal128(15, 2);
        let wide = Decimal128Array::from(vec![100, 1 << 50]).with_precision_and_scale(15, 2).unwrap();
        let filter = filled(Arc::new(wide), &logical);
        let narrow = Decimal64Array::from(vec![1 << 50, 99, 100]).with_precision_and_scale(15, 2).unwrap();
        assert_eq!(kept(&filter, Arc::new(narrow)), vec![true, false, true]);
        assert_eq!(filter.bounds().unwrap().0, ScalarValue::Decimal128(Some(100), 15, 2));

        let long = "a string that is longer than a view";
        let views = StringViewArray::from(vec![Some("short"), Some(long), None]);
        let filter = filled(Arc::new(views), &DataType::Utf8View);
        let values = Arc::new(StringArray::from(vec![long, "other", "short", "another string that is long"]));
        let keys = arrow::array::Int32Array::from(vec![Some(1), Some(0), None, Some(2), Some(3)]);
        let dictionary = DictionaryArray::new(keys, values.clone());
        assert_eq!(kept(&filter, Arc::new(dictionary)), vec![false, true, false, true, false]);
        assert_eq!(kept(&filter, values), vec![true, false, true, false]);
        assert!(filter.bounds().is_none());
    }

    #[test]
    fn a_bloom_filter_keeps_all_keys_and_few_others() {
        let build: Vec<i64> = (0..10_000).map(|n: i64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)).collect();
        let filter = filled(Arc::new(Int64Array::from(build.clone())), &DataType::Int64);
        assert!(kept(&filter, Arc::new(Int64Array::from(build))).iter().all(|&kept| kept));
        let others = Int64Array::from_iter_values((0..100_000).map(|n| n * 1_000_003 + 1));
        let passed = kept(&filter, Arc::new(others)).into_iter().filter(|&kept| kept).count();
        assert!(passed < 3_000, "{passed} of 100000 passed");
    }

    #[test]
    fn a_filter_that_keeps_nearly_everything_gives_up() {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let filter = RuntimeFilter::new();
        let row_filter = filter.row_filter(0);
        assert!(!row_filter.is_worthwhile());
        assert_eq!(row_filter.keep(std::slice::from_ref(&keys)).unwrap().true_count(), 1000);
        let filter = filled(keys.clone(), &DataType::Int64);
        let row_filter = filter.row_filter(0);
        for _ in 0..65 {
            assert!(row_filter.is_worthwhile());
            row_filter.keep(std::slice::from_ref(&keys)).unwrap();
        }
        row_filter.keep(&[keys]).unwrap();
        assert!(!row_filter.is_worthwhile());
    }

    #[test]
    fn an_empty_build_side_keeps_nothing() {
        let filter = RuntimeFilter::new();
        assert!(!filter.is_empty_build());
        filter.set_empty();
        assert!(filter.is_empty_build() && filter.bounds().is_none());
        assert_eq!(kept(&filter, Arc::new(Int64Array::from(vec![1, 2]))), vec![false, false]);
    }
}
