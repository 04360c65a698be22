//! Functions of whole columns, which lie in the module's memory as Arrow has them.
//!
//! ```text
//!   function(rows, columns, result) -> 0, or the address of a message: its length (4), its bytes
//!   columns: one after the other; result: one, which the function fills. Each, in 24 bytes:
//!      0  kind        4  rows       8  address of the validity, 0 for no NULLs
//!     12  address of the offsets, 0 for none      16  address of the values      20  bytes of the values
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
    /// A byte for each row, if some are NULL.
    pub(crate) valid: Option<&'p [u8]>,
    /// Four bytes for each value, if values are of any length.
    pub(crate) lengths: Option<&'p [u8]>,
    pub(crate) values: &'p [u8],
}

impl Column<'_> {
    /// Bytes of its parts in Arrow's layout, each rounded up: validity, offsets, values.
    fn parts(&self, rows: usize) -> [usize; 3] {
        let bits = rows.div_ceil(8).next_multiple_of(8);
        let values = if self.kind == Kind::Boolean { bits } else { self.values.len().next_multiple_of(8) };
        let offsets = self.lengths.map_or(0, |_| (4 * (rows + 1)).next_multiple_of(8));
        [self.valid.map_or(0, |_| bits), offsets, values]
    }
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
        let bytes = columns.iter().flat_map(|column| column.parts(rows)).sum::<usize>() + heads;
        let base = self.allocate(store, bytes)?;
        let room = self.memory.data_mut(&mut *store).get_mut(base..base + bytes);
        let room = room.ok_or_else(|| Raised::wrong("diligence_alloc gave an address outside of its memory"))?;
        room[..heads].fill(0);
        let mut at = heads;
        for (place, column) in columns.iter().enumerate() {
            let [valid, offsets, values] = column.parts(rows);
            let address = |at: usize, bytes: usize| if bytes == 0 { 0 } else { base + at };
            let (of_offsets, of_values) = (at + valid, at + valid + offsets);
            let addresses = [address(at, valid), address(of_offsets, offsets), base + of_values];
            head(&mut room[COLUMN_BYTES * place..], column.kind, rows, addresses, column.values.len());
            if let Some(bits) = column.valid {
                pack(&mut room[at..of_offsets], bits);
            }
            if let Some(lengths) = column.lengths {
                sum(&mut room[of_offsets..of_values], lengths);
            }
            match column.kind {
                Kind::Boolean => pack(&mut room[of_values..of_values + values], column.values),
                _ => room[of_values..of_values + column.values.len()].copy_from_slice(column.values),
            }
            at = of_values + values;
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
        let memory = self.memory.data(store);
        let field = |place: usize| word(memory, at + 4 * place).unwrap_or(0) as usize;
        let (valid, offsets, values) = (field(2), field(3), field(4));
        let outside = |what: &str| Raised::wrong(format!("the {what} of its result are outside of its memory"));
        let part = |from: usize, bytes: usize, what: &str| {
            memory.get(from..from.saturating_add(bytes)).filter(|_| from > 0 || bytes == 0).ok_or_else(|| outside(what))
        };
        let valid = match valid {
            0 => None,
            from => Some(unpack(part(from, rows.div_ceil(8), "validity")?, rows)),
        };
        let native = |bytes: Vec<u8>, valid| {
            let mut front = front(NATIVE, valid);
            front.extend(bytes);
            Ok(Values { front, rest: None })
        };
        match returns {
            Kind::Boolean => native(unpack(part(values, rows.div_ceil(8), "values")?, rows), valid),
            Kind::SmallInt => {
                let (values, _) = part(values, 2 * rows, "values")?.as_chunks::<2>();
                let wide = values.iter().flat_map(|value| i64::from(i16::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::Integer => {
                let (values, _) = part(values, 4 * rows, "values")?.as_chunks::<4>();
                let wide = values.iter().flat_map(|value| i64::from(i32::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::Real => {
                let (values, _) = part(values, 4 * rows, "values")?.as_chunks::<4>();
                let wide = values.iter().flat_map(|value| f64::from(f32::from_le_bytes(*value)).to_le_bytes());
                native(wide.collect(), valid)
            }
            Kind::BigInt | Kind::Double => {
                part(values, 8 * rows, "values")?;
                Ok(Values::lying(valid, self.memory, values..values + 8 * rows))
            }
            Kind::Numeric | Kind::Text | Kind::Bytes => {
                let offsets = part(offsets, 4 * (rows + 1), "offsets")?.as_chunks::<4>().0.iter();
                let offsets = offsets.map(|offset| u32::from_le_bytes(*offset) as usize).collect::<Vec<_>>();
                let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
                if offsets.windows(2).any(|pair| pair[0] > pair[1]) {
                    return Err(Raised::wrong("the offsets of its result go back"));
                }
                part(values, last, "values")?;
                let mut front = front(if returns == Kind::Bytes { NATIVE } else { TEXTS }, valid);
                let lengths = offsets.windows(2).flat_map(|pair| ((pair[1] - pair[0]) as u32).to_le_bytes());
                front.extend(lengths);
                Ok(Values { front, rest: Some((self.memory, values + first..values + last)) })
            }
        }
    }
}

/// The columns of a payload.
/// The rows of a payload, and its columns.
pub(crate) fn read<'p>(payload: &'p [u8], signature: &Signature) -> Result<(usize, Vec<Column<'p>>), Raised> {
    let mut rest = Rest::new(payload);
    let (rows, count) = (rest.long()?, rest.short()?);
    if count != signature.parameters.len() {
        return Err(Raised::wrong(format!("{count} columns came for {} parameters", signature.parameters.len())));
    }
    let mut columns = Vec::with_capacity(count);
    for kind in signature.columns() {
        let valid = if rest.byte()? == 0 { None } else { Some(rest.take(rows)?) };
        let (lengths, values) = match kind.width() {
            Some(width) => (None, rest.take(rows.saturating_mul(width))?),
            None => {
                let lengths = rest.take(rows.saturating_mul(4))?;
                let total = lengths.as_chunks::<4>().0.iter().map(|length| u32::from_le_bytes(*length) as usize).sum();
                (Some(lengths), rest.take(total)?)
            }
        };
        columns.push(Column { kind, valid, lengths, values });
    }
    Ok((rows, columns))
}

fn head(room: &mut [u8], kind: Kind, rows: usize, addresses: [usize; 3], bytes: usize) {
    let fields = [kind as usize, rows, addresses[0], addresses[1], addresses[2], bytes];
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
