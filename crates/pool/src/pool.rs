//! The pool: processes that are idle, and the keeper, which starts, ends and buries them.
//!
//! A call takes a process, one that has its function if there is one, and gives it back when it is done. It may wait
//! for one; then it looks every so often whether it is to stop. The keeper is the thesis' daemon daemon (section 4.4):
//! a thread that is there as long as there are processes.
//!
//! Invariant: a process is idle or one call's, never both; one whose call failed in a way that leaves doubt is not idle
//! again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use diligence_base::limits::{
    FUNCTION_MEMORY_BYTES, FUNCTION_TIME, POOL_CODES_MAX, POOL_FUNCTIONS_MAX, POOL_IDLE, POOL_MAXIMUM, POOL_MINIMUM,
    POOL_THRESHOLD,
};
use diligence_base::seams::{Clock, Spawn};
use diligence_base::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::caller::Caller;
use crate::code::{Code, CodeSpec, Form, Kind, Runtime};
use crate::growth::{Counts, Growth};
use crate::process::{Failure, Launch, Process, Shown, ending_text};
use crate::wire::{self, Answer, Cause, Malformed, Raised, Reply};

/// How often the keeper looks for what is idle or dead, and who waits whether to stop.
const KEEPER_LOOKS: Duration = Duration::from_millis(500);
const WAITER_LOOKS: Duration = Duration::from_millis(10);

/// Steps that a module of WebAssembly may take for the rows that it gets at once, unless a setting says otherwise: more
/// than a core takes in half a minute.
const FUNCTION_FUEL: u64 = 100_000_000_000;

/// What runs WebAssembly.
const WASM: &str = "diligence-wasm";

/// How a pool is run. May change at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The interpreter: a path, the folder of a virtual environment, or a name that is looked for along PATH.
    pub python: String,
    /// The machine of WebAssembly, likewise; empty for the one that lies beside the engine's program, or along PATH.
    pub wasm: String,
    /// The bounds of its size.
    pub growth: Growth,
    /// How long a process may be idle before it is ended.
    pub idle: Duration,
    /// How long a function may work on the rows that it gets at once, which are few where they take long.
    pub time: Duration,
    /// Virtual memory that a process may have, in bytes; 0 for as much as there is.
    pub memory_bytes: u64,
    /// Steps that a module of WebAssembly may take for the rows that it gets at once; 0 for as many as it likes.
    pub fuel: u64,
}

impl PoolOptions {
    /// How processes of a runtime are started.
    fn launch(&self, runtime: Runtime) -> Launch {
        let (program, fuel) = match runtime {
            Runtime::Python => (interpreter(&self.python), 0),
            Runtime::Wasm if self.wasm.is_empty() => (beside(WASM), self.fuel),
            Runtime::Wasm => (self.wasm.clone().into(), self.fuel),
        };
        Launch { runtime, program, memory_bytes: self.memory_bytes, fuel }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            python: "python3".to_owned(),
            wasm: String::new(),
            growth: Growth { threshold: POOL_THRESHOLD, minimum: POOL_MINIMUM, maximum: POOL_MAXIMUM },
            idle: POOL_IDLE,
            time: FUNCTION_TIME,
            memory_bytes: FUNCTION_MEMORY_BYTES,
            fuel: FUNCTION_FUEL,
        }
    }
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It has not said yet that it has started, and nobody waits for it.
    Starting,
    /// It waits for a call.
    Idle,
    /// It serves one.
    Active,
}

impl ProcessState {
    /// Its name in `system.pool`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Active => "active",
        }
    }
}

/// The numbers of a runtime's processes: what `system.pool_numbers` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolNumbers {
    /// What the processes run functions of.
    pub runtime: Runtime,
    /// How many there are or will be in a moment, and how many are at work or waited for.
    pub counts: Counts,
    /// The bounds.
    pub growth: Growth,
    /// Processes that were asked for.
    pub requested_total: u64,
    /// Processes that were started.
    pub started_total: u64,
    /// Processes that were ended because nobody needed them, or because they were started with other settings.
    pub ended_total: u64,
    /// Processes that were killed: their calls took too long or were cancelled, or they said what makes no sense.
    pub killed_total: u64,
    /// Processes that ended by themselves.
    pub died_total: u64,
    /// Starts that the system refused.
    pub refused_total: u64,
}

/// How many processes there were, by how they came and went.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requested: u64,
    started: u64,
    ended: u64,
    killed: u64,
    died: u64,
}

/// Why a process is not used any more.
#[derive(Clone, Copy, Debug)]
enum Parting {
    Ended,
    Killed,
    Died,
}

/// A process at one moment: what `system.pool` shows.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Its number within the pool, among those of its runtime.
    pub number: u64,
    /// What it runs functions of.
    pub runtime: Runtime,
    /// Its number in the operating system.
    pub pid: u32,
    /// What it does.
    pub state: ProcessState,
    /// The names of the functions that it has, the one used last at the end.
    pub functions: Vec<String>,
    /// Calls that it has served.
    pub calls: u64,
    /// Rows of these.
    pub rows: u64,
    /// Bytes that it has in memory, its code and libraries among them; 0 where the system does not say.
    pub memory_bytes: u64,
}

/// A pool of primed processes. It starts the first of a runtime when a function of it is called or checked for the
/// first time; the bounds are those of each runtime.
pub struct Pool {
    python: Arc<Shared>,
    wasm: Arc<Shared>,
    spawn: Arc<dyn Spawn>,
    codes: Mutex<Codes>,
}

#[derive(Default)]
struct Codes {
    known: HashMap<CodeSpec, Arc<Code>>,
    numbers: u64,
}

struct Shared {
    runtime: Runtime,
    state: Mutex<State>,
    /// Tells calls that a process is idle, or will not be.
    idle: Condvar,
    /// Tells the keeper that there is something to do.
    wanted: Condvar,
    clock: Arc<dyn Clock>,
    calls: AtomicUsize,
}

struct State {
    options: PoolOptions,
    counts: Counts,
    totals: Totals,
    idle: Vec<Process>,
    all: Vec<Arc<Shown>>,
    /// Processes that the keeper is to start.
    to_start: usize,
    /// Processes that the keeper is to wait for.
    buried: Vec<Process>,
    numbers: u64,
    /// Of the settings that a process is started with.
    generation: u64,
    /// Starts that the system refused, and why it refused the last.
    refusals: u64,
    refusal: Option<Error>,
    has_keeper: bool,
    is_closing: bool,
}

impl Pool {
    /// A pool without processes.
    pub fn new(options: PoolOptions, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Arc<Self> {
        let shared = |runtime| Arc::new(Shared::new(runtime, options.clone(), clock.clone()));
        let (python, wasm) = (shared(Runtime::Python), shared(Runtime::Wasm));
        Arc::new(Self { python, wasm, spawn, codes: Mutex::default() })
    }

    fn both(&self) -> [&Arc<Shared>; 2] {
        [&self.python, &self.wasm]
    }

    fn of(&self, code: &Code) -> &Arc<Shared> {
        match code.spec.form.runtime() {
            Runtime::Python => &self.python,
            Runtime::Wasm => &self.wasm,
        }
    }

    /// The options.
    pub fn options(&self) -> PoolOptions {
        self.python.state.lock().options.clone()
    }

    /// Changes the options. Processes that were started with others that matter to them are not used again.
    pub fn set_options(&self, change: impl Fn(&mut PoolOptions)) {
        for shared in self.both() {
            let mut state = shared.state.lock();
            let before = state.options.launch(shared.runtime);
            change(&mut state.options);
            if before == state.options.launch(shared.runtime) {
                continue;
            }
            state.generation += 1;
            let old = std::mem::take(&mut state.idle);
            for process in old {
                state.bury(process, Parting::Ended);
            }
            shared.wanted.notify_one();
        }
    }

    /// How many processes there are.
    pub fn counts(&self) -> Counts {
        let [python, wasm] = self.both().map(|shared| shared.state.lock().counts);
        Counts { total: python.total + wasm.total, active: python.active + wasm.active }
    }

    /// The numbers of each runtime.
    pub fn numbers(&self) -> [PoolNumbers; 2] {
        self.both().map(|shared| {
            let state = shared.state.lock();
            let Totals { requested, started, ended, killed, died } = state.totals;
            PoolNumbers {
                runtime: shared.runtime,
                counts: state.counts,
                growth: state.options.growth,
                requested_total: requested,
                started_total: started,
                ended_total: ended,
                killed_total: killed,
                died_total: died,
                refused_total: state.refusals,
            }
        })
    }

    /// Answers that all processes have given.
    pub fn calls(&self) -> usize {
        self.both().iter().map(|shared| shared.calls.load(Ordering::Relaxed)).sum()
    }

    /// The processes, those of a runtime in the order in which they were started.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        let info = |shown: &Arc<Shown>, runtime| ProcessInfo {
            number: shown.number,
            runtime,
            pid: shown.pid,
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
        let infos = |shared: &Arc<Shared>| {
            let all = shared.state.lock().all.clone();
            all.iter().map(|shown| info(shown, shared.runtime)).collect::<Vec<_>>()
        };
        self.both().map(infos).concat()
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
        let mut lease = self.take(code, caller)?;
        lease.load(code, caller)
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
        let mut lease = self.take(code, caller)?;
        lease.load(code, caller)?;
        let mut answers = Vec::new();
        let mut from = 0;
        while from < rows {
            let at_once = match code.spec.form {
                Form::Arrow => rows,
                Form::Rows | Form::RowSets | Form::Groups | Form::Wasm | Form::WasmArrow => {
                    code.rows_at_once().min(rows - from)
                }
            };
            let part = columns.iter().map(|column| column.slice(from, at_once)).collect::<Vec<_>>();
            answers.push(lease.call(code, &part, at_once, caller)?);
            from += at_once;
        }
        Ok(answers)
    }

    /// A process for a call, once one is idle.
    fn take(&self, code: &Code, caller: &dyn Caller) -> Result<Lease<'_>> {
        let shared = self.of(code);
        let mut state = shared.state.lock();
        let growth = state.options.growth;
        state.totals.requested += 1;
        state.to_start += state.counts.request(1, &growth);
        self.keep(shared, &mut state)?;
        let refusals = state.refusals;
        loop {
            while let Some(mut process) = state.pick(code.number()) {
                if process.is_alive() {
                    process.shown.is_active.store(true, Ordering::Relaxed);
                    let allowed = state.options.time;
                    let time = code.spec.time.map_or(allowed, |own| own.min(allowed));
                    return Ok(Lease { process: Some(process), time, shared, asked: 0 });
                }
                // Somebody has killed it while it was idle. It harms nobody.
                state.bury(process, Parting::Died);
                state.to_start += state.counts.request(0, &growth);
                self.keep(shared, &mut state)?;
            }
            let refusal = state.refusal.clone().filter(|_| state.refusals != refusals);
            let stopped = caller.is_stopped().then(Error::cancelled);
            if let Some(error) = stopped.or(refusal) {
                state.counts.release();
                return Err(error);
            }
            shared.idle.wait_for(&mut state, WAITER_LOOKS);
        }
    }

    /// Sees to it that there is a keeper if it has something to do.
    fn keep(&self, shared: &Arc<Shared>, state: &mut MutexGuard<'_, State>) -> Result<()> {
        if state.to_start == 0 && state.buried.is_empty() {
            return Ok(());
        }
        if !state.has_keeper {
            let keeper = shared.clone();
            let body = Box::new(move || keeper.keep());
            if let Err(error) = self.spawn.spawn("diligence-pool".to_owned(), body) {
                let missing = std::mem::take(&mut state.to_start);
                state.counts.lost(missing);
                state.counts.release();
                return Err(Error::resource(format!("the system refuses a thread for primed processes: {error}")));
            }
            state.has_keeper = true;
        }
        shared.wanted.notify_one();
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for shared in self.both() {
            let mut state = shared.state.lock();
            state.is_closing = true;
            let idle = std::mem::take(&mut state.idle);
            drop(state);
            shared.wanted.notify_one();
            drop(idle);
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?})", self.counts())
    }
}

impl State {
    /// An idle process: one that has the function, else the one that was used last.
    fn pick(&mut self, code: u64) -> Option<Process> {
        let has = |process: &Process| process.loaded.iter().any(|(number, _)| *number == code);
        let started = |process: &Process| process.shown.has_started.load(Ordering::Relaxed);
        let place = self.idle.iter().rposition(has).or_else(|| self.idle.iter().rposition(started));
        match place {
            Some(place) => Some(self.idle.remove(place)),
            // The first that was started is the first to be there.
            None if self.idle.is_empty() => None,
            None => Some(self.idle.remove(0)),
        }
    }

    /// A process is gone; the keeper waits for its end.
    fn bury(&mut self, process: Process, parting: Parting) {
        self.counts.lost(1);
        *match parting {
            Parting::Ended => &mut self.totals.ended,
            Parting::Killed => &mut self.totals.killed,
            Parting::Died => &mut self.totals.died,
        } += 1;
        self.all.retain(|shown| !Arc::ptr_eq(shown, &process.shown));
        self.buried.push(process);
    }
}

impl Shared {
    fn new(runtime: Runtime, options: PoolOptions, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            options,
            counts: Counts::default(),
            totals: Totals::default(),
            idle: vec![],
            all: vec![],
            to_start: 0,
            buried: vec![],
            numbers: 0,
            generation: 0,
            refusals: 0,
            refusal: None,
            has_keeper: false,
            is_closing: false,
        };
        let (idle, wanted) = (Condvar::new(), Condvar::new());
        Self { runtime, state: Mutex::new(state), idle, wanted, clock, calls: AtomicUsize::new(0) }
    }

    /// What the keeper does, until no process is left.
    fn keep(&self) {
        let mut state = self.state.lock();
        loop {
            if state.is_closing {
                let (idle, buried) = (std::mem::take(&mut state.idle), std::mem::take(&mut state.buried));
                state.has_keeper = false;
                drop(state);
                return drop((idle, buried));
            }
            if state.to_start > 0 {
                self.start_one(&mut state);
                continue;
            }
            self.end_some(&mut state);
            if !state.buried.is_empty() {
                let buried = std::mem::take(&mut state.buried);
                MutexGuard::unlocked(&mut state, || drop(buried));
                continue;
            }
            if state.counts.total == 0 && state.counts.active == 0 {
                state.has_keeper = false;
                return;
            }
            self.wanted.wait_for(&mut state, KEEPER_LOOKS);
        }
    }

    fn start_one(&self, state: &mut MutexGuard<'_, State>) {
        state.to_start -= 1;
        state.numbers += 1;
        let launch = state.options.launch(self.runtime);
        let (number, generation) = (state.numbers, state.generation);
        let started = MutexGuard::unlocked(state, || Process::start(&launch, number, generation));
        match started {
            Ok(mut process) => {
                process.idle_since_ns = self.clock.now_ns();
                state.totals.started += 1;
                state.all.push(process.shown.clone());
                state.idle.push(process);
            }
            Err(error) => {
                // The others would be refused as well.
                let refused = 1 + std::mem::take(&mut state.to_start);
                state.counts.lost(refused);
                state.refusals += 1;
                state.refusal = Some(refused_start(&launch, &error));
            }
        }
        self.idle.notify_all();
    }

    /// Ends processes that nobody has needed for long, and forgets those that are dead.
    fn end_some(&self, state: &mut State) {
        let now_ns = self.clock.now_ns();
        state.idle.iter_mut().for_each(Process::greet);
        let dead = state.idle.extract_if(.., |process| !process.is_alive()).collect::<Vec<_>>();
        for process in dead {
            // One that has never started would not the next time either.
            let has_started = process.shown.has_started.load(Ordering::Relaxed);
            state.bury(process, Parting::Died);
            let growth = state.options.growth;
            if has_started {
                state.to_start += state.counts.request(0, &growth);
            }
        }
        let idle = state.idle.iter().map(|process| Duration::from_nanos(now_ns.saturating_sub(process.idle_since_ns)));
        let surplus = state.counts.surplus(idle, state.options.idle, &state.options.growth);
        // What was given back last stands last.
        let ended = state.idle.drain(..surplus.min(state.idle.len())).collect::<Vec<_>>();
        ended.into_iter().for_each(|process| state.bury(process, Parting::Ended));
    }
}

/// A process that a call has.
struct Lease<'p> {
    process: Option<Process>,
    time: Duration,
    shared: &'p Shared,
    /// Questions that were asked of it.
    asked: u64,
}

impl Lease<'_> {
    /// Sees to it that the process has the function.
    fn load(&mut self, code: &Code, caller: &dyn Caller) -> Result<()> {
        let Some(process) = &mut self.process else { return Err(Error::bug("a call without a process")) };
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
        let number = self.number();
        match self.ask(code, &wire::load(code, number)?, number, caller)? {
            Reply::Loaded => {
                if let Some(process) = &mut self.process {
                    process.loaded.push_back((code.number(), code.spec.name.clone()));
                    let names = process.loaded.iter().map(|(_, name)| name.clone());
                    *process.shown.functions.lock() = names.collect();
                }
                Ok(())
            }
            Reply::Raised(raised) => Err(self.raised(code, raised)),
            Reply::Hello(_) | Reply::Values(_) => Err(self.nonsense(code, "values where it was to take a function")),
        }
    }

    fn call(&mut self, code: &Code, columns: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<Answer> {
        let number = self.number();
        let frame = wire::call(code, number, columns, rows)?;
        let start = Instant::now();
        let values = match self.ask(code, &frame, number, caller)? {
            Reply::Values(values) => values,
            Reply::Raised(raised) => return Err(self.raised(code, raised)),
            Reply::Hello(_) | Reply::Loaded => return Err(self.nonsense(code, "no values")),
        };
        code.took(rows, start.elapsed());
        if let Some(process) = &self.process {
            process.shown.rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
        match wire::values(&values, code.spec.returns, code.spec.form, rows) {
            Ok(Answer::OutOfRange(value, kind)) => {
                let message = format!("value \"{value}\" is out of range for type {}", type_name(kind));
                Err(Error::value(message).with_code("22003").with_detail(format!("function {}", code.spec.name)))
            }
            Ok(answer) => Ok(answer),
            Err(Malformed(reason)) => Err(self.nonsense(code, &reason)),
        }
    }

    fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    fn ask(&mut self, code: &Code, frame: &[u8], number: u64, caller: &dyn Caller) -> Result<Reply> {
        let Some(process) = &mut self.process else { return Err(Error::bug("a call without a process")) };
        match process.ask(frame, number, caller, self.time) {
            Ok(reply) => {
                self.shared.calls.fetch_add(1, Ordering::Relaxed);
                process.shown.calls.fetch_add(1, Ordering::Relaxed);
                let printed = process.take_printed();
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
        let printed = self.process.as_mut().map(Process::take_printed).unwrap_or_default();
        self.bury(if matches!(failure, Failure::Died(_)) { Parting::Died } else { Parting::Killed });
        let name = &code.spec.name;
        let error = match failure {
            Failure::Stopped => return Error::cancelled(),
            Failure::TooLate => {
                let error = Error::value(format!("the function {name} took longer than function_time allows"));
                let error = error.with_code("57014");
                match code.spec.time.is_some_and(|own| own <= self.time) {
                    true => error.with_hint(format!("ALTER FUNCTION {name} SET function_time = '5min' gives it more")),
                    false => error.with_hint("SET function_time = '5min' gives all functions more"),
                }
            }
            Failure::Died(status) => {
                let how = ending_text(status);
                Error::value(format!("the process of the function {name} {how}")).with_code("38000")
            }
            Failure::Malformed(Malformed(reason)) => nonsense(name, &reason),
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
        let Raised { cause, message, place } = raised;
        let name = &code.spec.name;
        let error = match cause {
            Cause::Exception => Error::value(message).with_code("38000"),
            Cause::Fuel => {
                let error = Error::value(format!("the function {name} has used up its fuel"));
                let error = error.with_code("57014");
                error.with_hint("SET function_fuel = 'none' lets all functions go on until their time is over")
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
                error.with_hint("SET function_memory = '4GB' gives all functions more")
            }
            Cause::Wrong => {
                Error::value(format!("the function {name} gave what it must not: {message}")).with_code("39000")
            }
        };
        if place.is_empty() { error } else { error.with_detail(place) }
    }

    /// The process is of no more use.
    fn bury(&mut self, parting: Parting) {
        let Some(process) = self.process.take() else { return };
        let mut state = self.shared.state.lock();
        state.bury(process, parting);
        state.counts.release();
        let growth = state.options.growth;
        state.to_start += state.counts.request(0, &growth);
        drop(state);
        // There is a keeper as long as there was this process.
        self.shared.wanted.notify_one();
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.idle_since_ns = self.shared.clock.now_ns();
        process.shown.is_active.store(false, Ordering::Relaxed);
        let mut state = self.shared.state.lock();
        state.counts.release();
        if state.is_closing || process.generation != state.generation {
            state.bury(process, Parting::Ended);
            drop(state);
            self.shared.wanted.notify_one();
        } else {
            state.idle.push(process);
            drop(state);
            self.shared.idle.notify_one();
        }
    }
}

fn nonsense(name: &str, reason: &str) -> Error {
    let error = Error::value(format!("the process of the function {name} answered what makes no sense: {reason}"));
    error.with_code("39000").with_hint("a function must leave the process' sockets alone")
}

fn refused_start(launch: &Launch, error: &std::io::Error) -> Error {
    let program = launch.program.display();
    let (what, hint) = match launch.runtime {
        Runtime::Python => (
            "Python interpreter",
            "install Python 3.8 or newer (apt install python3), or say where it is: SET python = '/path/to/python3'",
        ),
        Runtime::Wasm => (
            "machine of WebAssembly",
            "put diligence-wasm beside the program (cargo build --release --manifest-path wasm/Cargo.toml), or say where it \
             is: SET wasm = '/path/to/diligence-wasm'",
        ),
    };
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::input(format!("there is no {what}: '{program}' was not found"))
            .with_code("58P01")
            .with_hint(hint);
    }
    Error::resource(format!("the {what} '{program}' cannot be started: {error}")).with_code("58000")
}

/// The interpreter of a path: that of a virtual environment, if it is the folder of one.
fn interpreter(python: &str) -> PathBuf {
    let path = PathBuf::from(python);
    // A name alone is never a folder: it is looked for along PATH.
    match python.contains('/') && path.is_dir() {
        true => path.join("bin/python3"),
        false => path,
    }
}

/// Where a program is: beside that of the engine, or a folder above it, where tests are; else along PATH.
fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let folders = own.iter().flat_map(|own| own.ancestors().skip(1).take(2));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| name.into())
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::SmallInt => "smallint",
        Kind::Integer => "integer",
        Kind::BigInt => "bigint",
        Kind::Real => "real",
        Kind::Double => "double precision",
        Kind::Numeric => "numeric",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
    }
}

/// The end of a text that may be long.
fn last_lines(text: &str) -> &str {
    const LAST_BYTES: usize = 2000;
    let from = text.len().saturating_sub(LAST_BYTES);
    let from = (from..text.len()).find(|from| text.is_char_boundary(*from)).unwrap_or(0);
    &text[from..]
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
