//! What plans are remembered under: the text of a statement, normalized, the values of its parameters, and what it is
//! planned under.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_catalog::PlanningIdentity;
use diligence_engine::plan::Needs;

use super::normalized::normalized;
use super::planned::ParsedStatement;

/// Bytes of a text that is remembered, at most: longer ones are mostly constants, and do not come again.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What a plan is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    text: Arc<str>,
    values: String,
    identity: PlanningIdentity,
}

impl PlanKey {
    /// The key of a statement that is about to be planned, with arrays of one row for the values of its parameters;
    /// `None` for a statement that is too long to be remembered.
    pub fn new(identity: PlanningIdentity, text: &str, values: &[ArrayRef]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        Self::of_text(identity, normalized(text).into(), values)
    }

    /// As [`new`](Self::new), of a statement that is parsed.
    pub fn of(identity: PlanningIdentity, parsed: &ParsedStatement, values: &[ArrayRef]) -> Option<Self> {
        let is_short = parsed.text().len() <= TEXT_BYTES_MAX;
        is_short.then(|| Self::of_text(identity, parsed.normalized().clone(), values)).flatten()
    }

    fn of_text(identity: PlanningIdentity, text: Arc<str>, values: &[ArrayRef]) -> Option<Self> {
        let mut rendered = String::new();
        for value in values {
            let options = FormatOptions::default().with_null("\0");
            let formatter = ArrayFormatter::try_new(value, &options).ok()?;
            let text = formatter.value(0).to_string();
            if rendered.len() + text.len() > TEXT_BYTES_MAX {
                return None;
            }
            write!(rendered, "{}:{}:{text};", value.data_type(), text.len()).ok()?;
        }
        Some(Self { text, values: rendered, identity })
    }

    /// What the statement is planned under.
    pub(super) fn identity(&self) -> PlanningIdentity {
        self.identity
    }
}

/// What a generic plan is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GenericKey {
    text: Arc<str>,
    types: Vec<DataType>,
    identity: PlanningIdentity,
}

impl GenericKey {
    /// The key of a statement with parameters; `None` for one without, or one that is too long to be remembered.
    pub fn of(identity: PlanningIdentity, parsed: &ParsedStatement, values: &[ArrayRef]) -> Option<Self> {
        if values.is_empty() || parsed.text().len() > TEXT_BYTES_MAX {
            return None;
        }
        let types = values.iter().map(|value| value.data_type().clone()).collect();
        Some(Self { text: parsed.normalized().clone(), types, identity })
    }

    /// What the statement is planned under.
    pub(super) fn identity(&self) -> PlanningIdentity {
        self.identity
    }

    /// The types of the parameters, in the order of their numbers.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }
}

/// A normalized statement with `?` for its constants; several in a row are one. It only has to be the same for the same
/// query: where a text in quotes ends may be misread.
fn template(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '.');
    while let Some(character) = rest.next() {
        let inside_word = out.chars().next_back().is_some_and(is_word);
        match character {
            '\'' => {
                rest.by_ref().take_while(|quoted| *quoted != '\'').for_each(drop);
            }
            '"' => {
                out.push(character);
                for quoted in rest.by_ref() {
                    out.push(quoted);
                    if quoted == character {
                        break;
                    }
                }
                continue;
            }
            '0'..='9' if !inside_word => while rest.next_if(|character| is_word(*character)).is_some() {},
            _ => {
                out.push(character);
                continue;
            }
        }
        // Lists of any length are alike.
        let list = out.trim_end_matches(' ').strip_suffix(',').map(|before| before.trim_end_matches(' '));
        match list.filter(|before| before.ends_with('?')).map(str::len) {
            Some(length) => out.truncate(length),
            None => out.push('?'),
        }
    }
    out
}

/// Statements of a template whose plans are expected to need about the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TemplateKey {
    text: String,
    identity: PlanningIdentity,
    /// How large the plan is expected to be, in powers of four: other constants can make another query of it.
    size: (u32, u32),
}

impl TemplateKey {
    pub(super) fn new(key: &PlanKey, needs: Needs) -> Self {
        let size = |number: usize| number.checked_ilog2().unwrap_or(0) / 2;
        Self { text: template(&key.text), identity: key.identity, size: (size(needs.rows), size(needs.memory_bytes)) }
    }

    /// The same of one statement with its constants and values: of what is not remembered planned, as table functions,
    /// the plan does not tell large from small.
    pub(super) fn exact(key: &PlanKey, needs: Needs) -> Self {
        Self { text: format!("{}\0{}", key.text, key.values), ..Self::new(key, needs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_do_not_make_another_template() {
        let of = |text| template(&normalized(text));
        assert_eq!(
            of("SELECT a1, t2.b FROM t2 WHERE x = 12.5e3 AND y = 'it''s' LIMIT 10"),
            "SELECT a1, t2.b FROM t2 WHERE x = ? AND y = ?? LIMIT ?"
        );
        assert_eq!(of("SELECT 1 WHERE x IN (1, 2,3 , 'a')"), of("SELECT  7 WHERE x IN (5)"));
        assert_eq!(of("SELECT \"a 1\", $1 FROM t"), "SELECT \"a 1\", $1 FROM t");
        assert_ne!(of("SELECT a FROM t WHERE b = 1"), of("SELECT a FROM t WHERE c = 1"));
    }
}
