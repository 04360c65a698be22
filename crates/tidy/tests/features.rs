//! Whichever package is built, each dependency has the features that the workspace as a whole asks for: otherwise Cargo
//! compiles it a second time.

use std::collections::BTreeSet;
use std::process::Command;

/// Dependencies with their features, one on a line, of some packages.
fn dependencies(packages: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p} with '{f}'"])
        .args(packages)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree {packages:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn no_package_builds_a_dependency_with_other_features() {
    let all = dependencies(&["--workspace"]);
    let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the folder of the packages");
    let mut others = Vec::new();
    for package in crates {
        let name = package.expect("a folder").file_name().into_string().expect("a name in UTF-8");
        let own = dependencies(&["--package", &format!("diligence-{name}")]);
        others.extend(own.difference(&all).map(|dependency| format!("diligence-{name}: {dependency}\n")));
    }
    assert!(
        others.is_empty(),
        "these have other features than in the workspace; run `cargo hakari generate`, or say in \
         crates/features/Cargo.toml which features all have:\n{}",
        others.concat()
    );
}
