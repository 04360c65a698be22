//! The byte stream under a connection: TCP, a Unix socket, or TLS over TCP.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Local(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    /// `127.0.0.1:5433`, or the path of a Unix socket. Fails for any other text, with a message for the user.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Address::Tcp(address)),
            Err(_) if text.starts_with('/') => Ok(Address::Local(PathBuf::from(text))),
            Err(_) => Err(format!("'{text}' is neither an address with a port nor the path of a socket")),
        }
    }
}

/// A byte stream to and from a server.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Address::Local(path) => Socket::Local(UnixStream::connect(path).await?),
        })
    }

    /// Whether nobody on the way can read what is sent.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Socket::Tcp(_) => false,
            Socket::Local(_) | Socket::Encrypted(_) => true,
        }
    }

    pub(crate) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(into).await,
            Socket::Local(stream) => stream.read(into).await,
            Socket::Encrypted(stream) => stream.read(into).await,
        }
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(bytes).await,
            Socket::Local(stream) => stream.write_all(bytes).await,
            Socket::Encrypted(stream) => {
                stream.write_all(bytes).await?;
                // Encrypted bytes may be kept back otherwise.
                stream.flush().await
            }
        }
    }

    pub(crate) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown().await,
            Socket::Local(stream) => stream.shutdown().await,
            Socket::Encrypted(stream) => stream.shutdown().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ports_or_sockets() {
        assert_eq!("127.0.0.1:5433".parse(), Ok(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 5433)))));
        assert_eq!("/tmp/.s.PGSQL.5432".parse(), Ok(Address::Local(PathBuf::from("/tmp/.s.PGSQL.5432"))));
        assert!("localhost".parse::<Address>().is_err());
    }
}
