//! The pipelines of a query, and how they hang together.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use diligence_base::Result;

use super::branches::{BranchState, Branches};
use super::run::PipelinePacket;
use crate::flow::profile::{Meter, Totals};
use crate::flow::{Operator, OperatorState, QueryContext, Sink, SinkState, Source};
use crate::operators::hash_join::TableShare;
use crate::operators::scan::ScanProgress;
use crate::stages::StageId;

/// Something with its name in EXPLAIN and its counters.
pub struct Part<T: ?Sized> {
    /// The thing.
    pub part: Arc<T>,
    /// What EXPLAIN shows.
    pub name: String,
    /// What it did in this run.
    pub totals: Arc<Totals>,
}

impl<T: ?Sized> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self { part: self.part.clone(), name: self.name.clone(), totals: self.totals.clone() }
    }
}

impl<T: ?Sized> Part<T> {
    pub(super) fn new(part: Arc<T>, name: impl Into<String>) -> Self {
        Self { part, name: name.into(), totals: Arc::default() }
    }
}

/// A pipeline, not yet started.
pub struct PipelineSpec {
    /// The stage that serves its packets.
    pub stage: StageId,
    /// Where its batches come from.
    pub source: Part<dyn Source>,
    /// What happens to them.
    pub operators: Vec<Part<dyn Operator>>,
    /// Where they end: one branch as a rule. If there are several, each gets all batches.
    pub branches: Vec<Branch>,
    /// What several branches did together.
    pub branching: Arc<Totals>,
    /// True if one packet must carry all rows, in order.
    pub serial: bool,
    /// True if several packets may, which tell the sink where in the source's order their rows belong.
    pub in_order: bool,
    /// True if exactly as many packets as the source says must be started (the ends of an exchange).
    pub exact_packets: bool,
    /// Sinks that must be complete before it starts.
    pub after_sinks: Vec<usize>,
    /// Pipelines that must be finished before it starts.
    pub after_pipelines: Vec<usize>,
    /// Pipelines that must have started before it starts.
    pub after_started: Vec<usize>,
}

impl PipelineSpec {
    /// The sinks that it fills.
    pub fn sinks(&self) -> impl Iterator<Item = usize> + '_ {
        self.branches.iter().map(|branch| branch.sink)
    }

    /// Whether it fills a sink.
    pub fn fills(&self, sink: usize) -> bool {
        self.sinks().any(|own| own == sink)
    }
}

/// The end of a pipeline.
#[derive(Clone)]
pub struct Branch {
    /// What happens to rows that go to this sink alone. Each works on each batch by itself.
    pub operators: Vec<Part<dyn Operator>>,
    /// An index into [`Graph::sinks`].
    pub sink: usize,
}

impl Branch {
    /// Nothing but a sink.
    pub fn to(sink: usize) -> Self {
        Self { operators: Vec::new(), sink }
    }
}

/// A sink with the stage that does its finishing work.
#[derive(Clone)]
pub struct SinkSpec {
    /// The sink.
    pub sink: Part<dyn Sink>,
    /// The stage that serves its parts.
    pub stage: StageId,
}

/// A join's hash table that another query may have, or want.
pub struct TableSpec {
    /// Asks for it, and offers it.
    pub(crate) share: TableShare,
    /// Where it is built: an index into [`Graph::sinks`].
    pub sink: usize,
    /// The pipelines that are there for it alone.
    pub pipelines: Range<usize>,
    /// Sinks that must be complete before any of them starts.
    pub gates: Vec<usize>,
}

impl TableSpec {
    /// Whether another one is a part of this one's part of the plan.
    pub fn encloses(&self, other: &Self) -> bool {
        self.sink != other.sink
            && self.pipelines.start <= other.pipelines.start
            && other.pipelines.end <= self.pipelines.end
    }
}

/// All pipelines of a query and how they hang together.
pub struct Graph {
    /// The pipelines; those that others wait for come first.
    pub pipelines: Vec<PipelineSpec>,
    /// The sinks.
    pub sinks: Vec<SinkSpec>,
    /// The hash tables that another query may have.
    pub tables: Vec<TableSpec>,
    /// How far the scans are.
    pub scans: Vec<Arc<ScanProgress>>,
    /// What the topmost aggregate gives.
    pub groups: Option<Arc<Totals>>,
    /// What must live as long as it: the memory of rows that are somebody else's.
    pub held: Option<Arc<dyn Send + Sync>>,
}

impl Graph {
    /// Opens the states of a pipeline's packets: as many as its source can use, and as may work on one pipeline.
    ///
    /// Fails as opening a source, an operator or a sink does.
    pub fn open(&self, pipeline: usize, context: &QueryContext) -> Result<Vec<PipelinePacket>> {
        let pipeline = &self.pipelines[pipeline];
        let useful = pipeline.source.part.packets_max();
        let packets = match (pipeline.exact_packets, pipeline.serial) {
            (true, _) => useful,
            (false, true) => useful.min(1),
            (false, false) => useful.min(context.packets),
        };
        let meter = |totals: &Arc<_>| Meter::new(Arc::clone(totals));
        let in_order = pipeline.in_order && packets > 1;
        let packet = |_| {
            let source = (pipeline.source.part.open(context)?, meter(&pipeline.source.totals));
            let operators = self.open_operators(&pipeline.operators, context)?;
            let sink = match pipeline.branches.as_slice() {
                [Branch { operators, sink }] if operators.is_empty() => self.open_sink(*sink, context)?,
                branches => {
                    let branches = branches.iter().map(|branch| {
                        let operators = self.open_operators(&branch.operators, context)?;
                        Ok(BranchState::new(operators, self.open_sink(branch.sink, context)?))
                    });
                    let branches: Box<dyn SinkState> = Box::new(Branches::new(branches.collect::<Result<_>>()?));
                    (branches, meter(&pipeline.branching))
                }
            };
            let packet = PipelinePacket::new(context.memory.clone(), source, operators, sink);
            Ok(if in_order { packet.in_order() } else { packet })
        };
        (0..packets).map(packet).collect()
    }

    fn open_operators(
        &self,
        operators: &[Part<dyn Operator>],
        context: &QueryContext,
    ) -> Result<Vec<(Box<dyn OperatorState>, Meter)>> {
        let opened =
            |Part { part, totals, .. }: &Part<dyn Operator>| Ok((part.open(context)?, Meter::new(Arc::clone(totals))));
        operators.iter().map(opened).collect()
    }

    fn open_sink(&self, sink: usize, context: &QueryContext) -> Result<(Box<dyn SinkState>, Meter)> {
        let Part { part, totals, .. } = &self.sinks[sink].sink;
        Ok((part.open(context)?, Meter::new(Arc::clone(totals))))
    }
}

impl Graph {
    /// Packets that wait until others of the query have gone on, and for nothing else.
    pub(crate) fn held_back(&self) -> usize {
        let at_sinks = self.sinks.iter().map(|sink| sink.sink.part.held_back());
        at_sinks.chain(self.pipelines.iter().map(|pipeline| pipeline.source.part.held_back())).sum()
    }

    /// What EXPLAIN says of the hash tables that may be shared.
    pub(crate) fn tables_text(&self) -> String {
        if self.tables.is_empty() {
            return String::new();
        }
        let here = self.tables.iter().filter(|table| table.share.is_here()).count();
        let here = if here > 0 { format!(", of which {here} are there") } else { String::new() };
        format!("; hash tables of {} joins, with joins of equal build sides{here}", self.tables.len())
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pipeline) in self.pipelines.iter().enumerate() {
            let packets = match (pipeline.serial, pipeline.in_order) {
                (true, _) => "one packet, in order",
                (false, true) => "parallel, in order",
                (false, false) => "parallel",
            };
            write!(f, "Pipeline {index}: stage {}, {packets}", pipeline.stage.name())?;
            let mut after: Vec<usize> = pipeline.after_pipelines.clone();
            for sink in &pipeline.after_sinks {
                after.extend((0..self.pipelines.len()).filter(|&other| self.pipelines[other].fills(*sink)));
            }
            after.sort_unstable();
            after.dedup();
            if !after.is_empty() {
                let after: Vec<String> = after.iter().map(ToString::to_string).collect();
                write!(f, ", after {}", after.join(", "))?;
            }
            writeln!(f)?;
            writeln!(f, "  {}", pipeline.source.name)?;
            for operator in &pipeline.operators {
                writeln!(f, "  {}", operator.name)?;
            }
            for branch in &pipeline.branches {
                let operators = branch.operators.iter().map(|operator| operator.name.as_str());
                let names: Vec<_> = operators.chain([self.sinks[branch.sink].sink.name.as_str()]).collect();
                writeln!(f, "  => {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}
