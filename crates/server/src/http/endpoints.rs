//! Endpoints made of SQL files.
//!
//! A file of the folder, `top.sql`:
//!
//! ```sql
//! -- endpoint: GET /api/top-products
//! -- description: The products that sold best
//! -- param: region text                 required
//! -- param: limit integer = 10          with a default
//! -- template: top.html                 for clients that want HTML
//! SELECT product, sum(price) AS total FROM sales WHERE region = $region
//! GROUP BY product ORDER BY total DESC LIMIT $limit
//! ```
//!
//! An answer's `ETag` is made of the query, its parameters and the states of the tables behind it. So as long as
//! nothing changes, a client that shows it gets 304 and no query runs: the integrated web and database server of
//! Harizopoulos, "Staged Database Systems" (thesis proposal), section 4.4.2.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, TimeUnit};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diligence_base::{Error, Result};
use minijinja::Environment;
use ring::digest;

use super::rows::{objects, response};
use super::{Caller, QUEUE_HEADER, failure, queue_header, wanted_types, within};
use crate::encoding::formats::Format;
use crate::encoding::parameters::from_text;
use crate::execution::RunningStatement;
use crate::service::Service;

/// Rows that a template gets at most.
const TEMPLATE_ROWS_MAX: usize = 10_000;

/// The endpoints of a folder.
pub(super) struct Endpoints {
    endpoints: Vec<Endpoint>,
    templates: Environment<'static>,
}

/// One of them.
pub(super) struct Endpoint {
    /// Its path, beginning with a slash.
    pub(super) path: String,
    pub(super) description: String,
    pub(super) parameters: Vec<Parameter>,
    template: Option<String>,
    /// The query with `$1`, `$2`, … for its parameters, in their order.
    sql: String,
}

/// A parameter of an endpoint.
#[derive(Debug, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Its value if the request has none; `None` if it must have one.
    pub(super) default: Option<String>,
}

/// Types of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
    Timestamp,
}

impl Kind {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Kind::Text,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            "date" => Kind::Date,
            "timestamp" => Kind::Timestamp,
            _ => return None,
        })
    }

    fn data_type(self) -> DataType {
        match self {
            Kind::Text => DataType::Utf8View,
            Kind::Integer => DataType::Int64,
            Kind::Number => DataType::Float64,
            Kind::Boolean => DataType::Boolean,
            Kind::Date => DataType::Date32,
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }
}

impl Endpoints {
    /// Reads a folder; without one there are none.
    pub(super) fn read(folder: Option<&Path>) -> Result<Self> {
        let mut templates = Environment::new();
        let mut endpoints: Vec<Endpoint> = Vec::new();
        let Some(folder) = folder else { return Ok(Self { endpoints, templates }) };
        let unreadable = |path: &Path, error: std::io::Error| Error::file(format!("{}: {error}", path.display()));
        let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| unreadable(folder, error))?.path());
        }
        paths.sort();
        for path in paths {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_owned();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if !["sql", "html"].contains(&extension.as_str()) || !path.is_file() {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            if extension == "html" {
                let added = templates.add_template_owned(name.clone(), text);
                added.map_err(|error| Error::input(format!("{}: {error:#}", path.display())))?;
                continue;
            }
            let endpoint = Endpoint::parse(&text).map_err(|error| error.context(path.display()))?;
            if endpoints.iter().any(|other| other.path == endpoint.path) {
                let error = Error::input(format!("another file has the endpoint {} already", endpoint.path));
                return Err(error.context(path.display()));
            }
            endpoints.push(endpoint);
        }
        for endpoint in &endpoints {
            if let Some(template) = &endpoint.template
                && templates.get_template(template).is_err()
            {
                return Err(Error::input(format!(
                    "the endpoint {} wants the template '{template}', which is not in the folder",
                    endpoint.path
                )));
            }
        }
        Ok(Self { endpoints, templates })
    }

    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub(super) fn path(&self, index: usize) -> String {
        self.endpoints[index].path.clone()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter()
    }
}

impl Endpoint {
    /// Reads a file's text.
    fn parse(text: &str) -> Result<Self> {
        let mut endpoint = Self {
            path: String::new(),
            description: String::new(),
            parameters: Vec::new(),
            template: None,
            sql: String::new(),
        };
        for line in text.lines() {
            let Some(comment) = line.trim().strip_prefix("--") else { continue };
            let Some((key, value)) = comment.trim().split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "endpoint" => {
                    let path = value.strip_prefix("GET ").map(str::trim).filter(|path| is_path(path));
                    let path = path.ok_or_else(|| {
                        Error::input(format!("'{value}' is no endpoint"))
                            .with_hint("write it like: -- endpoint: GET /api/name")
                    })?;
                    path.clone_into(&mut endpoint.path);
                }
                "description" => value.clone_into(&mut endpoint.description),
                "template" => endpoint.template = Some(value.to_owned()),
                "param" => endpoint.parameters.push(Parameter::parse(value)?),
                _ => {}
            }
        }
        if endpoint.path.is_empty() {
            let error = Error::input("the file does not say which endpoint it is");
            return Err(error.with_hint("begin it with: -- endpoint: GET /api/name"));
        }
        endpoint.sql = numbered(text, &endpoint.parameters)?;
        Ok(endpoint)
    }

    /// The values of a request, in order.
    fn values(&self, given: &BTreeMap<String, String>) -> Result<Vec<ArrayRef>> {
        for name in given.keys() {
            if name != "format" && !self.parameters.iter().any(|parameter| parameter.name == *name) {
                let known = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect::<Vec<_>>();
                let error = Error::input(format!("there is no parameter '{name}'")).with_code("22023");
                return Err(error.with_hint(format!("the parameters are: {}", known.join(", "))));
            }
        }
        let values = self.parameters.iter().map(|parameter| {
            let data_type = parameter.kind.data_type();
            match given.get(&parameter.name).or(parameter.default.as_ref()) {
                Some(text) if text.eq_ignore_ascii_case("null") && parameter.kind != Kind::Text => {
                    Ok(new_null_array(&data_type, 1))
                }
                Some(text) => from_text(text, &data_type).map_err(|error| error.context(&parameter.name)),
                None => {
                    let error = Error::input(format!("the parameter '{}' is missing", parameter.name));
                    Err(error.with_code("22023"))
                }
            }
        });
        values.collect()
    }
}

impl Parameter {
    /// `limit integer = 10`.
    fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::input(format!("'{text}' is no parameter"))
                .with_hint("write it like: -- param: limit integer = 10; types are text, integer, number, boolean, date, timestamp")
        };
        let (declared, default) = match text.split_once('=') {
            Some((declared, default)) => (declared, Some(default.trim().to_owned())),
            None => (text, None),
        };
        let mut words = declared.split_whitespace();
        let name = words.next().filter(|name| is_name(name)).ok_or_else(wrong)?;
        let kind = words.next().and_then(Kind::of_name).ok_or_else(wrong)?;
        if let Some(default) = &default {
            from_text(default, &kind.data_type()).map_err(|error| error.context(format!("the default of '{name}'")))?;
        }
        Ok(Self { name: name.to_owned(), kind, default })
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && name != "format"
}

/// Letters, digits and a few signs between slashes; none of the server's own paths.
fn is_path(path: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '/' | '-' | '_' | '.');
    let own = ["/v1/", "/console/", "/metrics", "/healthz", "/readyz", "/openapi.json"];
    path.starts_with('/') && path.len() > 1 && path.chars().all(plain) && !own.iter().any(|own| path.starts_with(own))
}

/// The text with `$1` for the first parameter's `$name`, and so on; texts in quotes and comments stay.
fn numbered(text: &str, parameters: &[Parameter]) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let taken = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if character == '\'' || character == '"' {
            rest[1..].find(character).map_or(rest.len(), |end| end + 2)
        } else if character == '$' {
            let end = rest[1..].find(|other: char| !other.is_ascii_alphanumeric() && other != '_');
            let name = &rest[1..end.map_or(rest.len(), |end| end + 1)];
            let place = parameters.iter().position(|parameter| parameter.name == name);
            let place = place.ok_or_else(|| {
                Error::input(format!("${name} is not declared")).with_hint(format!("declare it: -- param: {name} text"))
            })?;
            out.push_str(&format!("${}", place + 1));
            rest = &rest[1 + name.len()..];
            continue;
        } else {
            character.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    Ok(out)
}

/// Answers a request for the endpoint with this index.
pub(super) async fn serve(
    State(service): State<Arc<Service>>,
    all: Arc<Endpoints>,
    index: usize,
    request: Request,
) -> Response {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return failure(&Error::bug("a request that nobody looked at"));
    };
    let query = Query::<BTreeMap<String, String>>::try_from_uri(request.uri());
    let given = match query {
        Ok(Query(given)) => given,
        Err(error) => return failure(&Error::input(error.to_string()).with_code("22023")),
    };
    let headers = request.headers().clone();
    answer(&service, &all, &all.endpoints[index], &caller, &given, &headers)
        .await
        .unwrap_or_else(|error| failure(&error))
}

async fn answer(
    service: &Arc<Service>,
    all: &Endpoints,
    endpoint: &Endpoint,
    caller: &Caller,
    given: &BTreeMap<String, String>,
    headers: &HeaderMap,
) -> Result<Response> {
    let format = match given.get("format") {
        Some(name) => Format::named(name),
        None => Format::accepted(wanted_types(headers), endpoint.template.is_some()),
    };
    let format = format.filter(|format| *format != Format::Html || endpoint.template.is_some());
    let Some(format) = format else {
        let error = Error::input("this endpoint has no such format");
        return Ok((StatusCode::NOT_ACCEPTABLE, axum::Json(super::error_json(&error))).into_response());
    };
    caller.role.check_endpoint(&endpoint.path)?;
    let values = endpoint.values(given)?;
    let (session, entry) = caller.session_with(service, caller.role.endpoint_options())?;
    entry.does(Some(&endpoint.sql));
    let execution = service.execution();
    let parsed = execution.parse(&session, endpoint.sql.clone()).await?;
    let ready = execution.plan(&session, &parsed, values).await?;
    let tag = ready.planned.fingerprint().map(|states| etag(service, endpoint, given, format, &states));
    let unchanged = tag.as_ref().is_some_and(|tag| matches(headers, tag));
    let mut answer = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let begin = async {
            let running = execution.start_ready(&session, &caller.asker(), &endpoint.sql, ready).await?;
            match (&endpoint.template, format) {
                (Some(template), Format::Html) => page(service, all, template, running, given).await,
                _ => response(service, running, format, entry).await,
            }
        };
        within(caller.role.time(service.options().limits.statement_time_max), begin).await?
    };
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        answer.headers_mut().insert(header::ETAG, tag);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    answer.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

async fn page(
    service: &Arc<Service>,
    all: &Endpoints,
    template: &str,
    running: RunningStatement,
    given: &BTreeMap<String, String>,
) -> Result<Response> {
    let columns = running.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let queue = queue_header(running.passed());
    let rows = objects(service, running, TEMPLATE_ROWS_MAX).await?;
    let wrong = |error: minijinja::Error| Error::input(format!("the template '{template}': {error:#}"));
    let context = minijinja::context! { columns, rows, parameters => given };
    let text = all.templates.get_template(template).and_then(|template| template.render(context)).map_err(wrong)?;
    let mut page = ([(header::CONTENT_TYPE, Format::Html.content_type())], text).into_response();
    page.headers_mut().insert(QUEUE_HEADER, queue);
    Ok(page)
}

/// A tag for an answer. Numbers of tables' states begin anew with each process, so the tag has the process's secret in
/// it. It is weak: compressed or not, the answer is the same.
fn etag(
    service: &Service,
    endpoint: &Endpoint,
    given: &BTreeMap<String, String>,
    format: Format,
    states: &str,
) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(service.secret());
    for part in [endpoint.sql.as_str(), format.content_type(), states] {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    for (name, value) in given {
        hash.update(format!("{}:{name}={}:{value};", name.len(), value.len()).as_bytes());
    }
    let hex = hash.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("W/\"{hex}\"")
}

/// Whether the client shows the tag.
fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let shown = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|shown| shown.to_str().ok());
    shown.flat_map(|shown| shown.split(',')).any(|shown| shown.trim() == "*" || plain(shown) == plain(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- endpoint: GET /api/top\n-- description: The best\n-- param: region text\n\
                        -- param: limit integer = 10\nSELECT '$no', \"$no\" FROM t WHERE r = $region LIMIT $limit -- $no";

    #[test]
    fn a_file_declares_its_endpoint() {
        let endpoint = Endpoint::parse(FILE).unwrap();
        assert_eq!((endpoint.path.as_str(), endpoint.description.as_str()), ("/api/top", "The best"));
        assert!(
            endpoint.sql.ends_with("SELECT '$no', \"$no\" FROM t WHERE r = $1 LIMIT $2 -- $no"),
            "{}",
            endpoint.sql
        );
        let given = |pairs: &[(&str, &str)]| {
            endpoint.values(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(given(&[("region", "EU")]).unwrap().len(), 2);
        assert!(given(&[]).unwrap_err().message().contains("region"));
        assert!(given(&[("region", "EU"), ("limit", "x")]).is_err());
        assert!(given(&[("region", "EU"), ("typo", "x")]).unwrap_err().message().contains("typo"));
    }

    #[test]
    fn mistakes_in_files_are_told_at_the_start() {
        for wrong in [
            "SELECT 1",
            "-- endpoint: POST /api/x\nSELECT 1",
            "-- endpoint: GET /v1/sql\nSELECT 1",
            "-- endpoint: GET /api/{x}\nSELECT 1",
            "-- endpoint: GET /api/x\nSELECT $undeclared",
            "-- endpoint: GET /api/x\n-- param: a json\nSELECT $a",
            "-- endpoint: GET /api/x\n-- param: a integer = ten\nSELECT $a",
        ] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
