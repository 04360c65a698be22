//! What can be fuzzed.

mod chunks;
mod files;
mod primed;
mod samples;
mod server;
mod sql;

use std::sync::OnceLock;

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TargetKind {
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
    /// Chunks of segments
    Chunk,
    /// Sessions of PostgreSQL's protocol
    Wire,
    /// HTTP connections
    Http,
    /// Answers of processes that compute functions
    Primed,
}

/// Something that takes inputs.
pub trait Target {
    /// Tries an input. An error is a finding, and so is a panic.
    fn run(&mut self, input: &[u8]) -> Result<(), String>;
    /// What the inputs came to, for the end of the run.
    fn summary(&self) -> String;
}

impl TargetKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Sql => "sql",
            TargetKind::Parquet => "parquet",
            TargetKind::Csv => "csv",
            TargetKind::Json => "json",
            TargetKind::Arrow => "arrow",
            TargetKind::Chunk => "chunk",
            TargetKind::Wire => "wire",
            TargetKind::Http => "http",
            TargetKind::Primed => "primed",
        }
    }

    /// Whether inputs are text, made of words.
    pub fn is_text(self) -> bool {
        matches!(self, TargetKind::Sql | TargetKind::Csv | TargetKind::Json | TargetKind::Http)
    }

    /// Sound inputs; never empty.
    pub fn corpus(self) -> &'static [Vec<u8>] {
        static CORPORA: [OnceLock<Vec<Vec<u8>>>; 9] = [const { OnceLock::new() }; 9];
        CORPORA[self as usize].get_or_init(|| match self {
            TargetKind::Sql => sql::corpus(),
            TargetKind::Parquet => samples::parquet(),
            TargetKind::Csv => samples::csv(),
            TargetKind::Json => samples::json(),
            TargetKind::Arrow => samples::arrow(),
            TargetKind::Chunk => chunks::corpus(),
            TargetKind::Wire => server::wire_corpus(),
            TargetKind::Http => server::http_corpus(),
            TargetKind::Primed => primed::corpus(),
        })
    }

    /// Pieces that mean something in the format; never empty.
    pub fn tokens(self) -> &'static [&'static [u8]] {
        match self {
            TargetKind::Sql => sql::TOKENS,
            TargetKind::Parquet => &[b"PAR1", b"PARE", b"\x15\x00", b"\x19\x1c", b"\x00\x00\x00\x00", b"ARROW:schema"],
            TargetKind::Csv => {
                &[b",", b";", b"\t", b"\"", b"\"\"", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"-1e999", b"2024-01-01"]
            }
            TargetKind::Json => &[
                b"{", b"}", b"[", b"]", b"\"", b":", b",", b"null", b"\\u0000", b"\\ud800", b"-", b"1e999", b"{\"a\":",
                b"[[",
            ],
            TargetKind::Arrow => {
                &[b"ARROW1", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x08\x00", b"\xff\xff\xff\x7f"]
            }
            TargetKind::Chunk => &[b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x40", b"\x01", b"\x02", b"\x00\x04"],
            TargetKind::Wire => server::WIRE_TOKENS,
            TargetKind::Http => server::HTTP_TOKENS,
            TargetKind::Primed => &[b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00", b"\x03", b"\xc3"],
        }
    }

    /// Gets ready for inputs.
    pub fn start(self) -> Result<Box<dyn Target>, String> {
        Ok(match self {
            TargetKind::Sql => Box::new(sql::SqlTarget::start()?),
            TargetKind::Parquet => Box::new(files::FileTarget::new("fuzz.parquet")),
            TargetKind::Csv => Box::new(files::FileTarget::new("fuzz.csv")),
            TargetKind::Json => Box::new(files::FileTarget::new("fuzz.json")),
            TargetKind::Arrow => Box::new(files::FileTarget::new("fuzz.arrow")),
            TargetKind::Chunk => Box::new(chunks::ChunkTarget::default()),
            TargetKind::Wire => Box::new(server::ServerTarget::wire()?),
            TargetKind::Http => Box::new(server::ServerTarget::http()?),
            TargetKind::Primed => Box::<primed::PrimedTarget>::default(),
        })
    }
}
