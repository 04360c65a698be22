//! The privileges that there are, and of what.

/// Something that one may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// To add rows.
    Insert,
    /// To read.
    Select,
    /// To change rows.
    Update,
    /// To take rows away.
    Delete,
    /// To take all rows away.
    Truncate,
    /// To make foreign keys that refer to it.
    References,
    /// To make triggers.
    Trigger,
    /// To call it.
    Execute,
    /// To name what is in it, or to take numbers of it.
    Usage,
    /// To make something in it.
    Create,
    /// To make temporary tables.
    Temporary,
    /// To connect.
    Connect,
}

/// All, in the order in which grants list them, with the letters and names by which clients know them.
const ALL: [(Privilege, char, &str); 12] = [
    (Privilege::Insert, 'a', "INSERT"),
    (Privilege::Select, 'r', "SELECT"),
    (Privilege::Update, 'w', "UPDATE"),
    (Privilege::Delete, 'd', "DELETE"),
    (Privilege::Truncate, 'D', "TRUNCATE"),
    (Privilege::References, 'x', "REFERENCES"),
    (Privilege::Trigger, 't', "TRIGGER"),
    (Privilege::Execute, 'X', "EXECUTE"),
    (Privilege::Usage, 'U', "USAGE"),
    (Privilege::Create, 'C', "CREATE"),
    (Privilege::Temporary, 'T', "TEMPORARY"),
    (Privilege::Connect, 'c', "CONNECT"),
];

impl Privilege {
    /// The one of a name, as GRANT has it.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { name };
        ALL.iter().find(|(_, _, known)| known.eq_ignore_ascii_case(name)).map(|(privilege, ..)| *privilege)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(known, ..)| *known == self).map_or("", |(.., name)| name)
    }

    fn bit(self) -> u16 {
        1 << ALL.iter().position(|(known, ..)| *known == self).unwrap_or_default()
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u16);

impl Privileges {
    /// None.
    pub const NONE: Self = Self(0);

    /// These.
    pub fn of(privileges: &[Privilege]) -> Self {
        Self(privileges.iter().fold(0, |all, one| all | one.bit()))
    }

    /// Whether it is among them.
    pub fn has(self, privilege: Privilege) -> bool {
        self.0 & privilege.bit() != 0
    }

    /// Both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// One by one, in the order in which grants list them.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        ALL.iter().map(|(privilege, ..)| *privilege).filter(move |privilege| self.has(*privilege))
    }

    /// Their letters; with a star behind those that are options, too.
    pub fn letters(self, options: Self) -> String {
        let shown = |(privilege, letter, _): &(Privilege, char, &str)| {
            let star = if options.has(*privilege) { "*" } else { "" };
            self.has(*privilege).then(|| format!("{letter}{star}"))
        };
        ALL.iter().filter_map(shown).collect()
    }

    /// Those of some letters.
    pub(super) fn of_letters(letters: &str) -> Self {
        let found = ALL.iter().filter(|(_, letter, _)| letters.contains(*letter));
        Self::of(&found.map(|(privilege, ..)| *privilege).collect::<Vec<_>>())
    }
}

/// What has privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// Tables and views of all kinds.
    Table,
    /// Sequences.
    Sequence,
    /// Functions and procedures.
    Routine,
    /// Types and domains.
    Type,
    /// Schemas.
    Schema,
    /// Databases.
    Database,
    /// Columns of tables and views.
    Column,
    /// Languages of functions.
    Language,
}

/// A language of functions that is granted; everybody may make functions in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Python, in all its forms.
    Python,
    /// WebAssembly, in all its forms.
    Wasm,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Python, Self::Wasm];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Wasm => "wasm",
        }
    }

    /// The one that functions of LANGUAGE `name` are in.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "python" | "plpython3u" | "python_arrow" | "python_aggregate" => Some(Self::Python),
            "wasm" | "wasm_arrow" => Some(Self::Wasm),
            _ => None,
        }
    }
}

impl SubjectKind {
    /// All that stand by themselves.
    pub const ALL: [Self; 7] =
        [Self::Table, Self::Sequence, Self::Routine, Self::Type, Self::Schema, Self::Database, Self::Language];

    /// What one may do with it.
    pub fn all(self) -> Privileges {
        use Privilege::{
            Connect, Create, Delete, Execute, Insert, References, Select, Temporary, Trigger, Truncate, Update, Usage,
        };
        Privileges::of(match self {
            Self::Table => &[Insert, Select, Update, Delete, Truncate, References, Trigger],
            Self::Sequence => &[Select, Update, Usage],
            Self::Routine => &[Execute],
            Self::Type | Self::Language => &[Usage],
            Self::Schema => &[Usage, Create],
            Self::Database => &[Create, Temporary, Connect],
            Self::Column => &[Insert, Select, Update, References],
        })
    }

    /// What everybody may do with it, if nobody has said it.
    pub fn public(self) -> Privileges {
        match self {
            Self::Table | Self::Sequence | Self::Schema | Self::Column | Self::Language => Privileges::NONE,
            Self::Routine => Privileges::of(&[Privilege::Execute]),
            Self::Type => Privileges::of(&[Privilege::Usage]),
            Self::Database => Privileges::of(&[Privilege::Temporary, Privilege::Connect]),
        }
    }

    /// In messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Sequence => "sequence",
            Self::Routine => "function",
            Self::Type => "type",
            Self::Schema => "schema",
            Self::Database => "database",
            Self::Column => "column",
            Self::Language => "language",
        }
    }

    /// By which clients know it in grants for new objects.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Table => "r",
            Self::Sequence => "S",
            Self::Routine => "f",
            Self::Type => "T",
            Self::Schema => "n",
            Self::Database => "d",
            Self::Column => "c",
            Self::Language => "l",
        }
    }
}
