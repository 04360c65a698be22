//! COPY … TO: which format, where the rows go, and what went wrong there.
//!
//! DataFusion's writers write. They believe to write to a store of objects of the statement's own, `copy://<number>/`; behind it
//! is a staging folder beside the target, or the store that the target is in. So nothing takes the target's place before all
//! rows are written, nothing is left of a COPY that fails, and what the file system answers is known: the writers forget it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::sql::parser::CopyToStatement;
use datafusion::sql::sqlparser::ast::Value;
use diligence_base::{Error, ErrorKind, Result};
use diligence_storage::external::{Compression, Format, Staging, open_store, store_error};
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, UploadPart,
};
use parking_lot::Mutex;
use url::Url;

/// What a single file is called before it has its name.
const STAGED_NAME: &str = "rows";

/// The target of a COPY.
#[derive(Debug)]
pub struct CopyTarget {
    /// As the statement names it.
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
    /// Objects of a store: they appear when they are complete.
    Objects(Arc<dyn ObjectStore>),
}

/// The first error of a store, for a person.
type Failure = Arc<Mutex<Option<object_store::Error>>>;

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

impl CopyTarget {
    /// What the statement names. The statement then names our store instead, and says the format and how it is written.
    pub(crate) fn plan(copy: &mut CopyToStatement, runtime: Arc<RuntimeEnv>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let name = copy.target.clone();
        take_format(copy);
        let (format, compression) = format_of(copy)?;
        set_options(copy, format, compression)?;
        copy.stored_as = Some(format.name().to_ascii_lowercase());

        let has_ending = Path::new(&name).extension().is_some();
        let mut single = copy.partitioned_by.is_empty() && has_ending && !name.ends_with('/');
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
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
            (Place::Folder(_), _) => format!("copy://n{number}/"),
            (_, true) => format!("copy://n{number}/{written}"),
            (_, false) => format!("copy://n{number}/{}/", written.trim_end_matches('/')),
        };
        copy.target.clone_from(&url);
        let url = Url::parse(&url).map_err(|error| Error::input(format!("'{name}' cannot be written to: {error}")))?;
        Ok(Self { name, format, single, place, store: Registered { runtime, url }, failure: Failure::default() })
    }

    /// Makes room, before the query that writes starts.
    pub fn begin(&self) -> Result<()> {
        let store: Arc<dyn ObjectStore> = match &self.place {
            Place::Objects(store) => store.clone(),
            Place::File { staging, .. } | Place::Folder(staging) => {
                staging.make().map_err(|error| self.unwritable(&error))?;
                let store = LocalFileSystem::new_with_prefix(staging.path());
                Arc::new(store.map_err(|error| self.unwritable(&error))?)
            }
        };
        let witness = Witness { inner: store, failure: self.failure.clone() };
        self.store.runtime.register_object_store(&self.store.url, Arc::new(witness));
        Ok(())
    }

    /// Puts what was written where it belongs.
    pub fn commit(self) -> Result<()> {
        let name = self.name;
        match self.place {
            Place::File { staging, path } => {
                staging.commit_as(STAGED_NAME, &path).map_err(|error| unwritable(&name, &error))
            }
            Place::Folder(staging) => staging.commit(&[]),
            Place::Objects(_) => Ok(()),
        }
    }

    /// An error of the query that writes: the store's own, if that is why.
    pub fn blame(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Cancelled {
            return error;
        }
        match (self.failure.lock().take(), &self.place) {
            (Some(failure), Place::Objects(_)) => store_error(&self.name, &failure).context("it cannot be written"),
            (Some(failure), _) => self.unwritable(&failure),
            (None, _) => error,
        }
    }

    fn unwritable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        unwritable(&self.name, error)
    }
}

/// The error of the system behind an error, if there is one: the ones around it repeat paths that the user did not write.
fn unwritable(name: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Error::file(format!("{name}: it cannot be written: {cause}"))
}

/// An option that names the format, as PostgreSQL has it, is as good as STORED AS.
fn take_format(copy: &mut CopyToStatement) {
    if let Some(index) = copy.options.iter().position(|(key, _)| key.eq_ignore_ascii_case("format")) {
        let (_, value) = copy.options.remove(index);
        copy.stored_as.get_or_insert(text_of(&value));
    }
}

/// The format and compression that a statement says, or else its target's name shows.
fn format_of(copy: &CopyToStatement) -> Result<(Format, Compression)> {
    let shown = Format::of_name(&copy.target);
    let format = match (&copy.stored_as, shown) {
        (Some(name), _) => Format::from_name(name)?,
        (None, Some((format, _))) => format,
        (None, None) => {
            return Err(Error::input(format!("{}: its name does not show what to write", copy.target)).with_hint(
                "names should end in .parquet, .csv, .tsv, .json, .jsonl or .arrow, text also in .csv.gz or .json.zst; or say it: \
                 COPY … TO '…' STORED AS PARQUET",
            ));
        }
    };
    let said = copy.options.iter().find(|(key, _)| plain(key) == "compression").map(|(_, value)| text_of(value));
    let compression = match (format, said) {
        (Format::Parquet | Format::Arrow, _) => Compression::Plain,
        (_, Some(said)) => Compression::from_name(&said)?,
        (_, None) => shown.map_or(Compression::Plain, |(_, compression)| compression),
    };
    Ok((format, compression))
}

/// An option's name as it is written here: in lower case, without what may stand before it.
fn plain(key: &str) -> String {
    let lower = key.to_ascii_lowercase();
    let short = lower.strip_prefix("format.").unwrap_or(&lower);
    match short {
        "header" => "has_header",
        "delim" | "sep" => "delimiter",
        "null" | "nullstr" => "null_value",
        "compression_type" => "compression",
        other => other,
    }
    .to_owned()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Names that options of text have, for hints.
const NAMES: [&str; 10] = [
    "has_header",
    "delimiter",
    "quote",
    "escape",
    "double_quote",
    "null_value",
    "compression",
    "date_format",
    "timestamp_format",
    "time_format",
];

/// Names that DataFusion has besides.
const OTHER_NAMES: [&str; 10] = [
    "terminator",
    "newlines_in_values",
    "compression_level",
    "schema_infer_max_rec",
    "datetime_format",
    "timestamp_tz_format",
    "null_regex",
    "comment",
    "truncated_rows",
    "quote_style",
];

/// Writes the statement's options as DataFusion knows them, with what the target's name shows.
fn set_options(copy: &mut CopyToStatement, format: Format, compression: Compression) -> Result<()> {
    let mut options = Vec::with_capacity(copy.options.len() + 2);
    for (key, value) in std::mem::take(&mut copy.options) {
        let name = plain(&key);
        if matches!(format, Format::Csv | Format::Json) && !name.contains('.') {
            if !NAMES.contains(&name.as_str()) && !OTHER_NAMES.contains(&name.as_str()) {
                let error = Error::input(format!("COPY has no option '{key}'"));
                return Err(crate::errors::suggest(error, &name, &NAMES.map(String::from)));
            }
            if name == "compression" {
                continue;
            }
        }
        let value = match text_of(&value).as_str() {
            "\\t" if name == "delimiter" => Value::SingleQuotedString("\t".to_owned()),
            _ => value,
        };
        options.push((name, value));
    }
    let mut set = |name: &str, value: &str| {
        if !options.iter().any(|(key, _)| key == name) {
            options.push((name.to_owned(), Value::SingleQuotedString(value.to_owned())));
        }
    };
    if matches!(format, Format::Csv | Format::Json) {
        let name = match compression {
            Compression::Plain => "uncompressed",
            other => other.name(),
        };
        set("compression", name);
    }
    let lower = copy.target.to_ascii_lowercase();
    let is_tsv = copy.stored_as.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("tsv"));
    if format == Format::Csv {
        if is_tsv || lower.contains(".tsv") || lower.contains(".tab") {
            set("delimiter", "\t");
        } else if lower.contains(".psv") {
            set("delimiter", "|");
        }
    }
    copy.options = options;
    Ok(())
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

/// A store that remembers why it could not be written to.
#[derive(Debug)]
struct Witness {
    inner: Arc<dyn ObjectStore>,
    failure: Failure,
}

/// Keeps the first error, and gives the caller one that says the same.
fn seen<T>(failure: &Failure, result: object_store::Result<T>) -> object_store::Result<T> {
    result.map_err(|error| {
        let text = error.to_string();
        failure.lock().get_or_insert(error);
        object_store::Error::Generic { store: "copy", source: text.into() }
    })
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Witness {
    async fn put_opts(
        &self,
        path: &StorePath,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        seen(&self.failure, self.inner.put_opts(path, payload, options).await)
    }

    async fn put_multipart_opts(
        &self,
        path: &StorePath,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let inner = seen(&self.failure, self.inner.put_multipart_opts(path, options).await)?;
        Ok(Box::new(WitnessedUpload { inner, failure: self.failure.clone() }))
    }

    async fn get_opts(&self, path: &StorePath, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &StorePath, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<StorePath>>,
    ) -> BoxStream<'static, object_store::Result<StorePath>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &StorePath, to: &StorePath, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct WitnessedUpload {
    inner: Box<dyn MultipartUpload>,
    failure: Failure,
}

#[async_trait]
impl MultipartUpload for WitnessedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, failure) = (self.inner.put_part(data), self.failure.clone());
        Box::pin(async move { seen(&failure, part.await) })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        seen(&self.failure, self.inner.complete().await)
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement as Parsed;

    use super::*;
    use crate::parse::parse_one;

    fn planned(sql: &str) -> Result<(CopyToStatement, CopyTarget)> {
        let Parsed::CopyTo(mut copy) = parse_one(sql, "generic")?.statement else { panic!("{sql}") };
        let target = CopyTarget::plan(&mut copy, Arc::new(RuntimeEnv::default()))?;
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
