//! What an instance has and gives, and what ends it.

use std::ops::Range;

use wasmtime::{Error, Instance, Memory, ResourceLimiter, Store, Trap, WasmBacktrace};

use crate::frames::{Cause, Kind, NATIVE, Raised};

/// What the module is called that is the loop around a function of numbers.
pub(crate) const LOOP: &str = "diligence_loop";

/// Elements that a module's tables may have together.
const TABLE_ELEMENTS_MAX: usize = 1 << 20;

/// What an instance has taken, and may take.
pub(crate) struct Held {
    bytes: usize,
    bytes_max: usize,
    elements: usize,
    pub(crate) was_refused: bool,
}

impl Held {
    /// Nothing yet, and so many bytes at most.
    pub(crate) fn of(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max, elements: 0, was_refused: false }
    }
}

impl ResourceLimiter for Held {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let bytes = self.bytes.saturating_add(desired.saturating_sub(current));
        self.was_refused |= bytes > self.bytes_max;
        if bytes <= self.bytes_max {
            self.bytes = bytes;
        }
        Ok(bytes <= self.bytes_max)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        self.was_refused |= elements > TABLE_ELEMENTS_MAX;
        if elements <= TABLE_ELEMENTS_MAX {
            self.elements = elements;
        }
        Ok(elements <= TABLE_ELEMENTS_MAX)
    }
}

/// What a function takes and gives.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) parameters: Vec<Kind>,
    pub(crate) returns: Kind,
    /// Of an aggregate's steps, how they begin.
    pub(crate) steps: Option<Steps>,
}

/// How an aggregate's steps begin: the function makes a state of one, its first parameter, and of a row's values.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The state before a group's first row, as a text. Without one it is NULL, or, of a strict function, the first
    /// row's first value.
    pub(crate) first: Option<String>,
    /// Whether a state that is NULL stays so. Functions of numbers are.
    pub(crate) is_strict: bool,
}

impl Signature {
    /// The kinds of the columns that come: of steps, the number of the group instead of the state.
    pub(crate) fn columns(&self) -> Vec<Kind> {
        let mut columns = self.parameters.clone();
        if let (Some(first), Some(_)) = (columns.first_mut(), &self.steps) {
            *first = Kind::Integer;
        }
        columns
    }
}

/// Values that a function gave: bytes that were made of them, and bytes in its memory behind those.
pub(crate) struct Values {
    pub(crate) front: Vec<u8>,
    pub(crate) rest: Option<(Memory, Range<usize>)>,
}

impl Values {
    /// Values that lie in memory as they are sent.
    pub(crate) fn lying(has_nulls: Option<Vec<u8>>, memory: Memory, range: Range<usize>) -> Self {
        Self { front: front(NATIVE, has_nulls), rest: Some((memory, range)) }
    }
}

/// What values begin with: their form, and for each row whether it is there.
pub(crate) fn front(form: u8, valid: Option<Vec<u8>>) -> Vec<u8> {
    let mut front = vec![form, u8::from(valid.is_some())];
    front.extend(valid.into_iter().flatten());
    front
}

/// What ended a function, as it is sent.
pub(crate) fn raised(error: &Error, was_refused: bool) -> Raised {
    let trap = error.downcast_ref::<Trap>();
    let cause = match trap {
        Some(Trap::OutOfFuel) => Cause::Fuel,
        _ if was_refused => Cause::Memory,
        _ => Cause::Trap,
    };
    let message = match trap {
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => error.root_cause().to_string(),
    };
    let frames = error.downcast_ref::<WasmBacktrace>().map(WasmBacktrace::frames).unwrap_or_default();
    let lines = frames.iter().rev().filter_map(|frame| {
        let name = frame.func_name().map_or_else(|| format!("number {}", frame.func_index()), str::to_owned);
        (frame.module().name() != Some(LOOP)).then(|| format!("in the module's function {name}"))
    });
    Raised { place: lines.collect::<Vec<_>>().join("\n"), ..Raised::new(cause, message) }
}

/// An export that a module must have. Fails with what it is for.
pub(crate) fn missing(what: &str) -> Raised {
    let place = "Functions of whole columns need it.".to_owned();
    Raised { place, ..Raised::new(Cause::Definition, format!("the module exports no {what}")) }
}

/// The instance's own memory.
pub(crate) fn memory_of(store: &mut Store<Held>, instance: &Instance) -> Result<Memory, Raised> {
    instance.get_memory(store, "memory").ok_or_else(|| missing("memory \"memory\""))
}
