//! Settings that the folder of a database keeps.

use std::path::PathBuf;

use diligence_base::{Error, Result};

use crate::duration::duration;
use crate::settings::SettingsView;

impl SettingsView<'_> {
    /// How long the past is kept. Fails with kind `Input` for what is no time, with kind `File` if it cannot be kept.
    pub(crate) fn set_history_retention(&self, value: &str) -> Result<()> {
        let retention = i64::try_from(duration(value)?.as_micros()).unwrap_or(i64::MAX);
        match self.store {
            Some(store) => store.retain_history(retention),
            None => {
                self.planner.catalogs().catalog().retain_history(retention);
                Ok(())
            }
        }
    }

    /// Into which directories fragments are written. Fails as a database's folder does, with code 0A000 if there is
    /// none.
    pub(crate) fn set_fragment_directories(&self, value: &str) -> Result<()> {
        let directories = value.split(',').map(str::trim).filter(|path| !path.is_empty());
        let directories = directories.map(PathBuf::from).collect::<Vec<_>>();
        match self.store {
            Some(store) => store.set_directories(&directories),
            None if directories.is_empty() => Ok(()),
            None => {
                let error = Error::unsupported("a database in memory has no rows on disks").with_code("0A000");
                Err(error.with_hint("open a database in a folder"))
            }
        }
    }
}
