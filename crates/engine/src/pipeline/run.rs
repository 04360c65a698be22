//! A packet of a pipeline: carries batches from the source through the operators into the sink, one quantum at a time.

use diligence_base::limits::MEMORY_PATIENCE;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::QueryMemory;

use crate::batch::Batch;
use crate::flow::profile::{Counts, Meter};
use crate::flow::{Accept, Flow, OperatorState, Output, Pull, SinkState, SourceState, rows_within};
use crate::stages::{Quantum, Step};

/// One operator of the packet's chain.
struct Link {
    state: Box<dyn OperatorState>,
    out: Output,
    more: bool,
    meter: Meter,
}

/// How far the packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The source has more.
    Pulling,
    /// The input has ended; this operator is to be finished next.
    Finishing(usize),
    /// All operators are finished; the sink is to be.
    Sinking,
}

/// One packet's states of a pipeline's source, operators and sink.
pub struct PipelinePacket {
    memory: QueryMemory,
    /// Bytes that a batch should have at most.
    batch_bytes: usize,
    source: Option<Box<dyn SourceState>>,
    source_meter: Meter,
    /// What is left of the source's batch where less is taken at once.
    rest: Option<Batch>,
    links: Vec<Link>,
    sink: Box<dyn SinkState>,
    sink_meter: Meter,
    /// The sink has said `Wait` to the last batch.
    held_back: bool,
    phase: Phase,
    /// Whether the sink is told where rows belong.
    in_order: bool,
    /// Where the source's last rows belong.
    place: Option<usize>,
    /// How often the source was refused memory since its last batch, and the last batch of anybody.
    refusals: usize,
    /// When it was refused for the first time of these, and how many batches there had been by then.
    refused_ns: u64,
    batches_seen: u64,
}

/// After so many refusals, with a turn for every other packet between them, and after [`MEMORY_PATIENCE`], nobody has
/// anything to give back.
const REFUSALS_MAX: usize = 64;

impl PipelinePacket {
    /// A packet with its opened states, each with the meter that it counts on. It waits when its query owes memory.
    pub fn new(
        memory: QueryMemory,
        source: (Box<dyn SourceState>, Meter),
        operators: Vec<(Box<dyn OperatorState>, Meter)>,
        sink: (Box<dyn SinkState>, Meter),
    ) -> Self {
        let links = operators
            .into_iter()
            .map(|(state, meter)| Link { state, out: Output::default(), more: false, meter })
            .collect();
        Self {
            batch_bytes: memory.batch_bytes(),
            memory,
            source: Some(source.0),
            source_meter: source.1,
            rest: None,
            links,
            sink: sink.0,
            sink_meter: sink.1,
            held_back: false,
            phase: Phase::Pulling,
            in_order: false,
            place: None,
            refusals: 0,
            refused_ns: 0,
            batches_seen: 0,
        }
    }

    /// The same packet, one of several whose rows are put in the source's order: it tells the sink where they belong.
    /// Its operators give all rows of a batch before they take the next.
    pub fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }

    /// Works until the quantum is over, something must be waited for, or all is done.
    pub fn run(&mut self, quantum: &Quantum<'_>) -> Result<Step> {
        let step = self.work(quantum);
        self.source_meter.flush();
        self.links.iter_mut().for_each(|link| link.meter.flush());
        self.sink_meter.flush();
        step
    }

    fn work(&mut self, quantum: &Quantum<'_>) -> Result<Step> {
        if self.held_back {
            let mut now_ns = quantum.now_ns();
            let answer = self.sink.ready(quantum.waker);
            self.sink_meter.worked(lap(quantum, &mut now_ns));
            let is_refused = answer.is_err();
            if let Some(step) = self.hear(answer, quantum)? {
                return Ok(step);
            }
            if !is_refused {
                self.refusals = 0;
            }
        }
        if let Some(step) = self.give_back(quantum)? {
            return Ok(step);
        }
        self.links.iter_mut().for_each(|link| link.out.set_waker(quantum.waker));
        let mut now_ns = quantum.now_ns();
        loop {
            if self.memory.poll_room(quantum.waker).is_pending() {
                return Ok(Step::Wait);
            }
            self.heed_enough();
            if let Some(step) = self.advance(quantum, &mut now_ns)? {
                // It may wait for memory that its own sink is asked for.
                let given = if step == Step::Wait { self.give_back(quantum)? } else { None };
                return Ok(given.unwrap_or(step));
            }
            if quantum.is_over(now_ns) {
                return Ok(Step::Yield);
            }
        }
    }

    /// Has the sink give memory back, if the query is asked to.
    fn give_back(&mut self, quantum: &Quantum<'_>) -> Result<Option<Step>> {
        if self.held_back || self.phase == Phase::Sinking || !self.memory.is_asked() {
            return Ok(None);
        }
        let accept = self.sink.give_back(quantum.waker)?;
        Ok(self.obey(accept))
    }

    /// Stops before the last operator that has enough, whichever packet brought it.
    fn heed_enough(&mut self) {
        if let Some(index) = self.links.iter().rposition(|link| !link.more && link.state.has_enough()) {
            self.heed(index, Flow::Done);
        }
    }

    /// One unit of work: what is furthest down the pipeline first, so that batches do not pile up.
    fn advance(&mut self, quantum: &Quantum<'_>, now_ns: &mut u64) -> Result<Option<Step>> {
        for index in (0..self.links.len()).rev() {
            if let Some(batch) = self.links[index].out.take() {
                return self.deliver(index + 1, batch, quantum, now_ns);
            }
            if self.links[index].more {
                let link = &mut self.links[index];
                let flow = link.state.more(&mut link.out)?;
                link.meter.worked(lap(quantum, now_ns));
                return Ok(self.heed(index, flow));
            }
        }
        if let Some(batch) = self.rest.take() {
            return self.deliver(0, batch, quantum, now_ns);
        }
        match self.phase {
            Phase::Pulling => self.pull(quantum, now_ns),
            Phase::Finishing(index) if index < self.links.len() => {
                self.phase = Phase::Finishing(index + 1);
                let link = &mut self.links[index];
                let flow = link.state.finish(&mut link.out)?;
                link.meter.worked(lap(quantum, now_ns));
                link.more = matches!(flow, Flow::MoreOutput | Flow::Wait);
                Ok((flow == Flow::Wait).then_some(Step::Wait))
            }
            Phase::Finishing(_) | Phase::Sinking => {
                self.phase = Phase::Sinking;
                let answer = self.sink.finish(quantum.waker);
                self.sink_meter.worked(lap(quantum, now_ns));
                match answer {
                    Ok(Accept::Wait) => Ok(Some(Step::Wait)),
                    Ok(_) => Ok(Some(Step::Done)),
                    refused => self.hear(refused, quantum),
                }
            }
        }
    }

    fn pull(&mut self, quantum: &Quantum<'_>, now_ns: &mut u64) -> Result<Option<Step>> {
        let Some(source) = &mut self.source else {
            self.phase = Phase::Finishing(0);
            return Ok(None);
        };
        if self.sink.is_full(quantum.waker) {
            self.held_back = true;
            return Ok(Some(Step::Wait));
        }
        let pull = source.pull(quantum.waker)?;
        self.source_meter.worked(lap(quantum, now_ns));
        if self.in_order {
            let place = source.place();
            // Nothing of the place before is on its way any more.
            if place != self.place {
                self.place = place;
                self.sink.at(place)?;
            }
        }
        match pull {
            Pull::Batch(batch) => {
                self.refusals = 0;
                self.memory.note_batch();
                self.deliver(0, batch, quantum, now_ns)
            }
            Pull::Again => Ok(None),
            Pull::Wait => Ok(Some(Step::Wait)),
            Pull::NoMemory(error) => self.wait_for_memory(error, quantum).map(Some),
            Pull::Done => {
                self.source = None;
                self.phase = Phase::Finishing(0);
                Ok(None)
            }
        }
    }

    /// The source, or the sink, has no memory to go on. Whoever was asked for some may be this packet's sink, a state
    /// at rest, or another packet, which has its turn first.
    fn wait_for_memory(&mut self, error: Error, quantum: &Quantum<'_>) -> Result<Step> {
        if let Some(step) = self.give_back(quantum)? {
            return Ok(step);
        }
        if self.memory.poll_reclaimed(quantum.waker).is_pending() {
            return Ok(Step::Wait);
        }
        let (now_ns, batches) = (quantum.now_ns(), self.memory.batches_total());
        if self.refusals == 0 || batches != self.batches_seen {
            // Others get on: what they hold comes back.
            (self.refusals, self.refused_ns, self.batches_seen) = (0, now_ns, batches);
        }
        self.refusals += 1;
        let is_patient = now_ns.saturating_sub(self.refused_ns) < MEMORY_PATIENCE.as_nanos() as u64;
        if self.refusals > REFUSALS_MAX && !is_patient { Err(error) } else { Ok(Step::Yield) }
    }

    /// Gives a batch to operator `index`, or to the sink behind the last.
    fn deliver(&mut self, index: usize, batch: Batch, quantum: &Quantum<'_>, now_ns: &mut u64) -> Result<Option<Step>> {
        let (batch, counts) = self.cut(index, batch);
        match index {
            0 => self.source_meter.passed(counts),
            _ => self.links[index - 1].meter.passed(counts),
        }
        if let Some(link) = self.links.get_mut(index) {
            let flow = link.state.push(batch, &mut link.out)?;
            link.meter.worked(lap(quantum, now_ns));
            return Ok(self.heed(index, flow));
        }
        self.sink_meter.passed(counts);
        let answer = self.sink.push(batch, quantum.waker);
        self.sink_meter.worked(lap(quantum, now_ns));
        self.hear(answer, quantum)
    }

    /// As many of a batch's rows as operator `index`, or the sink, takes at once; the others wait. Rows that a join has
    /// only picked become many bytes where somebody wants them flat.
    fn cut(&mut self, index: usize, batch: Batch) -> (Batch, Counts) {
        let counts = Counts::of(&batch);
        let mut rows = match self.links.get(index) {
            Some(link) => link.state.rows_max(),
            None => self.sink.rows_max(),
        };
        // Twice as many, so that no batch of about the right size loses a few of its rows.
        let bytes_max = 2 * self.batch_bytes;
        if counts.bytes > bytes_max as u64 {
            let picked_bytes = batch.picked_bytes();
            if picked_bytes > bytes_max {
                rows = rows.min(rows_within(self.batch_bytes, batch.rows(), picked_bytes));
            }
        }
        if rows >= batch.rows() {
            return (batch, counts);
        }
        let rest = batch.slice(rows, batch.rows() - rows);
        match index {
            0 => self.rest = Some(rest),
            _ => self.links[index - 1].out.put_back(rest),
        }
        let batch = batch.slice(0, rows);
        let counts = Counts::of(&batch);
        (batch, counts)
    }

    /// Does what the sink's answer says. One that was refused memory is asked again later, as a source is.
    fn hear(&mut self, answer: Result<Accept>, quantum: &Quantum<'_>) -> Result<Option<Step>> {
        match answer {
            Ok(accept) => Ok(self.obey(accept)),
            Err(error) if error.kind() == ErrorKind::Resource && self.sink.may_ask_again() => {
                self.held_back = true;
                self.wait_for_memory(error, quantum).map(Some)
            }
            Err(error) => Err(error),
        }
    }

    /// Does what an answer of the sink says that is no error.
    fn obey(&mut self, accept: Accept) -> Option<Step> {
        self.held_back = accept == Accept::Wait;
        if accept == Accept::Enough {
            // Whatever the operators still hold is wanted by nobody.
            (self.source, self.rest) = (None, None);
            for link in &mut self.links {
                link.out.clear();
                link.more = false;
            }
            self.phase = Phase::Sinking;
        }
        self.held_back.then_some(Step::Wait)
    }

    /// Does what an operator's answer says. One that waits keeps the packet from going on, unless it has put out
    /// something.
    fn heed(&mut self, index: usize, flow: Flow) -> Option<Step> {
        self.links[index].more = matches!(flow, Flow::MoreOutput | Flow::Wait);
        // `Done` while input still comes: everything before the operator is dropped, and it is finished next.
        let already_finishing = matches!(self.phase, Phase::Finishing(next) if next > index);
        if flow == Flow::Done && !already_finishing && self.phase != Phase::Sinking {
            (self.source, self.rest) = (None, None);
            for link in &mut self.links[..index] {
                link.out.clear();
                link.more = false;
            }
            self.phase = Phase::Finishing(index);
        }
        (flow == Flow::Wait && self.links[index].out.is_empty()).then_some(Step::Wait)
    }
}

/// Nanoseconds since the last call.
fn lap(quantum: &Quantum<'_>, now_ns: &mut u64) -> u64 {
    let before = std::mem::replace(now_ns, quantum.now_ns());
    now_ns.saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use diligence_base::limits::BATCH_ROWS_MAX;
    use diligence_base::seams::ManualClock;

    use super::*;
    use crate::flow::QueryContext;
    use crate::operators::limit::limit;
    use crate::sync::Mutex;
    use crate::sync::atomic::{AtomicBool, Ordering};

    /// Gives some rows; then looks for more for ever.
    struct Endless(Option<Batch>);

    impl SourceState for Endless {
        fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
            Ok(self.0.take().map_or(Pull::Again, Pull::Batch))
        }
    }

    struct Anything;

    impl SinkState for Anything {
        fn push(&mut self, _batch: Batch, _waker: &Waker) -> Result<Accept> {
            Ok(Accept::More)
        }
    }

    /// Gives some rows.
    struct Once(Option<Batch>);

    impl SourceState for Once {
        fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
            Ok(self.0.take().map_or(Pull::Done, Pull::Batch))
        }
    }

    /// Takes so many rows at once, and notes how many came.
    struct Choosy(usize, Arc<Mutex<Vec<usize>>>);

    impl SinkState for Choosy {
        fn rows_max(&self) -> usize {
            self.0
        }

        fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
            self.1.lock().push(batch.rows());
            Ok(Accept::More)
        }
    }

    #[test]
    fn batches_are_cut_where_less_is_taken_and_where_they_would_become_wide() {
        let context =
            QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets: 1 };
        let batch_bytes = context.batch_bytes();
        let cut = |batch: &Batch, rows_max: usize, operators: usize| {
            let meter = || Meter::new(Arc::default());
            let operators = (0..operators).map(|_| (limit(0, Some(900)).open(&context).unwrap(), meter())).collect();
            let noted = Arc::<Mutex<Vec<usize>>>::default();
            let sink = (Box::new(Choosy(rows_max, noted.clone())) as _, meter());
            let source = (Box::new(Once(Some(batch.clone()))) as _, meter());
            let mut packet = PipelinePacket::new(context.memory.clone(), source, operators, sink);
            let clock = ManualClock::stepping(1);
            while packet.run(&Quantum::new(Waker::noop(), &clock, 1000)).unwrap() != Step::Done {}
            std::mem::take(&mut *noted.lock())
        };
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(batch_bytes / 100)]));
        let text = Batch::from_arrays(vec![text], 1);
        let picked = || text.pick(&vec![0; 1000].into()).unwrap();
        let flat = picked().flatten().unwrap();
        for operators in [0, 1] {
            let rows = if operators == 0 { 1000 } else { 900 };
            assert_eq!(cut(&flat, usize::MAX, operators), [rows], "it is held as it is");
            let rows_max = cut(&flat, 400, operators);
            assert_eq!((rows_max[0], rows_max.len(), rows_max.iter().sum::<usize>()), (400, 3, rows));
            let wide = cut(&picked(), usize::MAX, operators);
            assert_eq!(wide.iter().sum::<usize>(), rows);
            assert!(wide.iter().all(|&rows| rows <= 200) && wide.len() <= 11, "{wide:?}");
        }
    }

    /// Rows that nobody may ask for as long as the sink is full.
    struct Unasked(Arc<AtomicBool>, Option<Batch>);

    impl SourceState for Unasked {
        fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
            assert!(!self.0.load(Ordering::Relaxed), "rows are made for a sink that is full");
            Ok(self.1.take().map_or(Pull::Done, Pull::Batch))
        }
    }

    struct Slow(Arc<AtomicBool>);

    impl SinkState for Slow {
        fn is_full(&mut self, _waker: &Waker) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn push(&mut self, _batch: Batch, waker: &Waker) -> Result<Accept> {
            self.0.store(true, Ordering::Relaxed);
            self.ready(waker)
        }

        fn ready(&mut self, _waker: &Waker) -> Result<Accept> {
            Ok(if self.0.load(Ordering::Relaxed) { Accept::Wait } else { Accept::More })
        }
    }

    #[test]
    fn nothing_is_made_for_a_sink_that_another_packet_has_filled() {
        let full = Arc::new(AtomicBool::new(true));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let source = Unasked(full.clone(), Some(Batch::from_arrays(vec![numbers], 3)));
        let meter = || Meter::new(Arc::default());
        let (source, sink) = ((Box::new(source) as _, meter()), (Box::new(Slow(full.clone())) as _, meter()));
        let mut packet = PipelinePacket::new(QueryMemory::unbounded(), source, Vec::new(), sink);
        let clock = ManualClock::stepping(1);
        let mut turn = || packet.run(&Quantum::new(Waker::noop(), &clock, 1000)).unwrap();
        assert_eq!((turn(), turn()), (Step::Wait, Step::Wait), "woken for another reason, it waits on");
        full.store(false, Ordering::Relaxed);
        assert_eq!((turn(), turn()), (Step::Wait, Step::Wait), "its own batch has filled it");
        full.store(false, Ordering::Relaxed);
        assert_eq!(turn(), Step::Done);
    }

    #[test]
    fn a_full_limit_ends_packets_that_find_nothing() {
        let context =
            QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets: 2 };
        let first_three = limit(0, Some(3));
        let meter = || Meter::new(Arc::default());
        let packet = |rows: Option<Batch>| {
            let operators = vec![(first_three.open(&context).unwrap(), meter())];
            PipelinePacket::new(
                context.memory.clone(),
                (Box::new(Endless(rows)), meter()),
                operators,
                (Box::new(Anything), meter()),
            )
        };
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let (mut finds, mut searches) = (packet(Some(Batch::from_arrays(vec![numbers], 4))), packet(None));
        let clock = ManualClock::stepping(1);
        let turn = |packet: &mut PipelinePacket| packet.run(&Quantum::new(Waker::noop(), &clock, 1000)).unwrap();
        assert_eq!(turn(&mut searches), Step::Yield);
        assert_eq!(turn(&mut finds), Step::Done);
        assert_eq!(turn(&mut searches), Step::Done);
    }
}
