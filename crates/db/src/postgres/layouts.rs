//! How PostgreSQL lays out values of a type, and which of its functions belong to it: what `pg_type` and `pg_attribute`
//! say of that, and clients compare or show.

use diligence_catalog::types::PostgresType;

/// Numbers of types whose values begin at multiples of eight bytes.
const OF_EIGHT: [u32; 14] = [20, 701, 1083, 1114, 1184, 1186, 1266, 3908, 3910, 3926, 4533, 4534, 4536, 2249];
/// Of one byte.
const OF_ONE: [u32; 5] = [16, 18, 19, 705, 2950];
const SMALLINT: u32 = 21;
const MACADDR8: u32 = 774;
const TSQUERY: u32 = 3615;
/// `int2vector`, `oidvector`.
const VECTORS: [u32; 2] = [22, 30];
/// Types with numbers in parentheses behind their names.
const WITH_MODIFIER: [u32; 10] = [1042, 1043, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700];
/// The types that their categories prefer.
const PREFERRED: [u32; 8] = [16, 25, 26, 701, 869, 1184, 1186, 1562];

/// A type, or its arrays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'t> {
    pub known: &'t PostgresType,
    pub is_array: bool,
}

impl Layout<'_> {
    /// Whether values are passed as they are, not by their places.
    pub(super) fn is_by_value(self) -> bool {
        !self.is_array && matches!(self.known.bytes, 1 | 2 | 4 | 8) && self.known.oid != MACADDR8
    }

    /// Whether its category prefers it.
    pub(super) fn is_preferred(self) -> bool {
        !self.is_array && PREFERRED.contains(&self.known.oid)
    }

    /// Where values begin: `c` anywhere, `s`, `i`, `d` at multiples of two, four and eight bytes.
    pub(super) fn alignment(self) -> &'static str {
        let is_row = self.known.category == "C";
        match self.known.oid {
            oid if is_row || OF_EIGHT.contains(&oid) => "d",
            _ if self.is_array => "i",
            oid if OF_ONE.contains(&oid) => "c",
            SMALLINT => "s",
            _ => "i",
        }
    }

    /// Whether values may lie elsewhere, and packed: `p` never, `m` only if need be, `x` where it pays.
    pub(super) fn storage(self) -> &'static str {
        let oid = self.known.oid;
        match self.known.name {
            _ if self.is_array => "x",
            "numeric" | "inet" | "cidr" => "m",
            _ if self.known.bytes != -1 || VECTORS.contains(&oid) || oid == TSQUERY => "p",
            _ => "x",
        }
    }

    /// The number of the type of the parts by which values may be subscripted: arrays, vectors and names.
    pub(super) fn element(self) -> u32 {
        match self.known.name {
            _ if self.is_array => self.known.oid,
            "name" => 18,
            "int2vector" => SMALLINT,
            "oidvector" => 26,
            _ => 0,
        }
    }

    /// The function that sends values in binary form.
    pub(super) fn sender(self) -> String {
        match self.is_array {
            true => "array_send".to_owned(),
            false => reading_function(self.known.name, "send"),
        }
    }

    /// The functions that read what is in parentheses behind the type's name, and show it.
    pub(super) fn modifiers(self) -> [String; 2] {
        match WITH_MODIFIER.contains(&self.known.oid) {
            true => ["in", "out"].map(|what| format!("{}typmod{what}", self.known.name)),
            false => ["-", "-"].map(str::to_owned),
        }
    }

    /// The function that looks at values for statistics.
    pub(super) fn analyzer(self) -> &'static str {
        match self.known.name {
            _ if self.is_array => "array_typanalyze",
            "tsvector" => "ts_typanalyze",
            name if name.ends_with("multirange") => "multirange_typanalyze",
            name if name.ends_with("range") => "range_typanalyze",
            _ => "-",
        }
    }

    /// The function that computes subscripts.
    pub(super) fn subscripting(self) -> &'static str {
        match self.known.name {
            _ if self.is_array || VECTORS.contains(&self.known.oid) => "array_subscript_handler",
            "name" => "raw_array_subscript_handler",
            "jsonb" => "jsonb_subscript_handler",
            _ => "-",
        }
    }
}

/// The name of the function that reads a type's values (`in`), or shows them (`out`).
pub(super) fn reading_function(name: &str, what: &str) -> String {
    match name {
        // Those of enums, ranges and their kin are the same for all.
        "enum" | "record" | "domain" | "json" | "jsonb" | "date" | "time" | "timetz" | "timestamp" | "timestamptz"
        | "interval" | "numeric" | "uuid" | "inet" | "cidr" | "macaddr" | "macaddr8" | "bit" | "varbit" | "void" => {
            format!("{name}_{what}")
        }
        name if name.ends_with("multirange") => format!("multirange_{what}"),
        name if name.ends_with("range") => format!("range_{what}"),
        "refcursor" => format!("text{what}"),
        name => format!("{name}{what}"),
    }
}
