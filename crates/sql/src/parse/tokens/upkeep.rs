//! VACUUM and ANALYZE, of tables and of their columns: `VACUUM (ANALYZE) t (a, b), u` becomes
//! `CALL "upkeep statement"('VACUUM ANALYZE', t, (a, b), u)`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// VACUUM or ANALYZE, as the parser's tree has it: a call of this name, with what is asked for, and tables, each with
/// the columns behind it that are meant.
pub(crate) const UPKEEP: &str = "upkeep statement";

impl Text<'_> {
    /// VACUUM or ANALYZE, which begins there. What is written in another way stays as it is.
    pub(super) fn upkeep(&mut self, at: usize) {
        let is_vacuum = self.is(at, "VACUUM");
        let mut analyzes = !is_vacuum;
        let mut next = at + 1;
        if let Some(closed) = self.closed.get(&next).copied() {
            let is_off = |place: usize| self.is_any(place + 1, &["FALSE", "OFF"]);
            analyzes |= (next..closed).any(|place| self.is(place, "ANALYZE") && !is_off(place));
            next = closed + 1;
        }
        let options: &[&str] = if is_vacuum { &["FULL", "FREEZE", "VERBOSE", "ANALYZE"] } else { &["VERBOSE"] };
        while self.is_any(next, options) {
            analyzes |= self.is(next, "ANALYZE");
            next += 1;
        }
        let what = match (is_vacuum, analyzes) {
            (true, true) => "VACUUM ANALYZE",
            (true, false) => "VACUUM",
            (false, _) => "ANALYZE",
        };
        let call =
            [word("CALL"), quoted(UPKEEP), Token::LParen, Token::SingleQuotedString(what.to_owned())].into_iter();
        if self.ends_statement(next) {
            self.replace(at, call.chain([Token::RParen]));
            return self.drop(at + 1..next);
        }
        let mut columns = Vec::new();
        let mut end = self.name_end(next);
        loop {
            if let Some(closed) = self.closed.get(&end).copied() {
                columns.push(end);
                end = closed + 1;
            }
            if *self.token(end) != Token::Comma {
                break;
            }
            end = self.name_end(end + 1);
        }
        if !self.ends_statement(end) {
            return;
        }
        self.replace(at, call.chain([Token::Comma]));
        self.drop(at + 1..next);
        for place in columns {
            self.insert(place, [Token::Comma]);
        }
        self.insert_or_end(end, [Token::RParen]);
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn read(sql: &str) -> String {
        match parse_one(sql).unwrap().statement {
            crate::parse::SyntaxTree::Statement(statement) => statement.to_string(),
            other => other.to_string(),
        }
    }

    #[test]
    fn upkeep_names_tables_and_columns() {
        for (sql, call) in [
            ("VACUUM", "('VACUUM')"),
            ("vacuum;", "('VACUUM')"),
            ("VACUUM FULL VERBOSE s.t", "('VACUUM', s.t)"),
            ("VACUUM (VERBOSE, ANALYZE) t (a, b), u", "('VACUUM ANALYZE', t, (a, b), u)"),
            ("VACUUM (ANALYZE off, FREEZE) t;", "('VACUUM', t)"),
            ("VACUUM ANALYZE t (a)", "('VACUUM ANALYZE', t, (a))"),
            ("ANALYZE", "('ANALYZE')"),
            ("ANALYZE VERBOSE t, s.u (b)", "('ANALYZE', t, s.u, (b))"),
            ("ANALYZE (VERBOSE) \"T\"", "('ANALYZE', \"T\")"),
        ] {
            assert_eq!(read(sql), format!("CALL \"upkeep statement\"{call}"), "{sql}");
        }
        assert!(parse_one("VACUUM t (a").is_err());
    }
}
