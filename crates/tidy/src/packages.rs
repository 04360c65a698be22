//! The crates of the workspace as trees of modules, and what a path in one of them leads to.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::files::Files;
use crate::syntax::{ModuleText, Visibility, module_of};

/// A package.
pub struct Package {
    /// Its folder: `crates/engine`.
    pub folder: String,
    /// Its name without the prefix that all of ours have: `engine`.
    pub name: String,
    /// The packages of the workspace that its product code depends on, by their names without the prefix.
    pub needs: BTreeSet<String>,
    /// Its library, then its programs.
    pub trees: Vec<Tree>,
}

/// The modules of a library or a program.
pub struct Tree {
    /// The file at its root.
    pub root: String,
    /// The root first.
    pub modules: Vec<Module>,
    /// How many names are being looked for, one in the course of another.
    open: Cell<usize>,
}

/// A module in its tree.
pub struct Module {
    /// Its path from the root; the root's is empty.
    pub path: Vec<String>,
    /// Where its text is.
    pub file: String,
    /// What it holds.
    pub text: ModuleText,
    /// Its children by name.
    pub children: BTreeMap<String, usize>,
    parent: usize,
    names: BTreeSet<String>,
    /// What names were found to lead to.
    answers: RefCell<BTreeMap<String, Option<Target>>>,
}

/// What every package of ours has before its name.
const PREFIX: &str = "diligence-";

/// All packages of the workspace, by folder.
pub fn packages(files: &Files) -> Vec<Package> {
    let manifests = files.with_ending("Cargo.toml");
    manifests.filter_map(|(path, text)| package(files, path.strip_suffix("/Cargo.toml")?, text)).collect()
}

fn package(files: &Files, folder: &str, manifest: &str) -> Option<Package> {
    let sections = sections(manifest);
    let (_, keys) = sections.iter().find(|(name, _)| name == "package")?;
    let name = keys.iter().find(|(key, _)| key == "name")?.1.trim_matches('"');
    let short = |name: &str| name.strip_prefix(PREFIX).map(str::to_string);
    let needs = sections
        .iter()
        .filter(|(name, _)| name.ends_with("dependencies") && !name.contains("dev-"))
        .flat_map(|(_, keys)| keys.iter().filter_map(|(key, _)| short(key.split('.').next()?.trim())));
    let needs = needs.collect();
    let source = format!("{folder}/src/");
    let is_root = |path: &str| match path.strip_prefix(&source) {
        Some("lib.rs" | "main.rs") => true,
        Some(other) => other.strip_prefix("bin/").is_some_and(|program| !program.contains('/')),
        None => false,
    };
    let roots = files.with_ending(".rs").map(|(path, _)| path).filter(|path| is_root(path));
    let trees = roots.map(|root| tree(files, root)).collect();
    Some(Package { folder: folder.to_string(), name: short(name).unwrap_or(name.to_string()), needs, trees })
}

/// The sections of a manifest, each with its keys and values; a value that goes on over lines has its first line.
fn sections(manifest: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut sections = vec![(String::new(), Vec::new())];
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((name.to_string(), Vec::new()));
        } else if let Some((key, value)) = line.split_once('=')
            && let Some((_, keys)) = sections.last_mut()
        {
            keys.push((key.trim().to_string(), value.trim().to_string()));
        }
    }
    sections
}

/// The modules from the file `root` on.
pub fn tree(files: &Files, root: &str) -> Tree {
    let mut tree = Tree { root: root.to_string(), modules: Vec::new(), open: Cell::new(0) };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_string();
    let text = module_of(files.text(root).unwrap_or(""));
    add(files, &mut tree, Vec::new(), 0, root.to_string(), &folder, text);
    tree
}

/// Adds a module and those below it, whose files are in `folder`.
fn add(
    files: &Files,
    tree: &mut Tree,
    path: Vec<String>,
    parent: usize,
    file: String,
    folder: &str,
    mut text: ModuleText,
) -> usize {
    let children = std::mem::take(&mut text.modules);
    let names = names(&text);
    let index = tree.modules.len();
    tree.modules.push(Module {
        path: path.clone(),
        file: file.clone(),
        text,
        children: BTreeMap::new(),
        parent,
        names,
        answers: RefCell::default(),
    });
    for child in children {
        if child.is_test {
            continue;
        }
        let mut path = path.clone();
        path.push(child.name.clone());
        let name = child.name.clone();
        let inside = format!("{folder}/{name}");
        let (file, text) = match child.is_elsewhere {
            false => (file.clone(), child),
            true => {
                let candidates = [format!("{inside}.rs"), format!("{inside}/mod.rs")];
                let Some(file) = candidates.into_iter().find(|file| files.text(file).is_some()) else { continue };
                let mut text = module_of(files.text(&file).unwrap_or(""));
                if text.is_test {
                    continue;
                }
                text.name = child.name;
                text.visibility = child.visibility;
                text.docs.insert_str(0, &child.docs);
                (file, text)
            }
        };
        let child = add(files, tree, path, index, file, &inside, text);
        tree.modules[index].children.insert(name, child);
    }
    index
}

/// What a module declares, but for modules and imports.
fn names(text: &ModuleText) -> BTreeSet<String> {
    let types = text.types.iter().filter(|one| !one.is_local).map(|one| &one.name);
    let functions = text.functions.iter().filter(|one| one.owner.is_none() && !one.is_local).map(|one| &one.name);
    types.chain(functions).chain(text.others.iter().map(|(name, _)| name)).cloned().collect()
}

/// What a path leads to: the module that declares its last segment, or that is its last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The module.
    pub module: usize,
    /// Whether the path is that of the module itself.
    pub is_module: bool,
}

impl Tree {
    /// What `path` leads to in `module`; `None` if it leads out of this tree, or nowhere.
    ///
    /// Re-exports are followed to what they name.
    pub fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        let mut target = Target { module, is_module: true };
        for (at, segment) in path.iter().enumerate() {
            // What follows is a variant or an associated item.
            if !target.is_module {
                break;
            }
            match segment.as_str() {
                "crate" if at == 0 => target.module = 0,
                "self" if at == 0 => {}
                "super" => target.module = self.modules[target.module].parent,
                name => target = self.named(target.module, name)?,
            }
        }
        Some(target)
    }

    /// What a name leads to in a module.
    fn named(&self, module: usize, name: &str) -> Option<Target> {
        if let Some(answer) = self.modules[module].answers.borrow().get(name) {
            return *answer;
        }
        // Imports can go in a circle: a name that is being looked for is not found by way of itself.
        self.modules[module].answers.borrow_mut().insert(name.to_string(), None);
        self.open.set(self.open.get() + 1);
        let answer = self.look_for(module, name);
        self.open.set(self.open.get() - 1);
        let mut answers = self.modules[module].answers.borrow_mut();
        match answer {
            // It may be found once the question in whose course it was asked is answered.
            None if self.open.get() > 0 => _ = answers.remove(name),
            answer => _ = answers.insert(name.to_string(), answer),
        }
        answer
    }

    fn look_for(&self, module: usize, name: &str) -> Option<Target> {
        let place = &self.modules[module];
        if let Some(child) = place.children.get(name) {
            return Some(Target { module: *child, is_module: true });
        }
        if place.names.contains(name) {
            return Some(Target { module, is_module: false });
        }
        let exports = |one: &Module| one.text.exported_macros.iter().any(|exported| exported == name);
        if module == 0
            && let Some(module) = self.modules.iter().position(exports)
        {
            return Some(Target { module, is_module: false });
        }
        let named = place.text.uses.iter().filter(|one| one.name == name);
        let globs = place.text.uses.iter().filter(|one| one.name == "*");
        named.filter_map(|one| self.resolve(module, &one.path)).next().or_else(|| {
            let opened = globs.filter_map(|one| self.resolve(module, &one.path)).filter(|target| target.is_module);
            opened.into_iter().find_map(|target| self.named(target.module, name))
        })
    }

    /// What the crate of this root shows to others: modules' names with what they declare.
    pub fn exports(&self) -> BTreeSet<(usize, String)> {
        let mut exports = BTreeSet::new();
        self.export(0, &mut exports, &mut BTreeSet::new());
        exports
    }

    fn export(&self, module: usize, exports: &mut BTreeSet<(usize, String)>, seen: &mut BTreeSet<usize>) {
        if !seen.insert(module) {
            return;
        }
        let place = &self.modules[module];
        let public = |visibility| visibility == Visibility::Public;
        let types = place.text.types.iter().filter(|one| public(one.visibility)).map(|one| &one.name);
        let functions = place.text.functions.iter().filter(|one| one.owner.is_none() && public(one.visibility));
        let others = place.text.others.iter().filter(|(_, visibility)| public(*visibility)).map(|(name, _)| name);
        let all = types.chain(functions.map(|one| &one.name)).chain(others);
        exports.extend(all.map(|name| (module, name.clone())));
        for child in place.children.values().filter(|child| public(self.modules[**child].text.visibility)) {
            self.export(*child, exports, seen);
        }
        for one in place.text.uses.iter().filter(|one| public(one.visibility)) {
            match (self.resolve(module, &one.path), one.path.last()) {
                (Some(target), _) if target.is_module => self.export(target.module, exports, seen),
                (Some(target), Some(name)) => {
                    exports.insert((target.module, name.clone()));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        Files::of(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"diligence-a\"\n[dependencies]\ndiligence-b.workspace = true"),
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub use b::Inner as Outer;\n#[cfg(test)]\nmod tests;"),
            ("crates/a/src/b/mod.rs", "mod d;\npub use self::d::*;\nuse crate::c::C;"),
            ("crates/a/src/b/d.rs", "pub struct Inner;\npub struct Hidden;"),
            ("crates/a/src/c.rs", "use super::b::{self, *};\npub(crate) struct C;"),
            ("crates/a/src/tests.rs", "use crate::c;"),
        ])
    }

    fn name(tree: &Tree, module: usize) -> String {
        tree.modules[module].path.join("::")
    }

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_string).collect()
    }

    #[test]
    fn paths_lead_through_re_exports_to_what_declares_a_name() {
        let packages = packages(&files());
        let package = &packages[0];
        assert_eq!((package.name.as_str(), package.needs.iter().next().map(String::as_str)), ("a", Some("b")));
        let tree = &package.trees[0];
        let resolved = |module: &str, to: &str| {
            let module = (0..tree.modules.len()).find(|index| name(tree, *index) == module).expect("such a module");
            tree.resolve(module, &path(to)).map(|target| (name(tree, target.module), target.is_module))
        };
        let found = |name: &str, is_module| Some((name.to_string(), is_module));
        assert_eq!(resolved("", "crate::Outer"), found("b::d", false));
        assert_eq!(resolved("c", "b::Inner::new"), found("b::d", false));
        assert_eq!(resolved("c", "Hidden"), found("b::d", false), "by two globs");
        assert_eq!(resolved("b::d", "super::super::c"), found("c", true));
        assert_eq!(resolved("b", "std::fmt"), None);
        assert!(tree.modules.iter().all(|module| module.path != ["tests"]));
    }

    #[test]
    fn what_is_shown_is_what_public_paths_lead_to() {
        let packages = packages(&files());
        let tree = &packages[0].trees[0];
        let shown: Vec<_> = tree.exports().into_iter().map(|(module, shown)| (name(tree, module), shown)).collect();
        assert_eq!(shown, [("b::d".to_string(), "Inner".to_string())]);
    }
}
