//! Directions: rooms are the modules at the top of a crate, and none imports another that imports it.
//!
//! An import leads to the room that declares what is named; re-exports on the way are followed. The root of a crate is
//! a room as well, but for what it re-exports: that is a door.
//!
//! Below the rooms the same holds for modules that stand side by side in a module, at every level. What such a module
//! and its parent import of each other does not count: they are one thing that is told in several files.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::Finding;
use crate::house::House;
use crate::packages::{Package, Tree};
use crate::syntax::Visibility;

/// What stands in the documentation of a crate's root before the names of its rooms, lowest first.
const ORDER: &str = "each imports only those before it:";

/// The rooms below a module, and which import which.
pub struct Rooms {
    /// Their names; the one that holds them has the name of its file.
    pub names: BTreeSet<String>,
    /// For each pair, from the one that imports to the one that is imported, the places.
    pub arrows: BTreeMap<(String, String), Vec<String>>,
}

/// The rooms of `tree` below the module with the path `below`; of the whole tree, if that is empty.
pub fn rooms(tree: &Tree, below: &[String]) -> Rooms {
    let room = |module: usize| {
        let module = &tree.modules[module];
        let inside = module.path.strip_prefix(below)?;
        Some(inside.first().cloned().unwrap_or_else(|| file_name(&tree_file(tree, below)).to_string()))
    };
    let mut rooms = Rooms { names: BTreeSet::new(), arrows: BTreeMap::new() };
    for (index, module) in tree.modules.iter().enumerate() {
        let Some(from) = room(index) else { continue };
        rooms.names.insert(from.clone());
        let is_root = module.path == below;
        let uses = module.text.uses.iter().filter(|one| !(is_root && one.visibility != Visibility::Private));
        let uses = uses.map(|one| (&one.path, one.line));
        let paths = module.text.paths.iter().map(|one| (&one.path, one.line));
        for (path, line) in uses.chain(paths) {
            let Some(to) = tree.resolve(index, path).and_then(|target| room(target.module)) else { continue };
            if to != from {
                let place = format!("{}:{line} names {}", module.file, path.join("::"));
                rooms.arrows.entry((from.clone(), to)).or_default().push(place);
            }
        }
    }
    rooms
}

fn tree_file(tree: &Tree, path: &[String]) -> String {
    tree.modules.iter().find(|module| module.path == path).map_or(String::new(), |module| module.file.clone())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Rooms {
    /// Pairs that import each other.
    pub fn mutual(&self) -> Vec<(&str, &str)> {
        let pairs = self.arrows.keys().filter(|(a, b)| a < b && self.imports(b, a));
        pairs.map(|(a, b)| (a.as_str(), b.as_str())).collect()
    }

    fn imports(&self, from: &str, to: &str) -> bool {
        self.arrows.contains_key(&(from.to_string(), to.to_string()))
    }

    /// The rooms in an order in which each imports only those before it, as far as there is one, and the others: those
    /// in a circle, and those that import them.
    pub fn order(&self) -> (Vec<&str>, Vec<&str>) {
        let mut order: Vec<&str> = Vec::new();
        let mut left: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        while let Some(next) = left.iter().find(|room| !left.iter().any(|other| self.imports(room, other))).copied() {
            left.remove(next);
            order.push(next);
        }
        (order, left.into_iter().collect())
    }

    /// Rooms in circles: those of which each imports one of them and is imported by one.
    pub fn knotted(&self) -> Vec<&str> {
        let (_, mut left) = self.order();
        loop {
            let count = left.len();
            left = left.iter().filter(|room| left.iter().any(|other| self.imports(other, room))).copied().collect();
            if left.len() == count {
                return left;
            }
        }
    }
}

/// Rooms that import each other, crates and rooms that use what stands above them.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &house.packages {
        for tree in &package.trees {
            check_tree(package, tree, &mut findings);
        }
    }
    check_crates(house, &mut findings);
    findings
}

/// Modules side by side, below the rooms, that import each other.
pub fn check_inner(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &house.packages {
        for tree in &package.trees {
            for parent in tree.modules.iter().filter(|module| !module.path.is_empty() && module.children.len() > 1) {
                let rooms = rooms(tree, &parent.path);
                let place = |from: &str, to: &str| rooms.arrows[&(from.to_string(), to.to_string())][0].as_str();
                let is_parent = |room: &str| room == file_name(&parent.file);
                let name = format!("{}/{}", package.name, parent.path.join("/"));
                let pairs = rooms.mutual().into_iter().filter(|(a, b)| !is_parent(a) && !is_parent(b));
                findings.extend(pairs.map(|(a, b)| Finding {
                    place: parent.file.clone(),
                    sentence: format!(
                        "the modules `{a}` and `{b}` of `{name}` import each other ({}; {}). Move what both need into \
                         one of them, or into a third",
                        place(a, b),
                        place(b, a)
                    ),
                    key: format!("{name}: {a} {b}"),
                }));
            }
        }
    }
    findings
}

fn check_tree(package: &Package, tree: &Tree, findings: &mut Vec<Finding>) {
    let rooms = rooms(tree, &[]);
    let place = |from: &str, to: &str| rooms.arrows[&(from.to_string(), to.to_string())][0].as_str();
    let mutual = rooms.mutual();
    for (a, b) in &mutual {
        findings.push(Finding {
            place: tree.root.clone(),
            sentence: format!(
                "the rooms `{a}` and `{b}` import each other ({}; {}). Move what both need into the lower one, or let \
                 that define a trait",
                place(a, b),
                place(b, a)
            ),
            key: format!("{}: {a} {b}", package.name),
        });
    }
    let knotted = rooms.knotted();
    if mutual.is_empty() && !knotted.is_empty() {
        let among = |room: &&str| knotted.contains(room);
        let arrows = rooms.arrows.keys().filter(|(from, to)| among(&from.as_str()) && among(&to.as_str()));
        let arrows: Vec<_> = arrows.map(|(from, to)| place(from, to)).collect();
        findings.push(Finding {
            place: tree.root.clone(),
            sentence: format!(
                "the rooms {} import one another in a circle ({}). Take away one of these arrows",
                knotted.join(", "),
                arrows.join("; ")
            ),
            key: format!("{}: {}", package.name, knotted.join(" ")),
        });
    }
    check_order(package, tree, &rooms, findings);
}

/// The order that the root of a crate states, if it does, is that of its imports.
fn check_order(package: &Package, tree: &Tree, rooms: &Rooms, findings: &mut Vec<Finding>) {
    let docs = tree.modules[0].text.docs.replace('\n', " ");
    let Some((_, stated)) = docs.split_once(ORDER) else {
        if package.name == "engine" {
            findings.push(Finding {
                place: tree.root.clone(),
                sentence: format!(
                    "its `//!` does not state the order of its rooms: \"The rooms, of which {ORDER} ...\""
                ),
                key: format!("{}: no order", package.name),
            });
        }
        return;
    };
    let stated = stated.split_once(". ").map_or(stated, |(list, _)| list);
    let stated: Vec<_> = stated.split('`').skip(1).step_by(2).collect();
    let position = |room: &str| stated.iter().position(|one| *one == room);
    let mut complain = |sentence: String, key: String| {
        findings.push(Finding { place: tree.root.clone(), sentence, key: format!("{}: {key}", package.name) });
    };
    let root = file_name(&tree.root);
    for name in rooms.names.iter().filter(|name| *name != root && position(name).is_none()) {
        complain(format!("the order of rooms in its `//!` lacks `{name}`: add it"), format!("no {name}"));
    }
    for name in stated.iter().filter(|name| !rooms.names.contains(**name)) {
        complain(
            format!("the order of rooms in its `//!` has `{name}`, which is none: take it away"),
            name.to_string(),
        );
    }
    for ((from, to), places) in &rooms.arrows {
        if let (Some(low), Some(high)) = (position(from), position(to))
            && low < high
        {
            complain(
                format!(
                    "`{from}` imports `{to}`, which stands above it in the order of rooms ({}). Move what is named \
                     down, or let `{from}` define a trait",
                    places[0]
                ),
                format!("{from} -> {to}"),
            );
        }
    }
}

/// Crates depend only on those above them in ARCHITECTURE.md's table of rooms.
fn check_crates(house: &House, findings: &mut Vec<Finding>) {
    let Some(architecture) = house.files.text("ARCHITECTURE.md") else { return };
    let rows = table_of_rooms(architecture);
    let place = |line: usize| format!("ARCHITECTURE.md:{line}");
    // The crate of an `engine/plan` is `engine`; it stands where its first room does.
    let position = |name: &str| rows.iter().position(|(_, row)| row.split('/').next() == Some(name));
    // It has no code, only the features of others' crates.
    let packages = house.packages.iter().filter(|package| package.name != "features");
    let packages: BTreeMap<_, _> = packages.map(|package| (package.name.as_str(), package)).collect();
    for (line, row) in &rows {
        let (name, room) = row.split_once('/').unwrap_or((row, ""));
        let source = packages.get(name).map(|package| format!("{}/src/{room}", package.folder));
        let is_known =
            |source: &str| room.is_empty() || house.files.has(source) || house.files.has(&format!("{source}.rs"));
        if !source.is_some_and(|source| is_known(&source)) {
            findings.push(Finding {
                place: place(*line),
                sentence: format!("the table of rooms has `{row}`, which is none: take the row away, or rename it"),
                key: row.clone(),
            });
        }
    }
    for (name, package) in &packages {
        let Some(own) = position(name) else {
            findings.push(Finding {
                place: "ARCHITECTURE.md".to_string(),
                sentence: format!("the table of rooms lacks `{name}`: add a row for it"),
                key: format!("no {name}"),
            });
            continue;
        };
        for need in &package.needs {
            if position(need).is_some_and(|above| above > own) {
                findings.push(Finding {
                    place: format!("{}/Cargo.toml", package.folder),
                    sentence: format!(
                        "`{name}` depends on `{need}`, which stands below it in ARCHITECTURE.md's table of rooms, where \
                         each crate uses only those above it. Move what it needs into a lower crate, or let `{name}` \
                         define a trait"
                    ),
                    key: format!("{name} -> {need}"),
                });
            }
        }
    }
}

/// The names in the first column of the table under "The rooms", with their lines.
fn table_of_rooms(architecture: &str) -> Vec<(usize, String)> {
    let lines = architecture.lines().enumerate().skip_while(|(_, line)| *line != "## The rooms").skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let cells = section.filter_map(|(at, line)| Some((at + 1, line.strip_prefix('|')?.split('|').next()?)));
    cells
        .flat_map(|(line, cell)| cell.split('`').skip(1).step_by(2).map(move |name| (line, name.to_string())))
        .collect()
}

/// The rooms of all packages, or those below `below`, such as `engine/operators`: arrows, circles, an order.
pub fn report(house: &House, below: Option<&str>) -> String {
    let mut text = String::new();
    let below = below.unwrap_or("");
    let (wanted, path) = below.split_once('/').unwrap_or((below, ""));
    let path: Vec<_> = path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect();
    for package in house.packages.iter().filter(|package| wanted.is_empty() || package.name == wanted) {
        for tree in &package.trees {
            let rooms = rooms(tree, &path);
            if rooms.names.is_empty() {
                continue;
            }
            text += &format!("{}\n", [std::slice::from_ref(&tree.root), path.as_slice()].concat().join(" "));
            for name in &rooms.names {
                let to = rooms.arrows.iter().filter(|((from, _), _)| from == name);
                let to: Vec<_> = to.map(|((_, to), places)| format!("{to} {}", places.len())).collect();
                text += &format!("  {name} -> {}\n", if to.is_empty() { "nothing".to_string() } else { to.join(", ") });
            }
            for (a, b) in rooms.mutual() {
                text += &format!("  MUTUAL {a} <-> {b}\n");
                for (from, to) in [(a, b), (b, a)] {
                    let places = &rooms.arrows[&(from.to_string(), to.to_string())];
                    let few = places.iter().take(if wanted.is_empty() { 1 } else { 12 });
                    for place in few {
                        text += &format!("    {from} -> {to}: {place}\n");
                    }
                }
            }
            let (order, left) = rooms.order();
            text += &format!("  order, lowest first: {}\n", order.join(", "));
            if !left.is_empty() {
                text += &format!("  in circles: {}\n", rooms.knotted().join(", "));
                text += &format!("  in circles or above them: {}\n", left.join(", "));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(files: &[(&str, &str)]) -> Vec<String> {
        check(&House::of(files)).iter().map(ToString::to_string).collect()
    }

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"diligence-a\"");

    #[test]
    fn rooms_that_import_each_other_are_found_through_re_exports() {
        let found = sentences(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "mod low; mod high; mod door;"),
            ("crates/a/src/low.rs", "pub struct Low; fn f() { crate::door::High::g() }"),
            ("crates/a/src/high.rs", "use super::low::{Low as L}; pub struct High;"),
            ("crates/a/src/door.rs", "pub use crate::high::High;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`high` and `low` import each other"), "{found:?}");
    }

    #[test]
    fn circles_of_three_are_found_and_tests_do_not_count() {
        let found = sentences(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "mod a; mod b; mod c;"),
            ("crates/a/src/a.rs", "use crate::b::B; pub struct A;"),
            ("crates/a/src/b.rs", "use crate::c::C; pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
            ("crates/a/src/c.rs", "use crate::a::A; pub struct C;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a, b, c import one another in a circle"), "{found:?}");
    }

    #[test]
    fn modules_within_a_room_do_not_import_each_other() {
        let files = [
            MANIFEST,
            ("crates/a/src/lib.rs", "mod room;"),
            ("crates/a/src/room/mod.rs", "mod low; mod high; use self::low::Low; pub struct Base;"),
            ("crates/a/src/room/low.rs", "use super::Base; use super::high::High; pub struct Low;"),
            ("crates/a/src/room/high.rs", "use super::low::Low; pub struct High;"),
        ];
        assert_eq!(sentences(&files), [""; 0]);
        let found = check_inner(&House::of(&files));
        let keys = found.iter().map(|finding| finding.key.as_str()).collect::<Vec<_>>();
        assert_eq!(keys, ["a/room: high low"], "{found:?}");
    }

    #[test]
    fn a_stated_order_is_that_of_the_imports() {
        let lib = "//! The rooms, of which each imports only those before it: `a`,\n//! `b`, `d`. More.\nmod a; mod b; mod c;";
        let found = sentences(&[
            MANIFEST,
            ("crates/a/src/lib.rs", lib),
            ("crates/a/src/a.rs", "use crate::b::B;"),
            ("crates/a/src/b.rs", "pub struct B;"),
            ("crates/a/src/c.rs", ""),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("lacks `c`"), "{found:?}");
        assert!(found[1].contains("has `d`, which is none"), "{found:?}");
        assert!(found[2].contains("`a` imports `b`, which stands above it"), "{found:?}");
    }

    #[test]
    fn crates_use_those_above_them_in_the_table() {
        let manifest = "[package]\nname = \"diligence-a\"\n[dependencies]\ndiligence-b = { path = \"../b\" }";
        let found = sentences(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", ""),
            ("crates/b/Cargo.toml", "[package]\nname = \"diligence-b\""),
            ("crates/c/Cargo.toml", "[package]\nname = \"diligence-c\""),
            (
                "ARCHITECTURE.md",
                "## The rooms\n\n| room | |\n|---|---|\n| `a` | |\n| `b` | |\n| `b/gone` | |\n\n## More",
            ),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("`b/gone`, which is none"), "{found:?}");
        assert!(found[1].contains("`a` depends on `b`"), "{found:?}");
        assert!(found[2].contains("lacks `c`"), "{found:?}");
    }
}
