//! Full text search: documents as vectors of lexemes, and queries about them (manual, chapter 12).
//!
//! A text goes through three steps. [`words`] splits it into words of the classes that PostgreSQL's default parser
//! knows. A [`Configuration`] gives each word to the dictionary of its class ([`dictionaries`]), which makes a lexeme
//! of it, or nothing, if it is a stop word. The lexemes with their positions are a [`Vector`].
//!
//! * [`vector`]: documents, the text form of `tsvector`.
//! * [`query`]: queries, the text form of `tsquery`, and how texts become queries.
//! * [`matching`]: whether a document is what a query asks for.
//! * [`ranking`]: how well it is.
//! * [`headline`]: the parts of a text that a query asks for.
//!
//! A value is held as the text that PostgreSQL shows.

mod binary;
pub mod dictionaries;
pub mod headline;
mod letters;
pub mod matching;
pub mod query;
pub mod ranking;
mod rewriting;
#[cfg(test)]
mod tests;
pub mod vector;
pub mod words;

pub use self::dictionaries::Configuration;
pub use self::query::Query;
pub use self::vector::Vector;
pub use crate::search_type::SearchKind;

/// Positions of lexemes are less than this.
pub const POSITION_MAX: u16 = 16_383;
/// Positions that a lexeme keeps.
const POSITIONS_MAX: usize = 255;
/// Bytes of a word: longer ones are left out.
const WORD_BYTES_MAX: usize = 2_046;
/// Bytes of the lexemes and positions of a vector, as PostgreSQL counts them.
const VECTOR_BYTES_MAX: usize = (1 << 20) - 1;

impl SearchKind {
    /// The text as which a value is held. Fails with 42601 if it is none, 42704 if nothing has the name.
    pub fn held(self, text: &str) -> diligence_base::Result<String> {
        match self {
            Self::Vector => Vector::read(text).map(|vector| vector.text()),
            Self::Query => Query::read(text).map(|query| query.text()),
            Self::Configuration => Configuration::of_name(text).map(|one| one.name().to_owned()),
            Self::Dictionary => dictionaries::Dictionary::of_name(text).map(|one| one.name()),
        }
    }
}

/// A position of the ones that can be held.
fn held_position(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(POSITION_MAX).min(POSITION_MAX)
}
