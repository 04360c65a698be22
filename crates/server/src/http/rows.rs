//! Rows as HTTP bodies: made batch by batch, as fast as the client takes them.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{EncoderOptions, make_encoder};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use diligence_base::{Error, Result};
use futures::StreamExt;
use futures::stream::unfold;
use serde_json::json;
use tokio::sync::mpsc;

use super::{QUEUE_HEADER, queue_header};
use crate::path::Path;
use crate::pg::commands::{CopyFormat, CopyOptions};
use crate::pg::copy::{CopyEncoder, Framing};
use crate::pg::encode::{Columns, Form};
use crate::registry::Registered;
use crate::running::Running;
use crate::server::{STALLED_AFTER, Server};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One object: the columns, and rows as arrays.
    Json,
    /// An object a line.
    JsonLines,
    /// Comma-separated values with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// What a template makes of them.
    Html,
}

impl Format {
    /// The format that a client asks for with `Accept`; JSON if it takes anything. `None` if there is none that it
    /// takes.
    pub(crate) fn accepted(headers: &HeaderMap, has_html: bool) -> Option<Self> {
        let Some(accept) = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) else {
            return Some(Format::Json);
        };
        let mut wanted = accept.split(',').map(|part| {
            let (kind, options) = part.split_once(';').unwrap_or((part, ""));
            let weight = options.split(';').find_map(|option| option.trim().strip_prefix("q=")?.parse::<f32>().ok());
            (kind.trim().to_ascii_lowercase(), weight.unwrap_or(1.0))
        });
        let mut wanted = wanted.by_ref().filter(|(_, weight)| *weight > 0.0).collect::<Vec<_>>();
        wanted.sort_by(|left, right| right.1.total_cmp(&left.1));
        wanted.iter().find_map(|(kind, _)| match kind.as_str() {
            "text/html" if has_html => Some(Format::Html),
            "application/json" | "application/*" | "*/*" => Some(Format::Json),
            "application/x-ndjson" | "application/jsonl" => Some(Format::JsonLines),
            "text/csv" | "text/*" => Some(Format::Csv),
            "application/vnd.apache.arrow.stream" => Some(Format::Arrow),
            _ => None,
        })
    }

    /// The format of a name: `json`, `jsonl`, `csv`, `arrow`, `html`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Format::Json,
            "jsonl" => Format::JsonLines,
            "csv" => Format::Csv,
            "arrow" => Format::Arrow,
            "html" => Format::Html,
            _ => return None,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::JsonLines => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Html => "text/html; charset=utf-8",
        }
    }
}

/// Writes batches in a format.
struct Writer {
    format: Format,
    schema: SchemaRef,
    arrow: Option<StreamWriter<Vec<u8>>>,
    rows: u64,
}

impl Writer {
    fn new(format: Format, schema: SchemaRef) -> Result<Self> {
        let arrow = match format {
            Format::Arrow => Some(StreamWriter::try_new(Vec::new(), &schema).map_err(not_written)?),
            _ => None,
        };
        Ok(Self { format, schema, arrow, rows: 0 })
    }

    /// What comes before the rows.
    fn begin(&mut self, query: Option<u64>) -> Vec<u8> {
        match self.format {
            Format::Json => {
                let columns = self.schema.fields().iter().map(|field| {
                    json!({ "name": field.name(), "type": diligence_db::postgres::column_type(field.data_type()).element.sql_name })
                });
                let columns = serde_json::Value::Array(columns.collect());
                format!("{{\"query\":{},\"columns\":{columns},\"rows\":[", json!(query)).into_bytes()
            }
            Format::Csv => csv().header(&self.schema).to_vec(),
            Format::Arrow | Format::JsonLines | Format::Html => Vec::new(),
        }
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match self.format {
            Format::Csv => {
                let rows = Columns::all(&self.schema, Form::Text).rows(batch)?;
                let mut out = BytesMut::new();
                csv().rows(&rows, 0, usize::MAX, Framing::None, &mut BytesMut::new(), &mut out);
                Ok(out.into())
            }
            Format::Arrow => {
                let Some(writer) = self.arrow.as_mut() else {
                    return Err(Error::bug("an Arrow stream without a writer"));
                };
                writer.write(batch).map_err(not_written)?;
                // The next one is about as large: growing to that would copy it several times.
                let next = Vec::with_capacity(writer.get_ref().len());
                Ok(std::mem::replace(writer.get_mut(), next))
            }
            Format::Json | Format::JsonLines | Format::Html => self.json(batch),
        }
    }

    fn json(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let options = EncoderOptions::default().with_explicit_nulls(true);
        let fields = self.schema.fields();
        let encoders = fields.iter().zip(batch.columns()).map(|(field, array)| make_encoder(field, array, &options));
        let mut encoders = encoders.collect::<std::result::Result<Vec<_>, _>>().map_err(not_written)?;
        let names = fields.iter().map(|field| json!(field.name()).to_string()).collect::<Vec<_>>();
        let lines = self.format == Format::JsonLines;
        let (open, close) = if lines { (b'{', b'}') } else { (b'[', b']') };
        let mut out = Vec::new();
        for row in 0..batch.num_rows() {
            if !lines && self.rows > 0 {
                out.push(b',');
            }
            self.rows += 1;
            out.push(open);
            for (index, encoder) in encoders.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                if lines {
                    out.extend_from_slice(names[index].as_bytes());
                    out.push(b':');
                }
                if encoder.is_null(row) {
                    out.extend_from_slice(b"null");
                } else {
                    encoder.encode(row, &mut out);
                }
            }
            out.push(close);
            if lines {
                out.push(b'\n');
            }
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        match (self.format, self.arrow.as_mut()) {
            (Format::Json, _) => Ok(format!("],\"row_count\":{}}}\n", self.rows).into_bytes()),
            (Format::Arrow, Some(writer)) => {
                writer.finish().map_err(not_written)?;
                Ok(std::mem::take(writer.get_mut()))
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn csv() -> CopyEncoder {
    let null = String::new();
    CopyEncoder::new(CopyOptions {
        format: CopyFormat::Csv,
        delimiter: b',',
        null,
        header: true,
        quote: b'"',
        escape: b'"',
    })
}

fn not_written(error: arrow::error::ArrowError) -> Error {
    Error::value(format!("a value cannot be written: {error}"))
}

/// How far a body is.
enum Step {
    First(Vec<u8>),
    Rows,
    End,
}

/// A piece of a body on its way to its connection.
enum Piece {
    Bytes(Bytes),
    /// All is there. A body that ends without it is broken off.
    End,
    Failed(Error),
}

struct Making {
    server: Arc<Server>,
    path: Arc<Path>,
    running: Running,
    writer: Option<Writer>,
    step: Step,
    next: Option<RecordBatch>,
}

/// The answer with a query's rows. An error before the first row is an error; later ones break the body off, so that
/// nobody takes a part for the whole.
pub(crate) async fn response(
    server: &Arc<Server>,
    mut running: Running,
    format: Format,
    entry: Registered,
) -> Result<Response> {
    let schema = running.schema().clone();
    let first = running.next().await.transpose()?;
    let mut writer = Writer::new(format, schema)?;
    let beginning = writer.begin(running.id());
    let (query, queue) = (running.id(), queue_header(running.passed()));
    let making = Making {
        server: server.clone(),
        path: server.path().clone(),
        running,
        writer: Some(writer),
        step: Step::First(beginning),
        next: first,
    };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(making.deliver(sender));
    // Listed until the connection has taken the last piece: what drains waits for that, and one that does not read
    // stays listed.
    let body = unfold(Some((receiver, entry)), |taking| async move {
        let (mut receiver, entry) = taking?;
        match receiver.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some((receiver, entry)))),
            Some(Piece::End) => None,
            Some(Piece::Failed(error)) => Some((Err(std::io::Error::other(error.to_string())), None)),
            None => Some((Err(std::io::Error::other("the answer broke off, as the client did not read")), None)),
        }
    });
    // Whoever compresses it looks once more behind its end.
    let mut response = Response::new(Body::from_stream(body.fuse()));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response.headers_mut().insert(QUEUE_HEADER, queue);
    if let Some(query) = query {
        response.headers_mut().insert("x-query-id", HeaderValue::from(query));
    }
    Ok(response)
}

impl Making {
    /// Makes pieces as fast as they are taken, to the end, or until the connection is gone or nothing was taken for too
    /// long.
    async fn deliver(mut self, sender: mpsc::Sender<Piece>) {
        loop {
            let piece = tokio::select! {
                biased;
                () = sender.closed() => return,
                piece = self.piece() => piece,
            };
            let (piece, is_last) = match piece {
                Ok(Some(bytes)) => (Piece::Bytes(bytes.into()), false),
                Ok(None) => (Piece::End, true),
                Err(error) => (Piece::Failed(error), true),
            };
            let mut waited = Duration::ZERO;
            let place = loop {
                match tokio::time::timeout(STALLED_AFTER, sender.reserve()).await {
                    Ok(Ok(place)) => break place,
                    Ok(Err(_)) => return,
                    Err(_) => {
                        self.running.stall();
                        waited += STALLED_AFTER;
                        if waited >= self.server.options().limits.stall_time_max {
                            return;
                        }
                    }
                }
            };
            place.send(piece);
            if is_last {
                return;
            }
        }
    }

    async fn piece(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match std::mem::replace(&mut self.step, Step::Rows) {
                Step::First(bytes) if bytes.is_empty() => {}
                Step::First(bytes) => return Ok(Some(bytes)),
                Step::End => return Ok(None),
                Step::Rows => {
                    let batch = match self.next.take() {
                        Some(batch) => Some(batch),
                        None => {
                            let server = self.server.clone();
                            tokio::select! {
                                biased;
                                batch = self.running.next() => batch.transpose()?,
                                () = server.stopping_hard() => {
                                    return Err(Error::resource("the server is stopping"));
                                }
                            }
                        }
                    };
                    let Some(mut writer) = self.writer.take() else {
                        return Err(Error::bug("a body without a writer"));
                    };
                    match batch {
                        Some(batch) => {
                            let write = self.path.compute(move || {
                                let bytes = writer.batch(&batch)?;
                                Ok((writer, bytes))
                            });
                            let (writer, bytes) = write.await?;
                            self.writer = Some(writer);
                            if !bytes.is_empty() {
                                return Ok(Some(bytes));
                            }
                        }
                        None => {
                            self.step = Step::End;
                            let bytes = writer.end()?;
                            return Ok((!bytes.is_empty()).then_some(bytes));
                        }
                    }
                }
            }
        }
    }
}

/// All rows at once as JSON objects, for a template. Fails beyond `rows_max`.
pub(crate) async fn objects(
    server: &Arc<Server>,
    mut running: Running,
    rows_max: usize,
) -> Result<Vec<serde_json::Value>> {
    let schema = running.schema().clone();
    let mut objects = Vec::new();
    while let Some(batch) = running.next().await.transpose()? {
        if objects.len() + batch.num_rows() > rows_max {
            let error = Error::resource(format!("a page has at most {rows_max} rows"));
            return Err(error.with_hint("end the query with LIMIT"));
        }
        let mut writer = Writer::new(Format::JsonLines, schema.clone())?;
        let lines = server.path().compute(move || {
            let bytes = writer.batch(&batch)?;
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| serde_json::from_slice(line).map_err(|error| Error::bug(error.to_string()))).collect()
        });
        let lines: Vec<serde_json::Value> = lines.await?;
        objects.extend(lines);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use diligence_db::{Database, DatabaseOptions};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::config::ServerOptions;

    #[test]
    fn clients_get_what_they_accept() {
        let accepted = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(text));
            Format::accepted(&headers, true)
        };
        assert_eq!(accepted("*/*"), Some(Format::Json));
        assert_eq!(accepted("text/html,application/xhtml+xml,*/*;q=0.8"), Some(Format::Html));
        assert_eq!(accepted("text/csv;q=0.5, application/vnd.apache.arrow.stream"), Some(Format::Arrow));
        assert_eq!(accepted("image/png"), None);
        assert_eq!(Format::accepted(&HeaderMap::new(), false), Some(Format::Json));
    }

    /// The body of an answer to a statement, as it comes.
    async fn body(address: std::net::SocketAddr, encoding: &str, sql: &str) -> Vec<u8> {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /v1/sql HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/sql\r\nAccept: text/csv\r\n\
             Accept-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n{sql}",
            sql.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&answer[..end]).unwrap().to_ascii_lowercase();
        assert!(head.contains(" 200 "), "{head}");
        assert_eq!(head.contains(&format!("content-encoding: {encoding}\r\n")), encoding != "identity", "{head}");
        answer.split_off(end)
    }

    #[tokio::test]
    async fn compressed_bodies_come_whole() {
        let database = Database::open(DatabaseOptions::default()).unwrap();
        let http = Some("127.0.0.1:0".parse().unwrap());
        let options = ServerOptions { postgres: None, http, ..ServerOptions::default() };
        let server = Server::start(database, options).await.unwrap();
        let address = server.addresses().http.unwrap();
        for rows in [0, 1, 100_000] {
            let sql = format!("SELECT value AS n FROM generate_series(1, {rows})");
            let plain = body(address, "identity", &sql).await;
            assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), rows + 1);
            let mut gzip = Vec::new();
            let packed = body(address, "gzip", &sql).await;
            flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut gzip).unwrap();
            let zstd = zstd::decode_all(body(address, "zstd", &sql).await.as_slice()).unwrap();
            assert!(gzip == plain && zstd == plain, "{rows}: {} {} {}", gzip.len(), zstd.len(), plain.len());
        }
        server.stop().await;
    }

    #[test]
    fn every_format_writes_the_same_rows() {
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b\"", DataType::Utf8View, true)];
        let schema = Arc::new(Schema::new(fields));
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringViewArray::from(vec![Some("x,\"y\""), None])),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let written = |format, batches: usize| {
            let mut writer = Writer::new(format, schema.clone()).unwrap();
            let mut out = writer.begin(Some(7));
            (0..batches).for_each(|_| out.extend(writer.batch(&batch).unwrap()));
            out.extend(writer.end().unwrap());
            out
        };
        let value: serde_json::Value = serde_json::from_slice(&written(Format::Json, 2)).unwrap();
        assert_eq!(value["rows"], json!([[1, "x,\"y\""], [null, null], [1, "x,\"y\""], [null, null]]));
        assert_eq!((&value["row_count"], &value["columns"][0]["type"]), (&json!(4), &json!("bigint")));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&written(Format::Json, 0)).unwrap()["rows"], json!([]));
        assert_eq!(written(Format::Csv, 1), b"a,\"b\"\"\"\n1,\"x,\"\"y\"\"\"\n,\n");
        assert_eq!(written(Format::JsonLines, 1).iter().filter(|byte| **byte == b'\n').count(), 2);
        let bytes = written(Format::Arrow, 2);
        let reader = arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
        assert_eq!(reader.map(|read| read.unwrap().num_rows()).sum::<usize>(), 4);
    }
}
