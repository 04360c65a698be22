//! What a plan was made from, and whether that is still so.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::ids::{ObjectId, ObjectVersion, TableIdentity};
use diligence_storage::Table;

use crate::unbound::{Rebinding, UsedRows, is_of};
use crate::{CatalogChange, CatalogSnapshot, FileRelation, Object, Relation, RelationName, Resolved, SessionSnapshot};

/// What a session plans under, besides names: equal for sessions that plan the same text to the same. The number of its
/// settings, and whether its statements may name files.
pub type PlanningIdentity = (u64, bool);

/// What a plan was made from: each name that was looked up, with the version of what was found, and the settings.
#[derive(Clone, Debug)]
pub struct Uses {
    planning: PlanningIdentity,
    names: Vec<(RelationName, Found)>,
    /// Of names behind views that were granted, under whose rights they were looked up; by their places.
    behind: BTreeMap<usize, Arc<str>>,
    /// Under whose rights names are looked up now.
    owner: Option<Arc<str>>,
}

/// What a name stood for.
#[derive(Clone, Debug)]
enum Found {
    /// An object; files in the state in which they were opened, a table in memory with its rows.
    Object { id: ObjectId, version: ObjectVersion, files: Option<OpenedFiles>, rows: Option<UsedRows> },
    /// Nothing.
    Nothing,
    /// No object, so it was the path of these files.
    Path(OpenedFiles),
}

#[derive(Clone, Copy, Debug)]
struct OpenedFiles(TableIdentity);

impl OpenedFiles {
    fn new(table: &Arc<dyn Table>) -> Self {
        Self(table.identity())
    }

    /// Whether these files are still what was opened. Equal files that were opened once more are not: what scans share
    /// goes by the opened table, and files that were just written are opened twice.
    fn are(&self, files: &FileRelation) -> bool {
        files.table().is_ok_and(|table| table.identity() == self.0)
    }
}

impl Uses {
    /// Nothing yet, of a session that plans so.
    pub fn new(planning: PlanningIdentity) -> Self {
        Self { planning, names: Vec::new(), behind: BTreeMap::new(), owner: None }
    }

    /// What the plan was made under.
    pub fn planning(&self) -> PlanningIdentity {
        self.planning
    }

    /// Names are looked up under the rights of this role from now on; under the session's, if `None`.
    pub fn look_behind(&mut self, owner: Option<&str>) {
        self.owner = owner.map(Arc::from);
    }

    fn push(&mut self, name: &RelationName, found: Found) {
        if let Some(owner) = &self.owner {
            self.behind.insert(self.names.len(), owner.clone());
        }
        self.names.push((name.clone(), found));
    }

    /// The name stood for this object. `files` is the table of files in the state that the plan reads.
    pub fn object(&mut self, name: &RelationName, object: &Object, files: Option<&Arc<dyn Table>>) {
        let files = files.map(OpenedFiles::new);
        let rows = match &object.relation {
            Relation::Native(table) => Some(UsedRows::of(table)),
            _ => None,
        };
        self.push(name, Found::Object { id: object.id, version: object.version, files, rows });
    }

    /// The name stood for nothing.
    pub fn nothing(&mut self, name: &RelationName) {
        self.push(name, Found::Nothing);
    }

    /// The name stood for no object, and was the path of these files.
    pub fn path(&mut self, name: &RelationName, table: &Arc<dyn Table>) {
        self.push(name, Found::Path(OpenedFiles::new(table)));
    }

    /// Whether every name stands for the same version in a snapshot, and its session may read it and plans alike:
    /// another one may have made the plan. `path` gives the files at a path. Looks at the times of files, so it may
    /// block for a moment.
    pub fn are_current(
        &self,
        snapshot: &SessionSnapshot,
        planning: PlanningIdentity,
        path: impl Fn(&str) -> Arc<FileRelation>,
    ) -> bool {
        let is_current = |(place, (name, found)): (usize, &(RelationName, Found))| {
            let Ok(now) = snapshot.readable_by(self.owner_behind(place), name) else { return false };
            match (found, now) {
                (Found::Object { id, version, files, .. }, Some(Resolved::Object(object))) => {
                    (object.id, object.version) == (*id, *version)
                        && match (files, &object.relation) {
                            (Some(opened), Relation::Files(files)) => opened.are(files),
                            _ => true,
                        }
                }
                (Found::Nothing, None) => true,
                (Found::Path(opened), None) => opened.are(&path(&name.name)),
                _ => false,
            }
        };
        self.planning == planning && self.names.iter().enumerate().all(is_current)
    }

    /// What a plan was made from, as it is in a snapshot, and which rows it reads then; `None` if it is not good there:
    /// as [`are_current`](Self::are_current), but tables in memory may have other rows.
    pub fn renewed(
        &self,
        snapshot: &SessionSnapshot,
        planning: PlanningIdentity,
        path: impl Fn(&str) -> Arc<FileRelation>,
    ) -> Option<(Self, Rebinding)> {
        let (mut renewed, mut rebinding) = (self.clone(), Rebinding::default());
        for (place, (name, found)) in renewed.names.iter_mut().enumerate() {
            let Found::Object { id, version, rows: Some(rows), .. } = found else { continue };
            let owner = self.owner_behind(place);
            let Ok(Some(Resolved::Object(object))) = snapshot.readable_by(owner, name) else { return None };
            let Relation::Native(now) = &object.relation else { return None };
            if object.id != *id || !rows.fit(now) {
                return None;
            }
            rebinding.push(rows.identity(), now.clone());
            *version = object.version;
            *rows = UsedRows::of(now);
        }
        renewed.are_current(snapshot, planning, path).then_some((renewed, rebinding))
    }

    fn owner_behind(&self, place: usize) -> Option<&str> {
        self.behind.get(&place).map(|owner| &**owner)
    }

    /// Whether another run of the plan finds by its name what it reads under an identity: a view of a table in memory.
    pub fn finds(&self, identity: TableIdentity) -> bool {
        self.names.iter().any(|(_, found)| match found {
            Found::Object { rows: Some(rows), .. } => is_of(rows.identity(), identity),
            _ => false,
        })
    }

    /// Whether a name stands for another version in a snapshot, so that the plan is good for nothing but to keep the
    /// old one in memory. What files hold is not looked at, so this never blocks.
    pub fn are_gone(&self, snapshot: &CatalogSnapshot) -> bool {
        self.names.iter().any(|(name, found)| match (found, snapshot.resolve(name)) {
            (Found::Object { id, rows: Some(rows), .. }, Some(object)) => match &object.relation {
                Relation::Native(now) => object.id != *id || !rows.is_declared_as(now),
                _ => true,
            },
            (Found::Object { id, version, .. }, Some(object)) => (object.id, object.version) != (*id, *version),
            (Found::Nothing | Found::Path(_), None) => false,
            _ => true,
        })
    }

    /// Whether a change may concern one of the names.
    pub fn depend_on(&self, change: &CatalogChange) -> bool {
        self.names.iter().any(|(name, found)| match found {
            // Other rows are the plan's as well.
            Found::Object { id, rows: Some(_), .. } if *id == change.object => change.is_naming,
            Found::Object { id, .. } if *id == change.object => true,
            _ => change.is_naming && name.is_like(&change.name),
        })
    }

    /// Whether no files are among it, so that looking at it never blocks.
    pub fn is_in_memory(&self) -> bool {
        self.names.iter().all(|(_, found)| matches!(found, Found::Nothing | Found::Object { rows: Some(_), .. }))
    }

    /// Whether no files are behind it, so that telling whether it is current never blocks.
    pub fn are_without_files(&self) -> bool {
        self.names.iter().all(|(_, found)| matches!(found, Found::Nothing | Found::Object { files: None, .. }))
    }

    /// Whether there is no table and no view: then the plan gives the same rows every time.
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(|(_, found)| matches!(found, Found::Nothing))
    }

    /// A text that is another one whenever the plan's tables are in another state.
    pub fn fingerprint(&self) -> String {
        let part = |(name, found): &(RelationName, Found)| match found {
            Found::Object { files: Some(opened), .. } | Found::Path(opened) => {
                Some(format!("{name}@{}", opened.0.version.0))
            }
            Found::Object { id, version, .. } => Some(format!("{name}@{id}{version}")),
            Found::Nothing => None,
        };
        let mut parts = self.names.iter().filter_map(part).collect::<Vec<_>>();
        parts.sort();
        parts.dedup();
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicBool, Ordering};

    use arrow::datatypes::Schema;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;
    use crate::{Catalog, CatalogObserver, DEFAULT_SCHEMA, Rights, SessionCatalogs, View};

    fn view(text: &str) -> Relation {
        let statement = Parser::parse_sql(&GenericDialect {}, text).unwrap().remove(0);
        Relation::View(Arc::new(View {
            source: Arc::new(statement),
            depth: 1,
            schema: Arc::new(Schema::empty()),
            triggers: vec![],
        }))
    }

    fn name(name: &str) -> RelationName {
        RelationName::new(DEFAULT_SCHEMA, name)
    }

    /// A catalog's session and the uses of a plan that looks these names up.
    fn looked_up(catalog: &Arc<Catalog>, rights: Rights, names: &[&str]) -> (SessionCatalogs, Uses) {
        let session = SessionCatalogs::new(catalog.clone(), Arc::default(), Arc::default(), Arc::new(rights));
        let snapshot = session.snapshot();
        let mut uses = Uses::new((1, false));
        for looked_up in names {
            match snapshot.get(&name(looked_up)) {
                Some(Resolved::Object(object)) => uses.object(&name(looked_up), &object, None),
                _ => uses.nothing(&name(looked_up)),
            }
        }
        (session, uses)
    }

    fn are_current(session: &SessionCatalogs, uses: &Uses) -> bool {
        uses.are_current(&session.snapshot(), (1, false), |path| panic!("{path} is no path"))
    }

    #[test]
    fn a_plan_is_current_until_a_name_of_its_own_stands_for_something_else() {
        // What is there before, what a plan looks up, what is made or dropped then, and whether it lives.
        for (before, used, changed, lives) in [
            (["a", "b"], ["a", "a"], "b", true),
            (["a", "b"], ["a", "b"], "b", false),
            (["a", "b"], ["a", "c"], "c", false),
            (["a", "b"], ["a", "c"], "d", true),
            // `sales` was the only name like it.
            (["a", "Sales"], ["a", "sales"], "sales", false),
            (["a", "Sales"], ["a", "sales"], "SALES", false),
            (["a", "Sales"], ["a", "sales"], "sales2", true),
        ] {
            let catalog = Arc::new(Catalog::default());
            for table in before {
                catalog.create(&name(table), view("SELECT 1"), false).unwrap();
            }
            let (session, uses) = looked_up(&catalog, Rights::all(), &used);
            assert!(are_current(&session, &uses) && !uses.are_gone(&catalog.snapshot()), "{used:?}");
            let heard = Arc::new(Heard { uses: uses.clone(), concerned: AtomicBool::default() });
            catalog.observe(Arc::downgrade(&heard) as Weak<dyn CatalogObserver>);
            catalog.create(&name(changed), view("SELECT 2"), true).unwrap();
            let found = (are_current(&session, &uses), uses.are_gone(&catalog.snapshot()));
            assert_eq!(found, (lives, !lives), "{used:?} {changed}");
            assert_eq!(heard.concerned.load(Ordering::Relaxed), !lives, "{used:?} {changed}");
        }
    }

    #[test]
    fn other_settings_or_rights_make_a_plan_obsolete_for_a_session() {
        let catalog = Arc::new(Catalog::default());
        catalog.create(&name("a"), view("SELECT 1"), false).unwrap();
        let (session, uses) = looked_up(&catalog, Rights::all(), &["a"]);
        let (stranger, _) = looked_up(&catalog, Rights::only(vec![], vec![]), &[]);
        assert!(are_current(&session, &uses) && !are_current(&stranger, &uses));
        let path = |path: &str| -> Arc<FileRelation> { panic!("{path} is no path") };
        assert!(!uses.are_current(&session.snapshot(), (2, false), path));
        assert!(!uses.are_current(&session.snapshot(), (1, true), path));
        let before = uses.fingerprint();
        catalog.create(&name("a"), view("SELECT 2"), true).unwrap();
        let (_, uses) = looked_up(&catalog, Rights::all(), &["a", "b"]);
        assert_ne!(uses.fingerprint(), before);
        assert!(!uses.is_empty() && looked_up(&catalog, Rights::all(), &["b"]).1.is_empty());
    }

    struct Heard {
        uses: Uses,
        concerned: AtomicBool,
    }

    impl CatalogObserver for Heard {
        fn changed(&self, change: &CatalogChange) {
            self.concerned.fetch_or(self.uses.depend_on(change), Ordering::Relaxed);
        }
    }
}
