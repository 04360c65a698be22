//! Joins as the parser does not know them: a join that stands in front of the condition of another, and the names of
//! what USING merges.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, TokenLevel, quoted};

/// What stands in front of the name in `USING (…) AS name`, which is the last of the columns in the parser's tree.
pub(crate) const JOIN_ALIAS: &str = "join alias \u{1}";

/// A join whose condition has not come yet.
#[derive(Clone)]
pub(super) struct WaitingJoin {
    /// Where its right side begins.
    right: usize,
    /// Whether its right side is a join.
    is_nested: bool,
}

impl Text<'_> {
    /// `a JOIN b JOIN c ON … ON …`: `a JOIN (b JOIN c ON …) ON …`.
    pub(super) fn joins(&mut self, at: usize, keyword: Keyword, level: &mut TokenLevel) {
        match keyword {
            Keyword::JOIN => {
                if let Some(around) = level.joins.last_mut() {
                    around.is_nested = true;
                }
                if self.waits_for_condition(at) {
                    level.joins.push(WaitingJoin { right: at + 1, is_nested: false });
                }
            }
            Keyword::ON | Keyword::USING => {
                let Some(join) = level.joins.pop() else { return };
                if join.is_nested {
                    self.insert(join.right, [Token::LParen]);
                    self.insert(at, [Token::RParen]);
                }
                if keyword == Keyword::USING {
                    self.join_alias(at);
                }
            }
            Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER => level.joins.clear(),
            _ => {}
        }
    }

    /// Whether ON or USING follows JOIN.
    fn waits_for_condition(&self, at: usize) -> bool {
        let side = if self.follows(at, &["OUTER"]) { at - 1 } else { at };
        let kind =
            if self.follows(side, &["LEFT", "RIGHT", "FULL", "INNER", "SEMI", "ANTI"]) { side - 1 } else { side };
        !self.follows(side, &["CROSS", "POSITIONAL"]) && !self.follows(kind, &["NATURAL"])
    }

    /// `USING (a, b) AS name`.
    fn join_alias(&mut self, at: usize) {
        let Some(&closed) = self.closed.get(&(at + 1)) else { return };
        if let (true, Token::Word(name)) = (self.is(closed + 1, "AS"), self.token(closed + 2)) {
            let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            self.insert(closed, [Token::Comma, quoted(&format!("{JOIN_ALIAS}{name}"))]);
            self.drop(closed + 1..closed + 3);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{SyntaxTree, parse_one};

    fn read(sql: &str) -> String {
        let SyntaxTree::Statement(statement) = parse_one(sql).unwrap().statement else { panic!("{sql}") };
        statement.to_string()
    }

    #[test]
    fn a_join_in_front_of_a_condition_is_the_right_side() {
        for (sql, same) in [
            ("SELECT 1 FROM a JOIN b JOIN c ON x ON y", "SELECT 1 FROM a JOIN (b JOIN c ON x) ON y"),
            (
                "SELECT 1 FROM a LEFT JOIN b LEFT JOIN c CROSS JOIN d ON x ON y WHERE z",
                "SELECT 1 FROM a LEFT JOIN (b LEFT JOIN (c CROSS JOIN d) ON x) ON y WHERE z",
            ),
            (
                "SELECT 1 FROM (a JOIN b JOIN c ON x USING (y)) JOIN d ON z",
                "SELECT 1 FROM (a JOIN (b JOIN c ON x) USING (y)) JOIN d ON z",
            ),
            ("SELECT 1 FROM a JOIN b ON x, c JOIN d ON y", "SELECT 1 FROM a JOIN b ON x, c JOIN d ON y"),
        ] {
            assert_eq!(read(sql), read(same), "{sql}");
        }
        // What is no join has no name of USING.
        let deleted = read("DELETE FROM t USING (SELECT 1 AS a) AS s WHERE t.a = s.a");
        assert!(deleted.contains(") AS s WHERE"), "{deleted}");
    }

    #[test]
    fn offsets_that_begin_with_a_text_are_expressions() {
        let of = |frame: &str| read(&format!("SELECT sum(a) OVER (ORDER BY b {frame}) FROM t"));
        for (frame, same) in [
            (
                "RANGE BETWEEN '1 day'::interval PRECEDING AND '2' FOLLOWING",
                "RANGE BETWEEN ('1 day'::interval) PRECEDING AND ('2') FOLLOWING",
            ),
            ("RANGE '1 day' PRECEDING EXCLUDE TIES", "RANGE ('1 day') PRECEDING EXCLUDE TIES"),
            ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        ] {
            assert_eq!(of(frame), of(same), "{frame}");
        }
    }
}
