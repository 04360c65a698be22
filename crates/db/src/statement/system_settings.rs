//! ALTER SYSTEM: settings that the database keeps. What belongs to the engine takes effect at once and whenever the
//! database is opened, what belongs to sessions in those that begin later.

use diligence_base::function_limits::is_on;
use diligence_base::{Error, Result};
use diligence_catalog::authority::RoleChange;

use crate::known_settings::{SettingKind, kind_of_setting};
use crate::session::Session;
use crate::settings::{is_custom, is_everybodys};
use crate::settings_of_duckdb::own_name;

impl Session {
    /// Keeps a setting for all, or forgets one, or all of them. Fails with code 25001 in a transaction, 42704 if there
    /// is no such setting, 22023 if that is no value of it, and as [`set`](Session::set) does where it is everybody's.
    pub(super) fn set_for_all(&self, setting: Option<&str>, value: Option<&str>) -> Result<()> {
        let (catalogs, setting) = (self.planner().catalogs(), setting.map(own_name));
        if catalogs.isolation().is_some() {
            let error = Error::input("ALTER SYSTEM cannot run inside a transaction block").with_code("25001");
            return Err(error.with_hint("run it by itself"));
        }
        let kept = catalogs.snapshot().catalog.authority().settings().clone();
        if let (Some(setting), Some(value)) = (setting, value) {
            self.accept_for_all(setting, value)?;
        }
        let change = RoleChange::Set { setting: setting.map(str::to_owned), value: value.map(str::to_owned) };
        self.database().catalog().change_roles(&change, &catalogs.speaker())?;
        // What was everybody's is what it is without it.
        let forgotten = kept.keys().filter(|name| value.is_none() && setting.is_none_or(|setting| setting == *name));
        for name in forgotten.filter(|name| is_everybodys(name)) {
            self.reset(name)?;
        }
        Ok(())
    }

    /// Sets what is everybody's; of other settings, fails if this is no value.
    fn accept_for_all(&self, setting: &str, value: &str) -> Result<()> {
        if is_everybodys(setting) {
            return self.set(setting, value);
        }
        if is_custom(setting) {
            return Ok(());
        }
        match (self.setting(setting), kind_of_setting(setting)) {
            (Ok(before), _) => {
                self.set(setting, value)?;
                // The session's own value comes back.
                self.set(setting, &before)
            }
            (Err(_), Some(kind)) => is_value(kind, value).map_err(|error| {
                let message = format!("invalid value for parameter \"{setting}\": \"{value}\"");
                Error::input(message).with_code("22023").with_detail(error.message().to_owned())
            }),
            (Err(error), None) => Err(error),
        }
    }
}

/// Fails if this is no value of a setting of PostgreSQL's.
fn is_value(kind: SettingKind, value: &str) -> Result<()> {
    match kind {
        SettingKind::Text | SettingKind::Choice => Ok(()),
        SettingKind::Switch => is_on(value).map(|_| ()),
        SettingKind::Time => crate::duration::duration(value).map(|_| ()),
        SettingKind::Whole => match value.trim().parse::<f64>() {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::input("it is a number")),
        },
    }
}
