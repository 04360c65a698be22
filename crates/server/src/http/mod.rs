//! HTTP: SQL in, rows out; endpoints made of SQL files; and what operators of a server look at.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/sql` | a statement's rows as JSON, CSV or an Arrow stream ([`sql`]) |
//! | `GET /v1/queries`, `DELETE /v1/queries/{id}` | what runs; cancels it |
//! | `GET /v1/status` | the stages, workers and memory ([`status`]) |
//! | `GET /` | the console in the browser ([`console`]) |
//! | an endpoint | the rows of its file's statements ([`endpoints`]), described in `GET /openapi.json` |
//! | `GET` of a file beside the endpoints | the file ([`public`]) |
//! | `GET /metrics`, `/healthz`, `/readyz` | for Prometheus and for whoever restarts servers |
//!
//! Without users only this machine is served, and only under a name that cannot belong to somebody else: a page from
//! the internet must not reach the database through its reader's browser.

mod console;
mod endpoints;
mod first_head;
mod metrics;
mod notices;
mod openapi;
mod placeholders;
mod public;
mod rows;
mod script;
mod sql;
mod status;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::serve::Listener;
use axum::{Extension, Router};
use diligence_base::{Error, ErrorKind, Result};
use diligence_db::{Facts, Isolation, Session, SessionOptions};
use parking_lot::RwLock;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::codegen::Service as _;
use tower_http::compression::CompressionLayer;

use self::first_head::Hurried;
pub(crate) use self::metrics::{Metric, metrics_of};
use crate::accepting::{Arrived, Socket, accepted};
use crate::admission::{Asker, Passed};
use crate::registry::{Entry, Registered};
use crate::roles::Role;
use crate::service::{Service, basic_credentials};
use crate::spans::Parent;
use crate::sqlstate;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    user: String,
    role: Arc<Role>,
    /// What of the client the request belongs to.
    parent: Option<Parent>,
}

impl Caller {
    /// A session for one request, and its entry in the list of sessions.
    fn session(&self, service: &Arc<Service>) -> Result<(Session, Registered)> {
        self.session_with(service, self.role.options_of(&self.user))
    }

    /// The same, to do what `options` allow.
    fn session_with(&self, service: &Arc<Service>, options: SessionOptions) -> Result<(Session, Registered)> {
        if service.is_stopping() {
            return Err(Error::resource("the server is stopping").with_code(sqlstate::SHUTDOWN));
        }
        let entry = service.registry().register("http", &self.user, String::new(), 4)?;
        let session = service.database().session_with(options);
        session.set_facts(Facts { user: self.user.clone(), process_id: entry.id, ..Facts::default() });
        Ok((session, entry))
    }

    /// The caller at the door to the engine.
    fn asker(&self) -> Asker {
        Asker::new(&self.user, self.role.clone()).at("http").under(self.parent)
    }

    /// Whether the caller may see the query, and end it: his own, unless he is an administrator.
    fn may_touch(&self, owner: Option<&str>) -> bool {
        self.role.admin || owner == Some(self.user.as_str())
    }
}

/// All routes, which others may replace while the server runs.
pub(crate) type Routes = Arc<RwLock<Router>>;

/// All routes, with the endpoints of a folder. Fails if the folder cannot be read, or endpoints make no sense; then all
/// their mistakes are told.
pub(crate) async fn router(service: &Arc<Service>, folder: Option<&std::path::Path>) -> Result<Router> {
    let endpoints = endpoints::Endpoints::read(folder)?;
    if service.options().check_endpoints {
        endpoints.check(service).await?;
    }
    let endpoints = Arc::new(endpoints);
    let description = openapi::description(&endpoints);
    let mut guarded = Router::new()
        .route("/v1/sql", post(sql::run).layer(DefaultBodyLimit::max(service.options().limits.message_bytes_max)))
        .route("/v1/queries", get(queries))
        .route("/v1/queries/{id}", delete(cancel))
        .route("/v1/status", get(status::status))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(move || async move { axum::Json(description) }));
    for route in endpoints.routes() {
        let (all, path, route) = (endpoints.clone(), route.path.clone(), Arc::new(route));
        let serve = move |state: State<Arc<Service>>, request: Request| endpoints::serve(state, all, route, request);
        guarded = guarded.route(&path, any(serve));
    }
    for file in console::FILES {
        guarded = guarded.route(file.path, get(move |headers: HeaderMap| async move { file.answer(&headers) }));
    }
    guarded = match public::Public::of(folder)? {
        Some(public) => guarded.fallback(move |request: Request| public.serve(request)),
        None => guarded.fallback(nowhere),
    };
    let guarded = guarded.layer(from_fn_with_state(service.clone(), guard)).layer(CompressionLayer::new());
    Ok(Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .merge(guarded)
        .with_state(service.clone()))
}

/// The answer for a path that leads nowhere.
async fn nowhere(request: Request) -> Response {
    let error = Error::input(format!("there is nothing at {}", request.uri().path()));
    let error =
        error.with_hint("/openapi.json lists the endpoints; statements go to POST /v1/sql, and / is the console");
    Refused::new(StatusCode::NOT_FOUND, error).into_response()
}

/// Lets requests of those who may come through.
async fn guard(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let parent = request.headers().get("traceparent").and_then(|parent| Parent::parse(parent.to_str().ok()?));
    let caller = match &service.options().users {
        None => {
            if !is_own_name(request.headers()) {
                let error = Error::input("this server answers to its own address only");
                let hint = "use http://127.0.0.1 or http://localhost, or have users log in";
                return failure(&error.with_code(sqlstate::DENIED).with_hint(hint));
            }
            Caller { user: "diligence".to_owned(), role: Arc::new(Role::none(service.options().files)), parent }
        }
        Some(_) => {
            let Some((user, password)) = credentials(request.headers()) else {
                return unauthorized("a user and a password are needed", request.headers());
            };
            match service.log_in(&user, password, ("http", "")).await {
                Ok(Some(role)) => Caller { user, role, parent },
                Ok(None) => return unauthorized("the user's name or password is wrong", request.headers()),
                Err(error) => return failure(&error),
            }
        }
    };
    request.extensions_mut().insert(caller);
    explained(next.run(request).await).await
}

/// Bytes of what a refusal says of itself.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The answer; with an error as all others have it, if the router refused the request in words of its own.
async fn explained(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_refusal = status.is_client_error() && kind.is_some_and(|kind| kind.starts_with("text/plain"));
    if !is_refusal {
        return response;
    }
    let said = axum::body::to_bytes(response.into_body(), REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let what = match said.trim() {
        "" => status.canonical_reason().unwrap_or("the request is refused"),
        said => said,
    };
    Refused::new(status, Error::input(what)).into_response()
}

/// The answer; with an error that says which methods there are, if the router knows the path but not the method.
fn with_methods(response: Response, method: &Method, path: &str) -> Response {
    let has_body = response.headers().contains_key(header::CONTENT_TYPE);
    if response.status() != StatusCode::METHOD_NOT_ALLOWED || has_body {
        return response;
    }
    let allowed = response.headers().get(header::ALLOW).cloned();
    let listed = allowed.as_ref().and_then(|allowed| allowed.to_str().ok()).unwrap_or("other methods");
    let listed = listed.split(',').collect::<Vec<_>>().join(", ");
    let error = Error::input(format!("{path} does not take {method}")).with_hint(format!("it takes {listed}"));
    let mut response = Refused::new(StatusCode::METHOD_NOT_ALLOWED, error).into_response();
    if let Some(allowed) = allowed {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

/// Whether the request is for an address or for `localhost`: a name of the internet that leads here is somebody's
/// trick.
fn is_own_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    if host.parse::<SocketAddr>().is_ok() || host.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
}

fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    basic_credentials(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

fn unauthorized(what: &str, headers: &HeaderMap) -> Response {
    let error = Error::input(what).with_code("28P01");
    // What is shown in another way is no password that is missing.
    let is_other = headers.contains_key(header::AUTHORIZATION) && credentials(headers).is_none();
    let error = match is_other {
        true => error.with_hint("send them by the Basic scheme: Authorization: Basic …, as curl -u NAME:PASSWORD does"),
        false => error,
    };
    let mut response = (StatusCode::UNAUTHORIZED, axum::Json(error_json(&error))).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"diligence\""));
    response
}

fn error_json(error: &Error) -> serde_json::Value {
    let place = error.span().map(|span| json!({ "line": span.line, "column": span.column }));
    let about = error.about();
    json!({ "error": {
        "code": sqlstate::of(error),
        "message": error.message(),
        "detail": error.detail(),
        "hint": error.hint(),
        "place": place,
        "schema": about.schema,
        "table": about.table,
        "column": about.column,
        "constraint": about.constraint,
    }})
}

/// The answer for an error.
pub(crate) fn failure(error: &Error) -> Response {
    Refused::from(error.clone()).into_response()
}

/// An error with the status of its answer.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    error: Error,
}

impl Refused {
    fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(sqlstate::http_status(&error)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, error }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(error_json(&self.error))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE || self.error.kind() == ErrorKind::Retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// What a transaction sees of others, by its name in SQL.
fn isolation(text: &str) -> Option<Isolation> {
    let words = text.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>().join(" ");
    Some(match words.as_str() {
        "read committed" | "read uncommitted" => Isolation::ReadCommitted,
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => return None,
    })
}

/// Fails with 0A000 if a request's body is compressed: it would be read as what it is not.
fn refuse_encoded(headers: &HeaderMap) -> Result<()> {
    let encoding =
        headers.get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok()).unwrap_or_default();
    if matches!(encoding.trim().to_ascii_lowercase().as_str(), "" | "identity") {
        return Ok(());
    }
    let error = Error::unsupported(format!("a body with Content-Encoding '{encoding}' is not read")).with_code("0A000");
    Err(error.with_hint("send it as it is; answers are compressed for clients that accept that"))
}

/// What a client accepts, if it says so.
fn wanted_types(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT)?.to_str().ok()
}

/// Whether the client shows the tag: it has the answer.
fn shows(headers: &HeaderMap, tag: &str) -> bool {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let shown = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|shown| shown.to_str().ok());
    shown.flat_map(|shown| shown.split(',')).any(|shown| shown.trim() == "*" || plain(shown) == plain(tag))
}

/// What clients are told of how their query was let in: its class, and where it stood in line and for how long.
const QUEUE_HEADER: &str = "diligence-queue";

/// The header's value: an item with parameters, as RFC 9651 writes them.
fn queue_header(passed: &Passed) -> HeaderValue {
    let waited = passed.place.as_ref().map(|place| {
        let reason = place.reason.to_string().replace(['"', '\\'], "'");
        let milliseconds = passed.waited.as_millis();
        format!(";position={};waited_ms={milliseconds};reason=\"{reason}\"", place.position)
    });
    let text = format!("{}{}", passed.class, waited.unwrap_or_default());
    // A role's name may have characters that a header cannot have.
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("waited"))
}

/// Has an answer begin within so much time; zero for as long as it takes. The time is for the first row: a client that
/// wants no more rows closes its connection.
async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    if limit.is_zero() {
        return answer.await;
    }
    let late = |_| {
        let error = Error::new(ErrorKind::Cancelled, "the statement took longer than allowed");
        let error = error.with_code(sqlstate::CANCELLED);
        error.with_hint("timeout_ms of the request, --statement-timeout and the time of the user's role limit it")
    };
    tokio::time::timeout(limit, answer).await.map_err(late)?
}

/// Has work end when somebody ends the session that it is of, or its statement.
async fn unless_stopped<T>(entry: Arc<Entry>, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        stopped = entry.stopped() => Err(stopped),
    }
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    if service.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response()
    } else {
        "ready\n".into_response()
    }
}

/// What the caller may see of the engine's queries, and of those that wait to be let in.
async fn queries(State(service): State<Arc<Service>>, Extension(caller): Extension<Caller>) -> Response {
    let execution = service.execution();
    let mut queries = execution.database().status().queries();
    queries.retain(|query| caller.may_touch(execution.owner(query.id.0).as_deref()));
    let listed = queries.into_iter().map(|query| {
        json!({
            "id": query.id.0,
            "state": query.state.name(),
            "statement": query.label,
            "elapsed_us": query.elapsed_ns / 1000,
            "clusters_done": query.clusters_done,
            "clusters_total": query.clusters_total,
            "packets": query.packets,
            "memory_bytes": query.memory_bytes,
            "memory_peak_bytes": query.memory_peak_bytes,
            "sharing": query.sharing,
            "error": query.error.map(|error| error.message().to_owned()),
        })
    });
    let waiting = execution.admission().waiting().into_iter().filter(|(user, _)| caller.may_touch(Some(user)));
    let waiting = waiting.map(|(_, query)| {
        json!({
            "id": query.id,
            "state": "waiting",
            "statement": query.statement,
            "elapsed_us": query.waited.as_micros() as u64,
            "position": query.position,
            "reason": query.reason,
        })
    });
    axum::Json(json!({ "queries": listed.chain(waiting).collect::<Vec<_>>() })).into_response()
}

async fn cancel(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Path(number): Path<i64>,
) -> Response {
    // To others it is not there.
    if service.execution().cancel(number, |owner| caller.may_touch(owner)) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let error = Error::input(format!("no query with the number {number} runs or waits")).with_code("42704");
    (StatusCode::NOT_FOUND, axum::Json(error_json(&error))).into_response()
}

/// Serves until the server stops.
pub(crate) async fn listen(service: Arc<Service>, listener: TcpListener, routes: Routes) {
    let Ok(address) = listener.local_addr() else { return };
    let accepted = accepted(service.clone(), listener, service.tls().cloned());
    let (until, of) = (service.clone(), service);
    let stopping = async move { until.stopping().await };
    let current = move |request: Request| {
        let mut router = routes.read().clone();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        async move { router.call(request).await.map(|response| with_methods(response, &method, &path)) }
    };
    let router = Router::new().fallback(current);
    // It only ends with the server.
    let _ = axum::serve(Accepted { accepted, address, service: of }, router).with_graceful_shutdown(stopping).await;
}

/// Connections that are ready: encryption is negotiated elsewhere, so that a slow client holds up nobody.
struct Accepted {
    accepted: mpsc::Receiver<Arrived>,
    address: SocketAddr,
    service: Arc<Service>,
}

impl Listener for Accepted {
    type Io = Box<dyn Socket>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some((socket, peer)) => {
                let hurried = Hurried::new(socket, self.service.options().limits.connect_time_max);
                (Box::new(hurried) as Self::Io, peer)
            }
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}
