//! The service: what all doors of a server have in common, and how they are told that it ends.
//!
//! Doors hold it, not the [server](crate::server): they can neither open nor close each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use diligence_base::{Error, Result};
use diligence_db::Database;
use parking_lot::RwLock;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::{Limits, ServerOptions, TlsFiles, user_named};
use crate::execution::StatementExecution;
use crate::registry::Registry;
use crate::roles::Role;
use crate::scram::{self, Verifier};

/// What the doors serve: statement execution over a database, and the sessions that are there.
pub struct Service {
    options: RwLock<Arc<ServerOptions>>,
    execution: Arc<StatementExecution>,
    registry: Arc<Registry>,
    connecting: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
    tls_flight: Option<TlsAcceptor>,
    secret: Vec<u8>,
    shutdown: Shutdown,
}

/// The signal to end. *Soft* ends what is at rest, *hard* everything.
#[derive(Default)]
struct Shutdown {
    soft: AtomicBool,
    hard: AtomicBool,
    changed: Notify,
}

impl Shutdown {
    async fn wait_for(&self, flag: &AtomicBool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if flag.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }
}

impl Service {
    /// Checks that what was asked for is safe, and starts the stages. Fails with kind `Input` if it is not safe, with
    /// kind `File` if a certificate cannot be read, and with kind `Resource` if the system has no threads left.
    pub(crate) fn open(database: Database, options: ServerOptions) -> Result<Arc<Self>> {
        options.check()?;
        let tls = |protocols: &[&str]| options.tls.as_ref().map(|files| acceptor(files, protocols)).transpose();
        let (tls, tls_flight) = (tls(&["postgresql", "http/1.1"])?, tls(&["h2"])?);
        if let Some(users) = &options.users {
            database.set_users(users.rights());
        }
        let execution = StatementExecution::open(database, options.execution, options.limits.result_rows_max)?;
        Ok(Arc::new(Self {
            connecting: Arc::new(Semaphore::new(options.limits.connecting_max)),
            registry: Arc::default(),
            tls,
            tls_flight,
            secret: scram::random(32)?,
            shutdown: Shutdown::default(),
            execution,
            options: RwLock::new(Arc::new(options)),
        }))
    }

    /// How it is set up.
    pub fn options(&self) -> Arc<ServerOptions> {
        self.options.read().clone()
    }

    /// Takes over what can change while it runs: users, whether files may be named, limits of sessions and statements,
    /// and what is slow. Sessions that are there keep what they have. What was to change as well, and cannot. Fails
    /// with kind `Input` if it would not be safe; then nothing is changed.
    pub(crate) fn reload(&self, wanted: ServerOptions) -> Result<Vec<&'static str>> {
        let mut options = self.options.write();
        let now = options.as_ref();
        let left = now.unlike(&wanted);
        let mut next = ServerOptions { files: wanted.files, endpoints: wanted.endpoints, ..now.clone() };
        // Whether anybody may come is what the doors were opened for.
        if now.users.is_some() == wanted.users.is_some() {
            next.users = wanted.users;
        }
        next.limits = Limits {
            connecting_max: now.limits.connecting_max,
            result_rows_max: now.limits.result_rows_max,
            message_bytes_max: now.limits.message_bytes_max,
            flight_message_bytes_max: now.limits.flight_message_bytes_max,
            ..wanted.limits
        };
        next.execution.slow_statement = wanted.execution.slow_statement;
        next.check()?;
        if let Some(users) = &next.users {
            self.database().set_users(users.rights());
        }
        self.execution.measures().slow_from(next.execution.slow_statement);
        *options = Arc::new(next);
        Ok(left)
    }

    /// What runs statements.
    pub fn execution(&self) -> &Arc<StatementExecution> {
        &self.execution
    }

    /// The database.
    pub fn database(&self) -> &Database {
        self.execution.database()
    }

    /// The sessions.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Places for clients that are connecting.
    pub(crate) fn connecting(&self) -> &Arc<Semaphore> {
        &self.connecting
    }

    pub(crate) fn tls(&self) -> Option<&TlsAcceptor> {
        self.tls.as_ref()
    }

    /// As [`tls`](Self::tls), for the door that speaks HTTP/2.
    pub(crate) fn tls_flight(&self) -> Option<&TlsAcceptor> {
        self.tls_flight.as_ref()
    }

    /// What a user may do who shows this password; `None` if it is wrong, or there is no such user. Fails with kind
    /// `Resource` if the server is stopping.
    pub(crate) async fn log_in(
        &self,
        user: &str,
        password: String,
        (door, peer): (&'static str, &str),
    ) -> Result<Option<Arc<Role>>> {
        let known = user_named(self.options().users.as_ref(), self.database(), user);
        // Hashing takes as long for a user who does not exist.
        let fits = move || match known {
            Some(known) => Ok(known.verifier.fits(&password).then_some(known.role)),
            None => {
                let _ = Verifier::of_password(&password);
                Ok(None)
            }
        };
        let role = self.execution.compute(fits).await?;
        if role.is_none() {
            tracing::warn!(user, door, peer, "a log-in failed");
        }
        Ok(role)
    }

    /// Random bytes that nobody else knows, other ones for each process.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Whether new clients are turned away.
    pub fn is_stopping(&self) -> bool {
        self.shutdown.soft.load(Ordering::Acquire)
    }

    /// Ends when the server is told to stop: for those that are at rest.
    pub async fn stopping(&self) {
        self.shutdown.wait_for(&self.shutdown.soft).await;
    }

    /// Ends when everything is to end at once.
    pub async fn stopping_hard(&self) {
        self.shutdown.wait_for(&self.shutdown.hard).await;
    }

    /// Tells all doors and sessions to end: with `at_once` also those with statements that run.
    pub(crate) fn shut_down(&self, at_once: bool) {
        self.shutdown.soft.store(true, Ordering::Release);
        if at_once {
            self.shutdown.hard.store(true, Ordering::Release);
        }
        self.shutdown.changed.notify_waiters();
    }

    /// Ends when there are no sessions.
    pub(crate) async fn emptied(&self) {
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

/// What follows the scheme in an `Authorization` header, if it is that one.
pub(crate) fn credentials_of<'h>(scheme: &str, header: &'h str) -> Option<&'h str> {
    let (found, rest) = header.split_once(' ')?;
    found.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

/// The user and the password of an `Authorization: Basic …` header.
pub(crate) fn basic_credentials(header: &str) -> Option<(String, String)> {
    // Arrow's client for Go leaves the padding out.
    let encoded = credentials_of("Basic", header)?.trim_end_matches('=');
    let decoded = base64::engine::general_purpose::STANDARD_NO_PAD.decode(encoded).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// TLS 1.2 and 1.3 with these files, for clients of these protocols.
fn acceptor(files: &TlsFiles, protocols: &[&str]) -> Result<TlsAcceptor> {
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
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_read_with_and_without_padding() {
        for header in ["Basic YW5uOnNlY3JldA==", "basic YW5uOnNlY3JldA", "Basic  YW5uOnNlY3JldA= "] {
            assert_eq!(basic_credentials(header), Some(("ann".to_owned(), "secret".to_owned())), "{header}");
        }
        for header in ["Bearer YW5uOnNlY3JldA==", "Basic", "Basic YW5u", "Basic %"] {
            assert_eq!(basic_credentials(header), None, "{header}");
        }
    }
}
