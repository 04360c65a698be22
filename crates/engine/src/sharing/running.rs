//! The running plan: which states are being built, who waits for them, and which queries wait to be merged.
//!
//! ```text
//!   member:  Waiting -- chosen, alone or with others of its template --> Building -- its run has ended --> gone
//!                                                                                          (its readers run)
//! ```
//!
//! A *member* is one query as its readers see it: equal queries are readers of one member. A *build* is a run, for one
//! member or for several of a template.
//!
//! Who starts when: a query without a template, at once. One with a template starts if no run of its template is at
//! work and fewer shared runs than workers are, cheap ones counted by themselves; otherwise it waits. When a run ends,
//! the query that has waited longest starts, together with all that wait and have its template, [up to as many as
//! pay](super::together): so batches form by themselves where queries come faster than they are answered, and nobody
//! ever waits for a batch to fill. (Group commit works like this.) Nor does anybody wait while a worker has nothing to
//! do: then whoever has waited longest starts, with all that have its template. A run that takes long stops keeping
//! others from starting after [`SHARING_PATIENCE`], and those of its template when it has worked for so long, or
//! several times as long as a lone one: of its work, because while many run each takes as many times its work.
//!
//! Invariant: no lock is held while a run is started, cancelled or looked at.

use std::sync::{Arc, Weak};

use diligence_base::ids::QueryId;
use diligence_base::limits::{SHARED_STATE_BUDGET_PART, SHARED_STATE_BYTES_MAX, SHARING_PATIENCE};
use diligence_base::{Error, ErrorKind, Result};

use super::books::{Books, Build, Fit, Job, Member, MemberId, Reader, Reading};
use super::spool::{Built, Spool};
use super::{SharingKey, SharingOffer};
use crate::launcher::{Launcher, Listed};
use crate::matching::cut::{Alone, Wish};
use crate::matching::merge::{self, Portion, Way};
use crate::matching::parts;
use crate::matching::shape::{Shape, Shapes};
use crate::matching::subsumption::Residual;
use crate::operators::result::ResultSink;
use crate::options::QueryOptions;
use crate::plan::{Node, Plan};
use crate::query::shared::{RetainedState, Role, Shared};
use crate::query::{QueryRun, catch};
use crate::reuse::retained::{self, Asset, Hit, Kept, Retained};
use crate::reuse::{BuildInfo, SharedRows, SharingInfo};
use crate::sync::{Latch, Mutex};

/// Who runs and waits for what is shared.
static BOOKS: Latch = Latch::new("sharing");

/// Bytes that a reader of a state is sure of before it starts, beside [these](READER_GRANT_STATES): batches of its
/// operators.
const READER_GRANT_BYTES: usize = 2 << 20;

/// How many times the bytes of the state it is sure of: its groups, and their order.
const READER_GRANT_STATES: usize = 4;

/// All that is shared in an engine.
pub(crate) struct RunningPlan {
    launcher: Arc<Launcher>,
    retained: Arc<Retained>,
    books: Mutex<Books>,
    /// Itself, for whoever ends later.
    me: Weak<Self>,
}

impl RunningPlan {
    /// Nothing is shared yet.
    pub fn new(launcher: Arc<Launcher>, retained: Arc<Retained>) -> Arc<Self> {
        let running = Arc::new_cyclic(|me| Self {
            launcher,
            retained,
            books: Mutex::named(&BOOKS, Books::default()),
            me: me.clone(),
        });
        let me = running.me.clone();
        running.launcher.scheduler.set_spare_work(Box::new(move || {
            if let Some(me) = me.upgrade() {
                me.start_in_spare_time();
            }
        }));
        running
    }

    /// The states that are kept for later queries.
    pub fn retained(&self) -> &Retained {
        &self.retained
    }

    /// What a query with this plan would share, or why it is to run for itself.
    pub fn wish(&self, plan: &Plan, options: &QueryOptions) -> Result<Wish, Alone> {
        Wish::of(plan, options, |template| self.books.lock().together.groups_bytes(template))
    }

    /// What a query would share that came now; `None` if its rows are known to be too many to be kept.
    pub fn offer(&self, wish: &Wish) -> Option<SharingOffer> {
        if self.books.lock().has_outgrown(wish, self.launcher.clock.now_ns()) {
            return None;
        }
        let key = wish.template.as_ref().map_or(&wish.exact, |template| &template.signature).clone();
        Some(SharingOffer { key: SharingKey(key), is_kept: self.retained.has(&wish.exact) })
    }

    /// Has a query read what it wishes for, or start the run that builds it.
    pub fn bind(&self, wish: Wish, plan: &Plan, result: Arc<ResultSink>, options: QueryOptions) -> Arc<QueryRun> {
        let id = self.launcher.next_id();
        let me = self.me.clone();
        let left = Box::new(move |id| {
            if let Some(me) = me.upgrade() {
                me.left(id);
            }
        });
        let context = self.launcher.context(id, plan, &options);
        let run = self.launcher.create(context, id, &options, result.clone(), Listed::Yes, left);
        // Without the lock: it takes some microseconds.
        let shapes = Shapes::of(plan, &wish, &options);
        let plan = wish.plan.clone().unwrap_or_else(|| Arc::new(plan.clone()));
        let (options, depth) = (Arc::new(options), wish.depth);
        let reader = Reader { run: run.clone(), result, plan, options, depth, role: Role::Host, fit: None };
        let mut books = self.books.lock();
        if books.closed || books.has_outgrown(&wish, self.launcher.clock.now_ns()) {
            drop(books);
            self.run_alone(&reader);
            return run;
        }
        books.totals.queries_total += 1;
        if let Some(&member) = books.by_signature.get(&wish.exact) {
            books.join(member, reader);
            return run;
        }
        if let Some(hit) = self.retained.find(&wish.exact) {
            drop(books);
            self.read_retained(&reader, hit);
            return run;
        }
        let more = shapes
            .wanted
            .iter()
            .find_map(|(depth, wanted)| Some((*depth, wanted, self.find_more(&reader, *depth, wanted)?)));
        if let Some((depth, wanted, found)) = more {
            drop(books);
            self.read_more(&reader, depth, wanted, found);
            return run;
        }
        if let Some((member, fit)) = books.find_more(&shapes) {
            books.join(member, Reader { fit: Some(fit), ..reader });
            return run;
        }
        let (plan, options) = (reader.plan.clone(), reader.options.clone());
        books.enter(wish, shapes.kept, reader, self.launcher.clock.now_ns());
        let jobs = self.startable(&mut books);
        let timers = self.timers(&mut books);
        let waits = books.waits(run.id());
        drop(books);
        if waits {
            self.launcher.scans.expect(&plan, &options.tables);
            self.launcher.scheduler.want_spare_work();
        }
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        run
    }

    /// What a query would share, for people.
    pub fn explain(&self, wish: &Wish, plan: &Plan, options: &QueryOptions) -> String {
        let by_cells = wish.template.as_ref().is_some_and(|template| template.way == Way::Cells);
        let what = if wish.depth > 0 || by_cells { "what is below its aggregate" } else { "all of it" };
        let mut text = format!("{what}, with equal queries");
        if let Some(template) = &wish.template {
            let count = template.parameters.len();
            let rows = if template.way == Way::Rows { "the rows of one run" } else { "one run" };
            text += &format!(", and in {rows} with queries that differ in {count} conditions with constants");
        }
        if self.retained.has(&wish.exact) {
            return text + "; it is retained";
        }
        let cut_plan = wish.plan.as_deref().unwrap_or(plan);
        let more = Shapes::of(plan, wish, options).wanted.iter().find_map(|(depth, wanted)| {
            let rows_max = parts::rows_touched(parts::part_below(cut_plan, *depth)?, usize::MAX);
            self.retained.more(wanted, rows_max)
        });
        match more {
            Some(residual) => format!("{text}; more than it is retained, and can be {}", residual.describe()),
            None => text,
        }
    }

    /// A run that was to build a state has ended.
    pub fn built(&self, build: QueryId, built: Built) {
        if let Built::State(state) = &built {
            self.keep(build, state);
        }
        self.learn(build, &built);
        self.wish_anew(build);
        let (readers, jobs, timers) = {
            let mut books = self.books.lock();
            let Some(ended) = books.builds.remove(&build) else { return };
            let (way, queries) = (ended.way, ended.members.len());
            let mut readers = Vec::new();
            for (bit, member) in ended.members.into_iter().enumerate() {
                let Some(member) = books.remove(member) else { continue };
                if matches!(built, Built::Outgrown) && way.is_none() {
                    books.note_outgrown(&member.wish.exact);
                }
                for reader in &member.readers {
                    books.by_reader.remove(&reader.run.id());
                    if let (Built::State(_), Some(template), None) = (&built, &ended.template, &reader.fit) {
                        let reading = Reading { run: reader.run.clone(), template: template.clone(), queries };
                        books.readings.insert(reader.run.id(), reading);
                    }
                }
                let portion = way.map(|way| Portion { bit, way });
                readers.extend(member.readers.into_iter().map(|reader| (portion, reader)));
            }
            if books.closed {
                return;
            }
            (readers, self.startable(&mut books), self.timers(&mut books))
        };
        // The next runs first: they are work for all workers.
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        let state = match built {
            Built::State(state) => state,
            Built::Failed(error) => return self.retry(readers, Some(&error)),
            Built::Outgrown => return self.retry(readers, None),
        };
        let saved_ns = readers.iter().map(|(_, reader)| reader.run.saved_ns()).sum::<u64>();
        self.books.lock().totals.saved_ns_total += saved_ns;
        // The last one takes the state with it: when its end is heard of, the memory is free.
        let mut states = std::iter::repeat_n(state, readers.len());
        for (portion, reader) in readers {
            if let Some(state) = states.next() {
                self.read(&reader, state, portion);
            }
        }
    }

    /// Notes what a run of a template has cost, and how many groups one had of which too many were expected: it says
    /// how many queries the next ones are for.
    fn learn(&self, build: QueryId, built: &Built) {
        let found = {
            let mut books = self.books.lock();
            let Some(build) = books.builds.get(&build) else { return };
            let found = build.run.clone().zip(build.template.clone()).map(|found| (found, build.members.len()));
            let measured = build.scouts_for.clone().zip(build.groups.clone());
            match (measured, built) {
                (Some((template, groups)), Built::State(_)) => {
                    books.together.note_groups(&template, groups.counts().bytes as usize);
                }
                // Nobody need wait for the next one to say it, unless somebody has ended this one.
                (Some((template, _)), built) if !built.is_cancelled() => {
                    books.together.note_groups(&template, usize::MAX);
                }
                _ => {}
            }
            found
        };
        let Some(((run, template), queries)) = found else { return };
        let (worked_ns, now_ns) = (run.info().waits.worked_ns, self.launcher.clock.now_ns());
        let together = &mut self.books.lock().together;
        match built {
            Built::State(state) => {
                together.note(&template, queries, worked_ns, now_ns);
                together.note_groups(&template, state.bytes() / queries.max(1));
            }
            Built::Outgrown => together.note_outgrown(&template, queries, now_ns),
            Built::Failed(_) => {}
        }
    }

    /// Has those that waited for what a run says of their template wish for what they would if they came now.
    fn wish_anew(&self, build: QueryId) {
        let scouted = self.books.lock().scouted(build);
        for (member, plan, options) in scouted {
            let Ok(wish) = self.wish(&plan, &options) else { continue };
            if wish.template.is_some() && wish.measured_for.is_none() {
                let shapes = Shapes::of(&plan, &wish, &options);
                self.books.lock().wish_anew(member, wish, shapes.kept);
            }
        }
    }

    /// Keeps a state for queries that come later. It is to be found before it is not in flight any more.
    fn keep(&self, build: QueryId, state: &Arc<SharedRows>) {
        if !self.retained.is_on() {
            return;
        }
        let (run, alone_ns, queries, label) = {
            let books = self.books.lock();
            let Some(build) = books.builds.get(&build) else { return };
            let way = build.way;
            let members = build.members.iter().enumerate();
            let members = members.filter_map(|(bit, member)| Some((bit, books.members.get(member)?)));
            let members: Vec<_> = members.collect();
            let reader = members.iter().find_map(|(_, member)| member.readers.first());
            let (Some(run), Some(reader)) = (build.run.clone(), reader) else { return };
            let label = reader.options.label.clone();
            let query = |(bit, member): (usize, &Member)| retained::Query {
                exact: member.wish.exact.clone(),
                // What rows with masks have more than one query wants is not looked for.
                shape: member
                    .shape
                    .as_ref()
                    .filter(|_| way != Some(Way::Rows))
                    .map(|shape| shape.of_state(state.rows())),
                portion: way.map(|way| Portion { bit, way }),
            };
            (run, build.alone_ns, members.into_iter().map(query).collect(), label)
        };
        // Whoever finds it would have made its own query's part only.
        let cost_ns = run.info().waits.worked_ns.min(alone_ns.unwrap_or(u64::MAX));
        let kept = Kept { cost_ns, since_ns: self.launcher.clock.now_ns(), label };
        self.retained.keep(Asset::Rows(state.clone()), queries, kept);
    }

    /// Runs queries alone whose state did not come about. One that was there from the first, and alone, has had its
    /// try.
    fn retry(&self, readers: Vec<(Option<Portion>, Reader)>, error: Option<&Error>) {
        if let ([(None, reader)], Some(error)) = (readers.as_slice(), error)
            && reader.role == Role::Host
            && error.kind() != ErrorKind::Cancelled
        {
            return reader.run.fail(error.clone());
        }
        self.books.lock().totals.retries_total += readers.len() as u64;
        readers.iter().for_each(|(_, reader)| self.run_alone(reader));
    }

    /// A query has ended, perhaps before it got what it waited for. A run without readers is cancelled.
    fn left(&self, id: QueryId) {
        let reading = self.books.lock().readings.remove(&id);
        if let Some(Reading { run, template, queries }) = reading {
            if let Some(worked_ns) = run.worked_ns() {
                let now_ns = self.launcher.clock.now_ns();
                self.books.lock().together.note_own(&template, queries, worked_ns, now_ns);
            }
            return;
        }
        let abandoned = {
            let mut books = self.books.lock();
            let Some(member_id) = books.by_reader.remove(&id) else { return };
            let Some(member) = books.members.get_mut(&member_id) else { return };
            member.readers.retain(|reader| reader.run.id() != id);
            if !member.readers.is_empty() {
                return;
            }
            let build = member.build;
            books.remove(member_id);
            books.waiting.retain(|waiting| *waiting != member_id);
            build.and_then(|build| books.abandoned(build))
        };
        if let Some(run) = abandoned {
            run.cancel();
        }
    }

    /// A run takes long and has worked for so long: others may start. False if it need not be looked at again.
    pub(super) fn expire(&self, build: QueryId, worked_ns: u64) -> bool {
        let (holds, jobs, timers) = {
            let mut books = self.books.lock();
            let holds = books.expire(build, worked_ns);
            (holds, self.startable(&mut books), self.timers(&mut books))
        };
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        holds
    }

    /// Nanoseconds of work that a run has done.
    fn worked_ns(&self, build: QueryId) -> u64 {
        let run = self.books.lock().builds.get(&build).and_then(|build| build.run.clone());
        run.map_or(0, |run| run.info().waits.worked_ns)
    }

    /// A worker has nothing to do: whoever has waited longest starts.
    pub(super) fn start_in_spare_time(&self) {
        let (job, timers, some_wait) = {
            let mut books = self.books.lock();
            let members = books.next_in_spare_time(self.launcher.clock.now_ns());
            let job = members.and_then(|members| books.start(members, self.launcher.next_id()));
            (job, self.timers(&mut books), !books.waiting.is_empty())
        };
        job.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        if some_wait {
            self.launcher.scheduler.want_spare_work();
        }
    }

    /// Starts nothing any more.
    pub fn close(&self) {
        {
            let mut books = self.books.lock();
            books.closed = true;
            books.waiting.clear();
        }
        self.launcher.tables.close();
        self.retained.close();
        self.launcher.scans.close();
    }

    /// What is shared at the moment.
    pub fn info(&self) -> SharingInfo {
        let now_ns = self.launcher.clock.now_ns();
        let books = self.books.lock();
        let mut info = books.totals.clone();
        let row = |state, members: &[MemberId]| {
            let members: Vec<_> = members.iter().filter_map(|member| books.members.get(member)).collect();
            let first = members.iter().min_by_key(|member| member.since_ns)?;
            Some(BuildInfo {
                state,
                queries: members.len(),
                readers: members.iter().map(|member| member.readers.len()).sum(),
                elapsed_ns: now_ns.saturating_sub(first.since_ns),
                bytes: 0,
                uses: 0,
                value: 0.0,
                label: first.readers.first().map(|reader| reader.options.label.clone()).unwrap_or_default(),
            })
        };
        let building = books.builds.values().filter_map(|build| row("building", &build.members));
        let waiting = books.waiting.iter().filter_map(|member| row("waiting", &[*member]));
        info.builds = building.chain(waiting).collect();
        drop(books);
        self.launcher.tables.describe(&mut info);
        self.retained.describe(&mut info);
        self.launcher.scans.describe(&mut info);
        info
    }

    /// The runs that may start now.
    fn startable(&self, books: &mut Books) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Some(members) = books.next(self.launcher.workers.max(2), self.launcher.clock.now_ns()) {
            jobs.extend(books.start(members, self.launcher.next_id()));
        }
        jobs
    }

    /// Runs that somebody waits for, and that nobody looks at yet.
    fn timers(&self, books: &mut Books) -> Vec<QueryId> {
        if books.waiting.is_empty() || self.launcher.io.inline {
            return Vec::new();
        }
        let holding = books.builds.iter_mut().filter(|(_, build)| build.holds_own && !build.has_timer);
        let timer = |(id, build): (&QueryId, &mut Build)| {
            build.has_timer = true;
            *id
        };
        holding.map(timer).collect()
    }

    fn set(&self, timers: Vec<QueryId>) {
        for build in timers {
            let me = self.me.clone();
            self.launcher.io.runtime.spawn(async move {
                loop {
                    tokio::time::sleep(SHARING_PATIENCE).await;
                    let Some(me) = me.upgrade() else { return };
                    if !me.expire(build, me.worked_ns(build)) {
                        return;
                    }
                }
            });
        }
    }

    fn start(&self, job: Job) {
        let build = job.build;
        if let Err(error) = catch(|| self.try_start(job)) {
            self.built(build, Built::Failed(error));
        }
    }

    fn try_start(&self, job: Job) -> Result<()> {
        let Job { build, plan, options, depth, queries, way } = job;
        let part = parts::part_below(&plan, depth).ok_or_else(|| Error::bug("a plan is cut where it has no part"))?;
        let part = match way {
            None => part.clone(),
            Some(way) => merge::merged(way, part, &queries)?,
        };
        let launcher = &self.launcher;
        let context = launcher.context(build, &part, &options);
        let bytes_max = SHARED_STATE_BYTES_MAX.min(launcher.broker.budget_bytes() / SHARED_STATE_BUDGET_PART);
        let memory = context.memory.reservation("Shared state");
        let me = self.me.clone();
        let on_built = Box::new(move |built| {
            if let Some(running) = me.upgrade() {
                running.built(build, built);
            }
        });
        let spool = Spool::new(on_built, part.schema.clone(), bytes_max, memory);
        let graph = launcher.compile(&part, spool.clone(), &context, &options)?;
        let run = launcher.create(context, build, &options, spool, Listed::No, Box::new(|_| {}));
        let (is_wanted, jobs) = {
            let mut books = self.books.lock();
            let is_wanted = books.launched(build, &run, graph.groups.clone());
            // One that does not count its groups keeps nobody.
            (is_wanted, if graph.groups.is_none() { self.startable(&mut books) } else { vec![] })
        };
        if is_wanted {
            run.launch(graph);
        } else {
            run.cancel();
        }
        jobs.into_iter().for_each(|job| self.start(job));
        Ok(())
    }

    /// Runs a reader's own part over a state that was there before.
    fn read_retained(&self, reader: &Reader, hit: Hit) {
        self.show_retained(reader, &hit, None);
        self.read(reader, hit.state, hit.portion);
    }

    /// A state that has what a reader wants below a depth, and more.
    fn find_more(&self, reader: &Reader, depth: usize, wanted: &Shape) -> Option<(Hit, Residual)> {
        let part = parts::part_below(&reader.plan, depth)?;
        self.retained.find_more(wanted, parts::rows_touched(part, usize::MAX))
    }

    /// Runs what a reader has above a depth over what is made of such a state.
    fn read_more(&self, reader: &Reader, depth: usize, wanted: &Shape, found: (Hit, Residual)) {
        let (hit, residual) = found;
        self.show_retained(reader, &hit, Some(residual.describe()));
        self.read_through(reader, depth, wanted, &residual, hit.state, hit.portion);
    }

    /// The same, of any state.
    fn read_through(
        &self,
        reader: &Reader,
        depth: usize,
        wanted: &Shape,
        residual: &Residual,
        state: Arc<SharedRows>,
        portion: Option<Portion>,
    ) {
        let bit = portion.map(|portion| portion.bit);
        self.launch(reader, Some(state.clone()), || {
            let part = parts::part_below(&reader.plan, depth).ok_or_else(|| Error::bug("a reader without a part"))?;
            let part = residual.plan(part, wanted, bit, state.schema.clone(), state.batches.clone())?;
            Ok(parts::with_part(&reader.plan, depth, part))
        });
    }

    fn show_retained(&self, reader: &Reader, hit: &Hit, residual: Option<String>) {
        let age_ns = self.launcher.clock.now_ns().saturating_sub(hit.kept.since_ns);
        let retained = RetainedState { age_ns, cost_ns: hit.kept.cost_ns, uses: hit.uses, residual };
        self.books.lock().totals.saved_ns_total += retained.cost_ns;
        reader.run.share(Shared::Retained(retained));
    }

    /// Runs a reader's own part over a state; over its own portion, if the run was for several queries.
    fn read(&self, reader: &Reader, state: Arc<SharedRows>, portion: Option<Portion>) {
        if let Some(Fit { depth, wanted, kept, .. }) = &reader.fit {
            let is_of_rows = portion.is_some_and(|portion| portion.way == Way::Rows);
            return match Residual::of(kept, portion.is_some(), wanted).filter(|_| !is_of_rows) {
                Some(residual) => self.read_through(reader, *depth, wanted, &residual, state, portion),
                None => self.run_alone(reader),
            };
        }
        self.launch(reader, Some(state.clone()), || {
            let part = parts::part_below(&reader.plan, reader.depth);
            let part = part.ok_or_else(|| Error::bug("a reader without a part"))?;
            let part = match portion {
                Some(portion) => merge::own_part(part, portion, state.schema.clone(), state.batches.clone())?,
                None => Plan {
                    node: Node::Values { batches: state.batches.clone() },
                    schema: part.schema.clone(),
                    rows_estimate: part.rows_estimate,
                    ordered: part.ordered,
                },
            };
            Ok(parts::with_part(&reader.plan, reader.depth, part))
        });
    }

    fn run_alone(&self, reader: &Reader) {
        self.launch(reader, None, || Ok(reader.plan.as_ref().clone()));
    }

    /// Starts a reader's query. It may be another query's packet that does so, so what panics here is this reader's
    /// error alone.
    fn launch(&self, reader: &Reader, state: Option<Arc<SharedRows>>, plan: impl FnOnce() -> Result<Plan>) {
        let _entered = crate::sync::enter(&self.launcher.io.runtime);
        let Reader { run, result, options, .. } = reader;
        let graph = catch(|| {
            let plan = plan()?;
            // What reads nothing but a state needs a few times as much as that has.
            if let Some(state) = state.as_ref().filter(|_| !parts::reads_tables(&plan)) {
                run.need_little(READER_GRANT_BYTES + READER_GRANT_STATES * state.bytes());
            }
            self.launcher.compile(&plan, result.clone(), run.context(), options)
        });
        match graph {
            Ok(mut graph) => {
                graph.held = state.map(|state| state as _);
                run.launch(graph);
            }
            Err(error) => run.fail(error),
        }
    }
}
