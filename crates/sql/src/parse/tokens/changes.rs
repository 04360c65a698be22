//! Clauses of INSERT and MERGE.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// INSERT … OVERRIDING SYSTEM VALUE, as the parser's tree has it: a partition or an alias of this name.
pub(crate) const OVERRIDING: &str = "overriding system value";
/// INSERT … OVERRIDING USER VALUE, in the same place.
pub(crate) const OVERRIDING_USER: &str = "overriding user value";

/// INSERT … BY NAME, likewise. In MERGE, a column of this name that is set or inserted: those of the source are, by
/// their names.
pub(crate) const BY_NAME: &str = "by name";

/// The same by their places.
pub(crate) const BY_POSITION: &str = "by position";

/// DO NOTHING in MERGE, as the parser's tree has it: a column of this name that is set or inserted.
pub(crate) const NOTHING: &str = "do nothing";

impl Text<'_> {
    /// `THEN INSERT DEFAULT VALUES` of MERGE: `THEN INSERT VALUES (DEFAULT)`, whose other columns get theirs as well.
    pub(super) fn merged_defaults(&mut self, at: usize) {
        let is_insert = self.follows(at, &["INSERT"]) && at > 1 && self.is(at - 2, "THEN");
        if is_insert && self.is(at, "DEFAULT") && self.is(at + 1, "VALUES") {
            self.replace(at, [word("VALUES"), Token::LParen, word("DEFAULT"), Token::RParen]);
            self.drop(at + 1..at + 2);
        }
    }

    /// `MERGE INTO t USING s USING (a, b)`: `ON (t.a = s.a AND t.b = s.b)`. Whether it is that.
    pub(super) fn joins_merged(&mut self, at: usize) -> bool {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return false };
        let names = (at + 2..closed).collect::<Vec<_>>();
        let is_list = names.len() % 2 == 1
            && names.iter().step_by(2).all(|name| matches!(self.token(*name), Token::Word(_)))
            && names.iter().skip(1).step_by(2).all(|comma| *self.token(*comma) == Token::Comma);
        if !is_list || !self.is(closed + 1, "WHEN") {
            return false;
        }
        // The target's own name, or the one that it has in the statement.
        let first = self.begin + 2 + usize::from(self.is(self.begin + 2, "ONLY"));
        let end = self.name_end(first);
        let target = match () {
            () if self.is(end, "AS") => end + 1,
            () if self.is(end, "USING") => end - 1,
            () => end,
        };
        // An alias may have names of columns behind it.
        let opened = (self.begin..at).rev().find(|opened| self.closed.get(opened) == Some(&(at - 1)));
        let source = opened.unwrap_or(at) - 1;
        let (target @ Token::Word(_), source @ Token::Word(_)) = (self.token(target), self.token(source)) else {
            return false;
        };
        // A query needs an alias.
        if matches!(source, Token::Word(source) if source.keyword == sqlparser::keywords::Keyword::USING) {
            return false;
        }
        let (target, source) = (target.clone(), source.clone());
        let mut condition = vec![Token::LParen];
        for (place, name) in names.into_iter().step_by(2).enumerate() {
            condition.extend((place > 0).then(|| word("AND")));
            let name = self.token(name).clone();
            condition.extend([target.clone(), Token::Period, name.clone(), Token::Eq]);
            condition.extend([source.clone(), Token::Period, name]);
        }
        self.replace(at, [word("ON")]);
        self.replace(at + 1, condition);
        self.drop(at + 2..closed);
        true
    }

    /// Whether WHEN begins a clause of MERGE at a place.
    fn begins_merged(&self, when: usize) -> bool {
        self.is(when, "WHEN") && self.is(when + 1 + usize::from(self.is(when + 1, "NOT")), "MATCHED")
    }

    /// `THEN INSERT`, `THEN INSERT *` and `THEN INSERT BY NAME` of MERGE: `INSERT ("by position") VALUES (NULL)`, or
    /// "by name"; `THEN UPDATE`, `THEN UPDATE SET *` and `THEN UPDATE BY NAME`: `UPDATE SET "by position" = NULL`.
    pub(super) fn merged_whole(&mut self, at: usize) {
        let is_insert = self.is(at + 1, "INSERT");
        let is_clause =
            (0..at).rev().find(|place| self.is(*place, "WHEN")).is_some_and(|when| self.begins_merged(when));
        if !is_clause || !is_insert && !self.is(at + 1, "UPDATE") {
            return;
        }
        let is_star = |place: usize| *self.token(place) == Token::Mul;
        let (name, end) = match () {
            () if self.is(at + 2, "BY") && self.is(at + 3, "NAME") => (BY_NAME, at + 4),
            () if self.is(at + 2, "BY") && self.is(at + 3, "POSITION") => (BY_POSITION, at + 4),
            () if is_insert && is_star(at + 2) => (BY_POSITION, at + 3),
            () if !is_insert && self.is(at + 2, "SET") && is_star(at + 3) => (BY_POSITION, at + 4),
            () => (BY_POSITION, at + 2),
        };
        let ends = matches!(self.token(end), Token::SemiColon | Token::EOF | Token::RParen);
        if !ends && !self.begins_merged(end) && !self.is(end, "RETURNING") {
            return;
        }
        let instead = match is_insert {
            true => vec![
                word("INSERT"),
                Token::LParen,
                quoted(name),
                Token::RParen,
                word("VALUES"),
                Token::LParen,
                word("NULL"),
                Token::RParen,
            ],
            false => vec![word("UPDATE"), word("SET"), quoted(name), Token::Eq, word("NULL")],
        };
        self.replace(at + 1, instead);
        self.drop(at + 2..end);
    }

    /// `WHEN MATCHED … THEN DO NOTHING` and its kin.
    pub(super) fn merge_nothing(&mut self, at: usize) {
        let Some(when) = (0..at).rev().find(|when| self.begins_merged(*when)) else { return };
        let is_new = self.is(when + 1, "NOT") && !(self.is(when + 3, "BY") && self.is(when + 4, "SOURCE"));
        let null = || word("NULL");
        let instead = match is_new {
            true => vec![
                word("INSERT"),
                Token::LParen,
                quoted(NOTHING),
                Token::RParen,
                word("VALUES"),
                Token::LParen,
                null(),
                Token::RParen,
            ],
            false => vec![word("UPDATE"), word("SET"), quoted(NOTHING), Token::Eq, null()],
        };
        self.replace(at + 1, instead);
        self.drop(at + 2..at + 3);
    }

    /// Whether THEN INSERT stands in front of a place, with or without columns between.
    fn inserts_merged(&self, at: usize) -> bool {
        let opened = (0..at).rev().find(|opened| self.closed.get(opened).is_some_and(|closed| closed + 1 == at));
        let insert = opened.unwrap_or(at).checked_sub(1);
        insert.is_some_and(|insert| self.is(insert, "INSERT") && self.follows(insert, &["THEN"]))
    }

    /// Whether the name of a table behind INTO ends here.
    pub(super) fn ends_insert_target(&self, at: usize) -> bool {
        (at >= 2 && self.is(at - 2, "INTO")) || (at >= 4 && self.is(at - 4, "INTO"))
    }

    /// A clause of INSERT that the parser does not know: a partition behind columns, `PARTITION ("…")`, an alias
    /// without.
    pub(super) fn insert_clause(&mut self, at: usize, words: usize, name: &str) {
        // In MERGE, it becomes the last column.
        if self.is(at + words, "VALUES") && self.inserts_merged(at) {
            match *self.token(at - 1) == Token::RParen {
                true => self.insert(at - 1, [Token::Comma, quoted(name)]),
                false => self.insert(at, [Token::LParen, quoted(name), Token::RParen]),
            }
            return self.drop(at..at + words);
        }
        match at > 0 && *self.token(at - 1) == Token::RParen {
            true => self.replace(at, [word("PARTITION"), Token::LParen, quoted(name), Token::RParen]),
            false => self.replace(at, [word("AS"), quoted(name)]),
        }
        self.drop(at + 1..at + words);
    }
}
