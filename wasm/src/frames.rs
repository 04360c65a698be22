//! Frames: a head and bytes, as `crates/pool/src/wire.rs` describes them.
//!
//! Invariant: the engine is believed as far as it wrote the frames itself; what lies in them is checked all the same,
//! so that nothing here panics.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;

pub(crate) const LOAD: u8 = 1;
pub(crate) const FORGET: u8 = 2;
pub(crate) const CALL: u8 = 3;

const HELLO: u8 = 1;
const LOADED: u8 = 2;
const VALUES: u8 = 3;
const RAISED: u8 = 4;

/// Bytes of a head, and of the function's number, which every frame begins with.
const HEAD_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;

/// Values as they are, and as texts.
pub(crate) const NATIVE: u8 = 0;
pub(crate) const TEXTS: u8 = 1;

/// How a value is sent; the numbers are those of `Kind` in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    Numeric,
    Text,
    Bytes,
    /// Arrays of these, which are no arrays themselves.
    List(&'static Kind),
}

/// The kinds that are no arrays, by their numbers.
static SINGLE: [Kind; 9] = [
    Kind::Boolean,
    Kind::SmallInt,
    Kind::Integer,
    Kind::BigInt,
    Kind::Real,
    Kind::Double,
    Kind::Numeric,
    Kind::Text,
    Kind::Bytes,
];
/// What the number of an array's kind is beside that of its elements.
const LISTS_FROM: usize = 16;

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        let number = usize::from(byte);
        match number.checked_sub(LISTS_FROM) {
            Some(element) => SINGLE.get(element).map(Self::List),
            None => SINGLE.get(number).copied(),
        }
    }

    pub(crate) fn number(self) -> usize {
        match self {
            Self::List(element) => LISTS_FROM + element.number(),
            single => SINGLE.iter().position(|kind| *kind == single).unwrap_or(0),
        }
    }

    /// Bytes of a value as it comes; `None` for those that have lengths.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::SmallInt => Some(2),
            Self::Integer | Self::Real => Some(4),
            Self::BigInt | Self::Double => Some(8),
            Self::Numeric | Self::Text | Self::Bytes | Self::List(_) => None,
        }
    }
}

/// A frame whose bytes have not been read yet.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// The number of the call.
    pub(crate) number: u64,
    pub(crate) function: u64,
    /// Bytes that are left behind the function's number.
    pub(crate) left: usize,
}

/// Why a function gave no values; the numbers are those of `Cause` in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    Trap = 0,
    Module = 1,
    Memory = 3,
    Wrong = 4,
    Fuel = 5,
    Definition = 6,
}

/// An error of a function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    /// Where, a line for each step, the outermost first.
    pub(crate) place: String,
}

impl Raised {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), place: String::new() }
    }

    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(Cause::Wrong, message)
    }
}

/// What is answered to a frame: bytes in front, and bytes that lie elsewhere.
#[derive(Debug)]
pub(crate) struct Answer<'m> {
    kind: u8,
    front: Vec<u8>,
    values: &'m [u8],
}

impl<'m> Answer<'m> {
    pub(crate) fn loaded() -> Self {
        Self { kind: LOADED, front: vec![], values: &[] }
    }

    pub(crate) fn values(front: Vec<u8>, values: &'m [u8]) -> Self {
        Self { kind: VALUES, front, values }
    }
}

/// That the process has started.
pub(crate) fn hello() -> Answer<'static> {
    Answer { kind: HELLO, front: env!("CARGO_PKG_VERSION").as_bytes().to_vec(), values: &[] }
}

/// The socket to the engine.
pub(crate) struct Connection(UnixStream);

impl Connection {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self(socket)
    }

    /// The head of the next frame; `None` if the engine is gone.
    pub(crate) fn frame(&mut self) -> std::io::Result<Option<Frame>> {
        let mut head = [0; HEAD_BYTES + NUMBER_BYTES];
        match self.0.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let eight = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let length = u32::from_le_bytes(std::array::from_fn(|byte| head[byte])) as usize;
        let left = length.checked_sub(NUMBER_BYTES).ok_or_else(|| std::io::Error::other("a frame of no function"))?;
        Ok(Some(Frame { kind: head[4], number: eight(8), function: eight(16), left }))
    }

    /// Reads what is left of a frame into memory that is as long.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact(into)
    }

    pub(crate) fn payload(&mut self, frame: &Frame) -> std::io::Result<Vec<u8>> {
        let mut payload = vec![0; frame.left];
        self.read(&mut payload)?;
        Ok(payload)
    }

    pub(crate) fn skip(&mut self, frame: &Frame) -> std::io::Result<()> {
        self.payload(frame).map(drop)
    }

    pub(crate) fn answer(&mut self, number: u64, answer: Result<Answer<'_>, Raised>) -> std::io::Result<()> {
        let answer = answer.unwrap_or_else(|raised| {
            let mut front = vec![raised.cause as u8];
            for text in [raised.message, raised.place] {
                front.extend((text.len() as u32).to_le_bytes());
                front.extend(text.as_bytes());
            }
            Answer { kind: RAISED, front, values: &[] }
        });
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&((answer.front.len() + answer.values.len()) as u32).to_le_bytes());
        head[4] = answer.kind;
        head[8..].copy_from_slice(&number.to_le_bytes());
        let mut parts = [IoSlice::new(&head), IoSlice::new(&answer.front), IoSlice::new(answer.values)];
        let mut parts = &mut parts[..];
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.0.write_vectored(parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut parts, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is left to read of a payload, and where that is.
pub(crate) struct Rest<'b> {
    bytes: &'b [u8],
    pub(crate) at: usize,
}

impl<'b> Rest<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], Raised> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| Raised::wrong("a frame was too short"))?;
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Raised> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn short(&mut self) -> Result<usize, Raised> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    pub(crate) fn eight(&mut self) -> Result<u64, Raised> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte])))
    }

    pub(crate) fn long(&mut self) -> Result<usize, Raised> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }
}
