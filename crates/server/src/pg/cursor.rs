//! A cursor that is open.

use std::sync::Arc;

use diligence_base::Error;
use diligence_db::{CursorRows, CursorWay, FollowedQuery};
use parking_lot::Mutex;

use super::portal::Portal;
use crate::session::cursors::Declared;

/// A cursor that DECLARE has opened.
pub(super) struct Cursor {
    pub(super) portal: Portal,
    /// Its rows, if they are kept, once they are.
    pub(super) kept: Option<Arc<Mutex<CursorRows>>>,
    /// Rows that it has passed, if they are not.
    pub(super) passed: u64,
    pub(super) declared: Declared,
    /// Whether it goes back, too.
    pub(super) goes_back: bool,
    /// Whether the block has opened it that is open.
    pub(super) in_block: bool,
    /// How its rows are found again, until they are kept.
    pub(super) followed: Option<FollowedQuery>,
}

impl Cursor {
    /// Whether its rows are kept, or will be.
    pub(super) fn is_kept(&self) -> bool {
        self.declared.is_scroll || self.declared.is_holdable || self.followed.is_some() || self.kept.is_some()
    }

    /// Fails with 55000 if it only goes forward, and not so.
    pub(super) fn check_way(&self, rows: &Mutex<CursorRows>, way: CursorWay) -> Result<(), Error> {
        let is_forward = match way {
            _ if self.goes_back => true,
            CursorWay::By(by) | CursorWay::Relative(by) => by > 0,
            CursorWay::To(to) => to > rows.lock().place(),
            CursorWay::All => true,
            CursorWay::AllBackward => false,
        };
        if is_forward { Ok(()) } else { Err(only_forward()) }
    }
}

/// The error for a cursor that is to go back and cannot.
pub(super) fn only_forward() -> Error {
    let error = Error::input("cursor can only scan forward").with_code("55000");
    error.with_hint("Declare it with SCROLL option to enable backward scan.")
}
