//! Functions of numbers, row by row.
//!
//! Calling a function from outside costs more than most such functions do. So the loop over the rows is WebAssembly as
//! well: a module that is written for the function's parameters, and has a memory in which the rows lie as they came.
//!
//! ```text
//!   memory of the loop:  the frame as it came | addresses of its columns, 4 bytes each | values
//! ```
//!
//! The loop around the steps of an aggregate keeps the state of a group, whose rows follow each other, and gives it at
//! each row.

use wasmtime::{Engine, Extern, Func, Instance, Memory, Module, Store, TypedFunc};

use crate::frames::{Cause, Connection, Frame, Kind, Raised, Rest};
use crate::held::{Held, LOOP, Signature, Steps, Values, raised};

const PAGE_BYTES: usize = 64 << 10;

/// A function with the loop around it.
pub(crate) struct Rows {
    memory: Memory,
    run: TypedFunc<(i32, i32, i32), ()>,
}

/// The type of a value in WebAssembly, how it is read and how far it is to the next; `None` for those of any length.
fn number(kind: Kind) -> Option<(&'static str, &'static str, usize)> {
    let (name, load) = match kind {
        Kind::Boolean => ("i32", "i32.load8_u"),
        Kind::SmallInt => ("i32", "i32.load16_s align=1"),
        Kind::Integer => ("i32", "i32.load align=1"),
        Kind::BigInt => ("i64", "i64.load align=1"),
        Kind::Real => ("f32", "f32.load align=1"),
        Kind::Double => ("f64", "f64.load align=1"),
        Kind::Numeric | Kind::Text | Kind::Bytes | Kind::List(_) => return None,
    };
    Some((name, load, kind.width()?))
}

/// A number of this kind as WebAssembly writes it, of how SQL shows it; `None` if it is none.
fn constant(kind: Kind, shown: &str) -> Option<String> {
    let float = |written: String| written.to_lowercase();
    Some(match kind {
        Kind::Boolean => i32::from(shown == "true").to_string(),
        Kind::SmallInt | Kind::Integer => shown.parse::<i32>().ok()?.to_string(),
        Kind::BigInt => shown.parse::<i64>().ok()?.to_string(),
        Kind::Real => float(format!("{:?}", shown.parse::<f32>().ok()?)),
        Kind::Double => float(format!("{:?}", shown.parse::<f64>().ok()?)),
        Kind::Numeric | Kind::Text | Kind::Bytes | Kind::List(_) => return None,
    })
}

/// What the loop does with a row, before it stores the state of the row's group: `call` makes the next state of `$s`
/// and the row. Without a first state, the group's first row has it. `None` if that is no number.
fn step(steps: &Steps, signature: &Signature, columns: &[(&str, &str, usize)], call: &str) -> Option<String> {
    let (result, ..) = number(signature.returns)?;
    let begin = match (&steps.first, columns.get(1)) {
        (Some(first), _) => {
            let first = constant(signature.returns, first)?;
            format!("(local.set $s ({result}.const {first})) (local.set $s {call})")
        }
        (None, Some((name, load, _))) if *name == result => format!("(local.set $s ({load} (local.get $a1)))"),
        (None, _) => return None,
    };
    Some(format!(
        "(if (i32.or (local.get $is_new) (i32.ne (i32.load align=1 (local.get $a0)) (local.get $group)))
           (then
             (local.set $is_new (i32.const 0))
             (local.set $group (i32.load align=1 (local.get $a0)))
             {begin})
           (else (local.set $s {call})))"
    ))
}

/// The text of the loop's module.
fn text(signature: &Signature) -> Option<String> {
    let types = signature.parameters.iter().map(|kind| Some(number(*kind)?.0)).collect::<Option<Vec<_>>>()?.join(" ");
    let numbers = signature.columns().into_iter().map(number).collect::<Option<Vec<_>>>()?;
    let (result, ..) = number(signature.returns)?;
    let (store, width) = match signature.returns {
        Kind::Boolean => ("(i32.store8 (local.get $out) (i32.ne (i32.const 0) CALL))", 1),
        Kind::SmallInt | Kind::Integer => ("(i64.store (local.get $out) (i64.extend_i32_s CALL))", 8),
        Kind::BigInt => ("(i64.store (local.get $out) CALL)", 8),
        Kind::Real => ("(f64.store (local.get $out) (f64.promote_f32 CALL))", 8),
        _ => ("(f64.store (local.get $out) CALL)", 8),
    };
    let (mut locals, mut starts, mut arguments, mut steps) =
        (String::new(), String::new(), String::new(), String::new());
    for (place, (_, load, width)) in numbers.iter().enumerate() {
        locals += &format!("(local $a{place} i32)");
        starts += &format!("(local.set $a{place} (i32.load (i32.add (local.get $columns) (i32.const {}))))", place * 4);
        arguments += &format!("({load} (local.get $a{place}))");
        steps += &format!("(local.set $a{place} (i32.add (local.get $a{place}) (i32.const {width})))");
    }
    let (store, prepared) = match &signature.steps {
        None => (store.replace("CALL", &format!("(call $function {arguments})")), String::new()),
        Some(steps) => {
            let first = numbers.first().map(|(_, load, _)| format!("({load} (local.get $a0))"))?;
            let arguments = arguments.replacen(&first, "(local.get $s)", 1);
            let step = step(steps, signature, &numbers, &format!("(call $function {arguments})"))?;
            locals += &format!("(local $is_new i32) (local $group i32) (local $s {result})");
            starts += "(local.set $is_new (i32.const 1))";
            (store.replace("CALL", "(local.get $s)"), step)
        }
    };
    Some(format!(
        "(module ${LOOP}
           (import \"\" \"function\" (func $function (param {types}) (result {result})))
           (memory (export \"memory\") 1)
           (func (export \"run\") (param $rows i32) (param $columns i32) (param $out i32) (local $end i32) {locals}
             (local.set $end (i32.add (local.get $out) (i32.mul (local.get $rows) (i32.const {width}))))
             {starts}
             (if (local.get $rows) (then (loop $next
               {prepared}
               {store}
               {steps}
               (local.set $out (i32.add (local.get $out) (i32.const {width})))
               (br_if $next (i32.lt_u (local.get $out) (local.get $end))))))))"
    ))
}

impl Rows {
    /// The type that a function has to be called so; `None` if its values are no numbers.
    pub(crate) fn signature(signature: &Signature) -> Option<String> {
        let parameters = signature.parameters.iter().map(|kind| Some(number(*kind)?.0));
        let (result, ..) = number(signature.returns)?;
        Some(format!("({}) -> {result}", parameters.collect::<Option<Vec<_>>>()?.join(", ")))
    }

    /// Writes the loop around a function.
    pub(crate) fn of(
        engine: &Engine,
        store: &mut Store<Held>,
        function: Func,
        signature: &Signature,
    ) -> wasmtime::Result<Self> {
        let text = text(signature).ok_or_else(|| wasmtime::Error::msg("its values are no numbers"))?;
        let module = Module::new(engine, text)?;
        let instance = Instance::new(&mut *store, &module, &[Extern::Func(function)])?;
        let run = instance.get_typed_func(&mut *store, "run")?;
        let memory = instance.get_memory(store, "memory").ok_or_else(|| wasmtime::Error::msg("a loop in no memory"))?;
        Ok(Self { memory, run })
    }

    /// Calls the function for the rows of a frame. What the outer result fails with is the connection's.
    pub(crate) fn call(
        &self,
        store: &mut Store<Held>,
        signature: &Signature,
        connection: &mut Connection,
        frame: &Frame,
    ) -> std::io::Result<Result<Values, Raised>> {
        if let Err(raised) = self.reach(store, frame.left) {
            connection.skip(frame)?;
            return Ok(Err(raised));
        }
        let memory = self.memory.data_mut(&mut *store);
        connection.read(memory.get_mut(..frame.left).unwrap_or_default())?;
        Ok(self.called(store, signature, frame.left))
    }

    fn called(&self, store: &mut Store<Held>, signature: &Signature, length: usize) -> Result<Values, Raised> {
        let (rows, starts) = places(self.memory.data(&*store).get(..length).unwrap_or_default(), signature)?;
        let table = length.next_multiple_of(8);
        let out = (table + 4 * starts.len()).next_multiple_of(8);
        let width = if signature.returns == Kind::Boolean { 1 } else { 8 };
        self.reach(store, out.saturating_add(rows.saturating_mul(width)))?;
        let memory = self.memory.data_mut(&mut *store);
        for (place, start) in starts.iter().enumerate() {
            let at = table + 4 * place;
            memory[at..at + 4].copy_from_slice(&(*start as u32).to_le_bytes());
        }
        let run = self.run.call(&mut *store, (rows as i32, table as i32, out as i32));
        run.map_err(|error| raised(&error, store.data().was_refused))?;
        Ok(Values::lying(None, self.memory, out..out + rows * width))
    }

    /// Sees to it that the memory has so many bytes.
    fn reach(&self, store: &mut Store<Held>, bytes: usize) -> Result<(), Raised> {
        let missing = bytes.saturating_sub(self.memory.data_size(&*store)).div_ceil(PAGE_BYTES);
        if missing == 0 {
            return Ok(());
        }
        let grown = self.memory.grow(store, missing as u64);
        grown.map(drop).map_err(|_| Raised::new(Cause::Memory, "no memory for a batch"))
    }
}

/// How many rows a frame has, and where its columns' values lie.
fn places(payload: &[u8], signature: &Signature) -> Result<(usize, Vec<usize>), Raised> {
    let mut rest = Rest::new(payload);
    let (rows, columns) = (rest.long()?, rest.short()?);
    if columns != signature.parameters.len() {
        return Err(Raised::wrong(format!("{columns} columns came for {} parameters", signature.parameters.len())));
    }
    let mut starts = Vec::with_capacity(columns);
    for kind in signature.columns() {
        if rest.byte()? != 0 {
            return Err(Raised::wrong("NULL came, which no number is"));
        }
        starts.push(rest.at);
        let width = kind.width().ok_or_else(|| Raised::wrong("values came that are no numbers"))?;
        rest.take(rows.saturating_mul(width))?;
    }
    Ok((rows, starts))
}
