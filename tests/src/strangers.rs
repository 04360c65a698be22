//! Sessions that are none: bytes that begin like one of PostgreSQL's protocol and go wrong somewhere.

use diligence_base::seams::Random;
use diligence_client::message;

/// Kinds of messages that clients send, and some that they do not.
const KINDS: &[u8] = b"QPBDECSXdcfpHFZ\0!";

/// Lengths that readers stumble over.
const LENGTHS: [i32; 8] = [-1, 0, 3, 4, 5, 100, i32::MAX, i32::MIN];

/// One session's bytes.
pub fn session(random: &mut Random) -> Vec<u8> {
    let mut bytes = match random.below(10) {
        0 => noise(random, 64),
        _ => message::startup("ann", "diligence", &[("application_name", "stranger")]),
    };
    for _ in 0..random.below(6) {
        sound(&mut bytes, random.below(10));
    }
    for _ in 0..1 + random.below(5) {
        match random.below(4) {
            0 if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            1 => {
                let more = noise(random, 40);
                bytes.extend(more);
            }
            2 => {
                bytes.push(KINDS[random.below(KINDS.len())]);
                bytes.extend(LENGTHS[random.below(LENGTHS.len())].to_be_bytes());
                let more = noise(random, 20);
                bytes.extend(more);
            }
            _ => bytes.truncate(random.below(bytes.len() + 1)),
        }
    }
    bytes
}

fn noise(random: &mut Random, most: usize) -> Vec<u8> {
    (0..random.below(most)).map(|_| random.below(256) as u8).collect()
}

/// Appends a message that belongs to a sound session.
fn sound(bytes: &mut Vec<u8>, which: usize) {
    match which {
        0 => message::query(bytes, "SELECT 1; SELECT 'two'"),
        1 => message::query(bytes, "COPY (SELECT 1) TO STDOUT"),
        2 => message::query(bytes, "CREATE TABLE IF NOT EXISTS s (a BIGINT); COPY s FROM STDIN"),
        3 => message::parse(bytes, "s", "SELECT $1::bigint"),
        4 => message::bind(bytes, "s", &[Some("7")], true),
        5 => message::describe(bytes),
        6 => message::execute(bytes, 3),
        7 => message::put(bytes, b'd', |body| body.extend(b"1\n")),
        8 => message::put(bytes, b'c', |_| {}),
        _ => message::sync(bytes),
    }
}
