//! Settings of a session's client, which `set_config` may change as SET does: the client checks their values, and takes
//! them over when the statement has ended.

use std::sync::Arc;

use diligence_base::Result;
use parking_lot::Mutex;

use super::{Parts, Session};
use crate::remembered::Was;

/// The value that a setting would have, as it is shown, of its name and what it is set to. Fails as SET does.
pub type SettingCheck = dyn Fn(&str, &str) -> Result<String> + Send + Sync;

/// A setting of the client's that a statement has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedSetting {
    /// Its name, in lower case.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// Whether for the transaction alone.
    pub is_local: bool,
}

/// What a session knows of the settings of its client.
#[derive(Default)]
pub(super) struct OfClient {
    check: Mutex<Option<Arc<SettingCheck>>>,
    asked: Mutex<Vec<AskedSetting>>,
}

impl Parts {
    /// Has the client change one of its settings; the value that it has then. A session whose client has none changes
    /// nothing. Fails as SET does.
    pub(super) fn ask_client(&self, name: String, value: &str, is_local: bool) -> Result<String> {
        let check = self.of_client.check.lock().clone();
        let Some(check) = check else { return Ok(value.to_owned()) };
        let shown = check(&name, value)?;
        self.of_client.asked.lock().push(AskedSetting { name, value: value.to_owned(), is_local });
        Ok(shown)
    }

    /// `set_config('role', …)`, which is SET ROLE. Fails as that does.
    pub(super) fn act_as_role(&self, value: &str, is_local: bool) -> Result<()> {
        let catalogs = self.planner.catalogs();
        let is_inside = catalogs.isolation().is_some();
        if is_local && !is_inside {
            return Ok(());
        }
        let was = catalogs.role();
        // Its own name may be nobody else's.
        let is_role = catalogs.snapshot().catalog.authority().roles().contains_key(value);
        let is_other = value != "none" && (is_role || value != self.planner.facts().user);
        catalogs.set_role(is_other.then_some(value))?;
        if is_inside {
            self.remembered.lock().note(Was::Role(was), is_local);
        }
        Ok(())
    }
}

impl Session {
    /// Has `set_config` change settings of the client's, to values that `check` accepts. The client takes them over
    /// ([`take_asked_settings`](Self::take_asked_settings)).
    pub fn set_client_check(&self, check: Arc<SettingCheck>) {
        *self.0.of_client.check.lock() = Some(check);
    }

    /// The settings of the client's that statements have changed since the last time, in their order.
    pub fn take_asked_settings(&self) -> Vec<AskedSetting> {
        std::mem::take(&mut *self.0.of_client.asked.lock())
    }
}
