//! What is kept of passwords: verifiers of SCRAM-SHA-256, as PostgreSQL writes them (RFC 5802, RFC 7677). Whoever reads
//! one can neither log in with it nor learn the password but by guessing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// What a verifier begins with.
const MECHANISM: &str = "SCRAM-SHA-256$";
/// How often a password is hashed: PostgreSQL's default.
const ITERATIONS: u32 = 4096;

/// What is kept of a password; a verifier stays what it is. An empty password is none.
pub(super) fn verifier(password: &str) -> Option<String> {
    match password {
        "" => None,
        kept if kept.starts_with(MECHANISM) => Some(kept.to_owned()),
        plain => Some(salted(plain, &rand::random::<[u8; 16]>())),
    }
}

fn salted(password: &str, salt: &[u8]) -> String {
    let mut block = keyed(password.as_bytes(), &[salt, &1_u32.to_be_bytes()].concat());
    let mut key = block;
    for _ in 1..ITERATIONS {
        block = keyed(password.as_bytes(), &block);
        key.iter_mut().zip(block).for_each(|(all, one)| *all ^= one);
    }
    let stored = Sha256::digest(keyed(&key, b"Client Key"));
    let text = |bytes: &[u8]| BASE64.encode(bytes);
    let server = text(&keyed(&key, b"Server Key"));
    format!("{MECHANISM}{ITERATIONS}:{}${}:{server}", text(salt), text(&stored))
}

fn keyed(key: &[u8], text: &[u8]) -> [u8; 32] {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_that_of_the_standard() {
        // RFC 7677, section 3: user `user`, password `pencil`.
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        assert_eq!(
            salted("pencil", &salt),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        let made = verifier("secret").unwrap();
        assert!(made != verifier("secret").unwrap() && verifier(&made).unwrap() == made);
        assert_eq!(verifier(""), None);
    }
}
