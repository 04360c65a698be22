//! What a session has for its client: notifications, cursors, statements that it has prepared; and how it all goes.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_catalog::types::type_of_oid;
use diligence_engine::query::KeptRows;
use diligence_sql::PreparedInfo;
use parking_lot::Mutex;

use super::Session;
use crate::channels::Notification;
use crate::cursors::{CursorInfo, CursorRows, OpenCursor};

impl Session {
    /// What it has heard of the channels that it listens to, since the last time.
    pub fn take_notifications(&self) -> Vec<Notification> {
        self.0.ears.take()
    }

    /// Returns when there may be something to hear; never, if it listens to nothing.
    pub async fn notified(&self) {
        let ears = self.0.ears.clone();
        ears.woken().await;
    }

    /// A place for rows that a cursor is to have.
    pub fn rows_to_keep(&self, schema: SchemaRef) -> KeptRows {
        self.keep_rows(schema)
    }

    /// Opens a cursor whose rows somebody else has. Fails with 42P03 if one of its name is open.
    pub fn open_cursor(&self, name: &str, info: CursorInfo) -> Result<()> {
        self.0.cursors.open(name, info, None)
    }

    /// From now on an open cursor's rows are there, for procedures too.
    pub fn cursor_is_kept(&self, name: &str, rows: &Arc<Mutex<CursorRows>>) {
        self.0.cursors.keep(name, OpenCursor { rows: rows.clone(), found: None });
    }

    /// The rows of a cursor that a procedure has opened; `None` if there is no such cursor.
    pub fn cursor(&self, name: &str) -> Option<Arc<Mutex<CursorRows>>> {
        self.0.cursors.get(name).ok().flatten().map(|cursor| cursor.rows)
    }

    /// Closes a cursor; whether it was open.
    pub fn close_cursor(&self, name: &str) -> bool {
        self.0.cursors.close(name)
    }

    /// Closes all cursors of the session.
    pub fn close_cursors(&self) {
        self.0.cursors.close_all();
    }

    /// The client has prepared a statement over its protocol, whose parameters have types of these numbers.
    pub fn client_prepares(&self, name: &str, statement: &str, types: &[u32]) {
        let shown = |oid: &u32| match type_of_oid(*oid) {
            Some((known, true)) => format!("{}[]", known.sql_name),
            Some((known, false)) => known.sql_name.to_owned(),
            None => oid.to_string(),
        };
        let types = types.iter().map(shown).collect();
        let info = PreparedInfo { statement: statement.to_owned(), since: SystemTime::now(), types };
        self.0.prepared_by_client.lock().insert(name.to_owned(), info);
    }

    /// The client forgets a statement that it has prepared over its protocol; without a name all, those of PREPARE
    /// included.
    pub fn client_forgets(&self, name: Option<&str>) {
        let mut prepared = self.0.prepared_by_client.lock();
        match name {
            Some(name) => drop(prepared.remove(name)),
            None => {
                prepared.clear();
                self.planner().forget_prepared();
            }
        }
    }

    /// Gives back what only the session has: temporary objects, and numbers that applications lock.
    pub fn discard(&self) {
        self.close_cursors();
        self.client_forgets(None);
        let catalogs = self.planner().catalogs();
        catalogs.forget_numbers();
        // Nothing keeps them, so nothing can fail.
        let _ = catalogs.drop_temporary();
        catalogs.locks().release_all_advisory(catalogs.owner());
        self.0.ears.close();
    }

    /// Gives the locks of a transaction back that has failed, and can only be rolled back. Others need not wait for
    /// that.
    pub fn unlock_failed(&self) {
        self.planner().catalogs().unlock_failed();
    }

    /// Drops the session's temporary tables and views. Fails with the error of DROP if the catalog can no longer be
    /// changed.
    pub fn drop_temporary(&self) -> Result<()> {
        self.planner().catalogs().drop_temporary()
    }

    /// Forgets what numbers sequences have given to the session: `currval` and `lastval` know none.
    pub fn forget_numbers(&self) {
        self.planner().catalogs().forget_numbers();
    }
}
