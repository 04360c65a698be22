//! Arrow Flight SQL: rows as Arrow's batches over gRPC, for ADBC, JDBC's Flight driver and whoever computes on columns.
//!
//! tonic has the connections and the messages; what happens on them is here. The life of a query:
//! 1. A [connection] arrives, and its call shows a token or a password: that is its [session] ([access]).
//! 2. `GetFlightInfo` reads the [statement], and gives out a ticket and the columns ([door]).
//! 3. `DoGet` shows the ticket. The statement goes through the stages ([`crate::execution`]), and its [rows] come as
//!    fast as the client takes them, in messages that every client takes ([`crate::encoding`]).
//!
//! Beside that: updates; prepared statements with [parameters]; rows that are [ingested](ingest); [transaction]s; what
//! the catalog has ([metadata]) and what the server can do ([info]); [actions] for what is none of these.
//!
//! Invariants: those of all doors ([the crate's](crate)); a ticket is good once, so no statement is run twice by
//! accident; errors before the first row are the call's, later ones end the stream with their [status].

mod access;
mod actions;
mod cancellation;
mod command;
mod connection;
mod door;
mod held;
mod incoming;
mod info;
mod ingest;
mod messages;
mod metadata;
mod parameters;
mod prepared;
mod rows;
mod session;
mod statement;
mod status;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tokio::net::TcpListener;
use tonic::transport::Server;

use self::access::Access;
use self::connection::FlightSocket;
use self::door::{Door, message_bytes_max};
use crate::accepting::accepted;
use crate::service::Service;

/// How often a connection without calls is asked whether it is still there, and how long it has to answer.
const KEPT_ALIVE_EVERY: Duration = Duration::from_secs(30);
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// Bytes that a client may send ahead: of one stream, and of all of a connection. Less would make it wait for an answer
/// several times within a batch.
const STREAM_BYTES: u32 = 4 << 20;
const CONNECTION_BYTES: u32 = 8 << 20;

/// Serves until the server stops.
pub(crate) async fn listen(service: Arc<Service>, listener: TcpListener) {
    let access = Access::new(&service);
    let door = FlightServiceServer::new(Door::new(access.clone()))
        .max_decoding_message_size(message_bytes_max(&service))
        .max_encoding_message_size(usize::MAX);
    let mut arrived = accepted(service.clone(), listener, service.tls_flight().cloned());
    let connections = futures::stream::poll_fn(move |context| {
        let arrived = arrived.poll_recv(context);
        arrived.map(|arrived| arrived.map(|one| Ok::<_, std::io::Error>(FlightSocket::new(one))))
    });
    let stopping = async move {
        service.stopping().await;
        access.end();
    };
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEPT_ALIVE_EVERY))
        .http2_keepalive_timeout(Some(ANSWERS_WITHIN))
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .add_service(door);
    // It only ends with the server.
    let _ = server.serve_with_incoming_shutdown(connections, stopping).await;
}
