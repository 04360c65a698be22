//! As much of HTTP as a benchmark needs: a request on a connection of its own, and the body of the answer.

use std::net::SocketAddr;

use diligence_base::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Sends a request (its first line, then lines of headers, each with its end) and appends the answer's body. Seconds
/// until all of it was there, from the moment of sending. `expected` bytes are made room for before.
pub async fn ask(address: SocketAddr, head: &str, content: &str, expected: usize, body: &mut Vec<u8>) -> Result<f64> {
    let lost = |error: std::io::Error| Error::resource(format!("HTTP: {error}"));
    let mut stream = TcpStream::connect(address).await.map_err(lost)?;
    let length = content.len();
    let request = format!("{head}Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}");
    let mut raw = Vec::with_capacity(expected);
    let start = Instant::now();
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    while stream.read_buf(&mut raw).await.map_err(lost)? > 0 {}
    let took = start.elapsed().as_secs_f64();
    take_body(&raw, body)?;
    Ok(took)
}

fn take_body(raw: &[u8], body: &mut Vec<u8>) -> Result<()> {
    let broken = || Error::value("the answer over HTTP broke off");
    let head = raw.windows(4).position(|four| four == b"\r\n\r\n");
    let head = head.filter(|_| raw.starts_with(b"HTTP/1.1 200")).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(300)]).into_owned();
        Error::value(format!("HTTP answers: {shown}"))
    })?;
    let mut rest = &raw[head + 4..];
    let headers = String::from_utf8_lossy(&raw[..head]).to_ascii_lowercase();
    if let Some(length) = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()) {
        body.extend(rest.get(..length).ok_or_else(broken)?);
        return Ok(());
    }
    // The body comes in chunks: a length in hexadecimal, and so many bytes.
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n");
        let length = end.and_then(|end| usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok());
        let (Some(end), Some(length)) = (end, length) else { return Err(broken()) };
        if length == 0 {
            return Ok(());
        }
        body.extend(rest.get(end + 2..end + 2 + length).ok_or_else(broken)?);
        rest = rest.get(end + 4 + length..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_whole_or_an_error() {
        let of = |raw: &str| {
            let mut body = Vec::new();
            take_body(raw.as_bytes(), &mut body).map(|()| String::from_utf8(body).unwrap()).ok()
        };
        assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Some("abc".to_owned()));
        assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"), None);
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n";
        assert_eq!(of(&format!("{chunks}0\r\n\r\n")), Some("abc".to_owned()));
        assert_eq!(of(chunks), None);
        assert_eq!(of("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), None);
    }
}
