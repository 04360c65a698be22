//! Settings: what SET changes, SHOW and `system.settings` show.
//!
//! Some belong to a session (batch_rows), some to the whole database (stage_policy, memory), some can only be read. The rest is
//! DataFusion's `datafusion.*`, per session.

use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_engine::Engine;
use diligence_engine::memory::display_bytes;
use diligence_engine::stages::PolicyKind;
use diligence_sql::Planner;
use parking_lot::Mutex;
use std::sync::Arc;

/// A setting with its value.
#[derive(Clone, Debug)]
pub struct SettingInfo {
    /// Its name.
    pub name: String,
    /// Its value, as SET takes it; `None` if it has none.
    pub value: Option<String>,
    /// What it is for.
    pub description: String,
}

/// A session's own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSettings {
    pub(crate) batch_rows: usize,
    pub(crate) packets: Option<usize>,
    pub(crate) query_memory: Option<usize>,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { batch_rows: BATCH_ROWS_MAX, packets: None, query_memory: None }
    }
}

/// The settings that are not DataFusion's, with what they are for.
const OWN: [(&str, &str); 6] = [
    ("batch_rows", "Rows in a batch at most, 1 to 8192 (session)"),
    ("memory", "Memory budget of the process, e.g. 8GiB (database)"),
    ("packets", "Packets that work on one pipeline at once; default: one per worker (session)"),
    ("query_memory", "Memory that one query may reserve, e.g. 512MiB; default: no limit (session)"),
    (
        "stage_policy",
        "Which packet runs next: processor_sharing, fcfs, d_gated, t_gated(QUERIES) or c_gated(MILLISECONDS) (database)",
    ),
    ("workers", "Worker threads (read only; set when the database is opened)"),
];

/// All settings as one session sees them.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Mutex<SessionSettings>>,
    /// The budget that the database was opened with: what RESET memory goes back to.
    pub(crate) memory_default_bytes: usize,
}

impl Settings {
    pub(crate) fn set(&self, planner: &Planner, name: &str, value: &str) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let wrong = |error: Error| error.context(format!("the setting '{name}'"));
        match name.as_str() {
            "batch_rows" => self.session.lock().batch_rows = number(value, 1, BATCH_ROWS_MAX).map_err(wrong)?,
            "packets" => self.session.lock().packets = Some(number(value, 1, 1024).map_err(wrong)?),
            "query_memory" => self.session.lock().query_memory = Some(parse_bytes(value).map_err(wrong)?),
            "memory" => self.engine.broker().set_budget_bytes(parse_bytes(value).map_err(wrong)?),
            "stage_policy" => self.engine.set_policy(value.parse()?),
            "workers" => {
                return Err(Error::input("the setting 'workers' cannot be changed while the database is open")
                    .with_hint("open it with --workers N; SET packets bounds what one query uses"));
            }
            _ if is_datafusion(&name) => planner.set_datafusion_option(&name, value)?,
            _ => return Err(self.unknown(planner, &name)),
        }
        Ok(())
    }

    pub(crate) fn reset(&self, planner: &Planner, name: &str) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let defaults = SessionSettings::default();
        match name.as_str() {
            "batch_rows" => self.session.lock().batch_rows = defaults.batch_rows,
            "packets" => self.session.lock().packets = defaults.packets,
            "query_memory" => self.session.lock().query_memory = defaults.query_memory,
            "memory" => self.engine.broker().set_budget_bytes(self.memory_default_bytes),
            "stage_policy" => self.engine.set_policy(PolicyKind::default()),
            "workers" => {}
            _ if is_datafusion(&name) => planner.reset_datafusion_option(&name)?,
            _ => return Err(self.unknown(planner, &name)),
        }
        Ok(())
    }

    /// Everything that [`set`](Self::set) changed, back to its default.
    pub(crate) fn reset_all(&self, planner: &Planner) -> Result<()> {
        *self.session.lock() = SessionSettings::default();
        for option in planner.datafusion_options() {
            // Options without a value have no default to go back to.
            if option.1.is_some() {
                planner.reset_datafusion_option(&option.0)?;
            }
        }
        Ok(())
    }

    /// One setting.
    pub(crate) fn show(&self, planner: &Planner, name: &str) -> Result<SettingInfo> {
        let name = name.to_ascii_lowercase();
        let all = self.all(planner);
        all.into_iter().find(|setting| setting.name == name).ok_or_else(|| self.unknown(planner, &name))
    }

    /// All settings, ours first.
    pub(crate) fn all(&self, planner: &Planner) -> Vec<SettingInfo> {
        let mut all = self.own();
        all.extend(planner.datafusion_options().into_iter().map(|(name, value, description)| SettingInfo {
            name,
            value,
            description: description.to_owned(),
        }));
        all
    }

    /// The settings that are not DataFusion's.
    pub(crate) fn own(&self) -> Vec<SettingInfo> {
        let session = *self.session.lock();
        OWN.iter()
            .map(|&(name, description)| {
                let value = match name {
                    "batch_rows" => Some(session.batch_rows.to_string()),
                    "packets" => session.packets.map(|packets| packets.to_string()),
                    "query_memory" => session.query_memory.map(display_bytes),
                    "memory" => Some(display_bytes(self.engine.broker().budget_bytes())),
                    "stage_policy" => Some(self.engine.policy().to_string()),
                    _ => Some(self.engine.worker_count().to_string()),
                };
                SettingInfo { name: name.to_owned(), value, description: description.to_owned() }
            })
            .collect()
    }

    fn unknown(&self, planner: &Planner, name: &str) -> Error {
        let all = self.all(planner);
        let nearest = all
            .iter()
            .map(|setting| (strsim::damerau_levenshtein(name, &setting.name), &setting.name))
            .min()
            .filter(|(distance, nearest)| *distance <= nearest.len() / 3);
        let hint = match nearest {
            Some((_, nearest)) => format!("did you mean '{nearest}'? SHOW ALL lists all settings"),
            None => "SHOW ALL lists all settings".to_owned(),
        };
        Error::input(format!("there is no setting '{name}'")).with_hint(hint)
    }
}

fn is_datafusion(name: &str) -> bool {
    name.starts_with("datafusion.")
}

fn number(value: &str, least: usize, most: usize) -> Result<usize> {
    let number = value.trim().parse::<usize>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Error::input(format!("'{value}' is not a whole number from {least} to {most}")))
}

/// Bytes from text: `1073741824`, `512MiB`, `8 GB`, `1.5g`.
pub(crate) fn parse_bytes(text: &str) -> Result<usize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor: f64 = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => 0.0,
    };
    let bytes = number.parse::<f64>().map_or(0.0, |number| number * factor);
    if bytes < 1.0 || bytes > usize::MAX as f64 {
        return Err(Error::input(format!("'{text}' is not an amount of memory")).with_hint("write e.g. 512MiB or 8GB"));
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_have_units() {
        assert_eq!(parse_bytes("1024").unwrap(), 1024);
        assert_eq!(parse_bytes("1.5 KiB").unwrap(), 1536);
        assert_eq!(parse_bytes("2GB").unwrap(), 2_000_000_000);
        for wrong in ["", "GB", "-1", "1 parsec", "0"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
