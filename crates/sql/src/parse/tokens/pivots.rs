//! PIVOT, which becomes the parser's PIVOT in FROM (`"pivot groups"`, `"pivot product"` and `"pivot value"` are what it
//! does not have):
//!
//! * `PIVOT t ON k IN ('a', 'b') USING sum(v)`: `SELECT * FROM t PIVOT (sum(v) FOR k IN ('a', 'b'))`;
//! * `PIVOT (sum(v) + 1 FOR …)`: `PIVOT ("pivot value"(sum(v) + 1) FOR …)`; `IN labels`, an enum: IN with a query;
//! * `t PIVOT (sum(v) FOR k IN (1, 2) l IN ('a', 'b') GROUP BY g)`: `t PIVOT ("pivot groups"(g), sum(v) FOR "pivot
//!   product"((k, 1, 2), (l, 'a', 'b')) IN (ANY))`.

use sqlparser::tokenizer::Token;

use super::{PIVOT_GROUPS, PIVOT_PRODUCT, Text, quoted, word};

/// What PIVOT computes, where it is more than an aggregate.
pub(crate) const PIVOT_VALUE: &str = "pivot value";

impl Text<'_> {
    /// PIVOT behind a table.
    pub(super) fn pivot_in_from(&mut self, at: usize) {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return };
        let Some(by) = self.within(at + 2, closed, "FOR") else { return };
        let group = self.within(by, closed, "GROUP").filter(|group| self.is(group + 1, "BY"));
        if let Some(group) = group {
            let columns = self.between(group + 1, closed);
            let groups = [quoted(PIVOT_GROUPS), Token::LParen].into_iter().chain(columns);
            self.insert(at + 2, groups.chain([Token::RParen, Token::Comma]));
            self.drop(group..closed);
        }
        for (first, last) in self.computed(at + 2, by) {
            self.insert(first, [quoted(PIVOT_VALUE), Token::LParen]);
            self.insert(last, [Token::RParen]);
        }
        let (mut parts, mut next, lists_end) = (Vec::new(), by + 1, group.unwrap_or(closed));
        while next < lists_end {
            let Some(list) = self.within(next, lists_end, "IN") else { return };
            let Some(end) = self.closed.get(&(list + 1)).copied() else { return self.labels(list) };
            // Names of values are those of one list.
            if self.within(list + 2, end, "AS").is_some() {
                return;
            }
            parts.push((next, list, end));
            next = end + 1;
        }
        if parts.len() < 2 {
            return;
        }
        let mut product = vec![word("FOR"), quoted(PIVOT_PRODUCT), Token::LParen];
        for (place, (begin, list, end)) in parts.into_iter().enumerate() {
            product.extend((place > 0).then_some(Token::Comma));
            product.push(Token::LParen);
            product.extend((begin..list).map(|at| self.token(at).clone()));
            product.push(Token::Comma);
            product.extend(self.between(list + 1, end));
            product.push(Token::RParen);
        }
        product.extend([Token::RParen, word("IN"), Token::LParen, word("ANY"), Token::RParen]);
        self.replace(by, product);
        self.drop(by + 1..next);
    }

    /// `PIVOT t ON k IN ('a', 'b') USING sum(v) GROUP BY g`; the groups are a first aggregate, `"pivot groups"(g)`.
    /// Several after ON are one, `"pivot product"((k, 'a', 'b'), (l))`.
    pub(super) fn pivot_statement(&mut self, at: usize) {
        let Some(on) = self.next_of(at, &["ON"]) else { return self.pivot_of_nothing(at) };
        let list_end = self.next_of(on, &["USING", "GROUP", "ORDER", "LIMIT"]);
        let list_end = list_end.unwrap_or_else(|| self.statement_end(on));
        let end = self.next_of(list_end, &["ORDER", "LIMIT"]).unwrap_or_else(|| self.statement_end(list_end));
        let group = self.next_of(list_end, &["GROUP"]).filter(|group| *group < end && self.is(group + 1, "BY"));
        let aggregates = match self.is(list_end, "USING") {
            true => self.aggregates(list_end + 1, group.unwrap_or(end)),
            false => vec![word("count"), Token::LParen, Token::Mul, Token::RParen],
        };
        let groups = group.map(|group| {
            let columns = self.between(group + 1, end);
            [quoted(PIVOT_GROUPS), Token::LParen].into_iter().chain(columns).chain([Token::RParen, Token::Comma])
        });
        self.select_all(at);
        let head = [word("PIVOT"), Token::LParen].into_iter().chain(groups.into_iter().flatten());
        let mut head = head.chain(aggregates).chain([word("FOR")]).collect::<Vec<_>>();
        let items = self.items(on + 1, list_end);
        // Without a list, the values are those that there are.
        let any = [word("IN"), Token::LParen, word("ANY"), Token::RParen];
        if items.len() > 1 {
            head.extend([quoted(PIVOT_PRODUCT), Token::LParen]);
            for (place, (begin, item_end)) in items.into_iter().enumerate() {
                let list = self.within(begin, item_end, "IN");
                head.extend((place > 0).then_some(Token::Comma));
                head.push(Token::LParen);
                head.extend((begin..list.unwrap_or(item_end)).map(|at| self.token(at).clone()));
                if let Some(list) = list {
                    head.push(Token::Comma);
                    head.extend((list + 2..item_end - 1).map(|at| self.token(at).clone()));
                }
                head.push(Token::RParen);
            }
            head.push(Token::RParen);
            self.replace(on, head);
            self.drop(on + 1..end);
            return self.insert_or_end(end, any.into_iter().chain([Token::RParen]));
        }
        let list = self.within(on + 1, list_end, "IN");
        let key_end = list.unwrap_or(list_end);
        let is_tuple = match self.closed.get(&(on + 1)) {
            Some(closed) => closed + 1 == key_end && self.items(on + 2, *closed).len() > 1,
            None => false,
        };
        let is_computed = key_end > on + 2 && !is_tuple;
        if is_computed {
            head.extend([Token::LParen, Token::LParen]);
        }
        self.replace(on, head);
        self.drop(list_end..end);
        let closed = if is_computed { vec![Token::RParen, Token::RParen] } else { vec![] };
        match list {
            Some(list) => {
                self.insert(list, closed);
                self.labels(list);
                self.insert_or_end(end, [Token::RParen]);
            }
            None => self.insert_or_end(end, closed.into_iter().chain(any).chain([Token::RParen])),
        }
    }

    /// `PIVOT t USING sum(v) GROUP BY g`, which turns no rows: `FROM t SELECT g, sum(v) GROUP BY g`.
    fn pivot_of_nothing(&mut self, at: usize) {
        let Some(using) = self.next_of(at, &["USING"]) else { return };
        let end = self.next_of(using, &["ORDER", "LIMIT"]).unwrap_or_else(|| self.statement_end(using));
        let group = self.next_of(using, &["GROUP"]).filter(|group| *group < end && self.is(group + 1, "BY"));
        let groups = group.map(|group| self.between(group + 1, end).into_iter().chain([Token::Comma]));
        self.replace(at, [word("FROM")]);
        self.replace(using, [word("SELECT")].into_iter().chain(groups.into_iter().flatten()));
    }

    /// The aggregates between two places, those that are more than a call put into one: `"pivot value"(sum(v) + 1)`.
    fn aggregates(&self, begin: usize, end: usize) -> Vec<Token> {
        let computed = self.computed(begin, end);
        let mut tokens = Vec::with_capacity(end - begin);
        for at in begin..end {
            tokens.extend(computed.iter().filter(|(_, last)| *last == at).map(|_| Token::RParen));
            if computed.iter().any(|(first, _)| *first == at) {
                tokens.extend([quoted(PIVOT_VALUE), Token::LParen]);
            }
            tokens.push(self.token(at).clone());
        }
        tokens.extend(computed.iter().filter(|(_, last)| *last == end).map(|_| Token::RParen));
        tokens
    }

    /// Where the aggregates between two places begin and end, without their names, that are more than a call.
    fn computed(&self, begin: usize, end: usize) -> Vec<(usize, usize)> {
        let mut computed = Vec::new();
        for (first, last) in self.items(begin, end) {
            let value_end = self.within(first, last, "AS").unwrap_or(last);
            let is_call = self.closed.get(&self.name_end(first)).is_some_and(|closed| {
                let is_name = closed + 2 == value_end && matches!(self.token(closed + 1), Token::Word(_));
                closed + 1 == value_end || is_name || self.is_any(closed + 1, &["FILTER", "WITHIN"])
            });
            if first < value_end && !is_call {
                computed.push((first, value_end));
            }
        }
        computed
    }

    /// `IN labels`, an enum: `IN (SELECT unnest(enum_range(CAST(NULL AS labels))))`.
    fn labels(&mut self, list: usize) {
        if let name @ Token::Word(_) = self.token(list + 1) {
            let null = [word("CAST"), Token::LParen, word("NULL"), word("AS"), name.clone(), Token::RParen];
            let rows =
                [Token::LParen, word("SELECT"), word("unnest"), Token::LParen, word("enum_range"), Token::LParen];
            let closed = [Token::RParen, Token::RParen, Token::RParen];
            self.replace(list + 1, rows.into_iter().chain(null).chain(closed));
        }
    }

    /// The first word of this name between two places, outside of parentheses.
    fn within(&self, mut at: usize, end: usize, name: &str) -> Option<usize> {
        while at < end {
            if self.is(at, name) {
                return Some(at);
            }
            at = self.closed.get(&at).copied().unwrap_or(at) + 1;
        }
        None
    }

    /// Where the parts of a list begin and end that has commas between them.
    pub(super) fn items(&self, begin: usize, end: usize) -> Vec<(usize, usize)> {
        let (mut items, mut from, mut at) = (Vec::new(), begin, begin);
        while at < end {
            match self.token(at) {
                Token::LParen => at = self.closed.get(&at).copied().unwrap_or(at),
                Token::Comma => {
                    items.push((from, at));
                    from = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        items.push((from, end));
        items
    }
}
