//! Where a server is: `host=… port=… dbname=… user=… password=…` or `postgresql://…`, as PostgreSQL's clients take it.

use std::borrow::Cow;
use std::path::PathBuf;

use diligence_base::{Error, Result};
use diligence_client::{Encryption, Url, UrlParts};

/// The port on which PostgreSQL listens.
const PORT: u16 = 5432;

/// Reads a connection string. What it leaves out comes from the environment (`PGHOST`, `PGPORT`, `PGDATABASE`,
/// `PGUSER`, `PGPASSWORD`), or is as with PostgreSQL's clients. Only encryption is stricter: a server beyond loopback
/// has to prove who it is unless `sslmode` says otherwise.
///
/// Fails with 22023 if it is none. No message has its password.
pub(crate) fn parse(text: &str) -> Result<Url> {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    let pairs = if is_url { of_url(text) } else { of_words(text) };
    let pairs = pairs.ok_or_else(|| {
        wrong("the address of the server is malformed").with_hint(
            "it is 'host=… port=… dbname=… user=… password=…' or 'postgresql://user:password@host:port/dbname'",
        )
    })?;
    let mut given = Given::default();
    for (name, value) in pairs {
        given.set(&name, value)?;
    }
    given.url()
}

fn wrong(what: impl Into<String>) -> Error {
    Error::input(what).with_code("22023")
}

/// What a connection string says.
#[derive(Default)]
struct Given {
    host: Option<String>,
    port: Option<u16>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    encryption: Option<Encryption>,
    roots: Option<PathBuf>,
}

impl Given {
    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "host" | "hostaddr" => self.host = Some(value),
            "port" => self.port = Some(value.parse().map_err(|_| wrong(format!("the port '{value}' is no number")))?),
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            "sslrootcert" => self.roots = Some(PathBuf::from(value)),
            "sslmode" => {
                self.encryption = Some(match value.as_str() {
                    "disable" => Encryption::Never,
                    "allow" | "prefer" => Encryption::IfOffered,
                    "require" => Encryption::Always,
                    "verify-ca" | "verify-full" => Encryption::Verified,
                    _ => {
                        let hint = "the modes are disable, allow, prefer, require, verify-ca and verify-full";
                        return Err(wrong(format!("there is no sslmode '{value}'")).with_hint(hint));
                    }
                });
            }
            // Said by many connection strings; no matter here.
            "connect_timeout"
            | "application_name"
            | "fallback_application_name"
            | "client_encoding"
            | "gssencmode"
            | "channel_binding"
            | "keepalives"
            | "keepalives_idle"
            | "target_session_attrs" => {}
            _ => {
                let hint = "the options are host, port, dbname, user, password, sslmode and sslrootcert";
                return Err(wrong(format!("there is no connection option '{name}'")).with_hint(hint));
            }
        }
        Ok(())
    }

    fn url(self) -> Result<Url> {
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let or =
            |given: Option<String>, name: &str| given.filter(|value| !value.is_empty()).or_else(|| environment(name));
        let host = or(self.host, "PGHOST").unwrap_or_else(|| "127.0.0.1".to_owned());
        let user = or(self.user, "PGUSER").or_else(|| environment("USER")).unwrap_or_else(|| "postgres".to_owned());
        let is_socket = host.starts_with('/');
        let is_loopback = is_socket
            || host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let safe = if is_loopback { Encryption::IfOffered } else { Encryption::Verified };
        let encryption = if self.roots.is_some() { Encryption::Verified } else { self.encryption.unwrap_or(safe) };
        Ok(Url {
            port: self.port.or_else(|| environment("PGPORT")?.parse().ok()).unwrap_or(PORT),
            password: or(self.password, "PGPASSWORD"),
            database: or(self.database, "PGDATABASE").unwrap_or_else(|| user.clone()),
            encryption: if is_socket { Encryption::Never } else { encryption },
            roots: self.roots,
            host,
            user,
        })
    }
}

/// The pairs of `name = value …`; a value may be in single quotes, with `\` before a quote. `None` if it is none.
fn of_words(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let is_quoted = after.starts_with('\'');
        let mut value = String::new();
        let mut characters = after.char_indices().skip(usize::from(is_quoted));
        let end = loop {
            match characters.next() {
                None if is_quoted => return None,
                None => break after.len(),
                Some((_, '\\')) => value.push(characters.next()?.1),
                Some((at, '\'')) if is_quoted => break at + 1,
                Some((at, blank)) if !is_quoted && blank.is_whitespace() => break at,
                Some((_, other)) => value.push(other),
            }
        };
        pairs.push((name.trim().to_owned(), value));
        rest = after[end..].trim_start();
    }
    Some(pairs)
}

/// The pairs that a URL says. `None` if it is none.
fn of_url(text: &str) -> Option<Vec<(String, String)>> {
    let parts = UrlParts::of(text).ok()?;
    let named = [
        ("user", parts.user),
        ("password", parts.password.unwrap_or_default()),
        ("host", parts.host),
        ("port", parts.port.unwrap_or_default()),
        ("dbname", parts.database),
    ];
    let named = named.into_iter().map(|(name, value)| (name.to_owned(), value));
    Some(named.chain(parts.options).filter(|(_, value)| !value.is_empty()).collect())
}

/// Bytes of a statement that are looked at: no ATTACH is longer.
const LOOKED_AT_MAX: usize = 16 * 1024;

/// A statement as it may be shown: passwords of connection strings in it are three stars.
pub fn without_passwords(statement: &str) -> Cow<'_, str> {
    let bytes = &statement.as_bytes()[..statement.len().min(LOOKED_AT_MAX)];
    let is_word = |word: &[u8]| word.eq_ignore_ascii_case(b"password") || word.eq_ignore_ascii_case(b"postgres");
    if !bytes.windows(8).any(is_word) {
        return Cow::Borrowed(statement);
    }
    let mut shown = String::with_capacity(statement.len());
    let mut rest = statement;
    while let Some((start, end)) = password_in(rest) {
        shown.push_str(&rest[..start]);
        shown.push_str("***");
        rest = &rest[end..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Where the next password is.
fn password_in(text: &str) -> Option<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let of_word = lower.match_indices("password").find_map(|(at, word)| {
        let blanks = |from: usize| from + (text[from..].len() - text[from..].trim_start().len());
        let equals = blanks(at + word.len());
        if !text[equals..].starts_with('=') {
            return None;
        }
        let start = blanks(equals + 1);
        // A quote within a literal is doubled.
        let quoted = text[start..].strip_prefix("''");
        let end = match quoted {
            Some(inner) => start + 2 + inner.find("''").map_or(inner.len(), |end| end + 2),
            None => start + text[start..].find([' ', '\'', '\n', '\t']).unwrap_or(text.len() - start),
        };
        (end > start).then_some((start, end))
    });
    let of_url = lower.match_indices("postgres").find_map(|(at, _)| {
        let start = at + lower[at..].find("://").filter(|place| *place <= "postgresql".len())? + 3;
        let authority = &text[start..start + text[start..].find(['/', '\'', ' ', '?']).unwrap_or(text.len() - start)];
        let (who, _) = authority.rsplit_once('@')?;
        let (user, _) = who.split_once(':')?;
        (who.len() > user.len() + 1).then(|| (start + user.len() + 1, start + who.len()))
    });
    match (of_word, of_url) {
        (Some(word), Some(url)) => Some(word.min(url)),
        (word, url) => word.or(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_urls_say_the_same() {
        for text in [
            "host=db.example port=6000 dbname=sales user=ann password='p@ s' sslmode=require",
            "host = db.example port=6000  dbname=sales user=ann password=p@\\ s sslmode=require",
            "postgresql://ann:p%40%20s@db.example:6000/sales?sslmode=require",
        ] {
            let url = parse(text).unwrap();
            assert_eq!(url.to_string(), "postgres://ann@db.example:6000/sales");
            assert_eq!((url.password.as_deref(), url.encryption), (Some("p@ s"), Encryption::Always));
        }
        let url = parse("host=/run/postgresql dbname=x user=y").unwrap();
        assert_eq!((url.port, url.encryption), (5432, Encryption::Never));
        assert_eq!(parse("host=db.example user=x").unwrap().encryption, Encryption::Verified);
        assert_eq!(parse("postgres://u@[::1]:7/d").unwrap().encryption, Encryption::IfOffered);
        assert_eq!(parse("host=localhost user=ann").unwrap().database, "ann");
    }

    #[test]
    fn mistakes_are_named_without_the_password() {
        for text in ["host", "host=a port=x", "host=a sslmode=maybe", "host=a color=red", "password='secret"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), Some("22023"), "{text}");
            assert!(!format!("{error:?}").contains("secret"), "{text}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (statement, shown) in [
            ("ATTACH 'host=a password=s3 user=b' AS x", "ATTACH 'host=a password=*** user=b' AS x"),
            ("ATTACH 'host=a password = s3' AS x", "ATTACH 'host=a password = ***' AS x"),
            ("ATTACH 'user=b PASSWORD=''s 3'' host=a' AS x", "ATTACH 'user=b PASSWORD=*** host=a' AS x"),
            ("ATTACH 'postgresql://a:s3@h/d' AS x", "ATTACH 'postgresql://a:***@h/d' AS x"),
            (
                "ATTACH 'postgres://a:s@3@h:1/d?x=y' AS x (TYPE postgres)",
                "ATTACH 'postgres://a:***@h:1/d?x=y' AS x (TYPE postgres)",
            ),
            ("SELECT password FROM t WHERE password = 'x'", "SELECT password FROM t WHERE password = 'x'"),
            ("ATTACH 'postgres://a@h/d' AS x", "ATTACH 'postgres://a@h/d' AS x"),
        ] {
            assert_eq!(without_passwords(statement), shown);
        }
    }
}
