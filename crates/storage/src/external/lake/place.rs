//! Where a lake's table lies: a local folder, or a prefix in an object store.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use diligence_base::seams::{Disk, FileKind};
use diligence_base::{Error, Result};
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::{LOG_FILE_BYTES_MAX, unsupported};
use crate::external::options::Format;
use crate::external::source::{Source, describe_io, wait};
use crate::external::stores::{is_web, open_store, parse_url, store_error, url_prefix};

/// A folder with a table.
pub(super) struct Place {
    /// What messages call it.
    pub name: String,
    kind: PlaceKind,
    /// Where the table's own metadata say that it lies, without the last slash: it may have been moved since.
    pub told: Option<String>,
}

enum PlaceKind {
    Local { root: PathBuf, disk: Arc<dyn Disk> },
    Store { store: Arc<dyn ObjectStore>, root: object_store::path::Path, prefix: String },
}

/// A file of a folder.
pub(super) struct Entry {
    pub name: String,
    /// When it was last changed, in microseconds since 1970.
    pub modified: Option<i64>,
}

impl Place {
    pub fn local(root: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { name: root.to_string_lossy().into_owned(), kind: PlaceKind::Local { root, disk }, told: None }
    }

    /// The folder at a location; `None` if it is a file, or cannot have a table of a lake. What `is_asked` for is taken
    /// for a folder.
    pub fn open(location: &str, disk: &Arc<dyn Disk>, is_asked: bool) -> Result<Option<Self>> {
        let local = |path: PathBuf| {
            let is_folder = disk.is_folder(&path);
            if !is_folder && is_asked {
                return Err(Error::file(format!("{location}: there is no such folder")));
            }
            Ok(is_folder.then(|| Self { name: location.to_owned(), ..Self::local(path, disk.clone()) }))
        };
        let url = match parse_url(location)? {
            None => return local(PathBuf::from(location)),
            Some(url) if url.scheme() == "file" => {
                let path = url.to_file_path();
                return local(path.map_err(|()| Error::input(format!("'{location}' names no local file")))?);
            }
            Some(url) => url,
        };
        if is_web(&url) {
            return match is_asked {
                true => Err(unsupported(location, "a table of a lake on a web server, which lists no files,")),
                false => Ok(None),
            };
        }
        // A file's name shows its format.
        if !is_asked && !location.ends_with('/') && Format::of_name(location).is_some() {
            return Ok(None);
        }
        let (store, root) = open_store(location, &url)?;
        let prefix = url_prefix(&url, &root);
        Ok(Some(Self { name: location.to_owned(), kind: PlaceKind::Store { store, root, prefix }, told: None }))
    }

    /// The local folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            PlaceKind::Local { root, .. } => Some(root),
            PlaceKind::Store { .. } => None,
        }
    }

    /// The files that lie directly in a folder, sorted by name; none if there is no such folder.
    pub fn list(&self, below: &str) -> Result<Vec<Entry>> {
        match &self.kind {
            PlaceKind::Local { root, disk } => {
                let folder = root.join(below);
                if !disk.is_folder(&folder) {
                    return Ok(Vec::new());
                }
                let failed = |error| Error::file(format!("{}: {}", folder.display(), describe_io(&error)));
                let paths = disk.list(&folder).map_err(failed)?;
                let names = paths.iter().filter_map(|path| path.file_name());
                Ok(names.map(|name| Entry { name: name.to_string_lossy().into_owned(), modified: None }).collect())
            }
            PlaceKind::Store { store, root, .. } => {
                let (store, folder) = (store.clone(), root.clone().join(below));
                let name = format!("{}/{below}", self.name.trim_end_matches('/'));
                wait(async move {
                    let metas: Vec<ObjectMeta> =
                        store.list(Some(&folder)).try_collect().await.map_err(|error| store_error(&name, &error))?;
                    let mut entries = Vec::with_capacity(metas.len());
                    for meta in metas {
                        let below = meta.location.as_ref().strip_prefix(folder.as_ref()).unwrap_or_default();
                        let name = below.trim_start_matches('/');
                        if !name.is_empty() && !name.contains('/') {
                            let modified = Some(meta.last_modified.timestamp_micros());
                            entries.push(Entry { name: name.to_owned(), modified });
                        }
                    }
                    entries.sort_by(|a, b| a.name.cmp(&b.name));
                    Ok(entries)
                })
            }
        }
    }

    /// A number that differs when the names in a folder do.
    pub fn names_in(&self, below: &str) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.list(below)?.iter().for_each(|entry| entry.name.hash(&mut hasher));
        Ok(hasher.finish())
    }

    /// When a file was last changed, in microseconds since 1970; `None` if that is not known.
    pub fn modified(&self, path: &str) -> Option<i64> {
        match &self.kind {
            PlaceKind::Local { root, disk } => {
                let meta = disk.meta(&root.join(path)).ok()?;
                i64::try_from(meta.modified.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
            }
            PlaceKind::Store { .. } => None,
        }
    }

    /// A path as it is below the table's folder: absolute ones may be where the table was before it was moved.
    fn below<'a>(&self, path: &'a str) -> &'a str {
        let told = self.told.as_deref().filter(|told| !told.is_empty());
        match told.and_then(|told| path.strip_prefix(told)).and_then(|rest| rest.strip_prefix('/')) {
            Some(below) => below,
            None => path,
        }
    }

    /// A file by its path in the table's folder, or by an absolute one; its length, if it is known already.
    pub fn source(&self, path: &str, bytes: Option<u64>) -> Result<Arc<Source>> {
        let path = self.below(path);
        match &self.kind {
            PlaceKind::Local { root, disk } => {
                let path = match path.split_once(":/") {
                    Some(("file", rest)) => PathBuf::from(format!("/{}", rest.trim_start_matches('/'))),
                    Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                        let what = format!("a file in another place than the table's folder ('{path}')");
                        return Err(unsupported(&self.name, what));
                    }
                    _ => root.join(path),
                };
                let failed = |error| Error::file(format!("{}: {}", path.display(), describe_io(&error)));
                let meta = disk.meta(&path).map_err(failed)?;
                if meta.kind != FileKind::File {
                    return Err(Error::file(format!("{}: this is no file", path.display())));
                }
                Ok(Arc::new(Source::local(meta, disk.clone())))
            }
            PlaceKind::Store { store, root, prefix } => {
                let object = match path.strip_prefix(prefix.as_str()) {
                    Some(path) => object_store::path::Path::from(path),
                    None if path.contains("://") => {
                        let what = format!("a file in another store than the table ('{path}')");
                        return Err(unsupported(&self.name, what));
                    }
                    None => {
                        let parts = path.split('/').filter(|part| !part.is_empty());
                        parts.fold(root.clone(), |path, part| path.join(part))
                    }
                };
                let name = format!("{prefix}{object}");
                let meta = match bytes {
                    Some(size) => {
                        let last_modified = Default::default();
                        ObjectMeta { location: object, last_modified, size, e_tag: None, version: None }
                    }
                    None => {
                        let (store, name) = (store.clone(), name.clone());
                        wait(async move { store.head(&object).await.map_err(|error| store_error(&name, &error)) })?
                    }
                };
                Ok(Arc::new(Source::object(name, meta, store.clone())))
            }
        }
    }

    /// A whole file of the log or the metadata.
    pub fn read(&self, path: &str) -> Result<(Arc<Source>, Bytes)> {
        let source = self.source(path, None)?;
        if source.bytes > LOG_FILE_BYTES_MAX {
            let what = format!("it has {} bytes; of a log, files of {LOG_FILE_BYTES_MAX} are read", source.bytes);
            return Err(Error::resource(format!("{}: {what} at most", source.name)));
        }
        let bytes = source.read_one_now(0..source.bytes)?;
        Ok((source, bytes))
    }
}
