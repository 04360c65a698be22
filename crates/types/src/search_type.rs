//! Types of full text search: `tsvector`, `tsquery`, `regconfig` and `regdictionary` (manual, section 8.11).
//!
//! What their values mean is told in [`crate::search`].

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
}
