//! What keys, references and constraint triggers say of when they are held.

/// When a constraint is held against the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// After each statement.
    #[default]
    Never,
    /// After each statement, unless SET CONSTRAINTS says otherwise (DEFERRABLE).
    Immediate,
    /// At the end of a transaction, unless SET CONSTRAINTS says otherwise (INITIALLY DEFERRED).
    Deferred,
}
