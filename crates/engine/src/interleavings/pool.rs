//! Primed processes: calls that take them, the keeper that starts and ends them, people who change how they are
//! started, and processes that die. Puppets stand for processes.

use std::sync::Arc;
use std::time::Duration;

use diligence_base::seams::ManualClock;
use diligence_base::{Error, Result};
use diligence_pool::growth::{Counts, Growth};
use diligence_pool::standing::{Member, Order, Parting, Standby, Standing};
use shuttle::thread;

use super::{DrivenSpawn, eventually, interleave};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What all puppets of an execution share.
#[derive(Default)]
struct World {
    /// The way in which processes are to be started, once it was said.
    version: AtomicUsize,
    /// Puppets that there are.
    there: AtomicUsize,
    /// Starts that are refused still.
    refusals: AtomicUsize,
    /// Puppets that end before they have started.
    stillborn: AtomicUsize,
}

impl World {
    /// Whether there is one more of these.
    fn has_one_more(of: &AtomicUsize) -> bool {
        of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// How a puppet is started.
#[derive(Clone)]
struct Strings {
    world: Arc<World>,
    version: usize,
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

/// What may be done to a puppet from outside.
struct Body {
    version: usize,
    has_started: bool,
    is_alive: AtomicBool,
    is_used: AtomicBool,
}

struct Puppet {
    world: Arc<World>,
    body: Arc<Body>,
}

impl Member for Puppet {
    type Launch = Strings;
    type Shown = Body;

    fn start(launch: &Strings, _number: u64) -> Result<Self> {
        thread::yield_now();
        let world = launch.world.clone();
        if World::has_one_more(&world.refusals) {
            return Err(Error::resource("no more processes"));
        }
        world.there.fetch_add(1, Ordering::Relaxed);
        let has_started = !World::has_one_more(&world.stillborn);
        let (is_alive, is_used) = (AtomicBool::new(has_started), AtomicBool::new(false));
        Ok(Self { world, body: Arc::new(Body { version: launch.version, has_started, is_alive, is_used }) })
    }

    fn shown(&self) -> &Arc<Body> {
        &self.body
    }

    fn is_alive(&mut self) -> bool {
        self.body.is_alive.load(Ordering::Relaxed)
    }

    fn is_quiet(&self) -> bool {
        true
    }

    fn has_started(&mut self) -> bool {
        self.body.has_started
    }

    fn knows(&self, _function: u64) -> bool {
        false
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        self.world.there.fetch_sub(1, Ordering::Relaxed);
    }
}

fn order(world: &Arc<World>, version: usize, growth: Growth) -> Order<Strings> {
    Order { launch: Strings { world: world.clone(), version }, growth, patience: Duration::ZERO }
}

fn standing(world: &Arc<World>, growth: Growth) -> Arc<Standing<Puppet>> {
    let clock = Arc::new(ManualClock::stepping(1));
    Arc::new(Standing::new(order(world, 0, growth), clock, Arc::default()))
}

/// Takes a process, and looks whether it is the call's alone and as processes are started by now.
fn taken(standing: &Arc<Standing<Puppet>>, world: &World) -> Result<Standby<Puppet>> {
    let version = world.version.load(Ordering::Relaxed);
    let standby = standing.take(1, &DrivenSpawn, &|| false)?;
    let body = &standby.member.body;
    assert!(body.version >= version, "started as before, {} and not {version}", body.version);
    assert!(!body.is_used.swap(true, Ordering::Relaxed), "two calls have one process");
    thread::yield_now();
    body.is_used.store(false, Ordering::Relaxed);
    Ok(standby)
}

/// Waits until the keeper has ended what nobody needs, then closes the pool: nothing is left.
fn ends(standing: &Arc<Standing<Puppet>>, world: &World, threshold: usize) {
    eventually(|| standing.counts() == Counts { total: threshold, active: 0 });
    standing.close();
    eventually(|| world.there.load(Ordering::Relaxed) == 0);
}

#[test]
fn every_call_has_a_process_of_its_own_under_any_schedule() {
    interleave(2_000, || {
        let growth = Growth { threshold: 1, minimum: 1, maximum: 2 };
        let world = Arc::<World>::default();
        let standing = standing(&world, growth);
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (world, standing) = (world.clone(), standing.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let standby = taken(&standing, &world).unwrap();
                        assert!(standing.counts().total <= growth.maximum);
                        standing.give_back(standby);
                    }
                })
            })
            .collect();
        calls.into_iter().for_each(|call| call.join().unwrap());
        ends(&standing, &world, growth.threshold);
    });
}

#[test]
fn what_dies_is_replaced_under_any_schedule() {
    interleave(2_000, || {
        let growth = Growth { threshold: 1, minimum: 1, maximum: 2 };
        let world = Arc::<World>::default();
        let standing = standing(&world, growth);
        let calls: Vec<_> = (0..3)
            .map(|number| {
                let (world, standing) = (world.clone(), standing.clone());
                thread::spawn(move || {
                    for turn in 0..2 {
                        let standby = taken(&standing, &world).unwrap();
                        match number == turn {
                            true => standing.bury(standby, Parting::Killed),
                            false => standing.give_back(standby),
                        }
                    }
                })
            })
            .collect();
        // Somebody kills what there is, idle or at work.
        for _ in 0..3 {
            standing.all().iter().for_each(|body| body.is_alive.store(false, Ordering::Relaxed));
            thread::yield_now();
        }
        calls.into_iter().for_each(|call| call.join().unwrap());
        ends(&standing, &world, growth.threshold);
        let totals = standing.totals();
        assert_eq!((totals.requested, totals.killed >= 2), (6, true), "{totals:?}");
    });
}

/// With one process at most, a call that waits hangs if what it waits for goes and nothing takes its place.
#[test]
fn no_call_gets_what_was_started_otherwise_and_none_hangs_under_any_schedule() {
    interleave(4_000, || {
        let growth = Growth { threshold: 0, minimum: 1, maximum: 1 };
        let world = Arc::<World>::default();
        let standing = standing(&world, growth);
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let (world, standing) = (world.clone(), standing.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let standby = taken(&standing, &world).unwrap();
                        standing.give_back(standby);
                    }
                })
            })
            .collect();
        for version in 1..4 {
            standing.set_order(order(&world, version, growth));
            world.version.store(version, Ordering::Relaxed);
            thread::yield_now();
        }
        calls.into_iter().for_each(|call| call.join().unwrap());
        ends(&standing, &world, 0);
    });
}

#[test]
fn a_refused_start_is_told_to_those_who_wait_under_any_schedule() {
    interleave(2_000, || {
        let growth = Growth { threshold: 0, minimum: 2, maximum: 2 };
        let world = Arc::<World>::default();
        world.refusals.store(1, Ordering::Relaxed);
        let standing = standing(&world, growth);
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (world, standing) = (world.clone(), standing.clone());
                thread::spawn(move || match taken(&standing, &world) {
                    Ok(standby) => standing.give_back(standby),
                    Err(error) => assert_eq!(error.message(), "no more processes"),
                })
            })
            .collect();
        calls.into_iter().for_each(|call| call.join().unwrap());
        assert_eq!(world.refusals.load(Ordering::Relaxed), 0);
        ends(&standing, &world, 0);
    });
}

#[test]
fn what_ends_before_it_has_started_is_found_by_calls_under_any_schedule() {
    interleave(2_000, || {
        let growth = Growth { threshold: 0, minimum: 1, maximum: 1 };
        let world = Arc::<World>::default();
        world.stillborn.store(2, Ordering::Relaxed);
        let standing = standing(&world, growth);
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (world, standing) = (world.clone(), standing.clone());
                thread::spawn(move || {
                    let standby = taken(&standing, &world).unwrap();
                    let has_started = standby.member.body.has_started;
                    match has_started {
                        true => standing.give_back(standby),
                        false => standing.bury(standby, Parting::Died),
                    }
                    has_started
                })
            })
            .collect();
        let served = calls.into_iter().map(|call| call.join().unwrap()).filter(|served| *served).count();
        assert_eq!((served, standing.totals().died), (1, 2), "each that fails says so to one call");
        ends(&standing, &world, 0);
    });
}
