//! The server under test, as a process of its own, and what the system and the server say of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use diligence_client::Address;
use diligence_db::{Database, DatabaseOptions};
use diligence_server::ServerOptions;
use diligence_server::config::WORKER_NICE;
use diligence_server::process::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The argument with which this program is the server.
pub const SERVE: &str = "serve-for-a-bad-day";

/// How long a server may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves until a signal, with so much memory, and says where.
pub fn serve(memory_bytes: Option<usize>) -> ExitCode {
    let (workers, worker_nice) = (Some(2), WORKER_NICE);
    let options = DatabaseOptions { memory_bytes, workers, worker_nice, ..DatabaseOptions::default() };
    let loopback = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = ServerOptions { postgres: loopback, http: loopback, ..ServerOptions::default() };
    let served = Database::open(options).and_then(|database| {
        let (budget, charge) = database.engine().process_budget();
        diligence_allocator::keep_within(diligence_allocator::QUIET, budget, charge);
        database.engine().between_turns(diligence_allocator::tidy);
        let again = server.clone();
        let ready = |addresses: diligence_server::Addresses| {
            if let (Some(postgres), Some(http)) = (addresses.postgres, addresses.http) {
                println!("postgres://{postgres}/diligence\nhttp://{http}/");
            }
        };
        Network::start()?.serve(database, server, ready, move || Ok(again.clone()))
    });
    match served {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A server that runs.
pub struct Served {
    process: Child,
    /// Its port for PostgreSQL's protocol.
    pub postgres: Address,
    http: SocketAddr,
}

/// What a process has.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub resident_bytes: u64,
    pub peak_resident_bytes: u64,
    pub threads: u64,
    pub files: u64,
}

impl Served {
    /// Starts it.
    pub fn start(memory_bytes: usize) -> Result<Self, String> {
        let mut command = match std::env::var_os("DILIGENCE_SERVER") {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(["serve", "--postgres", "0", "--http", "0", "--workers", "2", "--memory"]);
                command
            }
            None => {
                let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                command.arg(SERVE);
                command
            }
        };
        command.arg(memory_bytes.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("the server does not start: {error}"))?;
        let output = process.stdout.take().ok_or("a child process without a pipe")?;
        let mut lines = BufReader::new(output).lines();
        let mut next = |prefix: &str| {
            let line = lines.next().and_then(Result::ok).unwrap_or_default();
            let rest = line.strip_prefix(prefix).map(|rest| rest.split('/').next().unwrap_or_default().to_owned());
            rest.ok_or_else(|| format!("the server does not say where it is: '{line}'"))
        };
        let postgres = next("postgres://")?.parse()?;
        let http = next("http://")?.parse().map_err(|error| format!("the server's address: {error}"))?;
        Ok(Self { process, postgres, http })
    }

    /// The counters of `GET /metrics`, which is no statement and no session.
    pub async fn metrics(&self) -> Result<BTreeMap<String, u64>, String> {
        let lost = |error: std::io::Error| format!("/metrics: {error}");
        let mut stream = TcpStream::connect(self.http).await.map_err(lost)?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.map_err(lost)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.map_err(lost)?;
        let values = text.lines().filter(|line| line.starts_with("diligence_")).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(values.collect())
    }

    /// What its process has now.
    pub fn footprint(&self) -> Footprint {
        let of =
            |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).unwrap_or_default();
        let status = of("status");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let files =
            std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).map_or(0, |files| files.count() as u64);
        Footprint {
            resident_bytes: number("VmRSS:") * 1024,
            peak_resident_bytes: number("VmHWM:") * 1024,
            threads: number("Threads:"),
            files,
        }
    }

    /// Whether it is still there.
    pub fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Tells it to end (SIGTERM); it must, in good order.
    pub fn end(mut self) -> Result<(), String> {
        // The shell's own command: this program needs no unsafe code for a signal.
        let told = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        told.map_err(|error| format!("no kill: {error}"))?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the server ended with {status}")),
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(format!("the server is lost: {error}")),
            }
        }
        Err(format!("the server has not ended {PATIENCE:?} after SIGTERM"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After `end` there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
