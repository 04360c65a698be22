//! A server as a whole process: the network's threads, and signals.
//!
//! SIGTERM and SIGINT drain: no new clients, sessions at rest end, statements that run come to their end. A second one
//! stops at once. SIGHUP has the options read again; one that comes while the database is being opened waits for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diligence_base::{Error, Result};
use diligence_db::Database;
use diligence_db::status::Checkpoints;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::ServerOptions;
use crate::server::{Addresses, Server};

/// Threads that move bytes. Two keep up with several gigabytes a second, and leave the cores to the engine.
const NETWORK_THREADS: usize = 2;

/// How often the folder of data is looked at, and what the database does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks at the folder of data take at most one of so many parts of the time.
const LOOK_SHARE: u32 = 20;

/// The threads of the network, and SIGHUP, which no longer ends the process.
pub struct Network {
    runtime: Runtime,
    hangup: Signal,
}

impl Network {
    /// Starts the threads; from now on SIGHUP is kept until [`serve`](Self::serve) has opened the doors. Fails with
    /// kind `Resource` if the system refuses.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(NETWORK_THREADS)
            .thread_name("diligence-network")
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("no threads for the network: {error}")))?;
        let hangup = {
            let _within = runtime.enter();
            listen(SignalKind::hangup())?
        };
        Ok(Self { runtime, hangup })
    }

    /// Serves until a signal; `ready` is told where. With SIGHUP it takes over what it can of the options that `reload`
    /// gives then; a mistake in them is logged, and everything stays as it is. True if every session came to its own
    /// end.
    pub fn serve(
        self,
        database: Database,
        options: ServerOptions,
        ready: impl FnOnce(Addresses),
        reload: impl Fn() -> Result<ServerOptions> + Send + Sync + 'static,
    ) -> Result<bool> {
        let Self { runtime, hangup } = self;
        let drained = runtime.block_on(served(database, options, hangup, ready, Arc::new(reload)));
        // What still runs on blocking threads is given up.
        runtime.shutdown_background();
        drained
    }
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Error::resource(format!("signals cannot be handled: {error}")))
}

async fn served<F>(
    database: Database,
    options: ServerOptions,
    mut hangup: Signal,
    ready: impl FnOnce(Addresses),
    reload: Arc<F>,
) -> Result<bool>
where
    F: Fn() -> Result<ServerOptions> + Send + Sync + 'static,
{
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let server = Server::start(database.clone(), options).await?;
    tell_start(&server.addresses());
    ready(server.addresses());
    let ending = database.clone();
    tokio::spawn(look_after(database));
    let signal = loop {
        tokio::select! {
            _ = terminate.recv() => break "SIGTERM",
            _ = interrupt.recv() => break "SIGINT",
            _ = hangup.recv() => reloaded(&server, reload.clone()).await,
        }
    };
    tracing::info!(signal, sessions = server.registry().count(), "the server is stopping");
    let draining = {
        let server: Arc<Server> = server.clone();
        tokio::spawn(async move { server.drain().await })
    };
    tokio::pin!(draining);
    let drained = loop {
        tokio::select! {
            drained = &mut draining => break drained.unwrap_or(false),
            _ = terminate.recv() => { server.stop().await; break false }
            _ = interrupt.recv() => { server.stop().await; break false }
            _ = hangup.recv() => {}
        }
    };
    // Sessions that are given up may have the database until the process is gone.
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || ending.rest()).await {
        tracing::warn!(%error, "sequences leave numbers out");
    }
    tracing::info!(drained, "the server has stopped");
    Ok(drained)
}

fn tell_start(addresses: &Addresses) {
    let text = |address: Option<std::net::SocketAddr>| address.map_or("off".to_owned(), |address| address.to_string());
    let socket = addresses.socket.as_ref().map_or("off".to_owned(), |path| path.display().to_string());
    let (postgres, http, flight) = (text(addresses.postgres), text(addresses.http), text(addresses.flight));
    let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(version, process, postgres, socket, http, flight, "the server has started");
}

async fn reloaded<F>(server: &Server, reload: Arc<F>)
where
    F: Fn() -> Result<ServerOptions> + Send + Sync + 'static,
{
    // It reads files, and hashes passwords.
    let options = tokio::task::spawn_blocking(move || reload()).await;
    let options = options.unwrap_or_else(|error| Err(Error::bug(format!("reading the options: {error}"))));
    let done = match options {
        Ok(options) => server.reload(options).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(left) => {
            for option in left {
                tracing::warn!(option, "this option changes with a restart only");
            }
            tracing::info!("SIGHUP: users, endpoints, limits and the log are as the configuration says");
        }
        Err(error) => {
            tracing::error!(%error, "SIGHUP: the configuration has a mistake; users, endpoints and limits stay as they were")
        }
    }
}

/// Tells the log of checkpoints since the last look.
fn tell_checkpoints(before: &Checkpoints, now: &Checkpoints) {
    if now.total > before.total {
        let milliseconds = u64::try_from(now.took.as_millis()).unwrap_or(u64::MAX);
        let (image_bytes, log_bytes) = (now.image_bytes, now.log_bytes);
        tracing::info!(milliseconds, image_bytes, log_bytes, "a checkpoint was made");
    }
    if now.failed_total > before.failed_total
        && let Some(error) = &now.failure
    {
        // A full disk would fill the log as well.
        let is_new = before.failure.as_ref().is_none_or(|known| known.message() != error.message());
        if is_new {
            tracing::error!(%error, "a checkpoint failed; the log of changes grows until one is made");
        }
    }
}

/// Looks at the folder of data and at temporary files from time to time, and tells the log.
async fn look_after(database: Database) {
    let mut rest = LOOK_EVERY;
    let (mut spilled_from, mut spilled_since) = (None, Instant::now());
    let mut last_failure = String::new();
    let mut checkpoints = Checkpoints::default();
    loop {
        tokio::time::sleep(rest).await;
        if let Some(now) = database.checkpoints() {
            tell_checkpoints(&checkpoints, &now);
            checkpoints = now;
        }
        let temp = database.status().temp();
        match spilled_from {
            None if temp.files > 0 => {
                spilled_from = Some(temp.written_bytes_total);
                spilled_since = Instant::now();
                tracing::info!(files = temp.files, "queries do not fit into memory: they use temporary files");
            }
            Some(from) if temp.files == 0 => {
                spilled_from = None;
                let bytes = temp.written_bytes_total.saturating_sub(from);
                let milliseconds = spilled_since.elapsed().as_millis() as u64;
                tracing::info!(bytes, milliseconds, "temporary files are no longer used");
            }
            _ => {}
        }
        if !database.has_data() {
            continue;
        }
        let (own, began) = (database.clone(), Instant::now());
        let Ok(looked) = tokio::task::spawn_blocking(move || own.look_at_data()).await else { continue };
        // A folder with many files is looked at less often.
        rest = LOOK_EVERY.max(began.elapsed() * LOOK_SHARE);
        match looked {
            Ok(changes) => {
                last_failure.clear();
                for table in &changes.appeared {
                    tracing::info!(table, "the folder of data has a new table");
                }
                for table in &changes.gone {
                    tracing::info!(table, "a table of the folder of data is gone");
                }
                for (name, why) in &changes.left_out {
                    tracing::warn!(name, why, "a name in the folder of data is no table");
                }
            }
            Err(error) if error.message() != last_failure => {
                error.message().clone_into(&mut last_failure);
                tracing::warn!(%error, "the folder of data cannot be looked at");
            }
            Err(_) => {}
        }
    }
}
