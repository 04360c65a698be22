//! Rows that move to segments, where they are from now on.

use super::*;

impl NativeTable {
    /// The same version with rows elsewhere: those whose numbers one of these pieces has are in its cluster from now
    /// on. Fails with kind `Resource` if memory is short.
    pub fn with_stored(&self, stored: &[StoredPiece]) -> Result<Self> {
        let mut pieces = self.pieces().to_vec();
        let mut views = Views::default();
        for run in stored.chunk_by(|left, right| left.run == right.run) {
            pieces = self.with_run(pieces, run, &mut views)?;
        }
        pieces.sort_by_key(|piece| (piece.fragment(), piece.first()));
        let is_between = |pair: &[Piece]| pair[0].fragment() != pair[1].fragment() || pair[0].last() < pair[1].first();
        if self.placement().clustered().is_empty() && !pieces.windows(2).all(is_between) {
            return Err(Error::bug("rows that were stored do not lie between others"));
        }
        let TableRows { version, next_number, indexes, .. } = &*self.rows;
        Ok(Self::of(self.declared.clone(), pieces, *next_number, *version, indexes.clone()))
    }

    /// These pieces in any order, where rows that were moved together are in their clusters.
    fn with_run(&self, pieces: Vec<Piece>, run: &[StoredPiece], views: &mut Views) -> Result<Vec<Piece>> {
        let mut clusters = Vec::with_capacity(run.len());
        for StoredPiece { segment, cluster, numbers, .. } in run {
            let rows = StoredRows { view: views.of(segment, &self.declared), cluster: *cluster, deleted: None };
            let total = rows.total()?;
            let mut live = BooleanBufferBuilder::new(total);
            live.append_n(total, false);
            let (first, last) = (numbers.least(), numbers.greatest(total));
            clusters.push(MovedRows { rows, numbers, total, first, last, live });
        }
        let ascends = clusters.windows(2).all(|pair| pair[0].last < pair[1].first);
        let (Some(first), Some(last)) =
            (clusters.iter().map(|rows| rows.first).min(), clusters.iter().map(|rows| rows.last).max())
        else {
            return Ok(pieces);
        };
        let fragment = run.first().map_or(0, |piece| piece.fragment);
        let mut mark = |number: i64| {
            let begin = if ascends { clusters.partition_point(|rows| rows.last < number) } else { 0 };
            for rows in clusters[begin..].iter_mut().take_while(|rows| !ascends || rows.first <= number) {
                let is_within = rows.first <= number && number <= rows.last;
                if let Some(at) = is_within.then(|| rows.numbers.position(number, rows.total)).flatten() {
                    rows.live.set_bit(at, true);
                    return true;
                }
            }
            false
        };
        let (mut others, mut memory) = (Vec::with_capacity(pieces.len()), None);
        for piece in pieces {
            if piece.fragment() != fragment || piece.last() < first || piece.first() > last {
                others.push(piece);
                continue;
            }
            let live = piece.live_numbers().collect::<Vec<_>>();
            let mut gone = Vec::new();
            for number in &live {
                match mark(*number) {
                    true => gone.push(*number),
                    // A cluster was moved as a whole, or stays.
                    false if piece.batch().is_none() && gone.is_empty() => break,
                    false if piece.batch().is_none() => return Err(Error::bug("a part of a cluster was moved")),
                    // A batch was joined with those behind it meanwhile.
                    false => {}
                }
            }
            if !gone.is_empty() {
                memory.get_or_insert_with(|| piece.memory().clone());
            }
            match gone.len() == live.len() {
                true => {}
                false => {
                    gone.sort_unstable();
                    others.extend(piece.without(&gone)?);
                }
            }
        }
        let Some(memory) = memory else { return Ok(others) };
        for MovedRows { rows, numbers, total, mut live, .. } in clusters {
            let deleted = DeletedRows::of(live.finish());
            if deleted.count() == total {
                continue;
            }
            let deleted = (deleted.count() > 0).then(|| Arc::new(deleted));
            let mut own = memory.sibling();
            let piece = Piece::stored(StoredRows { deleted: deleted.clone(), ..rows }, numbers.clone(), memory.clone());
            own.grow(piece.own_bytes() + deleted.map_or(0, |deleted| deleted.bytes()))?;
            others.push(piece.in_fragment(fragment).counted_in(Arc::new(own)));
        }
        Ok(others)
    }
}

/// A cluster that rows have moved to.
struct MovedRows<'a> {
    rows: StoredRows,
    numbers: &'a RowNumbers,
    total: usize,
    first: i64,
    last: i64,
    /// Which of them are still there.
    live: BooleanBufferBuilder,
}

/// A cluster that holds rows of a table from now on.
#[derive(Clone, Debug)]
pub struct StoredPiece {
    /// The fragment that its rows belong to.
    pub fragment: u16,
    /// What clusters have in common whose rows were moved together, next to each other in the list.
    pub run: usize,
    /// The segment.
    pub segment: Arc<Segment>,
    /// Which of its clusters.
    pub cluster: usize,
    /// The numbers of the cluster's rows.
    pub numbers: RowNumbers,
}
