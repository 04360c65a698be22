//! What PostgreSQL has and this engine does not, where the parser would only say that it expected something else: such
//! a statement becomes `CALL "nothing statement"('REFUSED …')`, which fails with what to do instead.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ignored::IGNORED;
use super::{quoted, word};

/// What the tag of a refused statement begins with.
pub(crate) const REFUSED: &str = "REFUSED ";

/// What the name of a transaction follows, of one that is to be ended in its second phase.
pub(crate) const PREPARED: &str = "PREPARED ";

/// The call that stands for a statement; `None` if it is not one of these.
pub(super) fn call(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let meant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon);
    let statement = tokens.iter().take_while(|token| token.token != Token::SemiColon);
    let parts = Parts(statement.filter(meant).map(|token| &token.token).collect());
    let what = parts.refused()?;
    let first = tokens.iter().find(meant)?.span;
    let tag = Token::SingleQuotedString(format!("{REFUSED}{what}"));
    let call = [word("CALL"), quoted(IGNORED), Token::LParen, tag, Token::RParen];
    let behind = tokens.iter().skip_while(|token| token.token != Token::SemiColon).cloned();
    Some(call.into_iter().map(|token| TokenWithSpan { token, span: first }).chain(behind).collect())
}

/// The tokens of a statement.
struct Parts<'a>(Vec<&'a Token>);

impl Parts<'_> {
    fn is(&self, at: usize, name: &str) -> bool {
        match self.0.get(at) {
            Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
            _ => false,
        }
    }

    fn are(&self, at: usize, names: &[&str]) -> bool {
        names.iter().enumerate().all(|(place, name)| self.is(at + place, name))
    }

    /// What is refused of the statement.
    fn refused(&self) -> Option<String> {
        self.second_phase().or_else(|| self.refused_kind().map(str::to_owned))
    }

    /// COMMIT PREPARED and ROLLBACK PREPARED, with the transaction that they name.
    fn second_phase(&self) -> Option<String> {
        let [_, _, Token::SingleQuotedString(name)] = self.0.as_slice() else { return None };
        let is_one = (self.is(0, "commit") || self.is(0, "rollback")) && self.is(1, "prepared");
        is_one.then(|| format!("{PREPARED}{name}"))
    }

    fn refused_kind(&self) -> Option<&'static str> {
        if self.is(0, "create") {
            return self.refused_to_create();
        }
        if self.are(0, &["prepare", "transaction"]) && matches!(self.0.get(2), Some(Token::SingleQuotedString(_))) {
            return Some("PREPARE TRANSACTION");
        }
        if !self.is(0, "alter") {
            return None;
        }
        if self.is(1, "policy") {
            return Some("ALTER POLICY");
        }
        if !self.is(1, "table") {
            return None;
        }
        let mut at = if self.are(2, &["if", "exists"]) { 4 } else { 2 };
        at += usize::from(self.is(at, "only"));
        at = self.behind_name(at);
        match () {
            () if self.is(at, "inherit") || self.are(at, &["no", "inherit"]) => Some("INHERIT"),
            () if self.are(at, &["attach", "partition"]) => Some("ATTACH PARTITION"),
            () if self.are(at, &["detach", "partition"]) => Some("DETACH PARTITION"),
            () if self.are(at, &["enable", "row", "level"]) => Some("ENABLE ROW LEVEL SECURITY"),
            () if self.are(at, &["force", "row", "level"]) => Some("FORCE ROW LEVEL SECURITY"),
            () => None,
        }
    }

    /// The place behind a name, which may have several parts.
    fn behind_name(&self, at: usize) -> usize {
        let mut behind = at + 1;
        while self.0.get(behind) == Some(&&Token::Period) {
            behind += 2;
        }
        behind
    }

    fn refused_to_create(&self) -> Option<&'static str> {
        let next = if self.are(1, &["or", "replace"]) { 3 } else { 1 };
        for (kind, what) in [
            ("policy", "CREATE POLICY"),
            ("rule", "CREATE RULE"),
            ("publication", "CREATE PUBLICATION"),
            ("subscription", "CREATE SUBSCRIPTION"),
        ] {
            if self.is(next, kind) {
                return Some(what);
            }
        }
        if self.are(next, &["event", "trigger"]) {
            return Some("CREATE EVENT TRIGGER");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn read(sql: &str) -> Option<String> {
        let crate::parse::SyntaxTree::Statement(statement) = parse_one(sql).ok()?.statement else {
            return None;
        };
        let call = statement.to_string();
        call.strip_prefix("CALL \"nothing statement\"('REFUSED ")?.strip_suffix("')").map(str::to_owned)
    }

    #[test]
    fn what_is_refused_is_named() {
        for (sql, what) in [
            ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ENABLE ROW LEVEL SECURITY"),
            ("ALTER TABLE t NO INHERIT p", "INHERIT"),
            ("ALTER TABLE s.t ATTACH PARTITION p FOR VALUES IN (1)", "ATTACH PARTITION"),
            ("CREATE POLICY p ON t USING (a > 1)", "CREATE POLICY"),
            ("CREATE OR REPLACE RULE r AS ON INSERT TO t DO NOTHING", "CREATE RULE"),
            ("PREPARE TRANSACTION 'x';", "PREPARE TRANSACTION"),
            ("rollback prepared 'a b'", "PREPARED a b"),
        ] {
            assert_eq!(read(sql).as_deref(), Some(what), "{sql}");
        }
        for other in [
            "CREATE TABLE t (exclude INT, b INT)",
            "CREATE TABLE t AS SELECT * EXCLUDE (a) FROM u",
            "CREATE TABLE policy (a INT)",
            "ALTER TABLE t ADD exclude INT",
            "ALTER TYPE attribute ADD VALUE 'attribute'",
            "ALTER TYPE t RENAME TO attribute",
            "PREPARE transaction AS SELECT 1",
            "SELECT 1",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
