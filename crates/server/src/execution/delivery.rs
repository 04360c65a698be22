//! An answer on its way to a connection, piece by piece: made as fast as the client takes it, and no faster.

use std::future::Future;
use std::time::Duration;

use diligence_base::{Error, Result};
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::unfold;
use tokio::sync::mpsc;

use super::STALLED_AFTER;

/// What makes an answer.
pub(crate) trait Making: Send + 'static {
    /// What a piece is.
    type Piece: Send + 'static;

    /// The next piece; `None` at the end. It may be dropped while it is made, and is not asked again then.
    ///
    /// Fails as the statement does.
    fn piece(&mut self) -> impl Future<Output = Result<Option<Self::Piece>>> + Send;

    /// The client has taken nothing for a while.
    fn stall(&mut self);

    /// How long it may take nothing.
    fn stall_time_max(&self) -> Duration;

    /// Comes back when somebody ends the statement or its session.
    fn stopped(&self) -> BoxFuture<'static, ()>;
}

/// A piece on its way to its connection.
enum Sent<T> {
    Piece(T),
    /// All is there. An answer that ends without it is broken off.
    End,
    Failed(Error),
}

/// The pieces of an answer. An error is the last one: nobody takes a part for the whole. What is `held` is dropped when
/// the client has taken the last one, or goes.
pub(crate) fn delivered<M: Making, H: Send + 'static>(
    making: M,
    held: H,
) -> impl Stream<Item = Result<M::Piece>> + Send {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(deliver(making, sender));
    unfold(Some((receiver, held)), |taking| async move {
        let (mut receiver, held) = taking?;
        match receiver.recv().await {
            Some(Sent::Piece(piece)) => Some((Ok(piece), Some((receiver, held)))),
            Some(Sent::End) => None,
            Some(Sent::Failed(error)) => Some((Err(error), None)),
            None => {
                let error = Error::cancelled().context("the answer broke off, as the client did not read");
                Some((Err(error), None))
            }
        }
    })
}

/// Makes pieces as fast as they are taken, to the end, or until the connection is gone or nothing was taken for too
/// long.
async fn deliver<M: Making>(mut making: M, sender: mpsc::Sender<Sent<M::Piece>>) {
    loop {
        let piece = tokio::select! {
            biased;
            () = sender.closed() => return,
            piece = making.piece() => piece,
        };
        let (piece, is_last) = match piece {
            Ok(Some(piece)) => (Sent::Piece(piece), false),
            Ok(None) => (Sent::End, true),
            Err(error) => (Sent::Failed(error), true),
        };
        let mut waited = Duration::ZERO;
        let mut stopped = making.stopped();
        let place = loop {
            tokio::select! {
                biased;
                place = sender.reserve() => match place {
                    Ok(place) => break place,
                    Err(_) => return,
                },
                // Nothing is held for a client that does not read once others have ended its statement.
                () = &mut stopped, if !is_last => return,
                () = tokio::time::sleep(STALLED_AFTER) => {
                    making.stall();
                    waited += STALLED_AFTER;
                    if waited >= making.stall_time_max() {
                        return;
                    }
                }
            }
        };
        place.send(piece);
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::StreamExt;
    use tokio::sync::Notify;

    use super::*;

    /// An answer without an end.
    struct Endless {
        end: Arc<Notify>,
        is_gone: Arc<AtomicBool>,
    }

    impl Drop for Endless {
        fn drop(&mut self) {
            self.is_gone.store(true, Ordering::Release);
        }
    }

    impl Making for Endless {
        type Piece = u8;

        async fn piece(&mut self) -> Result<Option<u8>> {
            Ok(Some(7))
        }

        fn stall(&mut self) {}

        fn stall_time_max(&self) -> Duration {
            Duration::from_secs(3600)
        }

        fn stopped(&self) -> BoxFuture<'static, ()> {
            let end = self.end.clone();
            Box::pin(async move { end.notified().await })
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_can_be_ended() {
        let (end, is_gone) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let answer = delivered(Endless { end: end.clone(), is_gone: is_gone.clone() }, ());
        tokio::pin!(answer);
        assert!(matches!(answer.next().await, Some(Ok(7))));
        end.notify_one();
        while !is_gone.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // It is broken off, behind what was there.
        let rest = answer.collect::<Vec<_>>().await;
        assert!(rest.last().is_some_and(Result::is_err) && rest.len() < 4, "{}", rest.len());
    }
}
