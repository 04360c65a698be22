//! Rows that go into files: COPY … TO, and INSERT into a folder.
//!
//! DataFusion's writers write. They believe to write to a store of objects of the statement's own, `copy://…<number>/`;
//! behind it is a staging folder beside the target, or the store that the target is in. So nothing takes the target's
//! place before all rows are written, nothing is left of a statement that fails, and what the file system answers is
//! known: the writers forget it.
//!
//! `options` reads what COPY says about the format, `plan` is what the writers are asked for, `store` is what they
//! write to, `local` what is behind it for local files.

mod local;
mod options;
pub(crate) mod parquet;
pub(crate) mod plan;
mod store;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::sql::parser::CopyToStatement;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::FileRelation;
use diligence_storage::external::{Compression, ExternalTable, Format, Staging, StagingGuard, open_store, store_error};
use object_store::ObjectStore;
use url::Url;

use local::StagingStore;
use options::{format_of, set_options, take_format};
use store::{Failure, WriterStore};

/// What a single file is called before it has its name.
const STAGED_NAME: &str = "rows";

/// Where the rows of a statement go.
#[derive(Debug)]
pub struct FileTarget {
    /// As the statement names it, or where the table is.
    name: String,
    /// What is written.
    pub(crate) format: Format,
    /// Whether all rows go into one file.
    pub(crate) single: bool,
    place: Place,
    store: Registered,
    failure: Failure,
}

#[derive(Debug)]
enum Place {
    /// One local file.
    File { staging: Staging, path: PathBuf },
    /// Files in a local folder.
    Folder(Staging),
    /// Files of a table; with `replace`, in the place of all that it has.
    Table { staging: Staging, relation: Arc<FileRelation>, replace: bool },
    /// Objects of a store: they appear when they are complete.
    Objects(Arc<dyn ObjectStore>),
}

/// A name for a store in the surroundings of DataFusion's operators, as long as this lives.
struct Registered {
    runtime: Arc<RuntimeEnv>,
    url: Url,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({})", self.url)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // It is not there if the statement was only explained.
        let _ = self.runtime.deregister_object_store(&self.url);
    }
}

/// What the URLs of statements' own stores begin with, before their numbers: of folders of this machine, and of other
/// stores.
const LOCAL_URL: &str = "copy://local-";
const REMOTE_URL: &str = "copy://remote-";

/// Whether a statement's own store is a folder of this machine.
fn is_local(store: &ObjectStoreUrl) -> bool {
    store.as_str().starts_with(LOCAL_URL)
}

/// The number of a statement's own store.
fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl FileTarget {
    /// What a COPY names. The statement then names our store instead, and says the format and how it is written.
    pub(crate) fn of_copy(copy: &mut CopyToStatement, runtime: Arc<RuntimeEnv>) -> Result<Self> {
        let name = copy.target.clone();
        take_format(copy);
        let (format, compression) = format_of(copy)?;
        set_options(copy, format, compression)?;
        copy.stored_as = Some(format.name().to_ascii_lowercase());

        let has_ending = Path::new(&name).extension().is_some();
        let mut single = copy.partitioned_by.is_empty() && has_ending && !name.ends_with('/');
        let number = next_number();
        let mut written = STAGED_NAME.to_owned();
        let place = match remote(&name)? {
            Some(url) => {
                let (store, path) = open_store(&name, &url)?;
                written = path.to_string();
                Place::Objects(store)
            }
            None => {
                let path = local(&name)?;
                single &= !path.is_dir();
                if single {
                    if path.exists() && !path.is_file() {
                        return Err(Error::file(format!("{name}: this is no regular file, and is not replaced")));
                    }
                    let folder = path.parent().unwrap_or(Path::new("."));
                    Place::File { staging: Staging::new(folder, String::new())?, path }
                } else {
                    Place::Folder(Staging::new(&path, format.ending(compression))?)
                }
            }
        };
        let url = match (&place, single) {
            (Place::Folder(_) | Place::Table { .. }, _) => format!("{LOCAL_URL}{number}/"),
            (Place::File { .. }, _) => format!("{LOCAL_URL}{number}/{written}"),
            (Place::Objects(_), true) => format!("{REMOTE_URL}{number}/{written}"),
            (Place::Objects(_), false) => format!("{REMOTE_URL}{number}/{}/", written.trim_end_matches('/')),
        };
        copy.target.clone_from(&url);
        let url = Url::parse(&url).map_err(|error| Error::input(format!("'{name}' cannot be written to: {error}")))?;
        Ok(Self { name, format, single, place, store: Registered { runtime, url }, failure: Failure::default() })
    }

    /// A folder of files that takes the rows of an INSERT.
    pub(crate) fn of_insert(
        table: &ExternalTable,
        relation: Arc<FileRelation>,
        replace: bool,
        runtime: Arc<RuntimeEnv>,
    ) -> Result<Self> {
        let staging = table.begin_insert(relation.options.compression.unwrap_or(Compression::Plain))?;
        let single = table.partition_columns().is_empty();
        let written = if single { STAGED_NAME } else { "" };
        let url = format!("{LOCAL_URL}{}/{written}", next_number());
        let url = Url::parse(&url).map_err(|error| Error::bug(format!("{url}: {error}")))?;
        let name = relation.location.clone();
        let place = Place::Table { staging, relation, replace };
        let store = Registered { runtime, url };
        Ok(Self { name, format: table.format(), single, place, store, failure: Failure::default() })
    }

    /// What the writers are told to write to.
    pub(crate) fn url(&self) -> &Url {
        &self.store.url
    }

    /// What the statement is called when it is done.
    pub fn tag(&self) -> &'static str {
        match self.place {
            Place::Table { .. } => "INSERT",
            Place::File { .. } | Place::Folder(_) | Place::Objects(_) => "COPY",
        }
    }

    /// Makes room, before the query that writes starts.
    pub fn begin(&self) -> Result<()> {
        let (store, guard): (Arc<dyn ObjectStore>, Option<StagingGuard>) = match &self.place {
            Place::Objects(store) => (store.clone(), None),
            Place::File { staging, .. } | Place::Folder(staging) | Place::Table { staging, .. } => {
                staging.make().map_err(|error| self.unwritable(&error))?;
                let store = StagingStore::new(staging.path()).map_err(|error| self.unwritable(&error))?;
                (Arc::new(store), Some(staging.guard()))
            }
        };
        let store = WriterStore::new(store, self.failure.clone(), guard);
        self.store.runtime.register_object_store(&self.store.url, Arc::new(store));
        Ok(())
    }

    /// Puts what was written where it belongs; `rows` is how many.
    pub fn commit(self, rows: u64) -> Result<()> {
        let name = self.name;
        match self.place {
            Place::File { staging, path } => {
                staging.commit_as(STAGED_NAME, &path).map_err(|error| unwritable(&name, &error))
            }
            Place::Folder(staging) => staging.commit(&[]),
            // Of no rows, no file is left; only OVERWRITE has something to do.
            Place::Table { staging, relation, replace } if rows > 0 || replace => relation.add(staging, replace),
            Place::Table { .. } | Place::Objects(_) => Ok(()),
        }
    }

    /// An error of the query that writes: the store's own, if that is why.
    pub fn blame(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Cancelled {
            return error;
        }
        match (self.failure.take(), &self.place) {
            (Some(failure), Place::Objects(_)) => store_error(&self.name, &failure).context("it cannot be written"),
            (Some(failure), _) => self.unwritable(&failure),
            (None, _) => error,
        }
    }

    fn unwritable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        unwritable(&self.name, error)
    }
}

/// The error of the system behind an error, if there is one: the ones around it repeat paths that the user did not
/// write.
fn unwritable(name: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Error::file(format!("{name}: it cannot be written: {cause}"))
}

/// The URL of a target that is in no local file system.
fn remote(name: &str) -> Result<Option<Url>> {
    match name.split_once("://") {
        None | Some(("file", _)) => Ok(None),
        Some(_) => Url::parse(name).map(Some).map_err(|error| Error::input(format!("'{name}' is no URL: {error}"))),
    }
}

fn local(name: &str) -> Result<PathBuf> {
    if !name.starts_with("file://") {
        return Ok(PathBuf::from(name));
    }
    let url = Url::parse(name).map_err(|error| Error::input(format!("'{name}' is no URL: {error}")))?;
    url.to_file_path().map_err(|()| Error::input(format!("'{name}' names no local file")))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement as Parsed;

    use super::options::text_of;
    use super::*;
    use crate::parse::parse_one;

    fn planned(sql: &str) -> Result<(CopyToStatement, FileTarget)> {
        let Parsed::CopyTo(mut copy) = parse_one(sql, "generic")?.statement else { panic!("{sql}") };
        let target = FileTarget::of_copy(&mut copy, Arc::new(RuntimeEnv::default()))?;
        Ok((copy, target))
    }

    fn option(copy: &CopyToStatement, name: &str) -> Option<String> {
        copy.options.iter().find(|(key, _)| key == name).map(|(_, value)| text_of(value))
    }

    #[test]
    fn names_show_what_is_written() {
        for (name, format, compression, delimiter) in [
            ("a.csv", Format::Csv, "uncompressed", None),
            ("a.csv.gz", Format::Csv, "gzip", None),
            ("a.tsv.zst", Format::Csv, "zstd", Some("\t")),
            ("a.psv", Format::Csv, "uncompressed", Some("|")),
            ("A.JSONL.XZ", Format::Json, "xz", None),
            ("a.ndjson", Format::Json, "uncompressed", None),
        ] {
            let (copy, target) = planned(&format!("COPY t TO '{name}'")).unwrap();
            assert_eq!((target.format, target.single), (format, true), "{name}");
            assert_eq!(option(&copy, "compression").as_deref(), Some(compression), "{name}");
            assert_eq!(option(&copy, "delimiter").as_deref(), delimiter, "{name}");
        }
        assert_eq!(planned("COPY t TO 'a.feather'").unwrap().1.format, Format::Arrow);
        assert_eq!(planned("COPY t TO 'a.csv' STORED AS PARQUET").unwrap().1.format, Format::Parquet);
        assert!(!planned("COPY t TO 'out/' STORED AS CSV").unwrap().1.single);
        for wrong in ["a.txt", "out/", "a.parquet.gz"] {
            let error = planned(&format!("COPY t TO '{wrong}'")).unwrap_err();
            assert!(error.message().contains(wrong) && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn options_have_the_names_that_reading_has() {
        let (copy, _) =
            planned("COPY t TO 'a.csv' OPTIONS (header 'false', 'format.sep' '\\t', compression 'gzip')").unwrap();
        assert_eq!(option(&copy, "has_header").as_deref(), Some("false"));
        assert_eq!(option(&copy, "delimiter").as_deref(), Some("\t"));
        assert_eq!(option(&copy, "compression").as_deref(), Some("gzip"));
        for options in ["(FORMAT parquet)", "with (format 'parquet')", "OPTIONS (format parquet)"] {
            let (_, target) = planned(&format!("copy (select 1) TO 'a.dat' {options}")).unwrap();
            assert_eq!(target.format, Format::Parquet, "{options}");
        }
        let (copy, _) = planned("COPY t TO 'a.csv' (FORMAT csv, DELIMITER '|', HEADER true);").unwrap();
        assert_eq!(option(&copy, "delimiter").as_deref(), Some("|"));
        assert_eq!(option(&copy, "has_header").as_deref(), Some("true"));
        let error = planned("COPY t TO 'a.csv' OPTIONS (delimitr ';')").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean 'delimiter'?"));
    }

    #[test]
    fn a_target_that_cannot_be_written_is_known_at_once() {
        let (_, target) = planned("COPY t TO '/proc/nothing/x.csv'").unwrap();
        let error = target.begin().unwrap_err();
        assert!(error.message().starts_with("/proc/nothing/x.csv: it cannot be written: "), "{error}");
        assert!(planned("COPY t TO '/dev/null' STORED AS CSV").is_ok(), "without an ending it is a folder's name");
    }
}
