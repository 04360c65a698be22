//! What a session knows of its client: the answers of `current_user`, `current_setting('…')` and their like. They are
//! constants of a bound statement, so that planning and running know nothing of clients.

use std::collections::BTreeMap;

/// The facts of one session.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Who is there.
    pub user: String,
    /// The number that a cancel request names.
    pub process_id: i32,
    /// The client's settings by name, as SHOW has them.
    pub settings: BTreeMap<String, String>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { user: "diligence".into(), process_id: 0, settings: BTreeMap::new() }
    }
}

/// What `version()` answers.
pub(crate) fn version() -> String {
    let (version, processor, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    format!("PostgreSQL 16.6 compatible, Diligence {version}, {processor}-{system}")
}
