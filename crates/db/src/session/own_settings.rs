//! A session's settings: how they change, until when, and who is told.

use diligence_base::{Error, Result};
use diligence_sql::Facts;

use super::asked::ROLE;
use super::{Parts, Session};
use crate::known_settings::meaningless;
use crate::remembered::Was;
use crate::settings::{self, SettingsView};

/// Settings that a procedure has changed, until it is dropped.
pub(crate) struct SetMeanwhile {
    session: Session,
    was: Vec<Was>,
}

impl Drop for SetMeanwhile {
    fn drop(&mut self) {
        self.session.restore(std::mem::take(&mut self.was));
    }
}

impl Parts {
    /// `current_setting` answers what the settings are now.
    pub(super) fn tell(&self, mut facts: Facts) {
        self.database.activities().is_of(self.planner.catalogs().owner().number(), facts.process_id);
        facts.settings.retain(|name, _| !settings::is_custom(name));
        facts.settings.extend(self.settings().all().into_iter().map(|shown| (shown.name, shown.value)));
        self.planner.set_facts(facts);
    }
}

impl Parts {
    /// Changes a setting, or gives it its default back: until its transaction is rolled back or, with `is_local`, until
    /// it ends. Gives whether it has: without a transaction, nothing is local. Fails with kind `Input` if there is no
    /// such setting, if this is no value of it, or if it is everybody's and the session may not change it; with code
    /// 55P02 if it is everybody's, and `is_local`.
    pub(super) fn change(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<bool> {
        let is_inside = self.planner.catalogs().isolation().is_some();
        if is_local && !is_inside {
            return Ok(false);
        }
        let was = if is_inside { self.own_setting(name)? } else { None };
        if is_local && was.is_none() {
            let error = Error::input(format!("the setting '{name}' is everybody's: it does not go with a transaction"));
            return Err(error.with_code("55P02").with_hint("write SET without LOCAL"));
        }
        match value {
            Some(value) => self.settings().set(name, value)?,
            None => self.settings().reset(name)?,
        }
        if let Some(value) = was {
            self.remembered.lock().note(Was::Setting { name: name.to_lowercase(), value }, is_local);
        }
        self.tell(Facts::clone(&self.planner.facts()));
        Ok(true)
    }

    /// A setting's value; `None` of a setting that is everybody's. Fails with kind `Input` if there is no such setting.
    pub(super) fn own_setting(&self, name: &str) -> Result<Option<String>> {
        let shown = match self.settings().show(name) {
            Err(_) if settings::is_custom(name) => return Ok(Some(String::new())),
            Err(_) if meaningless(name).is_some() => return Ok(meaningless(name).map(str::to_owned)),
            shown => shown?,
        };
        Ok((!settings::is_everybodys(name)).then_some(shown.value))
    }

    /// Makes what was changed what it was.
    pub(super) fn restore(&self, changed: Vec<Was>) {
        if changed.is_empty() {
            return;
        }
        for was in changed {
            // They had that value, so it is one.
            let _ = match was {
                // One that had no value is shown as nothing.
                Was::Setting { name, value } if value.is_empty() && settings::is_custom(&name) => {
                    self.settings().reset(&name)
                }
                Was::Setting { name, value } => self.settings().set(&name, &value),
                Was::Role(role) => {
                    self.planner.catalogs().restore_role(role);
                    Ok(())
                }
                Was::Authorization(user) => {
                    self.planner.catalogs().restore_authorization(user);
                    Ok(())
                }
            };
        }
        self.tell(Facts::clone(&self.planner.facts()));
    }
}

impl Session {
    /// A setting's value, as SHOW has it. Fails with kind `Input` if there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        if name.eq_ignore_ascii_case(ROLE) {
            return Ok(self.0.planner.catalogs().role().unwrap_or_else(|| "none".to_owned()));
        }
        Ok(self.0.settings().show(name)?.value)
    }

    /// Changes a setting, as SET does. Fails with kind `Input` if there is no such setting, if this is no value of it,
    /// or if it is everybody's and the session may not change it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.0.settings().set(name, value)?;
        self.tell_settings();
        Ok(())
    }

    /// Changes a setting as SET does or, with `is_local`, as SET LOCAL; without a value, gives it its default back. A
    /// transaction that is rolled back has not changed it. Gives whether there is a change: nothing is local without a
    /// transaction. Fails as [`set`](Self::set) does, and with code 55P02 if it is everybody's, and `is_local`.
    pub fn set_within(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<bool> {
        self.0.change(name, value, is_local)
    }

    /// Gives a setting its default back. Fails with kind `Input` if there is no such setting, or it is everybody's and
    /// the session may not change it.
    pub fn reset(&self, name: &str) -> Result<()> {
        self.0.settings().reset(name)?;
        self.tell_settings();
        Ok(())
    }

    /// Gives all settings that the session can change their defaults back. Fails with kind `Input` if a default is no
    /// longer a value of its setting.
    pub fn reset_all(&self) -> Result<()> {
        self.0.settings().reset_all()?;
        self.tell_settings();
        Ok(())
    }

    /// As [`reset_all`](Self::reset_all), until its transaction is rolled back. Fails as that does.
    pub fn reset_all_within(&self) -> Result<()> {
        let is_inside = self.planner().catalogs().isolation().is_some();
        let names = if is_inside { self.changed_settings() } else { vec![] };
        let was = names.into_iter().map(|name| Ok((self.0.own_setting(&name)?, name)));
        let was = was.collect::<Result<Vec<_>>>()?;
        self.reset_all()?;
        let mut remembered = self.0.remembered.lock();
        for (value, name) in was {
            if let Some(value) = value {
                remembered.note(Was::Setting { name, value }, false);
            }
        }
        Ok(())
    }

    /// The session's own settings that differ from their defaults.
    pub fn changed_settings(&self) -> Vec<String> {
        let all = self.0.settings().all().into_iter();
        let changed = all.filter(|shown| shown.value != shown.default && !settings::is_everybodys(&shown.name));
        changed.map(|shown| shown.name).collect()
    }

    /// The settings that it knows.
    pub(crate) fn setting_names(&self) -> impl Iterator<Item = String> {
        self.0.settings().all().into_iter().map(|shown| shown.name)
    }

    pub(crate) fn settings(&self) -> SettingsView<'_> {
        self.0.settings()
    }

    /// SET ROLE and SET SESSION AUTHORIZATION have changed whom it acts as.
    pub(crate) fn was_acting_as(&self, was: Vec<Was>, is_local: bool) {
        let mut remembered = self.0.remembered.lock();
        was.into_iter().for_each(|was| remembered.note(was, is_local));
    }

    /// Makes what was changed what it was.
    pub(crate) fn restore(&self, changed: Vec<Was>) {
        self.0.restore(changed);
    }

    /// Changes settings for a procedure, until what is given is dropped: then they are what they were, whatever it has
    /// changed. Those of the client, which only it changes, stay as they are. Fails with kind `Input` if one is no
    /// value of its setting, and with code 55P02 if its setting is everybody's.
    pub(crate) fn set_meanwhile(&self, changed: &[(String, String)]) -> Result<SetMeanwhile> {
        let mut set = SetMeanwhile { session: self.clone(), was: vec![] };
        for (name, value) in changed {
            if !settings::is_custom(name) && self.0.settings().show(name).is_err() {
                continue;
            }
            let Some(now) = self.0.own_setting(name)? else {
                let message = format!("the setting '{name}' is everybody's: a function has no own value of it");
                return Err(Error::input(message).with_code("55P02"));
            };
            self.0.settings().set(name, value)?;
            let was = Was::Setting { name: name.clone(), value: now };
            // What it sets for the transaction is gone with the function, too.
            if self.planner().catalogs().isolation().is_some() {
                self.0.remembered.lock().note(was.clone(), true);
            }
            set.was.push(was);
        }
        if !set.was.is_empty() {
            self.tell_settings();
        }
        Ok(set)
    }

    /// What functions about the session and its client answer.
    pub fn set_facts(&self, facts: Facts) {
        self.0.tell(facts);
    }

    pub(super) fn tell_settings(&self) {
        self.set_facts(Facts::clone(&self.0.planner.facts()));
    }
}
