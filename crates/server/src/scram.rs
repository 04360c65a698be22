//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: how a password is proved without being sent, and kept without
//! being known.
//!
//! A user's entry is PostgreSQL's verifier, `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`: whoever reads it can neither
//! log in with it nor learn the password but by guessing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use diligence_base::{Error, Result};
use pgwire::api::auth::sasl::scram::gen_salted_password;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// How often a password is hashed: what RFC 7677 asks for at least, and PostgreSQL's default.
const ITERATIONS: usize = 4096;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

/// What is kept of a password.
#[derive(Clone)]
pub struct Verifier {
    iterations: usize,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl Verifier {
    /// Of a password, with a new salt.
    pub fn of_password(password: &str) -> Result<Self> {
        Ok(Self::salted(password, &random(SALT_BYTES)?, ITERATIONS))
    }

    fn salted(password: &str, salt: &[u8], iterations: usize) -> Self {
        let keys = Keys::new(password, salt, iterations);
        Self { iterations, salt: salt.to_vec(), stored_key: sha256(&keys.client), server_key: keys.server }
    }

    /// From PostgreSQL's text.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        let iterations = iterations.parse().ok().filter(|iterations| (1..=10_000_000).contains(iterations))?;
        Some(Self { iterations, salt: BASE64.decode(salt).ok()?, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// PostgreSQL's text.
    pub fn text(&self) -> String {
        let text = |bytes: &[u8]| BASE64.encode(bytes);
        let (salt, stored, server) = (text(&self.salt), text(&self.stored_key), text(&self.server_key));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// One that nobody's password fits, the same each time for the same name: a stranger must not learn which users
    /// exist.
    fn nobody(secret: &[u8], user: &str) -> Self {
        let salt = hmac(secret, user.as_bytes());
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: hmac(secret, &salt),
            server_key: salt,
        }
    }

    /// Whether this is the password. Takes some milliseconds, on purpose.
    pub fn fits(&self, password: &str) -> bool {
        let keys = Keys::new(password, &self.salt, self.iterations);
        same(&sha256(&keys.client), &self.stored_key)
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

struct Keys {
    client: [u8; 32],
    server: [u8; 32],
}

impl Keys {
    fn new(password: &str, salt: &[u8], iterations: usize) -> Self {
        let salted = gen_salted_password(password, salt, iterations);
        Self { client: hmac(&salted, b"Client Key"), server: hmac(&salted, b"Server Key") }
    }
}

/// The server's side of one log-in.
pub struct ServerSide {
    verifier: Verifier,
    known: bool,
    nonce: String,
    client_first: String,
    server_first: String,
}

impl ServerSide {
    /// Answers the client's first message. `verifier` is `None` for a user that does not exist: the dance is the same.
    pub fn begin(first: &[u8], user: &str, verifier: Option<&Verifier>, secret: &[u8]) -> Result<(Self, String)> {
        let first = std::str::from_utf8(first).map_err(|_| malformed())?;
        // The header says whether the client binds to the channel: `n` or `y`, no; `p=…`, which is not offered.
        let bare = ["n,", "y,"].iter().find_map(|header| first.strip_prefix(header)).ok_or_else(malformed)?;
        let (_authorization, bare) = bare.split_once(',').ok_or_else(malformed)?;
        let nonce = attribute(bare, 'r').filter(|nonce| !nonce.is_empty()).ok_or_else(malformed)?;
        let nonce = format!("{nonce}{}", BASE64.encode(random(NONCE_BYTES)?));
        let known = verifier.is_some();
        let verifier = verifier.cloned().unwrap_or_else(|| Verifier::nobody(secret, user));
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let side = Self { verifier, known, nonce, client_first: bare.to_owned(), server_first: server_first.clone() };
        Ok((side, server_first))
    }

    /// Judges the client's last message; the answer proves the server. `None` for a wrong password.
    pub fn finish(self, last: &[u8]) -> Result<Option<String>> {
        let last = std::str::from_utf8(last).map_err(|_| malformed())?;
        let (unproved, proof) = last.rsplit_once(",p=").ok_or_else(malformed)?;
        let binding = attribute(unproved, 'c').ok_or_else(malformed)?;
        if !["biws", "eSws"].contains(&binding) || attribute(unproved, 'r') != Some(self.nonce.as_str()) {
            return Err(malformed());
        }
        let proof: [u8; 32] =
            BASE64.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or_else(malformed)?;
        let message = format!("{},{},{unproved}", self.client_first, self.server_first);
        let signature = hmac(&self.verifier.stored_key, message.as_bytes());
        let client_key = exclusive_or(&proof, &signature);
        let fits = same(&sha256(&client_key), &self.verifier.stored_key);
        Ok((fits && self.known)
            .then(|| format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, message.as_bytes())))))
    }
}

fn attribute(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn sha256(message: &[u8]) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, message);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.as_ref());
    bytes
}

fn exclusive_or(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|index| left[index] ^ right[index])
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |difference, (left, right)| difference | (left ^ right)) == 0
}

/// Bytes that nobody can guess.
pub fn random(count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::resource("the system gives no random numbers"))?;
    Ok(bytes)
}

fn malformed() -> Error {
    Error::input("a message of the log-in is malformed").with_code("08P01")
}

#[cfg(test)]
mod tests {
    use diligence_client::scram::ClientSide;

    use super::*;

    fn log_in(verifier: Option<&Verifier>, password: &str) -> bool {
        let (mut client, first) = ClientSide::begin(password).unwrap();
        let (server, answer) = ServerSide::begin(first.as_bytes(), "ann", verifier, b"secret").unwrap();
        let proof = client.prove(&answer).unwrap();
        server.finish(proof.as_bytes()).unwrap().is_some_and(|last| client.server_is_right(&last))
    }

    #[test]
    fn the_right_password_gets_in_and_nothing_else() {
        let verifier = Verifier::parse(&Verifier::of_password("pässword").unwrap().text()).unwrap();
        assert!(log_in(Some(&verifier), "pässword"));
        assert!(!log_in(Some(&verifier), "password"));
        assert!(!log_in(None, "pässword"));
        assert!(verifier.fits("pässword") && !verifier.fits(""));
    }

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7677, section 3.
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::salted("pencil", &salt, 4096);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                       r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                       c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = BASE64.encode(hmac(&verifier.server_key, message.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn what_is_malformed_is_an_error() {
        for first in ["", "n,,", "p=tls-unique,,n=,r=x", "n,,n=ann", "n,,r="] {
            assert!(ServerSide::begin(first.as_bytes(), "ann", None, b"").is_err(), "{first}");
        }
        for text in ["", "SCRAM-SHA-256$x:y$a:b", "md5abc", "SCRAM-SHA-256$0:c2FsdA==$YQ==:YQ=="] {
            assert!(Verifier::parse(text).is_none(), "{text}");
        }
    }
}
