//! Settings: what SET, SHOW and RESET speak of.
//!
//! Some belong to the session (how its queries run), some to the engine (and so to everybody), and some to the
//! session's planner (how statements are read, and files written).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use diligence_base::function_limits::{FunctionLimits, function_time, is_on};
use diligence_base::limits::{
    BATCH_ROWS_MAX, COLUMNS_PERCENT_MAX, FUNCTION_MEMORY_BYTES_MIN, IO_THREADS, IO_THREADS_RANGE, MEMORY_BYTES_MIN,
    POOL_MAXIMUM_MAX, PORT_CREDITS, PORT_CREDITS_RANGE, QUANTUM, QUANTUM_RANGE, READ_AHEAD_CLUSTERS, READ_AHEAD_RANGE,
    RETAINED_PERCENT_MAX, SHARING_ROWS_MIN,
};
use diligence_base::units::{bytes, display_bytes};
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::rights::DENIED;
use diligence_disk::BUFFER_PERCENT_MAX;
use diligence_engine::Engine;
use diligence_engine::QueryOptions;
use diligence_engine::SharingMode;
use diligence_engine::plan::{PlanTables, SortPlan};
use diligence_engine::stages::{Policies, StageWorkers};
use diligence_engine::tuning::TuningMode;
use diligence_engine::tuning::settings::KnobId;
use diligence_native::Store;
use diligence_pool::PoolOptions;
use diligence_remote::without_passwords;
use diligence_sql::Planner;
use diligence_sql::errors::suggest;
use diligence_storage::segment::{FormatChoice, SegmentFormat};
use parking_lot::RwLock;

use crate::duration::{display, duration};
use crate::known_settings::{is_of_servers, meaningless};
use crate::setting::Setting;
use crate::settings_of_duckdb::{changes_nothing, own_name, said_at_the_start};

/// Packets on one pipeline at most: far more than cores, little enough that their states fit.
const PACKETS_MAX: usize = 1024;

/// Whether a setting is one of applications: its name has a dot.
pub(crate) fn is_custom(name: &str) -> bool {
    changes_nothing(name) || name.contains('.') && name.split('.').all(|part| !part.is_empty())
}

/// Whether a setting is not the session's alone.
pub(crate) fn is_everybodys(name: &str) -> bool {
    Setting::of_name(name).is_some_and(|setting| setting.is_engines() || setting == Setting::Workers)
}

/// A setting as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub name: String,
    pub value: String,
    pub default: String,
    pub description: String,
}

/// What settings go back to.
#[derive(Debug)]
pub(crate) struct Defaults {
    policy: Policies,
    memory_bytes: usize,
    buffer_percent: usize,
    columns_percent: usize,
    retained_percent: usize,
    /// What every session begins with.
    given: RwLock<Vec<(String, String)>>,
}

impl Defaults {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self {
            policy: engine.policy(),
            memory_bytes: engine.broker().budget_bytes(),
            buffer_percent: engine.buffer().percent(),
            columns_percent: engine.columns_percent(),
            retained_percent: engine.retained_percent(),
            given: RwLock::default(),
        }
    }

    pub(crate) fn remember(&self, given: &[(String, String)]) {
        *self.given.write() = given.to_vec();
    }

    /// The value given when the database was opened, if one was.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        self.given.read().iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone())
    }

    /// What a new session has to set: not what belongs to the engine or to the planner, which is set already.
    pub(crate) fn for_session(&self) -> Vec<(String, String)> {
        let own = |name: &str| Setting::of_name(name).is_some_and(|setting| !setting.is_engines());
        self.given.read().iter().filter(|(name, _)| own(name)).cloned().collect()
    }
}

/// What the session itself holds.
#[derive(Clone, Debug)]
struct Own {
    batch_rows: usize,
    lock_timeout: Duration,
    packets: Option<usize>,
    query_memory_bytes: Option<usize>,
    fragment_wise: bool,
    sharing: SharingMode,
    sharing_rows: usize,
    sort_plan: SortPlan,
    /// Settings with a dot in their names, which mean something to applications.
    custom: BTreeMap<String, String>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            batch_rows: BATCH_ROWS_MAX,
            lock_timeout: Duration::ZERO,
            packets: None,
            query_memory_bytes: None,
            fragment_wise: true,
            sharing: SharingMode::default(),
            sharing_rows: SHARING_ROWS_MIN,
            sort_plan: SortPlan::default(),
            custom: BTreeMap::new(),
        }
    }
}

/// The settings of one session.
#[derive(Debug)]
pub(crate) struct Settings {
    own: RwLock<Own>,
    /// Whether the session may change what is everybody's.
    may_change_engine: bool,
    /// Whether they are a session's, not what the database is opened with.
    is_somebodys: bool,
    /// What one of its queries may reserve at most, whatever the session says.
    query_memory_bytes_max: Option<usize>,
}

/// Where a session's settings are: its own, its engine's and its planner's.
#[derive(Clone, Copy)]
pub(crate) struct SettingsView<'a> {
    pub settings: &'a Settings,
    pub engine: &'a Arc<Engine>,
    pub planner: &'a Planner,
    pub defaults: &'a Defaults,
    pub segment_format: &'a FormatChoice,
    /// The database's folder; `None` if it is in memory.
    pub store: Option<&'a Store>,
}

impl Settings {
    /// The first settings of a session.
    pub(crate) fn new(may_change_engine: bool, query_memory_bytes_max: Option<usize>) -> Self {
        Self { own: RwLock::default(), may_change_engine, is_somebodys: true, query_memory_bytes_max }
    }

    /// Those that a database is opened with.
    pub(crate) fn at_the_opening() -> Self {
        Self { is_somebodys: false, ..Self::new(true, None) }
    }

    /// How long a statement waits for a lock; for as long as it takes, if zero.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.own.read().lock_timeout
    }

    /// How a query of this session is run.
    pub(crate) fn query_options(&self, label: &str) -> QueryOptions {
        let own = self.own.read();
        QueryOptions {
            label: without_passwords(label).into_owned(),
            tables: PlanTables::default(),
            memory_limit_bytes: self.query_memory_bytes(&own),
            waits_for_memory: true,
            starts_again: false,
            memory_grant_divisor: None,
            work_expected_ns: 0,
            packets: own.packets,
            batch_rows: own.batch_rows,
            sort_plan: own.sort_plan,
            sharing: own.sharing,
            sharing_rows_min: own.sharing_rows,
            fragment_wise: own.fragment_wise,
            function_limits: FunctionLimits::default(),
        }
    }
}

impl Settings {
    /// What one query may reserve: the least of what the session wants and what it may.
    fn query_memory_bytes(&self, own: &Own) -> Option<usize> {
        [own.query_memory_bytes, self.query_memory_bytes_max].into_iter().flatten().min()
    }
}

impl SettingsView<'_> {
    /// Changes a setting.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        let name = own_name(name);
        if let Some(setting) = Setting::of_name(name) {
            return self.set_own(setting, value).map_err(|error| wrong_value(error).context(format!("SET {name}")));
        }
        if !self.is_planners(name) {
            if is_custom(name) || meaningless(name).is_some() {
                self.settings.own.write().custom.insert(name.to_owned(), value.to_owned());
                return Ok(());
            }
            return Err(self.unknown(name));
        }
        self.planner.set_setting(name, value).map_err(wrong_value)
    }

    fn set_own(&self, setting: Setting, value: &str) -> Result<()> {
        if setting.is_engines() && !self.settings.may_change_engine {
            let error = Error::input("this setting is everybody's, and this user may not change it");
            return Err(error
                .with_code(DENIED)
                .with_hint("the server's file of users grants it to a role: admin = true"));
        }
        if setting.is_pools() {
            return self.set_pools(setting, value);
        }
        if let Some(knob) = setting.knob() {
            self.engine.set_knob(knob, knob_value(knob, value)?);
            return Ok(());
        }
        let mut own = self.settings.own.write();
        match setting {
            Setting::StagePolicy => self.engine.set_policy(value.parse::<Policies>()?),
            Setting::StageWorkers => self.engine.set_stage_workers(value.parse::<StageWorkers>()?),
            Setting::BatchRows => own.batch_rows = number(value, 1, BATCH_ROWS_MAX)?,
            Setting::HistoryRetention => self.set_history_retention(value)?,
            Setting::FragmentDirectories => self.set_fragment_directories(value)?,
            Setting::FragmentWise => own.fragment_wise = is_on(value)?,
            Setting::LockTimeout => own.lock_timeout = duration(value)?,
            Setting::Packets => {
                own.packets = if is(value, "auto") { None } else { Some(number(value, 1, PACKETS_MAX)?) };
            }
            Setting::QueryMemory => {
                own.query_memory_bytes = if is(value, "none") { None } else { Some(memory_budget(value)?) };
            }
            Setting::Memory => self.engine.broker().set_budget_bytes(memory_budget(value)?),
            Setting::SegmentBuffer => {
                self.engine.buffer().set_percent(number(value, 0, BUFFER_PERCENT_MAX)?);
            }
            Setting::SegmentFormat => {
                let unknown = || {
                    let names = SegmentFormat::ALL.map(SegmentFormat::name).join(" or ");
                    Error::input(format!("there is no such format; write {names}"))
                };
                self.segment_format.set(SegmentFormat::of_name(value).ok_or_else(unknown)?);
            }
            Setting::Sharing => own.sharing = value.parse()?,
            Setting::SharingColumns => {
                self.engine.set_columns_percent(number(value, 0, COLUMNS_PERCENT_MAX)?);
            }
            Setting::SharingRetained => {
                self.engine.set_retained_percent(number(value, 0, RETAINED_PERCENT_MAX)?);
            }
            Setting::SharingRows => own.sharing_rows = number(value, 0, usize::MAX)?,
            Setting::SortPlan => own.sort_plan = value.parse()?,
            Setting::Tuning => self.engine.set_tuning_mode(value.parse()?),
            Setting::Workers => {
                return Err(Error::input("the number of workers is fixed when the database is opened")
                    .with_code("55P02")
                    .with_hint("open it with --workers"));
            }
            _ => return Err(Error::bug(format!("{} is the pool's", setting.name()))),
        }
        Ok(())
    }

    /// Changes how functions in other languages are computed.
    fn set_pools(&self, setting: Setting, value: &str) -> Result<()> {
        let pool = &self.planner.options().pool;
        match setting {
            Setting::FunctionFiles => {
                let files = is_on(value)?;
                pool.set_options(|options| options.files = files);
            }
            Setting::FunctionNetwork => {
                let network = is_on(value)?;
                pool.set_options(|options| options.network = network);
            }
            Setting::FunctionFuel if is(value, "none") => pool.set_options(|options| options.fuel = 0),
            Setting::FunctionFuel => {
                let fuel = number(value, 1000, usize::MAX)? as u64;
                pool.set_options(|options| options.fuel = fuel);
            }
            Setting::FunctionMemory if is(value, "none") => pool.set_options(|options| options.memory_bytes = 0),
            Setting::FunctionMemory => {
                let bytes = bytes(value)? as u64;
                if bytes < FUNCTION_MEMORY_BYTES_MIN {
                    let least = display_bytes(FUNCTION_MEMORY_BYTES_MIN as usize);
                    return Err(Error::input(format!("an interpreter needs more memory than that: {least} at least")));
                }
                pool.set_options(|options| options.memory_bytes = bytes);
            }
            Setting::FunctionTime => {
                let time = function_time(value)?;
                pool.set_options(|options| options.time = time);
            }
            Setting::PoolMaximum => {
                let maximum = number(value, 1, POOL_MAXIMUM_MAX)?;
                pool.set_options(|options| options.growth.maximum = maximum);
            }
            Setting::PoolMinimum => {
                let minimum = number(value, 1, POOL_MAXIMUM_MAX)?;
                pool.set_options(|options| options.growth.minimum = minimum);
            }
            Setting::PoolThreshold => {
                let threshold = number(value, 0, POOL_MAXIMUM_MAX)?;
                pool.set_options(|options| options.growth.threshold = threshold);
            }
            Setting::Python | Setting::Wasm if value.trim().is_empty() => {
                return Err(Error::input("a program has a name").with_hint("SET python = 'python3'"));
            }
            // When the database is opened, nobody is there who could not.
            Setting::Python | Setting::Wasm if !self.may_program() => {
                let error = Error::input("this user may not say which program computes functions").with_code(DENIED);
                return Err(error.with_hint("the server's file of users grants it: admin = true and files = true"));
            }
            Setting::Wasm if is(value, "auto") => pool.set_options(|options| options.wasm.clear()),
            Setting::Wasm => pool.set_options(|options| options.wasm = value.trim().to_owned()),
            _ => pool.set_options(|options| options.python = value.trim().to_owned()),
        }
        Ok(())
    }

    /// Gives a setting its default back: the one given when the database was opened, or the built-in one.
    pub(crate) fn reset(&self, name: &str) -> Result<()> {
        let name = own_name(name);
        let kept = || self.planner.catalogs().initial_settings().remove(name);
        match (Setting::of_name(name), self.defaults.given(name).or_else(kept)) {
            (Some(Setting::Workers), _) => Ok(()),
            (_, Some(value)) => self.set(name, &value),
            (Some(setting), None) => {
                self.set_own(setting, &self.built_in(setting))?;
                // Nobody has set it any more, so the tuner may.
                match setting.knob() {
                    Some(knob) => self.engine.release_knob(knob),
                    None if setting == Setting::StagePolicy => self.engine.release_policy(),
                    None if setting == Setting::StageWorkers => self.engine.release_stage_workers(),
                    None => {}
                }
                Ok(())
            }
            (None, None) if self.is_planners(name) => self.planner.reset_setting(name),
            (None, None) if meaningless(name).is_some() => self.set(name, meaningless(name).unwrap_or_default()),
            (None, None) if is_custom(name) => {
                self.settings.own.write().custom.remove(name);
                Ok(())
            }
            (None, None) => Err(self.unknown(name)),
        }
    }

    /// Whether the session may say which program computes functions.
    fn may_program(&self) -> bool {
        self.planner.options().may_program || !self.settings.is_somebodys
    }

    /// Gives every setting that the session can change for itself its default back.
    pub(crate) fn reset_all(&self) -> Result<()> {
        let own = |setting: &Setting| match setting {
            Setting::Python | Setting::Wasm if !self.may_program() => false,
            // They say where rows lie and how long they stay, also after this session.
            Setting::FragmentDirectories | Setting::HistoryRetention => false,
            setting => self.settings.may_change_engine || !setting.is_engines(),
        };
        for setting in Setting::all().filter(own) {
            self.reset(setting.name())?;
        }
        for (name, value) in &mut self.settings.own.write().custom {
            meaningless(name).unwrap_or_default().clone_into(value);
        }
        self.settings.own.write().custom.retain(|name, _| !is_custom(name));
        self.planners()
            .into_iter()
            .filter(|shown| shown.value != shown.default)
            .try_for_each(|shown| self.reset(&shown.name))
    }

    /// One setting.
    pub(crate) fn show(&self, asked: &str) -> Result<Shown> {
        let name = own_name(asked);
        if let Some(setting) = Setting::of_name(name) {
            let shown = self.shown(setting);
            // DuckDB's number of threads is one.
            let is_auto = setting == Setting::Packets && asked != name && shown.value == "auto";
            return Ok(if is_auto { self.shown(Setting::Workers) } else { shown });
        }
        let mut others = self.planners().into_iter().chain(self.custom());
        others.find(|shown| shown.name == name).ok_or_else(|| self.unknown(name))
    }

    /// One setting, or what a setting is that nobody has changed and that means nothing.
    pub(crate) fn show_any(&self, name: &str) -> Result<Shown> {
        self.show(name).or_else(|error| {
            let value = meaningless(name).ok_or(error)?.to_owned();
            Ok(Shown { name: name.to_owned(), default: value.clone(), value, description: String::new() })
        })
    }

    fn custom(&self) -> Vec<Shown> {
        let own = self.settings.own.read();
        let shown = own.custom.iter().map(|(name, value)| Shown {
            name: name.clone(),
            value: value.clone(),
            default: String::new(),
            description: "An application's own".to_owned(),
        });
        shown.collect()
    }

    /// All settings, ours first.
    pub(crate) fn all(&self) -> Vec<Shown> {
        let own = Setting::all().map(|setting| self.shown(setting));
        own.chain(self.planners()).chain(self.custom()).collect()
    }

    fn shown(&self, setting: Setting) -> Shown {
        let own = self.settings.own.read();
        let value = match setting {
            Setting::StagePolicy => self.engine.policy().to_string(),
            Setting::StageWorkers => self.engine.stage_workers().to_string(),
            Setting::BatchRows => own.batch_rows.to_string(),
            Setting::HistoryRetention => match self.planner.catalogs().catalog().history().retention {
                0 => "0".into(),
                micros => display(Duration::from_micros(micros.unsigned_abs())),
            },
            Setting::FragmentDirectories => {
                let directories = self.store.map(Store::directories).unwrap_or_default();
                directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            Setting::FragmentWise => if own.fragment_wise { "on" } else { "off" }.to_owned(),
            Setting::LockTimeout if own.lock_timeout.is_zero() => "0".into(),
            Setting::LockTimeout => display(own.lock_timeout),
            Setting::Packets => own.packets.map_or("auto".into(), |packets| packets.to_string()),
            Setting::QueryMemory => self.settings.query_memory_bytes(&own).map_or("none".into(), display_exact),
            Setting::Memory => display_exact(self.engine.broker().budget_bytes()),
            Setting::Sharing => own.sharing.to_string(),
            Setting::SharingColumns => self.engine.columns_percent().to_string(),
            Setting::SharingRetained => self.engine.retained_percent().to_string(),
            Setting::SharingRows => own.sharing_rows.to_string(),
            Setting::SegmentBuffer => self.engine.buffer().percent().to_string(),
            Setting::SegmentFormat => self.segment_format.get().name().to_owned(),
            Setting::SortPlan => own.sort_plan.to_string(),
            Setting::Tuning => self.engine.tuning_mode().to_string(),
            Setting::Workers => self.engine.worker_count().to_string(),
            _ => match setting.knob() {
                Some(knob) => display_knob(knob, self.engine.knob(knob)),
                None => pools(setting, &self.planner.options().pool.options()),
            },
        };
        let default = self.defaults.given(setting.name()).unwrap_or_else(|| self.built_in(setting));
        Shown { name: setting.name().into(), value, default, description: setting.description().into() }
    }

    fn built_in(&self, setting: Setting) -> String {
        match setting {
            Setting::StagePolicy => self.defaults.policy.to_string(),
            Setting::StageWorkers => StageWorkers::default().to_string(),
            Setting::BatchRows => BATCH_ROWS_MAX.to_string(),
            Setting::HistoryRetention | Setting::LockTimeout => "0".into(),
            Setting::FragmentDirectories => String::new(),
            Setting::FragmentWise => "on".to_owned(),
            Setting::Packets => "auto".into(),
            Setting::QueryMemory => "none".into(),
            Setting::Memory => display_exact(self.defaults.memory_bytes),
            Setting::Sharing => SharingMode::default().to_string(),
            Setting::SharingColumns => self.defaults.columns_percent.to_string(),
            Setting::SharingRetained => self.defaults.retained_percent.to_string(),
            Setting::SharingRows => SHARING_ROWS_MIN.to_string(),
            Setting::SegmentBuffer => self.defaults.buffer_percent.to_string(),
            Setting::SegmentFormat => SegmentFormat::default().name().to_owned(),
            Setting::SortPlan => SortPlan::default().to_string(),
            Setting::IoThreads => IO_THREADS.to_string(),
            Setting::PortCredits => PORT_CREDITS.to_string(),
            Setting::Quantum => display(QUANTUM),
            Setting::ReadAhead => READ_AHEAD_CLUSTERS.to_string(),
            Setting::Tuning => TuningMode::default().to_string(),
            Setting::Workers => self.engine.worker_count().to_string(),
            _ => pools(setting, &PoolOptions::default()),
        }
    }

    fn planners(&self) -> Vec<Shown> {
        let shown = self.planner.settings().into_iter().map(|setting| Shown {
            name: setting.name.into(),
            value: setting.value,
            default: self.defaults.given(setting.name).unwrap_or(setting.default),
            description: setting.description.into(),
        });
        shown.collect()
    }

    fn is_planners(&self, name: &str) -> bool {
        self.planners().iter().any(|shown| shown.name == name)
    }

    fn unknown(&self, name: &str) -> Error {
        if let Some(error) = said_at_the_start(name) {
            return error;
        }
        let error = Error::input(format!("no setting is named '{name}'"));
        if is_of_servers(name) {
            return error.with_hint("sessions over PostgreSQL's protocol have it, with 'diligence serve'");
        }
        let names = self.all().into_iter().map(|shown| shown.name).collect::<Vec<_>>();
        suggest(error, name, &names)
    }
}

/// What a knob is to be set to, from text.
fn knob_value(knob: KnobId, value: &str) -> Result<usize> {
    let range = match knob {
        KnobId::IoThreads => IO_THREADS_RANGE,
        KnobId::PortCredits => PORT_CREDITS_RANGE,
        KnobId::ReadAhead => READ_AHEAD_RANGE,
        _ => {
            let time = match value.trim().strip_suffix("us") {
                Some(micros) => micros.trim().parse().ok().map(Duration::from_micros),
                None => duration(value).ok(),
            };
            return time
                .filter(|time| QUANTUM_RANGE.contains(time))
                .map(|time| time.as_micros() as usize)
                .ok_or_else(|| Error::input(format!("expected a time from 200us to 100ms, found '{value}'")));
        }
    };
    number(value, *range.start(), *range.end())
}

fn display_knob(knob: KnobId, value: usize) -> String {
    match knob {
        KnobId::Quantum if value.is_multiple_of(1000) => display(Duration::from_micros(value as u64)),
        _ => knob.shown(value),
    }
}

/// The value of a setting about the pool.
fn pools(setting: Setting, options: &PoolOptions) -> String {
    match setting {
        Setting::FunctionFiles => if options.files { "on" } else { "off" }.to_owned(),
        Setting::FunctionNetwork => if options.network { "on" } else { "off" }.to_owned(),
        Setting::FunctionFuel if options.fuel == 0 => "none".into(),
        Setting::FunctionFuel => options.fuel.to_string(),
        Setting::Wasm if options.wasm.is_empty() => "auto".into(),
        Setting::Wasm => options.wasm.clone(),
        Setting::FunctionMemory if options.memory_bytes == 0 => "none".into(),
        Setting::FunctionMemory => display_exact(options.memory_bytes as usize),
        Setting::FunctionTime => display(options.time),
        Setting::PoolMaximum => options.growth.maximum.to_string(),
        Setting::PoolMinimum => options.growth.minimum.to_string(),
        Setting::PoolThreshold => options.growth.threshold.to_string(),
        _ => options.python.clone(),
    }
}

/// The error about a setting's value, with the code for that unless it has one that says more.
fn wrong_value(error: Error) -> Error {
    let is_coded = error.code().is_some() || error.kind() == ErrorKind::Bug;
    if is_coded { error } else { error.with_code("22023") }
}

fn is(value: &str, word: &str) -> bool {
    value.trim().eq_ignore_ascii_case(word)
}

fn number(value: &str, low: usize, high: usize) -> Result<usize> {
    value
        .trim()
        .replace('_', "")
        .parse()
        .ok()
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| Error::input(format!("expected a number from {low} to {high}, found '{value}'")))
}

/// A memory budget from text such as `512MB`. Fails with kind `Input` if the text is no amount of memory, or less than
/// queries can run in.
pub fn memory_budget(text: &str) -> Result<usize> {
    budget(bytes(text)?)
}

/// A memory budget of so many bytes, if queries can run in it.
pub(crate) fn budget(bytes: usize) -> Result<usize> {
    if bytes >= MEMORY_BYTES_MIN {
        return Ok(bytes);
    }
    let (bytes, least) = (display_bytes(bytes), display_bytes(MEMORY_BYTES_MIN));
    let error = Error::input(format!("a memory budget of {bytes} is too small: the minimum is {least}"));
    Err(error.with_hint("what does not fit in memory goes on in temp space, but that needs some memory, too"))
}

/// Bytes such that reading the text gives the same number again.
fn display_exact(amount: usize) -> String {
    let text = display_bytes(amount);
    match bytes(&text) {
        Ok(read) if read == amount => text,
        _ => format!("{amount} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_are_read_and_shown_exactly() {
        assert_eq!(bytes("512MB").unwrap(), 512 << 20);
        assert_eq!(bytes("1.5 GiB").unwrap(), 3 << 29);
        assert_eq!(bytes("1000").unwrap(), 1000);
        for wrong in ["", "0", "-1", "12 parsecs", "1e400", "GB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        for amount in [1, 1023, 1024, 1_000_000_007, 3 << 30] {
            assert_eq!(bytes(&display_exact(amount)).unwrap(), amount);
        }
    }
}
