//! Reports of findings.

use std::path::PathBuf;

use crate::mutate;
use crate::targets::TargetKind;

/// The exit code of a child that has reported a finding.
pub const FOUND: i32 = 3;

/// Saves the input of a seed and describes the finding.
pub fn report(kind: TargetKind, seed: u64, what: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("failures");
    let path = folder.join(format!("{}-{seed}", kind.name()));
    let saved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, mutate::input(kind, seed)));
    let place = match saved {
        Ok(()) => format!("saved as {}", path.display()),
        Err(error) => format!("could not be saved as {}: {error}", path.display()),
    };
    format!(
        "FOUND in {}: {what}\n  seed {seed}, {place}\n  again: diligence-fuzz {} --seed {seed} --once",
        kind.name(),
        kind.name()
    )
}
