//! A server as a whole process: the network's threads, and signals.
//!
//! SIGTERM and SIGINT drain: no new clients, sessions at rest end, statements that run come to their end. A second one
//! stops at once.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_db::Database;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::ServerOptions;
use crate::server::{Addresses, Server};

/// Threads that move bytes. Two keep up with several gigabytes a second, and leave the cores to the engine.
const NETWORK_THREADS: usize = 2;

/// Serves until a signal; `ready` is told where. True if every session came to its own end.
pub fn serve(database: Database, options: ServerOptions, ready: impl FnOnce(Addresses)) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("diligence-network")
        .enable_all()
        .build()
        .map_err(|error| Error::resource(format!("no threads for the network: {error}")))?;
    let drained = runtime.block_on(async {
        let listen =
            |kind| signal(kind).map_err(|error| Error::resource(format!("signals cannot be handled: {error}")));
        let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let server = Server::start(database, options).await?;
        ready(server.addresses());
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let draining = {
            let server: Arc<Server> = server.clone();
            tokio::spawn(async move { server.drain().await })
        };
        tokio::pin!(draining);
        tokio::select! {
            drained = &mut draining => Ok::<_, Error>(drained.unwrap_or(false)),
            _ = terminate.recv() => { server.stop().await; Ok(false) }
            _ = interrupt.recv() => { server.stop().await; Ok(false) }
        }
    });
    // What still runs on blocking threads is given up.
    runtime.shutdown_background();
    drained
}
