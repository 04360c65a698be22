//! Cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor that only goes forward reads its query as it goes. The rows of one that goes back, locks them or outlives
//! its transaction are kept within memory or in temp space, as those of procedures are; so are those of one small
//! table, so that such a cursor goes back without SCROLL, too. `WHERE CURRENT OF` finds rows that are kept.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::ArrayRef;
use diligence_base::Error;
use diligence_db::{CursorInfo, CursorRows, CursorWay};
use parking_lot::Mutex;

use super::cursor::{Cursor, only_forward};
use super::portal::{Portal, PortalState, PreparedKind};
use super::run::messages;
use super::session::PgSession;
use super::trouble::{Block, Outcome, Trouble};
use crate::encoding::columns::{Columns, Form};
use crate::session::cursors::Declared;

impl PgSession {
    /// DECLARE, with values for the parameters of its query, whose types the client has declared as these.
    pub(super) async fn declare(&mut self, declared: &Declared, oids: &[u32], values: Vec<ArrayRef>) -> Outcome {
        let name = &declared.name;
        if self.block == Block::None && !declared.is_holdable {
            let error = Error::input("DECLARE CURSOR can only be used in transaction blocks").with_code("25P01");
            return Err(error.with_hint("BEGIN first, or declare it WITH HOLD").into());
        }
        let mut prepared = Box::pin(self.prepare(declared.query.clone(), oids.to_vec(), true)).await?;
        if !matches!(&prepared.kind, PreparedKind::Statement(_, description) if description.schema.is_some()) {
            return Err(Error::input("a cursor needs a query").with_code("42P11").into());
        }
        let mut followed = match &prepared.kind {
            PreparedKind::Statement(parsed, _) if self.block != Block::None => self.session.followed_query(parsed),
            _ => None,
        };
        followed = followed.filter(|query| query.is_locking || declared.is_scroll || query.is_small);
        if let Some(text) = followed.as_ref().map(|query| query.text.clone()) {
            // A query of one group has no rows of the table, for example.
            match Box::pin(self.prepare(text, oids.to_vec(), true)).await {
                Ok(numbered) => prepared = numbered,
                Err(Trouble::Failed(_)) => followed = None,
                Err(broken) => return Err(broken),
            }
        }
        if let Some(query) = &mut followed {
            self.session.follow(query);
        }
        // As it says, or where its rows are kept anyway and none of them is locked.
        let is_kept = declared.is_holdable || followed.is_some();
        let is_locking = followed.as_ref().is_some_and(|query| query.is_locking);
        let goes_back = declared.is_scroll || is_kept && !is_locking && !declared.is_forward;
        let info = CursorInfo {
            statement: declared.statement.clone(),
            is_holdable: declared.is_holdable,
            is_binary: declared.is_binary,
            is_scrollable: goes_back,
            opened: SystemTime::now(),
        };
        self.session.open_cursor(name, info)?;
        let statement = Arc::new(prepared);
        let mut portal = Portal {
            statement: statement.clone(),
            values,
            forms: if declared.is_binary { vec![1] } else { vec![] },
            state: PortalState::Bound,
            sent: 0,
            written: None,
        };
        // Now, so that it does not see what the transaction does afterwards.
        let started = match self.start(&mut portal, &statement).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::input("a cursor needs a query").with_code("42P11").into()),
            Err(trouble) => Err(trouble),
        };
        let in_block = self.block != Block::None;
        if let Some(query) = &mut followed {
            self.session.follow(query);
        }
        let mut cursor =
            Cursor { portal, kept: None, passed: 0, declared: declared.clone(), goes_back, in_block, followed };
        let opened = match started {
            Ok(()) if !in_block => self.keep(&mut cursor).await,
            started => started,
        };
        if let Err(trouble) = opened {
            self.session.close_cursor(name);
            return Err(trouble);
        }
        self.cursors.insert(name.clone(), cursor);
        self.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Reads all rows of a cursor, and keeps them.
    async fn keep(&mut self, cursor: &mut Cursor) -> Outcome {
        if cursor.kept.is_some() {
            return Ok(());
        }
        let PortalState::Running(mut reading) = std::mem::replace(&mut cursor.portal.state, PortalState::Done) else {
            return Err(Error::bug("a cursor has no query").into());
        };
        let (execution, deadline) = (self.service.execution().clone(), self.deadline());
        let mut kept = self.session.rows_to_keep(reading.running.schema().clone());
        let printed = reading.running.printed();
        loop {
            let next = async { reading.running.next().await.transpose() };
            let next = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, next).await;
            self.show_printed(&printed);
            let Some(rows) = next? else { break };
            kept = execution.compute(move || kept.push(&rows).map(|()| kept)).await?;
        }
        let name = &cursor.declared.name;
        cursor.kept = Some(match cursor.followed.take() {
            Some(query) => self.session.followed_cursor_is_kept(name, kept, query),
            None => {
                let kept = Arc::new(Mutex::new(CursorRows::new(kept)));
                self.session.cursor_is_kept(name, &kept);
                kept
            }
        });
        Ok(())
    }

    /// FETCH, or MOVE if nothing is sent.
    pub(super) async fn fetch(&mut self, way: CursorWay, name: &str, sends: bool, describe: bool) -> Outcome {
        let passed = match self.cursors.remove(name) {
            Some(mut cursor) => {
                let passed = self.fetched(&mut cursor, way, sends, describe).await;
                self.cursors.insert(name.to_owned(), cursor);
                passed?
            }
            None if let Some(mut portal) = self.portals.remove(name) => {
                let passed = self.fetched_from(&mut portal, way, sends, describe).await;
                self.portals.insert(name.to_owned(), portal);
                passed?
            }
            None => {
                let rows = self.session.cursor(name).ok_or_else(|| no_cursor(name))?;
                self.fetched_kept(&rows, way, false, sends, describe).await?
            }
        };
        let tag = if sends { "FETCH" } else { "MOVE" };
        self.complete(format!("{tag} {passed}"));
        Ok(())
    }

    /// The next rows of a portal that the client has bound: to FETCH and MOVE a cursor that only goes forward.
    async fn fetched_from(&mut self, portal: &mut Portal, way: CursorWay, sends: bool, describe: bool) -> Outcome<u64> {
        let most = match way {
            CursorWay::By(by) if by > 0 => Some(usize::try_from(by).unwrap_or(usize::MAX)),
            CursorWay::All => None,
            _ => return Err(only_forward().into()),
        };
        let statement = portal.statement.clone();
        if matches!(portal.state, PortalState::Bound) && !self.start(portal, &statement).await? {
            return Ok(0);
        }
        if !sends {
            return Ok(self.pass_over(portal, most).await? as u64);
        }
        if describe && let PortalState::Running(reading) = &portal.state {
            let (schema, columns) = (reading.running.schema().clone(), reading.columns.clone());
            self.describe_rows(&schema, &columns);
        }
        let before = portal.sent;
        self.rows(portal, most).await?;
        Ok(portal.sent - before)
    }

    async fn fetched(&mut self, cursor: &mut Cursor, way: CursorWay, sends: bool, describe: bool) -> Outcome<u64> {
        if cursor.is_kept() {
            self.keep(cursor).await?;
            let rows = cursor.kept.clone().ok_or_else(|| Error::bug("a cursor's rows are not kept"))?;
            cursor.check_way(&rows, way)?;
            return self.fetched_kept(&rows, way, cursor.declared.is_binary, sends, describe).await;
        }
        // Rows to pass over first, and how many to read then.
        let (over, most) = match way {
            CursorWay::By(by) if by > 0 => (0, Some(by.unsigned_abs())),
            CursorWay::All => (0, None),
            CursorWay::Relative(by) if by > 0 => (by.unsigned_abs() - 1, Some(1)),
            CursorWay::To(to) if to > 0 && to.unsigned_abs() > cursor.passed => {
                (to.unsigned_abs() - 1 - cursor.passed, Some(1))
            }
            _ => return Err(only_forward().into()),
        };
        let (statement, portal) = (cursor.portal.statement.clone(), &mut cursor.portal);
        if describe
            && sends
            && let PreparedKind::Statement(_, description) = &statement.kind
            && let Some(schema) = &description.schema
        {
            let columns = Columns::new(schema, &portal.forms)?;
            self.describe_rows(schema, &columns);
        }
        let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        cursor.passed += self.pass_over(portal, Some(size(over))).await? as u64;
        let passed = if sends {
            let before = portal.sent;
            self.rows(portal, most.map(size)).await?;
            portal.sent - before
        } else {
            self.pass_over(portal, most.map(size)).await? as u64
        };
        cursor.passed += passed;
        Ok(passed)
    }

    async fn fetched_kept(
        &mut self,
        rows: &Arc<Mutex<CursorRows>>,
        way: CursorWay,
        is_binary: bool,
        sends: bool,
        describe: bool,
    ) -> Outcome<u64> {
        let (schema, mut passed) = {
            let mut rows = rows.lock();
            (rows.schema().clone(), rows.go(way))
        };
        let count = passed.rows();
        if !sends {
            return Ok(count);
        }
        let form = if is_binary { Form::Binary } else { Form::Text };
        let columns = Columns::all(&schema, form).in_zone(self.session.time_zone());
        if describe {
            self.describe_rows(&schema, &columns);
        }
        let execution = self.service.execution().clone();
        loop {
            let (shared, columns) = (rows.clone(), columns.clone());
            let read = move || match shared.lock().read(passed)? {
                Some((batch, left)) => Ok(Some((Arc::new(columns.rows(&batch)?), left))),
                None => Ok(None),
            };
            let Some((made, left)) = execution.compute(read).await? else { return Ok(count) };
            passed = left;
            let mut from = 0;
            while from < made.count() {
                let (shared, out) = (made.clone(), std::mem::take(&mut self.outbox.buffer));
                let write = execution.compute(move || Ok(messages(&shared, from, shared.count(), out)));
                (from, self.outbox.buffer) = write.await?;
                self.send(|| {}).await?;
            }
        }
    }

    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Outcome {
        match name {
            None => {
                self.cursors.clear();
                self.session.close_cursors();
                self.complete("CLOSE CURSOR ALL");
            }
            Some(name) => {
                self.cursors.remove(name);
                if !self.session.close_cursor(name) {
                    return Err(no_cursor(name).into());
                }
                self.complete("CLOSE CURSOR");
            }
        }
        Ok(())
    }

    /// The block is about to be committed: rows of cursors that outlive it are read.
    pub(super) async fn hold_cursors(&mut self) -> Outcome {
        let held = |(name, cursor): (&String, &Cursor)| cursor.declared.is_holdable.then(|| name.clone());
        let names = self.cursors.iter().filter_map(held).collect::<Vec<_>>();
        for name in names {
            let Some(mut cursor) = self.cursors.remove(&name) else { continue };
            self.keep(&mut cursor).await?;
            self.cursors.insert(name, cursor);
        }
        Ok(())
    }

    /// The block has ended.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        let session = &self.session;
        self.cursors.retain(|name, cursor| {
            let stays = !cursor.in_block || committed && cursor.declared.is_holdable;
            if !stays {
                session.close_cursor(name);
            }
            cursor.in_block = false;
            stays
        });
    }
}

pub(super) fn no_cursor(name: &str) -> Error {
    Error::input(format!("cursor \"{name}\" does not exist")).with_code("34000")
}
