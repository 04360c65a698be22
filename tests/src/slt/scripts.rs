//! Finds and reads the scripts.

use std::path::{Path, PathBuf};

use sqllogictest::Record;

use super::display::ColumnLetter;

/// What marks a script that is left out over the wire.
const EMBEDDED_ONLY: &str = "# embedded only: ";

/// A script.
pub struct Script {
    /// Its path under `tests/slt`.
    pub name: String,
    /// The TPC-H data it expects as tables: files in `tpch/` are named after their scale, `sf001` being 0.01.
    pub scale_factor: Option<f64>,
    /// Whether it asks for what only the library gives: it has a line `# embedded only: REASON`.
    pub is_embedded_only: bool,
    /// Its records, placeholders not yet replaced.
    pub records: Vec<Record<ColumnLetter>>,
}

/// All scripts below the folder whose path contains `part`, by path.
pub fn load(root: &Path, part: &str) -> Result<Vec<Script>, String> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort();
    let mut scripts = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if !name.contains(part) {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let records = sqllogictest::parse_with_name(&text, format!("tests/slt/{name}"))
            .map_err(|error| format!("{name}: {error}"))?;
        let is_embedded_only = text.lines().any(|line| line.starts_with(EMBEDDED_ONLY));
        scripts.push(Script { scale_factor: scale_factor(&name), name, records, is_embedded_only });
    }
    Ok(scripts)
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            paths.push(path);
        }
    }
    Ok(())
}

/// `tpch/sf001_first.slt` → 0.01: a point belongs behind the first digit.
fn scale_factor(name: &str) -> Option<f64> {
    let digits: String = name.strip_prefix("tpch/sf")?.chars().take_while(char::is_ascii_digit).collect();
    let (whole, fraction) = digits.split_at_checked(1)?;
    format!("{whole}.{fraction}0").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_tpch_say_their_scale() {
        assert_eq!(scale_factor("tpch/sf001.slt"), Some(0.01));
        assert_eq!(scale_factor("tpch/sf01_joins.slt"), Some(0.1));
        assert_eq!(scale_factor("tpch/sf1.slt"), Some(1.0));
        assert_eq!(scale_factor("joins/sf1.slt"), None);
        assert_eq!(scale_factor("tpch/sf.slt"), None);
    }

    #[test]
    fn every_script_of_the_project_can_be_read() {
        let scripts = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("slt"), "").unwrap();
        assert!(scripts.iter().all(|script| !script.records.is_empty()));
    }
}
