//! Rows as HTTP bodies: made batch by batch, as fast as the client takes them.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use diligence_base::{Error, Result};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};

use super::{QUEUE_HEADER, notices, queue_header};
use crate::encoding::formats::{BodyWriter, Format};
use crate::execution::{Making, RunningStatement, delivered};
use crate::registry::{Entry, Registered};
use crate::service::Service;

/// How far a body is.
enum Step {
    First(Vec<u8>),
    Rows,
    End,
}

/// A body that is being made.
struct BodyMaking {
    service: Arc<Service>,
    /// Whose session it is.
    told: Arc<Entry>,
    running: RunningStatement,
    writer: Option<BodyWriter>,
    step: Step,
    next: Option<RecordBatch>,
}

/// The answer with a query's rows. An error before the first row is an error; later ones break the body off, so that
/// nobody takes a part for the whole.
pub(crate) async fn response(
    service: &Arc<Service>,
    mut running: RunningStatement,
    format: Format,
    entry: Registered,
) -> Result<Response> {
    let schema = running.schema().clone();
    let first = running.next().await.transpose()?;
    let mut writer = BodyWriter::new(format, schema)?;
    let beginning = writer.begin(running.id());
    let said = if format == Format::Json { vec![] } else { notices::taken(&running.printed()) };
    let (query, queue) = (running.id(), queue_header(running.passed()));
    let making = BodyMaking {
        service: service.clone(),
        told: entry.told(),
        running,
        writer: Some(writer),
        step: Step::First(beginning),
        next: first,
    };
    // Listed until the connection has taken the last piece: what drains waits for that, and one that does not read
    // stays listed.
    let body = delivered(making, entry).map_err(|error| std::io::Error::other(error.to_string()));
    // Whoever compresses it looks once more behind its end.
    let mut response = Response::new(Body::from_stream(body.fuse()));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response.headers_mut().insert(QUEUE_HEADER, queue);
    notices::add_header(&mut response, &said);
    if let Some(query) = query {
        response.headers_mut().insert("x-query-id", HeaderValue::from(query));
    }
    Ok(response)
}

impl Making for BodyMaking {
    type Piece = Bytes;

    async fn piece(&mut self) -> Result<Option<Bytes>> {
        Ok(self.bytes().await?.map(Bytes::from))
    }

    fn stall(&mut self) {
        self.running.stall();
    }

    fn stall_time_max(&self) -> Duration {
        self.service.options().limits.stall_time_max
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        let told = self.told.clone();
        Box::pin(async move {
            told.stopped().await;
        })
    }
}

impl BodyMaking {
    async fn bytes(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match std::mem::replace(&mut self.step, Step::Rows) {
                Step::First(bytes) if bytes.is_empty() => {}
                Step::First(bytes) => return Ok(Some(bytes)),
                Step::End => return Ok(None),
                Step::Rows => {
                    let batch = match self.next.take() {
                        Some(batch) => Some(batch),
                        None => {
                            let (service, told) = (self.service.clone(), self.told.clone());
                            tokio::select! {
                                biased;
                                batch = self.running.next() => batch.transpose()?,
                                stopped = told.stopped() => return Err(stopped),
                                () = service.stopping_hard() => {
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
                            let write = self.service.execution().compute(move || {
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
                            let bytes = writer.end(&notices::taken(&self.running.printed()))?;
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
    service: &Arc<Service>,
    mut running: RunningStatement,
    rows_max: usize,
) -> Result<Vec<serde_json::Value>> {
    let schema = running.schema().clone();
    let mut objects = Vec::new();
    while let Some(batch) = running.next().await.transpose()? {
        if objects.len() + batch.num_rows() > rows_max {
            let error = Error::resource(format!("a page has at most {rows_max} rows"));
            return Err(error.with_hint("end the query with LIMIT"));
        }
        let mut writer = BodyWriter::new(Format::JsonLines, schema.clone())?;
        let lines = service.execution().compute(move || {
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

    use diligence_db::{Database, DatabaseOptions};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::config::ServerOptions;
    use crate::server::Server;

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
            let sql = format!("SELECT n FROM generate_series(1, {rows}) AS n ORDER BY n");
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
}
