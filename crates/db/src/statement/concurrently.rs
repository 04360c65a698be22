//! CREATE INDEX CONCURRENTLY: the index is made of the rows that are there, while others change them. Only then nobody
//! else changes the table, until what has come meanwhile is in the index, too. If it fails, there is no index.

use diligence_base::{Error, Result};
use diligence_catalog::IndexesAhead;
use diligence_sql::{Command, Planned, Statement};

use super::ready::ReadyRows;
use super::result::QueryResult;
use super::start::{RETRIES_MAX, is_in_the_way};
use crate::plans::Source;
use crate::session::Session;

impl Session {
    /// Starts a change of a table that others go on changing meanwhile.
    pub(super) fn start_concurrently(&self, command: Command, source: Source) -> QueryResult {
        self.start_with_token(command.waiting_tag(), None, move |session, _, token| {
            let catalogs = session.planner().catalogs();
            let ahead = command.indexes_ahead(catalogs)?.unwrap_or_default();
            let (mut done, mut left) = (command.apply_ahead(catalogs, &ahead).map(drop), RETRIES_MAX);
            loop {
                match done {
                    Err(error) if is_in_the_way(&error) => {
                        if let Some(wait) = session.may_go_on(Some(error), &mut left)? {
                            token.wait_for(wait)?;
                        }
                        token.check()?;
                    }
                    done => return done.map(|()| ReadyRows::default()),
                }
                done = session.apply_anew(&command, &source, &ahead);
            }
        })
    }

    /// Plans it for the table as it is now, which nobody changes meanwhile, and applies it.
    fn apply_anew(&self, command: &Command, source: &Source, ahead: &IndexesAhead) -> Result<()> {
        let catalogs = self.planner().catalogs();
        let _locked = command.lock_altered(catalogs)?;
        let planned = source.planned(self.planner(), &self.snapshot())?;
        let Planned::Other(statement) = planned else { return Err(Error::bug("a command is a query")) };
        let Statement::Command(command) = *statement else { return Err(Error::bug("a command is none")) };
        command.parted().0.apply_ahead(catalogs, ahead).map(drop)
    }
}
