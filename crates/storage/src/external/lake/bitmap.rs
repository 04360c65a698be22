//! Rows that are gone as lakes write them: a roaring bitmap of 64-bit numbers behind a magic number.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use diligence_base::panics::caught_quietly;
use roaring::RoaringTreemap;

/// What a bitmap begins with.
const MAGIC: u32 = 1_681_511_377;

/// The rows of a file of which a bitmap says that they are gone, as a bit for each row that is set if it is there; and
/// how many are gone. `None` if the bitmap is damaged.
pub(super) fn live_rows(bytes: &[u8], rows: u64) -> Option<(BooleanBuffer, u64)> {
    let (magic, bitmap) = bytes.split_at_checked(4)?;
    if u32::from_le_bytes(magic.try_into().ok()?) != MAGIC {
        return None;
    }
    let gone = caught_quietly(|| RoaringTreemap::deserialize_from(bitmap))?.ok()?;
    if gone.max().is_some_and(|last| last >= rows) {
        return None;
    }
    let count = gone.len();
    Some((without(rows, gone.iter()), count))
}

/// A bit for each of so many rows, set but for these.
pub(super) fn without(rows: u64, gone: impl Iterator<Item = u64>) -> BooleanBuffer {
    let mut live = BooleanBufferBuilder::new(rows as usize);
    live.append_n(rows as usize, true);
    gone.filter(|row| *row < rows).for_each(|row| live.set_bit(row as usize, false));
    live.finish()
}
