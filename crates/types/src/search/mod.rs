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
#[cfg(test)]
mod tests;
pub mod vector;
pub mod words;

pub use self::dictionaries::Configuration;
pub use self::query::Query;
pub use self::vector::Vector;

/// Positions of lexemes are less than this.
pub const POSITION_MAX: u16 = 16_383;
/// Positions that a lexeme keeps.
const POSITIONS_MAX: usize = 255;
/// Bytes of a word: longer ones are left out.
const WORD_BYTES_MAX: usize = 2_046;
/// Bytes of the lexemes and positions of a vector, as PostgreSQL counts them.
const VECTOR_BYTES_MAX: usize = (1 << 20) - 1;

/// A type of full text search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchKind {
    /// `tsvector`: a document.
    Vector,
    /// `tsquery`: what is asked of documents.
    Query,
    /// `regconfig`: how a text becomes lexemes. Held as its name.
    Configuration,
    /// `regdictionary`: what makes lexemes of words. Held as its name.
    Dictionary,
}

impl SearchKind {
    /// All of them.
    pub const ALL: [SearchKind; 4] = [Self::Vector, Self::Query, Self::Configuration, Self::Dictionary];

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "tsvector",
            Self::Query => "tsquery",
            Self::Configuration => "regconfig",
            Self::Dictionary => "regdictionary",
        }
    }

    /// The type of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// PostgreSQL's numbers of the type and of its arrays.
    pub fn oids(self) -> (u32, u32) {
        match self {
            Self::Vector => (3614, 3643),
            Self::Query => (3615, 3645),
            Self::Configuration => (3734, 3735),
            Self::Dictionary => (3769, 3770),
        }
    }

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
