//! From what a user writes (a path, a folder, a pattern, a URL) to the files that make up a table.
//!
//! Names that begin with `.` or `_` are never part of a table: tools leave markers and half-written files under them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, FileKind};
use diligence_base::{Error, ErrorKind, Result};
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use super::lake::{lake_above, lake_at, may_tell_a_lake};
use super::options::{Compression, Format, OpenOptions};
use super::source::{Source, describe_io, wait};
use super::stores::{is_web, open_store, parse_url, store_error, url_prefix};

/// Files that one table may have: a listing is held in memory.
const FILES_MAX: usize = 1_000_000;

/// Folders inside folders that are looked through: more is a link that leads back.
const FOLDER_DEPTH_MAX: usize = 32;

/// The files of a table, and what they are.
pub(crate) struct Located {
    /// In the order of their names.
    pub sources: Vec<Arc<Source>>,
    /// Their common format.
    pub format: Format,
    /// The folder that partition folders (`key=value`) are relative to; empty for single files.
    pub base: String,
    /// The local folder that is the location, if it is one: new files can be put into it.
    pub folder: Option<PathBuf>,
    /// The local folders that were looked through: a new file in one of them may be the table's.
    pub folders: Vec<PathBuf>,
}

impl Located {
    /// The files of both. One that both name is read twice: a list of files is read as often as it names them.
    pub fn with(mut self, other: Self) -> Self {
        self.sources.extend(other.sources);
        // The folders of partitions are told by their names alone where there are several bases.
        if self.base != other.base {
            self.base = String::new();
        }
        self.folders.extend(other.folders);
        self.folder = None;
        self
    }
}

/// What is at a location, of any format.
struct Found {
    sources: Vec<Arc<Source>>,
    base: String,
    /// True if the location is one file and not a set of files.
    single: bool,
    folder: Option<PathBuf>,
    /// The local folders that were looked through.
    folders: Vec<PathBuf>,
    /// True if the folder is not there.
    is_missing: bool,
    /// A folder that is a table of a lake: not all of its files are rows of the table.
    lake: Option<(PathBuf, Format)>,
}

impl Found {
    fn one(source: Source) -> Self {
        Self {
            sources: vec![Arc::new(source)],
            base: String::new(),
            single: true,
            folder: None,
            folders: Vec::new(),
            is_missing: false,
            lake: None,
        }
    }

    fn many(sources: Vec<Arc<Source>>, base: &str) -> Self {
        Self {
            sources,
            base: base.trim_end_matches('/').to_owned(),
            single: false,
            folder: None,
            folders: Vec::new(),
            is_missing: false,
            lake: None,
        }
    }
}

/// Finds the files of a location and their format.
pub(crate) fn locate(location: &str, options: &OpenOptions, files: &Arc<dyn Disk>) -> Result<Located> {
    if location.trim().is_empty() {
        return Err(Error::input("a file's location is empty"));
    }
    let found = match parse_url(location)? {
        Some(url) if url.scheme() == "file" => {
            let path = url.to_file_path().map_err(|()| Error::input(format!("'{location}' names no local file")))?;
            find_local(&path, files)?
        }
        Some(url) => find_objects(location, url)?,
        None => find_local(Path::new(location), files)?,
    };
    if let Some((folder, format)) = &found.lake {
        let (folder, format) = (folder.display(), format.name());
        let what = format!("{folder} is a table of {format}, whose log says which of its files have its rows");
        return Err(Error::input(format!("{location}: {what}"))
            .with_hint("delta_scan('…') and iceberg_scan('…') read such a folder; single files may be named"));
    }
    if found.sources.is_empty() {
        // A folder may be empty, or not be there yet, if all that files would say is declared.
        if let (Some(format), Some(_), Some(folder)) = (options.format, &options.schema, found.folder) {
            let Found { base, folders, .. } = found;
            return Ok(Located { sources: Vec::new(), format, base, folder: Some(folder), folders });
        }
        if found.is_missing {
            return Err(Error::file(format!("{location}: there is no such folder")));
        }
        return Err(Error::file(format!("{location}: there is no file here")).with_hint(
            "hidden files and names that begin with '_' are left out; columns that are declared need no file",
        ));
    }
    choose(location, found, options)
}

/// Finds the objects of a location in a store that is already open.
pub(crate) fn locate_in_store(
    location: &str,
    options: &OpenOptions,
    store: Arc<dyn ObjectStore>,
    path: object_store::path::Path,
) -> Result<Located> {
    let text = location.to_owned();
    let prefix = text.strip_suffix(path.as_ref()).unwrap_or("").to_owned();
    let found = wait(async move { find_in_store(&text, &prefix, store, path, false).await })?;
    choose(location, found, options)
}

/// Keeps the files of one format.
fn choose(location: &str, found: Found, options: &OpenOptions) -> Result<Located> {
    let Found { sources, base, single, folder, folders, .. } = found;
    if single {
        let format = match options.format {
            Some(format) => format,
            None => format_of(&sources[0])?,
        };
        return Ok(Located { sources, format, base, folder, folders });
    }
    let named = sources.iter().map(|source| Format::of_name(&source.name).map(|(format, _)| format));
    let named = named.collect::<Vec<_>>();
    let format = match options.format {
        Some(format) => format,
        None => {
            let mut formats = named.iter().flatten().copied().collect::<Vec<_>>();
            formats.sort();
            formats.dedup();
            match formats.as_slice() {
                [format] => *format,
                [] => {
                    return Err(Error::file(format!("{location}: no file here has a name that shows its format"))
                        .with_hint(FORMAT_HINT));
                }
                [first, second, ..] => {
                    return Err(Error::file(format!(
                        "{location}: the files here have several formats ({} and {}); a table has one",
                        first.name(),
                        second.name()
                    ))
                    .with_hint(format!("name a pattern, for example '{}/*.parquet'", location.trim_end_matches('/'))));
                }
            }
        }
    };
    let kept = sources
        .iter()
        .zip(&named)
        .filter(|(_, named)| **named == Some(format))
        .map(|(source, _)| source.clone())
        .collect::<Vec<_>>();
    // With a format given, files whose names show none are meant.
    let kept = if kept.is_empty() && named.iter().all(Option::is_none) { sources } else { kept };
    if kept.is_empty() {
        return Err(Error::file(format!("{location}: no {} file is here", format.name())));
    }
    Ok(Located { sources: kept, format, base, folder, folders })
}

const FORMAT_HINT: &str = "names should end in .parquet, .csv, .tsv, .json, .jsonl or .arrow; or say it: \
                           read_csv('…'), read_json('…'), read_parquet('…'), or CREATE EXTERNAL TABLE … STORED AS CSV \
                           LOCATION '…'";

/// The format of one file, from its name or else its first bytes.
fn format_of(source: &Arc<Source>) -> Result<Format> {
    if let Some((format, _)) = Format::of_name(&source.name) {
        return Ok(format);
    }
    let first = source.read_one_now(0..source.bytes.min(64))?;
    Format::of_magic(&first)
        .ok_or_else(|| source.error("its format cannot be told from its name").with_hint(FORMAT_HINT))
}

/// The compression of one text file.
pub(crate) fn compression_of(source: &Arc<Source>, options: &OpenOptions) -> Result<Compression> {
    if let Some(compression) = options.compression {
        return Ok(compression);
    }
    // The first bytes decide, not the name: a web server may have unpacked `a.csv.gz`, and a `.csv` may be packed.
    let first = source.read_one_now(0..source.bytes.min(8))?;
    Ok(Compression::of_magic(&first))
}

fn find_local(path: &Path, files: &Arc<dyn Disk>) -> Result<Found> {
    let text = path.to_string_lossy();
    if text == "-" {
        return find_local(Path::new("/dev/stdin"), files);
    }
    let is_pipe = match files.meta(path) {
        Ok(meta) => meta.kind == FileKind::Other,
        Err(error) => error.kind() == std::io::ErrorKind::InvalidInput,
    };
    if is_pipe {
        let bytes = files.read_pipe(path).map_err(|error| Error::file(format!("{text}: {}", describe_io(&error))))?;
        return Ok(Found::one(Source::held(text.into_owned(), bytes)));
    }
    if files.is_folder(path) {
        let mut tree = Tree::default();
        walk(path, files, 0, &mut tree)?;
        let lake = tree.lakes.pop().or_else(|| lake_above(path, files));
        let found = Found::many(open_all(tree.files, files)?, &text);
        return Ok(Found { folder: Some(path.to_owned()), folders: tree.folders, lake, ..found });
    }
    match files.meta(path) {
        Ok(meta) => return Ok(Found::one(Source::local(meta, files.clone()))),
        Err(_) if text.ends_with('/') && !is_pattern(&text) => {
            let nothing = Found::many(Vec::new(), &text);
            return Ok(Found { folder: Some(path.to_owned()), is_missing: true, ..nothing });
        }
        Err(error) if !is_pattern(&text) => {
            return Err(Error::file(format!("{text}: {}", describe_io(&error))));
        }
        Err(_) => {}
    }
    let pattern = glob::Pattern::new(&text)
        .map_err(|error| Error::input(format!("'{text}' is no pattern of file names: {error}")))?;
    let base = pattern_base(&text);
    let root = if base.is_empty() { Path::new(".") } else { Path::new(&base) };
    if !files.is_folder(root) {
        return Err(Error::file(format!("{}: there is no such folder", root.display())));
    }
    let mut tree = Tree::default();
    walk(root, files, 0, &mut tree)?;
    tree.files.retain(|path| {
        let path = path.strip_prefix("./").unwrap_or(path);
        pattern.matches_path_with(path, MATCHING)
    });
    if tree.files.is_empty() {
        return Err(Error::file(format!("{text}: no file matches this pattern")));
    }
    tree.lakes.retain(|(folder, _)| tree.files.iter().any(|file| file.starts_with(folder)));
    let lake = tree.lakes.pop().or_else(|| lake_above(root, files));
    if base.is_empty() {
        // Messages and columns have the names as they are written: without the folder that was looked through.
        tree.files.iter_mut().for_each(|path| *path = path.strip_prefix(root).unwrap_or(path).to_owned());
    }
    let found = Found::many(open_all(tree.files, files)?, &root.to_string_lossy());
    Ok(Found { folders: tree.folders, lake, ..found })
}

const MATCHING: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The folder above the first part of a path that has a wildcard.
fn pattern_base(text: &str) -> String {
    let end = text.find(['*', '?', '[']).unwrap_or(text.len());
    match text[..end].rfind('/') {
        Some(0) => "/".to_owned(),
        Some(slash) => text[..slash].to_owned(),
        None => String::new(),
    }
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.starts_with('_')
}

/// The files that a path, a folder or a pattern names, sorted by name; none if there is nothing. Fails with kind `File`
/// if a folder cannot be read, `Input` if it is no pattern.
pub fn matching_files(location: &str, files: &Arc<dyn Disk>) -> Result<Vec<String>> {
    let found = match parse_url(location)? {
        Some(url) if url.scheme() != "file" => find_objects(location, url)?,
        Some(url) => {
            let path = url.to_file_path().map_err(|()| Error::input(format!("'{location}' names no local file")))?;
            find_local(&path, files)?
        }
        None => match find_local(Path::new(location), files) {
            // Nothing is no mistake here.
            Err(error) if error.kind() == ErrorKind::File => return Ok(Vec::new()),
            found => found?,
        },
    };
    let mut names = found.sources.iter().map(|source| source.name.clone()).collect::<Vec<_>>();
    for name in &mut names {
        if !location.starts_with("./")
            && let Some(short) = name.strip_prefix("./")
        {
            *name = short.to_owned();
        }
    }
    names.sort();
    Ok(names)
}

/// What is in a folder and in the folders in it.
#[derive(Default)]
struct Tree {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    /// Those that are tables of lakes.
    lakes: Vec<(PathBuf, Format)>,
}

fn walk(folder: &Path, files: &Arc<dyn Disk>, depth: usize, found: &mut Tree) -> Result<()> {
    if depth > FOLDER_DEPTH_MAX {
        return Err(Error::file(format!(
            "{}: folders are nested deeper than {FOLDER_DEPTH_MAX}; a link may lead back",
            folder.display()
        )));
    }
    found.folders.push(folder.to_owned());
    let entries =
        files.list(folder).map_err(|error| Error::file(format!("{}: {}", folder.display(), describe_io(&error))))?;
    if entries.iter().any(|entry| may_tell_a_lake(entry))
        && let Some(lake) = lake_at(folder, files)
    {
        found.lakes.push((folder.to_owned(), lake));
    }
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if is_hidden(&name) {
            continue;
        }
        if files.is_folder(&entry) {
            walk(&entry, files, depth + 1, found)?;
        } else if found.files.len() < FILES_MAX {
            found.files.push(entry);
        } else {
            return Err(Error::resource(format!("a table has at most {FILES_MAX} files")));
        }
    }
    Ok(())
}

fn open_all(paths: Vec<PathBuf>, files: &Arc<dyn Disk>) -> Result<Vec<Arc<Source>>> {
    paths
        .into_iter()
        .map(|path| {
            let meta = files
                .meta(&path)
                .map_err(|error| Error::file(format!("{}: {}", path.display(), describe_io(&error))))?;
            Ok(Arc::new(Source::local(meta, files.clone())))
        })
        .collect()
}

fn find_objects(location: &str, url: Url) -> Result<Found> {
    let owned = location.to_owned();
    let (store, path) = open_store(location, &url)?;
    let prefix = url_prefix(&url, &path);
    wait(async move { find_in_store(&owned, &prefix, store, path, is_web(&url)).await })
}

/// The objects at a path of a store: one object, all below a folder, or those that match a pattern.
async fn find_in_store(
    location: &str,
    prefix: &str,
    store: Arc<dyn ObjectStore>,
    path: object_store::path::Path,
    web: bool,
) -> Result<Found> {
    let named = |path: &object_store::path::Path| format!("{prefix}{path}");
    let folder = location.ends_with('/');
    let text = path.to_string();
    let text = percent_decoded(&text);
    if !folder && !is_pattern(&text) {
        match store.head(&path).await {
            Ok(meta) => {
                return Ok(Found::one(Source::object(named(&meta.location), meta, store)));
            }
            // It may be a folder, which stores know only by what is in it.
            Err(object_store::Error::NotFound { .. }) if !web => {}
            Err(error) => return Err(store_error(location, &error)),
        }
    }
    let (base, pattern) = if is_pattern(&text) {
        let pattern = glob::Pattern::new(&text)
            .map_err(|error| Error::input(format!("'{location}' is no pattern of object names: {error}")))?;
        (object_store::path::Path::from(pattern_base(&text)), Some(pattern))
    } else {
        (path, None)
    };
    let mut listing = store.list(Some(&base));
    let mut metas = Vec::new();
    let refused = |error: object_store::Error| {
        if web {
            return Error::file(format!("{location}: this server does not tell which files it has"))
                .with_hint("name the files one by one, and join them with UNION ALL");
        }
        store_error(location, &error)
    };
    while let Some(meta) = listing.try_next().await.map_err(refused)? {
        let below = meta.location.as_ref().strip_prefix(base.as_ref()).unwrap_or(meta.location.as_ref());
        let hidden = below.split('/').any(is_hidden);
        let fits = pattern.as_ref().is_none_or(|pattern| pattern.matches_with(meta.location.as_ref(), MATCHING));
        if hidden || !fits || meta.size == 0 && meta.location.as_ref().ends_with('/') {
            continue;
        }
        if metas.len() == FILES_MAX {
            return Err(Error::resource(format!("a table has at most {FILES_MAX} files")));
        }
        metas.push(meta);
    }
    drop(listing);
    if metas.is_empty() {
        return Err(Error::file(format!("{location}: there is no such object, and none below it")));
    }
    metas.sort_by(|a, b| a.location.cmp(&b.location));
    let sources =
        metas.into_iter().map(|meta| Arc::new(Source::object(named(&meta.location), meta, store.clone()))).collect();
    Ok(Found::many(sources, &format!("{prefix}{base}")))
}

/// Wildcards that URL parsing escaped.
fn percent_decoded(text: &str) -> String {
    text.replace("%2A", "*").replace("%3F", "?").replace("%5B", "[").replace("%5D", "]")
}

/// What is in a folder.
#[derive(Debug, Default)]
pub struct Discovered {
    /// Every file and folder that can be a table: (name, location), sorted by name. A name is the stem of the file's or
    /// the folder's name; where two are equal, the lesser format's name gets the format appended (`a_csv`).
    pub tables: Vec<(String, String)>,
    /// The folders that are no table: (name, why).
    pub left_out: Vec<(String, String)>,
}

/// Lists what in a folder can be a table. Nothing is opened: whether a file is what its name says shows when the table
/// is used. Fails if the folder, or one in it, cannot be listed.
pub fn discover(folder: &Path, files: &Arc<dyn Disk>) -> Result<Discovered> {
    if lake_at(folder, files).is_some() {
        let path = files.resolve(folder).unwrap_or_else(|_| folder.to_owned());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tables = vec![(name, folder.to_string_lossy().into_owned())];
        return Ok(Discovered { tables, left_out: Vec::new() });
    }
    let entries =
        files.list(folder).map_err(|error| Error::file(format!("{}: {}", folder.display(), describe_io(&error))))?;
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_hidden(&name) {
            continue;
        }
        if files.is_folder(&entry) {
            let mut inside = Tree::default();
            walk(&entry, files, 0, &mut inside)?;
            match inside.lakes.first() {
                Some((folder, format)) if *folder == entry => {
                    found.push((name, *format, entry));
                    continue;
                }
                Some((folder, format)) => {
                    let below = folder.strip_prefix(&entry).unwrap_or(folder).display();
                    left_out.push((name, format!("'{below}' in it is a table of {}", format.name())));
                    continue;
                }
                None => {}
            }
            let named = inside.files.iter().filter_map(|path| Format::of_name(&path.to_string_lossy()));
            let mut formats = named.map(|(format, _)| format).collect::<Vec<_>>();
            formats.sort();
            formats.dedup();
            match formats.as_slice() {
                [format] => {
                    // A folder `t.parquet` of part files is the table `t`, as other engines write it.
                    let stem = if Format::of_name(&name).is_some() { stem_of(&name) } else { name.clone() };
                    found.push((stem, *format, entry));
                }
                [] => left_out.push((name, "no file in it has a name that shows its format".to_owned())),
                [first, second, ..] => {
                    let both = format!("{} and {}", first.name(), second.name());
                    left_out.push((name, format!("its files have several formats ({both}); a table has one")));
                }
            }
        } else if let Some((format, _)) = Format::of_name(&name) {
            found.push((stem_of(&name), format, entry));
        }
    }
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut tables: Vec<(String, String)> = Vec::with_capacity(found.len());
    for (stem, format, path) in found {
        let taken = |name: &str| tables.iter().any(|(other, _)| other == name);
        let mut name = stem.clone();
        if taken(&name) {
            name = format!("{stem}_{}", format.short_name());
        }
        let mut number = 2;
        while taken(&name) {
            name = format!("{stem}_{}_{number}", format.short_name());
            number += 1;
        }
        tables.push((name, path.to_string_lossy().into_owned()));
    }
    tables.sort();
    Ok(Discovered { tables, left_out })
}

/// The name without the endings that show format and compression.
fn stem_of(name: &str) -> String {
    let packed = Format::of_name(name).is_some_and(|(_, compression)| compression != Compression::Plain);
    let inner = if packed { name.rsplit_once('.').map_or(name, |(inner, _)| inner) } else { name };
    inner.rsplit_once('.').map_or(inner, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use diligence_base::seams::LocalDisk;
    use object_store::PutPayload;
    use object_store::memory::InMemory;

    use super::*;
    use crate::external::testing::{all, open_path, read_all};
    use crate::external::{ExternalTable, open, open_in_store};
    use crate::{ScanRequest, Table};

    fn rows(table: &ExternalTable) -> usize {
        read_all(table, &ScanRequest { columns: all(table), predicate: None }, &[], 1000, true).num_rows()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a.csv", "x,y\n1,2\n"),
            ("a.json", "{\"x\":1}\n"),
            ("notes.txt", "hello"),
            (".hidden.csv", "x\n1\n"),
            ("parts/1.csv", "x\n1\n2\n"),
            ("parts/deep/2.csv", "x\n3\n"),
            ("parts/_tmp/3.csv", "x\n4\n"),
            ("mixed/1.csv", "x\n1\n"),
            ("mixed/2.json", "{}"),
            ("empty/readme.txt", ""),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn open_text(location: String) -> Result<Arc<ExternalTable>> {
        open(&location, &OpenOptions::default(), Arc::new(LocalDisk))
    }

    #[test]
    fn folders_patterns_and_urls_are_found() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        assert_eq!(rows(&open_text(path("parts")).unwrap()), 3);
        assert_eq!(rows(&open_text(path("parts/*.csv")).unwrap()), 2);
        assert_eq!(rows(&open_text(path("parts/**/*.csv")).unwrap()), 3);
        assert_eq!(rows(&open_text(path("mixed/*.csv")).unwrap()), 1);
        assert_eq!(rows(&open_text(format!("file://{}", path("a.csv"))).unwrap()), 1);
        let csv = OpenOptions { format: Some(Format::Csv), ..OpenOptions::default() };
        assert_eq!(rows(&open(&path("mixed"), &csv, Arc::new(LocalDisk)).unwrap()), 1);
        for (location, message) in [
            ("nothing.csv", "there is no such file"),
            ("parts/*.parquet", "no file matches"),
            ("nowhere/*.csv", "there is no such folder"),
            ("mixed", "several formats (CSV and JSON)"),
            ("empty", "no file here has a name that shows its format"),
            ("notes.txt", "its format cannot be told from its name"),
        ] {
            let error = open_text(path(location)).unwrap_err();
            assert!(error.message().contains(message), "{error}");
            assert_eq!(error.kind(), ErrorKind::File);
        }
        assert_eq!(open_text("ftp://x/y.csv".to_owned()).unwrap_err().kind(), ErrorKind::Input);
        assert!(open_path(&folder.path().join("a.csv")).unwrap().describe().starts_with("CSV "));
    }

    #[test]
    fn what_can_be_a_table_is_discovered() {
        let folder = folder();
        let files: Arc<dyn Disk> = Arc::new(LocalDisk);
        let Discovered { tables, left_out } = discover(folder.path(), &files).unwrap();
        let left_out = left_out.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        assert_eq!(left_out, ["empty", "mixed"]);
        let names = tables.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["a", "a_json", "parts"]);
        assert!(tables[0].1.ends_with("a.csv") && tables[1].1.ends_with("a.json"));
        assert_eq!(stem_of("orders.csv.gz"), "orders");
        assert_eq!(stem_of("a.b.parquet"), "a.b");
    }

    fn put(store: &Arc<dyn ObjectStore>, path: &str, bytes: Vec<u8>) {
        let (store, path) = (store.clone(), object_store::path::Path::from(path));
        wait(async move {
            store.put(&path, PutPayload::from(bytes)).await.map(drop).map_err(|error| Error::bug(error.to_string()))
        })
        .unwrap();
    }

    #[test]
    fn objects_are_read() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        put(&store, "data/1.parquet", bytes.clone());
        put(&store, "data/sub/2.parquet", bytes.clone());
        put(&store, "data/_tmp/3.parquet", bytes.clone());
        put(&store, "text/a.csv", b"x\n1\n2\n".to_vec());
        put(&store, "text/a.csv.gz", b"not packed".to_vec());
        let open =
            |path: &str| open_in_store(&format!("mem://bucket/{path}"), store.clone(), path, &OpenOptions::default());
        let one = open("data/1.parquet").unwrap();
        assert_eq!(one.file_names().collect::<Vec<_>>(), ["mem://bucket/data/1.parquet"]);
        assert_eq!(rows(&one), 5000);
        assert_eq!(rows(&open("data/").unwrap()), 10_000);
        assert_eq!(rows(&open("data/*.parquet").unwrap()), 5000);
        assert_eq!(rows(&open("data/**/*.parquet").unwrap()), 10_000);
        assert_eq!(rows(&open("text/a.csv").unwrap()), 2);
        assert!(open("nothing/").unwrap_err().message().contains("there is no such object"));
        put(&store, "data/1.parquet", bytes[..bytes.len() - 1].to_vec());
        assert_ne!(open("data/").map(|table| table.version()).ok(), Some(one.version()));
        let request = ScanRequest { columns: vec![0], predicate: None };
        let error = crate::external::testing::try_read_all(&one, &request, &[], 100, true);
        // The bytes that are read are still there; what matters is that nothing else comes.
        assert!(error.is_ok_and(|read| read.num_rows() == 5000));
    }
}
