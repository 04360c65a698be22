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

use super::registry::{Build, Fit, Job, MemberId, Reader, Reading, Registry};
use super::share::Share;
use super::spool::{Built, Spool};
use super::{SharingKey, SharingOffer};
use crate::launcher::{Launcher, Listed};
use crate::matching::cut::{Alone, ShareRequest};
use crate::matching::merge::{self, Portion, Way};
use crate::matching::page;
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
static REGISTRY: Latch = Latch::new("sharing");

/// Bytes that a reader of a state is sure of before it starts, beside [these](READER_GRANT_STATES): batches of its
/// operators.
const READER_GRANT_BYTES: usize = 2 << 20;

/// How many times the bytes of the state it is sure of: its groups, and their order.
const READER_GRANT_STATES: usize = 4;

/// All that is shared in an engine.
pub(crate) struct RunningPlan {
    launcher: Arc<Launcher>,
    retained: Arc<Retained>,
    registry: Mutex<Registry>,
    /// Itself, for whoever ends later.
    me: Weak<Self>,
}

impl RunningPlan {
    /// Nothing is shared yet.
    pub fn new(launcher: Arc<Launcher>, retained: Arc<Retained>) -> Arc<Self> {
        let running = Arc::new_cyclic(|me| Self {
            launcher,
            retained,
            registry: Mutex::named(&REGISTRY, Registry::default()),
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
    pub fn request(&self, plan: &Plan, options: &QueryOptions) -> Result<ShareRequest, Alone> {
        ShareRequest::of(plan, options, |template| self.registry.lock().together.groups_bytes(template))
    }

    /// What a query would share that came now; `None` if its rows are known to be too many to be kept.
    pub fn offer(&self, request: &ShareRequest) -> Option<SharingOffer> {
        if self.registry.lock().has_outgrown(request, self.launcher.clock.now_ns()) {
            return None;
        }
        let key = request.template.as_ref().map_or(&request.exact, |template| &template.signature).clone();
        Some(SharingOffer { key: SharingKey(key), is_kept: self.retained.has(&request.exact) })
    }

    /// Has a query read what it requests, or start the run that builds it.
    pub fn bind(
        &self,
        request: ShareRequest,
        plan: &Plan,
        result: Arc<ResultSink>,
        options: QueryOptions,
    ) -> Arc<QueryRun> {
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
        let shapes = Shapes::of(plan, &request, &options);
        let plan = request.plan.clone().unwrap_or_else(|| Arc::new(plan.clone()));
        let (options, depth) = (Arc::new(options), request.depth);
        let reader = Reader { run: run.clone(), result, plan, options, depth, role: Role::Host, fit: None };
        let mut registry = self.registry.lock();
        if registry.closed || registry.has_outgrown(&request, self.launcher.clock.now_ns()) {
            drop(registry);
            self.run_alone(&reader);
            return run;
        }
        registry.totals.queries_total += 1;
        if let Some(&member) = registry.by_signature.get(&request.exact) {
            registry.join(member, reader);
            return run;
        }
        if let Some(hit) = self.retained.find(&request.exact) {
            drop(registry);
            self.read_retained(&reader, hit);
            return run;
        }
        let more = shapes
            .wanted
            .iter()
            .find_map(|(depth, wanted)| Some((*depth, wanted, self.find_more(&reader, *depth, wanted)?)));
        if let Some((depth, wanted, found)) = more {
            drop(registry);
            self.read_more(&reader, depth, wanted, found);
            return run;
        }
        if let Some((member, fit)) = registry.find_more(&shapes) {
            registry.join(member, Reader { fit: Some(fit), ..reader });
            return run;
        }
        let (plan, options) = (reader.plan.clone(), reader.options.clone());
        registry.enter(request, shapes.kept, reader, self.launcher.clock.now_ns());
        let jobs = self.startable(&mut registry);
        let timers = self.timers(&mut registry);
        let waits = registry.waits(run.id());
        drop(registry);
        if waits {
            self.launcher.scans.expect(&plan, &options.tables);
            self.launcher.scheduler.want_spare_work();
        }
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        run
    }

    /// What a query would share, for people.
    pub fn explain(&self, request: &ShareRequest, plan: &Plan, options: &QueryOptions) -> String {
        let by_cells = request.template.as_ref().is_some_and(|template| template.way == Way::Cells);
        let what = if request.depth > 0 || by_cells { "what is below its aggregate" } else { "all of it" };
        let mut text = format!("{what}, with equal queries");
        if let Some(template) = &request.template {
            let count = template.parameters.len();
            let rows = if template.way == Way::Rows { "the rows of one run" } else { "one run" };
            text += &format!(", and in {rows} with queries that differ in {count} conditions with constants");
        }
        if self.retained.has(&request.exact) {
            return text + "; it is retained";
        }
        let cut_plan = request.plan.as_deref().unwrap_or(plan);
        let more = Shapes::of(plan, request, options).wanted.iter().find_map(|(depth, wanted)| {
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
        self.learn(build, &built);
        let built = match built {
            Built::State(state) => self.divided(build, state),
            Built::Failed(error) => Err(Some(error)),
            Built::Outgrown => Err(None),
        };
        if let Ok(shares) = &built {
            self.keep(build, shares);
        }
        self.request_anew(build);
        let (readers, is_of_one, jobs, timers) = {
            let mut registry = self.registry.lock();
            let Some(ended) = registry.builds.remove(&build) else { return };
            let (way, queries) = (ended.way, ended.members.len());
            let mut readers = Vec::new();
            for (place, member) in ended.members.into_iter().enumerate() {
                let Some(member) = registry.remove(member) else { continue };
                if matches!(built, Err(None)) && way.is_none() {
                    registry.note_outgrown(&member.request.exact);
                }
                for reader in &member.readers {
                    registry.by_reader.remove(&reader.run.id());
                    if let (Ok(_), Some(template), None) = (&built, &ended.template, &reader.fit) {
                        let reading = Reading { run: reader.run.clone(), template: template.clone(), queries };
                        registry.readings.insert(reader.run.id(), reading);
                    }
                }
                readers.extend(member.readers.into_iter().map(|reader| (place, reader)));
            }
            if registry.closed {
                return;
            }
            (readers, way.is_none(), self.startable(&mut registry), self.timers(&mut registry))
        };
        // The next runs first: they are work for all workers.
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        let shares = match built {
            Ok(shares) => shares,
            Err(error) => {
                let readers: Vec<_> = readers.into_iter().map(|(_, reader)| reader).collect();
                return self.retry(&readers, error.as_ref().filter(|_| is_of_one));
            }
        };
        let saved_ns = readers.iter().map(|(_, reader)| reader.run.saved_ns()).sum::<u64>();
        self.registry.lock().totals.saved_ns_total += saved_ns;
        let readers = readers.into_iter().filter_map(|(place, reader)| Some((shares.get(place)?.clone(), reader)));
        let readers: Vec<_> = readers.collect();
        // The last one takes a state with it: when its end is heard of, the memory is free.
        drop(shares);
        for (share, reader) in readers {
            self.read(&reader, share.state, share.portion);
        }
    }

    /// What each member of a run has of its state, in their order.
    fn divided(&self, build: QueryId, state: SharedRows) -> Result<Vec<Share>, Option<Error>> {
        let (way, members, places) = {
            let registry = self.registry.lock();
            // It is looked for once more later.
            let Some(build) = registry.builds.get(&build) else { return Ok(Vec::new()) };
            (build.way, build.members.len(), build.places.clone())
        };
        Share::of(state, way, members, &places).map_err(Some)
    }

    /// Notes what a run of a template has cost, and how many groups one had of which too many were expected: it says
    /// how many queries the next ones are for.
    fn learn(&self, build: QueryId, built: &Built) {
        let found = {
            let mut registry = self.registry.lock();
            let Some(build) = registry.builds.get(&build) else { return };
            let found = build.run.clone().zip(build.template.clone());
            let found = found.map(|found| (found, build.members.len(), build.way == Some(Way::Page)));
            let measured = build.scouts_for.clone().zip(build.groups.clone());
            match (measured, built) {
                (Some((template, groups)), Built::State(_)) => {
                    registry.together.note_groups(&template, groups.counts().bytes as usize);
                }
                // Nobody need wait for the next one to say it, unless somebody has ended this one.
                (Some((template, _)), built) if !built.is_cancelled() => {
                    registry.together.note_groups(&template, usize::MAX);
                }
                _ => {}
            }
            found
        };
        let Some(((run, template), queries, is_page)) = found else { return };
        let (worked_ns, now_ns) = (run.info().waits.worked_ns, self.launcher.clock.now_ns());
        let together = &mut self.registry.lock().together;
        match built {
            // Pages are of other queries each time: what they cost cannot be compared.
            Built::State(_) if is_page => {}
            Built::State(state) => {
                together.note(&template, queries, worked_ns, now_ns);
                together.note_groups(&template, state.bytes() / queries.max(1));
            }
            Built::Outgrown => together.note_outgrown(&template, queries, now_ns),
            // What made it fail may be a row that no query wants alone.
            Built::Failed(error) if is_page && error.kind() != ErrorKind::Cancelled => {
                together.note_outgrown(&template, queries, now_ns);
            }
            Built::Failed(_) => {}
        }
    }

    /// Has those that waited for what a run says of their template request what they would if they came now.
    fn request_anew(&self, build: QueryId) {
        let scouted = self.registry.lock().scouted(build);
        for (member, plan, options) in scouted {
            let Ok(request) = self.request(&plan, &options) else { continue };
            if request.template.is_some() && request.measured_for.is_none() {
                let shapes = Shapes::of(&plan, &request, &options);
                self.registry.lock().request_anew(member, request, shapes.kept);
            }
        }
    }

    /// Keeps a run's state for queries that come later. It is to be found before it is not in flight any more.
    fn keep(&self, build: QueryId, shares: &[Share]) {
        if !self.retained.is_on() {
            return;
        }
        let (run, alone_ns, states, label) = {
            let registry = self.registry.lock();
            let Some(build) = registry.builds.get(&build) else { return };
            let members = build.members.iter().zip(shares);
            let members = members.filter_map(|(member, share)| Some((share, registry.members.get(member)?)));
            let members: Vec<_> = members.collect();
            let reader = members.iter().find_map(|(_, member)| member.readers.first());
            let (Some(run), Some(reader)) = (build.run.clone(), reader) else { return };
            let label = reader.options.label.clone();
            let mut states: Vec<(Arc<SharedRows>, Vec<retained::Query>)> = Vec::new();
            for (share, member) in members {
                let query = share.query(member);
                match states.iter_mut().find(|(state, _)| Arc::ptr_eq(state, &share.state)) {
                    Some((_, queries)) => queries.push(query),
                    None => states.push((share.state.clone(), vec![query])),
                }
            }
            (run, build.alone_ns, states, label)
        };
        // Whoever finds it would have made its own query's part only.
        let worked_ns = run.info().waits.worked_ns / states.len().max(1) as u64;
        let kept = Kept {
            cost_ns: worked_ns.min(alone_ns.unwrap_or(u64::MAX)),
            since_ns: self.launcher.clock.now_ns(),
            label,
        };
        for (state, queries) in states {
            let kept = kept.clone();
            self.retained.keep(Asset::Rows(state), queries, kept);
        }
    }

    /// Runs queries alone whose state did not come about. One that was there from the first, and alone, has had its
    /// try, if the error is of a run for nobody else.
    fn retry(&self, readers: &[Reader], error: Option<&Error>) {
        if let ([reader], Some(error)) = (readers, error)
            && reader.role == Role::Host
            && error.kind() != ErrorKind::Cancelled
        {
            return reader.run.fail(error.clone());
        }
        self.registry.lock().totals.retries_total += readers.len() as u64;
        readers.iter().for_each(|reader| self.run_alone(reader));
    }

    /// A query has ended, perhaps before it got what it waited for. A run without readers is cancelled.
    fn left(&self, id: QueryId) {
        let reading = self.registry.lock().readings.remove(&id);
        if let Some(Reading { run, template, queries }) = reading {
            if let Some(worked_ns) = run.worked_ns() {
                let now_ns = self.launcher.clock.now_ns();
                self.registry.lock().together.note_own(&template, queries, worked_ns, now_ns);
            }
            return;
        }
        let abandoned = {
            let mut registry = self.registry.lock();
            let Some(member_id) = registry.by_reader.remove(&id) else { return };
            let Some(member) = registry.members.get_mut(&member_id) else { return };
            member.readers.retain(|reader| reader.run.id() != id);
            if !member.readers.is_empty() {
                return;
            }
            let build = member.build;
            registry.remove(member_id);
            registry.waiting.retain(|waiting| *waiting != member_id);
            build.and_then(|build| registry.abandoned(build))
        };
        if let Some(run) = abandoned {
            run.cancel();
        }
    }

    /// A run takes long and has worked for so long: others may start. False if it need not be looked at again.
    pub(super) fn expire(&self, build: QueryId, worked_ns: u64) -> bool {
        let (holds, jobs, timers) = {
            let mut registry = self.registry.lock();
            let holds = registry.expire(build, worked_ns);
            (holds, self.startable(&mut registry), self.timers(&mut registry))
        };
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
        holds
    }

    /// Nanoseconds of work that a run has done.
    fn worked_ns(&self, build: QueryId) -> u64 {
        let run = self.registry.lock().builds.get(&build).and_then(|build| build.run.clone());
        run.map_or(0, |run| run.info().waits.worked_ns)
    }

    /// A worker has nothing to do: whoever has waited longest starts.
    pub(super) fn start_in_spare_time(&self) {
        let (job, timers, some_wait) = {
            let mut registry = self.registry.lock();
            let members = registry.next_in_spare_time(self.launcher.clock.now_ns());
            let job = members.and_then(|members| registry.start(members, self.launcher.next_id()));
            (job, self.timers(&mut registry), !registry.waiting.is_empty())
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
            let mut registry = self.registry.lock();
            registry.closed = true;
            registry.waiting.clear();
        }
        self.launcher.tables.close();
        self.retained.close();
        self.launcher.scans.close();
    }

    /// What is shared at the moment.
    pub fn info(&self) -> SharingInfo {
        let now_ns = self.launcher.clock.now_ns();
        let registry = self.registry.lock();
        let mut info = registry.totals.clone();
        let row = |state, members: &[MemberId]| {
            let members: Vec<_> = members.iter().filter_map(|member| registry.members.get(member)).collect();
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
        let building = registry.builds.values().filter_map(|build| row("building", &build.members));
        let waiting = registry.waiting.iter().filter_map(|member| row("waiting", &[*member]));
        info.builds = building.chain(waiting).collect();
        drop(registry);
        self.launcher.tables.describe(&mut info);
        self.retained.describe(&mut info);
        self.launcher.scans.describe(&mut info);
        info
    }

    /// The runs that may start now.
    fn startable(&self, registry: &mut Registry) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Some(members) = registry.next(self.launcher.workers.max(2), self.launcher.clock.now_ns()) {
            jobs.extend(registry.start(members, self.launcher.next_id()));
        }
        jobs
    }

    /// Runs that somebody waits for, and that nobody looks at yet.
    fn timers(&self, registry: &mut Registry) -> Vec<QueryId> {
        if registry.waiting.is_empty() || self.launcher.io.inline {
            return Vec::new();
        }
        let holding = registry.builds.iter_mut().filter(|(_, build)| build.holds_own && !build.has_timer);
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
        let Job { build, plan, options, depth, queries, way, page } = job;
        let part = part_of(&plan, depth)?;
        let part = match way {
            None => part.clone(),
            Some(Way::Page) => match self.paged(build, &page, &options)? {
                Some(plan) => plan,
                // They cannot go together, which was not known before.
                None => {
                    self.take_apart(build);
                    return Ok(());
                }
            },
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
            let mut registry = self.registry.lock();
            let is_wanted = registry.launched(build, &run, graph.groups.clone());
            // One that does not count its groups keeps nobody.
            (is_wanted, if graph.groups.is_none() { self.startable(&mut registry) } else { vec![] })
        };
        if is_wanted {
            run.launch(graph);
        } else {
            run.cancel();
        }
        jobs.into_iter().for_each(|job| self.start(job));
        Ok(())
    }

    /// The run for queries of several templates, if there can be one.
    fn paged(&self, build: QueryId, queries: &[(Arc<Plan>, usize)], options: &QueryOptions) -> Result<Option<Plan>> {
        let parts = queries.iter().map(|(plan, depth)| part_of(plan, *depth)).collect::<Result<Vec<_>>>()?;
        let Some(page) = page::page(&parts, options)? else { return Ok(None) };
        if let Some(build) = self.registry.lock().builds.get_mut(&build) {
            build.places = page.places;
        }
        Ok(Some(page.plan))
    }

    /// Has the queries of a page that cannot be go with their templates.
    fn take_apart(&self, build: QueryId) {
        let (jobs, timers) = {
            let mut registry = self.registry.lock();
            if registry.closed {
                return;
            }
            registry.apart(build);
            (self.startable(&mut registry), self.timers(&mut registry))
        };
        jobs.into_iter().for_each(|job| self.start(job));
        self.set(timers);
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
        self.registry.lock().totals.saved_ns_total += retained.cost_ns;
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

/// What is below a query's cut.
fn part_of(plan: &Plan, depth: usize) -> Result<&Plan> {
    parts::part_below(plan, depth).ok_or_else(|| Error::bug("a plan is cut where it has no part"))
}
