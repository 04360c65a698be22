//! Where connections come from: the network, or a socket among this machine's files.

use std::fmt;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use diligence_base::{Error, Result};
use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};

use crate::accepting::Socket;

/// Clients that the system holds while all places of those who are connecting are taken.
const BACKLOG: u32 = 1024;

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over the network, from there.
    Network(SocketAddr),
    /// Over a socket among the files.
    Local,
}

impl Peer {
    /// Whether nobody beyond this machine can be it.
    pub(crate) fn is_of_this_machine(self) -> bool {
        match self {
            Peer::Network(address) => address.ip().is_loopback(),
            Peer::Local => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Network(address) => address.fmt(f),
            Peer::Local => f.write_str("local"),
        }
    }
}

/// A door.
pub(crate) enum Listener {
    Network(TcpListener),
    Local(LocalListener),
}

impl Listener {
    /// The next connection.
    pub(super) async fn accept(&self) -> std::io::Result<(Box<dyn Socket>, Peer)> {
        Ok(match self {
            Listener::Network(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and wanted now.
                let _ = stream.set_nodelay(true);
                (Box::new(stream), Peer::Network(peer))
            }
            Listener::Local(listener) => (Box::new(listener.listener.accept().await?.0), Peer::Local),
        })
    }
}

/// A socket named as PostgreSQL's tools look for it. Its file is removed when it is dropped.
pub(crate) struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// The socket's file in a directory, for a port.
    pub(crate) fn path(directory: &Path, port: u16) -> PathBuf {
        directory.join(format!(".s.PGSQL.{port}"))
    }

    /// Listens there. Without log-ins (`only_own_user`) nobody but the server's own user, and root, can connect. The
    /// file of a server that was killed is replaced; that of one that answers is an error.
    pub(crate) async fn bind(path: PathBuf, only_own_user: bool) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::resource(format!("cannot listen on {}: {error}", path.display()))
                .with_hint("the directory must exist, be writable, and its name be shorter than 90 bytes")
        };
        match UnixStream::connect(&path).await {
            Ok(_) => return Err(Error::resource(format!("cannot listen on {}: another server does", path.display()))),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(&path) => {
                std::fs::remove_file(&path).map_err(failed)?;
            }
            Err(_) => {}
        }
        let socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(&path).map_err(failed)?;
        // Nobody can connect before it listens.
        let mode = if only_own_user { 0o600 } else { 0o777 };
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        Ok(Self { listener, path })
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_its_users_own_and_goes_with_its_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = LocalListener::path(directory.path(), 5433);
        let first = LocalListener::bind(path.clone(), true).await.unwrap();
        assert_eq!((path.file_name().unwrap(), mode(&path)), (".s.PGSQL.5433".as_ref(), 0o600));
        let taken = LocalListener::bind(path.clone(), true).await.err().unwrap();
        assert!(taken.message().contains("another server does"), "{taken}");
        drop(first);
        assert!(!path.exists());

        // What a killed server leaves.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let second = LocalListener::bind(path.clone(), false).await.unwrap();
        assert_eq!(mode(&path), 0o777);
        drop(second);

        // Anything else with that name stays.
        std::fs::write(&path, "kept").unwrap();
        assert!(LocalListener::bind(path.clone(), true).await.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    }
}
