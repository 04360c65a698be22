//! Values with values in them, from PostgreSQL's form into that of the scripts: arrays from `{1,NULL,"a b"}` to `[1,
//! NULL, a b]`, and what is sent as JSON (structs, maps, lists of lists) from `{"a":[1,null]}` to `{a: [1, NULL]}`.

/// The elements of an array of one dimension; `None` within is NULL, `None` as a whole means that the text is none.
pub fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    if inside.is_empty() {
        return Some(elements);
    }
    let mut characters = inside.chars();
    loop {
        let (mut element, mut is_quoted, mut in_quotes, mut is_last) = (String::new(), false, false, true);
        while let Some(character) = characters.next() {
            match character {
                '"' => (is_quoted, in_quotes) = (true, !in_quotes),
                '\\' => element.push(characters.next()?),
                ',' if !in_quotes => {
                    is_last = false;
                    break;
                }
                other => element.push(other),
            }
        }
        let is_null = !is_quoted && element == "NULL";
        elements.push((!is_null).then_some(element));
        if is_last {
            return (!in_quotes).then_some(elements);
        }
    }
}

/// JSON as the scripts show nested values. `float` shows numbers that have an exponent.
pub fn json(text: &str, float: impl Fn(&str) -> String) -> Option<String> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            // The end is the first quote that no backslash goes before.
            let mut escaped = false;
            let end = rest[1..].find(|character| {
                let ends = character == '"' && !escaped;
                escaped = character == '\\' && !escaped;
                ends
            })?;
            shown.push_str(&unescaped(&rest[1..end + 1])?);
            rest = &rest[end + 2..];
            continue;
        }
        if first.is_ascii_digit() || first == '-' {
            let end = rest.find(|character: char| !"+-.eE0123456789".contains(character)).unwrap_or(rest.len());
            let number = &rest[..end];
            shown.push_str(&if number.contains(['e', 'E']) { float(number) } else { number.to_owned() });
            rest = &rest[end..];
            continue;
        }
        match first {
            ',' => shown.push_str(", "),
            ':' => shown.push_str(": "),
            'n' => shown.push_str("NULL"),
            other => shown.push(other),
        }
        rest = if first == 'n' { rest.strip_prefix("null")? } else { &rest[first.len_utf8()..] };
    }
    Some(shown)
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits: String = characters.by_ref().take(4).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{}"), Some(vec![]));
        assert_eq!(elements("{1,NULL,3}"), Some(vec![some("1"), None, some("3")]));
        let quoted = r#"{"a, b","NULL","","q\"\\"}"#;
        assert_eq!(elements(quoted), Some(vec![some("a, b"), some("NULL"), some(""), some("q\"\\")]));
        assert_eq!((elements("1"), elements("{\"a}")), (None, None));
    }

    #[test]
    fn json_is_shown_as_nested_values() {
        let shown = |text| json(text, |number| format!("<{number}>"));
        assert_eq!(
            shown(r#"{"a":"x","b":[1,null,2.5],"c":true}"#).as_deref(),
            Some("{a: x, b: [1, NULL, 2.5], c: true}")
        );
        assert_eq!(shown(r#"["a\"b\n\u0041,:",-1e30]"#).as_deref(), Some("[a\"b\nA,:, <-1e30>]"));
        assert_eq!((shown("\"a"), shown("nul")), (None, None));
    }
}
