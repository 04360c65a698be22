//! Statements that write, as writers for the engine's plans: COPY … TO and INSERT into a folder of files, whose writer
//! is storage's, and the tables of the database.
//!
//! `options` reads what COPY says about the format, `formats` makes of it how files are written, `plan` is what comes
//! before the writer. `native` writes the database's own tables, in memory and on disk: rows that are many go into
//! segments (`load`), by fragments where a table has several (`divided`).

mod divided;
mod extras;
mod formats;
pub(crate) mod instead;
mod load;
pub(crate) mod native;
mod options;
pub(crate) mod plan;
pub(crate) mod triggers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, FileKind};
use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, Destination, FolderFiles, Format, WriteExtras, open_store};
use url::Url;

use crate::parse::CopyTo;
use extras::take_extras;
use options::{format_of, set_options, take_existing, take_format, text_of};

/// The options of a COPY whose target is known ([`CopyTarget::of`]), as its format is told of them: by names of the
/// format or of the whole (`execution.…`).
pub(crate) fn option_pairs(copy: &CopyTo) -> Result<HashMap<String, String>> {
    let mut pairs = HashMap::new();
    for (name, value) in &copy.options {
        // Keys of metadata are as they are written.
        let lower = if name.contains("::") { name.clone() } else { name.to_lowercase() };
        let is_whole = lower.contains('.') && !lower.starts_with("metadata::");
        let key = if is_whole { lower } else { format!("format.{lower}") };
        if pairs.insert(key, text_of(value)).is_some() {
            return Err(Error::input(format!("COPY has the option '{name}' twice")).with_code("42601"));
        }
    }
    Ok(pairs)
}

/// Targets that are no files.
const PIPES: [&str; 3] = ["/dev/stdout", "/dev/stderr", "-"];

/// Where pipes are, whose names have no ending: those of a shell's `>(…)`, and the one that forgets.
const PIPE_PLACES: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/dev/null"];

/// What a COPY does with files that are in its folder already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// They stay.
    Append,
    /// All give way.
    Overwrite,
    /// Those give way that are in folders which get new ones.
    OverwriteOrIgnore,
}

/// What a COPY names.
#[derive(Debug)]
pub(crate) struct CopyTarget {
    /// As the statement has it.
    name: String,
    /// What is written.
    format: Format,
    compression: Compression,
    /// Whether all rows go into one file.
    single: bool,
    /// Whether values of columns decide which folder a row goes into.
    is_partitioned: bool,
    /// What happens to files that are in the folder already, if the statement says it.
    existing: Option<Existing>,
    /// What the names of files in a folder end in, if the statement says it.
    extension: Option<String>,
    /// What is said besides.
    extras: WriteExtras,
}

impl CopyTarget {
    /// What a COPY names. The statement then says the format and how it is written. Fails with kind `Input` if its name
    /// shows no format, or an option makes no sense.
    pub(crate) fn of(copy: &mut CopyTo) -> Result<Self> {
        let name = copy.target.clone();
        take_format(copy);
        let existing = take_existing(copy)?;
        let (format, compression) = format_of(copy)?;
        let extras = take_extras(copy, format)?;
        set_options(copy, format, compression)?;
        copy.format = Some(format.name().to_ascii_lowercase());
        let has_ending = Path::new(&name).extension().is_some();
        let is_pipe = PIPES.contains(&name.as_str());
        let single =
            copy.partitioned_by.is_empty() && !extras.is_folder && (has_ending && !name.ends_with('/') || is_pipe);
        if is_pipe && !single {
            return Err(Error::input(format!("{name} takes one file, and PARTITIONED BY makes several")));
        }
        if single && extras.extension.is_some() {
            let error = Error::input("FILE_EXTENSION is for the files of a folder, and this is one file");
            return Err(error.with_code("22023"));
        }
        let name = if name == "-" { "/dev/stdout".to_owned() } else { name };
        let is_partitioned = !copy.partitioned_by.is_empty();
        let (extension, extras) = (extras.extension, extras.writer);
        Ok(Self { name, format, compression, single, is_partitioned, existing, extension, extras })
    }

    /// Where it is. Fails with kind `File` if something is there that is not to be replaced, `Input` if the name makes
    /// no sense.
    fn destination(&self, disk: &dyn Disk) -> Result<Destination> {
        let own = || self.format.ending(self.compression);
        let ending = || self.extension.as_ref().map_or_else(own, |extension| format!(".{extension}"));
        let name = &self.name;
        if let Some(url) = remote(name)? {
            let (store, path) = open_store(name, &url)?;
            return Ok(if self.single {
                Destination::Object(store, path)
            } else {
                Destination::Objects(store, path, ending())
            });
        }
        let path = local(name)?;
        let is_pipe = || matches!(disk.meta(&path), Err(error) if error.kind() == std::io::ErrorKind::InvalidInput);
        let is_named = || PIPE_PLACES.iter().any(|place| name.starts_with(place));
        if self.single && PIPES.contains(&name.as_str()) || !self.is_partitioned && (is_named() || is_pipe()) {
            return Ok(Destination::Pipe(path));
        }
        if !self.single || disk.is_folder(&path) {
            return Ok(Destination::Folder(path, ending()));
        }
        match disk.meta(&path) {
            Ok(there) if there.kind != FileKind::File => {
                Err(Error::file(format!("{name}: this is no regular file, and is not replaced")))
            }
            _ => Ok(Destination::File(path)),
        }
    }
}

impl CopyTarget {
    /// Where rows that go into folders for their values come to. Fails with kind `File` if files are there already and
    /// the statement does not say what happens to them, or if the folder of a single file is not there.
    pub(super) fn place(&self, is_partitioned: bool, disk: &Arc<dyn Disk>) -> Result<Destination> {
        let place = self.destination(disk.as_ref())?;
        match &place {
            Destination::File(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                if let Some(folder) = folder.filter(|folder| !disk.is_folder(folder)) {
                    let error = Error::file(format!("{}: there is no folder '{}'", self.name, folder.display()));
                    return Err(error.with_code("58P01").with_hint("make the folder first"));
                }
                Ok(place)
            }
            Destination::Folder(folder, ending) => {
                let files = FolderFiles {
                    folder: folder.clone(),
                    is_by_folder: self.existing == Some(Existing::OverwriteOrIgnore),
                    disk: disk.clone(),
                };
                match self.existing {
                    Some(Existing::Append) => Ok(place),
                    Some(_) => Ok(Destination::Table {
                        folder: folder.clone(),
                        ending: ending.clone(),
                        files: Arc::new(files),
                        replace: true,
                    }),
                    None if is_partitioned && !files.files(folder, true).is_empty() => {
                        let error = Error::file(format!("{}: there are files in this folder already", self.name));
                        let hint = "say what happens to them: APPEND, OVERWRITE or OVERWRITE_OR_IGNORE, as in \
                                    COPY … TO '…' (FORMAT parquet, APPEND)";
                        Err(error.with_hint(hint))
                    }
                    None => Ok(place),
                }
            }
            _ => Ok(place),
        }
    }
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
    use diligence_base::seams::LocalDisk;

    use super::options::text_of;
    use super::*;
    use crate::parse::{SyntaxTree, parse_one};

    fn planned(sql: &str) -> Result<(CopyTo, CopyTarget)> {
        let SyntaxTree::CopyTo(mut copy) = parse_one(sql)?.statement else { panic!("{sql}") };
        let target = CopyTarget::of(&mut copy)?;
        Ok((copy, target))
    }

    fn option(copy: &CopyTo, name: &str) -> Option<String> {
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
        assert!(planned("COPY t TO 'a.csv' (ENCODING 'UTF-8')").is_ok());
        let error = planned("COPY t TO 'a.csv' OPTIONS (delimitr ';')").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean 'delimiter'?"));
    }

    #[test]
    fn names_show_where_it_goes() {
        let to = |name: &str| {
            let (_, target) = planned(&format!("COPY t TO '{name}' STORED AS CSV")).unwrap();
            target.destination(&LocalDisk)
        };
        assert!(
            matches!(to("/nowhere/x.csv").unwrap(), Destination::File(path) if path == Path::new("/nowhere/x.csv"))
        );
        assert!(matches!(to("file:///nowhere/x.csv").unwrap(), Destination::File(_)));
        assert!(matches!(to("/nowhere/x").unwrap(), Destination::Folder(_, ending) if ending == ".csv"));
        assert!(matches!(to("/dev/null").unwrap(), Destination::Pipe(_)));
        assert!(matches!(to("memory:///x.csv").unwrap(), Destination::Object(..)));
        assert!(matches!(to("memory:///x/").unwrap(), Destination::Objects(..)));
        assert!(to("nonsense://x.csv").is_err());
    }
}
