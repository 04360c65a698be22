//! Traces and metrics for OpenTelemetry, sent to a [collector](crate::collector) from time to time.
//!
//! A statement is a span: when it began and ended, by which door it came, and how it ended. It belongs to the trace of
//! its client if that says which one it is, and is a trace of its own otherwise. Metrics are those of `GET /metrics`,
//! by the same names. The form is OTLP's JSON, where 64-bit integers are texts and ids hexadecimal, or what
//! [`protobuf`](crate::protobuf) makes of that.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::collector::{Collector, Form};
use crate::http::Metric;
use crate::measures::{BUCKETS_US, Histogram};
use crate::scram;
use crate::service::Service;
use crate::spans::{Ending, Span};
use crate::{http, protobuf, sqlstate};

/// How often something is sent.
const EVERY: Duration = Duration::from_secs(10);
/// Spans of one message.
const SPANS_AT_ONCE: usize = 512;
/// OTLP's number for counts since the start.
const CUMULATIVE: u8 = 2;
/// OTLP's number for spans of what others have asked for.
const SERVER: u8 = 2;
/// OTLP's number for what failed.
const FAILED: u8 = 2;

/// What is sent, and since when it is counted.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    collector: Collector,
    began: SystemTime,
}

/// Sends traces and metrics from now on, if there is a collector, as long as there is the service.
pub(crate) fn start(service: &Arc<Service>) -> Option<Telemetry> {
    let collector = service.options().collector.clone()?;
    service.execution().measures().spans().keep();
    let telemetry = Telemetry { collector, began: SystemTime::now() };
    let (service, sender) = (Arc::downgrade(service), telemetry.clone());
    tokio::spawn(async move {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(service) = service.upgrade() else { return };
            match sender.send(&service).await {
                Ok(()) => is_failing = false,
                Err(error) if !is_failing => {
                    is_failing = true;
                    let collector = sender.collector.to_string();
                    tracing::warn!(%error, collector, "traces and metrics cannot be sent; what does not arrive is lost");
                }
                Err(_) => {}
            }
        }
    });
    Some(telemetry)
}

impl Telemetry {
    /// Sends the statements that have ended, and what is measured. What cannot be sent is lost.
    pub(crate) async fn send(&self, service: &Service) -> std::io::Result<()> {
        let spans = service.execution().measures().spans();
        loop {
            let ended = spans.take(SPANS_AT_ONCE);
            if ended.is_empty() {
                break;
            }
            let message = traces(&ended);
            let body = match self.collector.form() {
                Form::Json => message.to_string().into_bytes(),
                Form::Protobuf => protobuf::encoded(&message, &protobuf::TRACES),
            };
            self.collector.post("traces", &body).await?;
        }
        let histograms = service.execution().measures().histograms();
        let (began, now) = (nanoseconds(self.began), nanoseconds(SystemTime::now()));
        let message = metrics(&http::metrics_of(service), &histograms, began, now);
        let body = match self.collector.form() {
            Form::Json => message.to_string().into_bytes(),
            Form::Protobuf => protobuf::encoded(&message, &protobuf::METRICS),
        };
        self.collector.post("metrics", &body).await
    }
}

/// A time as OTLP has it.
fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Who sends something.
fn resource() -> Value {
    json!({ "attributes": [
        attribute("service.name", "diligence"),
        attribute("service.version", env!("CARGO_PKG_VERSION")),
        attribute("service.instance.id", &std::process::id().to_string()),
    ] })
}

fn scope() -> Value {
    json!({ "name": "diligence", "version": env!("CARGO_PKG_VERSION") })
}

/// A message about statements.
fn traces(spans: &[Span]) -> Value {
    let spans = spans.iter().map(span).collect::<Vec<_>>();
    json!({ "resourceSpans": [{
        "resource": resource(),
        "scopeSpans": [{ "scope": scope(), "spans": spans }],
    }] })
}

fn span(span: &Span) -> Value {
    let operation = operation(&span.statement);
    let mut attributes = vec![
        attribute("db.system.name", "diligence"),
        attribute("db.operation.name", &operation),
        attribute("db.query.text", &span.statement),
        attribute("user.name", &span.user),
        attribute("diligence.door", span.door),
    ];
    let status = match &span.ending {
        Ending::Done => json!({}),
        Ending::Failed(code, message) => {
            attributes.push(attribute("db.response.status_code", code));
            attributes.push(attribute("error.type", code));
            json!({ "code": FAILED, "message": message })
        }
        Ending::GivenUp => {
            attributes.push(attribute("error.type", sqlstate::CANCELLED));
            json!({ "code": FAILED, "message": "given up: cancelled, or out of time" })
        }
    };
    // Whoever has no random numbers has ids that nobody accepts.
    let id = scram::random(24).unwrap_or_default();
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (trace, own) = id.split_at(id.len().min(16));
    let began = span.ended.checked_sub(span.took).unwrap_or(span.ended);
    let (trace, above) = match &span.parent {
        Some(parent) => (&parent.trace[..], &parent.span[..]),
        None => (trace, &[][..]),
    };
    json!({
        "traceId": hexadecimal(trace), "parentSpanId": hexadecimal(above), "spanId": hexadecimal(own),
        "name": operation, "kind": SERVER,
        "startTimeUnixNano": nanoseconds(began), "endTimeUnixNano": nanoseconds(span.ended),
        "attributes": attributes, "status": status,
    })
}

/// What a statement does, by its first word.
fn operation(statement: &str) -> String {
    let words = statement.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic());
    let word = words.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    if word.is_empty() { "statement".to_owned() } else { word.to_ascii_uppercase() }
}

/// A message with what is measured, since `began`.
fn metrics(all: &[Metric], histograms: &[Histogram], began: String, now: String) -> Value {
    let shown = all.iter().map(|metric| {
        let mut shown = json!({ "name": format!("diligence_{}", metric.name), "description": metric.help });
        let points = |is_counter: bool| {
            let point = |(labels, value): &(String, u64)| {
                let mut point =
                    json!({ "attributes": attributes(labels), "timeUnixNano": now, "asInt": value.to_string() });
                if is_counter {
                    point["startTimeUnixNano"] = began.clone().into();
                }
                point
            };
            metric.values.iter().map(point).collect::<Vec<_>>()
        };
        match metric.kind {
            "histogram" => {
                let points = histograms.iter().map(|one| histogram(one, &began, &now)).collect::<Vec<_>>();
                shown["unit"] = "s".into();
                shown["histogram"] = json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
            }
            "counter" => {
                let sum =
                    json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points(true) });
                shown["sum"] = sum;
            }
            _ => shown["gauge"] = json!({ "dataPoints": points(false) }),
        }
        shown
    });
    let shown = shown.collect::<Vec<_>>();
    json!({ "resourceMetrics": [{
        "resource": resource(),
        "scopeMetrics": [{ "scope": scope(), "metrics": shown }],
    }] })
}

fn histogram(one: &Histogram, began: &str, now: &str) -> Value {
    let ends = one.cumulated.iter().chain([&one.count]);
    let counts = ends.scan(0, |before, end| {
        let count = end.saturating_sub(*before);
        *before = *end;
        Some(count.to_string())
    });
    let counts = counts.collect::<Vec<_>>();
    let bounds = BUCKETS_US.map(|most| most as f64 / 1e6).to_vec();
    json!({
        "attributes": [attribute("door", one.door)], "startTimeUnixNano": began, "timeUnixNano": now,
        "count": one.count.to_string(), "sum": one.sum_us as f64 / 1e6, "bucketCounts": counts,
        "explicitBounds": bounds,
    })
}

/// Labels as Prometheus writes them.
fn attributes(labels: &str) -> Vec<Value> {
    let labels = labels.trim_start_matches('{').trim_end_matches('}');
    let labels = labels.split(',').filter_map(|label| label.split_once('='));
    labels.map(|(key, value)| attribute(key, value.trim_matches('"'))).collect()
}

#[cfg(test)]
mod tests {
    use diligence_db::{Database, DatabaseOptions};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::ServerOptions;
    use crate::server::Server;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// The next request that a collector gets: its first line, and its body.
    async fn request(listener: &TcpListener) -> (String, Value) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut came = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&came).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
                if body.len() >= length.parse::<usize>().unwrap() {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
                    let line = head.lines().next().unwrap_or_default().to_owned();
                    return (line, serde_json::from_str(body).unwrap());
                }
            }
            assert!(stream.read_buf(&mut came).await.unwrap() > 0, "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_collector_gets_statements_and_numbers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/otlp", listener.local_addr().unwrap());
        let database = Database::open(DatabaseOptions { workers: Some(1), ..DatabaseOptions::default() }).unwrap();
        let options = ServerOptions {
            postgres: None,
            http: Some("127.0.0.1:0".parse().unwrap()),
            collector: Some(url.parse().unwrap()),
            ..ServerOptions::default()
        };
        let server = Server::start(database, options).await.unwrap();
        let address = server.addresses().http.unwrap();
        for statement in ["SELECT 1 + value FROM generate_series(1, 3) g(value)", "SELECT * FROM nowhere_at_all"] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = format!(
                "POST /v1/sql HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/sql\r\nContent-Length: {}\r\n\
                 Traceparent: {PARENT}\r\nConnection: close\r\n\r\n{statement}",
                statement.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
        }
        let stopping = {
            let server = server.clone();
            tokio::spawn(async move { server.stop().await })
        };
        let (line, traces) = request(&listener).await;
        assert_eq!(line, "POST /otlp/v1/traces HTTP/1.1");
        let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        let first = &spans[0];
        assert_eq!(first["name"], "SELECT");
        assert_eq!(first["spanId"].as_str().unwrap().len(), 16);
        assert_eq!(
            format!("00-{}-{}-01", first["traceId"].as_str().unwrap(), first["parentSpanId"].as_str().unwrap()),
            PARENT
        );
        let times = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| first[name].as_str().unwrap().len());
        assert_eq!(times, [19, 19]);
        let (line, metrics) = request(&listener).await;
        assert_eq!(line, "POST /otlp/v1/metrics HTTP/1.1");
        let all = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
        let named = |name: &str| all.iter().find(|metric| metric["name"] == name).unwrap().clone();
        assert!(named("diligence_sessions")["gauge"]["dataPoints"][0]["asInt"].is_string());
        let errors = named("diligence_errors_total")["sum"]["dataPoints"][0].clone();
        assert_eq!(errors["attributes"][0]["value"]["stringValue"], "42P01");
        let times = named("diligence_statement_seconds")["histogram"]["dataPoints"].as_array().unwrap().clone();
        let of_http = times.iter().find(|one| one["attributes"][0]["value"]["stringValue"] == "http").unwrap();
        assert_eq!(of_http["bucketCounts"].as_array().unwrap().len(), BUCKETS_US.len() + 1);
        let sum = |counts: &Value| {
            let counts = counts.as_array().unwrap().iter();
            counts.map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum::<u64>()
        };
        assert_eq!(sum(&of_http["bucketCounts"]).to_string(), of_http["count"].as_str().unwrap());
        stopping.await.unwrap();
    }

    #[test]
    fn spans_say_how_statements_ended() {
        let of = |statement: &str, ending| {
            let (ended, took) = (SystemTime::now(), Duration::from_millis(3));
            let (user, statement) = ("ann".to_owned(), statement.to_owned());
            span(&Span { ended, took, door: "http", user, statement, ending, parent: None })
        };
        let failed = of("  (select 1", Ending::Failed("42601", "no".to_owned()));
        assert_eq!((&failed["name"], &failed["status"]["code"]), (&json!("SELECT"), &json!(2)));
        assert!(failed["attributes"].to_string().contains("42601"));
        assert_eq!((failed["traceId"].as_str().unwrap().len(), &failed["parentSpanId"]), (32, &json!("")));
        assert_eq!(of("1", Ending::Done)["name"], "statement");
        assert_eq!(attributes("{a=\"b c\",d=\"e\"}"), [attribute("a", "b c"), attribute("d", "e")]);
        assert!(attributes("").is_empty());
    }
}
