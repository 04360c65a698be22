//! How a server is set up: where it listens, who may come, and its limits.
//!
//! Users are in a TOML file, with their roles ([`roles`](crate::roles)):
//!
//! ```toml
//! [users.ann]
//! password = "SCRAM-SHA-256$4096:…"   # what `diligence serve --hash-password` prints, or a plain password
//! role = "analyst"                    # may do what the role says; everything but files if left out
//! files = true                        # may name files and URLs of the server, beside what the role says
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_db::Database;
use diligence_db::rights::Rights;
use serde::Deserialize;

use crate::collector::Collector;
use crate::execution::ExecutionOptions;
use crate::roles::{Role, RoleEntry, roles};
use crate::scram::Verifier;

/// How far workers stand back behind the threads of the network unless it is said otherwise, as nice(2) counts it.
/// Beside 50 heavy queries a `SELECT 1` waits less than with 0 (docs/benchmarks.md); with 10 less still, but other
/// programs on the machine would take more.
pub const WORKER_NICE: u8 = 5;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where PostgreSQL's protocol is spoken; nowhere if `None`.
    pub postgres: Option<SocketAddr>,
    /// The directory of a socket for programs of this machine, `.s.PGSQL.PORT` with the port of `postgres`; none if
    /// `None`. Without users only the server's own user can connect to it.
    pub socket_directory: Option<PathBuf>,
    /// Where HTTP is; nowhere if `None`.
    pub http: Option<SocketAddr>,
    /// Where Arrow Flight SQL is; nowhere if `None`.
    pub flight: Option<SocketAddr>,
    /// Who may come; anybody if `None`, which is allowed on loopback only.
    pub users: Option<Users>,
    /// The certificate chain and key, as PEM files. With them every connection must be encrypted.
    pub tls: Option<TlsFiles>,
    /// A folder of `.sql` files that are served as HTTP endpoints.
    pub endpoints: Option<PathBuf>,
    /// Whether tables, columns and functions that endpoints name must be there when the server starts.
    pub check_endpoints: bool,
    /// Whether strangers on loopback may name files, when there are no users.
    pub files: bool,
    /// Limits.
    pub limits: Limits,
    /// The stages, and how many queries run.
    pub execution: ExecutionOptions,
    /// The collector of OpenTelemetry that gets traces and metrics; nobody if `None`.
    pub collector: Option<Collector>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            postgres: Some(SocketAddr::from(([127, 0, 0, 1], POSTGRES_PORT))),
            socket_directory: None,
            http: None,
            flight: None,
            users: None,
            tls: None,
            endpoints: None,
            check_endpoints: false,
            files: false,
            limits: Limits::default(),
            execution: ExecutionOptions::default(),
            collector: None,
        }
    }
}

/// The port when none is named: not PostgreSQL's own, which may be in use.
pub const POSTGRES_PORT: u16 = 5433;
/// HTTP's port when none is named.
pub const HTTP_PORT: u16 = 8123;
/// Arrow Flight SQL's port when none is named: the one that its clients' examples have.
pub const FLIGHT_PORT: u16 = 31337;

/// PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it.
    pub certificates: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What one client may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at once.
    pub sessions_max: usize,
    /// Clients that are connecting, and not yet sessions, at once.
    pub connecting_max: usize,
    /// How long connecting may take, log-in included.
    pub connect_time_max: Duration,
    /// Bytes of one message, a statement's text or parameters among them.
    pub message_bytes_max: usize,
    /// Bytes of one message to the door of Arrow Flight SQL: its clients send rows in batches as large as they have.
    pub flight_message_bytes_max: usize,
    /// How long a client may take no data before its session ends.
    pub stall_time_max: Duration,
    /// How long a statement may run when the client does not say; 0 for as long as it takes.
    pub statement_time_max: Duration,
    /// Rows that a statement may give; as many as it has if `None`.
    pub result_rows_max: Option<u64>,
    /// How long sessions may take to end when the server is told to stop.
    pub drain_time_max: Duration,
}

impl Default for Limits {
    /// A session at rest has some 30 KiB, so ten thousand have 300 MiB. Messages are as large as the largest statement
    /// that is planned (`STATEMENT_BYTES_MAX`) four times over, for its parameters.
    fn default() -> Self {
        Self {
            sessions_max: 10_000,
            connecting_max: 256,
            connect_time_max: Duration::from_secs(30),
            message_bytes_max: 64 << 20,
            flight_message_bytes_max: 256 << 20,
            stall_time_max: Duration::from_secs(600),
            statement_time_max: Duration::ZERO,
            result_rows_max: None,
            drain_time_max: Duration::from_secs(30),
        }
    }
}

/// Who may come.
#[derive(Clone, Debug)]
pub struct Users(BTreeMap<String, User>);

/// One of them.
#[derive(Clone, Debug)]
pub struct User {
    /// What is kept of the password.
    pub verifier: Verifier,
    /// What the user may do.
    pub role: Arc<Role>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    users: BTreeMap<String, UserEntry>,
    #[serde(default)]
    roles: BTreeMap<String, RoleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    password: String,
    role: Option<String>,
    #[serde(default)]
    files: bool,
}

impl Users {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::file(format!("{}: the file of users cannot be read: {error}", path.display())))?;
        Self::parse(&text).map_err(|error| error.context(path.display()))
    }

    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let file: UserFile = toml::from_str(text).map_err(|error| Error::input(error.to_string().trim().to_owned()))?;
        let roles = roles(file.roles)?;
        let users = file.users.into_iter().map(|(name, entry)| {
            if name.is_empty() {
                return Err(Error::input("a user has no name"));
            }
            if entry.password.is_empty() {
                return Err(Error::input(format!("the user '{name}' has no password")));
            }
            let verifier = match Verifier::parse(&entry.password) {
                Some(verifier) => verifier,
                None if entry.password.starts_with("SCRAM-SHA-256$") => {
                    return Err(Error::input(format!("the password of '{name}' is no SCRAM-SHA-256 verifier")));
                }
                None => Verifier::of_password(&entry.password)?,
            };
            let role = match &entry.role {
                None => Role::none(entry.files),
                Some(wanted) => {
                    let role = roles.get(wanted);
                    let role =
                        role.ok_or_else(|| Error::input(format!("no role is named '{wanted}'")).context(&name))?;
                    if entry.files { role.with_files() } else { role.clone() }
                }
            };
            Ok((name, User { verifier, role: Arc::new(role) }))
        });
        Ok(Self(users.collect::<Result<_>>()?))
    }

    /// What each user may do with relations.
    pub fn rights(&self) -> BTreeMap<String, Arc<Rights>> {
        self.0.iter().map(|(name, user)| (name.clone(), user.role.rights.clone())).collect()
    }

    /// A user by name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.0.get(name)
    }
}

/// Who comes under a name: a user of the file, or a role that statements have made and one may log in as. `None` for
/// nobody. Without a file everybody may come, and has no password.
pub(crate) fn user_named(users: Option<&Users>, database: &Database, name: &str) -> Option<User> {
    let in_file = users.and_then(|users| users.get(name)).cloned();
    in_file.or_else(|| {
        let definition = database.role(name).filter(|role| role.logs_in && role.is_valid())?;
        let verifier = Verifier::parse(definition.password.as_deref()?)?;
        Some(User { verifier, role: Arc::new(Role::of_catalog(&definition, false)) })
    })
}

impl ServerOptions {
    /// What is another in `wanted`, and cannot change while a server runs: names of options.
    pub(crate) fn unlike(&self, wanted: &Self) -> Vec<&'static str> {
        let paths = |tls: &Option<TlsFiles>| tls.as_ref().map(|tls| (tls.certificates.clone(), tls.key.clone()));
        let (limits, wanted_limits) = (&self.limits, &wanted.limits);
        let (execution, wanted_execution) = (&self.execution, &wanted.execution);
        let same = [
            ("postgres", self.postgres == wanted.postgres),
            ("socket", self.socket_directory == wanted.socket_directory),
            ("http", self.http == wanted.http),
            ("flight", self.flight == wanted.flight),
            ("users", self.users.is_some() == wanted.users.is_some()),
            ("tls-certificate", paths(&self.tls) == paths(&wanted.tls)),
            ("otlp", self.collector == wanted.collector),
            ("running-max", execution.running_max == wanted_execution.running_max),
            ("heavy-max", execution.heavy_max == wanted_execution.heavy_max),
            ("queue-max", execution.queue_max == wanted_execution.queue_max),
            ("result-rows-max", limits.result_rows_max == wanted_limits.result_rows_max),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }

    /// Refuses what is of no use, a server without a door, and what is not safe: strangers beyond loopback, and
    /// passwords in the clear.
    pub fn check(&self) -> Result<()> {
        let doors = [self.postgres, self.http, self.flight];
        if doors.iter().all(Option::is_none) && self.socket_directory.is_none() {
            return Err(Error::input("a server without PostgreSQL's protocol, HTTP and Flight SQL serves nobody")
                .with_hint("leave out --postgres off or --http off, or name a directory with --socket"));
        }
        for address in doors.into_iter().flatten() {
            if address.ip().is_loopback() {
                continue;
            }
            if self.users.is_none() {
                return Err(Error::input(format!("{address} is beyond loopback, so users have to log in"))
                    .with_hint("name a file of users with --users, or listen on 127.0.0.1"));
            }
            let in_the_clear = [(self.http, "HTTP"), (self.flight, "Flight SQL")];
            let in_the_clear = in_the_clear.into_iter().find(|(door, _)| *door == Some(address));
            if let Some((_, door)) = in_the_clear.filter(|_| self.tls.is_none()) {
                return Err(Error::input(format!(
                    "{door} on {address} is beyond loopback, where passwords must be encrypted"
                ))
                .with_hint("give a certificate with --tls-certificate and --tls-key"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_and_mistakes_are_named() {
        let users = Users::parse("[users.ann]\npassword = 'pw'\nfiles = true\n[users.bob]\npassword = 'x'").unwrap();
        assert!(users.get("ann").unwrap().role.files && !users.get("bob").unwrap().role.files);
        assert!(users.get("ann").unwrap().verifier.fits("pw"));
        assert!(users.get("eve").is_none());
        for wrong in ["", "[users.ann]", "[users.ann]\npassword = ''", "[users.ann]\npassword = 'x'\nroot = true"] {
            assert!(Users::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_has_a_door() {
        let mut options = ServerOptions { postgres: None, ..ServerOptions::default() };
        assert!(options.check().unwrap_err().message().contains("serves nobody"));
        options.socket_directory = Some(PathBuf::from("/run"));
        assert!(options.check().is_ok());
    }

    #[test]
    fn strangers_stay_on_loopback() {
        let mut options = ServerOptions::default();
        assert!(options.check().is_ok());
        options.postgres = Some("0.0.0.0:5433".parse().unwrap());
        assert!(options.check().unwrap_err().message().contains("log in"));
        options.users = Some(Users::parse("[users.ann]\npassword = 'pw'").unwrap());
        assert!(options.check().is_ok());
        for http in [true, false] {
            let address = Some("0.0.0.0:8123".parse().unwrap());
            (options.http, options.flight) = if http { (address, None) } else { (None, address) };
            let error = options.check().unwrap_err();
            assert!(error.message().contains("encrypted"), "{error}");
        }
    }
}
