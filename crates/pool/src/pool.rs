//! The pool: processes of each runtime, and calls, each of which has one of them until it has its answers.
//!
//! A call takes a process, one that has its function if there is one, and gives it back when it is done.
//!
//! Invariant: a process whose call failed in a way that leaves doubt is not used again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::limits::{POOL_CODES_MAX, POOL_FUNCTIONS_MAX};
use diligence_base::seams::{Clock, Spawn};
use diligence_base::sync::atomic::AtomicU64;
use diligence_base::{Error, Result};
use parking_lot::Mutex;

use crate::caller::Caller;
use crate::code::{Code, CodeSpec, Form, KeptFrom, Runtime};
use crate::failures::{Limiter, last_lines, never_ready, nonsense, own_code, too_large, type_name};
use crate::growth::Counts;
use crate::info::{PoolNumbers, ProcessInfo, ProcessState};
use crate::options::PoolOptions;
use crate::process::{Failure, Process, Shown, ending_hint, ending_text, was_killed};
use crate::standing::{Parting, Standby, Standing};
use crate::wire::{self, Answer, Cause, Malformed, Raised, Reply};

/// How often a call takes another process when somebody has killed the one that it had before that was ready.
const KILLED_EARLY_MAX: usize = 3;

/// A pool of primed processes. It starts the first of a runtime when it is told that there are functions of it
/// ([`Pool::prime`]), or when one is called or checked for the first time; the bounds are those of each runtime. What a
/// process of Python keeps functions from it does for good, so functions that are kept from other things have other
/// processes, with bounds of their own.
pub struct Pool {
    /// By what they keep functions from.
    python: [Shared; KeptFrom::COUNT],
    wasm: Shared,
    options: Mutex<PoolOptions>,
    spawn: Arc<dyn Spawn>,
    codes: Mutex<Codes>,
}

#[derive(Default)]
struct Codes {
    known: HashMap<CodeSpec, Arc<Code>>,
    numbers: u64,
}

/// The processes that keep functions from the same things.
struct Shared {
    runtime: Runtime,
    /// What processes keep functions from whatever the options say.
    kept_from: KeptFrom,
    standing: Arc<Standing<Process>>,
    calls: AtomicUsize,
}

impl Pool {
    /// A pool without processes.
    pub fn new(options: PoolOptions, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Arc<Self> {
        let shared = |runtime, kept_from, numbers: &Arc<AtomicU64>| {
            let standing = Standing::new(options.order(runtime, kept_from), clock.clone(), numbers.clone());
            Shared { runtime, kept_from, standing: Arc::new(standing), calls: AtomicUsize::new(0) }
        };
        let numbers = Arc::default();
        let python = std::array::from_fn(|bits| shared(Runtime::Python, KeptFrom(bits as u8), &numbers));
        let wasm = shared(Runtime::Wasm, KeptFrom::NOTHING, &Arc::default());
        Arc::new(Self { python, wasm, options: Mutex::new(options), spawn, codes: Mutex::default() })
    }

    fn all(&self) -> impl Iterator<Item = &Shared> {
        self.python.iter().chain([&self.wasm])
    }

    fn of(&self, runtime: Runtime, limits: &FunctionLimits) -> &Shared {
        let kept_from = KeptFrom::of(limits.has_no_files, limits.has_no_network);
        match runtime {
            Runtime::Python => &self.python[usize::from(kept_from.0)],
            Runtime::Wasm => &self.wasm,
        }
    }

    /// Has processes started that functions of a runtime with these limits will be called in, unless there are some.
    /// Fails as the system refuses threads. What it says to processes is told when a function is called.
    pub fn prime(&self, runtime: Runtime, limits: &FunctionLimits) -> Result<()> {
        self.of(runtime, limits).standing.prime(&*self.spawn)
    }

    /// The options.
    pub fn options(&self) -> PoolOptions {
        self.options.lock().clone()
    }

    /// Changes the options. Processes that were started with others that matter to them are not used again.
    pub fn set_options(&self, change: impl FnOnce(&mut PoolOptions)) {
        let mut options = self.options.lock();
        change(&mut options);
        self.all().for_each(|shared| shared.standing.set_order(options.order(shared.runtime, shared.kept_from)));
    }

    /// How many processes there are.
    pub fn counts(&self) -> Counts {
        self.all().map(|shared| shared.standing.counts()).fold(Counts::default(), Counts::and)
    }

    /// The numbers of each runtime.
    pub fn numbers(&self) -> [PoolNumbers; 2] {
        [Runtime::Python, Runtime::Wasm].map(|runtime| {
            let mut numbers = PoolNumbers::none(runtime, self.options().growth);
            for shared in self.all().filter(|shared| shared.runtime == runtime) {
                numbers.add(shared.standing.counts(), shared.standing.totals());
            }
            numbers
        })
    }

    /// Answers that all processes have given.
    pub fn calls(&self) -> usize {
        self.all().map(|shared| shared.calls.load(Ordering::Relaxed)).sum()
    }

    /// The processes, those of a runtime in the order in which they were started.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        let info = |shown: &Arc<Shown>, runtime| ProcessInfo {
            number: shown.number,
            runtime,
            pid: shown.pid,
            kept_from: shown.kept_from,
            state: match (shown.is_active.load(Ordering::Relaxed), shown.has_started.load(Ordering::Relaxed)) {
                (true, _) => ProcessState::Active,
                (false, true) => ProcessState::Idle,
                (false, false) => ProcessState::Starting,
            },
            functions: shown.functions.lock().clone(),
            calls: shown.calls.load(Ordering::Relaxed),
            rows: shown.rows.load(Ordering::Relaxed),
            memory_bytes: resident_bytes(shown.pid),
        };
        let infos =
            |shared: &Shared| shared.standing.all().iter().map(|shown| info(shown, shared.runtime)).collect::<Vec<_>>();
        let mut infos = self.all().flat_map(infos).collect::<Vec<_>>();
        infos.sort_by_key(|info| (info.runtime, info.number));
        infos
    }

    /// The function that this is. Equal ones are one.
    pub fn code(&self, spec: CodeSpec) -> Arc<Code> {
        let mut codes = self.codes.lock();
        if let Some(known) = codes.known.get(&spec) {
            return known.clone();
        }
        if codes.known.len() >= POOL_CODES_MAX {
            codes.known.retain(|_, code| Arc::strong_count(code) > 1);
        }
        codes.numbers += 1;
        let code = Arc::new(Code::new(spec.clone(), codes.numbers));
        codes.known.insert(spec, code.clone());
        code
    }

    /// Looks whether a process takes the function. Fails with 42601 if its body is none, with 58P01 if there is no
    /// interpreter or library for it, and as [`call`](Self::call) does.
    pub fn check(&self, code: &Arc<Code>, caller: &dyn Caller) -> Result<()> {
        self.loaded(code, caller).map(drop)
    }

    /// The function's values for these rows. The columns are of its parameters, and have as many values. Fails with
    /// 38000 if the function raises or its process ends, with 39000 if what that says makes no sense, with 57014 if it
    /// takes too long, with 53200 if it has too little memory, and with kind `Cancelled` if the caller has stopped. In
    /// all of these cases nothing but this call is affected.
    pub fn call(
        &self,
        code: &Arc<Code>,
        columns: &[ArrayRef],
        rows: usize,
        caller: &dyn Caller,
    ) -> Result<Vec<Answer>> {
        let limits = code.spec.limits.least(caller.limits());
        let code = &match limits == code.spec.limits {
            true => code.clone(),
            false => code.limited(limits, || self.code(CodeSpec { limits, ..code.spec.clone() })),
        };
        let mut lease = self.loaded(code, caller)?;
        let mut answers = Vec::new();
        let mut from = 0;
        while from < rows {
            let at_once = match code.spec.form {
                Form::Arrow => rows,
                Form::Rows
                | Form::RowSets
                | Form::Groups
                | Form::Wasm
                | Form::WasmArrow
                | Form::Steps
                | Form::WasmSteps
                | Form::WasmArrowSteps => code.rows_at_once().min(rows - from),
            };
            let part = columns.iter().map(|column| column.slice(from, at_once)).collect::<Vec<_>>();
            answers.push(lease.call(code, &part, at_once, caller)?);
            from += at_once;
        }
        Ok(answers)
    }

    /// A process that has the function, once one is idle. Those that somebody has killed before they were ready, as the
    /// system does when memory runs out, have done nothing yet: a few times another one is taken.
    fn loaded(&self, code: &Code, caller: &dyn Caller) -> Result<Lease<'_>> {
        let mut killed = 0;
        loop {
            let mut lease = self.take(code, caller)?;
            match lease.load(code, caller) {
                Ok(()) => return Ok(lease),
                Err(_) if lease.was_killed_early && killed < KILLED_EARLY_MAX => killed += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// A process for a call, once one is idle.
    fn take(&self, code: &Code, caller: &dyn Caller) -> Result<Lease<'_>> {
        let shared = self.of(code.spec.form.runtime(), &code.spec.limits);
        // It asks when it has to wait.
        let is_stopped = || {
            caller.waits();
            caller.is_stopped()
        };
        let standby = shared.standing.take(code.number(), &*self.spawn, &is_stopped)?;
        standby.member.shown.is_active.store(true, Ordering::Relaxed);
        let (allowed, by_caller) = (self.options.lock().time, caller.limits());
        let time = code.spec.limits.time.map_or(allowed, |own| own.min(allowed));
        Ok(Lease { standby: Some(standby), time, by_caller, shared, was_killed_early: false })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.all().for_each(|shared| shared.standing.close());
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?})", self.counts())
    }
}

/// A process that a call has.
struct Lease<'p> {
    standby: Option<Standby<Process>>,
    time: Duration,
    /// What the caller may have at most.
    by_caller: FunctionLimits,
    shared: &'p Shared,
    /// Whether it ended because somebody killed the process before that was ready.
    was_killed_early: bool,
}

impl Lease<'_> {
    /// Sees to it that the process has the function.
    fn load(&mut self, code: &Code, caller: &dyn Caller) -> Result<()> {
        let process = self.process().ok_or_else(no_process)?;
        if let Some(place) = process.loaded.iter().position(|(number, _)| *number == code.number()) {
            let used = process.loaded.remove(place);
            process.loaded.extend(used);
            return Ok(());
        }
        let mut forgotten = Ok(());
        while process.loaded.len() >= POOL_FUNCTIONS_MAX
            && forgotten.is_ok()
            && let Some((number, _)) = process.loaded.pop_front()
        {
            forgotten = process.tell(&wire::forget(number)?, caller);
        }
        if let Err(failure) = forgotten {
            return Err(self.failed(code, failure));
        }
        let number = process.next_number();
        // A module is compiled, and Python may import.
        caller.waits();
        match self.ask(code, &wire::load(code, number)?, number, caller)? {
            Reply::Loaded => {
                if let Some(process) = self.process() {
                    process.loaded.push_back((code.number(), code.spec.name.clone()));
                    // One may be there in several forms, as the step of an aggregate and by itself.
                    let mut names = Vec::<String>::new();
                    for (_, name) in process.loaded.iter().rev() {
                        if !names.contains(name) {
                            names.insert(0, name.clone());
                        }
                    }
                    *process.shown.functions.lock() = names;
                }
                Ok(())
            }
            Reply::Raised(raised) => Err(self.raised(code, raised)),
            Reply::Hello(_) | Reply::Values(_) => Err(self.nonsense(code, "values where it was to take a function")),
        }
    }

    fn call(&mut self, code: &Code, columns: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<Answer> {
        let process = self.process().ok_or_else(no_process)?;
        let number = process.next_number();
        let frame = wire::call(code, number, columns, rows)?;
        if !code.is_brief(rows) {
            caller.waits();
        }
        let start = Instant::now();
        let values = match self.ask(code, &frame, number, caller)? {
            Reply::Values(values) => values,
            Reply::Raised(raised) => return Err(self.raised(code, raised)),
            Reply::Hello(_) | Reply::Loaded => return Err(self.nonsense(code, "no values")),
        };
        code.took(rows, start.elapsed());
        if let Some(process) = self.process() {
            process.shown.rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
        match wire::values_of(&values, code.spec.returns, code.spec.form, rows) {
            Ok(Answer::OutOfRange(value, kind)) => {
                let message = format!("value \"{value}\" is out of range for type {}", type_name(kind));
                Err(Error::value(message).with_code("22003").with_detail(format!("function {}", code.spec.name)))
            }
            Ok(answer) => Ok(answer),
            Err(Malformed(reason)) => Err(self.nonsense(code, &reason)),
        }
    }

    fn ask(&mut self, code: &Code, frame: &wire::Frame, number: u64, caller: &dyn Caller) -> Result<Reply> {
        let time = self.time;
        let process = self.process().ok_or_else(no_process)?;
        match process.ask(frame, number, caller, time) {
            Ok(reply) => {
                process.shown.calls.fetch_add(1, Ordering::Relaxed);
                let printed = process.take_printed();
                self.shared.calls.fetch_add(1, Ordering::Relaxed);
                if !printed.is_empty() {
                    caller.printed(&printed);
                }
                Ok(reply)
            }
            Err(failure) => Err(self.failed(code, failure)),
        }
    }

    /// The error for a process that gave no answer. It is not used again.
    fn failed(&mut self, code: &Code, failure: Failure) -> Error {
        let printed = self.process().map(Process::take_printed).unwrap_or_default();
        let was_ready = self.process().is_some_and(|process| process.shown.has_started.load(Ordering::Relaxed));
        self.was_killed_early = !was_ready && matches!(failure, Failure::Died(status) if was_killed(status));
        self.bury(if matches!(failure, Failure::Died(_)) { Parting::Died } else { Parting::Killed });
        let name = &code.spec.name;
        let error = match failure {
            Failure::Stopped => return Error::cancelled(),
            Failure::TooLate => {
                let error = Error::value(format!("the function {name} took longer than function_time allows"));
                let own = code.spec.limits.time.filter(|own| *own <= self.time);
                let limiter = Limiter::of(self.by_caller.time, own);
                error.with_code("57014").with_hint(limiter.hint(name, "function_time", "5min"))
            }
            Failure::Died(status) if !was_ready => never_ready(self.shared.runtime, &ending_text(status)),
            Failure::Died(status) => {
                let how = ending_text(status);
                let error = Error::value(format!("the process of the function {name} {how}")).with_code("38000");
                match ending_hint(status, self.shared.runtime) {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            }
            Failure::Malformed(Malformed(reason)) => nonsense(name, &reason),
            Failure::TooLarge(bytes) => too_large(name, bytes),
            Failure::Broken(error) => {
                let error = Error::value(format!("the process of the function {name} cannot be asked: {error}"));
                error.with_code("39000")
            }
        };
        match printed.trim() {
            "" => error,
            printed => error.with_detail(format!("It printed:\n{}", last_lines(printed))),
        }
    }

    fn nonsense(&mut self, code: &Code, reason: &str) -> Error {
        self.bury(Parting::Killed);
        nonsense(&code.spec.name, reason)
    }

    fn raised(&mut self, code: &Code, raised: Raised) -> Error {
        let Raised { cause, message, place, code: own, detail, hint } = raised;
        let name = &code.spec.name;
        // Of a module the steps have no name of the function's.
        let is_named = self.shared.runtime == Runtime::Python || matches!(cause, Cause::Definition | Cause::Syntax);
        let place = [detail, if is_named { String::new() } else { format!("function {name}") }, place]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        let error = match cause {
            Cause::Exception => {
                let is_denied = message.starts_with("PermissionError");
                let error = Error::value(message).with_code(own_code(&own).unwrap_or("38000"));
                let kept_from = self.process().map(|process| process.shown.kept_from).unwrap_or_default();
                match is_denied && kept_from != KeptFrom::NOTHING {
                    true => error.with_hint(format!(
                        "function_files and function_network keep the function from: {}",
                        kept_from.name()
                    )),
                    false => error,
                }
            }
            Cause::Fuel => {
                let error = Error::value(format!("the function {name} has used up its fuel"));
                let error = error.with_code("57014");
                match Limiter::of(self.by_caller.fuel, code.spec.limits.fuel) {
                    Limiter::Everybody => {
                        error.with_hint("SET function_fuel = 'none' lets all functions go on until their time is over")
                    }
                    limiter => error.with_hint(limiter.hint(name, "function_fuel", "none")),
                }
            }
            Cause::Definition => Error::input(message).with_code("42P13"),
            Cause::Syntax => {
                let error = Error::input(format!("could not compile the function {name}")).with_code("42601");
                return error.with_detail(format!("{message}\n{place}"));
            }
            Cause::Missing => {
                let error = Error::input(format!("the function {name} needs pyarrow: {message}")).with_code("58P01");
                return error.with_hint(
                    "install it for the interpreter (python3 -m pip install pyarrow), or name one that has it: \
                     SET python = '/path/to/venv/bin/python'",
                );
            }
            Cause::Memory => {
                // What is left of its memory is in pieces.
                self.bury(Parting::Killed);
                let error = Error::value(format!("the function {name} has used up its memory")).with_code("53200");
                let limiter = Limiter::of(self.by_caller.memory_bytes, code.spec.limits.memory_bytes);
                error.with_hint(limiter.hint(name, "function_memory", "4GB"))
            }
            Cause::Wrong => {
                Error::value(format!("the function {name} gave what it must not: {message}")).with_code("39000")
            }
        };
        let error = if hint.is_empty() { error } else { error.with_hint(hint) };
        if place.is_empty() { error } else { error.with_detail(place) }
    }

    fn process(&mut self) -> Option<&mut Process> {
        self.standby.as_mut().map(|standby| &mut standby.member)
    }

    /// The process is of no more use.
    fn bury(&mut self, parting: Parting) {
        if let Some(standby) = self.standby.take() {
            self.shared.standing.bury(standby, parting);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(standby) = self.standby.take() {
            standby.member.shown.is_active.store(false, Ordering::Relaxed);
            self.shared.standing.give_back(standby);
        }
    }
}

fn no_process() -> Error {
    Error::bug("a call without a process")
}

#[cfg(target_os = "linux")]
fn resident_bytes(pid: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    // SAFETY: the call touches no memory.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
fn resident_bytes(_pid: u32) -> u64 {
    0
}
