//! The log: what the server does, line by line, for people or for programs.
//!
//! Events are [`tracing`]'s. [`start`] has them written to standard error or to a file, as text
//! (`TIME LEVEL message key=value …`) or as one JSON object per line. The file is opened anew by [`change`], so whoever
//! renames it (logrotate) sends SIGHUP afterwards. Of libraries only warnings and errors are written.
//!
//! No event has a password or a statement's parameters.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime};

use diligence_base::{Error, Result};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The beginning of the names of the project's own modules.
const OWN: &str = "diligence";

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What is written at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What the server or its machine got wrong.
    Error,
    /// What somebody should look at: refused log-ins, slow statements.
    Warn,
    /// Starts, stops, sessions, errors of statements.
    #[default]
    Info,
    /// Sessions of single requests, too.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| format!("expected one of: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// What is written, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// How lines look.
    pub format: LogFormat,
    /// What is written at least.
    pub level: LogLevel,
    /// The file to which lines are added; standard error if `None`.
    pub file: Option<PathBuf>,
}

/// The log of this process.
static LOG: OnceLock<&'static Log> = OnceLock::new();

struct Log {
    level: AtomicU8,
    to: Mutex<To>,
}

struct To {
    format: LogFormat,
    /// Standard error if `None`.
    file: Option<File>,
}

fn opened(path: Option<&Path>) -> Result<Option<File>> {
    let open = |path: &Path| {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map_err(|error| Error::file(format!("{}: the log cannot be written: {error}", path.display())))
    };
    path.map(open).transpose()
}

/// Has events written from now on, in the whole process. Fails with kind `File` if the file cannot be opened.
pub fn start(options: &LogOptions) -> Result<()> {
    let to = To { format: options.format, file: opened(options.file.as_deref())? };
    let log = Log { level: AtomicU8::new(options.level as u8), to: Mutex::new(to) };
    let log: &'static Log = Box::leak(Box::new(log));
    if LOG.set(log).is_err() || tracing::subscriber::set_global_default(Handle(log)).is_err() {
        return change(options);
    }
    Ok(())
}

/// Changes what is written and where; opens the file anew. Fails with kind `File` if it cannot be opened; then
/// everything is as it was.
pub fn change(options: &LogOptions) -> Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let file = opened(options.file.as_deref())?;
    *log.to.lock() = To { format: options.format, file };
    log.level.store(options.level as u8, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Writes a warning to the log.
pub fn warn(text: &str) {
    tracing::warn!("{text}");
}

/// The log as tracing calls it.
struct Handle(&'static Log);

impl Log {
    fn level(&self) -> LogLevel {
        LogLevel::of_number(self.level.load(Ordering::Relaxed))
    }
}

impl Subscriber for Handle {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_own = metadata.target().starts_with(OWN);
        metadata.is_event()
            && *metadata.level() <= self.0.level().filter()
            && (is_own || *metadata.level() <= Level::WARN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.level().filter())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut to = self.0.to.lock();
        let line = match to.format {
            LogFormat::Text => said.text(since, *event.metadata().level()),
            LogFormat::Json => said.json(since, event.metadata()),
        };
        // A log that nobody takes must not stop the server.
        let _ = match &mut to.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, serde_json::Value)>,
}

impl Said {
    fn add(&mut self, field: &Field, value: serde_json::Value) {
        match (field.name(), value) {
            ("message", serde_json::Value::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }

    fn text(&self, since: Duration, level: Level) -> String {
        let mut line = format!("{} {:5} {}", moment(since), level.as_str(), plain(&self.message));
        for (name, value) in &self.fields {
            let _ = match value {
                serde_json::Value::String(text) if is_word(text) => write!(line, " {name}={text}"),
                other => write!(line, " {name}={other}"),
            };
        }
        line.push('\n');
        line
    }

    fn json(self, since: Duration, metadata: &Metadata<'_>) -> String {
        let mut object = serde_json::Map::new();
        object.insert("time".to_owned(), moment(since).into());
        object.insert("level".to_owned(), metadata.level().as_str().to_lowercase().into());
        object.insert("message".to_owned(), self.message.into());
        object.extend(self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        object.insert("target".to_owned(), metadata.target().into());
        format!("{}\n", serde_json::Value::Object(object))
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

/// A text on one line: nobody writes lines of his own into the log.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|character| match character.is_control() {
            true => character.escape_default().collect::<Vec<_>>(),
            false => vec![character],
        })
        .collect()
}

fn is_word(text: &str) -> bool {
    let plain = |character: char| !character.is_control() && !character.is_whitespace() && !"\"=\\".contains(character);
    !text.is_empty() && text.chars().all(plain)
}

/// A time since 1970 as RFC 3339 has it, in UTC, with milliseconds.
fn moment(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since the first of March of the year 0, so that a leap day is a year's last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second, millisecond) = (second / 3600, second / 60 % 60, second % 60, since.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_735_689_600_001, "2025-01-01T00:00:00.001Z"),
        ] {
            assert_eq!(moment(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let fields = vec![("user", "ann".into()), ("statement", "SELECT\n'a b'".into()), ("rows", 3.into())];
        let said = Said { message: "a\nb".to_owned(), fields };
        let line = said.text(Duration::ZERO, Level::WARN);
        let expected = "1970-01-01T00:00:00.000Z WARN  a\\nb user=ann statement=\"SELECT\\n'a b'\" rows=3\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn levels_have_names() {
        for level in LogLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(LogLevel::of_number(level as u8), level);
        }
        assert!("loud".parse::<LogLevel>().is_err());
    }
}
