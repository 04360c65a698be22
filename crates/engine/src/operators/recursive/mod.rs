//! Recursive queries: a base, and a step that runs on the rows that the step before has given until there are none.
//!
//! ```text
//!   base --rows--> new ones --> out
//!                     |
//!                  work table --> step --rows--> new ones --> out
//!                     ^                              |
//!                     +------- of the next step -----+
//! ```
//!
//! The step is a plan of its own, which reads the work table and is compiled anew for each round ([`NestedPlans`]). Its
//! operators are those of any other plan, and spill as they do. For UNION ALL all rows are new; for UNION those that
//! were not given before ([`seen`]): while these fit in memory, each row is looked up as it comes. When they do not,
//! the candidates of a round are collected, grouped so that each is there once, and an anti-join with what is in temp
//! space gives the new ones: one after the other, so that groups and hash table do not need memory at once.
//!
//! This is semi-naive evaluation (Bancilhon and Ramakrishnan, "An Amateur's Introduction to Recursive Query Processing
//! Strategies", SIGMOD 1986, section 3), as SQL:1999 defines it for linear recursion.
//!
//! Invariants:
//! * Work tables, the rows seen and the step's operators all reserve what they hold, and all can go to temp space.
//! * A round ends before the next one begins, and lets go of its memory first.

mod seen;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::datatypes::SchemaRef;
use datafusion_common::{JoinType, NullEquality};
use diligence_base::{Error, Result};

use self::seen::Seen;
use crate::batch::Batch;
use crate::exchange::port::Receiver;
use crate::expressions::Expr;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::operators::work_table::{Storage, TableWriter};
pub use crate::operators::work_table::{WorkTable, WorkTableSource};
use crate::plan::{self, Node, Plan, WorkTableId};
use crate::sync::Mutex;

/// The tables that UNION's anti-join reads. They are the only ones there.
const CANDIDATES: WorkTableId = WorkTableId(0);
const SEEN: WorkTableId = WorkTableId(1);

/// Two clusters to read a step's rows, one each to write the next step's and those that may have been seen, and one
/// more for what is being written.
const CLUSTERS_MIN: usize = 5;

/// The name in `system.memory` and in errors.
const HOLDER: &str = "a recursive query";

/// Runs plans inside of the packet that pulls their rows. Whatever runs pipelines can do that, and gives it to the
/// recursive queries in them.
pub trait NestedPlans: Send + Sync {
    /// A plan that reads these tables, ready to be pulled from. Fails as compiling and opening do.
    fn start(
        &self,
        plan: &Plan,
        tables: Vec<(WorkTableId, Arc<WorkTable>)>,
        context: &QueryContext,
    ) -> Result<Box<dyn SourceState>>;
}

/// A recursive query in one run.
pub struct RecursiveSource {
    start: Mutex<Option<(Receiver, Query)>>,
}

impl RecursiveSource {
    /// The query over its base's rows behind a port; `schema`: of both.
    pub fn new(query: &plan::Recursive, schema: &SchemaRef, base: Receiver, plans: Box<dyn NestedPlans>) -> Arc<Self> {
        let query = Query {
            step: query.step.as_ref().clone(),
            table: query.table,
            is_distinct: query.is_distinct,
            schema: schema.clone(),
            plans,
        };
        Arc::new(Self { start: Mutex::new(Some((base, query))) })
    }
}

impl Source for RecursiveSource {
    fn name(&self) -> &'static str {
        "Recursive"
    }

    /// One: it runs the step itself.
    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let start = self.start.lock().take();
        let (base, query) = start.ok_or_else(|| Error::bug("a recursive query has two readers"))?;
        let storage = Storage::new(context, HOLDER, CLUSTERS_MIN);
        let seen = query.is_distinct.then(|| Seen::new(&query.schema, &storage)).transpose()?;
        Ok(Box::new(RecursiveState {
            rows: RecursiveRows::Base(base),
            incoming: None,
            next: TableWriter::new(&storage),
            candidates: TableWriter::new(&storage),
            are_distinct: false,
            seen,
            context: context.clone(),
            storage,
            query,
        }))
    }
}

struct Query {
    step: Plan,
    table: WorkTableId,
    is_distinct: bool,
    schema: SchemaRef,
    plans: Box<dyn NestedPlans>,
}

impl Query {
    /// The plan with these tables, ready to run.
    fn run(
        &self,
        plan: &Plan,
        tables: Vec<(WorkTableId, WorkTable)>,
        context: &QueryContext,
    ) -> Result<Box<dyn SourceState>> {
        let tables = tables.into_iter().map(|(id, table)| (id, Arc::new(table))).collect();
        self.plans.start(plan, tables, context)
    }

    fn read(&self, table: WorkTableId) -> Box<Plan> {
        let columns = (0..self.schema.fields().len()).collect();
        let node = Node::WorkTable(plan::WorkTable { table, name: "seen".to_owned(), columns });
        Box::new(Plan::new(node, self.schema.clone()))
    }

    fn columns(&self) -> Result<Vec<Expr>> {
        (0..self.schema.fields().len()).map(|index| Expr::column(index, &self.schema)).collect()
    }

    /// The candidates, each once.
    fn each(&self) -> Result<Plan> {
        let groups = plan::Aggregate {
            input: self.read(CANDIDATES),
            groups: self.columns()?,
            grouping_sets: vec![vec![false; self.schema.fields().len()]],
            has_grouping_id: false,
            aggregates: Vec::new(),
            limit: None,
        };
        Ok(Plan::new(Node::Aggregate(groups), self.schema.clone()))
    }

    /// Which of the candidates were not seen.
    fn unseen(&self) -> Result<Plan> {
        let join = plan::HashJoin {
            left: self.read(CANDIDATES),
            right: self.read(SEEN),
            on: self.columns()?.into_iter().zip(self.columns()?).collect(),
            filter: None,
            join_type: JoinType::LeftAnti,
            null_equality: NullEquality::NullEqualsNull,
            null_aware: false,
            projection: None,
            runtime_filters: Vec::new(),
        };
        Ok(Plan::new(Node::HashJoin(join), self.schema.clone()))
    }
}

/// Where rows come from at the moment.
enum RecursiveRows {
    Base(Receiver),
    Step(Box<dyn SourceState>),
    /// The candidates, each once.
    Each(Box<dyn SourceState>),
    /// New ones, out of these.
    Unseen(Box<dyn SourceState>),
    /// Nowhere: the next round is to begin.
    End,
}

/// A batch, and what is to be done with it.
enum Incoming {
    /// It may have rows that were given before.
    Any(Batch),
    /// They may have been seen, but are not in the set.
    Candidates(Batch),
    /// They were not given before, but are to be remembered.
    Unseen(Batch),
    /// They are to be given.
    New(Batch),
}

struct RecursiveState {
    query: Query,
    context: QueryContext,
    storage: Storage,
    rows: RecursiveRows,
    incoming: Option<Incoming>,
    /// The work table of the next round.
    next: TableWriter,
    candidates: TableWriter,
    /// Whether each of them is there once.
    are_distinct: bool,
    /// For UNION.
    seen: Option<Seen>,
}

impl SourceState for RecursiveState {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if let Some(seen) = self.seen.as_mut().filter(|seen| seen.must_leave()) {
            seen.leave()?;
            return Ok(match seen.poll_leave(waker)? {
                Poll::Ready(()) => Pull::Again,
                Poll::Pending => Pull::Wait,
            });
        }
        if let Some(incoming) = self.incoming.take() {
            return self.take(incoming, waker);
        }
        let any = if self.seen.is_some() { Incoming::Any } else { Incoming::New };
        let (pull, incoming): (_, fn(Batch) -> Incoming) = match &mut self.rows {
            RecursiveRows::Base(receiver) => (receiver.pull(waker)?, any),
            RecursiveRows::Step(run) => (run.pull(waker)?, any),
            RecursiveRows::Each(run) => (run.pull(waker)?, Incoming::Candidates),
            RecursiveRows::Unseen(run) => (run.pull(waker)?, Incoming::Unseen),
            RecursiveRows::End => return self.begin(),
        };
        match pull {
            Pull::Batch(batch) if batch.rows() > 0 => {
                self.incoming = Some(incoming(batch));
                Ok(Pull::Again)
            }
            Pull::Done => {
                self.rows = RecursiveRows::End;
                Ok(Pull::Again)
            }
            Pull::Wait => Ok(Pull::Wait),
            Pull::NoMemory(error) => Ok(Pull::NoMemory(error)),
            Pull::Batch(_) | Pull::Again => Ok(Pull::Again),
        }
    }
}

impl RecursiveState {
    /// One step of what a batch goes through.
    fn take(&mut self, incoming: Incoming, waker: &Waker) -> Result<Pull> {
        let schema = &self.query.schema;
        let next = match (incoming, &mut self.seen) {
            (Incoming::New(batch), _) => match self.next.poll_push(&batch, waker)? {
                Poll::Ready(()) => return Ok(Pull::Batch(batch)),
                Poll::Pending => Err(Incoming::New(batch)),
            },
            (Incoming::Any(batch), Some(seen)) => match seen.poll_insert(&batch, schema, false, waker)? {
                Poll::Ready(Some(new)) => Ok(Incoming::New(new)),
                Poll::Ready(None) => Ok(Incoming::Candidates(seen.unseen(&batch, schema)?)),
                Poll::Pending => Err(Incoming::Any(batch)),
            },
            (Incoming::Candidates(batch), _) => match self.candidates.poll_push(&batch, waker)? {
                Poll::Ready(()) => return Ok(Pull::Again),
                Poll::Pending => Err(Incoming::Candidates(batch)),
            },
            (Incoming::Unseen(batch), Some(seen)) => match seen.poll_insert(&batch, schema, true, waker)? {
                Poll::Ready(_) => Ok(Incoming::New(batch)),
                Poll::Pending => Err(Incoming::Unseen(batch)),
            },
            (Incoming::Any(_) | Incoming::Unseen(_), None) => {
                return Err(Error::bug("a recursive query without UNION looks for rows that it has seen"));
            }
        };
        let (next, pull) = match next {
            Ok(next) => (next, Pull::Again),
            Err(same) => (same, Pull::Wait),
        };
        let (Incoming::Any(batch) | Incoming::Candidates(batch) | Incoming::Unseen(batch) | Incoming::New(batch)) =
            &next;
        if batch.rows() > 0 {
            self.incoming = Some(next);
        }
        Ok(pull)
    }

    /// The rows of a round, or of its candidates, have ended.
    fn begin(&mut self) -> Result<Pull> {
        if self.candidates.rows() > 0
            && let Some(seen) = &self.seen
        {
            let candidates = std::mem::replace(&mut self.candidates, TableWriter::new(&self.storage)).finish();
            let files = WorkTable::of_files(seen.files().to_vec(), &self.storage);
            let tables = vec![(CANDIDATES, candidates), (SEEN, files)];
            self.are_distinct = !self.are_distinct;
            self.rows = if self.are_distinct {
                RecursiveRows::Each(self.query.run(&self.query.each()?, tables, &self.context)?)
            } else {
                RecursiveRows::Unseen(self.query.run(&self.query.unseen()?, tables, &self.context)?)
            };
        } else if self.next.rows() > 0 {
            let table = std::mem::replace(&mut self.next, TableWriter::new(&self.storage)).finish();
            self.rows = RecursiveRows::Step(self.query.run(
                &self.query.step,
                vec![(self.query.table, table)],
                &self.context,
            )?);
        } else {
            return Ok(Pull::Done);
        }
        Ok(Pull::Again)
    }
}
