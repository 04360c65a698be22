//! Object stores and web servers: opened by URL, with the credentials in the environment, and what their errors mean.

use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::{Position, Url};

/// How often a web server is asked again when it fails. Stores of objects are built to fail now and then, web servers
/// are not.
const WEB_RETRIES_MAX: usize = 2;

/// How long a web server is asked again.
const WEB_RETRY_TIME: Duration = Duration::from_secs(5);

/// The store that a URL is in, and the path in it. Fails with kind `Input` if the URL names no store, or if the
/// environment has settings that the store refuses; the store itself is not asked.
pub fn open_store(location: &str, url: &Url) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let failed = |error: object_store::Error| {
        Error::input(format!("'{location}' cannot be opened: {error}"))
            .with_hint("locations are paths, or URLs that begin with s3://, gs://, az://, http:// or https://")
    };
    let environment = std::env::vars().map(|(key, value)| (key.to_ascii_lowercase(), value));
    if is_web(url) {
        let (_, path) = ObjectStoreScheme::parse(url).map_err(|error| failed(error.into()))?;
        let retry =
            RetryConfig { max_retries: WEB_RETRIES_MAX, retry_timeout: WEB_RETRY_TIME, ..RetryConfig::default() };
        let builder = HttpBuilder::new().with_url(&url[..Position::BeforePath]).with_retry(retry);
        let builder = environment.fold(builder, |builder, (key, value)| match key.parse::<ClientConfigKey>() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        });
        // Whoever writes http:// means it.
        let store = builder.with_config(ClientConfigKey::AllowHttp, "true").build().map_err(failed)?;
        return Ok((Arc::new(store), path));
    }
    let (store, path) = object_store::parse_url_opts(url, environment).map_err(failed)?;
    Ok((Arc::from(store), path))
}

/// True for a web server rather than a store of objects: it has files, but no list of them.
pub(crate) fn is_web(url: &Url) -> bool {
    matches!(ObjectStoreScheme::parse(url), Ok((ObjectStoreScheme::Http, _)))
}

/// Why a store refused, for the user of the file `name`.
pub fn store_error(name: &str, error: &object_store::Error) -> Error {
    let text = error.to_string();
    // What a machine of a cloud is asked for its role; anywhere else nobody answers there.
    if text.contains("169.254.169.254") || text.contains("metadata.google.internal") {
        return Error::file(format!("{name}: no credentials for it were found")).with_hint(
            "they come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or \
             AWS_SKIP_SIGNATURE=true for what is public; GOOGLE_SERVICE_ACCOUNT; AZURE_STORAGE_ACCOUNT_NAME and _KEY",
        );
    }
    let what = match error {
        object_store::Error::NotFound { .. } => "there is no such file".to_owned(),
        object_store::Error::PermissionDenied { .. } => "access to it is not permitted".to_owned(),
        object_store::Error::Unauthenticated { .. } => "it asks for credentials, or for other ones".to_owned(),
        _ => brief(&text),
    };
    Error::file(format!("{name}: {what}"))
}

/// The first line of a message, without the page that a web server sends along.
fn brief(text: &str) -> String {
    let end = text.find(['\n', '<']).unwrap_or(text.len());
    text[..end].trim_end_matches([' ', ':', '"', '\r', '\\']).to_owned()
}

/// `None` if the location is a path of the local file system.
pub(super) fn parse_url(location: &str) -> Result<Option<Url>> {
    let Some((scheme, _)) = location.split_once("://") else { return Ok(None) };
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return Ok(None);
    }
    Url::parse(location).map(Some).map_err(|error| Error::input(format!("'{location}' is no URL: {error}")))
}

/// What stands before an object's path in the URL that names it.
pub(super) fn url_prefix(url: &Url, path: &object_store::path::Path) -> String {
    let text = url.as_str();
    let decoded = text.trim_end_matches('/');
    match decoded.strip_suffix(path.as_ref()) {
        Some(prefix) => prefix.to_owned(),
        None => format!("{}://{}/", url.scheme(), url.authority()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_servers_are_told_from_stores() {
        for (url, web) in [
            ("http://localhost:8000/a.csv", true),
            ("https://example.com/a.csv", true),
            ("https://bucket.s3.eu-west-1.amazonaws.com/a.csv", false),
            ("s3://bucket/a.csv", false),
        ] {
            assert_eq!(is_web(&Url::parse(url).unwrap()), web, "{url}");
        }
        let url = Url::parse("http://localhost:1/a/b.csv").unwrap();
        assert_eq!(open_store("x", &url).unwrap().1, Path::from("a/b.csv"));
    }

    #[test]
    fn an_error_is_one_line() {
        let source = "Server returned non-2xx status code: 501: <!DOCTYPE html>\n<p>page".into();
        let error = store_error("x", &object_store::Error::Generic { store: "HTTP", source });
        assert!(error.message().ends_with("status code: 501"), "{error}");
        let source = "Error performing PUT http://169.254.169.254/latest/api/token in 1s".into();
        let error = store_error("s3://a/b", &object_store::Error::Generic { store: "S3", source });
        assert!(error.message().contains("credentials") && error.hint().is_some(), "{error}");
    }
}
