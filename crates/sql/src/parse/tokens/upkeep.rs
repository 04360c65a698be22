//! VACUUM, OPTIMIZE and ANALYZE, of tables and of their columns: `VACUUM (FULL, ANALYZE) t (a, b), u` becomes
//! `CALL "upkeep statement"('VACUUM FULL ANALYZE', t, (a, b), u)`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// VACUUM, OPTIMIZE or ANALYZE, as the parser's tree has it: a call of this name, with what is asked for, and tables,
/// each with the columns behind it that are meant.
pub(crate) const UPKEEP: &str = "upkeep statement";

impl Text<'_> {
    /// Such a statement, which begins there. What is written in another way stays as it is.
    pub(super) fn upkeep(&mut self, at: usize) {
        let is_vacuum = self.is(at, "VACUUM");
        let (mut is_full, mut analyzes) = (false, false);
        let mut next = at + 1;
        if let Some(closed) = self.closed.get(&next).copied() {
            let is_on = |option: &str| {
                let is_off = |place: usize| self.is_any(place + 1, &["FALSE", "OFF"]);
                (next..closed).any(|place| self.is(place, option) && !is_off(place))
            };
            (is_full, analyzes) = (is_on("FULL"), is_on("ANALYZE"));
            next = closed + 1;
        }
        let options: &[&str] = match () {
            () if is_vacuum => &["FULL", "FREEZE", "VERBOSE", "ANALYZE"],
            () if self.is(at, "OPTIMIZE") => &["TABLE"],
            () => &["VERBOSE"],
        };
        while self.is_any(next, options) {
            is_full |= self.is(next, "FULL");
            analyzes |= self.is(next, "ANALYZE");
            next += 1;
        }
        let what = match (is_vacuum, is_full, analyzes) {
            (true, false, false) => "VACUUM",
            (true, false, true) => "VACUUM ANALYZE",
            (true, true, false) => "VACUUM FULL",
            (true, true, true) => "VACUUM FULL ANALYZE",
            _ if self.is(at, "OPTIMIZE") => "OPTIMIZE",
            _ => "ANALYZE",
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
            ("VACUUM FULL VERBOSE s.t", "('VACUUM FULL', s.t)"),
            ("VACUUM (FULL on, ANALYZE) t", "('VACUUM FULL ANALYZE', t)"),
            ("OPTIMIZE", "('OPTIMIZE')"),
            ("OPTIMIZE TABLE s.t, u;", "('OPTIMIZE', s.t, u)"),
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
