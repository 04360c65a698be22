//! Statements as parsing and planning leave them.
//!
//! A planned query can be started again while it is current: while the relations that it was planned from are in the
//! same state.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion_common::ScalarValue;
use diligence_base::Result;
use diligence_catalog::{Catalog, CatalogChange, PlanningIdentity, SessionSnapshot, Uses};
use diligence_engine::plan::Needs;
use diligence_sql::parse::Parsed;
use diligence_sql::{Command, Planned, Planner, Query, Statement, kept_tables, parameter_value};

use super::normalized::normalized;

/// The syntax tree of a statement with its text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ParsedStatement(Arc<ParsedText>);

#[derive(Debug)]
struct ParsedText {
    text: String,
    tree: Parsed,
    /// The text, normalized, once that was asked for.
    normalized: OnceLock<Arc<str>>,
}

impl ParsedStatement {
    pub(crate) fn new(text: &str, tree: Parsed) -> Self {
        Self(Arc::new(ParsedText { text: text.to_owned(), tree, normalized: OnceLock::new() }))
    }

    /// The statement as it was written.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The text, [normalized].
    pub(super) fn normalized(&self) -> &Arc<str> {
        self.0.normalized.get_or_init(|| normalized(&self.0.text).into())
    }

    pub(crate) fn tree(&self) -> &Parsed {
        &self.0.tree
    }
}

/// A statement that is ready to start.
#[derive(Debug)]
pub struct PlannedStatement {
    pub(crate) text: String,
    pub(crate) planned: Planned,
    needs: Needs,
    pub(crate) waits_for_memory: bool,
    pub(crate) work_expected_ns: u64,
    /// What it was planned from, if others may be in its way.
    pub(crate) source: Option<Source>,
}

impl PlannedStatement {
    pub(crate) fn new(text: &str, planned: Planned) -> Self {
        let needs = match &planned {
            Planned::Query(query, _) => query.needs(),
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Explain { query, analyze: true, .. } => query.needs(),
                Statement::Write(write) => write.query.needs(),
                Statement::Several(several) => several.needs(),
                _ => Needs::default(),
            },
        };
        Self { text: text.to_owned(), planned, needs, waits_for_memory: true, work_expected_ns: 0, source: None }
    }

    /// The same statement, which may be planned once more.
    pub(crate) fn of(mut self, source: Source) -> Self {
        let is_repeatable = match &self.planned {
            Planned::Query(query, _) => query.is_locking,
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Write(write) => write.is_undoable,
                Statement::Several(_) | Statement::Command(_) | Statement::Explain { analyze: true, .. } => true,
                Statement::Query(query) => query.is_locking,
                _ => false,
            },
        };
        if is_repeatable {
            self.source = Some(source);
        }
        self
    }

    /// What running it is expected to need, by its plan alone.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The same statement under the text that its sender wrote: texts with the same plan may differ in space and
    /// comments.
    #[must_use]
    pub fn labelled(mut self, text: &str) -> Self {
        if self.text != text {
            text.clone_into(&mut self.text);
        }
        self
    }

    /// The same statement, which will not wait for memory that it is sure of: it is known to need little. If it is
    /// refused memory nevertheless, the caller starts it [once more](Self::once_more).
    pub fn needing_little(mut self) -> Self {
        self.waits_for_memory = false;
        self
    }

    /// The same statement, which is expected to use so much of workers: those that are known to need little have their
    /// turns before it.
    pub fn expected_to_work(mut self, work: Duration) -> Self {
        self.work_expected_ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// The columns that come out; none for a command.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.planned.schema()
    }

    /// Whether it only reads: it changes no table and no name, and locks no row.
    pub fn is_read_only(&self) -> bool {
        match &self.planned {
            Planned::Query(query, _) => !query.is_locking,
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Write(_) | Statement::Several(_) | Statement::Command(_) | Statement::Call(_) => false,
                Statement::Explain { query, analyze, .. } => !analyze || !query.is_writing(),
                _ => true,
            },
        }
    }

    /// Whether it is a command that changes nothing that is kept: LOCK TABLE, ANALYZE, SET ROLE, SET CONSTRAINTS.
    pub fn changes_nothing(&self) -> bool {
        let Planned::Other(statement) = &self.planned else { return false };
        let Statement::Command(command) = statement.as_ref() else { return false };
        let command = if let Command::Noted { command, .. } = command { command.as_ref() } else { command };
        matches!(
            command,
            Command::Lock { .. }
                | Command::SetRole { .. }
                | Command::SetConstraints { .. }
                | Command::Nothing("ANALYZE")
        )
    }

    /// Whether it changes rows of a temporary table, and nothing else: nobody else sees them.
    pub fn is_temporary(&self) -> bool {
        let Planned::Other(statement) = &self.planned else { return false };
        matches!(statement.as_ref(), Statement::Write(write) if write.is_temporary)
    }

    /// Whether a transaction begins, ends or goes back with it.
    pub fn is_transaction_step(&self) -> bool {
        matches!(&self.planned, Planned::Other(statement) if matches!(statement.as_ref(), Statement::Transaction(_)))
    }

    /// Whether a rollback undoes what it does.
    pub fn is_undoable(&self) -> bool {
        match &self.planned {
            Planned::Query(..) => true,
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Write(write) => write.is_undoable,
                _ => true,
            },
        }
    }

    /// The same statement to start another time; `None` if it can start only once.
    pub fn again(&self) -> Option<Self> {
        match &self.planned {
            Planned::Query(_, Some(_)) => self.once_more(),
            _ => None,
        }
    }

    /// The same statement to start anew at once, in place of a start that gave no rows; `None` if it does more than
    /// read.
    pub fn once_more(&self) -> Option<Self> {
        let Planned::Query(query, uses) = &self.planned else { return None };
        if query.is_locking {
            return None;
        }
        let planned = Planned::Query(query.clone(), uses.clone());
        Some(self.to_start(planned))
    }

    /// The statement with another plan, to start anew.
    fn to_start(&self, planned: Planned) -> Self {
        Self {
            text: self.text.clone(),
            planned,
            needs: self.needs,
            waits_for_memory: true,
            work_expected_ns: 0,
            source: None,
        }
    }

    /// The same statement as it is kept for another run: without the rows of tables in memory. `None` if it can start
    /// only once.
    pub(crate) fn kept(&self) -> Option<Self> {
        let mut kept = self.again()?;
        if let Planned::Query(query, Some(uses)) = &mut kept.planned {
            let query = Arc::make_mut(query);
            query.tables = kept_tables(&query.tables, uses);
        }
        Some(kept)
    }

    /// The same statement over the rows that a planner's session sees now; `None` if it has to be planned anew for it.
    pub(crate) fn renewed_for(&self, planner: &Planner) -> Option<Self> {
        let Planned::Query(query, Some(uses)) = &self.planned else { return None };
        let snapshot = planner.catalogs().snapshot();
        let (plan, tables, uses) = planner.renewed((&query.plan, &query.tables), uses, &snapshot)?;
        let (is_locking, is_calling) = (query.is_locking, query.is_calling);
        let query = Query { is_locking, is_calling, ..Query::new(plan, tables) };
        let planned = Planned::Query(Arc::new(query), Some(uses));
        Some(self.to_start(planned))
    }

    /// What [`fingerprint`](Self::fingerprint) tells of the rows that a planner's session sees now; `None` if the
    /// statement has to be planned anew for it, or if it reads files, which takes a look at them.
    pub(crate) fn states_now_for(&self, planner: &Planner) -> Option<String> {
        let uses = self.uses().filter(|uses| uses.are_without_files())?;
        let (now, _) = planner.renewed_uses(uses, &planner.catalogs().snapshot())?;
        Some(now.fingerprint())
    }

    /// Whether it gives the same rows every time: it reads no table, and no function of it depends on when or by whom
    /// it is called.
    pub fn is_constant(&self) -> bool {
        matches!(&self.planned, Planned::Query(_, Some(uses)) if uses.is_empty())
    }

    /// What it was planned under; `None` if it cannot start again.
    pub(crate) fn identity(&self) -> Option<PlanningIdentity> {
        self.uses().map(Uses::planning)
    }

    /// Whether this planner would make the same plan of the text. Looks at the times of files.
    pub(crate) fn is_current_for(&self, planner: &Planner) -> bool {
        self.uses().is_some_and(|uses| planner.is_current(uses, &planner.catalogs().snapshot()))
    }

    /// Whether a table or a view that it uses has been dropped or changed since. Such a plan is of no use, and keeps
    /// the table in memory.
    pub(crate) fn is_gone(&self, catalog: &Catalog) -> bool {
        self.uses().is_some_and(|uses| uses.are_gone(&catalog.snapshot()))
    }

    /// Whether a change of the catalog may concern it.
    pub(crate) fn depends_on(&self, change: &CatalogChange) -> bool {
        self.uses().is_some_and(|uses| uses.depend_on(change))
    }

    fn uses(&self) -> Option<&Uses> {
        match &self.planned {
            Planned::Query(_, uses) => uses.as_ref(),
            Planned::Other(_) => None,
        }
    }

    /// A text that is another one whenever the tables behind the query are in another state; `None` if that is not
    /// known.
    pub fn fingerprint(&self) -> Option<String> {
        self.uses().map(Uses::fingerprint)
    }
}

/// What a statement is planned from once more, where others were in its way.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) parsed: ParsedStatement,
    pub(crate) values: Vec<ScalarValue>,
    /// The plan that it has for all values, if any.
    pub(crate) generic: Option<Arc<GenericPlan>>,
}

impl Source {
    /// Plans it, over the rows that a planner's session sees now. Fails as planning does.
    pub(crate) fn planned(&self, planner: &Planner, seen: &SessionSnapshot) -> Result<Planned> {
        // Where the values do not suit that plan, one is made for them.
        let generic = self.generic.as_ref();
        match generic.and_then(|generic| generic.plan.with(&self.values, planner, seen).ok().flatten()) {
            Some(planned) => Ok(planned),
            None => planner.plan(seen, self.parsed.tree(), &self.values),
        }
    }
}

/// One plan of a statement for all values of its parameters ([`diligence_sql::GenericPlan`]).
#[derive(Debug)]
pub struct GenericPlan {
    text: String,
    parsed: ParsedStatement,
    plan: diligence_sql::GenericPlan,
    needs: Needs,
}

impl GenericPlan {
    pub(crate) fn new(parsed: &ParsedStatement, plan: diligence_sql::GenericPlan) -> Self {
        Self { text: parsed.text().to_owned(), parsed: parsed.clone(), needs: plan.needs(), plan }
    }

    /// What running it is expected to need, whatever the values.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether it may take the short path (`Session::run_short`), and [`with`](Self::with) never blocks.
    pub fn may_be_short(&self) -> bool {
        self.plan.may_be_short()
    }

    /// What it was planned under.
    pub(crate) fn identity(&self) -> PlanningIdentity {
        self.plan.uses().planning()
    }

    /// Whether a table or a view that it uses has been dropped or changed since.
    pub(crate) fn is_gone(&self, catalog: &Catalog) -> bool {
        self.plan.uses().are_gone(&catalog.snapshot())
    }

    /// Whether a change of the catalog may concern it.
    pub(crate) fn depends_on(&self, change: &CatalogChange) -> bool {
        self.plan.uses().depend_on(change)
    }

    /// The statement with values, over the rows that a planner's session sees now; `None` if it has to be planned anew.
    pub(crate) fn with_values(
        self: &Arc<Self>,
        values: &[ArrayRef],
        planner: &Planner,
    ) -> Result<Option<PlannedStatement>> {
        let values = values.iter().map(parameter_value).collect::<Result<Vec<_>>>()?;
        let Some(planned) = self.plan.with(&values, planner, &planner.catalogs().snapshot())? else { return Ok(None) };
        let statement = PlannedStatement {
            text: self.text.clone(),
            planned,
            needs: self.needs,
            waits_for_memory: true,
            work_expected_ns: 0,
            source: None,
        };
        Ok(Some(statement.of(Source { parsed: self.parsed.clone(), values, generic: Some(self.clone()) })))
    }
}
