//! The URL of a server:
//! `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=ca.pem`.

use std::path::{Path, PathBuf};

use diligence_base::{Error, Result};

/// The port on which `diligence serve` listens by default.
const POSTGRES_PORT: u16 = 5433;

/// A server, a user, and how the connection is secured.
#[derive(Clone)]
pub struct Url {
    /// A host name or an IP address; or, with a leading slash, the directory of a Unix socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user.
    pub user: String,
    /// The password, if known.
    pub password: Option<String>,
    /// The database's name.
    pub database: String,
    /// Whether the connection is encrypted.
    pub encryption: Encryption,
    /// A file of trusted root certificates; those of the system if `None`.
    pub roots: Option<PathBuf>,
}

/// `sslmode`, as PostgreSQL's clients call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// `disable`: never.
    Never,
    /// `prefer`: if the server offers it, without verification. The default on loopback, where there is no
    /// eavesdropper.
    IfOffered,
    /// `require`: always, without verification.
    Always,
    /// `verify-full`: always, and the server's certificate must be trusted and match the host name. The default beyond
    /// loopback.
    Verified,
}

impl Url {
    /// Parses a URL. Omitted parts have defaults: user and database `diligence`, host 127.0.0.1, port 5433.
    ///
    /// Fails with kind `Input` if the text is not a URL of this form or has an unknown option. The message never shows
    /// the password.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::input(format!("'{}' is not the URL of a server: {what}", without_password(url)))
                .with_hint("the form is postgres://user@host:5433/diligence")
        };
        let parts = UrlParts::of(url).map_err(wrong)?;
        let port = match parts.port {
            Some(port) => port.parse().map_err(|_| wrong("the port is not a number"))?,
            None => POSTGRES_PORT,
        };
        let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
        let mut address = Self {
            host: or(parts.host, "127.0.0.1"),
            port,
            user: or(parts.user, "diligence"),
            password: parts.password,
            database: or(parts.database, "diligence"),
            encryption: Encryption::Verified,
            roots: None,
        };
        if address.is_loopback() {
            address.encryption = Encryption::IfOffered;
        }
        for (name, value) in parts.options {
            match (name.as_str(), value.as_str()) {
                ("sslmode", "disable") => address.encryption = Encryption::Never,
                ("sslmode", "prefer") => address.encryption = Encryption::IfOffered,
                ("sslmode", "require") => address.encryption = Encryption::Always,
                ("sslmode", "verify-full") => address.encryption = Encryption::Verified,
                ("sslmode", _) => return Err(wrong("sslmode must be disable, prefer, require or verify-full")),
                ("sslrootcert", file) => {
                    address.roots = Some(PathBuf::from(file));
                    address.encryption = Encryption::Verified;
                }
                (name, _) => return Err(wrong(&format!("unknown option '{name}'"))),
            }
        }
        let wants_encryption = matches!(address.encryption, Encryption::Always | Encryption::Verified);
        if wants_encryption && address.socket().is_some() {
            return Err(wrong("a Unix socket is never encrypted; omit sslmode and sslrootcert"));
        }
        Ok(address)
    }

    /// The path of the Unix socket, if the host is one: `postgres://%2Ftmp:5433`, as PostgreSQL's clients write it.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }

    fn is_loopback(&self) -> bool {
        if self.socket().is_some() {
            return true;
        }
        let address = self.host.parse::<std::net::IpAddr>();
        address.map_or(self.host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
    }
}

/// What the URL of a server says, without escapes. Texts that it leaves out are empty.
pub struct UrlParts {
    /// The user.
    pub user: String,
    /// The password behind it.
    pub password: Option<String>,
    /// The host.
    pub host: String,
    /// The port, as it is written.
    pub port: Option<String>,
    /// The database.
    pub database: String,
    /// `name=value` behind the question mark.
    pub options: Vec<(String, String)>,
}

impl UrlParts {
    /// The parts of `postgres://user:password@host:port/database?name=value&…`. Fails with what is wrong with the text;
    /// that has nothing of the password.
    pub fn of(url: &str) -> std::result::Result<Self, &'static str> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or("it does not start with postgres://")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let text = |text: &str| decoded(text).ok_or("a percent escape is malformed");
        let options = query.split('&').filter(|option| !option.is_empty()).map(|option| {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            Ok::<_, &str>((text(name)?, text(value)?))
        });
        Ok(Self {
            user: text(user)?,
            password: password.map(text).transpose()?,
            host: text(host)?,
            port: port.map(text).transpose()?,
            database: text(database)?,
            options: options.collect::<std::result::Result<_, &str>>()?,
        })
    }
}

impl std::fmt::Display for Url {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = match self.host.as_str() {
            host if host.starts_with('/') => host.replace('/', "%2F"),
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        };
        write!(f, "postgres://{}@{host}:{}/{}", self.user, self.port, self.database)
    }
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The URL without its password, for messages.
fn without_password(url: &str) -> String {
    let Some((who, place)) = url.rsplit_once('@') else { return url.to_owned() };
    let name = who.find("://").map_or(0, |at| at + 3);
    let end = who[name..].find(':').map_or(who.len(), |at| name + at);
    format!("{}@{place}", &who[..end])
}

/// `%41` is `A`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls() {
        let address = Url::parse("postgres://ann:p%40ss@db.example:6000/sales?sslmode=require").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.user.as_str()), ("db.example", 6000, "ann"));
        assert_eq!((address.password.as_deref(), address.database.as_str()), (Some("p@ss"), "sales"));
        assert_eq!(address.encryption, Encryption::Always);
        assert_eq!(address.to_string(), "postgres://ann@db.example:6000/sales");
        let address = Url::parse("postgresql://[::1]:7").unwrap();
        assert_eq!(address.to_string(), "postgres://diligence@[::1]:7/diligence");
        let address = Url::parse("postgres://").unwrap();
        assert_eq!(address.to_string(), format!("postgres://diligence@127.0.0.1:{POSTGRES_PORT}/diligence"));
    }

    #[test]
    fn a_host_with_a_slash_is_a_unix_socket() {
        let address = Url::parse("postgres://%2Ftmp:7/sales").unwrap();
        assert_eq!(address.socket().unwrap(), Path::new("/tmp/.s.PGSQL.7"));
        assert_eq!(address.encryption, Encryption::IfOffered);
        assert_eq!(address.to_string(), "postgres://diligence@%2Ftmp:7/sales");
        assert!(Url::parse("postgres://tmp:7").unwrap().socket().is_none());
    }

    #[test]
    fn beyond_loopback_the_server_must_prove_itself() {
        let encryption = |url: &str| Url::parse(url).unwrap().encryption;
        assert_eq!(encryption("postgres://localhost"), Encryption::IfOffered);
        assert_eq!(encryption("postgres://127.0.0.1:5433"), Encryption::IfOffered);
        assert_eq!(encryption("postgres://db.example"), Encryption::Verified);
        assert_eq!(encryption("postgres://localhost.example"), Encryption::Verified);
        assert_eq!(encryption("postgres://localhost?sslrootcert=ca.pem"), Encryption::Verified);
    }

    #[test]
    fn mistakes_are_named_and_show_no_password() {
        for url in [
            "http://x",
            "postgres://%2Ftmp?sslmode=require",
            "postgres://x:y",
            "postgres://ann:%zz@x",
            "postgres://x?sslmode=allow",
            "postgres://x?a=b",
        ] {
            assert!(Url::parse(url).is_err(), "{url}");
        }
        let error = Url::parse("postgres://ann:secret@host:port/").unwrap_err().to_string();
        assert!(error.contains("ann@host") && !error.contains("secret"), "{error}");
    }
}
