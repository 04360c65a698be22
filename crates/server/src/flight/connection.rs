//! A connection: its socket, and the sessions that are used over it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use diligence_base::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::held::Held;
use super::session::FlightSession;
use crate::accepting::{Arrived, Socket};

/// What calls know of their connection. It ends with the last of them, and the socket.
pub(super) struct Connection {
    peer: SocketAddr,
    /// Sessions of tokens.
    tokens: Mutex<HashMap<String, Held>>,
    /// Sessions of this connection alone, by their users.
    own: Mutex<HashMap<String, Arc<FlightSession>>>,
}

impl Connection {
    /// Where it is from.
    pub(super) fn peer(&self) -> String {
        self.peer.to_string()
    }

    /// Has it hold a token's session, if it does not yet.
    pub(super) fn holds(&self, token: &str, hold: impl FnOnce() -> Held) {
        self.tokens.lock().entry(token.to_owned()).or_insert_with(hold);
    }

    /// Something of a token's session that it holds.
    pub(super) fn held<T>(&self, token: &str, of: impl FnOnce(&Held) -> T) -> Option<T> {
        self.tokens.lock().get(token).map(of)
    }

    /// The session of a user that belongs to this connection.
    pub(super) fn session(
        &self,
        user: &str,
        open: impl FnOnce() -> Result<Arc<FlightSession>>,
    ) -> Result<Arc<FlightSession>> {
        let mut own = self.own.lock();
        if let Some(session) = own.get(user) {
            return Ok(session.clone());
        }
        let session = open()?;
        own.insert(user.to_owned(), session.clone());
        Ok(session)
    }

    /// Gives a session up.
    pub(super) fn forget(&self, session: &Arc<FlightSession>) {
        self.own.lock().retain(|_, known| !Arc::ptr_eq(known, session));
        self.tokens.lock().retain(|_, held| !held.is_of(session));
    }
}

/// A socket with what is known of its connection.
pub(super) struct FlightSocket {
    socket: Box<dyn Socket>,
    connection: Arc<Connection>,
}

impl FlightSocket {
    pub(super) fn new((socket, peer): Arrived) -> Self {
        let connection = Arc::new(Connection { peer, tokens: Mutex::default(), own: Mutex::default() });
        Self { socket, connection }
    }
}

impl Connected for FlightSocket {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        self.connection.clone()
    }
}

impl AsyncRead for FlightSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for FlightSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
