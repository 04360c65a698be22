//! Types of addresses in networks: `inet`, `cidr`, `macaddr` and `macaddr8` (manual, section 8.9).
//!
//! A value is held as the text that PostgreSQL shows, of which each value has one.

/// A type of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetworkKind {
    /// `inet`: a host's address, and how many bits of it are the network's.
    Inet,
    /// `cidr`: a network, whose address has no bits behind those.
    Cidr,
    /// `macaddr`: six bytes.
    Mac,
    /// `macaddr8`: eight bytes.
    LongMac,
}

impl NetworkKind {
    /// All of them.
    pub const ALL: [NetworkKind; 4] = [Self::Inet, Self::Cidr, Self::Mac, Self::LongMac];

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Cidr => "cidr",
            Self::Mac => "macaddr",
            Self::LongMac => "macaddr8",
        }
    }

    /// The type of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether its values are addresses of the internet protocol.
    pub fn is_internet(self) -> bool {
        matches!(self, Self::Inet | Self::Cidr)
    }

    /// PostgreSQL's numbers of the type and of its arrays.
    pub fn oids(self) -> (u32, u32) {
        match self {
            Self::Inet => (869, 1041),
            Self::Cidr => (650, 651),
            Self::Mac => (829, 1040),
            Self::LongMac => (774, 775),
        }
    }
}
