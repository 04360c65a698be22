//! Where a browser goes on when a form was taken: a path with values of the answer in it, such as `/orders/{id}`. So
//! loading the page again does not send the form again.

use diligence_base::{Error, Result};

/// A path with names in braces.
#[derive(Debug, PartialEq)]
pub(super) struct Redirect(Vec<Part>);

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Value(String),
}

impl Redirect {
    /// Reads `/orders/{id}`. Fails with kind `Input` if it does not stay on this server, or a brace is not closed.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            let error = Error::input(format!("'{text}' is no path of this server"));
            error.with_hint("write it like: -- redirect: /orders/{id}")
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}\\\"<>".contains(&byte));
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or_else(wrong)?;
            parts.extend([Part::Text(before.to_owned()), Part::Value(name.to_owned())]);
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        let texts = parts.iter().all(|part| match part {
            Part::Text(text) => is_plain(text),
            Part::Value(name) => is_plain(name) && !name.is_empty(),
        });
        // What begins with two slashes is another server's, so a value cannot come right behind the first.
        let stays = text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/{");
        if texts && stays { Ok(Self(parts)) } else { Err(wrong()) }
    }

    /// The path with the values that `value` gives. Fails with kind `Input` if it has none for a name.
    pub(super) fn with(&self, value: impl Fn(&str) -> Option<String>) -> Result<String> {
        let mut path = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Value(name) => {
                    let value = value(name).ok_or_else(|| {
                        Error::input(format!("the redirect wants '{name}', which the answer does not have"))
                            .with_hint("have the last statement give it: RETURNING, or SELECT")
                    })?;
                    for byte in value.bytes() {
                        match byte {
                            b'-' | b'_' | b'.' | b'~' => path.push(char::from(byte)),
                            byte if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
                            byte => path.push_str(&format!("%{byte:02X}")),
                        }
                    }
                }
            }
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_into_the_path() {
        let redirect = Redirect::parse("/orders/{id}?of={name}#end").unwrap();
        let value = |name: &str| match name {
            "id" => Some("7".to_owned()),
            "name" => Some("a/b é".to_owned()),
            _ => None,
        };
        assert_eq!(redirect.with(value).unwrap(), "/orders/7?of=a%2Fb%20%C3%A9#end");
        assert!(redirect.with(|_| None).unwrap_err().message().contains("'id'"));
        for wrong in
            ["", "orders", "//evil.example", "https://evil.example/", "/{host}/a", "/a{", "/{}", "/a b", "/a\\b"]
        {
            assert!(Redirect::parse(wrong).is_err(), "{wrong}");
        }
    }
}
