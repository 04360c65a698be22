//! The client side of SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it knows the password without sending
//! it, and so does the server.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use diligence_base::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";

const NONCE_BYTES: usize = 18;
/// The most hash iterations that a server may ask for; more would only keep the client busy.
const ITERATIONS_MAX: u32 = 10_000_000;

/// The state of one login.
pub struct ClientSide {
    password: String,
    nonce: String,
    first: String,
    server_signature: Option<hmac::Tag>,
}

impl ClientSide {
    /// Begins a login: its state and the first message, which has no user name because PostgreSQL takes that from the
    /// startup message. Fails with kind `Resource` if the system has no random numbers.
    pub fn begin(password: &str) -> Result<(Self, String)> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce).map_err(|_| Error::resource("the system has no random numbers"))?;
        Ok(Self::with_nonce(password, BASE64.encode(nonce), ""))
    }

    fn with_nonce(password: &str, nonce: String, user: &str) -> (Self, String) {
        let first = format!("n={user},r={nonce}");
        let message = format!("n,,{first}");
        (Self { password: password.to_owned(), nonce, first, server_signature: None }, message)
    }

    /// The answer to the server's first message. Fails with kind `Input` if that is malformed or asks for too many
    /// iterations.
    pub fn prove(&mut self, server_first: &str) -> Result<String> {
        let nonce =
            attribute(server_first, 'r').filter(|nonce| nonce.starts_with(&self.nonce)).ok_or_else(malformed)?;
        let salt = attribute(server_first, 's').and_then(|salt| BASE64.decode(salt).ok()).ok_or_else(malformed)?;
        let iterations = attribute(server_first, 'i').and_then(|count| count.parse::<NonZeroU32>().ok());
        let iterations = iterations.filter(|count| count.get() <= ITERATIONS_MAX).ok_or_else(malformed)?;
        // A password that cannot be normalized is used unchanged, as PostgreSQL does.
        let password = stringprep::saslprep(&self.password).unwrap_or((&self.password).into());
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
        let (client_key, server_key) = (hmac(&salted, b"Client Key"), hmac(&salted, b"Server Key"));
        let unproved = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{unproved}", self.first);
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = hmac(stored_key.as_ref(), message.as_bytes());
        let proof = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, signature)| key ^ signature);
        let proof = BASE64.encode(proof.collect::<Vec<_>>());
        self.server_signature = Some(hmac(server_key.as_ref(), message.as_bytes()));
        Ok(format!("{unproved},p={proof}"))
    }

    /// Whether the server has proved that it knows the password.
    pub fn server_is_right(&self, server_last: &str) -> bool {
        let given = attribute(server_last, 'v').and_then(|signature| BASE64.decode(signature).ok());
        let expected = self.server_signature.as_ref().map(hmac::Tag::as_ref);
        // The signature is valid for this login alone, so the timing of this comparison reveals nothing of use.
        given.is_some() && given.as_deref() == expected
    }
}

fn attribute(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn hmac(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

fn malformed() -> Error {
    Error::input("a SCRAM message is malformed").with_code("08P01")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7677, section 3.
        let (mut side, first) = ClientSide::with_nonce("pencil", "rOprNGfwEbeRWgbNEkqO".to_owned(), "user");
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert!(!side.server_is_right("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(side.prove(SERVER_FIRST).unwrap(), proof);
        assert!(side.server_is_right("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!side.server_is_right("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!side.server_is_right("e=other-error"));
    }

    #[test]
    fn a_server_that_makes_no_sense_is_an_error() {
        let (mut side, _) = ClientSide::with_nonce("pencil", "rOprNGfwEbeRWgbNEkqO".to_owned(), "user");
        let others = SERVER_FIRST.replace("r=r", "r=s");
        let (none, many) = (SERVER_FIRST.replace("4096", "0"), SERVER_FIRST.replace("4096", "4000000000"));
        for first in ["", "r=,s=,i=", &others, &none, &many] {
            assert!(side.prove(first).is_err(), "{first}");
        }
    }
}
