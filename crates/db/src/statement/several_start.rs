//! The start of a statement that is several, and its start anew.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::StatementBlock;
use diligence_sql::{Planned, Several, Statement};

use super::restart::{Again, Restarted};
use super::result::QueryResult;
use super::several::SeveralRun;
use super::start::{RETRIES_MAX, is_in_the_way};
use crate::plans::Source;
use crate::session::Session;

impl Session {
    /// Starts a statement that is several. Fails as starting the first one does.
    pub(super) fn start_several(&self, several: Several, source: Option<Source>, text: &str) -> Result<QueryResult> {
        let (tag, schema) = (several.tag(), several.schema());
        let block = Arc::new(self.planner().catalogs().begin_block());
        let run = SeveralRun::start(self, several, block.clone(), text)?;
        let again = source.map(|source| self.several_again(source, block, text.to_owned()));
        Ok(QueryResult::several(tag, schema, run).with_retries(again, self.statement_locks()))
    }

    /// Plans and starts it once more, in the same block.
    fn several_again(&self, source: Source, block: Arc<StatementBlock>, text: String) -> Again {
        let (session, mut left) = (self.clone(), RETRIES_MAX);
        Box::new(move |mut error, _| {
            loop {
                block.undo();
                if let Some(wait) = session.may_go_on(error, &mut left)? {
                    return Ok(Restarted::Waits(wait));
                }
                match session.in_runtime(|| session.several_anew(&source, &block, &text)) {
                    Err(failed) if is_in_the_way(&failed) => error = Some(failed),
                    started => return started.map(|run| Restarted::Several(Box::new(run))),
                }
            }
        })
    }

    fn several_anew(&self, source: &Source, block: &Arc<StatementBlock>, text: &str) -> Result<SeveralRun> {
        let planned = source.planned(self.planner(), &self.snapshot())?;
        block.begin_anew()?;
        match planned {
            Planned::Other(statement) => match *statement {
                Statement::Several(several) => SeveralRun::start(self, several, block.clone(), text),
                _ => Err(Error::bug("a statement that is several is one")),
            },
            Planned::Query(..) => Err(Error::bug("a statement that is several is a query")),
        }
    }
}
