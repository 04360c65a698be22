//! Servers as processes of their own: ourselves, and PostgreSQL.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diligence_base::{Error, Result};
use diligence_client::Address;

/// How long a server may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that runs.
pub struct WireServer {
    name: &'static str,
    process: Child,
    /// Its port.
    pub tcp: Address,
    /// Its local socket, if it has one.
    pub local: Option<Address>,
    /// Its HTTP port, if it has one.
    pub http: Option<SocketAddr>,
    /// Its port for Arrow Flight SQL, if it has one.
    pub flight: Option<SocketAddr>,
    /// Where our local socket is.
    _sockets: Option<tempfile::TempDir>,
}

impl WireServer {
    /// `diligence serve` over a folder. Without a program, the one beside this benchmark's own.
    pub fn diligence(program: Option<&Path>, data: &Path, workers: usize, more: &[String]) -> Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()
                .map_err(|error| Error::resource(format!("the benchmark does not know its own program: {error}")))?
                .with_file_name("diligence"),
        };
        let mut command = Command::new(&program);
        command.arg("serve").arg("--data").arg(data).args(["--postgres", "0", "--http", "0", "--flight", "0"]);
        // Short: the path of a socket has 107 bytes at most.
        let sockets = tempfile::Builder::new().prefix("diligence-").tempdir();
        let sockets = sockets.map_err(|error| Error::resource(format!("no folder for a local socket: {error}")))?;
        command.arg("--socket").arg(sockets.path()).args(["--workers", &workers.to_string()]).args(more);
        let (process, mut lines) = start(&program, command)?;
        let postgres = lines.next_with("postgres://")?;
        let socket = lines.next_with("")?;
        let http = lines.next_with("http://")?;
        let flight = lines.next_with("grpc://")?;
        let port = postgres.split('/').next().unwrap_or_default();
        let tcp = port.parse().map_err(|error: String| Error::bug(error))?;
        let http = http.trim_end_matches('/').parse().ok();
        Ok(Self {
            name: "diligence",
            process,
            tcp,
            local: Some(Address::Local(socket.into())),
            http,
            flight: flight.parse().ok(),
            _sockets: Some(sockets),
        })
    }

    /// PostgreSQL, which loads the folder's tables the first time.
    pub fn postgres(data: &Path) -> Result<Self> {
        let script = PathBuf::from("bench/rivals/postgres");
        let mut command = Command::new(&script);
        command.arg("serve").arg(data);
        let (process, mut lines) = start(&script, command)?;
        let line = lines.next_with("")?;
        let (tcp, local) = line.split_once(' ').ok_or_else(|| Error::bug("postgres does not say where it is"))?;
        let address = |text: &str| text.parse::<Address>().map_err(Error::bug);
        Ok(Self {
            name: "postgres",
            process,
            tcp: address(tcp)?,
            local: Some(address(local)?),
            http: None,
            flight: None,
            _sockets: None,
        })
    }

    /// Who it is.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes that are resident now.
    pub fn resident_bytes(&self) -> Result<i64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(&path).map_err(|error| Error::resource(format!("{path}: {error}")))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| Error::resource(format!("{path} has no VmRSS")))
    }

    /// Who may come and where to: what a connection needs.
    pub fn user(&self) -> (&'static str, &'static str) {
        match self.name {
            "postgres" => ("postgres", "postgres"),
            _ => ("ann", "diligence"),
        }
    }
}

/// The lines that a server prints.
struct Lines {
    program: PathBuf,
    output: BufReader<std::process::ChildStdout>,
}

impl Lines {
    /// The rest of the next line, which must begin so.
    fn next_with(&mut self, prefix: &str) -> Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let line = line.trim_end();
        match (read, line.strip_prefix(prefix)) {
            (Ok(1..), Some(rest)) => Ok(rest.to_owned()),
            _ => Err(Error::resource(format!("{} does not start: '{line}'", self.program.display()))),
        }
    }
}

fn start(program: &Path, mut command: Command) -> Result<(Child, Lines)> {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Error::resource(format!("{} does not start: {error}", program.display())))?;
    let output = process.stdout.take().ok_or_else(|| Error::bug("a child process without a pipe"))?;
    Ok((process, Lines { program: program.to_owned(), output: BufReader::new(output) }))
}

impl Drop for WireServer {
    fn drop(&mut self) {
        // SAFETY: kill takes numbers; the process is a child that was not waited for, so the number is still its own.
        unsafe { libc::kill(self.process.id() as libc::pid_t, libc::SIGTERM) };
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
