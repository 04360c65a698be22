//! Names of types: in a backtrace, a profile or a search, one that stands on many is none.

use std::collections::BTreeMap;

use crate::findings::Finding;
use crate::house::House;

/// How many types of a crate may have the same name.
const TYPES_PER_NAME_MAX: usize = 2;

/// Where the types of a name are, by package and name.
fn homonyms(house: &House) -> BTreeMap<(String, String), Vec<String>> {
    let mut places: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for package in &house.packages {
        for module in package.trees.iter().flat_map(|tree| &tree.modules) {
            for one in &module.text.types {
                let key = (package.name.clone(), one.name.clone());
                places.entry(key).or_default().push(format!("{}:{}", module.file, one.line));
            }
        }
    }
    places.retain(|_, places| places.len() > TYPES_PER_NAME_MAX);
    places
}

/// Names that stand on more than two types of a crate.
pub fn check(house: &House) -> Vec<Finding> {
    let findings = homonyms(house).into_iter().map(|((package, name), places)| Finding {
        place: places[0].clone(),
        sentence: format!(
            "{} types of `{package}` have the name `{name}` (also {}). Say of what it is one, such as `Filter{name}`",
            places.len(),
            places[1..].join(", ")
        ),
        key: format!("{package} {name}"),
    });
    findings.collect()
}

/// The names that stand on more than two types of a crate, the commonest first.
pub fn report(house: &House) -> String {
    let mut names: Vec<_> = homonyms(house).into_iter().collect();
    names.sort_by_key(|((package, _), places)| (package.clone(), usize::MAX - places.len()));
    let lines = names.into_iter().map(|((package, name), places)| {
        let places: Vec<_> = places.iter().map(|place| format!("    {place}\n")).collect();
        format!("{package}: {name}, {} types\n{}", places.len(), places.concat())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_on_two_types_of_a_crate() {
        let with = |more: &str| {
            let lib = format!("struct State; mod a {{ enum State {{}} trait Held {{ type State; }} }} {more}");
            let manifest = ("crates/a/Cargo.toml", "[package]\nname = \"diligence-a\"");
            check(&House::of(&[manifest, ("crates/a/src/lib.rs", &lib)]))
        };
        assert!(with("#[cfg(test)] mod tests { struct State; }").is_empty());
        let found = with("impl Held for A { type State = B; }\nfn f() { type State = u8; }");
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("3 types of `a` have the name `State`"), "{found:?}");
    }
}
