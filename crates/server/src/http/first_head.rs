//! Connections that have so much time for the head of their first request: one that says nothing, or says it byte by
//! byte, costs a file descriptor that others need.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::accepting::Socket;

/// A connection. Reading from it fails when its time is over and the head is not there.
pub(super) struct Hurried {
    socket: Box<dyn Socket>,
    /// Until the head is there.
    head: Option<Head>,
}

/// A head of which something is missing.
struct Head {
    until: Pin<Box<Sleep>>,
    /// Line ends without anything between them at the end of what has come.
    line_ends: u8,
}

impl Hurried {
    pub(super) fn new(socket: Box<dyn Socket>, time: Duration) -> Self {
        Self { socket, head: Some(Head { until: Box::pin(tokio::time::sleep(time)), line_ends: 0 }) }
    }
}

impl Head {
    /// Whether the head ends in these bytes: with an empty line.
    fn ends_in(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| {
            match byte {
                b'\n' => self.line_ends += 1,
                b'\r' => {}
                _ => self.line_ends = 0,
            }
            self.line_ends == 2
        })
    }
}

impl AsyncRead for Hurried {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { socket, head } = self.get_mut();
        let before = into.filled().len();
        let read = Pin::new(socket).poll_read(context, into);
        if let Some(missing) = head {
            if missing.ends_in(&into.filled()[before..]) {
                *head = None;
            } else if missing.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for Hurried {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_head_has_its_time_and_what_follows_has_more() {
        let time = Duration::from_millis(50);
        let hurried = || {
            let (client, server) = duplex(1000);
            (client, Hurried::new(Box::new(server), time))
        };
        for begun in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n", "\r\nGET"] {
            let (mut client, mut server) = hurried();
            client.write_all(begun.as_bytes()).await.unwrap();
            let read = server.read_to_end(&mut Vec::new()).await;
            assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut), "{begun}");
        }
        for head in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\n\n"] {
            let (mut client, mut server) = hurried();
            let (one, other) = head.split_at(head.len() - 1);
            let mut got = vec![0; head.len()];
            client.write_all(one.as_bytes()).await.unwrap();
            server.read_exact(&mut got[..one.len()]).await.unwrap();
            client.write_all(other.as_bytes()).await.unwrap();
            server.read_exact(&mut got[one.len()..]).await.unwrap();
            tokio::time::sleep(2 * time).await;
            client.write_all(b"x").await.unwrap();
            assert_eq!(server.read_u8().await.unwrap(), b'x', "{head}");
        }
    }
}
