//! What others ask of a session while its statements run: functions in SQL, and system tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use diligence_base::{Error, Result};
use diligence_catalog::HistoryState;
use diligence_catalog::authority::SIGNAL_BACKEND;
use diligence_engine::stages::{Level, Message, caller};
use diligence_native::{CheckpointInfo, LogInfo};
use diligence_remote::Server;
use diligence_sql::{ChannelStep, PreparedInfo, SettingsSink};

use super::Parts;
use crate::cursors::CursorInfo;
use crate::known_settings::known_settings;
use crate::settings::{self, Shown};
use crate::system::{SessionView, WaitingQuery};

/// The setting that is the role that SET ROLE has said.
pub(super) const ROLE: &str = "role";

impl SettingsSink for Parts {
    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.channel(ChannelStep::Notify { channel: channel.to_owned(), payload: payload.to_owned() })
    }

    fn listening(&self) -> Vec<String> {
        self.ears.listening()
    }

    fn trigger_depth(&self) -> i32 {
        i32::try_from(self.triggers.load(Ordering::Relaxed)).unwrap_or(i32::MAX)
    }

    fn stop_session(&self, process_id: i32, is_end: bool) -> Result<bool> {
        let activities = self.database.activities();
        let Some(other) = activities.all().into_iter().find(|other| other.process_id == process_id) else {
            let said = Error::input(format!("PID {process_id} is not a PostgreSQL backend process"));
            let message = Message { level: Level::Warning, said: said.with_code("01000") };
            if let Some(caller) = caller() {
                caller.printed(message);
            }
            return Ok(false);
        };
        let (catalogs, facts) = (self.planner.catalogs(), self.planner.facts());
        let by = catalogs.speaker();
        let is_own = catalogs.role().is_none() && facts.user == other.user;
        let snapshot = catalogs.snapshot();
        let authority = snapshot.catalog.authority();
        // Whoever may everything is stopped by their like alone.
        let may_signal = by.roles.contains(SIGNAL_BACKEND) && !authority.is_superuser(&other.user);
        if !is_own && !by.is_superuser && !may_signal && !authority.is_member(&by.name, &other.user) {
            let what = if is_end { "process is being terminated" } else { "query is being canceled" };
            let message = format!("must be a member of the role whose {what} or member of pg_signal_backend");
            return Err(Error::input(message).with_code("42501"));
        }
        Ok(activities.stop(process_id, is_end))
    }

    fn setting(&self, name: &str) -> Option<String> {
        if name == ROLE {
            return Some(self.planner.catalogs().role().unwrap_or_else(|| "none".to_owned()));
        }
        let own = self.settings().show(name).ok().map(|shown| shown.value);
        let of_client = || self.planner.facts().settings.get(name).cloned();
        let at_first = || known_settings().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        own.or_else(of_client).or_else(at_first).or_else(|| settings::is_custom(name).then(String::new))
    }

    fn set_config(&self, name: &str, value: &str, is_local: bool) -> Result<String> {
        let name = name.to_lowercase();
        if name == ROLE {
            self.act_as_role(value, is_local)?;
            return Ok(value.to_owned());
        }
        if self.settings().show(&name).is_err() && !settings::is_custom(&name) {
            return self.ask_client(name, value, is_local);
        }
        match self.change(&name, Some(value), is_local)? {
            true => Ok(self.settings().show(&name)?.value),
            // For this statement's transaction, which ends with it.
            false => Ok(value.to_owned()),
        }
    }
}

impl SessionView for Parts {
    fn settings(&self) -> Vec<Shown> {
        Parts::settings(self).all()
    }

    fn client_settings(&self) -> Vec<(String, String)> {
        let facts = self.planner.facts();
        facts.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn waiting(&self) -> Vec<WaitingQuery> {
        self.database.waiting()
    }

    fn history(&self) -> HistoryState {
        self.database.catalog().history()
    }

    fn cursors(&self) -> Vec<(String, CursorInfo)> {
        self.cursors.infos()
    }

    fn prepared(&self) -> Vec<(String, PreparedInfo, bool)> {
        let own = self.planner.prepared().into_iter().map(|(name, info)| (name, info, true));
        let of_client = self.prepared_by_client.lock();
        let of_client = of_client.iter().map(|(name, info)| (name.clone(), info.clone(), false));
        own.chain(of_client).collect()
    }

    fn attached(&self) -> Vec<Arc<Server>> {
        self.database.servers().all()
    }

    fn logs(&self) -> Result<Vec<LogInfo>> {
        self.database.logs()
    }

    fn checkpoints(&self) -> Vec<CheckpointInfo> {
        self.database.last_checkpoints()
    }
}
