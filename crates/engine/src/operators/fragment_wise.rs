//! Runs a plan for each fragment of its tables by itself, several at once: each packet takes the next fragment and runs
//! its plan to the end before it takes another.
//!
//! So no more fragments are held at a time than packets run, and nobody waits for another fragment's hash table.
//!
//! Invariant: what a fragment's plan holds is gone before its packet takes the next fragment.

use std::sync::Arc;
use std::task::Waker;

use diligence_base::Result;

use super::recursive::NestedPlans;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::plan::{Plan, of_fragment};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// A plan that is run fragment by fragment, in one run.
pub struct FragmentWiseSource {
    shared: Arc<FragmentPlans>,
}

struct FragmentPlans {
    plan: Plan,
    fragments: usize,
    plans: Box<dyn NestedPlans>,
    next: AtomicUsize,
}

impl FragmentWiseSource {
    /// The plan of tables with so many fragments.
    pub fn new(plan: Plan, fragments: usize, plans: Box<dyn NestedPlans>) -> Arc<Self> {
        Arc::new(Self { shared: Arc::new(FragmentPlans { plan, fragments, plans, next: AtomicUsize::new(0) }) })
    }
}

impl Source for FragmentWiseSource {
    fn name(&self) -> &'static str {
        "FragmentWise"
    }

    fn packets_max(&self) -> usize {
        self.shared.fragments
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        Ok(Box::new(State { shared: self.shared.clone(), context: context.clone(), running: None }))
    }
}

/// One packet's view.
struct State {
    shared: Arc<FragmentPlans>,
    context: QueryContext,
    running: Option<Box<dyn SourceState>>,
}

impl SourceState for State {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let FragmentPlans { plan, fragments, plans, next } = &*self.shared;
        let Some(running) = &mut self.running else {
            let fragment = next.fetch_add(1, Ordering::Relaxed);
            if fragment >= *fragments {
                return Ok(Pull::Done);
            }
            self.running = Some(plans.start(&of_fragment(plan, fragment)?, Vec::new(), &self.context)?);
            return Ok(Pull::Again);
        };
        match running.pull(waker)? {
            Pull::Done => {
                self.running = None;
                Ok(Pull::Again)
            }
            pull => Ok(pull),
        }
    }
}
