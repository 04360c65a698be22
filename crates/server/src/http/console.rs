//! `GET /`: the console, a page that talks to `/v1`. Its files are in the binary, so it works without the internet.
//!
//! The page is what its files are: there is no step that makes them. It loads nothing from elsewhere, and its policy
//! tells the browser so: scripts and styles only from here, requests only to here, and no page may frame it.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use ring::digest;

/// What the page may do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
pub(super) struct File {
    /// Where it is served.
    pub(super) path: &'static str,
    kind: &'static str,
    content: &'static str,
}

const PAGE: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! file {
    ($path:literal, $name:literal, $kind:expr) => {
        File { path: $path, kind: $kind, content: include_str!(concat!("../../console/", $name)) }
    };
}

/// All of them.
pub(super) static FILES: &[File] = &[
    file!("/", "index.html", PAGE),
    file!("/console/style.css", "style.css", STYLE),
    file!("/console/icon.svg", "icon.svg", PICTURE),
    file!("/console/app.js", "app.js", SCRIPT),
    file!("/console/board.js", "board.js", SCRIPT),
    file!("/console/catalog.js", "catalog.js", SCRIPT),
    file!("/console/chart.js", "chart.js", SCRIPT),
    file!("/console/client.js", "client.js", SCRIPT),
    file!("/console/dom.js", "dom.js", SCRIPT),
    file!("/console/editor.js", "editor.js", SCRIPT),
    file!("/console/format.js", "format.js", SCRIPT),
    file!("/console/history.js", "history.js", SCRIPT),
    file!("/console/inspect.js", "inspect.js", SCRIPT),
    file!("/console/plan.js", "plan.js", SCRIPT),
    file!("/console/rows.js", "rows.js", SCRIPT),
    file!("/console/sql.js", "sql.js", SCRIPT),
    file!("/console/table.js", "table.js", SCRIPT),
];

impl File {
    /// The file, or that the client has it already.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        let tag = self.tag();
        let known = request.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let same = known.is_some_and(|tags| tags.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
        let mut response = Response::new(if same { Body::empty() } else { Body::from(self.content) });
        if same {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        // Asked for each time, so that a new server is never shown with an old page.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    /// Another one for another content.
    fn tag(&self) -> String {
        let hash = digest::digest(&digest::SHA256, self.content.as_bytes());
        let hex = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}"));
        format!("\"{}\"", hex.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_served() {
        for file in FILES {
            let quoted = file.content.split(['"', '\'']);
            let named = quoted
                .filter(|text| text.starts_with("/console/") || (text.starts_with("./") && text.ends_with(".js")));
            for name in named {
                let path = name.strip_prefix("./").map_or(name.to_owned(), |name| format!("/console/{name}"));
                assert!(FILES.iter().any(|file| file.path == path), "{} names {name}", file.path);
            }
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_no_inline_scripts() {
        let elsewhere = ["http://", "https://"];
        for file in FILES {
            let names = elsewhere.iter().flat_map(|scheme| file.content.match_indices(scheme));
            // The name of SVG's language is no address.
            let loaded = names.filter(|(at, _)| !file.content[*at..].starts_with("http://www.w3.org/"));
            assert_eq!(loaded.count(), 0, "{}", file.path);
        }
        let page = FILES[0].content;
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains("onclick"));
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn a_browser_that_has_the_file_gets_none() {
        let mut request = HeaderMap::new();
        let first = FILES[0].answer(&request);
        assert_eq!(first.status(), StatusCode::OK);
        assert!(first.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
        request.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(FILES[0].answer(&request).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(FILES[1].answer(&request).status(), StatusCode::OK);
    }
}
