//! What packets have encoded of a file whose rows come in order: each piece waits until all before it are in the file.
//!
//! A packet's rows belong to one place after the other in the order of what is read
//! ([`WritePart::at`](crate::writer::WritePart::at)). What it encodes of the first place that is not whole goes into
//! the file at once; the others wait. Few rows of Parquet are not encoded by their packet: those of places behind each
//! other make row groups together.
//!
//! Invariant: the caller that says the places bounds how far they are apart, and so what waits.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_writer::ArrowColumnChunk;

use super::row_groups::needed_bytes;

/// What a packet has for a file.
pub(super) enum WrittenPiece {
    RowGroup(Vec<ArrowColumnChunk>),
    /// Rows of Parquet, too few for a row group.
    Rows(Vec<RecordBatch>),
    Text(Vec<u8>),
}

impl WrittenPiece {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::RowGroup(chunks) => chunks.iter().map(|chunk| chunk.close().bytes_written as usize).sum(),
            Self::Rows(rows) => rows.iter().map(needed_bytes).sum(),
            Self::Text(text) => text.len(),
        }
    }
}

/// The pieces that wait.
#[derive(Default)]
pub(super) struct Sequence {
    /// The first place that is not whole.
    first: usize,
    places: BTreeMap<usize, WrittenPlace>,
    bytes: usize,
}

#[derive(Default)]
struct WrittenPlace {
    pieces: Vec<WrittenPiece>,
    is_whole: bool,
}

impl Sequence {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next piece of a place. Gives it back if its turn is now.
    pub fn put(&mut self, place: usize, piece: WrittenPiece) -> Option<WrittenPiece> {
        if place <= self.first {
            return Some(piece);
        }
        self.bytes += piece.bytes();
        self.places.entry(place).or_default().pieces.push(piece);
        None
    }

    /// There are no further pieces of a place. The pieces whose turn has come by that.
    pub fn end(&mut self, place: usize) -> Vec<WrittenPiece> {
        self.places.entry(place).or_default().is_whole = true;
        let mut due = Vec::new();
        while self.places.get(&self.first).is_some_and(|first| first.is_whole) {
            due.extend(self.places.remove(&self.first).into_iter().flat_map(|first| first.pieces));
            self.first += 1;
            // What is there of the next one was not in its turn before.
            due.extend(self.places.get_mut(&self.first).into_iter().flat_map(|next| std::mem::take(&mut next.pieces)));
        }
        self.bytes -= due.iter().map(WrittenPiece::bytes).sum::<usize>();
        due
    }

    /// All that is left, in order.
    pub fn rest(&mut self) -> Vec<WrittenPiece> {
        self.bytes = 0;
        std::mem::take(&mut self.places).into_values().flat_map(|place| place.pieces).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(piece: WrittenPiece) -> u8 {
        let WrittenPiece::Text(text) = piece else { panic!("only text was put") };
        text[0]
    }

    proptest! {
        #[test]
        fn pieces_come_in_the_order_of_their_places(
            sizes in prop::collection::vec(0_usize..4, 1..12), packets in 1_usize..4, turns in prop::collection::vec(0_usize..4, 200),
        ) {
            let mut sequence = Sequence::default();
            let mut came = Vec::new();
            let mut at: Vec<Option<(usize, usize)>> = vec![None; packets];
            let mut next = 0;
            for turn in turns.into_iter().chain((0..4).cycle().take(400)) {
                let Some(packet) = at.get_mut(turn) else { continue };
                *packet = match *packet {
                    Some((place, sent)) if sent < sizes[place] => {
                        let piece = WrittenPiece::Text(vec![(place * 10 + sent) as u8]);
                        came.extend(sequence.put(place, piece).map(text));
                        Some((place, sent + 1))
                    }
                    Some((place, _)) => {
                        came.extend(sequence.end(place).into_iter().map(text));
                        None
                    }
                    None if next < sizes.len() => {
                        next += 1;
                        Some((next - 1, 0))
                    }
                    None => None,
                };
            }
            let expected = sizes.iter().enumerate();
            let expected = expected.flat_map(|(place, &size)| (0..size).map(move |piece| (place * 10 + piece) as u8));
            prop_assert_eq!(came, expected.collect::<Vec<_>>());
            prop_assert_eq!((sequence.bytes(), sequence.rest().len()), (0, 0));
        }
    }
}
