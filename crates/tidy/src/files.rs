//! The files of the repository, read once.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Larger files are data: their names are known, their text is not looked at.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Files by path, relative to the root of the repository, with `/` between folders.
pub struct Files {
    files: BTreeMap<String, String>,
}

impl Files {
    /// Reads the repository at `root`.
    ///
    /// Fails if a folder or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Files> {
        let mut files = BTreeMap::new();
        collect(root, "", &mut files)?;
        Ok(Files { files })
    }

    /// A made-up repository.
    pub fn of(files: &[(&str, &str)]) -> Files {
        Files { files: files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect() }
    }

    /// The files with their texts, by path.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose names end with `ending`.
    pub fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(inside.clone()..).next().is_some_and(|(next, _)| next.starts_with(&inside))
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_skipped(&name) {
            collect(&entry.path(), &format!("{prefix}{name}/"), files)?;
        } else if kind.is_file() {
            let is_text = entry.metadata()?.len() <= TEXT_BYTES_MAX;
            let bytes = if is_text { fs::read(entry.path())? } else { Vec::new() };
            files.insert(format!("{prefix}{name}"), String::from_utf8(bytes).unwrap_or_default());
        }
    }
    Ok(())
}

/// Whether a folder holds what was built or downloaded.
fn is_skipped(name: &str) -> bool {
    matches!(name, ".git" | "target" | "node_modules" | "__pycache__" | "venv" | ".venv")
}
