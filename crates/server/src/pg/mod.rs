//! PostgreSQL's protocol, version 3: what psql, drivers and BI tools speak.
//!
//! pgwire has the messages; what happens on them is here. The life of a connection: [`startup`] lets it in, [`session`]
//! answers its messages until it leaves. A session is a future of some kilobytes on the network's few threads, which
//! only move bytes: what takes time goes through the stages ([`crate::execution`]), and what a slow client does not
//! take stays in its own buffers.

mod alike;
#[cfg(test)]
mod alike_tests;
mod constants;
pub(crate) mod copied_file;
mod copy;
mod copying;
mod cursor;
mod cursors;
mod deadlines;
#[cfg(test)]
mod driver_tests;
mod implicit;
#[cfg(test)]
mod implicit_tests;
mod listener;
mod portal;
#[cfg(test)]
mod role_tests;
mod run;
mod session;
mod startup;
mod templates;
#[cfg(test)]
mod tests;
mod trouble;
mod waits;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use self::copy::CopyDecoder;
use self::listener::Peer;
pub(crate) use self::listener::{Listener, LocalListener};
use crate::accepting::Socket;
use crate::service::Service;
use crate::stages::Counted;

/// Takes connections until the server stops.
pub(crate) async fn listen(service: Arc<Service>, listener: Listener) {
    loop {
        // The connect stage: who finds no place here waits in the system's own queue.
        let accept = async {
            let place = service.connecting().clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accept => accepted,
            () = service.stopping() => return,
        };
        let Ok(place) = place else { return };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, most likely: others have to leave first.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let service = service.clone();
        tokio::spawn(async move { serve(service, stream, peer, place).await });
    }
}

async fn serve(service: Arc<Service>, stream: Box<dyn Socket>, peer: Peer, place: tokio::sync::OwnedSemaphorePermit) {
    let registry = service.registry().clone();
    let connecting = Counted::new(&registry.connecting);
    let limit = service.options().limits.connect_time_max;
    let arrival = tokio::time::timeout(limit, startup::arrive(&service, stream, peer)).await;
    drop(connecting);
    drop(place);
    match arrival {
        Ok(Some(arrival)) => session::run(service, arrival, peer).await,
        Ok(None) => {}
        Err(_) => {
            registry.refused_total.fetch_add(1, Ordering::Relaxed);
        }
    }
}
