//! Statements about roles and what they may do, about triggers and about statistics. The parser knows some of them, and
//! not all; so each becomes `CALL "authority statement"('w:grant', 'w:select', …)`: its tokens, one by one, with what
//! they are in front.
//!
//! * `w:` a word in lower case, `q:` one in quotes, `s:` a text, `n:` a number, `p:` anything else.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{quoted, word};

/// Such a statement, as the parser's tree has it: a call of this name, with its tokens.
pub(crate) const AUTHORITY: &str = "authority statement";

/// What may have an owner, or go into another schema.
const KINDS: [&str; 16] = [
    "aggregate",
    "collation",
    "database",
    "domain",
    "foreign",
    "function",
    "index",
    "language",
    "large",
    "materialized",
    "procedure",
    "routine",
    "schema",
    "sequence",
    "table",
    "type",
];

/// What COMMENT ON is read here for: not tables and columns, which the parser knows.
const COMMENTED: [&str; 14] = [
    "constraint",
    "database",
    "domain",
    "function",
    "index",
    "materialized",
    "procedure",
    "role",
    "routine",
    "schema",
    "sequence",
    "trigger",
    "type",
    "view",
];

/// The call that stands for a statement; `None` if it is not one of these.
pub(super) fn call(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let meant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon);
    let statement = tokens.iter().take_while(|token| token.token != Token::SemiColon);
    let parts = statement.filter(meant).map(|token| &token.token).collect::<Vec<_>>();
    if !is_one(&parts) {
        return None;
    }
    let first = tokens.iter().find(meant)?.span;
    let mut call = vec![word("CALL"), quoted(AUTHORITY), Token::LParen];
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            call.push(Token::Comma);
        }
        call.push(Token::SingleQuotedString(text_of(part)));
    }
    call.push(Token::RParen);
    let behind = tokens.iter().skip_while(|token| token.token != Token::SemiColon).cloned();
    Some(call.into_iter().map(|token| TokenWithSpan { token, span: first }).chain(behind).collect())
}

fn text_of(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_some() => format!("q:{}", word.value),
        Token::Word(word) => format!("w:{}", word.value.to_lowercase()),
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => format!("s:{text}"),
        Token::DollarQuotedString(text) => format!("s:{}", text.value),
        Token::Number(number, _) => format!("n:{number}"),
        other => format!("p:{other}"),
    }
}

fn is_one(parts: &[&Token]) -> bool {
    let is = |at: usize, names: &[&str]| match parts.get(at) {
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            names.iter().any(|name| word.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    };
    let of_role = |at: usize| is(at, &["role", "user", "group"]) && !is(at + 1, &["mapping"]);
    let of_session = |at: usize| is(at, &["role"]) || is(at, &["session"]) && is(at + 1, &["authorization"]);
    let last = parts.len();
    if is(0, &["grant", "revoke", "reassign", "listen", "unlisten", "notify"]) {
        return true;
    }
    if is(0, &["comment"]) && is(1, &["on"]) && is(2, &COMMENTED) {
        return true;
    }
    if is(0, &["create", "alter", "drop"]) && is(1, &["statistics"]) && last > 2 {
        return true;
    }
    if is(0, &["create"]) && (is(1, &["trigger"]) || is(1, &["constraint"]) && is(2, &["trigger"])) {
        return true;
    }
    if is(0, &["create"]) && is(1, &["or"]) && (is(3, &["trigger"]) || is(4, &["trigger"])) {
        return true;
    }
    if is(0, &["create"]) {
        let authorizes = |at: usize| is(at, &["authorization"]) || is(at + 1, &["authorization"]);
        return of_role(1) || is(1, &["schema"]) && (authorizes(2) || is(2, &["if"]) && authorizes(5));
    }
    if is(0, &["drop"]) {
        return of_role(1) || is(1, &["owned", "trigger"]);
    }
    if is(0, &["set"]) {
        let scope = usize::from(is(1, &["local", "session"]) && !is(2, &["authorization"]));
        return of_session(1 + scope);
    }
    if is(0, &["reset"]) {
        return of_session(1) && last <= 3;
    }
    let is_renamed = last > 4 && is(last - 3, &["rename"]) && is(last - 2, &["to"]);
    // And not RENAME COLUMN owner TO a.
    let is_owner =
        last > 4 && is(last - 3, &["owner"]) && is(last - 2, &["to"]) && !is(last - 4, &["column", "rename"]);
    is(0, &["alter"])
        && (of_role(1)
            || is(1, &["system"]) && is(2, &["set", "reset"])
            || is(1, &["database"]) && is(3, &["set", "reset"]) && !is(4, &["tablespace"])
            || is(1, &["trigger"])
            || last > 4 && is(last - 3, &["set"]) && is(last - 2, &["schema"])
            || is(1, &["function", "procedure", "routine"])
            || is(1, &["schema"]) && is_renamed
            || is(1, &["table"]) && switches_triggers(parts)
            || is(1, &["default"]) && is(2, &["privileges"])
            || (is(1, &KINDS) || is(1, &["view"])) && is_owner)
}

/// Whether the words after ALTER TABLE and a name are ENABLE TRIGGER or DISABLE TRIGGER and one more.
fn switches_triggers(parts: &[&Token]) -> bool {
    let is = |part: Option<&&Token>, name: &str| match part {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    let Some(last) = parts.len().checked_sub(1) else { return false };
    let switches = |at: Option<usize>| at.is_some_and(|at| is(parts.get(at), "enable") || is(parts.get(at), "disable"));
    let is_trigger = last > 3 && is(parts.get(last - 1), "trigger");
    let among = is(parts.get(last.wrapping_sub(2)), "always") || is(parts.get(last.wrapping_sub(2)), "replica");
    is_trigger && (switches(last.checked_sub(2)) || among && switches(last.checked_sub(3)))
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn read(sql: &str) -> Option<String> {
        let crate::parse::SyntaxTree::Statement(statement) = parse_one(sql).ok()?.statement else {
            return None;
        };
        statement.to_string().strip_prefix("CALL \"authority statement\"").map(str::to_owned)
    }

    #[test]
    fn statements_about_roles_are_their_tokens() {
        for (sql, call) in [
            ("GRANT SELECT ON \"T\" TO ann;", "('w:grant', 'w:select', 'w:on', 'q:T', 'w:to', 'w:ann')"),
            (
                "CREATE ROLE a PASSWORD 'it''s' CONNECTION LIMIT 5",
                "('w:create', 'w:role', 'w:a', 'w:password', 's:it''s', 'w:connection', 'w:limit', 'n:5')",
            ),
            ("SET LOCAL ROLE ann", "('w:set', 'w:local', 'w:role', 'w:ann')"),
            ("RESET SESSION AUTHORIZATION", "('w:reset', 'w:session', 'w:authorization')"),
            ("ALTER SYSTEM SET a = '1MB'", "('w:alter', 'w:system', 'w:set', 'w:a', 'p:=', 's:1MB')"),
            ("alter database d reset all;", "('w:alter', 'w:database', 'w:d', 'w:reset', 'w:all')"),
            (
                "ALTER FUNCTION f(int) OWNER TO x",
                "('w:alter', 'w:function', 'w:f', 'p:(', 'w:int', 'p:)', 'w:owner', 'w:to', 'w:x')",
            ),
        ] {
            assert_eq!(read(sql).as_deref(), Some(call), "{sql}");
        }
        for other in [
            "COMMENT ON TABLE t IS 'x'",
            "SELECT 1",
            "SET a = 1",
            "CREATE TABLE role (a INT)",
            "DROP TABLE owned",
            "ALTER TABLE t ADD a INT",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
