//! Connections that arrive at a door, encrypted where the server has a certificate.
//!
//! Encryption is negotiated here, so that a client that is slow at it holds up nobody.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::service::Service;

/// Connections whose TLS handshake is done and that wait to be served.
const ACCEPTED_MAX: usize = 64;
/// The rest after a connection could not be taken: out of file descriptors, most likely, so others have to leave first.
const REST: Duration = Duration::from_millis(50);

/// Bytes in both directions.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A connection, and where it is from.
pub(crate) type Arrived = (Box<dyn Socket>, SocketAddr);

/// Connections that are ready, until the server stops.
pub(crate) fn accepted(
    service: Arc<Service>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) -> mpsc::Receiver<Arrived> {
    let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
    tokio::spawn(accept(service, listener, tls, sender));
    accepted
}

async fn accept(service: Arc<Service>, listener: TcpListener, tls: Option<TlsAcceptor>, sender: mpsc::Sender<Arrived>) {
    loop {
        let Ok(place) = service.connecting().clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = service.stopping() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let (sender, tls, limit) = (sender.clone(), tls.clone(), service.options().limits.connect_time_max);
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let socket: Box<dyn Socket> = match tls {
                None => Box::new(stream),
                Some(acceptor) => match tokio::time::timeout(limit, acceptor.accept(stream)).await {
                    Ok(Ok(encrypted)) => Box::new(encrypted),
                    _ => return,
                },
            };
            drop(place);
            let _ = sender.send((socket, peer)).await;
        });
    }
}
