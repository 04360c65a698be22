//! Iceberg's REST catalogs: they say where the metadata of a table are.
//! Format: <https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml>.

use std::collections::HashMap;
use std::time::Duration;

use diligence_base::{Error, Result};
use reqwest::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::external::options::RestCatalog;
use crate::external::source::wait;

/// How long a catalog may take for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer at most: those of large tables have all of their metadata.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What stands between the parts of a namespace in an address.
const NAMESPACE_SEPARATOR: &str = "\u{1f}";

/// The variable of the environment that has the token if nobody says it.
const TOKEN: &str = "ICEBERG_TOKEN";

/// What a catalog says of itself.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    defaults: HashMap<String, String>,
    #[serde(default)]
    overrides: HashMap<String, String>,
}

/// What it says of a table.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoadedTable {
    metadata_location: Option<String>,
}

/// Why it refuses.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalReason,
}

#[derive(Deserialize)]
struct RefusalReason {
    message: String,
}

/// The location of a table's file of metadata. The table is `namespace.name`, where the namespace may have points.
///
/// Fails with kind `Input` if that is no name, or the catalog's address is none; `File` if the catalog cannot be asked,
/// refuses, or does not know the table (42P01).
pub(super) fn metadata_location(catalog: &RestCatalog, table: &str) -> Result<String> {
    let parts = table.rsplit_once('.').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let (namespace, name) = parts.ok_or_else(|| {
        Error::input(format!("'{table}' is no name of a table in a catalog"))
            .with_hint("a namespace stands in front: iceberg_scan('sales.orders', endpoint => '…')")
    })?;
    // Some write the version of the protocol behind the address.
    let endpoint = catalog.endpoint.trim_end_matches('/').trim_end_matches("/v1");
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let endpoint = Url::parse(endpoint).ok().filter(is_web).ok_or_else(|| {
        Error::input(format!("the option endpoint: expected the address of a catalog, found '{}'", catalog.endpoint))
            .with_hint("it begins with http:// or https://")
    })?;
    let namespace = namespace.replace('.', NAMESPACE_SEPARATOR);
    let (name, table, warehouse) = (name.to_owned(), table.to_owned(), catalog.warehouse.clone());
    let token = catalog.token.clone().or_else(|| std::env::var(TOKEN).ok()).filter(|token| !token.is_empty());
    wait(async move {
        let client = Client::builder().timeout(ANSWER_TIME).build();
        let client = client.map_err(|error| Error::resource(format!("no client for a catalog: {error}")))?;
        let mut address = below(&endpoint, &["v1", "config"]);
        if let Some(warehouse) = &warehouse {
            address.query_pairs_mut().append_pair("warehouse", warehouse);
        }
        let config: Config = ask(&client, address, token.as_deref()).await?;
        let prefix = config.overrides.get("prefix").or(config.defaults.get("prefix"));
        let mut parts = vec!["v1"];
        parts.extend(prefix.into_iter().flat_map(|prefix| prefix.split('/')).filter(|part| !part.is_empty()));
        parts.extend(["namespaces", namespace.as_str(), "tables", name.as_str()]);
        let loaded: LoadedTable = ask(&client, below(&endpoint, &parts), token.as_deref()).await?;
        loaded
            .metadata_location
            .ok_or_else(|| Error::file(format!("{table}: the catalog does not say where the table's metadata are")))
    })
}

/// An address below another one.
fn below(endpoint: &Url, parts: &[&str]) -> Url {
    let mut address = endpoint.clone();
    if let Ok(mut path) = address.path_segments_mut() {
        path.pop_if_empty().extend(parts);
    }
    address
}

async fn ask<T: DeserializeOwned>(client: &Client, address: Url, token: Option<&str>) -> Result<T> {
    let name = address.to_string();
    let failed =
        |error: reqwest::Error| Error::file(format!("{name}: the catalog cannot be asked: {}", error.without_url()));
    let mut request = client.get(address).header("accept", "application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let mut answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(failed)? {
        text.extend_from_slice(&piece);
        if text.len() > ANSWER_BYTES_MAX {
            let what = format!("the catalog's answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(Error::resource(format!("{name}: {what}")));
        }
    }
    if !status.is_success() {
        return Err(refused(&name, status.as_u16(), &text));
    }
    serde_json::from_slice(&text)
        .map_err(|error| Error::file(format!("{name}: the catalog's answer cannot be read: {error}")))
}

/// The error for an answer that is a refusal.
fn refused(name: &str, status: u16, text: &[u8]) -> Error {
    let told = serde_json::from_slice::<Refusal>(text).ok().map(|refusal| refusal.error.message);
    let told = told.filter(|message| !message.is_empty());
    let what = |usual: &str| format!("{name}: {}", told.as_deref().unwrap_or(usual));
    match status {
        401 | 403 => {
            let error = Error::file(what("the catalog asks for a token, or for another one"));
            error.with_hint(format!("the option token says it, or the variable {TOKEN} of the environment"))
        }
        404 => Error::file(what("the catalog has no such table")).with_code("42P01"),
        status => Error::file(what(&format!("the catalog has answered with the status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    use diligence_base::seams::LocalDisk;

    use super::*;
    use crate::Table;
    use crate::external::{Format, OpenOptions, open};

    /// A catalog that gives these answers, one for each request. Its address, and what it was asked, with the tokens.
    fn catalog(answers: Vec<(u16, String)>) -> (RestCatalog, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/api/v1/", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || {
            let answer = |(status, text): (u16, String)| {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut line, mut token) = (String::new(), String::new());
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                lines.read_line(&mut line).unwrap();
                loop {
                    let mut header = String::new();
                    lines.read_line(&mut header).unwrap();
                    let header = header.trim_end();
                    if header.is_empty() {
                        break;
                    }
                    if let Some((name, value)) = header.split_once(':')
                        && name.eq_ignore_ascii_case("authorization")
                    {
                        token = value.to_owned();
                    }
                }
                let length = text.len();
                write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
                    .unwrap();
                format!("{}{token}", line.trim_end().trim_end_matches(" HTTP/1.1"))
            };
            answers.into_iter().map(answer).collect()
        });
        (RestCatalog { endpoint, warehouse: Some("w x".to_owned()), token: Some("secret".to_owned()) }, asked)
    }

    #[test]
    fn a_catalog_says_where_the_metadata_are() {
        let config = r#"{"defaults": {"prefix": "other"}, "overrides": {"prefix": "lake a/b"}}"#;
        let loaded = r#"{"metadata-location": "s3://b/t/metadata/1-x.metadata.json", "metadata": {}, "config": {}}"#;
        let (rest, asked) = catalog(vec![(200, config.to_owned()), (200, loaded.to_owned())]);
        assert_eq!(metadata_location(&rest, "a.b.orders").unwrap(), "s3://b/t/metadata/1-x.metadata.json");
        let expected = [
            "GET /api/v1/config?warehouse=w+x Bearer secret",
            "GET /api/v1/lake%20a/b/namespaces/a%1Fb/tables/orders Bearer secret",
        ];
        assert_eq!(asked.join().unwrap(), expected);
    }

    #[test]
    fn refusals_are_told() {
        let missing = r#"{"error": {"message": "Table does not exist: n.t", "type": "NoSuchTable", "code": 404}}"#;
        for (answers, told) in [
            (vec![(200, "{}"), (404, missing)], "Table does not exist: n.t"),
            (vec![(200, "{}"), (404, "")], "the catalog has no such table"),
            (vec![(401, "")], "asks for a token"),
            (vec![(500, "<html>")], "the status 500"),
            (vec![(200, "<html>")], "answer cannot be read"),
            (vec![(200, "{}"), (200, "{\"metadata\": {}}")], "does not say where"),
        ] {
            let answers = answers.into_iter().map(|(status, text)| (status, text.to_owned())).collect();
            let (rest, asked) = catalog(answers);
            let error = metadata_location(&rest, "n.t").unwrap_err();
            assert!(error.message().contains(told), "{told}: {error}");
            asked.join().unwrap();
        }
        let rest = |endpoint: &str| RestCatalog { endpoint: endpoint.to_owned(), ..RestCatalog::default() };
        for (endpoint, table) in [("http://x", "orders"), ("http://x", "n."), ("ftp://x", "n.t"), ("", "n.t")] {
            assert!(metadata_location(&rest(endpoint), table).is_err(), "{endpoint} {table}");
        }
        assert!(!format!("{:?}", RestCatalog { token: Some("secret".to_owned()), ..rest("x") }).contains("secret"));
    }

    #[test]
    fn a_table_of_a_catalog_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt/data/lakes/iceberg/plain");
        let folder = folder.canonicalize().unwrap();
        let names = std::fs::read_dir(folder.join("metadata")).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>();
        let newest = names.iter().filter(|name| name.ends_with(".metadata.json")).max().unwrap();
        let location = format!("file://{}/metadata/{newest}", folder.display());
        let loaded = format!("{{\"metadata-location\": \"{location}\"}}");
        let (rest, asked) = catalog(vec![(200, "{}".to_owned()), (200, loaded)]);
        let options = OpenOptions { format: Some(Format::Iceberg), catalog: Some(rest), ..OpenOptions::default() };
        let table = open("n.plain", &options, Arc::new(LocalDisk)).unwrap();
        let usual = OpenOptions { format: Some(Format::Iceberg), ..OpenOptions::default() };
        let usual = open(&folder.to_string_lossy(), &usual, Arc::new(LocalDisk)).unwrap();
        assert_eq!((table.schema(), table.statistics()), (usual.schema(), usual.statistics()));
        assert_eq!(asked.join().unwrap().len(), 2);
    }
}
