//! An answer on its way to a connection, piece by piece: made as fast as the client takes it, and no faster.

use std::future::Future;
use std::time::Duration;

use diligence_base::{Error, Result};
use futures::Stream;
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
        let place = loop {
            match tokio::time::timeout(STALLED_AFTER, sender.reserve()).await {
                Ok(Ok(place)) => break place,
                Ok(Err(_)) => return,
                Err(_) => {
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
