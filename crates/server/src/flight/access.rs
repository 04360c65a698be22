//! Who calls: log-ins, tokens, and the session behind them.
//!
//! With users, a client logs in by a handshake with its password and gets a token; the token stands for a session. A
//! call may show the password instead, and then belongs to a session of its connection. Without users, a call without
//! either does, too. A session of a connection ends with it. One of a token lasts until it is closed, or some time
//! after the last connection over which it was used: a client may come back over a new one.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use diligence_base::Error;
use parking_lot::Mutex;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::connection::Connection;
use super::held::{Forgets, Held, TokenSession};
use super::session::FlightSession;
use super::status::{status, told, unauthenticated};
use crate::roles::Role;
use crate::scram::random;
use crate::service::{Service, basic_credentials, credentials_of};

/// Bytes of a token: nobody guesses it.
const TOKEN_BYTES: usize = 32;
/// Who calls where nobody has to say who he is.
const NOBODY: &str = "diligence";

/// The sessions of tokens.
pub(super) struct Access {
    service: Arc<Service>,
    itself: Weak<Access>,
    tokens: Mutex<HashMap<String, Arc<TokenSession>>>,
}

/// What the header of a call shows.
enum Shown {
    Nothing,
    Password(String, String),
    Token(String),
}

fn shown(metadata: &MetadataMap) -> std::result::Result<Shown, Status> {
    let Some(header) = metadata.get("authorization") else { return Ok(Shown::Nothing) };
    let text = header.to_str().map_err(|_| unauthenticated("the header 'authorization' is not text"))?;
    if let Some(token) = credentials_of("Bearer", text) {
        return Ok(Shown::Token(token.to_owned()));
    }
    match basic_credentials(text) {
        Some((user, password)) => Ok(Shown::Password(user, password)),
        None => Err(unauthenticated("log-ins are by 'authorization: Basic …' or 'authorization: Bearer …'")),
    }
}

impl Access {
    pub(super) fn new(service: &Arc<Service>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self { service: service.clone(), itself: itself.clone(), tokens: Mutex::default() })
    }

    /// What a user may do. Fails if the password is wrong.
    async fn role(&self, user: &str, password: String, peer: &str) -> std::result::Result<Arc<Role>, Status> {
        if self.service.options().users.is_none() {
            return Ok(Arc::new(Role::none(self.service.options().files)));
        }
        let role = told(self.service.log_in(user, password, ("flight", peer)).await)?;
        role.ok_or_else(|| unauthenticated(&format!("the password of '{user}' is wrong")))
    }

    /// Lets a client in that shows a password, and opens its session. The token for it.
    pub(super) async fn log_in(
        &self,
        metadata: &MetadataMap,
        connection: &Connection,
    ) -> std::result::Result<String, Status> {
        let (user, password) = match shown(metadata)? {
            Shown::Password(user, password) => (user, password),
            Shown::Nothing if self.service.options().users.is_none() => (NOBODY.to_owned(), String::new()),
            Shown::Nothing | Shown::Token(_) => {
                return Err(unauthenticated("a handshake needs a user and a password: 'authorization: Basic …'"));
            }
        };
        let role = self.role(&user, password, &connection.peer()).await?;
        let session = told(FlightSession::open(&self.service, &user, role, connection.peer()))?;
        let token = BASE64.encode(told(random(TOKEN_BYTES))?);
        let held = Arc::new(TokenSession::new(session));
        self.tokens.lock().insert(token.clone(), held.clone());
        connection.holds(&token, || Held::new(self.itself.clone(), &token, held));
        Ok(token)
    }

    /// The session that a call belongs to. Fails if nobody has logged in.
    pub(super) async fn session(
        &self,
        metadata: &MetadataMap,
        connection: &Connection,
    ) -> std::result::Result<Arc<FlightSession>, Status> {
        match shown(metadata)? {
            Shown::Token(token) => {
                if let Some(session) = connection.held(&token, Held::session) {
                    return Ok(session);
                }
                let known = self.tokens.lock().get(&token).cloned();
                let held = known.ok_or_else(|| unauthenticated("the token is not known, or its session has ended"))?;
                let session = held.session.clone();
                connection.holds(&token, || Held::new(self.itself.clone(), &token, held));
                Ok(session)
            }
            Shown::Password(user, password) => {
                let role = self.role(&user, password, &connection.peer()).await?;
                told(connection.session(&user, || FlightSession::open(&self.service, &user, role, connection.peer())))
            }
            Shown::Nothing if self.service.options().users.is_none() => {
                let role = Arc::new(Role::none(self.service.options().files));
                told(connection.session(NOBODY, || FlightSession::open(&self.service, NOBODY, role, connection.peer())))
            }
            Shown::Nothing => {
                let error = Error::input("this server is for users that have logged in").with_code("28000");
                Err(status(&error.with_hint("log in by a handshake with a user and a password")))
            }
        }
    }

    /// Ends the session of a call: what it has open is undone, and its token is good no more.
    pub(super) fn close(&self, session: &Arc<FlightSession>, connection: &Connection) {
        session.end();
        self.tokens.lock().retain(|_, known| !Arc::ptr_eq(&known.session, session));
        connection.forget(session);
    }

    /// Ends all sessions of tokens that no call uses: the server stops.
    pub(super) fn end(&self) {
        self.tokens.lock().clear();
    }
}

impl Forgets for Access {
    fn forget_unused(&self, token: &str) {
        let mut tokens = self.tokens.lock();
        let is_unused = |known: &Arc<TokenSession>| known.connections.load(Ordering::Acquire) == 0;
        let forgotten = if tokens.get(token).is_some_and(is_unused) { tokens.remove(token) } else { None };
        drop(tokens);
        drop(forgotten);
    }
}
