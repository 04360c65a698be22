//! Who sends a request that changes something: a program, a page of this server, or somebody else's page.
//!
//! A browser adds the password that it was given to every request for this server, whatever page has made it do so, and
//! a server on loopback asks for none. So a page of another site must not be able to change anything (cross-site
//! request forgery). Browsers say where a request comes from, and pages cannot say it for them; programs say nothing.

use axum::http::{HeaderMap, StatusCode, header};
use diligence_base::Error;

use super::super::Refused;
use crate::sqlstate;

/// Fails with status 403 if a page of another origin sends the request.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let is_own = match (text("sec-fetch-site"), text(header::ORIGIN.as_str())) {
        // `none` is the reader of the page himself.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let origin = origin.split_once("://").map(|(_, host)| host);
            origin.is_some() && origin == text(header::HOST.as_str())
        }
        (None, None) => true,
    };
    if is_own {
        return Ok(());
    }
    let error = Error::input("a page of another site cannot call an endpoint that changes something");
    let error =
        error.with_code(sqlstate::DENIED).with_hint("serve the page from this server, or call it from a program");
    Err(Refused::new(StatusCode::FORBIDDEN, error))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn pages_of_others_change_nothing() {
        let host = ("host", "db.example:8123");
        for (headers, is_allowed) in [
            (vec![host], true),
            (vec![host, ("origin", "http://db.example:8123")], true),
            (vec![host, ("origin", "https://db.example:8123")], true),
            (vec![host, ("origin", "http://db.example")], false),
            (vec![host, ("origin", "http://evil.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![("origin", "http://db.example:8123")], false),
            (vec![host, ("sec-fetch-site", "same-origin"), ("origin", "http://proxy")], true),
            (vec![host, ("sec-fetch-site", "none")], true),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![host, ("sec-fetch-site", "cross-site"), ("origin", "http://db.example:8123")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(check(&map).is_ok(), is_allowed, "{headers:?}");
        }
    }
}
