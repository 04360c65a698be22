//! Parameters whose clients say of which types they are, where a statement would take them for others.

use std::fmt::Write;

use diligence_base::Result;
use sqlparser::tokenizer::Token;

use super::dialect::PostgresSyntax;
use super::{LineIndex, tokens};

/// The function that gives a parameter as one of a type: of the parameter and the type's name.
pub(crate) const GIVEN_AS: &str = "given as";

/// The text of a statement whose parameters are of these types, by their places; those without a type are what the
/// statement takes them for. `$1 || $2` of two `jsonb` becomes `"given as"($1, 'jsonb') || "given as"($2, 'jsonb')`.
/// Fails with kind `Input` on what is no token of SQL.
pub fn with_declared(sql: &str, types: &[Option<&str>]) -> Result<String> {
    let tokens = tokens(sql, &PostgresSyntax::default())?;
    let lines = LineIndex::new(sql);
    let (mut text, mut end) = (String::with_capacity(sql.len() + 32 * types.len()), 0);
    for token in &tokens {
        let Token::Placeholder(name) = &token.token else { continue };
        let place = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()?.checked_sub(1));
        let Some(sql_type) = place.and_then(|place| *types.get(place)?) else { continue };
        let (from, to) = (lines.offset(token.span.start), lines.offset(token.span.end));
        text.push_str(&sql[end..from]);
        let _ = write!(text, "\"{GIVEN_AS}\"({name}, '{sql_type}')");
        end = to;
    }
    text.push_str(&sql[end..]);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_get_the_types_that_their_clients_say() {
        let text = "SELECT '$1',\n $1 || $2, $3::text, $$ $1 $$ -- $1";
        let given = with_declared(text, &[Some("jsonb"), None, Some("uuid")]).unwrap();
        let expected = "SELECT '$1',\n \"given as\"($1, 'jsonb') || $2, \"given as\"($3, 'uuid')::text, $$ $1 $$ -- $1";
        assert_eq!(given, expected);
        assert_eq!(with_declared("SELECT $1", &[None]).unwrap(), "SELECT $1");
    }
}
