//! The text of a statement without what makes no difference.

/// The statement without comments, with one space where there were more, and without a semicolon at its end.
pub fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut gap = false;
    while let Some(character) = rest.next() {
        match character {
            '-' if rest.peek() == Some(&'-') => {
                for skipped in rest.by_ref() {
                    if skipped == '\n' {
                        break;
                    }
                }
                gap = true;
                continue;
            }
            c if c.is_whitespace() => {
                gap = true;
                continue;
            }
            _ => {}
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        out.push(character);
        // What is in quotes stays as it is. A backslash could be an escape or not: then the text stays, which only
        // costs hits.
        if character == '\'' || character == '"' {
            for quoted in rest.by_ref() {
                out.push(quoted);
                if quoted == '\\' {
                    return text.to_owned();
                }
                if quoted == character {
                    break;
                }
            }
        } else if character == '$' || character == '/' && rest.peek() == Some(&'*') {
            // Dollar quotes and nested comments.
            if character == '/' || !rest.peek().is_some_and(char::is_ascii_digit) {
                return text.to_owned();
            }
        }
    }
    if out.ends_with(';') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_space_and_comments_are_one() {
        assert_eq!(normalized(" SELECT  1 -- one\n FROM t ; "), "SELECT 1 FROM t ");
        assert_eq!(normalized("SELECT 1;"), "SELECT 1");
        assert_eq!(normalized("SELECT 'a  b', \"c  d\""), "SELECT 'a  b', \"c  d\"");
        assert_eq!(normalized("SELECT $1   + 1"), "SELECT $1 + 1");
        let kept = "SELECT  E'a\\'  b'";
        assert_eq!(normalized(kept), kept);
        let kept = "SELECT /* a  */  1";
        assert_eq!(normalized(kept), kept);
    }
}
