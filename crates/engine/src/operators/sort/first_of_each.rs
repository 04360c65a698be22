//! Which rows may be among the first rows of each of several queries.
//!
//! Queries that go together want first rows of the same order, each of other rows. For each of them the least keys are
//! held, as many as it wants rows; a row whose key does not come before the last of these is none of its first rows. So
//! of many rows few are left: in an order that has nothing to do with that of the keys, of `n` rows and `k` wanted ones
//! about `k * ln(n / k)` for each query and packet.
//!
//! ```text
//!   q0: 3 least keys   2  5  9     a row with key 6 that all want     is left for q0 and q2:  101
//!   q1: 3 least keys   1  1  4
//!   q2: 2, so far      3  8
//! ```
//!
//! Invariant: of all rows that were looked at, those that are left for a query have its first rows among them.

use std::borrow::Borrow;
use std::collections::BinaryHeap;

use arrow::array::ArrayRef;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use super::encoding::KeyEncoder;
use super::keys::Keys;
use super::rows_before::{rows_of, rows_where};
use crate::batch::Batch;
use crate::flow::QueryContext;
use crate::plan::SortKey;

/// Queries at most: bits of a mask.
const QUERIES: usize = u64::BITS as usize;

/// What one packet has seen.
pub(crate) struct FirstOfEach {
    encoder: KeyEncoder,
    /// Those that want rows, as bits.
    queries: u64,
    least: Least,
    /// What rows must come before to be of use to anybody, where codes are bytes.
    bound: Option<FirstRowsBound>,
    memory: Reservation,
}

/// A key, by the values of its columns and its lead.
struct FirstRowsBound {
    lead: Option<u64>,
    values: Vec<ArrayRef>,
}

enum Least {
    Narrow(LeastKeys<u64>),
    Wide(LeastKeys<u128>),
    Bytes(LeastKeys<[u8]>),
    /// There was no memory for the keys: all rows are left.
    Unknown,
}

impl FirstOfEach {
    /// For queries, as bits, that each want so many rows, in the order of these keys. Fails if a key has a type without
    /// an order.
    pub fn new(keys: &[SortKey], wanted: usize, queries: u64, context: &QueryContext) -> Result<Self> {
        let encoder = KeyEncoder::new(keys)?;
        let least = match encoder.empty() {
            Keys::Narrow(_) => Least::Narrow(LeastKeys::new(wanted)),
            Keys::Wide(_) => Least::Wide(LeastKeys::new(wanted)),
            Keys::Bytes(_) => Least::Bytes(LeastKeys::new(wanted)),
        };
        Ok(Self { encoder, queries, least, bound: None, memory: context.memory.reservation("First rows") })
    }

    /// Clears the bits of queries that a row is none of the first rows of.
    pub fn restrict(&mut self, batch: &Batch, masks: &mut [u64]) -> Result<()> {
        if matches!(self.least, Least::Unknown) {
            return Ok(());
        }
        let mut rows = rows_where(masks, |&mask| mask != 0);
        let columns = self.encoder.columns(batch)?;
        if self.find_bound()? {
            rows = self.before_bound(&columns, rows)?;
            let mut next = 0;
            for &row in &rows {
                masks[next..row as usize].fill(0);
                next = row as usize + 1;
            }
            masks[next..].fill(0);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let columns = columns.iter().map(|column| rows_of(column, &rows)).collect::<Result<Vec<_>>>()?;
        let mut keys = self.encoder.empty();
        self.encoder.append(&columns, rows.len(), &mut keys)?;
        let rows = rows.as_slice();
        let bytes = match (&mut self.least, &keys) {
            (Least::Narrow(least), Keys::Narrow(codes)) => least.restrict(rows, |place| &codes[place], masks),
            (Least::Wide(least), Keys::Wide(codes)) => least.restrict(rows, |place| &codes[place], masks),
            (Least::Bytes(least), Keys::Bytes(codes)) => least.restrict(rows, |place| codes.row(place).data(), masks),
            _ => return Err(Error::bug("sort keys of different forms met")),
        };
        if self.memory.resize(bytes).is_err() {
            self.least = Least::Unknown;
            self.memory.resize(0)?;
        }
        Ok(())
    }
}

impl FirstOfEach {
    /// Whether there is a bound for all queries; finds it anew if it has come nearer.
    fn find_bound(&mut self) -> Result<bool> {
        if let Least::Bytes(least) = &mut self.least
            && least.has_changed
        {
            least.count_bounds();
            let values = match least.farthest(self.queries) {
                Some(code) => self.encoder.values_of_code(code)?,
                None => None,
            };
            self.bound = match values {
                Some(values) => {
                    let lead = self.encoder.leads(&values, 1)?.and_then(|leads| leads.first().copied());
                    Some(FirstRowsBound { lead, values })
                }
                None => None,
            };
        }
        Ok(self.bound.is_some())
    }

    /// Those of the rows that come before the bound. Codes of bytes are dear, so that is found before they are made.
    fn before_bound(&self, columns: &[ArrayRef], mut rows: Vec<u32>) -> Result<Vec<u32>> {
        let Some(bound) = &self.bound else { return Ok(rows) };
        if let Some(lead) = bound.lead
            && let Some(first) = columns.first()
            && let Some(leads) = self.encoder.leads(columns, first.len())?
        {
            rows.retain(|&row| leads[row as usize] <= lead);
        }
        let before = self.encoder.rows_before(&bound.values, columns, &rows)?;
        Ok(before.into_iter().map(|place| rows[place as usize]).collect())
    }
}

/// The least keys of each query.
struct LeastKeys<K: ?Sized + ToOwned> {
    wanted: usize,
    queries: Vec<BinaryHeap<K::Owned>>,
    /// The greatest of them of those queries that have enough, ascending, as they were before this batch.
    bounds: Vec<K::Owned>,
    /// By the number of bounds that a key does not come before, the queries that want it.
    wants: Vec<u64>,
    has_changed: bool,
    /// What is held on the heap by keys.
    bytes: usize,
}

impl<K: ?Sized + Ord + ToOwned + HeldBytes> LeastKeys<K>
where
    K::Owned: Ord + Clone,
{
    fn new(wanted: usize) -> Self {
        let queries = (0..QUERIES).map(|_| BinaryHeap::new()).collect();
        Self { wanted, queries, bounds: Vec::new(), wants: vec![u64::MAX], has_changed: false, bytes: 0 }
    }

    /// Looks at these rows, whose keys are given by place. Returns the bytes that are held then.
    fn restrict<'k>(&mut self, rows: &[u32], key: impl Fn(usize) -> &'k K, masks: &mut [u64]) -> usize
    where
        K: 'k,
    {
        if self.has_changed {
            self.count_bounds();
        }
        for (place, &row) in rows.iter().enumerate() {
            let (key, mask) = (key(place), &mut masks[row as usize]);
            *mask &= self.wants[self.bounds.partition_point(|bound| bound.borrow() <= key)];
            let mut left = *mask;
            while left != 0 {
                let query = left.trailing_zeros() as usize;
                left &= left - 1;
                if !self.add(query, key) {
                    *mask &= !(1 << query);
                }
            }
        }
        let held: usize = self.queries.iter().map(BinaryHeap::capacity).sum();
        (held + self.bounds.capacity()) * size_of::<K::Owned>() + self.bytes
    }

    /// Adds a key to those of a query, if it is among the least.
    fn add(&mut self, query: usize, key: &K) -> bool {
        let least = &mut self.queries[query];
        if least.len() < self.wanted {
            self.bytes += key.held_bytes();
            least.push(key.to_owned());
        } else if let Some(mut greatest) = least.peek_mut().filter(|greatest| key < (**greatest).borrow()) {
            self.bytes = self.bytes + key.held_bytes() - (*greatest).borrow().held_bytes();
            *greatest = key.to_owned();
        } else {
            return false;
        }
        self.has_changed = true;
        true
    }

    /// The greatest bound, if all of these queries have one.
    fn farthest(&self, queries: u64) -> Option<&K::Owned> {
        let all_have_one = self.wants.last().is_some_and(|wants| wants & queries == 0);
        self.bounds.last().filter(|_| all_have_one)
    }

    fn count_bounds(&mut self) {
        self.has_changed = false;
        let mut bounds: Vec<(&K::Owned, u64)> = Vec::new();
        let mut all = 0;
        for (query, least) in self.queries.iter().enumerate() {
            match least.peek().filter(|_| least.len() >= self.wanted) {
                Some(greatest) => bounds.push((greatest, 1 << query)),
                None => all |= 1 << query,
            }
        }
        bounds.sort();
        self.wants = vec![all; bounds.len() + 1];
        for (place, (_, query)) in bounds.iter().enumerate().rev() {
            self.wants[place] = self.wants[place + 1] | query;
        }
        self.bounds = bounds.into_iter().map(|(bound, _)| bound.clone()).collect();
    }
}

/// What an owned key has beside itself.
trait HeldBytes {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl HeldBytes for u64 {}

impl HeldBytes for u128 {}

impl HeldBytes for [u8] {
    fn held_bytes(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{DataType, Field, Schema};
    use diligence_base::ids::QueryId;
    use diligence_base::seams::Random;
    use diligence_memory::{Broker, QueryMemory};

    use super::*;
    use crate::expressions::Expr;

    /// Rows of a number and a text, and the masks of those who want them.
    fn rows(random: &mut Random, count: usize) -> (Vec<Option<i64>>, Vec<String>, Vec<u64>) {
        let numbers = (0..count).map(|_| (random.below(20) != 0).then(|| random.below(50) as i64)).collect();
        let texts = (0..count).map(|_| format!("text {:06}", random.below(100_000))).collect();
        let masks = (0..count).map(|_| random.bits() & random.bits() & random.bits()).collect();
        (numbers, texts, masks)
    }

    #[test]
    fn the_first_rows_of_each_query_are_left_and_few_others() {
        let schema = Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
        ]);
        let key = |column: usize, descending: bool| SortKey {
            expression: Expr::column(column, &schema).unwrap(),
            options: SortOptions { descending, nulls_first: descending },
        };
        // Codes of 64 bits, of 128 bits, and of bytes.
        let orders = [vec![key(0, true)], vec![key(0, false), key(0, true)], vec![key(0, true), key(1, false)]];
        for keys in orders {
            let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 100, packets: 1 };
            let mut random = Random::new(7);
            let mut first = FirstOfEach::new(&keys, 5, u64::MAX, &context).unwrap();
            let is_bytes = matches!(first.least, Least::Bytes(_));
            let encoder = KeyEncoder::new(&keys).unwrap();
            let (mut wanted, mut left) = (vec![Vec::new(); QUERIES], vec![Vec::new(); QUERIES]);
            for _ in 0..200 {
                let (numbers, texts, mut masks) = rows(&mut random, 100);
                let arrays: Vec<ArrayRef> =
                    vec![Arc::new(Int64Array::from(numbers)), Arc::new(StringViewArray::from_iter_values(texts))];
                let batch = Batch::from_arrays(arrays, 100);
                let columns = encoder.columns(&batch).unwrap();
                let mut codes = encoder.empty();
                encoder.append(&columns, 100, &mut codes).unwrap();
                let code = |row: usize| match &codes {
                    Keys::Narrow(codes) => codes[row].to_be_bytes().to_vec(),
                    Keys::Wide(codes) => codes[row].to_be_bytes().to_vec(),
                    Keys::Bytes(codes) => codes.row(row).data().to_vec(),
                };
                let add = |to: &mut Vec<Vec<Vec<u8>>>, masks: &[u64]| {
                    for (row, mask) in masks.iter().enumerate() {
                        (0..QUERIES).filter(|query| mask >> query & 1 == 1).for_each(|query| to[query].push(code(row)));
                    }
                };
                add(&mut wanted, &masks);
                let before = masks.clone();
                first.restrict(&batch, &mut masks).unwrap();
                assert!(masks.iter().zip(before).all(|(left, before)| left & !before == 0));
                add(&mut left, &masks);
            }
            assert_eq!(first.bound.is_some(), is_bytes, "codes of bytes are made of few rows only");
            for (wanted, left) in wanted.iter_mut().zip(&mut left) {
                wanted.sort();
                left.sort();
                assert_eq!(wanted[..5], left[..5]);
                assert!(wanted.len() > 2000 && left.len() < 80, "{} of {}", left.len(), wanted.len());
            }
        }
    }

    #[test]
    fn without_memory_all_rows_are_left() {
        let schema = Schema::new(vec![Field::new("number", DataType::Int64, true)]);
        let expression = Expr::column(0, &schema).unwrap();
        let keys = [SortKey { expression, options: SortOptions::default() }];
        let memory = Broker::new(64).account(QueryId(0), None);
        let context = QueryContext { memory, temp: None, batch_rows: 100, packets: 1 };
        let mut first = FirstOfEach::new(&keys, 1000, u64::MAX, &context).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
        let batch = Batch::from_arrays(vec![numbers], 5000);
        let mut left = || {
            let mut masks = vec![u64::MAX; 5000];
            first.restrict(&batch, &mut masks).unwrap();
            masks.iter().filter(|mask| **mask != 0).count()
        };
        assert_eq!([left(), left()], [1000, 5000]);
    }
}
