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
//! The life of a request: its path and method say which endpoint it is for ([`serve`]); its query string, path and body
//! give values ([`given`]). An endpoint for GET is a query, whose rows go out as they come ([`reading`]). One for POST,
//! PUT, PATCH or DELETE is a script in one transaction ([`changing`]), which pages of others cannot call ([`origin`]).
//!
//! This is the integrated web and database server of Harizopoulos, "Staged Database Systems" (thesis proposal), section
//! 4.4.2.

mod changing;
mod file;
mod given;
mod origin;
mod reading;
mod redirect;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diligence_base::seams::{Disk, LocalDisk};
use diligence_base::{Error, Result};
use minijinja::Environment;

pub(super) use self::file::{Endpoint, Kind};
use self::given::GivenValues;
use super::{Caller, Refused, wanted_types};
use crate::encoding::formats::Format;
use crate::roles::Role;
use crate::service::Service;
use crate::sqlstate;

/// The endpoints of a folder.
pub(super) struct Endpoints {
    endpoints: Vec<Endpoint>,
    /// Their files.
    files: Vec<PathBuf>,
    templates: Environment<'static>,
}

/// SQLSTATEs of statements with names that stand for nothing, and of those that are none.
const NAMELESS: [&str; 6] = ["42P01", "42703", "42883", "42704", "3F000", "42601"];

/// Mistakes as one error.
fn together(mut mistakes: Vec<Error>) -> Option<Error> {
    if mistakes.len() < 2 {
        return mistakes.pop();
    }
    let line = |error: &Error| match error.hint() {
        Some(hint) => format!("\n  {} ({hint})", error.message()),
        None => format!("\n  {}", error.message()),
    };
    let lines = mistakes.iter().map(line).collect::<String>();
    Some(Error::input(format!("the endpoints have {} mistakes:{lines}", mistakes.len())))
}

/// A path with the endpoints of its methods.
pub(super) struct Route {
    /// As the router wants it: parameters are called by their place.
    pub(super) path: String,
    /// Places of endpoints.
    endpoints: Vec<usize>,
}

impl Endpoints {
    /// Reads a folder; without one there are none. Fails if it cannot be read, or files make no sense; then the
    /// mistakes of all of them are told.
    pub(super) fn read(folder: Option<&Path>) -> Result<Self> {
        let mut all = Self { endpoints: Vec::new(), files: Vec::new(), templates: Environment::new() };
        let Some(folder) = folder else { return Ok(all) };
        let unreadable = |path: &Path, error: std::io::Error| Error::file(format!("{}: {error}", path.display()));
        let mut mistakes = Vec::new();
        let listed = LocalDisk.list(folder);
        let listed = listed.map_err(|error| unreadable(folder, error).context("the directory of endpoints"))?;
        for path in listed {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if ["sql", "html"].contains(&extension) && LocalDisk.is_file(&path) {
                let text = LocalDisk.read_text(&path).map_err(|error| unreadable(&path, error))?;
                let added = if extension == "html" { all.add_template(&path, text) } else { all.add(&path, &text) };
                mistakes.extend(added.err().map(|error| error.context(path.display())));
            }
        }
        for (endpoint, path) in all.endpoints.iter().zip(&all.files) {
            if let Some(template) = &endpoint.template
                && all.templates.get_template(template).is_err()
            {
                let text =
                    format!("the endpoint {endpoint} wants the template '{template}', which is not in the folder");
                mistakes.push(Error::input(text).context(path.display()));
            }
        }
        together(mistakes).map_or(Ok(all), Err)
    }

    fn add_template(&mut self, path: &Path, text: String) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        self.templates.add_template_owned(name, text).map_err(|error| Error::input(format!("{error:#}")))
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let endpoint = Endpoint::parse(text)?;
        let is_same = |other: &&Endpoint| other.method == endpoint.method && other.route() == endpoint.route();
        if let Some(other) = self.endpoints.iter().find(is_same) {
            return Err(Error::input(format!("another file has the endpoint {other} already")));
        }
        self.endpoints.push(endpoint);
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Plans the statements of all endpoints. Fails if names in them stand for nothing: tables, columns, functions.
    /// What is behind a statement that makes or changes such things is not looked at.
    pub(super) async fn check(&self, service: &Arc<Service>) -> Result<()> {
        let mut mistakes = Vec::new();
        for (endpoint, path) in self.endpoints.iter().zip(&self.files) {
            let Err(error) = endpoint.check_names(service).await else { continue };
            match NAMELESS.contains(&sqlstate::of(&error)) {
                true => mistakes.push(error.context(path.display())),
                false => tracing::warn!(file = %path.display(), %error, "an endpoint may not work"),
            }
        }
        together(mistakes).map_or(Ok(()), Err)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter()
    }

    /// The paths.
    pub(super) fn routes(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for (place, endpoint) in self.endpoints.iter().enumerate() {
            let path = endpoint.route();
            match routes.iter_mut().find(|route| route.path == path) {
                Some(route) => route.endpoints.push(place),
                None => routes.push(Route { path, endpoints: vec![place] }),
            }
        }
        routes
    }

    /// The endpoint of a route for a method.
    fn of_method(&self, route: &Route, method: &Method) -> Option<&Endpoint> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        route.endpoints.iter().map(|place| &self.endpoints[*place]).find(|endpoint| endpoint.method == *method)
    }

    /// The methods of a route.
    fn allowed(&self, route: &Route) -> String {
        let mut methods =
            route.endpoints.iter().map(|place| self.endpoints[*place].method.as_str()).collect::<Vec<_>>();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.join(", ")
    }
}

impl Endpoint {
    /// Plans its statements, up to the first that makes or changes something that has a name. Fails as planning does.
    async fn check_names(&self, service: &Arc<Service>) -> Result<()> {
        let role = Role::none(true);
        let session = service.database().session_with(role.endpoint_options(!self.is_reading()));
        for statement in &self.statements {
            let code =
                statement.sql.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("--"));
            let word = code.and_then(|code| code.split_whitespace().next()).unwrap_or_default();
            if ["create", "alter", "drop", "attach", "set"].iter().any(|defining| word.eq_ignore_ascii_case(defining)) {
                return Ok(());
            }
            let types = statement.parameters.iter().map(|place| Some(self.parameters[*place].data_type()));
            let (own, sql, types) = (session.clone(), statement.sql.clone(), types.collect::<Vec<_>>());
            let describe = move || own.parse(&sql).and_then(|parsed| own.describe(&parsed, &types)).map(drop);
            service.execution().compute(describe).await?;
        }
        Ok(())
    }

    /// Its path as the router wants it. Equal for paths that the same requests fit.
    fn route(&self) -> String {
        let mut place = 0;
        let segments = self.path.split('/').map(|segment| match segment.starts_with('{') {
            true => {
                place += 1;
                format!("{{p{place}}}")
            }
            false => segment.to_owned(),
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A request for an endpoint, with what it gives.
struct Asked<'a> {
    service: &'a Arc<Service>,
    all: &'a Endpoints,
    endpoint: &'a Endpoint,
    caller: &'a Caller,
    given: GivenValues,
    headers: &'a HeaderMap,
    /// Whether only the head of the answer is wanted.
    is_head: bool,
}

/// Answers a request for a path.
pub(super) async fn serve(
    State(service): State<Arc<Service>>,
    all: Arc<Endpoints>,
    route: Arc<Route>,
    request: Request,
) -> Response {
    answered(&service, &all, &route, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answered(
    service: &Arc<Service>,
    all: &Endpoints,
    route: &Route,
    request: Request,
) -> Result<Response, Refused> {
    let (mut parts, body) = request.into_parts();
    let Some(caller) = parts.extensions.get::<Caller>().cloned() else {
        return Err(Error::bug("a request that nobody looked at").into());
    };
    let Some(endpoint) = all.of_method(route, &parts.method) else {
        return Ok(other_method(&parts.method, &all.allowed(route)));
    };
    if !endpoint.is_reading() {
        origin::check(&parts.headers)?;
    }
    caller.role.check_endpoint(endpoint.method.as_str(), &endpoint.path)?;
    let in_path = RawPathParams::from_request_parts(&mut parts, &()).await;
    let in_path = in_path.map_err(|error| Error::input(error.body_text()).with_code("22021"))?;
    let in_path = in_path.iter().map(|(_, value)| value.to_owned()).collect();
    let bytes_max = service.options().limits.message_bytes_max;
    let given = endpoint.given(parts.uri.query(), in_path, &parts.headers, body, bytes_max).await?;
    let is_head = parts.method == Method::HEAD;
    let asked = Asked { service, all, endpoint, caller: &caller, given, headers: &parts.headers, is_head };
    let format = asked.format()?;
    let mut answer = match endpoint.is_reading() {
        true => asked.read(format).await?,
        false => asked.change(format).await?,
    };
    answer.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

/// What a method gets that the path has no endpoint for.
fn other_method(method: &Method, allowed: &str) -> Response {
    let mut response = match *method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => {
            let error = Error::input(format!("this path does not take {method}"));
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, error.with_hint(format!("it takes {allowed}"))).into_response()
        }
    };
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

impl Asked<'_> {
    /// The format of the answer.
    fn format(&self) -> Result<Format, Refused> {
        let has_html = self.endpoint.template.is_some() || self.endpoint.redirect.is_some();
        let format = match self.given.format() {
            Some(name) => Format::named(name),
            None => Format::accepted(wanted_types(self.headers), has_html),
        };
        format.filter(|format| *format != Format::Html || has_html).ok_or_else(|| {
            let names = if has_html { "json, jsonl, csv, arrow, html" } else { "json, jsonl, csv, arrow" };
            let error = Error::input("this endpoint has no such format").with_code("22023");
            let hint = format!("?format= is one of: {names}; Accept is one of their media types");
            Refused::new(StatusCode::NOT_ACCEPTABLE, error.with_hint(hint))
        })
    }

    /// The page that the endpoint's template makes of rows.
    fn page(&self, columns: &[String], rows: &[serde_json::Value]) -> Result<String> {
        let template = self.endpoint.template.as_deref().unwrap_or_default();
        let context = minijinja::context! { columns, rows, parameters => self.given.shown() };
        let text = self.all.templates.get_template(template).and_then(|template| template.render(context));
        text.map_err(|error| Error::input(format!("the template '{template}': {error:#}")))
    }
}
