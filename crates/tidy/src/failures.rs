//! Functions that can fail: those that others call say how.

use std::collections::BTreeSet;

use crate::findings::Finding;
use crate::house::House;
use crate::packages::{Module, Package, Target, Tree};
use crate::syntax::{FunctionText, Visibility};

/// The packages whose functions say so, and of `engine` the rooms that others call.
const PACKAGES: [&str; 10] =
    ["base", "segment", "types", "db", "storage", "client", "memory", "disk", "catalog", "engine"];
const DOORS_OF_ENGINE: [&str; 3] = ["engine", "query", "options"];

/// Public functions that return a `Result` and whose documentation does not say when that is an error.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in house.packages.iter().filter(|package| PACKAGES.contains(&package.name.as_str())) {
        for tree in package.trees.iter().filter(|tree| tree.root.ends_with("lib.rs")) {
            let exports = tree.exports();
            for (index, module) in tree.modules.iter().enumerate().filter(|(_, module)| is_asked(package, module)) {
                let functions = module.text.functions.iter().filter(|one| one.is_fallible && !says_how(&one.docs));
                findings.extend(
                    functions
                        .filter(|one| is_public(tree, &exports, index, one))
                        .map(|one| finding(package, module, one)),
                );
            }
        }
    }
    findings
}

fn is_asked(package: &Package, module: &Module) -> bool {
    package.name != "engine" || module.path.first().is_some_and(|room| DOORS_OF_ENGINE.contains(&room.as_str()))
}

fn says_how(docs: &str) -> bool {
    let words = docs.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.into_iter().any(|word| word.starts_with("fail") || word == "error" || word == "errors")
}

fn is_public(tree: &Tree, exports: &BTreeSet<(usize, String)>, module: usize, function: &FunctionText) -> bool {
    let is_shown = |module: usize, name: &str| exports.contains(&(module, name.to_string()));
    let is_public = function.visibility == Visibility::Public || function.is_of_trait;
    match &function.owner {
        _ if function.is_local || !is_public => false,
        None => is_shown(module, &function.name),
        Some(owner) => match tree.resolve(module, std::slice::from_ref(owner)) {
            Some(Target { module, .. }) => is_shown(module, owner),
            None => false,
        },
    }
}

fn finding(package: &Package, module: &Module, function: &FunctionText) -> Finding {
    let owner = function.owner.as_ref().map_or(String::new(), |owner| format!("{owner}::"));
    let name = format!("{owner}{}", function.name);
    Finding {
        place: format!("{}:{}", module.file, function.line),
        sentence: format!(
            "`{name}` can fail, and its documentation does not say how. Add a sentence: \"Fails with kind `Input` if \
             ...\""
        ),
        key: format!("{} {}", package.name, [module.path.join("::"), name].join("::").trim_start_matches(':')),
    }
}

/// The functions that do not say how they fail.
pub fn report(house: &House) -> String {
    check(house).iter().map(|finding| format!("{} {}\n", finding.place, finding.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_call_says_how_it_fails() {
        let lib = "
            mod inner { pub struct Seen; pub struct Unseen; pub(crate) fn f() -> Result<()> {}
                /// Reads.
                impl Seen {
                    /// Reads.
                    pub fn read() -> io::Result<()> {}
                    /// Writes. Fails if the disk is full.
                    pub fn write() -> io::Result<()> {}
                    pub fn length() -> usize {}
                    fn hidden() -> Result<()> {}
                }
                impl Unseen { pub fn read() -> Result<()> {} }
            }
            pub use inner::Seen;
            pub trait Source { /// Pulls.
                fn pull() -> Option<Result<u8>>; }
            /// The error of parsing.
            pub fn parse() -> Result<u8> {}
            pub async fn open() -> Result<u8> {}";
        let files = [("crates/db/Cargo.toml", "[package]\nname = \"diligence-db\""), ("crates/db/src/lib.rs", lib)];
        let mut keys: Vec<_> = check(&House::of(&files)).into_iter().map(|finding| finding.key).collect();
        keys.sort();
        assert_eq!(keys, ["db Source::pull", "db inner::Seen::read", "db open"]);
    }
}
