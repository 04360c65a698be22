//! Where a file of separated values is cut into parts, if fields in quotes hold line ends: it is read once from the
//! start, following quotes.

use std::sync::Arc;

use diligence_base::Result;

use super::csv_fields::Dialect;
use super::{CLUSTER_BYTES, Part};
use crate::external::options::DELIMITER_BYTES_MAX;
use crate::external::source::Source;

/// Bytes that are read at once.
const READ_BYTES: u64 = 8 * 1024 * 1024;

/// The parts of a file from the byte `body` on. Cuts are after line feeds outside of quotes. Fails with kind `File` if
/// the file cannot be read.
pub(super) fn find_cuts(source: &Arc<Source>, body: u64, dialect: &Dialect) -> Result<Vec<Part>> {
    let Dialect { quote, escape, .. } = *dialect;
    let mut parts = Vec::new();
    let (mut start, mut at) = (body, body);
    let mut inside = false;
    let mut before = Before::new(dialect);
    // Whether a comment reaches to the next line feed.
    let mut commented = false;
    // Whether an escape or a quote inside of quotes waits for its next byte.
    let mut waiting = false;
    while at < source.bytes {
        let end = (at + READ_BYTES).min(source.bytes);
        let bytes = source.read_one_now(at..end)?;
        let mut index = 0;
        while index < bytes.len() {
            let byte = bytes[index];
            if waiting {
                waiting = false;
                if escape.is_none_or(|escape| escape == quote) && byte != quote {
                    // It was the closing quote.
                    inside = false;
                } else {
                    before.pass(&[byte]);
                    index += 1;
                    continue;
                }
            }
            if commented {
                let Some(skip) = memchr::memchr(b'\n', &bytes[index..]) else { break };
                before.pass(&bytes[index..index + skip]);
                (commented, index) = (false, index + skip);
                continue;
            }
            if inside {
                let special = match escape.filter(|&escape| escape != quote) {
                    Some(escape) => memchr::memchr2(quote, escape, &bytes[index..]),
                    None => memchr::memchr(quote, &bytes[index..]),
                };
                let Some(skip) = special else { break };
                before.pass(&bytes[index..index + skip]);
                index += skip;
                match escape.filter(|&escape| escape != quote) {
                    Some(_) if bytes[index] == quote => inside = false,
                    _ => waiting = true,
                }
            } else if dialect.comment == Some(byte) && (dialect.comments_end_records || before.begins_line()) {
                commented = true;
            } else if byte == quote {
                inside = dialect.quotes_inside || before.begins_field();
            } else if byte == b'\n' {
                let next = at + index as u64 + 1;
                if next - start >= CLUSTER_BYTES {
                    parts.push(Part::Range(start..next));
                    start = next;
                }
            } else if dialect.comment != Some(byte) {
                let comment = dialect.comment.unwrap_or(b'\n');
                let Some(skip) = memchr::memchr3(quote, b'\n', comment, &bytes[index..]) else { break };
                before.pass(&bytes[index..index + skip]);
                index += skip;
                continue;
            }
            before.pass(&bytes[index..=index]);
            index += 1;
        }
        before.pass(&bytes[index.min(bytes.len())..]);
        at = end;
    }
    if start < source.bytes || parts.is_empty() {
        parts.push(Part::Range(start..source.bytes.max(start)));
    }
    Ok(parts)
}

/// The bytes in front of the one that is looked at which say whether a quote there begins a field: as many as the
/// delimiter has, at the end of `last`. Blanks that may stand around quotes are left out.
struct Before {
    last: [u8; DELIMITER_BYTES_MAX],
    delimiter: Vec<u8>,
    passes_blanks: bool,
}

impl Before {
    /// At the begin of a record.
    fn new(dialect: &Dialect) -> Self {
        let mut delimiter = dialect.delimiter_bytes();
        let passes_blanks = dialect.pads_quotes && delimiter.iter().any(|byte| *byte != b' ');
        delimiter.retain(|byte| !passes_blanks || *byte != b' ');
        Self { last: [b'\n'; DELIMITER_BYTES_MAX], delimiter, passes_blanks }
    }

    fn pass(&mut self, bytes: &[u8]) {
        let kept = bytes.iter().rev().filter(|byte| !self.passes_blanks || **byte != b' ');
        let mut last = [0; DELIMITER_BYTES_MAX];
        let mut place = DELIMITER_BYTES_MAX;
        for &byte in kept.take(DELIMITER_BYTES_MAX) {
            place -= 1;
            last[place] = byte;
        }
        let older = DELIMITER_BYTES_MAX - place;
        last[..place].copy_from_slice(&self.last[older..]);
        self.last = last;
    }

    fn begins_line(&self) -> bool {
        self.last.ends_with(b"\n")
    }

    fn begins_field(&self) -> bool {
        self.last.ends_with(b"\n") || self.last.ends_with(&self.delimiter)
    }
}
