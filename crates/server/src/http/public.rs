//! Files as they are: those of the folder `public` beside the endpoints, for pages, styles, scripts and pictures.
//!
//! `GET /shop/` is `public/shop/index.html`. No folder is listed. What begins with a dot, and what a link leads to
//! outside of the folder, is not there. Files may change while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diligence_base::seams::{Disk, DiskFile, FileKind, LocalDisk, OpenMode};
use diligence_base::{Error, Result};
use futures::stream::unfold;
use tokio::task::spawn_blocking;

use super::{Caller, Refused, shows};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What files with these endings are.
#[rustfmt::skip]
const TYPES: [(&str, &str); 25] = [
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
];

/// The folder.
pub(super) struct Public {
    /// Without links.
    root: PathBuf,
}

/// What a path stands for.
enum Found {
    File(FoundFile),
    /// A folder, whose page is behind a slash.
    Folder,
    Nothing,
}

struct FoundFile {
    file: Arc<dyn DiskFile>,
    length: u64,
    tag: String,
    kind: &'static str,
}

impl Public {
    /// The folder within that of the endpoints; `None` if there is none. Fails with kind `File` if it cannot be read.
    pub(super) fn of(endpoints: Option<&Path>) -> Result<Option<Arc<Self>>> {
        let Some(folder) = endpoints.map(|folder| folder.join("public")).filter(|folder| LocalDisk.is_folder(folder))
        else {
            return Ok(None);
        };
        let root = LocalDisk.resolve(&folder).map_err(|error| Error::file(format!("{}: {error}", folder.display())))?;
        Ok(Some(Arc::new(Self { root })))
    }

    /// Answers a request for a path that nothing else has.
    pub(super) async fn serve(self: Arc<Self>, request: Request) -> Response {
        self.answered(request.into_parts().0).await.unwrap_or_else(IntoResponse::into_response)
    }

    async fn answered(self: Arc<Self>, request: Parts) -> Result<Response, Refused> {
        let Some(caller) = request.extensions.get::<Caller>() else {
            return Err(Error::bug("a request that nobody looked at").into());
        };
        let path = request.uri.path().to_owned();
        let missing = || Refused::new(StatusCode::NOT_FOUND, Error::input(format!("there is nothing at {path}")));
        let segments = segments(&path).ok_or_else(missing)?;
        caller.role.check_endpoint("GET", &format!("/{}", segments.join("/")))?;
        let found = spawn_blocking(move || self.find(&segments)).await;
        let found = found.map_err(|error| Error::bug(format!("looking for a file ended early: {error}")))?;
        // What is not there takes no method: to a typo in a path that is the better answer.
        if !matches!((&found, &request.method), (Found::Nothing, _) | (_, &Method::GET | &Method::HEAD)) {
            let error = Error::input(format!("this path does not take {}", request.method));
            let error = error.with_hint("it is a file, which takes GET and HEAD");
            let mut response = Refused::new(StatusCode::METHOD_NOT_ALLOWED, error).into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(response);
        }
        match found {
            Found::File(file) => Ok(file.answer(&request.headers)),
            Found::Folder => {
                let place = HeaderValue::from_str(&format!("{path}/")).map_err(|_| missing())?;
                Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, place)]).into_response())
            }
            Found::Nothing => Err(missing()),
        }
    }

    /// Looks for what a path stands for; an empty segment at its end is the page of a folder. Blocks.
    fn find(&self, segments: &[String]) -> Found {
        let mut path = self.root.clone();
        path.extend(segments.iter().filter(|segment| !segment.is_empty()));
        let is_page = segments.last().is_none_or(String::is_empty);
        if is_page {
            path.push("index.html");
        }
        // Where links lead.
        let Some(path) = LocalDisk.resolve(&path).ok().filter(|path| path.starts_with(&self.root)) else {
            return Found::Nothing;
        };
        if !is_page && LocalDisk.is_file(&path.join("index.html")) {
            return Found::Folder;
        }
        // To open what is no file, such as a pipe, could wait for ever. If the file is replaced in between, the tag is
        // that of the file before: then the client asks again, and never keeps the old one.
        let Some(about) = LocalDisk.meta(&path).ok().filter(|about| about.kind == FileKind::File) else {
            return Found::Nothing;
        };
        let opened = LocalDisk.open(&path, OpenMode::READ).and_then(|file| file.bytes().map(|length| (file, length)));
        let Ok((file, length)) = opened else { return Found::Nothing };
        let changed = about.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tag = format!("W/\"{length:x}-{:x}\"", changed.as_nanos());
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        let kind =
            TYPES.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, kind)| kind);
        Found::File(FoundFile { file, length, tag, kind })
    }
}

impl FoundFile {
    fn answer(self, headers: &HeaderMap) -> Response {
        let is_known = shows(headers, &self.tag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => {
                let mut response = Response::new(pieces(self.file, self.length));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
                response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(self.length));
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

/// The first `length` bytes of a file as a body, read as fast as the client takes them. It ends early where the file
/// does.
fn pieces(file: Arc<dyn DiskFile>, length: u64) -> Body {
    Body::from_stream(unfold(Some((file, 0)), move |next| async move {
        let (file, offset) = next.filter(|(_, offset)| *offset < length)?;
        let wanted = usize::try_from(length - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            let read = file.read_at(&mut bytes, offset);
            read.map(|count| {
                bytes.truncate(count);
                (Bytes::from(bytes), file)
            })
        });
        match read.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok((bytes, _)) if bytes.is_empty() => None,
            Ok((bytes, file)) => {
                let end = offset + bytes.len() as u64;
                Some((Ok(bytes), Some((file, end))))
            }
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// The names between a path's slashes; the last one is empty if nothing follows the last slash. `None` if one of them
/// is no name of a file that is shown.
fn segments(path: &str) -> Option<Vec<String>> {
    let segments = path.strip_prefix('/')?.split('/').map(decoded).collect::<Option<Vec<_>>>()?;
    let (last, folders) = segments.split_last()?;
    let is_name = |name: &String| !name.starts_with('.') && !name.contains(['/', '\\', '\0', ':']);
    (folders.iter().all(|name| is_name(name) && !name.is_empty()) && is_name(last)).then_some(segments)
}

/// A segment without its `%2e`.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_within_the_folder() {
        for (path, expected) in [
            ("/a/b.css", Some(vec!["a", "b.css"])),
            ("/", Some(vec![""])),
            ("/a/", Some(vec!["a", ""])),
            ("/%61%20b", Some(vec!["a b"])),
            ("/a..b", Some(vec!["a..b"])),
            ("//a", None),
            ("/a//b", None),
            ("/../a", None),
            ("/a/%2e%2E/b", None),
            ("/a%2fb", None),
            ("/a%5cb", None),
            ("/.git/config", None),
            ("/a%00", None),
            ("/a%zz", None),
            ("/%ff", None),
            ("a", None),
        ] {
            let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(segments(path), expected, "{path}");
        }
    }

    #[test]
    fn endings_are_in_order() {
        assert!(TYPES.is_sorted_by_key(|(ending, _)| ending));
    }
}
