//! The repository as a value: every check looks at one, and tests make up small ones.

use std::io;
use std::path::Path;

use crate::files::Files;
use crate::packages::{Package, packages};

/// The repository.
pub struct House {
    /// Its files.
    pub files: Files,
    /// The packages of its workspace, by folder.
    pub packages: Vec<Package>,
}

impl House {
    /// Reads the repository at `root`.
    ///
    /// Fails if a folder or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<House> {
        Files::read(root).map(House::from)
    }

    /// A made-up repository of files with these paths and texts.
    pub fn of(files: &[(&str, &str)]) -> House {
        House::from(Files::of(files))
    }
}

impl From<Files> for House {
    fn from(files: Files) -> House {
        let packages = packages(&files);
        House { files, packages }
    }
}
