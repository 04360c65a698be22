//! PIVOT in FROM by several columns or by groups, as `duckdb` has it of the statement:
//!
//! * `t PIVOT (sum(v) FOR k IN (1, 2) l IN ('a', 'b') GROUP BY g)`: `t PIVOT ("pivot groups"(g), sum(v) FOR "pivot
//!   product"((k, 1, 2), (l, 'a', 'b')) IN (ANY))`.

use sqlparser::tokenizer::Token;

use super::{PIVOT_GROUPS, PIVOT_PRODUCT, Text, quoted, word};

impl Text<'_> {
    /// PIVOT behind a table.
    pub(super) fn pivot_in_from(&mut self, at: usize) {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return };
        let Some(by) = self.within(at + 2, closed, "FOR") else { return };
        let (mut parts, mut next, mut group) = (Vec::new(), by + 1, None);
        while next < closed {
            if self.is(next, "GROUP") && self.is(next + 1, "BY") {
                group = Some(next);
                break;
            }
            let Some(list) = self.within(next, closed, "IN") else { return };
            let Some(end) = self.closed.get(&(list + 1)).copied() else { return };
            // Names of values are those of one list.
            if self.within(list + 2, end, "AS").is_some() {
                return;
            }
            parts.push((next, list, end));
            next = end + 1;
        }
        if let Some(group) = group {
            let columns = self.between(group + 1, closed);
            let groups = [quoted(PIVOT_GROUPS), Token::LParen].into_iter().chain(columns);
            self.insert(at + 2, groups.chain([Token::RParen, Token::Comma]));
            self.drop(group..closed);
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
}
