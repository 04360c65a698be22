//! The end of a pipeline whose rows go to several sinks: each batch goes to every branch.
//!
//! ```text
//!                                   +--> Filter --> Mask --> sink      a branch
//!   source --> operators --batch--> +--> sink                          another one
//!                                   +--> Project --> sink
//! ```
//!
//! So rows that several parts of a plan need are made once, and nobody keeps them: each branch takes what it needs of a
//! batch before the next one is made. The slowest sink sets the pace.
//!
//! Invariants:
//! * A sink that has enough gets nothing more; the pipeline ends early only if all have.
//! * A batch has gone to all branches when the next one comes, also if one of them was refused memory for it.

use std::task::Waker;

use diligence_base::{Error, ErrorKind, Result};

use crate::batch::Batch;
use crate::flow::profile::{Counts, Meter};
use crate::flow::{Accept, Flow, OperatorState, Output, SinkState};

/// All branches of one packet, as one sink.
pub(super) struct Branches(Vec<BranchState>);

/// One packet's states of a branch.
pub(super) struct BranchState {
    operators: Vec<(Box<dyn OperatorState>, Output, Meter)>,
    sink: Box<dyn SinkState>,
    meter: Meter,
    takes: Takes,
    is_finished: bool,
}

/// What a branch would do with a batch.
enum Takes {
    More,
    /// Nothing before its sink says so.
    Later,
    /// The same: its sink was refused memory with this error, if it was not passed on, and may be asked again.
    Refused(Option<Error>),
    Nothing,
}

impl BranchState {
    /// Opened states, each with the meter that it counts on. Time is counted for all branches together.
    pub fn new(operators: Vec<(Box<dyn OperatorState>, Meter)>, (sink, meter): (Box<dyn SinkState>, Meter)) -> Self {
        let operators = operators.into_iter().map(|(state, meter)| (state, Output::default(), meter)).collect();
        Self { operators, sink, meter, takes: Takes::More, is_finished: false }
    }

    fn takes_any(&self) -> bool {
        !matches!(self.takes, Takes::Nothing)
    }

    /// Carries a batch from one of its operators on to the sink.
    fn carry(&mut self, from: usize, batch: Batch, waker: &Waker) -> Result<()> {
        if !self.takes_any() {
            return Ok(());
        }
        let Some((state, out, _)) = self.operators.get_mut(from) else {
            self.meter.passed(Counts::of(&batch));
            let answer = self.sink.push(batch, waker);
            return self.hear(answer);
        };
        let mut flow = state.push(batch, out)?;
        loop {
            self.carry_output(from, waker)?;
            match flow {
                Flow::NeedInput => return Ok(()),
                Flow::Done => self.takes = Takes::Nothing,
                Flow::Wait => return Err(Error::bug("an operator of a branch waits")),
                Flow::MoreOutput if self.takes_any() => {
                    let (state, out, _) = &mut self.operators[from];
                    flow = state.more(out)?;
                    continue;
                }
                Flow::MoreOutput => {}
            }
            return Ok(());
        }
    }

    /// Carries on what one of its operators has put out.
    fn carry_output(&mut self, from: usize, waker: &Waker) -> Result<()> {
        while let Some(batch) = self.operators[from].1.take() {
            self.operators[from].2.passed(Counts::of(&batch));
            self.carry(from + 1, batch, waker)?;
        }
        Ok(())
    }

    /// Notes what its sink has said.
    fn hear(&mut self, answer: Result<Accept>) -> Result<()> {
        self.takes = match answer {
            Ok(Accept::More) => Takes::More,
            Ok(Accept::Wait) => Takes::Later,
            Ok(Accept::Enough) => Takes::Nothing,
            Err(error) if error.kind() == ErrorKind::Resource && self.sink.may_ask_again() => {
                Takes::Refused(Some(error))
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Hands over what its states hold, as far as they do so now.
    fn finish(&mut self, waker: &Waker) -> Result<()> {
        for from in 0..self.operators.len() {
            let (state, out, _) = &mut self.operators[from];
            if state.finish(out)? != Flow::Done {
                return Err(Error::bug("an operator of a branch keeps rows"));
            }
            self.carry_output(from, waker)?;
        }
        self.operators.clear();
        let answer = self.sink.finish(waker);
        self.hear(answer)?;
        self.is_finished = !matches!(self.takes, Takes::Later | Takes::Refused(_));
        Ok(())
    }

    fn flush(&mut self) {
        self.operators.iter_mut().for_each(|(_, _, meter)| meter.flush());
        self.meter.flush();
    }
}

impl Branches {
    /// At least one.
    pub fn new(branches: Vec<BranchState>) -> Self {
        Self(branches)
    }

    /// Has branches do something, each in turn. If one fails, nobody is asked again: the others have not had their
    /// turn.
    fn each(&mut self, mut act: impl FnMut(&mut BranchState) -> Result<()>) -> Result<Accept> {
        if let Err(error) = self.0.iter_mut().try_for_each(&mut act) {
            self.0.iter_mut().for_each(|branch| branch.takes = Takes::Nothing);
            return Err(error);
        }
        self.answer()
    }

    /// What all say together.
    fn answer(&mut self) -> Result<Accept> {
        self.0.iter_mut().for_each(BranchState::flush);
        for branch in &mut self.0 {
            if let Takes::Refused(error) = &mut branch.takes
                && let Some(error) = error.take()
            {
                return Err(error);
            }
        }
        if self.0.iter().any(|branch| matches!(branch.takes, Takes::Later | Takes::Refused(_))) {
            return Ok(Accept::Wait);
        }
        Ok(if self.0.iter().any(BranchState::takes_any) { Accept::More } else { Accept::Enough })
    }
}

impl SinkState for Branches {
    fn rows_max(&self) -> usize {
        let live = self.0.iter().filter(|branch| branch.takes_any());
        let of_branch = |branch: &BranchState| {
            let operators = branch.operators.iter().map(|(state, ..)| state.rows_max());
            operators.fold(branch.sink.rows_max(), usize::min)
        };
        live.map(of_branch).min().unwrap_or(usize::MAX)
    }

    fn is_full(&mut self, waker: &Waker) -> bool {
        // Each is asked: whichever is full wakes the packet.
        self.0
            .iter_mut()
            .filter(|branch| branch.takes_any())
            .fold(false, |any, branch| branch.sink.is_full(waker) | any)
    }

    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        self.each(|branch| branch.carry(0, batch.clone(), waker))
    }

    fn at(&mut self, place: Option<usize>) -> Result<()> {
        self.0.iter_mut().try_for_each(|branch| branch.sink.at(place))
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        let any_refused = self.0.iter().any(|branch| matches!(branch.takes, Takes::Refused(_)));
        self.each(|branch| {
            let answer = match branch.takes {
                Takes::Later | Takes::Refused(_) => branch.sink.ready(waker),
                // What it holds may be what another one lacks.
                Takes::More if any_refused && !branch.is_finished => branch.sink.give_back(waker),
                Takes::More | Takes::Nothing => return Ok(()),
            };
            branch.hear(answer)
        })
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        self.each(|branch| {
            if !branch.takes_any() {
                return Ok(());
            }
            let answer = branch.sink.give_back(waker);
            branch.hear(answer)
        })
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        // After it nothing is pushed, whether all take more or not.
        self.each(|branch| if branch.is_finished { Ok(()) } else { branch.finish(waker) })
    }

    fn may_ask_again(&self) -> bool {
        self.0.iter().any(|branch| matches!(branch.takes, Takes::Refused(_)))
    }
}
