//! The processes that stand primed: which are idle, how many are to be started and ended, and the keeper, which does
//! that.
//!
//! ```text
//!   take ----> idle ----> a call ----> give back ----> idle (if it was started as it would be now)
//!     |                     |
//!     |                     +--------> bury: dead, killed, or started in another way
//!     +-- fewer free than the threshold: the keeper starts more
//! ```
//!
//! A call may wait for a process; then it looks every so often whether it is to stop. The keeper is the thesis' daemon
//! daemon (section 4.4): a thread that is there as long as there are processes.
//!
//! Invariants:
//! * A process is idle or one call's, never both.
//! * None is given to a call that was started otherwise than processes are started when the call begins.
//! * Whoever waits for a process gets one, or hears why there is none.
//! * What processes are does not matter here: tests choose the schedule, and have puppets for processes.

use std::sync::Arc;
use std::time::Duration;

use diligence_base::seams::{Clock, Spawn};
use diligence_base::sync::atomic::{AtomicU64, Ordering};
use diligence_base::sync::{Condvar, Mutex, MutexGuard};
use diligence_base::{Error, Result};

use crate::growth::{Counts, Growth};

/// How often the keeper looks for what is idle or dead, and who waits whether to stop.
const KEEPER_LOOKS: Duration = Duration::from_millis(500);
const WAITER_LOOKS: Duration = Duration::from_millis(10);

/// A process, as far as its place among others is concerned.
pub trait Member: Send + Sized + 'static {
    /// How it is started.
    type Launch: Clone + PartialEq + Send + 'static;

    /// What others may see of it while a call has it.
    type Shown: Send + Sync + 'static;

    /// Starts the process with this number. Fails with what those are told who wait for it.
    fn start(launch: &Self::Launch, number: u64) -> Result<Self>;

    /// What others may see of it.
    fn shown(&self) -> &Arc<Self::Shown>;

    /// Whether it is there still.
    fn is_alive(&mut self) -> bool;

    /// Whether it has said nothing that nobody has read.
    fn is_quiet(&self) -> bool;

    /// Whether it has said by now that it has started.
    fn has_started(&mut self) -> bool;

    /// Whether it has the function with this number.
    fn knows(&self, function: u64) -> bool;
}

/// Why a process is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Nobody needs it.
    Ended,
    /// Its call was to end, or it has said what makes no sense.
    Killed,
    /// It has ended by itself.
    Died,
}

/// How many processes there were, by how they came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that asked for one.
    pub requested: u64,
    /// Those that were started.
    pub started: u64,
    /// Those that nobody needed.
    pub ended: u64,
    /// Those that were killed.
    pub killed: u64,
    /// Those that ended by themselves.
    pub died: u64,
    /// Starts that the system refused.
    pub refused: u64,
}

/// A process with what it was started with.
#[derive(Debug)]
pub struct Standby<M> {
    /// The process.
    pub member: M,
    generation: u64,
    /// Since when it has had nothing to do.
    idle_since_ns: u64,
}

/// How processes are started, and how many.
#[derive(Clone, Debug)]
pub struct Order<L> {
    /// How a process is started.
    pub launch: L,
    /// The bounds of their number.
    pub growth: Growth,
    /// How long one may be idle before it is ended.
    pub patience: Duration,
}

/// Processes of one kind.
pub struct Standing<M: Member> {
    state: Mutex<State<M>>,
    /// Tells calls that a process is idle, or will not be.
    idle: Condvar,
    /// Tells the keeper that there is something to do.
    wanted: Condvar,
    clock: Arc<dyn Clock>,
    /// Processes that were ever started, here and wherever the numbers are the same.
    numbers: Arc<AtomicU64>,
}

struct State<M: Member> {
    order: Order<M::Launch>,
    counts: Counts,
    totals: Totals,
    idle: Vec<Standby<M>>,
    all: Vec<Arc<M::Shown>>,
    /// Processes that the keeper is to start.
    to_start: usize,
    /// Processes that the keeper is to wait for.
    buried: Vec<M>,
    /// Of the way in which a process is started.
    generation: u64,
    /// Why the system refused a start, the last time.
    refusal: Option<Error>,
    has_keeper: bool,
    is_closing: bool,
}

impl<M: Member> Standing<M> {
    /// No process. Those that are started take their numbers from `numbers`.
    pub fn new(order: Order<M::Launch>, clock: Arc<dyn Clock>, numbers: Arc<AtomicU64>) -> Self {
        let state = State {
            order,
            counts: Counts::default(),
            totals: Totals::default(),
            idle: vec![],
            all: vec![],
            to_start: 0,
            buried: vec![],
            generation: 0,
            refusal: None,
            has_keeper: false,
            is_closing: false,
        };
        Self { state: Mutex::new(state), idle: Condvar::new(), wanted: Condvar::new(), clock, numbers }
    }

    /// Changes how processes are started, and how many. Those that were started otherwise are not given to calls that
    /// begin when this has returned.
    pub fn set_order(&self, order: Order<M::Launch>) {
        let mut state = self.state.lock();
        let is_other = state.order.launch != order.launch;
        state.order = order;
        if is_other {
            state.generation += 1;
            let old = std::mem::take(&mut state.idle);
            old.into_iter().for_each(|standby| state.bury(standby, Parting::Ended));
            // Calls may have been about to take them. Without calls, the next one starts what it needs.
            if state.counts.active > 0 {
                state.replace();
            }
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// How many there are.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// How they came and went.
    pub fn totals(&self) -> Totals {
        self.state.lock().totals
    }

    /// All that there are.
    pub fn all(&self) -> Vec<Arc<M::Shown>> {
        self.state.lock().all.clone()
    }

    /// A process for a call, once one is idle: one that knows the function, if there is one. Fails with kind
    /// `Cancelled` if the caller has stopped, and as the system refuses processes and threads.
    pub fn take(
        self: &Arc<Self>,
        function: u64,
        spawn: &dyn Spawn,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Standby<M>> {
        let mut state = self.state.lock();
        state.totals.requested += 1;
        let growth = state.order.growth;
        state.to_start += state.counts.request(1, &growth);
        self.see_to_keeper(spawn, &mut state)?;
        let refused = state.totals.refused;
        loop {
            while let Some(mut standby) = state.pick(function) {
                // One that has ended before it had started would do so the next time, too: the call says how it ended.
                if !standby.member.has_started() || standby.member.is_alive() && standby.member.is_quiet() {
                    return Ok(standby);
                }
                // Somebody has killed it while it was idle, or it has said what nobody asked. It harms nobody.
                let parting = if standby.member.is_alive() { Parting::Killed } else { Parting::Died };
                state.bury(standby, parting);
                state.replace();
                self.see_to_keeper(spawn, &mut state)?;
            }
            let refusal = state.refusal.clone().filter(|_| state.totals.refused != refused);
            let stopped = is_stopped().then(Error::cancelled);
            if let Some(error) = stopped.or(refusal) {
                state.counts.release();
                return Err(error);
            }
            self.idle.wait_for(&mut state, WAITER_LOOKS);
        }
    }

    /// Has processes started before there is a call, as many as are to be free. Fails as the system refuses threads.
    pub fn prime(self: &Arc<Self>, spawn: &dyn Spawn) -> Result<()> {
        let mut state = self.state.lock();
        let growth = state.order.growth;
        state.to_start += state.counts.request(0, &growth);
        self.see_to_keeper(spawn, &mut state)
    }

    /// A call is done with its process.
    pub fn give_back(&self, mut standby: Standby<M>) {
        standby.idle_since_ns = self.clock.now_ns();
        let mut state = self.state.lock();
        state.counts.release();
        if state.is_closing || standby.generation != state.generation {
            state.bury(standby, Parting::Ended);
            state.replace();
            drop(state);
            self.wanted.notify_one();
        } else {
            state.idle.push(standby);
            drop(state);
            self.idle.notify_one();
        }
    }

    /// A call is done with its process, which is of no more use.
    pub fn bury(&self, standby: Standby<M>, parting: Parting) {
        let mut state = self.state.lock();
        state.bury(standby, parting);
        state.counts.release();
        state.replace();
        drop(state);
        // There is a keeper as long as there was this process.
        self.wanted.notify_one();
    }

    /// Ends all that are idle, and the others when their calls are done.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        state.to_start = 0;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        self.wanted.notify_one();
        drop(idle);
    }

    /// Sees to it that there is a keeper if it has something to do. Fails as the system refuses threads; then the call
    /// has not asked for anything.
    fn see_to_keeper(self: &Arc<Self>, spawn: &dyn Spawn, state: &mut MutexGuard<'_, State<M>>) -> Result<()> {
        if state.to_start == 0 && state.buried.is_empty() {
            return Ok(());
        }
        if !state.has_keeper {
            let keeper = self.clone();
            let body = Box::new(move || keeper.keep());
            if let Err(error) = spawn.spawn("diligence-pool".to_owned(), body) {
                let missing = std::mem::take(&mut state.to_start);
                state.counts.lost(missing);
                state.counts.release();
                return Err(Error::resource(format!("the system refuses a thread for primed processes: {error}")));
            }
            state.has_keeper = true;
        }
        self.wanted.notify_one();
        Ok(())
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

    fn start_one(&self, state: &mut MutexGuard<'_, State<M>>) {
        state.to_start -= 1;
        let (launch, generation) = (state.order.launch.clone(), state.generation);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let started = MutexGuard::unlocked(state, || M::start(&launch, number));
        match started {
            Ok(member) => {
                state.totals.started += 1;
                state.all.push(member.shown().clone());
                let standby = Standby { member, generation, idle_since_ns: self.clock.now_ns() };
                // It may be started in another way by now.
                if generation == state.generation {
                    state.idle.push(standby);
                } else {
                    state.bury(standby, Parting::Ended);
                    state.replace();
                }
            }
            Err(error) => {
                // The others would be refused as well.
                let refused = 1 + std::mem::take(&mut state.to_start);
                state.counts.lost(refused);
                state.totals.refused += 1;
                state.refusal = Some(error);
            }
        }
        self.idle.notify_all();
    }

    /// Ends processes that nobody has needed for long, and forgets those that are dead.
    fn end_some(&self, state: &mut State<M>) {
        let now_ns = self.clock.now_ns();
        // Each takes note that it has started.
        for standby in &mut state.idle {
            standby.member.has_started();
        }
        // One that has never started is for a call to find, if there are any.
        let has_calls = state.counts.active > 0;
        let is_dead =
            |standby: &mut Standby<M>| !standby.member.is_alive() && (!has_calls || standby.member.has_started());
        let dead = state.idle.extract_if(.., is_dead).collect::<Vec<_>>();
        for mut standby in dead {
            let has_started = standby.member.has_started();
            state.bury(standby, Parting::Died);
            if has_started {
                state.replace();
            }
        }
        let idle = state.idle.iter().map(|standby| Duration::from_nanos(now_ns.saturating_sub(standby.idle_since_ns)));
        let surplus = state.counts.surplus(idle, state.order.patience, &state.order.growth);
        // What was given back last stands last.
        let ended = state.idle.drain(..surplus.min(state.idle.len())).collect::<Vec<_>>();
        ended.into_iter().for_each(|standby| state.bury(standby, Parting::Ended));
    }
}

impl<M: Member> State<M> {
    /// An idle process: one that knows the function, else the one that was used last.
    fn pick(&mut self, function: u64) -> Option<Standby<M>> {
        let knows = |standby: &Standby<M>| standby.member.knows(function);
        let place = self.idle.iter().rposition(knows);
        let place = place.or_else(|| (0..self.idle.len()).rev().find(|place| self.idle[*place].member.has_started()));
        match place {
            Some(place) => Some(self.idle.remove(place)),
            // The first that was started is the first to be there.
            None if self.idle.is_empty() => None,
            None => Some(self.idle.remove(0)),
        }
    }

    /// A process is gone; the keeper waits for its end.
    fn bury(&mut self, standby: Standby<M>, parting: Parting) {
        self.counts.lost(1);
        *match parting {
            Parting::Ended => &mut self.totals.ended,
            Parting::Killed => &mut self.totals.killed,
            Parting::Died => &mut self.totals.died,
        } += 1;
        self.all.retain(|shown| !Arc::ptr_eq(shown, standby.member.shown()));
        self.buried.push(standby.member);
    }

    /// Has the keeper start what is missing for those who wait, and to the threshold, when something is gone.
    fn replace(&mut self) {
        let growth = self.order.growth;
        if !self.is_closing {
            self.to_start += self.counts.request(0, &growth);
        }
    }
}
