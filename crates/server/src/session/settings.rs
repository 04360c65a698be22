//! Settings that belong to the client and its session here, not to the engine: those that PostgreSQL has and drivers
//! set.

use std::collections::BTreeMap;
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_db::Isolation;
use diligence_db::duration::{display, duration};
use diligence_db::postgres::SERVER_VERSION;

use crate::encoding::parameters::boolean;

/// A setting: its name in lower case, its name as reported, its value at the start, and how it may change.
struct Known {
    name: &'static str,
    start: &'static str,
    change: Change,
}

impl Known {
    /// A value as it is shown: of a switch `on` or `off`. Fails with code 22023 for one that the setting cannot have,
    /// as far as its value at the start tells.
    fn checked(&self, value: &str) -> Result<String> {
        let name = self.name;
        let wrong = |message: String| Err(Error::input(message).with_code("22023"));
        let is_switch = matches!(self.start, "on" | "off") && !NO_SWITCHES.contains(&name);
        match self.change {
            Free if is_switch => {}
            Only(values) if values == SWITCHES => {}
            Free if number_of(self.start).is_some() && number_of(value).is_none() => {
                return wrong(format!("invalid value for parameter \"{name}\": \"{value}\""));
            }
            _ => return Ok(value.to_owned()),
        }
        match boolean(value) {
            Some(is_on) => Ok(if is_on { "on" } else { "off" }.to_owned()),
            None => wrong(format!("parameter \"{name}\" requires a Boolean value")),
        }
    }
}

/// A number, behind which a unit may stand: `64MB`, `1.5 min`.
fn number_of(text: &str) -> Option<f64> {
    let end = text.find(|character: char| character.is_ascii_alphabetic() && !matches!(character, 'e' | 'E'));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let is_unit = unit.is_empty() || UNITS.contains(&unit.trim());
    number.trim().parse::<f64>().ok().filter(|number| is_unit && number.is_finite())
}

/// How a setting may change.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// To anything; it means nothing here but to its client.
    Free,
    /// To these values only: others would promise what is not done.
    Only(&'static [&'static str]),
    /// To a time; zero is none.
    Time,
    /// Never.
    Fixed,
}

use Change::{Fixed, Free, Only, Time};

/// What a transaction may see of others.
const ISOLATIONS: [&str; 4] = ["read committed", "read uncommitted", "repeatable read", "serializable"];
/// From which level on a client is told.
const LEVELS: [&str; 12] =
    ["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error", "info", "fatal"];
/// Settings that are on or off at the start, and may have other values.
const NO_SWITCHES: [&str; 2] = ["synchronous_commit", "wal_compression"];
/// What may stand behind a number: bytes and times.
const UNITS: [&str; 11] = ["B", "kB", "MB", "GB", "TB", "us", "ms", "s", "min", "h", "d"];
/// On and off.
const SWITCHES: [&str; 8] = ["off", "on", "false", "true", "no", "yes", "0", "1"];

#[rustfmt::skip]
const KNOWN: [(&str, &str, Change); 155] = [
    ("application_name", "", Free),
    ("backslash_quote", "safe_encoding", Free),
    ("block_size", "8192", Fixed),
    ("bytea_output", "hex", Free),
    ("check_function_bodies", "on", Free),
    ("client_connection_check_interval", "0", Free),
    ("client_encoding", "UTF8", Only(&["utf8", "unicode"])),
    ("client_min_messages", "notice", Only(&LEVELS)),
    ("commit_delay", "0", Free),
    ("commit_siblings", "5", Free),
    ("compute_query_id", "auto", Free),
    ("constraint_exclusion", "partition", Free),
    ("cpu_index_tuple_cost", "0.005", Free),
    ("cpu_operator_cost", "0.0025", Free),
    ("cpu_tuple_cost", "0.01", Free),
    ("cursor_tuple_fraction", "0.1", Free),
    ("datestyle", "ISO, MDY", Free),
    ("deadlock_timeout", "1s", Free),
    ("debug_pretty_print", "on", Free),
    ("debug_print_parse", "off", Free),
    ("debug_print_plan", "off", Free),
    ("debug_print_rewritten", "off", Free),
    ("default_statistics_target", "100", Free),
    ("default_table_access_method", "heap", Only(&["heap"])),
    ("default_tablespace", "", Free),
    ("default_toast_compression", "pglz", Free),
    ("default_transaction_deferrable", "off", Only(&SWITCHES)),
    ("default_transaction_isolation", "read committed", Only(&ISOLATIONS)),
    ("default_transaction_read_only", "off", Only(&SWITCHES)),
    ("default_with_oids", "off", Only(&["off", "false"])),
    ("effective_cache_size", "4GB", Free),
    ("effective_io_concurrency", "1", Free),
    ("enable_async_append", "on", Free),
    ("enable_bitmapscan", "on", Free),
    ("enable_gathermerge", "on", Free),
    ("enable_hashagg", "on", Free),
    ("enable_hashjoin", "on", Free),
    ("enable_incremental_sort", "on", Free),
    ("enable_indexonlyscan", "on", Free),
    ("enable_material", "on", Free),
    ("enable_memoize", "on", Free),
    ("enable_mergejoin", "on", Free),
    ("enable_nestloop", "on", Free),
    ("enable_parallel_append", "on", Free),
    ("enable_parallel_hash", "on", Free),
    ("enable_partition_pruning", "on", Free),
    ("enable_partitionwise_aggregate", "off", Free),
    ("enable_partitionwise_join", "off", Free),
    ("enable_seqscan", "on", Free),
    ("enable_sort", "on", Free),
    ("enable_tidscan", "on", Free),
    ("escape_string_warning", "on", Free),
    ("extra_float_digits", "1", Free),
    ("from_collapse_limit", "8", Free),
    ("geqo", "on", Free),
    ("geqo_effort", "5", Free),
    ("geqo_generations", "0", Free),
    ("geqo_pool_size", "0", Free),
    ("geqo_seed", "0", Free),
    ("geqo_selection_bias", "2", Free),
    ("geqo_threshold", "12", Free),
    ("gin_fuzzy_search_limit", "0", Free),
    ("gin_pending_list_limit", "4MB", Free),
    ("hash_mem_multiplier", "2", Free),
    ("idle_in_transaction_session_timeout", "0", Time),
    ("idle_session_timeout", "0", Time),
    ("in_hot_standby", "off", Fixed),
    ("integer_datetimes", "on", Fixed),
    ("intervalstyle", "postgres", Free),
    ("is_superuser", "off", Fixed),
    ("jit", "off", Free),
    ("jit_above_cost", "100000", Free),
    ("jit_expressions", "on", Free),
    ("jit_inline_above_cost", "500000", Free),
    ("jit_optimize_above_cost", "500000", Free),
    ("jit_tuple_deforming", "on", Free),
    ("join_collapse_limit", "8", Free),
    ("lc_collate", "C", Fixed),
    ("lc_ctype", "C", Fixed),
    ("lc_messages", "C", Free),
    ("lc_monetary", "C", Free),
    ("lc_numeric", "C", Free),
    ("lc_time", "C", Free),
    ("log_duration", "off", Free),
    ("log_error_verbosity", "default", Free),
    ("log_executor_stats", "off", Free),
    ("log_lock_waits", "off", Free),
    ("log_min_duration_statement", "-1", Free),
    ("log_min_error_statement", "error", Free),
    ("log_min_messages", "warning", Free),
    ("log_parser_stats", "off", Free),
    ("log_planner_stats", "off", Free),
    ("log_statement", "none", Free),
    ("log_statement_stats", "off", Free),
    ("log_temp_files", "-1", Free),
    ("logical_decoding_work_mem", "64MB", Free),
    ("maintenance_io_concurrency", "10", Free),
    ("maintenance_work_mem", "64MB", Free),
    ("max_identifier_length", "63", Fixed),
    ("max_index_keys", "32", Fixed),
    ("max_parallel_maintenance_workers", "2", Free),
    ("max_parallel_workers", "8", Free),
    ("max_parallel_workers_per_gather", "2", Free),
    ("max_stack_depth", "2MB", Free),
    ("min_parallel_index_scan_size", "512kB", Free),
    ("min_parallel_table_scan_size", "8MB", Free),
    ("parallel_leader_participation", "on", Free),
    ("parallel_setup_cost", "1000", Free),
    ("parallel_tuple_cost", "0.1", Free),
    ("plan_cache_mode", "auto", Free),
    ("random_page_cost", "4", Free),
    ("recursive_worktable_factor", "10", Free),
    ("row_security", "on", Free),
    ("seq_page_cost", "1", Free),
    ("server_encoding", "UTF8", Fixed),
    ("server_version", SERVER_VERSION, Fixed),
    ("server_version_num", "160006", Fixed),
    ("session_authorization", "", Fixed),
    ("session_replication_role", "origin", Only(&["origin", "local"])),
    ("standard_conforming_strings", "on", Only(&["on", "true", "1", "yes"])),
    ("statement_timeout", "0", Free),
    ("stats_fetch_consistency", "cache", Free),
    ("synchronize_seqscans", "on", Free),
    ("synchronous_commit", "on", Free),
    ("tcp_keepalives_count", "0", Free),
    ("tcp_keepalives_idle", "0", Free),
    ("tcp_keepalives_interval", "0", Free),
    ("tcp_user_timeout", "0", Free),
    ("temp_buffers", "8MB", Free),
    ("temp_tablespaces", "", Free),
    ("timezone", "UTC", Free),
    ("track_activities", "on", Free),
    ("track_counts", "on", Free),
    ("track_functions", "none", Free),
    ("track_io_timing", "off", Free),
    ("transaction_deferrable", "off", Only(&SWITCHES)),
    ("transaction_isolation", "read committed", Only(&ISOLATIONS)),
    ("transaction_read_only", "off", Only(&SWITCHES)),
    ("transaction_timeout", "0", Time),
    ("update_process_title", "on", Free),
    ("vacuum_cost_delay", "0", Free),
    ("vacuum_cost_limit", "200", Free),
    ("vacuum_cost_page_dirty", "20", Free),
    ("vacuum_cost_page_hit", "1", Free),
    ("vacuum_cost_page_miss", "2", Free),
    ("vacuum_failsafe_age", "1600000000", Free),
    ("vacuum_freeze_min_age", "50000000", Free),
    ("vacuum_freeze_table_age", "150000000", Free),
    ("vacuum_multixact_failsafe_age", "1600000000", Free),
    ("vacuum_multixact_freeze_min_age", "5000000", Free),
    ("vacuum_multixact_freeze_table_age", "150000000", Free),
    ("wal_compression", "off", Free),
    ("wal_skip_threshold", "2MB", Free),
    ("work_mem", "4MB", Free),
    ("xmloption", "content", Free),
];

/// What a client is told at the start, and when it changes, by the names that clients look for.
const REPORTED: [(&str, &str); 13] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("integer_datetimes", "integer_datetimes"),
    ("intervalstyle", "IntervalStyle"),
    ("is_superuser", "is_superuser"),
    ("server_encoding", "server_encoding"),
    ("server_version", "server_version"),
    ("session_authorization", "session_authorization"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("timezone", "TimeZone"),
];

/// The settings by which statements are planned, too. The session knows them; what is here follows it.
pub(crate) const SHARED: [&str; 4] = ["timezone", "datestyle", "intervalstyle", "bytea_output"];

/// The name of a setting that is one of those.
pub(crate) fn shared(name: &str) -> Option<&'static str> {
    SHARED.into_iter().find(|shared| shared.eq_ignore_ascii_case(name))
}

/// A setting's name as PostgreSQL spells it.
pub(crate) fn shown_name(name: &str) -> &str {
    REPORTED.iter().find(|(known, _)| *known == name).map_or(name, |(_, shown)| shown)
}

/// A time as PostgreSQL shows it: in the largest unit in which it is a whole number.
fn in_largest_unit(milliseconds: u128) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let unit = UNITS.into_iter().find(|(length, _)| milliseconds > 0 && milliseconds.is_multiple_of(*length));
    unit.map_or_else(|| format!("{milliseconds}ms"), |(length, unit)| format!("{}{unit}", milliseconds / length))
}

/// What a setting was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) name: &'static str,
    /// `None` for what it was at the start.
    pub(crate) value: Option<String>,
    /// Of `statement_timeout`.
    pub(crate) timeout: Duration,
}

/// A session's settings.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// Those that differ from the start; `user` among them under `session_authorization`.
    changed: BTreeMap<&'static str, String>,
    /// The starts that are others than those of all sessions.
    starts: BTreeMap<&'static str, String>,
    user: String,
    timeout: Duration,
    timeout_start: Duration,
    /// The most that the role allows.
    timeout_max: Option<Duration>,
}

impl ClientSettings {
    /// The settings of a session's beginning; a statement may run for `timeout` (0 for as long as it takes), or another
    /// time up to `timeout_max`.
    pub(crate) fn new(user: &str, timeout: Duration, timeout_max: Option<Duration>) -> Self {
        let (changed, starts) = (BTreeMap::new(), BTreeMap::new());
        Self { changed, starts, user: user.to_owned(), timeout, timeout_start: timeout, timeout_max }
    }

    /// Has a setting begin with a value, which RESET gives back; one that is none, or not the client's, is left out.
    pub(crate) fn begin_with(&mut self, name: &str, value: &str) {
        let Some(known) = Self::known(name) else { return };
        if self.set(name, value).is_ok()
            && let Some(value) = self.changed.remove(known.name)
        {
            self.starts.insert(known.name, value);
        }
        self.timeout_start = self.timeout;
    }

    fn known(name: &str) -> Option<Known> {
        let (name, start, change) = KNOWN.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))?;
        Some(Known { name, start, change: *change })
    }

    /// Whether the setting is one of these.
    pub(crate) fn has(&self, name: &str) -> bool {
        Self::known(name).is_some()
    }

    /// How long a statement may run.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }

    /// The time of a setting that is one; `None` for none.
    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        let time = duration(self.changed.get(name).or_else(|| self.starts.get(name))?).ok()?;
        (!time.is_zero()).then_some(time)
    }

    /// A setting's value.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let known = Self::known(name)?;
        Some(match known.name {
            "session_authorization" => self.user.clone(),
            "statement_timeout" if self.timeout.is_zero() => "0".to_owned(),
            "statement_timeout" => in_largest_unit(self.timeout.as_millis()),
            name => {
                let said = self.changed.get(name).or_else(|| self.starts.get(name));
                said.cloned().unwrap_or_else(|| known.start.to_owned())
            }
        })
    }

    /// What transactions see of others, where they do not say it.
    pub(crate) fn isolation(&self) -> Isolation {
        match self.get("default_transaction_isolation").unwrap_or_default().to_lowercase().as_str() {
            "repeatable read" => Isolation::RepeatableRead,
            "serializable" => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        }
    }

    /// Whether transactions only read, where they do not say it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_on("default_transaction_read_only")
    }

    /// Whether transactions are DEFERRABLE, where they do not say it.
    pub(crate) fn is_deferrable(&self) -> bool {
        self.is_on("default_transaction_deferrable")
    }

    /// Whether a switch is on that is off at the start of all sessions.
    fn is_on(&self, name: &str) -> bool {
        let said = self.changed.get(name).or_else(|| self.starts.get(name));
        said.is_some_and(|said| ["on", "true", "yes", "1"].iter().any(|on| said.eq_ignore_ascii_case(on)))
    }

    /// Changes a setting. What the client is to be told, if it is one that clients follow.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<Option<(&'static str, String)>> {
        let Some(known) = Self::known(name) else {
            return Err(Error::input(format!("no setting is named '{name}'")).with_code("42704"));
        };
        let value = match known.name {
            _ if known.change == Time => shown(duration(value)?),
            // Of an encoding's name PostgreSQL looks at letters and digits; asyncpg sends it in quotes.
            "client_encoding" => value.chars().filter(char::is_ascii_alphanumeric).collect(),
            // It may have units of its own.
            "statement_timeout" => value.trim().to_owned(),
            _ => known.checked(value.trim())?,
        };
        let value = value.as_str();
        match known.change {
            Fixed => return Err(Error::input(format!("the setting '{name}' cannot be changed")).with_code("55P02")),
            Only(values) if !values.iter().any(|allowed| allowed.eq_ignore_ascii_case(value)) => {
                let error = Error::input(format!("'{name}' cannot be '{value}' here"));
                let hint = match known.name {
                    "session_replication_role" => {
                        "SET CONSTRAINTS ALL DEFERRED lets rows of a transaction come in any order, where foreign keys \
                         are DEFERRABLE; ALTER TABLE … DISABLE TRIGGER ALL has triggers not fire, and rows not held \
                         against foreign keys"
                            .to_owned()
                    }
                    _ => format!("it can be {}", values.join(" or ")),
                };
                return Err(error.with_code("22023").with_hint(hint));
            }
            _ => {}
        }
        match known.name {
            "statement_timeout" => self.timeout = self.allowed(duration(value)?)?,
            "client_encoding" | "standard_conforming_strings" => {}
            name => {
                self.changed.insert(name, value.to_owned());
            }
        }
        Ok(self.report(known.name))
    }

    fn allowed(&self, timeout: Duration) -> Result<Duration> {
        match self.timeout_max {
            Some(most) if timeout.is_zero() || timeout > most => {
                let error = Error::input(format!("statements of this user may take {} at most", display(most)));
                Err(error.with_code("22023").with_hint("the role's limit in the server's file of users"))
            }
            _ => Ok(timeout),
        }
    }

    /// Gives a setting its first value back.
    pub(crate) fn reset(&mut self, name: &str) -> Option<(&'static str, String)> {
        let known = Self::known(name)?;
        self.changed.remove(known.name);
        if known.name == "statement_timeout" {
            self.timeout = self.timeout_start;
        }
        self.report(known.name)
    }

    /// Gives all their first values back.
    pub(crate) fn reset_all(&mut self) {
        self.changed.clear();
        self.timeout = self.timeout_start;
    }

    /// What a setting is now, to be made that again.
    pub(crate) fn now(&self, name: &str) -> Option<Value> {
        let known = Self::known(name)?;
        Some(Value { name: known.name, value: self.changed.get(known.name).cloned(), timeout: self.timeout })
    }

    /// Makes a setting what it was. What the client is to be told, if that is another value than it has.
    pub(crate) fn restore(&mut self, was: Value) -> Option<(&'static str, String)> {
        let Value { name, value, timeout } = was;
        let before = self.get(name);
        match value {
            Some(value) => self.changed.insert(name, value),
            None => self.changed.remove(name),
        };
        if name == "statement_timeout" {
            self.timeout = timeout;
        }
        self.report(name).filter(|_| self.get(name) != before)
    }

    /// Those that differ from the start.
    pub(crate) fn changed(&self) -> Vec<&'static str> {
        let timeout = (self.timeout != self.timeout_start).then_some("statement_timeout");
        self.changed.keys().copied().chain(timeout).collect()
    }

    fn report(&self, name: &str) -> Option<(&'static str, String)> {
        let (_, shown) = REPORTED.iter().find(|(reported, _)| *reported == name)?;
        Some((shown, self.get(name)?))
    }

    /// What a client is told at the start.
    pub(crate) fn reports(&self) -> Vec<(&'static str, String)> {
        REPORTED.iter().filter_map(|(name, _)| self.report(name)).collect()
    }

    /// All settings with their values.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        KNOWN.iter().filter_map(|(name, ..)| Some(((*name).to_owned(), self.get(name)?))).collect()
    }
}

/// A time as SHOW has it.
fn shown(time: Duration) -> String {
    if time.is_zero() { "0".to_owned() } else { display(time) }
}

/// The words of the start-up parameter `options`. What is behind a backslash has no meaning, such as a space.
fn option_words(options: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        let is_end = character.is_whitespace();
        let character = if character == '\\' { characters.next() } else { Some(character) };
        match character {
            Some(_) if is_end => words.extend(word.take()),
            Some(character) => word.get_or_insert_default().push(character),
            None => {}
        }
    }
    words.extend(word);
    words
}

/// `-c name=value --name=value` of the start-up parameter `options`.
pub(crate) fn command_line_settings(options: &str) -> Vec<(String, String)> {
    let words = option_words(options);
    let mut settings = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let setting = if words[index] == "-c" {
            index += 1;
            words.get(index).map(String::as_str)
        } else {
            words[index].strip_prefix("--").or_else(|| words[index].strip_prefix("-c"))
        };
        if let Some((name, value)) = setting.and_then(|setting| setting.split_once('=')) {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
        index += 1;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_promise_too_much_is_refused() {
        let mut settings = ClientSettings::new("ann", Duration::ZERO, None);
        assert!(settings.set("client_encoding", "LATIN1").is_err());
        assert!(
            ["UTF8", "utf-8", "'utf-8'", "UNICODE"].iter().all(|utf8| settings.set("client_encoding", utf8).is_ok())
        );
        assert!(settings.set("server_version", "9").is_err());
        assert_eq!(settings.set("Application_Name", "psql").unwrap(), Some(("application_name", "psql".to_owned())));
        assert_eq!(settings.get("application_name").as_deref(), Some("psql"));
        assert_eq!(settings.set("statement_timeout", "5s").unwrap(), None);
        assert_eq!(settings.timeout(), Some(Duration::from_secs(5)));
        assert!(settings.set("statement_timeout", "soon").is_err());
        for name in ["idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"] {
            assert!(settings.set(name, "soon").is_err() && settings.duration(name).is_none());
            settings.set(name, "2s").unwrap();
            assert_eq!(
                (settings.get(name).as_deref(), settings.duration(name)),
                (Some("2s"), Some(Duration::from_secs(2)))
            );
            settings.set(name, "0").unwrap();
            assert_eq!((settings.get(name).as_deref(), settings.duration(name)), (Some("0"), None));
        }
        settings.reset_all();
        assert_eq!((settings.timeout(), settings.get("application_name").as_deref()), (None, Some("")));
        assert_eq!(settings.reports().len(), REPORTED.len());
    }

    #[test]
    fn values_that_a_setting_cannot_have_are_refused() {
        let mut settings = ClientSettings::new("ann", Duration::ZERO, None);
        for (name, value, shown) in [
            ("enable_hashjoin", "FALSE", "off"),
            ("jit", "1", "on"),
            ("default_transaction_read_only", "yes", "on"),
            ("synchronous_commit", "local", "local"),
            ("work_mem", "64MB", "64MB"),
            ("random_page_cost", "1.1", "1.1"),
            ("seq_page_cost", "1e1", "1e1"),
            ("log_min_duration_statement", "250 ms", "250 ms"),
            ("vacuum_cost_delay", "-1", "-1"),
            ("client_min_messages", "WARNING", "WARNING"),
            ("application_name", "off", "off"),
            ("lc_time", "de_DE", "de_DE"),
        ] {
            settings.set(name, value).unwrap();
            assert_eq!(settings.get(name).as_deref(), Some(shown), "{name}");
        }
        for (name, value) in [
            ("enable_hashjoin", "banana"),
            ("jit", "o"),
            ("default_transaction_read_only", "2"),
            ("work_mem", "much"),
            ("work_mem", "64 parsecs"),
            ("random_page_cost", "NaN"),
            ("extra_float_digits", ""),
            ("client_min_messages", "nope"),
        ] {
            assert_eq!(settings.set(name, value).unwrap_err().code(), Some("22023"), "{name} {value}");
        }
    }

    #[test]
    fn what_a_setting_was_it_becomes_again() {
        let mut settings = ClientSettings::new("ann", Duration::from_secs(9), None);
        settings.set("application_name", "a").unwrap();
        let names = ["Application_Name", "statement_timeout", "jit"];
        let was = names.map(|name| settings.now(name).unwrap());
        for (name, value) in names.into_iter().zip(["b", "1s", "on"]) {
            settings.set(name, value).unwrap();
        }
        assert_eq!(settings.changed(), ["application_name", "jit", "statement_timeout"]);
        let told = was.clone().map(|was| settings.restore(was));
        assert_eq!(told, [Some(("application_name", "a".to_owned())), None, None]);
        assert_eq!(names.map(|name| settings.get(name).unwrap()), ["a", "9s", "off"]);
        assert_eq!(settings.restore(was[0].clone()), None, "it is what the client knows");
        assert_eq!(settings.changed(), ["application_name"]);
        assert_eq!(settings.now("packets"), None);
    }

    #[test]
    fn what_pg_settings_has_is_what_is_shown() {
        let settings = ClientSettings::new("ann", Duration::ZERO, None);
        let known = diligence_db::postgres::known_settings().collect::<BTreeMap<_, _>>();
        assert_eq!(known.len(), KNOWN.len());
        for (name, value) in known.into_iter().filter(|(name, _)| *name != "session_authorization") {
            assert_eq!(settings.get(name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn a_statement_cannot_have_more_time_than_the_role_has() {
        let most = Duration::from_secs(2);
        let mut settings = ClientSettings::new("ann", most, Some(most));
        assert_eq!(settings.timeout(), Some(most));
        for wrong in ["0", "3s"] {
            assert_eq!(settings.set("statement_timeout", wrong).unwrap_err().code(), Some("22023"), "{wrong}");
        }
        settings.set("statement_timeout", "1s").unwrap();
        assert_eq!(settings.timeout(), Some(Duration::from_secs(1)));
        settings.reset("statement_timeout");
        assert_eq!(settings.timeout(), Some(most));
    }

    #[test]
    fn settings_of_the_command_line_are_read() {
        let settings = command_line_settings("-c statement_timeout=5s --search-path=a -cgeqo=off nonsense");
        let names = settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        assert_eq!(names, ["statement_timeout=5s", "search_path=a", "geqo=off"]);
        let isolation = "-c default_transaction_isolation=repeatable\\ read  -c application_name=a\\\\b";
        let settings = command_line_settings(isolation).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(settings, ["repeatable read", "a\\b"]);
    }
}
