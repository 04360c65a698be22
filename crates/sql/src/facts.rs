//! What a session knows of its client: the answers of `current_user`, `current_setting('…')` and their like.
//!
//! They are put into a statement as constants before it is planned, so that planning and running know nothing of clients.

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
