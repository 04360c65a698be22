//! A server: a database with its doors open.
//!
//! The life of a server: [`Server::start`] checks that what was asked for is safe, starts the stages, and listens.
//! [`Server::drain`] closes the doors, lets statements that run come to their end, and ends sessions at rest;
//! [`Server::stop`] ends everything at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_db::Database;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::{POSTGRES_PORT, ServerOptions, TlsFiles};
use crate::path::Path;
use crate::registry::Registry;
use crate::{http, listing, pg, scram};

/// How long a client may take none of a query's rows before the query is said to be stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(1);

/// A server that runs.
pub struct Server {
    options: ServerOptions,
    path: Arc<Path>,
    registry: Arc<Registry>,
    connecting: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
    secret: Vec<u8>,
    stop: Stop,
    addresses: parking_lot::Mutex<Addresses>,
    /// What lets PostgreSQL's clients in, until the doors close.
    doors: parking_lot::Mutex<Vec<JoinHandle<()>>>,
}

/// Where the doors are; of port 0, the port that the system chose.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// PostgreSQL's protocol.
    pub postgres: Option<SocketAddr>,
    /// PostgreSQL's protocol, over a socket among this machine's files.
    pub socket: Option<PathBuf>,
    /// HTTP.
    pub http: Option<SocketAddr>,
}

#[derive(Default)]
struct Stop {
    soft: AtomicBool,
    hard: AtomicBool,
    told: Notify,
}

impl Server {
    /// Opens the doors. Runs on the Tokio runtime of the caller, which only moves bytes for it.
    pub async fn start(database: Database, options: ServerOptions) -> Result<Arc<Self>> {
        options.check()?;
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        if let Some(users) = &options.users {
            database.set_users(users.rights());
        }
        let path = Path::open(database, options.path, options.limits.result_rows_max)?;
        let server = Arc::new(Self {
            connecting: Arc::new(Semaphore::new(options.limits.connecting_max)),
            registry: Arc::default(),
            tls,
            secret: scram::random(32)?,
            stop: Stop::default(),
            addresses: parking_lot::Mutex::default(),
            doors: parking_lot::Mutex::default(),
            path,
            options,
        });
        listing::install(&server);
        let door = Arc::downgrade(server.path());
        server.path().database().show_waiting(move || {
            let waiting = door.upgrade().map(|path| path.admission().waiting()).unwrap_or_default();
            waiting.into_iter().map(|(_, query)| query).collect()
        });
        // Both are bound before one serves: a port that is taken is an error of the start.
        let postgres = bind(server.options.postgres).await?;
        let http = bind(server.options.http).await?;
        let address =
            |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let mut addresses = Addresses { postgres: address(&postgres), socket: None, http: address(&http) };
        let mut doors = Vec::from_iter(postgres.map(pg::Listener::Network));
        if let Some(directory) = &server.options.socket_directory {
            let port = addresses.postgres.map_or(POSTGRES_PORT, |address| address.port());
            let path = pg::LocalListener::path(directory, port);
            addresses.socket = Some(path.clone());
            let only_own_user = server.options.users.is_none();
            doors.push(pg::Listener::Local(pg::LocalListener::bind(path, only_own_user).await?));
        }
        *server.addresses.lock() = addresses;
        *server.doors.lock() = doors.into_iter().map(|door| tokio::spawn(pg::listen(server.clone(), door))).collect();
        if let Some(listener) = http {
            let router = http::router(&server)?;
            tokio::spawn(http::listen(server.clone(), listener, router));
        }
        Ok(server)
    }

    /// Where the doors are.
    pub fn addresses(&self) -> Addresses {
        self.addresses.lock().clone()
    }

    /// How it was set up.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The way of a statement.
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The sessions.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub(crate) fn connecting(&self) -> &Arc<Semaphore> {
        &self.connecting
    }

    pub(crate) fn tls(&self) -> Option<&TlsAcceptor> {
        self.tls.as_ref()
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Whether the doors are closed.
    pub fn is_stopping(&self) -> bool {
        self.stop.soft.load(Ordering::Acquire)
    }

    /// Ends when the server is told to stop: for those that are at rest.
    pub async fn stopping(&self) {
        self.told(&self.stop.soft).await;
    }

    /// Ends when everything is to end at once.
    pub async fn stopping_hard(&self) {
        self.told(&self.stop.hard).await;
    }

    async fn told(&self, flag: &AtomicBool) {
        loop {
            let told = self.stop.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if flag.load(Ordering::Acquire) {
                return;
            }
            told.await;
        }
    }

    /// Closes the doors and waits until the sessions have ended: those at rest at once, the others with their
    /// statements. Ends those that take longer than the limit for that. True if none had to be.
    pub async fn drain(&self) -> bool {
        self.stop.soft.store(true, Ordering::Release);
        self.stop.told.notify_waiters();
        // So that the file of a socket is gone when the process is.
        let doors = std::mem::take(&mut *self.doors.lock());
        for door in doors {
            let _ = door.await;
        }
        let limit = self.options.limits.drain_time_max;
        let drained = tokio::time::timeout(limit, self.emptied()).await.is_ok();
        self.stop().await;
        drained
    }

    /// Ends everything at once: statements that run are cancelled, and clients are told.
    pub async fn stop(&self) {
        self.stop.soft.store(true, Ordering::Release);
        self.stop.hard.store(true, Ordering::Release);
        self.stop.told.notify_waiters();
        // Long enough for a last message; who does not take it has left.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.emptied()).await;
    }

    async fn emptied(&self) {
        loop {
            let ended = self.registry.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.registry.count() == 0 {
                return;
            }
            ended.await;
        }
    }
}

async fn bind(address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Error::resource(format!("cannot listen on {address}: {error}")))?;
    Ok(Some(listener))
}

/// TLS 1.2 and 1.3 with these files.
fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let wrong =
        |path: &std::path::Path, error: &dyn std::fmt::Display| Error::file(format!("{}: {error}", path.display()));
    let path = &files.certificates;
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| wrong(path, &error))?;
    if certificates.is_empty() {
        return Err(wrong(path, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::bug(format!("TLS: {error}")))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| wrong(&files.key, &error))?;
    config.alpn_protocols = vec![b"postgresql".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
