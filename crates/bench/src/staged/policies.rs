//! The policies of section 3.3.2, each as the order in which one processor serves queries on the line.
//!
//! Processor sharing goes from query to query without regard to modules, so each of its queries pays for all common
//! data. The others serve one query at a time in a module, to its end there or to a cutoff. They pay when the processor
//! comes from another module. A query that is alone therefore pays everywhere, except on a line of one module.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use super::line::{Line, Queries};

/// Who is served next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// All queries at once, each by an equal part of the processor.
    ProcessorSharing,
    /// One query after another, each through all modules.
    Fcfs,
    /// A module serves all who come while it does, then the processor goes to the next module.
    NonGated,
    /// All who wait in front of the first module are admitted and pass every module together; then the next cohort.
    DGated,
    /// The same, at most so many at a time.
    TGated(usize),
    /// The same as `DGated`, but after so many milliseconds in a module a query stays there for the next cohort. Not
    /// counted is the fetching of common data, or a cutoff below that would let nobody pass.
    CGated(f64),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::ProcessorSharing => f.write_str("PS"),
            Policy::Fcfs => f.write_str("FCFS"),
            Policy::NonGated => f.write_str("non-gated"),
            Policy::DGated => f.write_str("D-gated"),
            Policy::TGated(queries) => write!(f, "T-gated({queries})"),
            Policy::CGated(cutoff_ms) => write!(f, "C-gated({cutoff_ms} ms)"),
        }
    }
}

impl Policy {
    /// How long each query is in the system, in milliseconds.
    pub fn responses_ms(self, line: &Line, queries: &Queries) -> Vec<f64> {
        match self {
            Policy::ProcessorSharing => processor_sharing(line, queries),
            Policy::Fcfs => Processor::new(line, queries).one_by_one(),
            Policy::NonGated => Processor::new(line, queries).non_gated(),
            Policy::DGated => Processor::new(line, queries).gated(None, None),
            Policy::TGated(max) => Processor::new(line, queries).gated(Some(max), None),
            Policy::CGated(cutoff_ms) => Processor::new(line, queries).gated(None, Some(cutoff_ms)),
        }
    }
}

/// A moment, for the order of a heap.
#[derive(PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// All who are there advance alike, so a query leaves when this common progress has grown by its demand.
fn processor_sharing(line: &Line, queries: &Queries) -> Vec<f64> {
    let mut responses_ms = vec![0.0; queries.len()];
    let mut present = BinaryHeap::new();
    let (mut now_ms, mut progress_ms) = (0.0, 0.0);
    let mut next = 0;
    while next < queries.len() || !present.is_empty() {
        let leaves =
            present.peek().map(|Reverse((Moment(at_ms), _))| now_ms + (at_ms - progress_ms) * present.len() as f64);
        let comes = queries.arrivals_ms.get(next).copied();
        if let Some(at_ms) = comes.filter(|&comes| leaves.is_none_or(|leaves| comes < leaves)) {
            match present.len() {
                0 => progress_ms = 0.0,
                sharing => progress_ms += (at_ms - now_ms) / sharing as f64,
            }
            now_ms = at_ms;
            let own_ms: f64 = queries.demands_ms[next * line.modules..][..line.modules].iter().sum();
            present.push(Reverse((Moment(progress_ms + own_ms + line.common_ms), next)));
            next += 1;
        } else if let (Some(at_ms), Some(Reverse((Moment(progress), query)))) = (leaves, present.pop()) {
            (now_ms, progress_ms) = (at_ms, progress);
            responses_ms[query] = now_ms - queries.arrivals_ms[query];
        }
    }
    responses_ms
}

/// One processor, which is in one module at a time.
struct Processor<'a> {
    line: &'a Line,
    queries: &'a Queries,
    now_ms: f64,
    /// Whose common data is in the cache.
    loaded: Option<usize>,
    /// The first query that has not come to a module yet.
    next: usize,
    responses_ms: Vec<f64>,
}

impl<'a> Processor<'a> {
    fn new(line: &'a Line, queries: &'a Queries) -> Self {
        Self { line, queries, now_ms: 0.0, loaded: None, next: 0, responses_ms: vec![0.0; queries.len()] }
    }

    fn demand_ms(&self, query: usize, module: usize) -> f64 {
        self.queries.demands_ms[query * self.line.modules + module]
    }

    /// Works so long in a module.
    fn work(&mut self, module: usize, own_ms: f64) {
        if self.loaded != Some(module) {
            self.now_ms += self.line.common_ms / self.line.modules as f64;
            self.loaded = Some(module);
        }
        self.now_ms += own_ms;
    }

    fn leaves(&mut self, query: usize) {
        self.responses_ms[query] = self.now_ms - self.queries.arrivals_ms[query];
    }

    /// The next query, if it is there.
    fn admit(&mut self) -> Option<usize> {
        let query = self.next;
        (*self.queries.arrivals_ms.get(query)? <= self.now_ms).then(|| {
            self.next += 1;
            query
        })
    }

    /// Nobody is there: until the next query comes. False if none will.
    fn rest(&mut self) -> bool {
        let comes = self.queries.arrivals_ms.get(self.next);
        comes.inspect(|&&at_ms| self.now_ms = self.now_ms.max(at_ms)).is_some()
    }

    fn one_by_one(mut self) -> Vec<f64> {
        while self.rest() {
            while let Some(query) = self.admit() {
                (0..self.line.modules).for_each(|module| self.work(module, self.demand_ms(query, module)));
                self.leaves(query);
            }
        }
        self.responses_ms
    }

    fn non_gated(mut self) -> Vec<f64> {
        while self.rest() {
            let mut cohort = Vec::new();
            // Whoever comes meanwhile is served as well.
            while let Some(query) = self.admit() {
                self.work(0, self.demand_ms(query, 0));
                if self.line.modules == 1 {
                    self.leaves(query);
                }
                cohort.push(query);
            }
            for module in 1..self.line.modules {
                for &query in &cohort {
                    self.work(module, self.demand_ms(query, module));
                    if module + 1 == self.line.modules {
                        self.leaves(query);
                    }
                }
            }
        }
        self.responses_ms
    }

    fn gated(mut self, queries_max: Option<usize>, cutoff_ms: Option<f64>) -> Vec<f64> {
        // Who is in front of each module, with what is left there. Between cohorts: who was left behind.
        let mut waiting: Vec<VecDeque<(usize, f64)>> = vec![VecDeque::new(); self.line.modules];
        loop {
            if waiting.iter().all(VecDeque::is_empty) && !self.rest() {
                return self.responses_ms;
            }
            // The gate is open now, and not for those who come during the cohort.
            let mut admitted = 0;
            while queries_max.is_none_or(|max| admitted < max)
                && let Some(query) = self.admit()
            {
                waiting[0].push_back((query, self.demand_ms(query, 0)));
                admitted += 1;
            }
            for module in 0..self.line.modules {
                for (query, left_ms) in std::mem::take(&mut waiting[module]) {
                    let given_ms = cutoff_ms.map_or(left_ms, |cutoff_ms| left_ms.min(cutoff_ms));
                    self.work(module, given_ms);
                    if given_ms < left_ms {
                        waiting[module].push_back((query, left_ms - given_ms));
                    } else if module + 1 < self.line.modules {
                        waiting[module + 1].push_back((query, self.demand_ms(query, module + 1)));
                    } else {
                        self.leaves(query);
                    }
                }
            }
        }
    }
}
