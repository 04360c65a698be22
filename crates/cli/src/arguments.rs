//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use diligence_server::LogLevel;
use diligence_server::collector::Collector;

use crate::output::{Format, Look};

/// Diligence: a parallel SQL engine for Parquet, CSV, JSON and Arrow files.
///
/// With --db DIR it also keeps tables of its own in a directory, with transactions, constraints, indexes and recovery
/// after a crash.
#[derive(Debug, Parser)]
#[command(name = "diligence", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "Examples:
  diligence sql \"SELECT count(*) FROM 'events/*.parquet'\"
  diligence trips.csv -c \"SELECT count(*) FROM trips\"
  diligence trips.csv zones.parquet
  diligence sql --data sales/ --format csv \"SELECT region, sum(price) FROM orders GROUP BY region\"
  diligence shell --data sales/
  diligence shell --db shop/
  diligence serve --data sales/
  diligence shell --connect postgres://127.0.0.1:5433/diligence
  diligence generate tpch --sf 1 --out data/tpch-sf1")]
pub struct Arguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL statements and print their results
    #[command(after_help = "Statements are separated by semicolons. The first error stops the run.
Without SQL and without -f, statements are read from standard input.
Exit codes: 0 success, 1 a statement failed, 2 invalid command line.")]
    Sql(SqlArguments),
    /// Start an interactive shell
    Shell(ShellArguments),
    /// Run a server for the PostgreSQL protocol, HTTP and Arrow Flight SQL
    #[command(
        after_help = "By default the server accepts connections from this machine only. Connections from other machines require --users.
SIGTERM and Ctrl-C stop the server after running statements have finished; a second signal stops it at once.
SIGHUP reads --config, --users and --endpoints again and opens the log anew.
Exit codes: 0 stopped by a signal, 1 failed, 2 invalid command line."
    )]
    Serve(ServeArguments),
    /// Show what a server is doing: its stages, queries and memory
    Top(TopArguments),
    /// Read a database from end to end and say what is wrong with it
    #[command(after_help = "Reads all rows of all tables, with their checksums, and checks keys and constraints.
The database must not be open elsewhere; a server checks its own with CHECK DATABASE.
Exit codes: 0 no problem, 1 a problem was found or the database does not open, 2 invalid command line.")]
    Check(CheckArguments),
    /// Save what can be saved of a damaged database
    #[command(
        after_help = "Makes another database of what can be read, and says what is lost. The damaged one stays as it is.
Segments are shared by hard links where the file system allows. Afterwards, 'diligence check' tells whether keys and references hold.
Exit codes: 0 saved, 1 nothing could be saved, 2 invalid command line."
    )]
    Repair(RepairArguments),
    /// Generate benchmark data
    Generate(GenerateArguments),
    /// Print a completion script for a shell
    #[command(after_help = "scripts/install puts these scripts where shells look for them. By hand, for example:
  diligence completions bash > ~/.local/share/bash-completion/completions/diligence")]
    Completions(CompletionsArguments),
}

/// The options of a database in this process; they conflict with `--connect`.
const DATABASE_OPTIONS: [&str; 13] = [
    "db",
    "data",
    "workers",
    "memory",
    "temp_dir",
    "temp_limit",
    "temp_cluster",
    "temp_direct",
    "temp_io",
    "temp_compression",
    "tuning",
    "pin_workers",
    "python",
];

/// How the database is opened.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArguments {
    /// The directory of a database, which keeps what statements make: tables, views, schemas. It is made if it is not
    /// there [default: a database in memory, which ends with the program]
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// A directory in which every Parquet, CSV, JSON or Arrow file, and every directory of such files, is a table, or
    /// one such file; may be repeated. A table has the name of its file without the extension
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = count)]
    pub workers: Option<NonZeroUsize>,
    /// Keep each worker thread on one core (Linux)
    #[arg(long)]
    pub pin_workers: bool,
    /// Memory limit for all queries together, such as 4GiB; at least 16MiB [default: most of the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
    /// Directory for data that does not fit in memory; repeat it to use several disks [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Vec<PathBuf>,
    /// Limit on temporary disk space for all queries together, such as 100GiB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub temp_limit: Option<usize>,
    /// Unit of reads and writes in temporary files [default: 1MiB, or less with a small memory limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub temp_cluster: Option<usize>,
    /// Bypass the page cache for temporary files
    #[arg(long)]
    pub temp_direct: bool,
    /// How temporary files are read and written
    #[arg(long, value_enum, default_value_t = TempIoChoice::Threads)]
    pub temp_io: TempIoChoice,
    /// Compression of temporary files
    #[arg(long, value_enum, default_value_t = TempCompression::None)]
    pub temp_compression: TempCompression,
    /// Log the requests to temporary files to a new file, for `diligence-bench blocks --replay`
    #[arg(long, value_name = "FILE")]
    pub temp_log: Option<PathBuf>,
    /// Whether settings change by what is measured: off, observe, on [default: observe]
    #[arg(long, value_name = "MODE")]
    pub tuning: Option<String>,
    /// Python interpreter for functions: a path, a name along PATH, or the directory of a virtual environment
    /// [default: python3]
    #[arg(long, value_name = "PATH")]
    pub python: Option<String>,
    /// A setting, as in the SET statement; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
}

/// How temporary files are read and written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TempIoChoice {
    /// io_uring where the system allows it, otherwise threads
    Auto,
    /// io_uring (Linux)
    IoUring,
    /// Blocking calls on threads
    Threads,
}

/// Compression of temporary files.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TempCompression {
    /// No compression
    None,
    /// LZ4, for slow or small disks
    Lz4,
}

/// How results are printed.
#[derive(Args, Clone, Debug)]
pub struct OutputArguments {
    /// Output format: table, csv, tsv, json, jsonl, arrow (a stream of Arrow IPC), markdown, line, unaligned (values
    /// with | between them) or none
    #[arg(long, value_name = "FORMAT", value_parser = Look::parse, default_value = "table")]
    pub format: Look,
    /// Values with a separator between them and without widths, as --format unaligned
    #[arg(short = 'A', long, conflicts_with = "format")]
    pub no_align: bool,
    /// As --format csv
    #[arg(long, conflicts_with_all = ["format", "no_align"])]
    pub csv: bool,
    /// Rows only, without names of columns, numbers of rows and what commands have done
    #[arg(short = 't', long)]
    pub tuples_only: bool,
    /// The values of a row one below the other
    #[arg(short = 'x', long)]
    pub expanded: bool,
    /// What stands between values that are not aligned [default: |]
    #[arg(short = 'F', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub field_separator: Option<String>,
    /// What stands between rows that are not aligned [default: the end of a line]
    #[arg(short = 'R', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub record_separator: Option<String>,
    /// A zero byte between values that are not aligned
    #[arg(short = 'z', long, conflicts_with = "field_separator")]
    pub field_separator_zero: bool,
    /// A zero byte between rows that are not aligned
    #[arg(short = '0', long, conflicts_with = "record_separator")]
    pub record_separator_zero: bool,
    /// Do not tell what commands have done
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Write results to a file, or to a command behind a |, instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<String>,
    /// Print row counts and elapsed times on standard error
    #[arg(long)]
    pub timer: bool,
    /// Maximum number of rows to print in table format; 0 means all [default on a terminal: 1000, in the shell the
    /// first and the last 20; otherwise all]
    #[arg(long, value_name = "N")]
    pub max_rows: Option<usize>,
}

impl OutputArguments {
    /// The format, whichever option says it.
    pub fn format(&self) -> Format {
        match (self.no_align, self.csv) {
            (true, _) => Format::Unaligned,
            (false, true) => Format::Csv,
            (false, false) => self.format.format,
        }
    }
}

/// `diligence sql`.
#[derive(Args, Debug)]
pub struct SqlArguments {
    /// Run the statements on a server: postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", conflicts_with_all = DATABASE_OPTIONS)]
    pub connect: Option<String>,
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// How results are printed.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Changes nothing, as statements run without an init file; for command lines of psql
    #[arg(short = 'X', long, hide = true)]
    pub no_init: bool,
    /// SQL statements, as the argument SQL; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub commands: Vec<String>,
    /// File of SQL statements, or - for standard input; may be repeated; files run before SQL arguments
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// SQL statements, or - for those of standard input
    #[arg(value_name = "SQL")]
    pub statements: Vec<String>,
}

/// `diligence shell`.
#[derive(Args, Debug)]
pub struct ShellArguments {
    /// Connect to a server: postgres://USER@HOST:PORT/DATABASE, optionally with ?sslmode=MODE and sslrootcert=FILE
    #[arg(long, value_name = "URL", conflicts_with_all = DATABASE_OPTIONS)]
    pub connect: Option<String>,
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// How results are printed.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Set a variable, which statements have as :NAME; may be repeated
    #[arg(short = 'v', long = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// A setting of \pset: NAME or NAME=VALUE; may be repeated
    #[arg(short = 'P', long = "pset", value_name = "NAME[=VALUE]")]
    pub print_settings: Vec<String>,
    /// Print the lines of the input as they are read, as ECHO=all
    #[arg(short = 'a', long)]
    pub echo_all: bool,
    /// Print statements that fail, as ECHO=errors
    #[arg(short = 'b', long, conflicts_with = "echo_all")]
    pub echo_errors: bool,
    /// Print statements before they run, as ECHO=queries
    #[arg(short = 'e', long, conflicts_with_all = ["echo_all", "echo_errors"])]
    pub echo_queries: bool,
    /// Run what -c and -f say as one transaction, which is rolled back if anything fails
    #[arg(short = '1', long)]
    pub single_transaction: bool,
    /// Do not run the file that $DILIGENCE_INIT names, or ~/.diligencerc, first
    #[arg(short = 'X', long)]
    pub no_init: bool,
    /// Statements and commands to run instead of those that are entered; may be repeated
    #[arg(short = 'c', long = "command", value_name = "TEXT")]
    pub commands: Vec<String>,
    /// File of statements and commands to run instead, or - for standard input; may be repeated; files run first
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `diligence top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// URL of the server: postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", default_value = "postgres://127.0.0.1:5433/diligence")]
    pub connect: String,
    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// Print one snapshot and exit; implied if standard output is not a terminal
    #[arg(long)]
    pub once: bool,
}

/// `diligence serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// How the database is opened.
    #[command(flatten)]
    pub database: DatabaseArguments,
    /// Listen address for the PostgreSQL protocol: ADDRESS, PORT, ADDRESS:PORT, or off [default: 127.0.0.1:5433]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, default_value = "127.0.0.1", hide_default_value = true)]
    pub postgres: ListenAddress,
    /// Directory for a Unix socket named .s.PGSQL.PORT, for psql -h DIR -p PORT
    #[arg(long, value_name = "DIR")]
    pub socket: Option<PathBuf>,
    /// Listen address for HTTP: ADDRESS, PORT, ADDRESS:PORT, or off [default: 127.0.0.1:8123]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, default_value = "127.0.0.1", hide_default_value = true)]
    pub http: ListenAddress,
    /// Listen address for Arrow Flight SQL: ADDRESS (port 31337), PORT, ADDRESS:PORT, or off [default: off]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, default_value = "off", hide_default_value = true)]
    pub flight: ListenAddress,
    /// TOML file of users [default: no log-in, from this machine only]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// TLS certificate, a PEM file; every network connection must then be encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the TLS certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Directory of .sql files to publish as HTTP endpoints
    #[arg(long, value_name = "DIR")]
    pub endpoints: Option<PathBuf>,
    /// Let clients name files and URLs in statements (only without --users)
    #[arg(long, conflicts_with = "users")]
    pub files: bool,
    /// Maximum number of sessions [default: 10000]
    #[arg(long, value_name = "N", value_parser = count)]
    pub sessions_max: Option<NonZeroUsize>,
    /// Maximum number of cheap queries that run at once [default: 64]
    #[arg(long, value_name = "N", value_parser = count)]
    pub running_max: Option<NonZeroUsize>,
    /// Maximum number of expensive queries that run at once [default: 16]
    #[arg(long, value_name = "N", value_parser = count)]
    pub heavy_max: Option<NonZeroUsize>,
    /// Maximum number of waiting queries in each of the two classes; further ones are rejected [default: 1024]
    #[arg(long, value_name = "N")]
    pub queue_max: Option<usize>,
    /// Maximum number of rows that a statement may return [default: no limit]
    #[arg(long, value_name = "N")]
    pub result_rows_max: Option<u64>,
    /// Time limit for statements, in seconds or with a unit, such as 5min; sessions can override it [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = seconds_or_time)]
    pub statement_timeout: Option<Duration>,
    /// Time to wait for running statements at shutdown, in seconds or with a unit [default: 30]
    #[arg(long, value_name = "TIME", value_parser = seconds_or_time)]
    pub drain_time: Option<Duration>,
    /// Niceness of worker threads, from 0 to 19; above 0, network threads and other programs run first [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=19))]
    pub worker_nice: Option<u8>,
    /// TOML file with options of this command, and users and roles; options of the command line come before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// SQL file to run at the start, before clients are let in; an error ends the start. May be repeated
    #[arg(long, value_name = "FILE")]
    pub init: Vec<PathBuf>,
    /// How the log looks: text, or json with one object per line
    #[arg(long, value_enum, default_value_t = LogFormatChoice::Text)]
    pub log_format: LogFormatChoice,
    /// What is logged at least: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevel,
    /// File to which the log is added; SIGHUP opens it anew [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Log statements that take at least so long, such as 500ms or 1s, with their plans [default: off]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub slow_statement: Option<Duration>,
    /// Collector of OpenTelemetry that gets traces of statements and metrics, by OTLP over HTTP, such as
    /// http://127.0.0.1:4318 [default: nobody]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Collector>,
    /// Read a password from standard input, print its hash for the users file, and exit
    #[arg(long)]
    pub hash_password: bool,
}

/// How the log looks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormatChoice {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The address that a protocol listens on, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(Option<(IpAddr, Option<u16>)>);

impl ListenAddress {
    /// The address, with this port unless another was given; `None` if the protocol is off.
    pub fn address(self, port: u16) -> Option<SocketAddr> {
        self.0.map(|(address, given)| SocketAddr::new(address, given.unwrap_or(port)))
    }
}

/// What an address may be.
const EXPECTED_ADDRESS: &str = "expected an IP address, a port, both as ADDRESS:PORT, or off";

/// Parses `off`, `5433`, `0.0.0.0`, `localhost:5433`, or `[::1]:5433`.
fn listen_address(text: &str) -> Result<ListenAddress, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") {
        return Ok(ListenAddress(None));
    }
    if let Ok(port) = text.parse() {
        return Ok(ListenAddress(Some((IpAddr::from([127, 0, 0, 1]), Some(port)))));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ListenAddress(Some((address.ip(), Some(address.port())))));
    }
    if let Some(rest) = text.strip_prefix("localhost").filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        let port = rest.strip_prefix(':').map(str::parse).transpose().map_err(|_| EXPECTED_ADDRESS.to_owned())?;
        return Ok(ListenAddress(Some((IpAddr::from([127, 0, 0, 1]), port))));
    }
    let address = text.trim_start_matches('[').trim_end_matches(']').parse();
    address.map(|address| ListenAddress(Some((address, None)))).map_err(|_| EXPECTED_ADDRESS.to_owned())
}

/// `diligence check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub db: PathBuf,
    /// Memory limit, such as 4GiB; at least 16MiB [default: most of the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
}

/// `diligence repair`.
#[derive(Args, Debug)]
pub struct RepairArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub db: PathBuf,
    /// The directory that is made for what is saved [default: DIR.repaired]
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    pub to: Option<PathBuf>,
    /// Put what is saved in the place of the database, which becomes DIR.damaged
    #[arg(long)]
    pub in_place: bool,
    /// Memory limit, such as 4GiB; at least 16MiB [default: most of the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
}

/// `diligence generate`.
#[derive(Args, Debug)]
pub struct GenerateArguments {
    /// The kind of data.
    #[command(subcommand)]
    pub what: Generated,
}

/// The kinds of data that can be generated.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// The eight tables of the TPC-H benchmark, with the same rows as its dbgen
    Tpch(TpchArguments),
}

/// `diligence generate tpch`.
#[derive(Args, Debug)]
pub struct TpchArguments {
    /// Scale factor; 1 is about 250 MB of Parquet and 6 million rows in lineitem
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub sf: f64,
    /// Directory for the files; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// File format
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    pub format: FileFormat,
    /// Replace existing files; otherwise files with the same scale factor are kept
    #[arg(long)]
    pub force: bool,
}

/// `diligence completions`.
#[derive(Args, Debug)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: CompletionShell,
}

/// Shells with completion scripts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompletionShell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Formats of generated files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Parquet with Snappy compression
    Parquet,
}

/// Numbers below this are hardly meant as bytes.
const BYTES_WITHOUT_UNIT_MIN: f64 = 1024.0;

/// Parses a number of bytes with a unit: `4GiB`, `512 MB`, `1.5g`, `1048576`.
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
        other => return Err(format!("unknown unit '{other}'; use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB")),
    };
    if unit.trim().is_empty() && number < BYTES_WITHOUT_UNIT_MIN {
        return Err(format!("{text} is a number of bytes; write the unit, such as {text}GiB"));
    }
    let bytes = (number * factor as f64).round();
    if !(1.0..=u64::MAX as f64 / 2.0).contains(&bytes) {
        return Err("expected at least one byte and at most the size of the address space".to_owned());
    }
    Ok(bytes as usize)
}

/// Parses a number of things, of which there must be one at least.
fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.trim().parse().map_err(|_| "expected a whole number of at least 1".to_owned())
}

/// Parses a time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    if text.trim().parse::<u64>().is_ok_and(|number| number > 0) {
        return Err("expected a unit, as in 500ms or 1s".to_owned());
    }
    let time = diligence_db::duration::duration(text.trim());
    time.map_err(|_| "expected a time such as 500ms, 1s or 1min".to_owned())
}

/// Parses a time with its unit, or in whole seconds.
fn seconds_or_time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let time = diligence_db::duration::duration(text.trim());
    time.map_err(|_| "expected whole seconds, or a time such as 500ms, 30s or 5min".to_owned())
}

/// Parses a time from a tenth of a second to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.1 to 3600 seconds".to_owned())
}

/// Parses `name=value`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses a variable. Unlike a setting, its value keeps its blanks.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
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
        for wrong in ["", "x", "-1", "0", "4", "4 elephants", "1e9", "1.2.3", "99999999999999999999TB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn listen_addresses_have_an_address_or_a_port() {
        let address = |text: &str| listen_address(text).unwrap().address(1).map(|address| address.to_string());
        assert_eq!(address("off"), None);
        assert_eq!(address("5433").as_deref(), Some("127.0.0.1:5433"));
        assert_eq!(address("0.0.0.0").as_deref(), Some("0.0.0.0:1"));
        assert_eq!(address("[::1]:7").as_deref(), Some("[::1]:7"));
        assert_eq!(address("localhost").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(address("localhost:7").as_deref(), Some("127.0.0.1:7"));
        for wrong in ["example.com", "99999", "localhost:99999", "localhosts", ""] {
            assert!(listen_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert!(time("250").is_err() && time("soon").is_err());
        assert_eq!(seconds_or_time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(seconds_or_time("5min"), Ok(Duration::from_secs(300)));
        assert!(seconds_or_time("soon").is_err() && seconds_or_time("-1").is_err());
    }

    #[test]
    fn settings_are_names_and_values() {
        assert_eq!(setting("a = b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(variable("a= b=c"), Ok(("a".to_owned(), " b=c".to_owned())));
        assert!(setting("a").is_err() && variable("a").is_err() && variable("=b").is_err());
        assert!(setting("=b").is_err());
    }
}
