//! The registry of the running plan: members, their readers, and the runs that build their states.
//!
//! Nothing here starts or looks at a run: the registry is kept under a lock, in [`running`](super::running).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use diligence_base::ids::QueryId;
use diligence_base::limits::{CHEAP_WORK_MAX, SHARED_RUNS_MAX, SHARING_PATIENCE, SHARING_PATIENCE_RUNS};

use super::together::Together;
use crate::flow::profile::Totals;
use crate::matching::cut::ShareRequest;
use crate::matching::merge::{Template, Way};
use crate::matching::page::{self, PagePlace};
use crate::matching::parameters::Parameters;
use crate::matching::shape::{Shape, Shapes};
use crate::matching::signature::Signature;
use crate::matching::subsumption::Residual;
use crate::operators::result::ResultSink;
use crate::options::QueryOptions;
use crate::plan::Plan;
use crate::query::QueryRun;
use crate::query::shared::{Role, Shared, SharedRun};
use crate::reuse::{SharingInfo, retained};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Plans that are remembered for having had too many rows.
const OUTGROWN_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemberId(u64);

#[derive(Default)]
pub(super) struct Registry {
    pub members: HashMap<MemberId, Member>,
    pub members_made: u64,
    pub by_signature: HashMap<Signature, MemberId>,
    /// By what their rows are of.
    pub by_core: HashMap<Signature, Vec<MemberId>>,
    pub by_reader: HashMap<QueryId, MemberId>,
    /// First come, first served.
    pub waiting: VecDeque<MemberId>,
    pub builds: HashMap<QueryId, Build>,
    /// Readers that have got states of templates, until they end.
    pub readings: HashMap<QueryId, Reading>,
    pub outgrown: HashSet<Signature>,
    /// How many of a template go together.
    pub together: Together,
    pub closed: bool,
    pub totals: SharingInfo,
}

pub(super) struct Member {
    pub request: ShareRequest,
    /// Whom it can go with that has another template.
    pub page: Option<Signature>,
    /// What its part is a part of: a reader's own plan may be another.
    pub plan: Arc<Plan>,
    pub options: Arc<QueryOptions>,
    /// What its part gives, if that can be said.
    pub shape: Option<Arc<Shape>>,
    pub readers: Vec<Reader>,
    /// The run that builds its state; it waits if `None`.
    pub build: Option<QueryId>,
    pub since_ns: u64,
}

/// A query that waits for a state.
#[derive(Clone)]
pub(super) struct Reader {
    pub run: Arc<QueryRun>,
    pub result: Arc<ResultSink>,
    pub plan: Arc<Plan>,
    pub options: Arc<QueryOptions>,
    pub depth: usize,
    pub role: Role,
    /// What it makes of its member's state, if that has its columns in another order, or more of them.
    pub fit: Option<Fit>,
}

/// How a query finds what it wants in a state that was not built for it alone.
#[derive(Clone)]
pub(super) struct Fit {
    /// How many of its plan's nodes are above what it finds.
    pub depth: usize,
    pub wanted: Arc<Shape>,
    pub kept: Arc<Shape>,
    /// For people.
    pub residual: String,
}

/// A query over the state of a run for it and others of its template.
pub(super) struct Reading {
    pub run: Arc<QueryRun>,
    pub template: Signature,
    pub queries: usize,
}

pub(super) struct Build {
    pub run: Option<Arc<QueryRun>>,
    /// Their bits are their places.
    pub members: Vec<MemberId>,
    pub template: Option<Signature>,
    /// Whom its members can go with that have other templates.
    pub page: Option<Signature>,
    /// How far it goes, if it is for several.
    pub way: Option<Way>,
    /// Where its members find what is theirs, if they are of several templates.
    pub places: Vec<PagePlace>,
    /// What one query of the template has cost alone, if the run is for several and that is known.
    pub alone_ns: Option<u64>,
    pub readers: Arc<AtomicUsize>,
    /// Whether it is known to take little work.
    pub is_cheap: bool,
    /// Whether it keeps others from starting.
    pub holds: bool,
    /// Whether it keeps those of its template from starting, and for how many nanoseconds of its work it may.
    pub holds_own: bool,
    pub patience_ns: u64,
    /// The template of which it will say how many groups a query has. Its own wait for that, too: they may go together
    /// then.
    pub scouts_for: Option<Signature>,
    /// What its topmost aggregate gives, when it is launched.
    pub groups: Option<Arc<Totals>>,
    pub has_timer: bool,
}

/// A run to be started.
pub(super) struct Job {
    pub build: QueryId,
    pub plan: Arc<Plan>,
    pub options: Arc<QueryOptions>,
    pub depth: usize,
    /// What each query differs in, if they have a template, and how far a run for several goes.
    pub queries: Vec<Arc<Parameters>>,
    pub way: Option<Way>,
    /// All queries, if they are of several templates: their plans, and how many nodes are above their cuts.
    pub page: Vec<(Arc<Plan>, usize)>,
}

impl Registry {
    pub fn enter(&mut self, request: ShareRequest, shape: Option<Arc<Shape>>, reader: Reader, now_ns: u64) {
        let id = MemberId(self.members_made);
        self.members_made += 1;
        self.by_signature.insert(request.exact.clone(), id);
        self.by_reader.insert(reader.run.id(), id);
        if let Some(shape) = &shape {
            self.by_core.entry(shape.core.clone()).or_default().push(id);
        }
        let (plan, options) = (reader.plan.clone(), reader.options.clone());
        let page = page::key_of(&plan, &request, shape.as_deref(), &options);
        let member =
            Member { request, page, plan, options, shape, readers: vec![reader], build: None, since_ns: now_ns };
        self.members.insert(id, member);
        self.waiting.push_back(id);
    }

    /// Takes a member out of the registry, but not its readers.
    pub fn remove(&mut self, id: MemberId) -> Option<Member> {
        let member = self.members.remove(&id)?;
        self.by_signature.remove(&member.request.exact);
        if let Some(core) = member.shape.as_ref().map(|shape| &shape.core)
            && let Some(members) = self.by_core.get_mut(core)
        {
            members.retain(|other| *other != id);
            if members.is_empty() {
                self.by_core.remove(core);
            }
        }
        Some(member)
    }

    /// A member whose state will have the same rows as a query wants, with its columns in another order, or more of
    /// them, or in finer groups. Not one with other rows: to wait for a run over more of them may take longer than to
    /// run.
    pub fn find_more(&self, shapes: &Shapes) -> Option<(MemberId, Fit)> {
        shapes.wanted.iter().find_map(|(depth, wanted)| {
            let members = self.by_core.get(&wanted.core)?.iter().rev().take(retained::CANDIDATES_MAX);
            members.copied().find_map(|id| {
                let kept = self.members.get(&id)?.shape.clone()?;
                let residual = Residual::of(&kept, false, wanted).filter(Residual::is_of_all_rows)?.describe();
                Some((id, Fit { depth: *depth, wanted: wanted.clone(), kept, residual }))
            })
        })
    }

    /// A later query that wants the same.
    pub fn join(&mut self, id: MemberId, reader: Reader) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let reader = Reader { role: Role::Satellite, ..reader };
        self.by_reader.insert(reader.run.id(), id);
        self.totals.satellites_total += 1;
        if let Some(build) = member.build.and_then(|build| self.builds.get(&build)) {
            build.show(&reader, build.run.as_ref().map(|run| run.age_ns()));
        }
        member.readers.push(reader);
    }

    /// Whether a query waits for its run to start.
    pub fn waits(&self, reader: QueryId) -> bool {
        self.by_reader.get(&reader).is_some_and(|member| self.waiting.contains(member))
    }

    /// Who starts next, together, if `runs` may be at work.
    pub fn next(&self, runs: usize, now_ns: u64) -> Option<Vec<MemberId>> {
        // Cheap ones do not wait for others: their runs are counted by themselves.
        let has_room = [false, true].map(|is_cheap| {
            let holding = self.builds.values().filter(|build| build.holds && build.is_cheap == is_cheap);
            holding.count() < runs && !self.is_full(is_cheap)
        });
        let is_free = |wanted: &Signature| {
            !self.builds.values().any(|build| build.holds_own && build.template.as_ref() == Some(wanted))
        };
        let is_page_free = |wanted: &Signature, is_cheap: bool| {
            let mut holding = self.builds.values().filter(|build| build.holds_own && build.is_cheap == is_cheap);
            !holding.any(|build| build.page.as_ref() == Some(wanted))
        };
        let is_scouted = |wanted: &Signature| {
            let mut scouts = self.builds.values().filter(|build| build.holds_own);
            self.together.groups_bytes(wanted).is_none()
                && scouts.any(|build| build.scouts_for.as_ref() == Some(wanted))
        };
        let may_start = |id: &&MemberId| {
            let Some(member) = self.members.get(id) else { return false };
            if member.request.measured_for.as_ref().is_some_and(is_scouted) {
                return false;
            }
            let (template, page) = (member.request.template.as_ref(), member.page.as_ref());
            let is_cheap = is_cheap(&member.options);
            (template.is_none() && page.is_none() || has_room[usize::from(is_cheap)])
                && template.is_none_or(|own| is_free(&own.signature))
                && page.is_none_or(|own| is_page_free(own, is_cheap))
        };
        let first = self.waiting.iter().find(may_start)?;
        Some(self.together_with(*first, now_ns))
    }

    /// Who starts, together, if nobody else has anything for a worker to do.
    pub fn next_in_spare_time(&self, now_ns: u64) -> Option<Vec<MemberId>> {
        let first = self.waiting.front()?;
        let is_cheap = is_cheap(&self.members.get(first)?.options);
        (!self.is_full(is_cheap)).then(|| self.together_with(*first, now_ns))
    }

    /// Whether as many runs of templates are at work as may be, however long they take; of cheap ones, or of others.
    fn is_full(&self, is_cheap: bool) -> bool {
        let own = self.builds.values().filter(|build| build.template.is_some() && build.is_cheap == is_cheap);
        own.count() >= SHARED_RUNS_MAX
    }

    fn template(&self, member: MemberId) -> Option<&Template> {
        self.members.get(&member)?.request.template.as_ref()
    }

    /// One that waits, and those that wait and can go with it, as many as pay; or that one alone.
    fn together_with(&self, first: MemberId, now_ns: u64) -> Vec<MemberId> {
        let of_template = self.of_template(first, now_ns);
        let of_page = self.of_page(first, now_ns);
        if of_page.len() > of_template.len() { of_page } else { of_template }
    }

    /// One that waits, and those that wait for rows of the same joins, whatever they group and compute.
    fn of_page(&self, first: MemberId, now_ns: u64) -> Vec<MemberId> {
        let member = |id: &MemberId| self.members.get(id);
        let Some((first, page)) = member(&first).and_then(|first| Some((first, first.page.as_ref()?))) else {
            return vec![];
        };
        // Those that take little work do not wait for others.
        let is_like_first = |member: &&Member| {
            member.page.as_ref() == Some(page) && is_cheap(&member.options) == is_cheap(&first.options)
        };
        let mut of_templates: HashMap<&Signature, usize> = HashMap::new();
        let same = self.waiting.iter().filter(|id| {
            let Some(member) = member(id).filter(is_like_first) else { return false };
            let Some(template) = &member.request.template else { return true };
            let most = match template.way {
                Way::Cells => self.together.limit(&template.signature, now_ns).min(template.queries_max),
                // Its groups cannot be put together from those of several.
                Way::Rows | Way::Page => 1,
            };
            let count = of_templates.entry(&template.signature).or_default();
            *count += 1;
            *count <= most
        });
        same.take(self.together.limit(page, now_ns)).copied().collect()
    }

    /// One that waits, and those that wait and have its template.
    fn of_template(&self, first: MemberId, now_ns: u64) -> Vec<MemberId> {
        let Some(shared) = self.template(first) else { return vec![first] };
        let is_same = |member: &&MemberId| self.template(**member).is_some_and(|own| own.signature == shared.signature);
        let same = self.waiting.iter().filter(is_same);
        let together = same.take(self.together.limit(&shared.signature, now_ns).min(shared.queries_max));
        let together: Vec<_> = together.copied().collect();
        if together.len() < shared.queries_min { vec![first] } else { together }
    }

    /// Members that wait for what a build says of their template, with what they ask for.
    pub fn scouted(&self, build: QueryId) -> Vec<(MemberId, Arc<Plan>, Arc<QueryOptions>)> {
        let Some(template) = self.builds.get(&build).and_then(|build| build.scouts_for.as_ref()) else { return vec![] };
        let waiting = self.waiting.iter().filter_map(|id| Some((*id, self.members.get(id)?)));
        let own = waiting.filter(|(_, member)| member.request.measured_for.as_ref() == Some(template));
        own.map(|(id, member)| (id, member.plan.clone(), member.options.clone())).collect()
    }

    /// A member that waits wants something else now that more is known of its template. It stays as it is if others
    /// read it already, or if another member wants just that.
    pub fn request_anew(&mut self, id: MemberId, request: ShareRequest, shape: Option<Arc<Shape>>) {
        let is_alone = |member: &Member| match member.readers.as_slice() {
            [reader] => member.build.is_none() && reader.role == Role::Host && reader.fit.is_none(),
            _ => false,
        };
        if !self.members.get(&id).is_some_and(is_alone) || self.by_signature.contains_key(&request.exact) {
            return;
        }
        let Some(mut member) = self.remove(id) else { return };
        self.by_signature.insert(request.exact.clone(), id);
        if let Some(shape) = &shape {
            self.by_core.entry(shape.core.clone()).or_default().push(id);
        }
        if let Some(plan) = &request.plan {
            member.plan = plan.clone();
        }
        for reader in &mut member.readers {
            (reader.plan, reader.depth) = (member.plan.clone(), request.depth);
        }
        member.page = page::key_of(&member.plan, &request, shape.as_deref(), &member.options);
        (member.request, member.shape) = (request, shape);
        self.members.insert(id, member);
    }

    /// Notes that a run starts for these members, which wait.
    pub fn start(&mut self, chosen: Vec<MemberId>, id: QueryId) -> Option<Job> {
        self.waiting.retain(|member| !chosen.contains(member));
        let (mut queries, mut plans) = (Vec::new(), Vec::new());
        let mut readers = 0;
        for member in &chosen {
            let member = self.members.get_mut(member)?;
            member.build = Some(id);
            readers += member.readers.len();
            queries.extend(member.request.template.iter().map(|template| template.parameters.clone()));
            plans.push((member.plan.clone(), member.request.depth));
        }
        let first = self.members.get(chosen.first()?)?;
        let template = first.request.template.as_ref();
        let is_of_template = |id: &MemberId| {
            template.is_some_and(|shared| self.template(*id).is_some_and(|own| own.signature == shared.signature))
        };
        let is_page = chosen.len() > 1 && !chosen.iter().all(is_of_template);
        let (template, way) = match template {
            _ if is_page => (first.page.clone(), Some(Way::Page)),
            Some(template) => (Some(template.signature.clone()), Some(template.way).filter(|_| chosen.len() > 1)),
            None => (None, None),
        };
        let (plan, options, depth) = (first.plan.clone(), first.options.clone(), first.request.depth);
        let page = first.page.clone();
        let holds = template.is_some() || page.is_some();
        self.totals.builds_total += 1;
        if chosen.len() > 1 {
            self.totals.merged_builds_total += 1;
            self.totals.merged_queries_total += readers as u64;
        }
        let scouts_for = first.request.measured_for.clone();
        let readers = Arc::new(AtomicUsize::new(0));
        let alone_ns = template.as_ref().and_then(|one| self.together.alone_ns(one));
        let mut patience_ns = (SHARING_PATIENCE.as_nanos() as u64).max(alone_ns.unwrap_or(0) * SHARING_PATIENCE_RUNS);
        if scouts_for.is_some() {
            patience_ns = patience_ns.max(SHARING_PATIENCE.as_nanos() as u64 * SHARING_PATIENCE_RUNS);
        }
        let alone_ns = alone_ns.filter(|_| chosen.len() > 1);
        let build = Build {
            run: None,
            members: chosen,
            template,
            page,
            way,
            places: Vec::new(),
            alone_ns,
            readers,
            is_cheap: is_cheap(&options),
            holds,
            holds_own: holds || scouts_for.is_some(),
            patience_ns,
            scouts_for,
            groups: None,
            has_timer: false,
        };
        self.builds.insert(id, build);
        let page = if is_page { plans } else { Vec::new() };
        Some(Job { build: id, plan, options, depth, queries, way, page })
    }

    /// Has the members of a build that cannot go together wait again, each for a run of its template.
    pub fn apart(&mut self, id: QueryId) {
        let Some(build) = self.builds.remove(&id) else { return };
        for id in build.members.into_iter().rev() {
            if let Some(member) = self.members.get_mut(&id) {
                (member.build, member.page) = (None, None);
                self.waiting.push_front(id);
            }
        }
    }

    /// Notes the run of a build and what its topmost aggregate gives, and shows it to its readers. False if nobody
    /// wants it any more.
    pub fn launched(&mut self, id: QueryId, run: &Arc<QueryRun>, groups: Option<Arc<Totals>>) -> bool {
        let Some(build) = self.builds.get_mut(&id) else { return false };
        build.run = Some(run.clone());
        if groups.is_none() && build.scouts_for.take().is_some() {
            // It will not say it, so nobody waits for that.
            build.holds_own = build.holds;
        }
        build.groups = groups;
        let mut wanted = false;
        for reader in
            build.members.iter().filter_map(|member| self.members.get(member)).flat_map(|member| &member.readers)
        {
            build.show(reader, None);
            wanted = true;
        }
        wanted
    }

    /// The run of a build, if it has lost its last member.
    pub fn abandoned(&self, id: QueryId) -> Option<Arc<QueryRun>> {
        let build = self.builds.get(&id)?;
        let wanted = build.members.iter().any(|member| self.members.contains_key(member));
        if wanted { None } else { build.run.clone() }
    }

    /// A run has taken so long that others may start; those of its template, too, if it has worked for long. False if
    /// it keeps nobody from starting any more.
    pub fn expire(&mut self, id: QueryId, worked_ns: u64) -> bool {
        let Some(build) = self.builds.get_mut(&id) else { return false };
        build.holds = false;
        build.holds_own = worked_ns < build.patience_ns;
        build.holds_own
    }

    pub fn has_outgrown(&self, request: &ShareRequest, now_ns: u64) -> bool {
        self.outgrown.contains(&request.exact)
            || request.template.as_ref().is_some_and(|template| self.together.is_outgrown(&template.signature, now_ns))
    }

    pub fn note_outgrown(&mut self, signature: &Signature) {
        if self.outgrown.len() >= OUTGROWN_MAX {
            self.outgrown.clear();
        }
        self.outgrown.insert(signature.clone());
    }
}

/// Whether a query is known to take little work.
fn is_cheap(options: &QueryOptions) -> bool {
    (1..=CHEAP_WORK_MAX.as_nanos()).contains(&u128::from(options.work_expected_ns))
}

impl Build {
    /// Tells a reader what it shares, and how long after the start of the run it came, in nanoseconds, if it did.
    pub fn show(&self, reader: &Reader, attached_ns: Option<u64>) {
        let Some(run) = &self.run else { return };
        self.readers.fetch_add(1, Ordering::Relaxed);
        let (build, readers) = (run.clone(), self.readers.clone());
        let (merged, residual) = (self.members.len(), reader.fit.as_ref().map(|fit| fit.residual.clone()));
        let (role, way, alone_ns) = (reader.role, self.way, self.alone_ns);
        reader.run.share(Shared::Run(SharedRun { role, build, merged, way, readers, attached_ns, alone_ns, residual }));
    }
}
