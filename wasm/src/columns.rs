//! Functions of whole columns, which lie in the module's memory as Arrow has them.
//!
//! ```text
//!   function(rows, columns, result) -> 0, or the address of a message: its length (4), its bytes
//!   columns: one after the other; result: one, which the function fills. Each, in 24 bytes:
//!      0  kind        4  rows       8  address of the validity, 0 for no NULLs
//!     12  address of the offsets, 0 for none      16  address of the values      20  bytes of the values
//! Of arrays, the values are one column: that of all elements.
//! ```
//!
//! The module exports `memory` and `diligence_alloc(bytes) -> address`, which is asked for room for a batch, in
//! multiples of 8. If it exports `diligence_reset()`, that is called before each batch, and everything that was
//! allocated is free then; if not, the room is used again.

use wasmtime::{Instance, Memory, Store, TypedFunc};

use crate::frames::{Cause, Kind, NATIVE, Raised, Rest, TEXTS};
use crate::held::{Held, Signature, Values, front, memory_of, missing, raised};

/// Bytes of a column's description.
const COLUMN_BYTES: usize = 24;

/// A function of whole columns, and its module's room.
pub(crate) struct Columns {
    memory: Memory,
    function: TypedFunc<(i32, i32, i32), i32>,
    alloc: TypedFunc<i32, i32>,
    reset: Option<TypedFunc<(), ()>>,
    /// What was allocated before: where, and how much.
    room: (usize, usize),
    /// Whether it is called for the steps of an aggregate.
    has_steps: bool,
}

/// A column as it came.
pub(crate) struct Column<'p> {
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    /// A byte for each row, if some are NULL.
    pub(crate) valid: Option<&'p [u8]>,
    /// Four bytes for each value, if values are of any length; of arrays, how many elements each has.
    pub(crate) lengths: Option<&'p [u8]>,
    pub(crate) values: &'p [u8],
    /// Of arrays, all elements.
    pub(crate) elements: Option<Box<Column<'p>>>,
}

impl Column<'_> {
    /// Bytes of its parts in Arrow's layout, each rounded up: validity, offsets, values.
    fn parts(&self) -> [usize; 3] {
        let bits = self.rows.div_ceil(8).next_multiple_of(8);
        let values = if self.kind == Kind::Boolean { bits } else { self.values.len().next_multiple_of(8) };
        let offsets = self.lengths.map_or(0, |_| (4 * (self.rows + 1)).next_multiple_of(8));
        [self.valid.map_or(0, |_| bits), offsets, values]
    }

    /// Bytes of all parts, and of the elements with their description.
    fn bytes(&self) -> usize {
        let elements = self.elements.as_ref().map_or(0, |elements| COLUMN_BYTES + elements.bytes());
        self.parts().into_iter().sum::<usize>() + elements
    }

    /// Writes the column into a room whose address is `base`: its description at `place`, its parts from `at` on, a
    /// multiple of 8. Returns where these end.
    fn lay(&self, room: &mut [u8], base: usize, place: usize, at: usize) -> usize {
        let [valid, offsets, values] = self.parts();
        let address = |at: usize, bytes: usize| if bytes == 0 { 0 } else { base + at };
        let (of_offsets, of_values) = (at + valid, at + valid + offsets);
        let addresses = [address(at, valid), address(of_offsets, offsets), base + of_values];
        let bytes = if self.elements.is_some() { COLUMN_BYTES } else { self.values.len() };
        head(&mut room[place..], self.kind, self.rows, addresses, bytes);
        if let Some(bits) = self.valid {
            pack(&mut room[at..of_offsets], bits);
        }
        if let Some(lengths) = self.lengths {
            sum(&mut room[of_offsets..of_values], lengths);
        }
        match (&self.elements, self.kind) {
            (Some(elements), _) => return elements.lay(room, base, of_values, of_values + COLUMN_BYTES),
            (None, Kind::Boolean) => pack(&mut room[of_values..of_values + values], self.values),
            (None, _) => room[of_values..of_values + self.values.len()].copy_from_slice(self.values),
        }
        of_values + values
    }
}

/// A column that a function left: its description in the memory.
struct Left<'m> {
    memory: &'m [u8],
    at: usize,
}

impl<'m> Left<'m> {
    fn field(&self, place: usize) -> usize {
        let at = self.at.checked_add(4 * place);
        at.and_then(|at| word(self.memory, at)).unwrap_or(0) as usize
    }

    fn part(&self, from: usize, bytes: usize, what: &str) -> Result<&'m [u8], Raised> {
        let part = self.memory.get(from..from.saturating_add(bytes)).filter(|_| from > 0 || bytes == 0);
        part.ok_or_else(|| Raised::wrong(format!("the {what} of its result are outside of its memory")))
    }

    /// A byte for each row, if some may be NULL.
    fn valid(&self, rows: usize) -> Result<Option<Vec<u8>>, Raised> {
        match self.field(2) {
            0 => Ok(None),
            from => Ok(Some(unpack(self.part(from, rows.div_ceil(8), "validity")?, rows))),
        }
    }

    /// One more than there are rows, none less than the one before.
    fn offsets(&self, rows: usize) -> Result<Vec<usize>, Raised> {
        let offsets = self.part(self.field(3), 4 * (rows + 1), "offsets")?.as_chunks::<4>().0.iter();
        let offsets = offsets.map(|offset| u32::from_le_bytes(*offset) as usize).collect::<Vec<_>>();
        match offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            true => Err(Raised::wrong("the offsets of its result go back")),
            false => Ok(offsets),
        }
    }
}

/// How far it is from each offset to the next, in four bytes.
fn lengths(offsets: &[usize]) -> impl Iterator<Item = u8> {
    offsets.windows(2).flat_map(|pair| ((pair[1] - pair[0]) as u32).to_le_bytes())
}

impl Columns {
    /// The function of this name with what it needs around it.
    pub(crate) fn of(
        store: &mut Store<Held>,
        instance: &Instance,
        export: &str,
        has_steps: bool,
    ) -> Result<Self, Raised> {
        let memory = memory_of(store, instance)?;
        let alloc = instance.get_typed_func(&mut *store, "diligence_alloc");
        let alloc = alloc.map_err(|_| missing("function \"diligence_alloc\" of the type (i32) -> i32"))?;
        let reset = instance.get_typed_func(&mut *store, "diligence_reset").ok();
        let function = instance.get_typed_func(&mut *store, export);
        let function = function.map_err(|error| Raised::new(Cause::Definition, format!("{error:#}")))?;
        Ok(Self { memory, function, alloc, reset, room: (0, 0), has_steps })
    }

    /// Calls the function for columns of so many rows.
    pub(crate) fn called(
        &mut self,
        store: &mut Store<Held>,
        returns: Kind,
        rows: usize,
        columns: &[Column<'_>],
    ) -> Result<Values, Raised> {
        let heads = (COLUMN_BYTES * (columns.len() + 1)).next_multiple_of(8);
        let bytes = columns.iter().map(Column::bytes).sum::<usize>() + heads;
        let base = self.allocate(store, bytes)?;
        let room = self.memory.data_mut(&mut *store).get_mut(base..base + bytes);
        let room = room.ok_or_else(|| Raised::wrong("diligence_alloc gave an address outside of its memory"))?;
        room[..heads].fill(0);
        let mut at = heads;
        for (place, column) in columns.iter().enumerate() {
            at = column.lay(room, base, COLUMN_BYTES * place, at);
        }
        let result = COLUMN_BYTES * columns.len();
        head(&mut room[result..], returns, rows, [0; 3], 0);
        let called = self.function.call(&mut *store, (rows as i32, base as i32, (base + result) as i32));
        let code = called.map_err(|error| raised(&error, store.data().was_refused))?;
        if code != 0 {
            return Err(Raised::new(Cause::Trap, self.message(store, code as u32 as usize)));
        }
        self.values(store, returns, rows, base + result)
    }

    /// Room for a batch, from its module.
    fn allocate(&mut self, store: &mut Store<Held>, bytes: usize) -> Result<usize, Raised> {
        if let Some(reset) = &self.reset {
            reset.call(&mut *store, ()).map_err(|error| raised(&error, store.data().was_refused))?;
        } else if bytes <= self.room.1 {
            return Ok(self.room.0);
        }
        // States may grow a little with each step: where nothing is given back, each room is twice as large at least.
        let doubles = self.has_steps && self.reset.is_none();
        let bytes = if doubles { bytes.max(self.room.1.saturating_mul(2)) } else { bytes };
        let wanted = i32::try_from(bytes).map_err(|_| Raised::new(Cause::Memory, "a batch is too large"))?;
        let address = self.alloc.call(&mut *store, wanted);
        match address.map_err(|error| raised(&error, store.data().was_refused))? {
            0 => Err(Raised::new(Cause::Memory, "diligence_alloc gave no memory")),
            address => {
                self.room = (address as u32 as usize, bytes);
                Ok(self.room.0)
            }
        }
    }

    /// The message of a function that failed.
    fn message(&self, store: &Store<Held>, at: usize) -> String {
        let memory = self.memory.data(store);
        let length = word(memory, at).map(|length| length as usize);
        let text = length.and_then(|length| memory.get(at + 4..(at + 4).checked_add(length.min(10_000))?));
        text.map_or_else(|| format!("it returned {}", at as i32), |text| String::from_utf8_lossy(text).into_owned())
    }

    /// The values that a function left.
    fn values(&self, store: &Store<Held>, returns: Kind, rows: usize, at: usize) -> Result<Values, Raised> {
        let left = Left { memory: self.memory.data(store), at };
        let (valid, values) = (left.valid(rows)?, left.field(4));
        let part = |bytes: usize| left.part(values, bytes, "values");
        let native = |bytes: Vec<u8>, valid| {
            let mut front = front(NATIVE, valid);
            front.extend(bytes);
            Ok(Values { front, rest: None })
        };
        match returns {
            Kind::Boolean => native(unpack(part(rows.div_ceil(8))?, rows), valid),
            Kind::SmallInt => {
                let (values, _) = part(2 * rows)?.as_chunks::<2>();
                let wide = values.iter().flat_map(|value| i64::from(i16::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::Integer => {
                let (values, _) = part(4 * rows)?.as_chunks::<4>();
                let wide = values.iter().flat_map(|value| i64::from(i32::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::Real => {
                let (values, _) = part(4 * rows)?.as_chunks::<4>();
                let wide = values.iter().flat_map(|value| f64::from(f32::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::BigInt | Kind::Double => {
                part(8 * rows)?;
                Ok(Values::lying(valid, self.memory, values..values + 8 * rows))
            }
            Kind::Numeric | Kind::Text | Kind::Bytes => {
                let offsets = left.offsets(rows)?;
                let (first, last) = (offsets[0], offsets[rows]);
                part(last)?;
                let mut front = front(if returns == Kind::Bytes { NATIVE } else { TEXTS }, valid);
                front.extend(lengths(&offsets));
                Ok(Values { front, rest: Some((self.memory, values + first..values + last)) })
            }
            Kind::List(element) => {
                let offsets = left.offsets(rows)?;
                if offsets[0] != 0 {
                    return Err(Raised::wrong("the offsets of its result begin behind its first element"));
                }
                let mut front = front(NATIVE, valid);
                front.extend(lengths(&offsets));
                let elements = self.values(store, *element, offsets[rows], values)?;
                front.extend(elements.front);
                Ok(Values { front, rest: elements.rest })
            }
        }
    }
}

/// The rows of a payload, and its columns.
pub(crate) fn read<'p>(payload: &'p [u8], signature: &Signature) -> Result<(usize, Vec<Column<'p>>), Raised> {
    let mut rest = Rest::new(payload);
    let (rows, count) = (rest.long()?, rest.short()?);
    if count != signature.parameters.len() {
        return Err(Raised::wrong(format!("{count} columns came for {} parameters", signature.parameters.len())));
    }
    let columns = signature.columns().into_iter().map(|kind| column(&mut rest, kind, rows));
    Ok((rows, columns.collect::<Result<_, _>>()?))
}

fn column<'p>(rest: &mut Rest<'p>, kind: Kind, rows: usize) -> Result<Column<'p>, Raised> {
    let valid = if rest.byte()? == 0 { None } else { Some(rest.take(rows)?) };
    let Some(width) = kind.width() else {
        let lengths = rest.take(rows.saturating_mul(4))?;
        let total = lengths.as_chunks::<4>().0.iter().map(|length| u32::from_le_bytes(*length) as usize).sum();
        let (values, elements) = match kind {
            Kind::List(element) => (&[] as &[u8], Some(Box::new(column(rest, *element, total)?))),
            _ => (rest.take(total)?, None),
        };
        return Ok(Column { kind, rows, valid, lengths: Some(lengths), values, elements });
    };
    let values = rest.take(rows.saturating_mul(width))?;
    Ok(Column { kind, rows, valid, lengths: None, values, elements: None })
}

fn head(room: &mut [u8], kind: Kind, rows: usize, addresses: [usize; 3], bytes: usize) {
    let fields = [kind.number(), rows, addresses[0], addresses[1], addresses[2], bytes];
    for (place, field) in fields.into_iter().enumerate() {
        room[4 * place..4 * place + 4].copy_from_slice(&(field as u32).to_le_bytes());
    }
}

/// Bytes that are 0 or 1 as bits, the lowest first.
fn pack(bits: &mut [u8], bytes: &[u8]) {
    bits.fill(0);
    for (bit, byte) in bytes.iter().enumerate() {
        bits[bit / 8] |= u8::from(*byte != 0) << (bit % 8);
    }
}

/// Bits as bytes that are 0 or 1.
fn unpack(bits: &[u8], rows: usize) -> Vec<u8> {
    (0..rows).map(|row| bits[row / 8] >> (row % 8) & 1).collect()
}

/// Lengths as offsets.
fn sum(offsets: &mut [u8], lengths: &[u8]) {
    let mut offset = 0_u32;
    offsets[..4].copy_from_slice(&offset.to_le_bytes());
    let (lengths, _) = lengths.as_chunks::<4>();
    for (place, length) in lengths.iter().enumerate() {
        offset = offset.saturating_add(u32::from_le_bytes(*length));
        offsets[4 * place + 4..4 * place + 8].copy_from_slice(&offset.to_le_bytes());
    }
}

fn word(memory: &[u8], at: usize) -> Option<u32> {
    memory.get(at..at.checked_add(4)?).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_as_arrow_has_them() {
        let lists = Kind::of(16 + 1).unwrap();
        assert_eq!((lists, lists.number(), Kind::of(25)), (Kind::List(&Kind::SmallInt), 17, None));
        let payload = [
            &[3, 0, 0, 0, 1, 0][..],
            &[1, 1, 0, 1],
            &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            &[1, 1, 0, 1, 7, 0, 0, 0, 9, 0],
        ]
        .concat();
        let signature = Signature { parameters: vec![lists], returns: lists, steps: None };
        let (rows, columns) = read(&payload, &signature).unwrap();
        let [column] = columns.as_slice() else { panic!() };
        assert_eq!((rows, column.rows, column.bytes()), (3, 3, 8 + 16 + 24 + 8 + 8));
        let mut room = vec![0; 24 + column.bytes()];
        assert_eq!(column.lay(&mut room, 1000, 0, 24), room.len());
        let words = |from: usize, count: usize| {
            (0..count).map(|place| word(&room, from + 4 * place).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(words(0, 6), [17, 3, 1024, 1032, 1048, 24]);
        assert_eq!((room[24], words(32, 4)), (0b101, vec![0, 1, 1, 3]));
        assert_eq!(words(48, 6), [1, 3, 1072, 0, 1080, 6]);
        assert_eq!((room[72], &room[80..86]), (0b101, &[7, 0, 0, 0, 9, 0][..]));
        assert!(read(&payload[..payload.len() - 1], &signature).is_err());
    }
}
