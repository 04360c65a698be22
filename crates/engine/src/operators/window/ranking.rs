//! Functions that look only at where partitions and peers begin: ranks, row numbers, shares of a partition.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, UInt64Array};
use diligence_base::{Error, Result};

use super::rows::Rows;

/// Which rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankingFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(u64),
}

/// Ranks row after row.
pub(super) struct Ranking {
    rank: RankingFunction,
    next: u64,
    partition: u64,
    group: u64,
    first_group: u64,
}

/// Rows of one partition, and of one group of peers where peers matter.
struct RankedPlace {
    /// The first row of the partition, and the one behind its last, if that is known.
    begin: u64,
    end: Option<u64>,
    /// The first of the peers; the number of their group in the partition; the row behind them, if that is known.
    peers: u64,
    group: u64,
    behind: Option<u64>,
}

impl Ranking {
    pub fn new(rank: RankingFunction) -> Self {
        Self { rank, next: 0, partition: 0, group: 0, first_group: 0 }
    }

    pub fn wants_peers(&self) -> bool {
        matches!(
            self.rank,
            RankingFunction::Rank
                | RankingFunction::DenseRank
                | RankingFunction::PercentRank
                | RankingFunction::CumeDist
        )
    }

    /// Whether the ranks of the rows before `until`, which have come, are certain.
    pub fn is_ready(&self, rows: &Rows, until: u64) -> bool {
        if matches!(self.rank, RankingFunction::RowNumber | RankingFunction::Rank | RankingFunction::DenseRank) {
            return true;
        }
        let last = rows.partitions.number_at(self.partition, until - 1);
        rows.partitions.get(last + 1).is_some()
    }

    /// The ranks of the rows before `until` that were not taken yet.
    pub fn take(&mut self, rows: &Rows, until: u64) -> Result<ArrayRef> {
        let count = (until - self.next) as usize;
        if matches!(self.rank, RankingFunction::PercentRank | RankingFunction::CumeDist) {
            let mut shares = Vec::with_capacity(count);
            while let Some((place, stop)) = self.place(rows, until)? {
                let size = place.end.ok_or_else(uncertain)? - place.begin;
                let share = match self.rank {
                    RankingFunction::PercentRank => {
                        (place.peers - place.begin) as f64 / size.saturating_sub(1).max(1) as f64
                    }
                    _ => (place.behind.ok_or_else(uncertain)? - place.begin) as f64 / size as f64,
                };
                shares.resize(shares.len() + (stop - self.next) as usize, share);
                self.next = stop;
            }
            return Ok(Arc::new(Float64Array::from(shares)));
        }
        let mut ranks: Vec<u64> = Vec::with_capacity(count);
        while let Some((place, stop)) = self.place(rows, until)? {
            let stretch = (stop - self.next) as usize;
            match self.rank {
                RankingFunction::Rank => ranks.resize(ranks.len() + stretch, place.peers - place.begin + 1),
                RankingFunction::DenseRank => ranks.resize(ranks.len() + stretch, place.group + 1),
                RankingFunction::Ntile(tiles) => {
                    let size = place.end.ok_or_else(uncertain)? - place.begin;
                    ranks.extend((self.next..stop).map(|row| tile(row - place.begin, size, tiles)));
                }
                _ => ranks.extend(self.next - place.begin + 1..=stop - place.begin),
            }
            self.next = stop;
        }
        Ok(Arc::new(UInt64Array::from(ranks)))
    }

    /// Where the next row is, and up to which row, at most `until`, others are there, too. `None` at `until`.
    fn place(&mut self, rows: &Rows, until: u64) -> Result<Option<(RankedPlace, u64)>> {
        if self.next >= until {
            return Ok(None);
        }
        self.partition = rows.partitions.number_at(self.partition, self.next);
        let begin = rows.partitions.get(self.partition).ok_or_else(uncertain)?;
        let end = rows.partitions.get(self.partition + 1);
        let mut stop = end.map_or(until, |end| end.min(until));
        let (mut peers, mut behind) = (begin, end);
        if self.wants_peers() {
            self.group = rows.peers.number_at(self.group, self.next);
            if self.next == begin {
                self.first_group = self.group;
            }
            peers = rows.peers.get(self.group).ok_or_else(uncertain)?;
            behind = rows.peers.get(self.group + 1);
            stop = behind.map_or(stop, |behind| behind.min(stop));
        }
        Ok(Some((RankedPlace { begin, end, peers, group: self.group - self.first_group, behind }, stop)))
    }

    /// The numbers of the first partition and the first peers that are still looked at.
    pub fn needed(&self) -> (u64, u64) {
        (self.partition, if self.wants_peers() { self.group } else { u64::MAX })
    }
}

/// The tile of a row, from 1 on: tiles are equal, but for the first ones, which have one row more where rows are left
/// over.
fn tile(row: u64, size: u64, tiles: u64) -> u64 {
    let (least, left) = (size / tiles, size % tiles);
    let large = left * (least + 1);
    if row < large { row / (least + 1) + 1 } else { left + (row - large) / least.max(1) + 1 }
}

fn uncertain() -> Error {
    Error::bug("a rank was taken before its partition was known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tiles_are_larger() {
        let tiles = |size: u64, tiles: u64| (0..size).map(|row| tile(row, size, tiles)).collect::<Vec<_>>();
        assert_eq!(tiles(10, 4), [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
        assert_eq!(tiles(2, 5), [1, 2]);
        assert_eq!(tiles(4, 1), [1; 4]);
        assert_eq!(tiles(3, u64::MAX), [1, 2, 3]);
    }
}
