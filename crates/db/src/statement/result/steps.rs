//! How a result goes from one state to the next ([`Body`](super::Body) has a drawing of them).

use std::sync::atomic::Ordering;
use std::task::{Poll, ready};

use arrow::array::RecordBatch;
use diligence_base::{Error, Result};
use diligence_catalog::locks::{LOCK_NOT_AVAILABLE, MUST_WAIT};
use diligence_engine::query::QueryStream;

use super::super::done::{DoneAtOnce, count_of};
use super::super::held::Held;
use super::super::pull::Pull;
use super::super::ready::ReadyRows;
use super::super::restart::Restarted;
use super::super::second_start::SecondStart;
use super::super::several::Committing;
use super::{Body, QueryResult};

impl QueryResult {
    /// Whether it gives nothing before its work is done.
    pub(super) fn is_working(&self) -> bool {
        match &self.body {
            Body::Write(..) | Body::Held(..) | Body::Waiting(_) | Body::Elsewhere(_) => true,
            Body::Several(_) | Body::Committing(..) => true,
            Body::Ready(_) | Body::Query(_) | Body::Analyze(..) => false,
        }
    }

    /// A step of a statement that gives nothing before it is done. Fails with its error.
    pub(super) fn work(&mut self, pull: &mut Pull<'_, '_>) -> Poll<Result<()>> {
        let may_block = !matches!(pull, Pull::Polled(_));
        let stream = match &mut self.body {
            Body::Write(stream, _) => stream,
            Body::Held(held) => {
                if let Some(rows) = held.next.take() {
                    return match ready!(held.keep(rows, pull)) {
                        Ok(()) => Poll::Ready(Ok(())),
                        Err(error) => Poll::Ready(self.fail(error)),
                    };
                }
                return Poll::Ready(match ready!(pull.batch(&mut held.stream)) {
                    Some(Ok(rows)) => {
                        held.next = Some(rows);
                        Ok(())
                    }
                    Some(Err(error)) => self.failed(error, may_block),
                    None => self.end(),
                });
            }
            Body::Several(run) => {
                let batch = ready!(pull.batch(run.stream_mut()));
                return Poll::Ready(self.several_step(batch, may_block));
            }
            Body::Committing(handle, _) => {
                let ended = ready!(pull.wait(handle));
                let committed = ended.map_err(|error| Error::bug(format!("a commit ended early: {error}")));
                return Poll::Ready(self.committed(committed.and_then(|committed| committed), may_block));
            }
            Body::Waiting(wait) => {
                let waited = ready!(pull.wait(wait));
                return Poll::Ready(match waited {
                    Ok(()) => self.go_on(None, may_block),
                    Err(error) => self.fail(error),
                });
            }
            Body::Elsewhere(work) => {
                ready!(pull.wait(work));
                return Poll::Ready(match work.take() {
                    Ok(rows) => {
                        self.body = Body::Ready(rows);
                        if let (Some(done), Some(counted)) = (&mut self.command, &self.counted) {
                            done.rows = Some(counted.load(Ordering::Acquire));
                        }
                        Ok(())
                    }
                    Err(error) => self.fail(error),
                });
            }
            Body::Ready(_) | Body::Query(_) | Body::Analyze(..) => return Poll::Ready(Ok(())),
        };
        Poll::Ready(match ready!(pull.batch(stream)) {
            Some(Ok(batch)) => {
                let count = count_of(&batch);
                if let Some(done) = &mut self.command {
                    done.rows = Some(done.rows.unwrap_or(0) + count);
                }
                Ok(())
            }
            Some(Err(error)) => self.failed(error, may_block),
            None => self.end(),
        })
    }

    /// What an error leads to: starting anew, if others were in the way.
    fn failed(&mut self, error: Error, may_block: bool) -> Result<()> {
        match error.code() {
            Some("40001" | MUST_WAIT) => self.go_on(Some(error), may_block),
            _ => self.fail(error),
        }
    }

    /// What a batch of one of several statements, or its end, leads to.
    fn several_step(&mut self, batch: Option<Result<RecordBatch>>, may_block: bool) -> Result<()> {
        let Body::Several(run) = &mut self.body else { return Err(Error::bug("a statement is not several")) };
        let error = match batch {
            Some(Ok(batch)) => {
                run.took(batch);
                return Ok(());
            }
            Some(Err(error)) => error,
            None => match run.goes_on() {
                Ok(true) => {
                    let (id, token) = (run.stream().id(), run.stream().cancel_token());
                    self.id = Some(id);
                    return self.token.is_now(Some(token), None).or_else(|error| self.fail(error));
                }
                Ok(false) => return self.several_end(may_block),
                Err(error) => error,
            },
        };
        self.failed(error, may_block)
    }

    /// All of several statements have run.
    fn several_end(&mut self, may_block: bool) -> Result<()> {
        self.last = self.stream().map(|stream| (stream.profile(), stream.progress()));
        let Body::Several(run) = std::mem::replace(&mut self.body, Body::Ready(ReadyRows::default())) else {
            return Err(Error::bug("a statement is not several"));
        };
        let committing = run.commit(may_block);
        match committing {
            Committing::Under(handle) => {
                self.body = Body::Committing(handle, run.end());
                Ok(())
            }
            Committing::Done(committed) => {
                self.body = Body::Several(run);
                self.committed(committed, may_block)
            }
        }
    }

    /// The commit of several statements has ended.
    fn committed(&mut self, committed: Result<()>, may_block: bool) -> Result<()> {
        match committed {
            Ok(()) => {}
            Err(error) if matches!(error.code(), Some("40001" | MUST_WAIT)) => {
                return self.go_on(Some(error), may_block);
            }
            Err(error) => return self.fail(error),
        }
        let end = match std::mem::replace(&mut self.body, Body::Ready(ReadyRows::default())) {
            Body::Several(run) => run.end(),
            Body::Committing(_, end) => end,
            _ => return Err(Error::bug("a statement is not several")),
        };
        (self.locked, self.again) = (None, None);
        if let Some(done) = &mut self.command {
            done.rows = end.count;
        }
        self.body = Body::Ready(end.rows.into());
        Ok(())
    }

    /// It ends with an error, and gives nothing more.
    fn fail(&mut self, error: Error) -> Result<()> {
        self.body = Body::Ready(ReadyRows::default());
        // What it has changed goes with what would start it anew.
        (self.locked, self.again) = (None, None);
        Err(if error.code() == Some(MUST_WAIT) { error.with_code(LOCK_NOT_AVAILABLE) } else { error })
    }

    /// Starts the statement anew, or waits until it can. Fails with the error that ended it if it may not, and as
    /// starting fails.
    pub(super) fn go_on(&mut self, error: Option<Error>, may_block: bool) -> Result<()> {
        let restarted = match (&mut self.again, error) {
            (Some(again), error) => again(error, may_block),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::bug("nothing says how a statement goes on")),
        };
        let is_now = match restarted {
            Ok(Restarted::Writes(stream, returned)) => self.runs(&stream).map(|()| Body::Write(stream, returned)),
            Ok(Restarted::Reads(stream, kept)) => self.runs(&stream).map(|()| Body::Held(Held::new(stream, kept))),
            Ok(Restarted::Analyzes(stream, plan)) => self.runs(&stream).map(|()| Body::Analyze(stream, plan)),
            Ok(Restarted::Several(run)) => self.runs(run.stream()).map(|()| Body::Several(run)),
            Ok(Restarted::Waits(wait)) => self.token.is_now(None, Some(wait.ender())).map(|()| Body::Waiting(wait)),
            Ok(Restarted::Done(DoneAtOnce { rows, count })) => {
                self.end()?;
                if let Some(done) = &mut self.command {
                    done.rows = count.or(done.rows);
                }
                self.body = Body::Ready(rows.into());
                return Ok(());
            }
            Err(error) => Err(error),
        };
        match is_now {
            Ok(body) => {
                self.body = body;
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    /// Starts the query again, as one that waits for more memory.
    fn start_again(&mut self, mut second_start: Box<SecondStart>) -> Result<()> {
        // What it holds goes before it asks for more.
        self.body = Body::Ready(ReadyRows::default());
        let stream = second_start.start()?;
        self.runs(&stream)?;
        self.body = Body::Query(stream);
        self.second_start = Some(second_start);
        Ok(())
    }

    /// A query runs for it from now on. Fails if it has been cancelled.
    fn runs(&mut self, stream: &QueryStream) -> Result<()> {
        self.id = Some(stream.id());
        self.printed = stream.printed();
        self.token.is_now(Some(stream.cancel_token()), None)
    }

    /// The query that runs for it now.
    pub(super) fn stream(&self) -> Option<&QueryStream> {
        match &self.body {
            Body::Ready(_) | Body::Waiting(_) | Body::Elsewhere(_) | Body::Committing(..) => None,
            Body::Several(run) => Some(run.stream()),
            Body::Held(held) => Some(&held.stream),
            Body::Query(stream) | Body::Write(stream, _) | Body::Analyze(stream, _) => Some(stream),
        }
    }

    /// The next batch for the reader, asking for as many of the query's as it takes.
    pub(super) fn advance(&mut self, pull: &mut Pull<'_, '_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            let ended = match &mut self.body {
                Body::Ready(rows) => return pull.rows(rows),
                Body::Query(stream) => {
                    let batch = ready!(pull.batch(stream));
                    let second_start = self.second_start.take();
                    match (&batch, second_start) {
                        (Some(Err(error)), Some(second_start)) if second_start.is_for(error) => {
                            if let Err(error) = self.start_again(second_start) {
                                return Poll::Ready(Some(Err(error)));
                            }
                            continue;
                        }
                        _ => return Poll::Ready(batch),
                    }
                }
                Body::Write(..)
                | Body::Held(..)
                | Body::Waiting(_)
                | Body::Elsewhere(_)
                | Body::Several(_)
                | Body::Committing(..) => match ready!(self.work(pull)) {
                    Ok(()) => continue,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
                Body::Analyze(stream, _) => match ready!(pull.batch(stream)) {
                    Some(Ok(_)) => Ok(false),
                    Some(Err(error)) => match self.failed(error, !matches!(pull, Pull::Polled(_))) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                    None => Ok(true),
                },
            };
            match ended {
                Ok(false) => {}
                Ok(true) => {
                    if let Err(error) = self.end() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Err(error) => {
                    self.body = Body::Ready(ReadyRows::default());
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// The query has given all its rows.
    fn end(&mut self) -> Result<()> {
        self.last = self.stream().map(|stream| (stream.profile(), stream.progress()));
        self.locked = None;
        match std::mem::replace(&mut self.body, Body::Ready(ReadyRows::default())) {
            Body::Analyze(stream, plan) => {
                self.body = Body::Ready(vec![plan.ran(&stream)?].into());
            }
            Body::Write(_, Some(returned)) => self.body = Body::Ready(returned.take().into()),
            Body::Held(held) => self.body = Body::Ready(ReadyRows::kept(held.kept)),
            Body::Ready(_)
            | Body::Query(_)
            | Body::Write(_, None)
            | Body::Waiting(_)
            | Body::Elsewhere(_)
            | Body::Several(_)
            | Body::Committing(..) => {}
        }
        Ok(())
    }
}
