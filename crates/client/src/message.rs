//! Messages as bytes: what a client sends, and what a server answers.
//!
//! A message is its kind (one byte), the length of what follows with the length's own four bytes, and a body. Numbers
//! are in network order, texts end with a zero byte.

/// Protocol 3.0.
const VERSION: i32 = 3 << 16;

/// The first message: who comes, and with which settings.
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

/// Begins a log-in: the mechanism, and its first message.
pub fn log_in(out: &mut Vec<u8>, mechanism: &str, first: &str) {
    put(out, b'p', |body| {
        text(body, mechanism);
        body.extend((first.len() as i32).to_be_bytes());
        body.extend(first.as_bytes());
    });
}

/// What a log-in says next.
pub fn proof(out: &mut Vec<u8>, proof: &str) {
    put(out, b'p', |body| body.extend(proof.as_bytes()));
}

/// Gives up sending the data of a COPY.
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

/// A script.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    put(out, b'Q', |body| text(body, sql));
}

/// A statement to be prepared under a name; the server finds out its parameters' types.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: &str) {
    put(out, b'P', |body| {
        text(body, name);
        text(body, sql);
        body.extend([0; 2]);
    });
}

/// Values for a prepared statement, as text; they make the portal without a name. Its rows come as text or in binary.
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

/// Asks what the portal without a name gives.
pub fn describe(out: &mut Vec<u8>) {
    put(out, b'D', |body| body.extend(b"P\0"));
}

/// Runs the portal without a name: so many rows, or all with 0.
pub fn execute(out: &mut Vec<u8>, rows_max: i32) {
    put(out, b'E', |body| {
        text(body, "");
        body.extend(rows_max.to_be_bytes());
    });
}

/// Ends a series of messages of the extended protocol.
pub fn sync(out: &mut Vec<u8>) {
    put(out, b'S', |_| {});
}

/// Says good-bye.
pub fn terminate(out: &mut Vec<u8>) {
    put(out, b'X', |_| {});
}

/// Asks, on a connection of its own, to cancel what a session runs.
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

/// A message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: u8,
    /// The rest.
    pub body: &'a [u8],
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The number of its type in PostgreSQL's catalog.
    pub oid: u32,
    /// What is special about the type: of numbers, digits and scale.
    pub modifier: i32,
}

/// What the server says of an error, or of something worth knowing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// How bad: ERROR, FATAL, WARNING.
    pub severity: String,
    /// SQLSTATE.
    pub code: String,
    /// In words.
    pub message: String,
    /// What to do about it; empty without.
    pub hint: String,
    /// The character of the statement that it is about, from 1 on.
    pub position: Option<usize>,
}

impl<'a> Message<'a> {
    /// The first message of some bytes and its length; `None` as long as it is not whole, an error if it cannot be one.
    pub fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(head) = bytes.get(..5) else { return Ok(None) };
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).ok().filter(|length| *length >= 4);
        let length = length.ok_or_else(|| format!("a message of kind '{}' has no length", head[0].escape_ascii()))?;
        Ok(bytes.get(5..length + 1).map(|body| (Self { kind: head[0], body }, length + 1)))
    }

    /// The columns, of a RowDescription.
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

    /// The values, of a DataRow; `None` within is NULL.
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

    /// The fields, of an ErrorResponse or NoticeResponse.
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

    /// The text, of a message that is one: a CommandComplete.
    pub fn text(&self) -> Option<&'a str> {
        Reader(self.body).text()
    }

    /// What a server asks of somebody who logs in, of an Authentication: the kind, and its text.
    pub fn log_in(&self) -> Option<(i32, &'a str)> {
        let mut body = Reader(self.body);
        let kind = body.i32()?;
        // Other kinds have bytes that are no text, and are not looked at.
        Some((kind, std::str::from_utf8(body.0).unwrap_or_default()))
    }

    /// The number of the session and its key, of a BackendKeyData.
    pub fn key(&self) -> Option<(i32, &'a [u8])> {
        let mut body = Reader(self.body);
        Some((body.i32()?, body.0))
    }
}

/// Takes a body apart.
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
