//! A module that was loaded: compiled, limited, and linked to what calls it.
//!
//! An instance stays from batch to batch, with what it has in its memory. One that has trapped is in pieces: the next
//! call gets a fresh one.

use std::collections::VecDeque;

use wasmtime::{Caller, Config, Engine, Error, Extern, FuncType, Linker, Module, Store, ValType};

use crate::columns::Columns;
use crate::frames::{Answer, Cause, Connection, Frame, Kind, Raised, Rest};
use crate::held::{Held, Signature, Steps, Values, raised};
use crate::rows::Rows;
use crate::{source, steps};

/// Compiled modules that are kept for functions to come: those that were used last.
const MODULES_MAX: usize = 16;
/// Bytes that one call may print.
const PRINT_BYTES_MAX: usize = 64 << 10;
/// The form of functions that see whole columns, whatever their parameters are.
const WHOLE_COLUMNS: u8 = 3;
/// The form of the steps of an aggregate, and of those that see whole columns whatever they are.
const STEPS: u8 = 7;
const COLUMN_STEPS: u8 = 8;

/// What all functions of the process share.
pub(crate) struct Machine {
    engine: Engine,
    /// Those used last at the end.
    modules: VecDeque<(String, Module)>,
    memory_bytes: usize,
    fuel: u64,
}

impl Machine {
    /// `memory_bytes` for each function, and `fuel` for each batch; 0 is no limit.
    pub(crate) fn new(memory_bytes: u64, fuel: u64) -> Self {
        let mut config = Config::new();
        config.consume_fuel(true);
        // It fails for what cannot be together, which is nothing here.
        let engine = Engine::new(&config).unwrap_or_default();
        let memory_bytes = match memory_bytes {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        Self { engine, modules: VecDeque::new(), memory_bytes, fuel: if fuel == 0 { u64::MAX } else { fuel } }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A compiled module. Functions of the same one share it.
    fn module(&mut self, text: &str) -> Result<Module, Raised> {
        if let Some(place) = self.modules.iter().position(|(known, _)| known == text) {
            let known = self.modules.remove(place);
            self.modules.extend(known.clone());
            return known.map(|(_, module)| module).ok_or_else(|| Raised::wrong("a module got lost"));
        }
        let invalid = |reason: String| Raised { place: reason, ..Raised::new(Cause::Module, "no module") };
        let bytes = source::module(text).map_err(invalid)?;
        let module = Module::new(&self.engine, bytes).map_err(|error| invalid(format!("{error:#}")))?;
        while self.modules.len() >= MODULES_MAX {
            self.modules.pop_front();
        }
        self.modules.push_back((text.to_owned(), module.clone()));
        Ok(module)
    }
}

/// How a function is called.
enum Way {
    Rows(Rows),
    Columns(Columns),
}

struct Running {
    store: Store<Held>,
    way: Way,
}

/// A function that was loaded.
pub(crate) struct Function {
    module: Module,
    /// What the module calls it.
    export: String,
    signature: Signature,
    /// Whether it sees whole columns.
    has_columns: bool,
    /// Bytes that its memory may have, and steps that it may take for a batch.
    memory_bytes: usize,
    fuel: u64,
    /// The instance, unless the last has trapped.
    running: Option<Running>,
}

impl Function {
    /// Reads what it is, compiles it, and looks whether it is what it was declared to be.
    pub(crate) fn load(machine: &mut Machine, payload: &[u8]) -> Result<Self, Raised> {
        let mut rest = Rest::new(payload);
        let form = rest.byte()?;
        let kind = |byte| Kind::of(byte).ok_or_else(|| Raised::wrong("a kind of values that is unknown here"));
        let returns = kind(rest.byte()?)?;
        let count = rest.short()?;
        let mut parameters = Vec::with_capacity(count);
        for _ in 0..count {
            parameters.push(kind(rest.byte()?)?);
            let length = rest.short()?;
            rest.take(length)?;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let length = rest.short()?;
        let export = text(rest.take(length)?);
        let length = rest.long()?;
        let source = text(rest.take(length)?);
        // Names of columns, which no module has.
        for _ in 0..rest.short()? {
            let length = rest.short()?;
            rest.take(length)?;
        }
        // Less than the machine's, if it has limits of its own.
        let memory_bytes = match rest.eight()? {
            0 => machine.memory_bytes,
            own => machine.memory_bytes.min(usize::try_from(own).unwrap_or(usize::MAX)),
        };
        let fuel = match rest.eight()? {
            0 => machine.fuel,
            own => machine.fuel.min(own),
        };
        let steps = match form {
            STEPS | COLUMN_STEPS => {
                let (is_strict, has_first) = (rest.byte()? != 0, rest.byte()? != 0);
                let length = rest.long()?;
                let first = text(rest.take(length)?);
                Some(Steps { first: has_first.then_some(first), is_strict })
            }
            _ => None,
        };
        if steps.is_some() && parameters.iter().chain([&returns]).any(|kind| matches!(kind, Kind::List(_))) {
            return Err(Raised::new(Cause::Definition, "steps of aggregates take and give no arrays"));
        }
        let module = machine.module(&source)?;
        let has_columns = matches!(form, WHOLE_COLUMNS | COLUMN_STEPS);
        let signature = Signature { parameters, returns, steps };
        let mut function = Self { module, export, signature, has_columns, memory_bytes, fuel, running: None };
        function.has_columns |= !function.takes_rows()?;
        function.running = Some(function.start(machine)?);
        Ok(function)
    }

    /// Whether the module's function is one of numbers, row by row. Fails if there is none of the name, or it is none
    /// of what there is.
    fn takes_rows(&self) -> Result<bool, Raised> {
        let Some(found) = self.module.get_export(&self.export).and_then(|export| export.func().cloned()) else {
            let names = self.module.exports().filter(|export| export.ty().func().is_some());
            let names = names.map(|export| export.name().to_owned()).collect::<Vec<_>>().join(", ");
            let message = format!("the module exports no function \"{}\"", self.export);
            let place = if names.is_empty() { "It exports none.".to_owned() } else { format!("It exports {names}.") };
            return Err(Raised { place, ..Raised::new(Cause::Definition, message) });
        };
        let found = shown(&found);
        let rows = Rows::signature(&self.signature);
        let columns = "(i32, i32, i32) -> i32";
        if !self.has_columns && rows.as_ref() == Some(&found) {
            return Ok(true);
        }
        if found == columns {
            return Ok(false);
        }
        let message = format!("the module's function \"{}\" is of another type than declared", self.export);
        let wanted = rows.filter(|_| !self.has_columns).map(|rows| format!("{rows} for rows, or ")).unwrap_or_default();
        let place = format!("It is {found}; it would have to be {wanted}{columns} for whole columns.");
        Err(Raised { place, ..Raised::new(Cause::Definition, message) })
    }

    /// A fresh instance.
    fn start(&self, machine: &Machine) -> Result<Running, Raised> {
        let mut store = Store::new(&machine.engine, Held::of(self.memory_bytes));
        store.limiter(|held| held);
        let raised = |error: Error, store: &Store<Held>| raised(&error, store.data().was_refused);
        store.set_fuel(self.fuel).map_err(|error| raised(error, &store))?;
        for import in self.module.imports() {
            if (import.module(), import.name()) != ("diligence", "print") {
                let message = format!("the module needs \"{}\" of \"{}\"", import.name(), import.module());
                let place = "Functions are given print of diligence, and nothing else.".to_owned();
                return Err(Raised { place, ..Raised::new(Cause::Definition, message) });
            }
        }
        let mut linker = Linker::new(&machine.engine);
        linker.func_wrap("diligence", "print", print).map_err(|error| raised(error, &store))?;
        let instance = linker.instantiate(&mut store, &self.module).map_err(|error| raised(error, &store))?;
        let way = match self.has_columns {
            true => {
                let has_steps = self.signature.steps.is_some();
                Way::Columns(Columns::of(&mut store, &instance, &self.export, has_steps)?)
            }
            false => {
                let function = instance.get_func(&mut store, &self.export);
                let function = function.ok_or_else(|| Raised::wrong("the function is gone"))?;
                let rows = Rows::of(machine.engine(), &mut store, function, &self.signature);
                Way::Rows(rows.map_err(|error| raised(error, &store))?)
            }
        };
        Ok(Running { store, way })
    }

    /// Calls it for the rows of a frame. What the outer result fails with is the connection's.
    pub(crate) fn call(
        &mut self,
        machine: &mut Machine,
        connection: &mut Connection,
        frame: &Frame,
    ) -> std::io::Result<Result<Answer<'_>, Raised>> {
        if self.running.is_none() {
            match self.start(machine) {
                Ok(running) => self.running = Some(running),
                Err(raised) => {
                    connection.skip(frame)?;
                    return Ok(Err(raised));
                }
            }
        }
        let Some(running) = &mut self.running else { return Ok(Err(Raised::wrong("it has not started"))) };
        let store = &mut running.store;
        store.data_mut().was_refused = false;
        let fuelled = store.set_fuel(self.fuel).map_err(|error| raised(&error, false));
        let values = match (fuelled, &mut running.way) {
            (Err(raised), _) => {
                connection.skip(frame)?;
                Err(raised)
            }
            (Ok(()), Way::Rows(rows)) => rows.call(store, &self.signature, connection, frame)?,
            (Ok(()), Way::Columns(columns)) => {
                steps::called(columns, store, &self.signature, &connection.payload(frame)?)
            }
        };
        match values {
            Ok(Values { front, rest: None }) => Ok(Ok(Answer::values(front, &[]))),
            Ok(Values { front, rest: Some((memory, range)) }) => {
                let Some(running) = &self.running else { return Ok(Err(Raised::wrong("it is gone"))) };
                let bytes = memory.data(&running.store).get(range).unwrap_or_default();
                Ok(Ok(Answer::values(front, bytes)))
            }
            Err(raised) => {
                self.running = None;
                Ok(Err(raised))
            }
        }
    }
}

/// `diligence.print(address, length)`: what a function says goes to whoever asked.
fn print(mut caller: Caller<'_, Held>, address: u32, length: u32) -> wasmtime::Result<()> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        return Err(Error::msg("a module that prints exports its memory as \"memory\""));
    };
    let (from, length) = (address as usize, length as usize);
    let text = memory.data(&caller).get(from..from.saturating_add(length));
    let text = text.ok_or_else(|| Error::msg("it prints what is outside of its memory"))?;
    use std::io::Write;
    let mut line = text[..length.min(PRINT_BYTES_MAX)].to_vec();
    line.push(b'\n');
    // Nobody may read it any more.
    let _ = std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().flush());
    Ok(())
}

/// A function's type, for people.
fn shown(function: &FuncType) -> String {
    let names = |types: &mut dyn Iterator<Item = ValType>| {
        types.map(|value_type| value_type.to_string()).collect::<Vec<_>>().join(", ")
    };
    let results = names(&mut function.results());
    let results = if results.is_empty() { "nothing".to_owned() } else { results };
    format!("({}) -> {results}", names(&mut function.params()))
}
