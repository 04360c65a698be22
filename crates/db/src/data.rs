//! The tables that lie in folders and files when a database is opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, Discovered, Format, discover};

/// What in these folders and files can be a table. Nothing is opened. Fails with kind `Input` if there is no such
/// folder or file, if a file's name does not show its format, and if two tables would have one name.
pub(crate) fn tables_of(places: &[PathBuf], files: &Arc<dyn Disk>) -> Result<Discovered> {
    let mut all = Discovered::default();
    // The location of each table, by its name, and the place that it came from.
    let mut found = BTreeMap::<String, (String, &Path)>::new();
    for place in places {
        let Discovered { tables, left_out } = match files.is_folder(place) {
            true => discover(place, files)?,
            false => Discovered { tables: vec![table_of_file(place, files)?], left_out: Vec::new() },
        };
        all.left_out.extend(left_out);
        for (name, location) in tables {
            match found.get(&name) {
                Some((other, _)) if is_same(other, &location, files) => {}
                Some((other, from)) => {
                    return Err(two_of_one_name(&name, (other.as_str(), *from), (location.as_str(), place.as_path())));
                }
                None => {
                    found.insert(name, (location, place.as_path()));
                }
            }
        }
    }
    all.tables.extend(found.into_iter().map(|(name, (location, _))| (name, location)));
    Ok(all)
}

/// The table that a file is, named by its stem.
fn table_of_file(path: &Path, files: &Arc<dyn Disk>) -> Result<(String, String)> {
    if files.resolve(path).is_err() {
        return Err(Error::input(format!("{}: there is no such file or folder", path.display())));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((_, compression)) = Format::of_name(&name) else {
        let error = Error::input(format!("{}: the name of the file does not show its format", path.display()));
        return Err(error.with_hint("formats are .parquet, .csv, .tsv, .json, .jsonl and .arrow"));
    };
    let without_end = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let inner = if compression == Compression::Plain { name } else { without_end(&name) };
    Ok((without_end(&inner), path.to_string_lossy().into_owned()))
}

/// Whether two locations are one file or folder.
fn is_same(one: &str, other: &str, files: &Arc<dyn Disk>) -> bool {
    let resolved = |location: &str| files.resolve(Path::new(location)).ok();
    one == other || resolved(one).is_some_and(|one| resolved(other) == Some(one))
}

fn two_of_one_name(name: &str, (one, from): (&str, &Path), (other, place): (&str, &Path)) -> Error {
    let places = format!("{} and {}", from.display(), place.display());
    let error = Error::input(format!("{places} both have a table named '{name}': {one} and {other}"));
    error.with_code("42P07").with_hint("rename one of the files, or leave one place out and name its files in FROM")
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::LocalDisk;

    use super::*;

    #[test]
    fn folders_and_files_stand_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("one")).unwrap();
        std::fs::create_dir(at("two")).unwrap();
        for name in ["one/a.csv", "two/b.csv", "two/a.json", "c.d.csv.gz", "notes.txt"] {
            std::fs::write(at(name), "x\n").unwrap();
        }
        let files: Arc<dyn Disk> = Arc::new(LocalDisk);
        let names = |places: &[&str]| {
            let places = places.iter().map(|place| at(place)).collect::<Vec<_>>();
            tables_of(&places, &files).map(|found| found.tables.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["one", "two/b.csv", "c.d.csv.gz"]).unwrap(), ["a", "b", "c.d"]);
        assert_eq!(names(&["one", "one/a.csv"]).unwrap(), ["a"], "one table, named twice");
        assert_eq!(names(&[]).unwrap(), Vec::<String>::new());
        let two = names(&["one", "two"]).unwrap_err().to_string();
        assert!(two.contains("both have a table named 'a'") && two.contains("a.json"), "{two}");
        assert!(names(&["notes.txt"]).unwrap_err().to_string().contains("does not show its format"));
        assert!(names(&["nowhere.csv"]).unwrap_err().to_string().contains("no such file"));
    }
}
