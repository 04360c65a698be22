//! Messages as bytes: what a client sends, and what a server answers.
//!
//! A message is its kind (one byte), the length of what follows with the length's own four bytes, and a body. Numbers
//! are in network order, texts end with a zero byte.

/// Protocol 3.0.
const VERSION: i32 = 3 << 16;

/// The startup message: user, database and settings.
pub fn startup(user: &str, database: &str, settings: &[(&str, &str)]) -> Vec<u8> {
    let mut body = VERSION.to_be_bytes().to_vec();
    for (name, value) in [("user", user), ("database", database)].iter().chain(settings) {
        text(&mut body, name);
        text(&mut body, value);
    }
    body.push(0);
    let mut message = (body.len() as i32 + 4).to_be_bytes().to_vec();
    message.extend(body);
    message
}

/// Asks for encryption; the server answers with one byte.
pub fn encryption() -> [u8; 8] {
    let mut message = [0, 0, 0, 8, 0, 0, 0, 0];
    message[4..].copy_from_slice(&80_877_103i32.to_be_bytes());
    message
}

/// Starts SASL authentication: the mechanism and its first message.
pub fn log_in(out: &mut Vec<u8>, mechanism: &str, first: &str) {
    put(out, b'p', |body| {
        text(body, mechanism);
        body.extend((first.len() as i32).to_be_bytes());
        body.extend(first.as_bytes());
    });
}

/// A password, as it is or as the server wants it.
pub fn password(out: &mut Vec<u8>, password: &str) {
    put(out, b'p', |body| text(body, password));
}

/// The next message of SASL authentication.
pub fn proof(out: &mut Vec<u8>, proof: &str) {
    put(out, b'p', |body| body.extend(proof.as_bytes()));
}

/// Aborts a COPY FROM STDIN.
pub fn fail_copy(out: &mut Vec<u8>, reason: &str) {
    put(out, b'f', |body| text(body, reason));
}

/// Appends a message of any kind.
pub fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A script, for the simple query protocol.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    put(out, b'Q', |body| text(body, sql));
}

/// Prepares a statement under a name; the server infers the types of its parameters.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: &str) {
    put(out, b'P', |body| {
        text(body, name);
        text(body, sql);
        body.extend([0; 2]);
    });
}

/// Binds values in text format to a prepared statement, which makes the unnamed portal. Its rows come in text or binary
/// format.
pub fn bind(out: &mut Vec<u8>, name: &str, values: &[Option<&str>], binary: bool) {
    put(out, b'B', |body| {
        text(body, "");
        text(body, name);
        body.extend([0; 2]);
        body.extend((values.len() as i16).to_be_bytes());
        for value in values {
            match value {
                Some(value) => {
                    body.extend((value.len() as i32).to_be_bytes());
                    body.extend(value.as_bytes());
                }
                None => body.extend((-1i32).to_be_bytes()),
            }
        }
        body.extend(1i16.to_be_bytes());
        body.extend(i16::from(binary).to_be_bytes());
    });
}

/// Asks for the columns of the unnamed portal.
pub fn describe(out: &mut Vec<u8>) {
    put(out, b'D', |body| body.extend(b"P\0"));
}

/// Runs the unnamed portal for at most this many rows; 0 means all.
pub fn execute(out: &mut Vec<u8>, rows_max: i32) {
    put(out, b'E', |body| {
        text(body, "");
        body.extend(rows_max.to_be_bytes());
    });
}

/// Ends a series of messages in the extended query protocol.
pub fn sync(out: &mut Vec<u8>) {
    put(out, b'S', |_| {});
}

/// Ends the session.
pub fn terminate(out: &mut Vec<u8>) {
    put(out, b'X', |_| {});
}

/// Cancels the running statement of a session. Sent on a connection of its own.
pub fn cancel(process: i32, key: &[u8]) -> Vec<u8> {
    let mut message = (12 + key.len() as i32).to_be_bytes().to_vec();
    message.extend(80_877_102i32.to_be_bytes());
    message.extend(process.to_be_bytes());
    message.extend(key);
    message
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// A message from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The kind, which is the first byte.
    pub kind: u8,
    /// The rest, without the length.
    pub body: &'a [u8],
}

/// The description of a result column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub oid: u32,
    /// The type modifier; for numeric, precision and scale.
    pub modifier: i32,
}

/// The fields of an error or a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The severity: ERROR, FATAL, WARNING, ….
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The message text.
    pub message: String,
    /// The hint; empty if there is none.
    pub hint: String,
    /// The position in the statement, as a number of characters from 1.
    pub position: Option<usize>,
}

impl<'a> Message<'a> {
    /// The first message in the bytes, and its length; `None` if it is incomplete. Fails if its length is invalid.
    pub fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(head) = bytes.get(..5) else { return Ok(None) };
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).ok().filter(|length| *length >= 4);
        let length = length.ok_or_else(|| format!("a message of kind '{}' has no length", head[0].escape_ascii()))?;
        Ok(bytes.get(5..length + 1).map(|body| (Self { kind: head[0], body }, length + 1)))
    }

    /// The columns in a RowDescription.
    pub fn columns(&self) -> Option<Vec<Column>> {
        let mut body = Reader(self.body);
        let count = body.i16()?;
        (0..count)
            .map(|_| {
                let name = body.text()?.to_owned();
                body.take(6)?;
                let oid = body.i32()? as u32;
                body.take(2)?;
                let modifier = body.i32()?;
                body.take(2)?;
                Some(Column { name, oid, modifier })
            })
            .collect()
    }

    /// The values in a DataRow; a `None` value is NULL.
    pub fn values(&self) -> Option<Vec<Option<&'a [u8]>>> {
        let mut body = Reader(self.body);
        let count = body.i16()?;
        (0..count)
            .map(|_| match body.i32()? {
                -1 => Some(None),
                length => body.take(usize::try_from(length).ok()?).map(Some),
            })
            .collect()
    }

    /// The fields in an ErrorResponse or NoticeResponse.
    pub fn failure(&self) -> Option<Failure> {
        let mut body = Reader(self.body);
        let mut failure = Failure::default();
        loop {
            let field = match body.take(1)?[0] {
                0 => return Some(failure),
                field => field,
            };
            let value = body.text()?.to_owned();
            match field {
                b'S' => failure.severity = value,
                b'C' => failure.code = value,
                b'M' => failure.message = value,
                b'H' => failure.hint = value,
                b'P' => failure.position = value.parse().ok(),
                _ => {}
            }
        }
    }

    /// The text in a CommandComplete.
    pub fn text(&self) -> Option<&'a str> {
        Reader(self.body).text()
    }

    /// The kind and the text in an Authentication request.
    pub fn log_in(&self) -> Option<(i32, &'a str)> {
        let mut body = Reader(self.body);
        let kind = body.i32()?;
        // Other kinds have bytes that are not text; they are not used.
        Some((kind, std::str::from_utf8(body.0).unwrap_or_default()))
    }

    /// What an Authentication request for MD5 wants to be hashed along.
    pub fn salt(&self) -> Option<[u8; 4]> {
        self.body.get(4..)?.try_into().ok()
    }

    /// The process ID and the secret key in a BackendKeyData.
    pub fn key(&self) -> Option<(i32, &'a [u8])> {
        let mut body = Reader(self.body);
        Some((body.i32()?, body.0))
    }
}

/// Reads the fields of a body in order; `None` where it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(self.take(end)?).ok()?;
        self.take(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_lengths_that_they_say() {
        let mut out = Vec::new();
        query(&mut out, "SELECT 1");
        bind(&mut out, "s", &[Some("ab"), None], true);
        let (first, length) = Message::first(&out).unwrap().unwrap();
        assert_eq!((first.kind, first.text()), (b'Q', Some("SELECT 1")));
        let (second, rest) = Message::first(&out[length..]).unwrap().unwrap();
        assert_eq!((second.kind, length + rest), (b'B', out.len()));
        assert_eq!(second.body, b"\0s\0\0\0\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x01");
        assert_eq!(startup("ann", "db", &[]), b"\0\0\0\x1e\0\x03\0\0user\0ann\0database\0db\0\0");
    }

    #[test]
    fn damaged_bodies_are_told_from_sound_ones() {
        let row = Message { kind: b'D', body: b"\0\x02\0\0\0\x01x\xff\xff\xff\xff" };
        assert_eq!(row.values(), Some(vec![Some(&b"x"[..]), None]));
        for end in 0..row.body.len() {
            assert_eq!(Message { body: &row.body[..end], ..row }.values(), None);
        }
        let failure = Message { kind: b'E', body: b"SERROR\0C42P01\0Mno table\0\0" };
        assert_eq!(failure.failure().unwrap().code, "42P01");
        assert_eq!(Message { body: &failure.body[..10], ..failure }.failure(), None);
        assert!(Message::first(b"D\0\0\0\x03x").is_err());
        assert_eq!(Message::first(b"D\0\0\0\x05"), Ok(None));
    }
}
