//! A server: a database with its doors open.
//!
//! The life of a server: [`Server::start`] checks that what was asked for is safe, starts the stages, and listens.
//! [`Server::drain`] closes the doors, lets statements that run come to their end, and ends sessions at rest;
//! [`Server::stop`] ends everything at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_db::Database;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::{POSTGRES_PORT, ServerOptions};
use crate::execution::StatementExecution;
use crate::registry::Registry;
use crate::service::Service;
use crate::telemetry::Telemetry;
use crate::{flight, http, listing, pg, telemetry};

/// A server that runs.
pub struct Server {
    service: Arc<Service>,
    addresses: Addresses,
    /// HTTP's, if it is spoken.
    routes: Option<http::Routes>,
    /// What lets PostgreSQL's clients in, until the doors close.
    doors: parking_lot::Mutex<Vec<JoinHandle<()>>>,
    /// What sends traces and metrics, if somebody wants them.
    telemetry: Option<Telemetry>,
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
    /// Arrow Flight SQL.
    pub flight: Option<SocketAddr>,
}

impl Server {
    /// Opens the doors. Runs on the Tokio runtime of the caller, which only moves bytes for it. Fails with kind `Input`
    /// if what was asked for is not safe, or an endpoint makes no sense; with kind `File` if a certificate or the
    /// folder of endpoints cannot be read; with kind `Resource` if an address is taken or the system has no threads
    /// left.
    pub async fn start(database: Database, options: ServerOptions) -> Result<Arc<Self>> {
        let service = Service::open(database, options)?;
        listing::install(&service);
        let execution = Arc::downgrade(service.execution());
        service.database().show_waiting(move || {
            let waiting = execution.upgrade().map(|execution| execution.admission().waiting()).unwrap_or_default();
            waiting.into_iter().map(|(_, query)| query).collect()
        });
        let registry = Arc::downgrade(service.registry());
        service
            .database()
            .show_activity(move || registry.upgrade().map(|registry| registry.activities()).unwrap_or_default());
        let registry = Arc::downgrade(service.registry());
        service
            .database()
            .stop_sessions_by(move |id, is_end| registry.upgrade().is_some_and(|registry| registry.stop(id, is_end)));
        service.database().prime_functions()?;
        // All are bound before one serves: a port that is taken is an error of the start.
        let options = service.options();
        let postgres = bind(options.postgres).await?;
        let http = bind(options.http).await?;
        let flight = bind(options.flight).await?;
        let address =
            |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let (at_http, at_flight) = (address(&http), address(&flight));
        let mut addresses = Addresses { postgres: address(&postgres), socket: None, http: at_http, flight: at_flight };
        let mut doors = Vec::from_iter(postgres.map(pg::Listener::Network));
        if let Some(directory) = &options.socket_directory {
            let port = addresses.postgres.map_or(POSTGRES_PORT, |address| address.port());
            let path = pg::LocalListener::path(directory, port);
            addresses.socket = Some(path.clone());
            let only_own_user = options.users.is_none();
            doors.push(pg::Listener::Local(pg::LocalListener::bind(path, only_own_user).await?));
        }
        let routes = match http {
            Some(_) => {
                let router = http::router(&service, options.endpoints.as_deref()).await?;
                Some(Arc::new(RwLock::new(router)))
            }
            None => None,
        };
        let doors = doors.into_iter().map(|door| tokio::spawn(pg::listen(service.clone(), door))).collect();
        if let (Some(listener), Some(routes)) = (http, routes.clone()) {
            tokio::spawn(http::listen(service.clone(), listener, routes));
        }
        if let Some(listener) = flight {
            tokio::spawn(flight::listen(service.clone(), listener));
        }
        let telemetry = telemetry::start(&service);
        Ok(Arc::new(Self { service, addresses, routes, doors: parking_lot::Mutex::new(doors), telemetry }))
    }

    /// Where the doors are.
    pub fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    /// How it was set up.
    pub fn options(&self) -> Arc<ServerOptions> {
        self.service.options()
    }

    /// What runs statements.
    pub fn execution(&self) -> &Arc<StatementExecution> {
        self.service.execution()
    }

    /// The sessions.
    pub fn registry(&self) -> &Arc<Registry> {
        self.service.registry()
    }

    /// Takes over what can change while it runs: users, endpoints, whether files may be named, limits of sessions and
    /// statements, what is slow. Sessions that are there keep what they have. Options that were to change as well, and
    /// cannot without a restart. Fails if an endpoint makes no sense or it would not be safe; then nothing is changed.
    pub async fn reload(&self, options: ServerOptions) -> Result<Vec<&'static str>> {
        let router = match self.routes {
            Some(_) => Some(http::router(&self.service, options.endpoints.as_deref()).await?),
            None => None,
        };
        let left = self.service.reload(options)?;
        if let (Some(routes), Some(router)) = (&self.routes, router) {
            *routes.write() = router;
        }
        Ok(left)
    }

    /// Closes the doors and waits until the sessions have ended: those at rest at once, the others with their
    /// statements. Ends those that take longer than the limit for that. True if none had to be.
    pub async fn drain(&self) -> bool {
        self.service.shut_down(false);
        // So that the file of a socket is gone when the process is.
        let doors = std::mem::take(&mut *self.doors.lock());
        for door in doors {
            let _ = door.await;
        }
        let limit = self.options().limits.drain_time_max;
        let drained = tokio::time::timeout(limit, self.service.emptied()).await.is_ok();
        self.stop().await;
        drained
    }

    /// Ends everything at once: statements that run are cancelled, and clients are told.
    pub async fn stop(&self) {
        self.service.shut_down(true);
        // Long enough for a last message; who does not take it has left.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.service.emptied()).await;
        if let Some(telemetry) = &self.telemetry {
            let _ = tokio::time::timeout(Duration::from_secs(2), telemetry.send(&self.service)).await;
        }
    }
}

async fn bind(address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        let failed = Error::resource(format!("cannot listen on {address}: {error}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => failed.with_hint(
                "another program has this port, perhaps a server that runs already; --postgres, --http and --flight \
                 take another port, or off",
            ),
            std::io::ErrorKind::AddrNotAvailable => failed.with_hint("this machine has no such address"),
            std::io::ErrorKind::PermissionDenied => failed.with_hint("ports below 1024 are for administrators"),
            _ => failed,
        }
    })?;
    Ok(Some(listener))
}
