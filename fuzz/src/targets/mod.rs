//! What can be fuzzed.

mod files;
mod samples;
mod server;
mod sql;

use std::sync::OnceLock;

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// SQL text: parsing, planning, sometimes running
    Sql,
    /// Parquet files
    Parquet,
    /// CSV files
    Csv,
    /// JSON files
    Json,
    /// Arrow IPC files and streams
    Arrow,
    /// Sessions of PostgreSQL's protocol
    Wire,
    /// HTTP connections
    Http,
}

/// Something that takes inputs.
pub trait Target {
    /// Tries an input. An error is a finding, and so is a panic.
    fn run(&mut self, input: &[u8]) -> Result<(), String>;
    /// What the inputs came to, for the end of the run.
    fn summary(&self) -> String;
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Sql => "sql",
            Kind::Parquet => "parquet",
            Kind::Csv => "csv",
            Kind::Json => "json",
            Kind::Arrow => "arrow",
            Kind::Wire => "wire",
            Kind::Http => "http",
        }
    }

    /// Whether inputs are text, made of words.
    pub fn is_text(self) -> bool {
        matches!(self, Kind::Sql | Kind::Csv | Kind::Json | Kind::Http)
    }

    /// Sound inputs; never empty.
    pub fn corpus(self) -> &'static [Vec<u8>] {
        static CORPORA: [OnceLock<Vec<Vec<u8>>>; 7] = [const { OnceLock::new() }; 7];
        CORPORA[self as usize].get_or_init(|| match self {
            Kind::Sql => sql::corpus(),
            Kind::Parquet => samples::parquet(),
            Kind::Csv => samples::csv(),
            Kind::Json => samples::json(),
            Kind::Arrow => samples::arrow(),
            Kind::Wire => server::wire_corpus(),
            Kind::Http => server::http_corpus(),
        })
    }

    /// Pieces that mean something in the format; never empty.
    pub fn tokens(self) -> &'static [&'static [u8]] {
        match self {
            Kind::Sql => sql::TOKENS,
            Kind::Parquet => &[b"PAR1", b"PARE", b"\x15\x00", b"\x19\x1c", b"\x00\x00\x00\x00", b"ARROW:schema"],
            Kind::Csv => {
                &[b",", b";", b"\t", b"\"", b"\"\"", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"-1e999", b"2024-01-01"]
            }
            Kind::Json => &[
                b"{", b"}", b"[", b"]", b"\"", b":", b",", b"null", b"\\u0000", b"\\ud800", b"-", b"1e999", b"{\"a\":",
                b"[[",
            ],
            Kind::Arrow => &[b"ARROW1", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x08\x00", b"\xff\xff\xff\x7f"],
            Kind::Wire => server::WIRE_TOKENS,
            Kind::Http => server::HTTP_TOKENS,
        }
    }

    /// Gets ready for inputs.
    pub fn start(self) -> Result<Box<dyn Target>, String> {
        Ok(match self {
            Kind::Sql => Box::new(sql::SqlTarget::start()?),
            Kind::Parquet => Box::new(files::FileTarget::new("fuzz.parquet")),
            Kind::Csv => Box::new(files::FileTarget::new("fuzz.csv")),
            Kind::Json => Box::new(files::FileTarget::new("fuzz.json")),
            Kind::Arrow => Box::new(files::FileTarget::new("fuzz.arrow")),
            Kind::Wire => Box::new(server::ServerTarget::wire()?),
            Kind::Http => Box::new(server::ServerTarget::http()?),
        })
    }
}
