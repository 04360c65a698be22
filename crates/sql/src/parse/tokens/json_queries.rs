//! The functions of SQL/JSON that look into JSON by a path, with PostgreSQL 17's clauses, as calls:
//!
//! * `JSON_VALUE(j, p PASSING v AS n RETURNING t DEFAULT d ON EMPTY ERROR ON ERROR)`:
//!   `"json value"(j, p, jsonb_build_object('n', v), CAST(NULL AS t), NULL, NULL, 'default', d, 'error', NULL)`;
//! * `JSON_TABLE(j, p AS a PASSING v AS n COLUMNS (x t))`:
//!   `JSON_TABLE("json passing"(j, jsonb_build_object('n', v)), p COLUMNS (x t PATH '$."x"'))`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// What stands in front of the arguments of such a call: `value`, `query` or `exists` behind it. The arguments: the
/// JSON, the path, the variables as an object, NULL of the returned type, the wrapper, the quotes, and what is done
/// where nothing is found, and on errors: how, and with which value. What is not said is NULL.
pub(crate) const JSON_CALL: &str = "json ";
/// The JSON of JSON_TABLE with its variables.
pub(crate) const JSON_PASSING: &str = "json passing";

/// The clauses, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clause {
    Passing,
    Returning,
    Wrapper,
    Quotes,
    OnEmpty,
    OnError,
}

const CLAUSES: [Clause; 6] =
    [Clause::Passing, Clause::Returning, Clause::Wrapper, Clause::Quotes, Clause::OnEmpty, Clause::OnError];

impl Clause {
    /// What stands for one that is not there.
    fn absent(self) -> Vec<Token> {
        let values = if matches!(self, Self::OnEmpty | Self::OnError) { 2 } else { 1 };
        (0..values).flat_map(|_| [Token::Comma, word("NULL")]).collect()
    }
}

/// What may stand before ON EMPTY and ON ERROR, but for DEFAULT.
const BEHAVIORS: [&str; 6] = ["ERROR", "NULL", "EMPTY", "TRUE", "FALSE", "UNKNOWN"];

impl Text<'_> {
    /// JSON_VALUE, JSON_QUERY or JSON_EXISTS, if it is one of SQL's: DuckDB has functions of these names.
    pub(super) fn json_query(&mut self, at: usize) {
        let Some(end) = self.closed.get(&(at + 1)).copied() else { return };
        let Some(comma) = self.outer_places(at + 2, end).into_iter().find(|at| *self.token(*at) == Token::Comma) else {
            return;
        };
        let Some(clauses) = self.json_clauses(comma + 1, end) else { return };
        let is_sql_path = match self.token(comma + 1) {
            Token::SingleQuotedString(path) => ["lax", "strict"].iter().any(|mode| path.starts_with(mode)),
            _ => false,
        };
        if self.is(at, "JSON_EXISTS") && clauses.is_empty() && !is_sql_path {
            return;
        }
        let kind = self.token(at).to_string().to_lowercase().replace("json_", JSON_CALL);
        self.replace(at, [quoted(&kind)]);
        let mut clauses = clauses.into_iter().peekable();
        let mut absent = Vec::new();
        for clause in CLAUSES {
            let Some((_, begin)) = clauses.next_if(|(known, _)| *known == clause) else {
                absent.extend(clause.absent());
                continue;
            };
            let stop = clauses.peek().map_or(end, |(_, begin)| *begin);
            self.insert(begin, std::mem::take(&mut absent));
            self.json_clause(clause, begin, stop);
        }
        self.insert(end, absent);
    }

    /// Places between two, without those inside of parentheses and brackets.
    fn outer_places(&self, from: usize, to: usize) -> Vec<usize> {
        let (mut places, mut at, mut brackets) = (Vec::new(), from, 0_usize);
        while at < to {
            match self.token(at) {
                Token::LBracket => brackets += 1,
                Token::RBracket => brackets = brackets.saturating_sub(1),
                _ if brackets == 0 => places.push(at),
                _ => {}
            }
            at = self.closed.get(&at).map_or(at, |closed| (*closed).max(at)) + 1;
        }
        places
    }

    /// The clauses and where they begin; `None` if they are not in their order.
    fn json_clauses(&self, from: usize, end: usize) -> Option<Vec<(Clause, usize)>> {
        let mut clauses: Vec<(Clause, usize)> = Vec::new();
        // Where a value may begin that is no clause.
        let mut value_until = from + 1;
        for at in self.outer_places(from, end) {
            let before = clauses.last().map(|(clause, _)| *clause);
            let clause = match () {
                () if at < value_until => continue,
                () if self.is(at, "PASSING") => Clause::Passing,
                () if self.is(at, "RETURNING") => Clause::Returning,
                () if self.is_any(at, &["WITH", "WITHOUT"]) && self.begins_wrapper(at) => Clause::Wrapper,
                () if self.is_any(at, &["KEEP", "OMIT"]) && self.is(at + 1, "QUOTES") => Clause::Quotes,
                () if self.is(at, "DEFAULT") || self.is_any(at, &BEHAVIORS) => {
                    let Some(on) = self.on_clause(at, end) else { continue };
                    value_until = on + 2;
                    if self.is(on + 1, "EMPTY") { Clause::OnEmpty } else { Clause::OnError }
                }
                () => continue,
            };
            if before.is_some_and(|before| before >= clause) {
                return None;
            }
            clauses.push((clause, at));
        }
        Some(clauses)
    }

    fn begins_wrapper(&self, at: usize) -> bool {
        (at + 1..at + 4).any(|at| self.is(at, "WRAPPER"))
    }

    /// Where ON EMPTY or ON ERROR stands behind what is done then.
    fn on_clause(&self, at: usize, end: usize) -> Option<usize> {
        let is_on = |at: usize| self.is(at, "ON") && self.is_any(at + 1, &["EMPTY", "ERROR"]);
        if self.is(at, "DEFAULT") {
            return self.outer_places(at + 1, end).into_iter().find(|at| is_on(*at));
        }
        let behind = if self.is(at, "EMPTY") && self.is_any(at + 1, &["ARRAY", "OBJECT"]) { at + 2 } else { at + 1 };
        is_on(behind).then_some(behind)
    }

    /// Makes arguments of a clause that ends before a place.
    fn json_clause(&mut self, clause: Clause, begin: usize, stop: usize) {
        let literal = |text: &str| Token::SingleQuotedString(text.to_owned());
        match clause {
            Clause::Passing => self.json_passing(begin, stop),
            Clause::Returning => {
                self.replace(begin, [Token::Comma, word("CAST"), Token::LParen, word("NULL"), word("AS")]);
                // FORMAT JSON says nothing more.
                if let Some(format) = (begin + 2..stop).find(|at| self.is(*at, "FORMAT")) {
                    self.drop(format..stop);
                }
                self.insert(stop, [Token::RParen]);
            }
            Clause::Wrapper => {
                let kind = match () {
                    () if self.is(begin, "WITHOUT") => "without",
                    () if (begin..stop).any(|at| self.is(at, "CONDITIONAL")) => "conditional",
                    () => "with",
                };
                self.replace(begin, [Token::Comma, literal(kind)]);
                self.drop(begin + 1..stop);
            }
            Clause::Quotes => {
                let kind = if self.is(begin, "OMIT") { "omit" } else { "keep" };
                self.replace(begin, [Token::Comma, literal(kind)]);
                self.drop(begin + 1..stop);
            }
            Clause::OnEmpty | Clause::OnError if self.is(begin, "DEFAULT") => {
                self.replace(begin, [Token::Comma, literal("default"), Token::Comma]);
                self.drop(stop - 2..stop);
            }
            Clause::OnEmpty | Clause::OnError => {
                let is_object = self.is(begin + 1, "OBJECT");
                let kind = if is_object { "object".to_owned() } else { self.token(begin).to_string().to_lowercase() };
                self.replace(begin, [Token::Comma, literal(&kind), Token::Comma, word("NULL")]);
                self.drop(begin + 1..stop);
            }
        }
    }

    /// `PASSING v AS n, …`: an object of the variables behind a comma.
    fn json_passing(&mut self, begin: usize, stop: usize) {
        self.replace(begin, [Token::Comma, word("jsonb_build_object"), Token::LParen]);
        let places = self.outer_places(begin + 1, stop);
        let mut first = begin + 1;
        for at in &places {
            if *self.token(*at) == Token::Comma {
                first = at + 1;
            }
            // The last AS before the next comma: there may be casts in front of it, but those are in parentheses.
            if self.is(*at, "AS")
                && let Token::Word(name) = self.token(at + 1)
            {
                let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
                self.insert(first, [Token::SingleQuotedString(name), Token::Comma]);
                self.drop(*at..at + 2);
            }
        }
        self.insert(stop, [Token::RParen]);
    }

    /// JSON_TABLE: its variables go with its JSON, the name of its path says nothing, and columns without a path have
    /// that of their name.
    pub(super) fn json_table(&mut self, at: usize) {
        let Some(end) = self.closed.get(&(at + 1)).copied() else { return };
        let places = self.outer_places(at + 2, end);
        let find = |name: &str| places.iter().copied().find(|at| self.is(*at, name));
        let Some(columns) = find("COLUMNS") else { return };
        let passing = find("PASSING").filter(|passing| *passing < columns);
        let Some(comma) = places.iter().copied().find(|at| *self.token(*at) == Token::Comma) else { return };
        let behind_path = comma + 2;
        if self.is(behind_path, "AS") {
            self.drop(behind_path..behind_path + 2);
        }
        if let Some(passing) = passing {
            // The object goes in front of the comma; so its tokens are copied there.
            let object = self.between(passing, columns);
            self.insert(at + 2, [quoted(JSON_PASSING), Token::LParen]);
            let made = variables_of(&object);
            self.insert(comma, made.into_iter().chain([Token::RParen]));
            self.drop(passing..columns);
        }
        self.default_paths(columns + 1);
    }

    /// Columns of JSON_TABLE without a path: `x t` is `x t PATH '$."x"'`.
    fn default_paths(&mut self, opened: usize) {
        let Some(closed) = self.closed.get(&opened).copied() else { return };
        let places = self.outer_places(opened + 1, closed);
        let mut first = opened + 1;
        let ends = places.iter().copied().filter(|at| *self.token(*at) == Token::Comma).chain([closed]);
        for end in ends.collect::<Vec<_>>() {
            let column = std::mem::replace(&mut first, end + 1);
            let own = self.outer_places(column, end);
            if self.is(column, "NESTED") {
                let nested = own.iter().copied().find(|at| self.is(*at, "COLUMNS"));
                if let Some(nested) = nested {
                    self.default_paths(nested + 1);
                }
                continue;
            }
            let Token::Word(name) = self.token(column) else { continue };
            if own.iter().any(|at| self.is(*at, "PATH") || self.is(*at, "ORDINALITY")) {
                continue;
            }
            let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            let is_clause = |at: &usize| self.is(*at, "DEFAULT") || self.is_any(*at, &BEHAVIORS);
            let behind = own.iter().copied().skip(2).find(is_clause).unwrap_or(end);
            let path = format!("$.\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
            self.insert(behind, [word("PATH"), Token::SingleQuotedString(path)]);
        }
    }
}

/// `, jsonb_build_object('n', v, …)` of `v AS n, …`.
fn variables_of(listed: &[Token]) -> Vec<Token> {
    let is_as = |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case("AS"));
    let mut made = vec![Token::Comma, word("jsonb_build_object"), Token::LParen];
    let (mut depth, mut item) = (0_usize, Vec::new());
    for token in listed.iter().chain([&Token::Comma]) {
        match token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                let mut value = std::mem::take(&mut item);
                let name = match value.pop() {
                    Some(Token::Word(name)) if value.last().is_some_and(is_as) => name,
                    _ => continue,
                };
                value.pop();
                let name = if name.quote_style.is_some() { name.value } else { name.value.to_lowercase() };
                made.extend((made.len() > 3).then_some(Token::Comma));
                made.extend([Token::SingleQuotedString(name), Token::Comma]);
                made.extend(value);
                continue;
            }
            _ => {}
        }
        item.push(token.clone());
    }
    made.push(Token::RParen);
    made
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn clauses_of_json_are_arguments() {
        for (sql, expected) in [
            (
                "SELECT JSON_VALUE(j, '$.a')",
                "SELECT \"json value\"(j, '$.a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            ),
            (
                "SELECT json_value(f(a, b), 'strict $.a' PASSING 1 AS x, g(2, 3) AS \"Y\" RETURNING numeric(5, 2) \
                 DEFAULT 1 + 1 ON EMPTY ERROR ON ERROR) FROM t",
                "SELECT \"json value\"(f(a, b), 'strict $.a', jsonb_build_object('x', 1, 'Y', g(2, 3)), \
                 CAST(NULL AS NUMERIC(5,2)), NULL, NULL, 'default', 1 + 1, 'error', NULL) FROM t",
            ),
            (
                "SELECT JSON_QUERY(j, '$[*]' WITH CONDITIONAL ARRAY WRAPPER OMIT QUOTES EMPTY OBJECT ON ERROR)",
                "SELECT \"json query\"(j, '$[*]', NULL, NULL, 'conditional', 'omit', NULL, NULL, 'object', NULL)",
            ),
            ("SELECT json_exists(j, '$.a')", "SELECT json_exists(j, '$.a')"),
            (
                "SELECT JSON_EXISTS(j, 'lax $.a' TRUE ON ERROR)",
                "SELECT \"json exists\"(j, 'lax $.a', NULL, NULL, NULL, NULL, NULL, NULL, 'true', NULL)",
            ),
            (
                "SELECT * FROM JSON_TABLE(j, '$[*]' AS r PASSING 1 AS x COLUMNS (a int, \"B c\" text DEFAULT '-' ON EMPTY, \
                 n FOR ORDINALITY)) t",
                "SELECT * FROM JSON_TABLE(\"json passing\"(j, jsonb_build_object('x', 1)), '$[*]' \
                 COLUMNS(a INT PATH '$.\"a\"', \"B c\" TEXT PATH '$.\"B c\"' DEFAULT '-' ON EMPTY, n FOR ORDINALITY)) t",
            ),
        ] {
            let crate::parse::SyntaxTree::Statement(statement) = parse_one(sql).unwrap().statement else { panic!() };
            assert_eq!(statement.to_string(), expected);
        }
    }
}
