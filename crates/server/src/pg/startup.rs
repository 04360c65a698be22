//! The beginning of a connection: encryption, cancel requests, log-in.
//!
//! With a certificate every connection over the network must be encrypted: one that is not is refused, and never served
//! in the clear. A client that asks for encryption where there is none is told so, and decides itself.

use std::sync::Arc;

use bytes::BytesMut;
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, Result};
use pgwire::error::PgWireResult;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion, PasswordMessageFamily, Startup};
use pgwire::messages::{DecodeContext, Message, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::listener::Peer;
use super::wire::{Broken, Inbox, Line, Outbox, Received, error_response};
use crate::accepting::Socket;
use crate::config::user_named;
use crate::roles::Role;
use crate::scram::{MECHANISM, ServerSide};
use crate::service::Service;
use crate::sqlstate;

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// Bytes of a first message at most, as in PostgreSQL.
const FIRST_BYTES_MAX: usize = 10_000;

/// A client that is let in.
pub(super) struct Arrival {
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) user: String,
    /// What it may do.
    pub(super) role: Arc<Role>,
    pub(super) parameters: Vec<(String, String)>,
    /// Bytes of the key for cancel requests.
    pub(super) key_bytes: usize,
}

/// Lets a client in. `None` if there is nothing more to do: it wanted to cancel, or was told why not.
pub(super) async fn arrive(service: &Arc<Service>, mut stream: Box<dyn Socket>, peer: Peer) -> Option<Arrival> {
    let mut encrypted = false;
    let (buffer, version) = loop {
        let mut packet = first_packet(&mut stream).await?;
        match i32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]) {
            SSL_REQUEST if packet.len() == 8 && !encrypted => match service.tls() {
                Some(acceptor) => {
                    stream.write_all(b"S").await.ok()?;
                    stream = Box::new(acceptor.accept(stream).await.ok()?);
                    encrypted = true;
                }
                None => stream.write_all(b"N").await.ok()?,
            },
            GSS_REQUEST if packet.len() == 8 => stream.write_all(b"N").await.ok()?,
            CANCEL_REQUEST => {
                let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
                let request = caught_quietly(|| CancelRequest::decode(&mut packet, &context));
                if let Some(Ok(Some(request))) = request {
                    service.registry().cancel(request.pid, &request.secret_key.to_bytes());
                }
                return None;
            }
            code => break (packet, code),
        }
    };
    let (reader, writer) = tokio::io::split(stream);
    let line = Line::new(writer);
    let mut outbox = Outbox::new(line.clone(), service.options().limits.stall_time_max);
    match greet(service, buffer, version, encrypted, (reader, line), &mut outbox, peer).await {
        Ok(greeted) => {
            let Greeted { inbox, user, role, parameters, key_bytes } = greeted;
            Some(Arrival { inbox, outbox, user, role, parameters, key_bytes })
        }
        Err(Broken::Gone) => None,
        Err(Broken::Malformed(error)) => {
            let (code, peer) = (sqlstate::of(&error), peer.to_string());
            tracing::warn!(door = "postgres", peer, code, error = error.message(), "a client was not let in");
            outbox.put(error_response(&error, None, true));
            outbox.close().await;
            None
        }
    }
}

/// A message without a kind: its length, then what it is. Read byte by byte as long as it says, so that what follows an
/// unencrypted request for encryption is never taken for encrypted.
async fn first_packet(stream: &mut Box<dyn Socket>) -> Option<BytesMut> {
    let length = stream.read_i32().await.ok()?;
    let bytes = usize::try_from(length).ok().filter(|bytes| (8..=FIRST_BYTES_MAX).contains(bytes))?;
    let mut packet = BytesMut::zeroed(bytes);
    packet[..4].copy_from_slice(&length.to_be_bytes());
    stream.read_exact(&mut packet[4..]).await.ok()?;
    Some(packet)
}

struct Greeted {
    inbox: Inbox,
    user: String,
    role: Arc<Role>,
    parameters: Vec<(String, String)>,
    key_bytes: usize,
}

async fn greet(
    service: &Arc<Service>,
    mut packet: BytesMut,
    code: i32,
    encrypted: bool,
    (reader, line): (tokio::io::ReadHalf<Box<dyn Socket>>, Arc<Line>),
    outbox: &mut Outbox,
    peer: Peer,
) -> Result<Greeted, Broken> {
    let refuse = |text: &str, code| Broken::Malformed(Error::input(text).with_code(code));
    let (major, minor) = (code >> 16, code & 0xffff);
    if major != 3 {
        let text = format!("protocol {major}.{minor} is not spoken here; 3.0 and 3.2 are");
        return Err(refuse(&text, sqlstate::UNSUPPORTED));
    }
    if service.tls().is_some() && !encrypted && peer != Peer::Local {
        return Err(Broken::Malformed(
            Error::input("this server only takes encrypted connections")
                .with_code("28000")
                .with_hint("connect with sslmode=require, or better verify-full"),
        ));
    }
    let version = if minor >= 2 { ProtocolVersion::PROTOCOL3_2 } else { ProtocolVersion::PROTOCOL3_0 };
    let context = DecodeContext::new(version);
    let startup = match caught_quietly(|| Startup::decode(&mut packet, &context)) {
        Some(Ok(Some(startup))) => startup,
        _ => return Err(refuse("the first message is malformed", sqlstate::PROTOCOL)),
    };
    let parameters = startup.parameters.into_iter().collect::<Vec<_>>();
    let unknown =
        parameters.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("_pq_.")).collect::<Vec<_>>();
    if (minor != 0 && minor != 2) || !unknown.is_empty() {
        let newest = if minor >= 2 { 2 } else { 0 };
        outbox.put(PgWireBackendMessage::NegotiateProtocolVersion(NegotiateProtocolVersion::new(
            (3 << 16) + newest,
            unknown,
        )));
    }
    let parameter = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    if parameter("replication").is_some_and(|value| crate::encoding::parameters::boolean(&value) != Some(false)) {
        return Err(refuse("replication is not offered", sqlstate::UNSUPPORTED));
    }
    let user = parameter("user").filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| refuse("the first message names no user", "28000"))?;
    let mut inbox = Inbox::new(reader, line, BytesMut::new(), version, FIRST_BYTES_MAX);
    let role = match &service.options().users {
        Some(users) => {
            let known = user_named(Some(users), service.database(), &user);
            log_in(service, &mut inbox, outbox, &user, known.as_ref().map(|known| &known.verifier)).await?;
            // Who is not known does not get in.
            known.map(|known| known.role).ok_or(Broken::Gone)?
        }
        None if peer.is_of_this_machine() => match service.database().role(&user) {
            Some(known) if !known.logs_in => {
                return Err(refuse(&format!("role \"{user}\" is not permitted to log in"), "28000"));
            }
            Some(known) => Arc::new(Role::of_catalog(&known, service.options().files)),
            None => Arc::new(Role::none(service.options().files)),
        },
        None => return Err(refuse("only clients of this machine get in without a password", "28000")),
    };
    outbox.put(PgWireBackendMessage::Authentication(Authentication::Ok));
    inbox.allow(service.options().limits.message_bytes_max);
    let key_bytes = if minor >= 2 { 32 } else { 4 };
    Ok(Greeted { inbox, user, role, parameters, key_bytes })
}

async fn log_in(
    service: &Arc<Service>,
    inbox: &mut Inbox,
    outbox: &mut Outbox,
    user: &str,
    verifier: Option<&crate::scram::Verifier>,
) -> Result<(), Broken> {
    let mechanisms = vec![MECHANISM.to_owned()];
    outbox.put(PgWireBackendMessage::Authentication(Authentication::SASL(mechanisms)));
    outbox.flush(|| {}).await?;
    let malformed = || Broken::Malformed(Error::input("a log-in was expected").with_code(sqlstate::PROTOCOL));
    let first = answer(inbox.next().await?, PasswordMessageFamily::into_sasl_initial_response).ok_or_else(malformed)?;
    if first.auth_method != MECHANISM {
        let text = format!("log-ins are by {MECHANISM}, not by {}", first.auth_method);
        return Err(Broken::Malformed(Error::input(text).with_code("28000")));
    }
    let data = first.data.ok_or_else(malformed)?;
    let (side, challenge) = ServerSide::begin(&data, user, verifier, service.secret()).map_err(Broken::Malformed)?;
    outbox.put(PgWireBackendMessage::Authentication(Authentication::SASLContinue(challenge.into())));
    outbox.flush(|| {}).await?;
    let last = answer(inbox.next().await?, PasswordMessageFamily::into_sasl_response).ok_or_else(malformed)?;
    match side.finish(&last.data).map_err(Broken::Malformed)? {
        Some(proof) => {
            outbox.put(PgWireBackendMessage::Authentication(Authentication::SASLFinal(proof.into())));
            Ok(())
        }
        None => {
            let text = format!("the password of '{user}' is wrong");
            Err(Broken::Malformed(Error::input(text).with_code("28P01")))
        }
    }
}

/// The client's answer to the log-in, if it is one.
fn answer<T>(received: Received, read: impl FnOnce(PasswordMessageFamily) -> PgWireResult<T>) -> Option<T> {
    let Received::Message(PgWireFrontendMessage::PasswordMessageFamily(family)) = received else { return None };
    // pgwire's decoders trust the lengths within a message.
    caught_quietly(|| read(family))?.ok()
}
