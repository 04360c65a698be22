//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::output::Format;

/// Diligence: a staged, parallel SQL engine over Parquet, CSV, JSON and Arrow files.
#[derive(Debug, Parser)]
#[command(name = "diligence", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "Examples:
  diligence sql \"SELECT count(*) FROM 'events/*.parquet'\"
  diligence sql --data sales/ --format csv \"SELECT region, sum(price) FROM orders GROUP BY region\"
  diligence shell --data sales/
  diligence serve --data sales/
  diligence shell --connect postgres://127.0.0.1:5433/diligence
  diligence generate tpch --sf 1 --out data/tpch-sf1")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL statements and print their results
    #[command(after_help = "Several statements are separated by semicolons; the first one that fails ends the run.
Without SQL and without -f, the statements are read from standard input.
Exit codes: 0 everything ran, 1 a statement failed, 2 the command line makes no sense.")]
    Sql(SqlArguments),
    /// Ask questions interactively
    Shell(ShellArguments),
    /// Serve clients over the network: PostgreSQL's protocol and HTTP
    #[command(after_help = "It listens on this machine only, unless told otherwise; beyond it users have to log in.
SIGTERM and Ctrl-C let statements that run come to their end; a second one stops at once.
Exit codes: 0 it was ended by a signal, 1 it failed, 2 the command line makes no sense.")]
    Serve(ServeArguments),
    /// Watch a server: its stages, queries and memory
    Top(TopArguments),
    /// Make data to play and measure with
    Generate(GenerateArguments),
}

/// Options that a server has decided already.
const OF_A_DATABASE: [&str; 9] = [
    "data",
    "workers",
    "memory",
    "temp_dir",
    "temp_limit",
    "temp_cluster",
    "temp_direct",
    "temp_io",
    "temp_compression",
];

/// How the database is opened.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArguments {
    /// A folder: every Parquet, CSV, JSON or Arrow file in it, and every folder of such files, is a table named by its
    /// stem
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
    /// The memory that all queries together may use, such as 4GiB, and 16MiB at least [default: most of the machine's]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
    /// A folder for what does not fit in memory; may be repeated, best with one on each disk [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Vec<PathBuf>,
    /// The disk space that all queries together may use, such as 100GiB [default: what there is]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub temp_limit: Option<usize>,
    /// The unit in which temp space is written and read [default: 1MiB; less with little memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub temp_cluster: Option<usize>,
    /// Write and read temp space past the page cache
    #[arg(long)]
    pub temp_direct: bool,
    /// Who reads and writes temp space
    #[arg(long, value_enum, default_value_t = TempIoChoice::Threads)]
    pub temp_io: TempIoChoice,
    /// Whether rows in temp space are compressed
    #[arg(long, value_enum, default_value_t = TempCompression::None)]
    pub temp_compression: TempCompression,
    /// Log what is asked of temp space into a new file, for `diligence-bench blocks --replay`
    #[arg(long, value_name = "FILE")]
    pub temp_log: Option<PathBuf>,
    /// A setting, as in the statement SET; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
}

/// Who reads and writes temp space.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TempIoChoice {
    /// io_uring where the system allows it, and threads otherwise
    Auto,
    /// io_uring (Linux)
    IoUring,
    /// Threads that block
    Threads,
}

/// How rows are written to temp space.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TempCompression {
    /// As they are
    None,
    /// Compressed with LZ4: for slow or small disks
    Lz4,
}

/// How results are shown.
#[derive(Args, Clone, Debug)]
pub struct OutputArguments {
    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Say on standard error how many rows there were and how long it took
    #[arg(long)]
    pub timer: bool,
    /// Rows of a table at most, 0 for all [default: 1000 on a terminal, else all]
    #[arg(long, value_name = "N")]
    pub max_rows: Option<usize>,
}

/// `diligence sql`.
#[derive(Args, Debug)]
pub struct SqlArguments {
    /// Run them on a server: postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", conflicts_with_all = OF_A_DATABASE)]
    pub connect: Option<String>,
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// How results are shown.
    #[command(flatten)]
    pub output: OutputArguments,
    /// A file with SQL statements; may be repeated, and is run before the SQL given as an argument
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// SQL statements
    #[arg(value_name = "SQL")]
    pub statements: Vec<String>,
}

/// `diligence shell`.
#[derive(Args, Debug)]
pub struct ShellArguments {
    /// Ask a server instead: postgres://USER@HOST:PORT/DATABASE, with ?sslmode=… and ?sslrootcert=FILE if need be
    #[arg(long, value_name = "URL", conflicts_with_all = OF_A_DATABASE)]
    pub connect: Option<String>,
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// How results are shown.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `diligence top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// The server: postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", default_value = "postgres://127.0.0.1:5433/diligence")]
    pub connect: String,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// Look once and print it; so it is, too, where standard output is no terminal
    #[arg(long)]
    pub once: bool,
}

/// `diligence serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// Where PostgreSQL's protocol is spoken: an address, a port, both, or off [default: 127.0.0.1:5433]
    #[arg(long, value_name = "ADDRESS", value_parser = door, default_value = "127.0.0.1", hide_default_value = true)]
    pub postgres: Door,
    /// A directory for a Unix socket as well, .s.PGSQL.PORT, where psql -h DIR -p PORT finds it
    #[arg(long, value_name = "DIR")]
    pub socket: Option<PathBuf>,
    /// Where HTTP is: an address, a port, both, or off [default: 127.0.0.1:8123]
    #[arg(long, value_name = "ADDRESS", value_parser = door, default_value = "127.0.0.1", hide_default_value = true)]
    pub http: Door,
    /// A TOML file of the users who may come [default: anybody on this machine]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// The certificate for TLS, a PEM file; with it every connection must be encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// A folder of .sql files that become HTTP endpoints
    #[arg(long, value_name = "DIR")]
    pub endpoints: Option<PathBuf>,
    /// Clients of this machine that need not log in may name files and URLs in statements
    #[arg(long, conflicts_with = "users")]
    pub files: bool,
    /// Sessions at once [default: 10000]
    #[arg(long, value_name = "N")]
    pub sessions_max: Option<NonZeroUsize>,
    /// Cheap queries that run at once [default: 64]
    #[arg(long, value_name = "N")]
    pub running_max: Option<NonZeroUsize>,
    /// Heavy queries that run at once [default: 16]
    #[arg(long, value_name = "N")]
    pub heavy_max: Option<NonZeroUsize>,
    /// Queries that wait at most, of each class; more are refused [default: 1024]
    #[arg(long, value_name = "N")]
    pub queue_max: Option<usize>,
    /// Rows that a statement may give [default: no limit]
    #[arg(long, value_name = "N")]
    pub result_rows_max: Option<u64>,
    /// Seconds that a statement may take, unless its session says otherwise [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    pub statement_timeout: Option<u64>,
    /// Seconds that statements may take to end once the server is told to [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub drain_time: Option<u64>,
    /// How far workers stand back behind the threads of the network and behind other programs, as nice(1) counts it,
    /// from 0 to 19 [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=19))]
    pub worker_nice: Option<u8>,
    /// Read a password from standard input, print what the users' file needs, and end
    #[arg(long)]
    pub hash_password: bool,
}

/// Where a door is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door(Option<(IpAddr, Option<u16>)>);

impl Door {
    /// Its address; `None` if it is closed.
    pub fn address(self, port: u16) -> Option<SocketAddr> {
        self.0.map(|(address, given)| SocketAddr::new(address, given.unwrap_or(port)))
    }
}

/// `off`, `5433`, `0.0.0.0`, `[::1]:5433`.
fn door(text: &str) -> Result<Door, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") {
        return Ok(Door(None));
    }
    if let Ok(port) = text.parse() {
        return Ok(Door(Some((IpAddr::from([127, 0, 0, 1]), Some(port)))));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Door(Some((address.ip(), Some(address.port())))));
    }
    let address = text.trim_start_matches('[').trim_end_matches(']').parse();
    address
        .map(|address| Door(Some((address, None))))
        .map_err(|_| "expected an address, a port, both, or off".to_owned())
}

/// `diligence generate`.
#[derive(Args, Debug)]
pub struct GenerateArguments {
    /// Which data.
    #[command(subcommand)]
    pub what: Generated,
}

/// The kinds of data that can be made.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// The eight tables of the TPC-H benchmark, the same rows as its dbgen
    Tpch(TpchArguments),
}

/// `diligence generate tpch`.
#[derive(Args, Debug)]
pub struct TpchArguments {
    /// The scale factor: 1 is about 250 MB of Parquet and 6 million rows in lineitem
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub sf: f64,
    /// The folder for the files; it is made if missing
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The format of the files
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    pub format: FileFormat,
    /// Replace files that exist; otherwise a file with the same scale factor is kept
    #[arg(long)]
    pub force: bool,
}

/// Formats of generated files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Parquet with Snappy compression
    Parquet,
}

/// A number of bytes with a unit: `4GiB`, `512 MB`, `1.5g`, `1048576`.
fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| "expected a number with a unit, such as 4GiB or 512MB".to_owned())?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        other => return Err(format!("'{other}' is not a unit; use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB")),
    };
    let bytes = (number * factor as f64).round();
    if !(1.0..=u64::MAX as f64 / 2.0).contains(&bytes) {
        return Err("it must be at least one byte and fit into the address space".to_owned());
    }
    Ok(bytes as usize)
}

/// A tenth of a second to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.1 to 3600 seconds".to_owned())
}

/// `name=value`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        assert_eq!(bytes("4GiB"), Ok(4 << 30));
        assert_eq!(bytes("1.5g"), Ok(3 << 29));
        assert_eq!(bytes("512 MB"), Ok(512_000_000));
        for wrong in ["", "x", "-1", "0", "4 elephants", "1e9", "1.2.3", "99999999999999999999TB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn doors_are_addresses_or_ports() {
        let address = |text: &str| door(text).unwrap().address(1).map(|address| address.to_string());
        assert_eq!(address("off"), None);
        assert_eq!(address("5433").as_deref(), Some("127.0.0.1:5433"));
        assert_eq!(address("0.0.0.0").as_deref(), Some("0.0.0.0:1"));
        assert_eq!(address("[::1]:7").as_deref(), Some("[::1]:7"));
        assert!(door("example.com").is_err());
    }

    #[test]
    fn settings_are_names_and_values() {
        assert_eq!(setting("a = b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(setting("a").is_err());
        assert!(setting("=b").is_err());
    }
}
