//! What is known of the rows that have come: how many there are, and where partitions and groups of peers begin.
//!
//! Rows are told by *positions*: numbers from the first row of the input, over all partitions.
//!
//! Invariant: both kinds of starts ascend, and every start of a partition is a start of peers. When the input has
//! ended, the position behind the last row is a start as well, so that every partition ends where the next begins.

use arrow::array::ArrayRef;
use arrow::compute::{concat, partition};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::starts::Starts;
use crate::batch::floats::canonical_floats;
use crate::batch::{Batch, to_logical};
use crate::expressions::Expr;

/// The rows that have come.
#[derive(Default)]
pub(super) struct Rows {
    /// How many.
    pub arrived: u64,
    /// Where partitions begin.
    pub partitions: Starts,
    /// Where rows begin whose order keys differ from those before. Empty if nobody wants to know.
    pub peers: Starts,
    closed: bool,
}

impl Rows {
    /// No further row comes.
    pub fn close(&mut self) {
        self.partitions.push(self.arrived);
        self.peers.push(self.arrived);
        self.closed = true;
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Finds where partitions and peers begin.
pub(super) struct Boundaries {
    partition_by: Changes,
    order_by: Option<Changes>,
}

impl Boundaries {
    /// `order_by`: only if somebody looks at peers.
    pub fn new(partition_by: Vec<Expr>, order_by: Option<Vec<Expr>>) -> Self {
        Self { partition_by: Changes::new(partition_by), order_by: order_by.map(Changes::new) }
    }

    /// Adds a batch. Returns the rows of the batch at which a partition begins.
    pub fn push(&mut self, batch: &Batch, rows: &mut Rows) -> Result<Vec<u32>> {
        let partitions = self.partition_by.of(batch)?;
        for &row in &partitions {
            rows.partitions.push(rows.arrived + u64::from(row));
        }
        if let Some(order_by) = &mut self.order_by {
            let mut peers = order_by.of(batch)?;
            peers.extend(&partitions);
            peers.sort_unstable();
            peers.dedup();
            for row in peers {
                rows.peers.push(rows.arrived + u64::from(row));
            }
        }
        rows.arrived += batch.rows() as u64;
        Ok(partitions)
    }
}

/// Finds the rows whose keys differ from the row before.
struct Changes {
    keys: Vec<Expr>,
    /// The keys of the last row that came.
    last: Option<Vec<ArrayRef>>,
}

impl Changes {
    fn new(keys: Vec<Expr>) -> Self {
        Self { keys, last: None }
    }

    fn of(&mut self, batch: &Batch) -> Result<Vec<u32>> {
        let keys = self.keys.iter().map(|key| {
            let array = to_logical(&key.evaluate(batch)?.flat()?, key.data_type())?;
            canonical_floats(&array)
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let continues = match &self.last {
            None => false,
            Some(last) => last.iter().zip(&keys).try_fold(true, |same, (last, key)| {
                let pair = concat(&[last.as_ref(), key.slice(0, 1).as_ref()]).map_err(from_arrow)?;
                Ok(same && partition(&[pair]).map_err(from_arrow)?.len() == 1)
            })?,
        };
        let mut starts = Vec::new();
        if keys.is_empty() {
            starts.push(0);
        } else {
            let ranges = partition(&keys).map_err(from_arrow)?.ranges();
            starts.extend(ranges.into_iter().map(|range| range.start as u32));
        }
        if continues {
            starts.remove(0);
        }
        // A copy of the row: a slice would keep the whole batch.
        let end = batch.rows() - 1;
        let copy = |key: &ArrayRef| concat(&[key.slice(end, 1).as_ref(), key.slice(0, 0).as_ref()]);
        self.last = Some(keys.iter().map(copy).collect::<Result<_, _>>().map_err(from_arrow)?);
        Ok(starts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn partitions_and_peers_go_on_from_batch_to_batch() {
        let schema = Schema::new(vec![Field::new("p", DataType::Int64, true), Field::new("o", DataType::Int64, true)]);
        let key = |index| vec![Expr::column(index, &schema).unwrap()];
        let mut boundaries = Boundaries::new(key(0), Some(key(1)));
        let mut rows = Rows::default();
        let mut push = |p: Vec<Option<i64>>, o: Vec<Option<i64>>| {
            let count = p.len();
            let batch = Batch::from_arrays(vec![Arc::new(Int64Array::from(p)), Arc::new(Int64Array::from(o))], count);
            boundaries.push(&batch, &mut rows).unwrap()
        };
        assert_eq!(push(vec![Some(1), Some(1)], vec![Some(5), Some(5)]), vec![0]);
        assert_eq!(push(vec![Some(1), None], vec![Some(5), Some(5)]), vec![1]);
        assert_eq!(push(vec![None, None, Some(2)], vec![None, None, None]), vec![2]);
        rows.close();
        assert_eq!(rows.partitions.kept(), [0, 3, 6, 7]);
        assert_eq!(rows.peers.kept(), [0, 3, 4, 6, 7]);
        assert_eq!(rows.partitions.number_at(0, 5), 1);
        rows.partitions.forget_before(1);
        assert_eq!((rows.partitions.get(2), rows.partitions.get(4)), (Some(6), None));
    }

    #[test]
    fn without_keys_all_rows_are_one_partition() {
        let mut boundaries = Boundaries::new(Vec::new(), Some(Vec::new()));
        let mut rows = Rows::default();
        let batch = Batch::new(Vec::new(), 3);
        assert_eq!(boundaries.push(&batch, &mut rows).unwrap(), vec![0]);
        assert_eq!(boundaries.push(&batch, &mut rows).unwrap(), Vec::<u32>::new());
        rows.close();
        assert_eq!((rows.partitions.kept(), rows.peers.kept()), (vec![0, 6], vec![0, 6]));
    }
}
