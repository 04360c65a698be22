//! Types whose values are rows of columns: PostgreSQL's records and composite types, and DuckDB's structs.
//!
//! All are held alike. What kind one is decides how its values are shown: a row is `(1,a)`, a struct is JSON.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::RecordField;

/// The columns of a row, and what kind of row it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordType {
    fields: Arc<[RecordField]>,
    kind: RecordKind,
}

/// Where a row comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RecordKind {
    /// A struct: of a literal in braces, or of a file.
    Struct,
    /// `ROW(…)`, or the row of a table.
    Row,
    /// A composite type, which a statement has made.
    Composite(Arc<CompositeName>),
}

/// The name of a composite type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompositeName {
    /// The number by which PostgreSQL's clients know it.
    pub oid: u32,
    /// That of its arrays.
    pub array_oid: u32,
    /// Its schema, if it is not the one that needs no name.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
}

/// What the text begins with by which a field notes a row.
const HEAD: &str = "record";
/// What is between the parts of that text. No name has it.
const PART: char = '\u{1}';
/// PostgreSQL's number of `record`, and of its arrays.
const RECORD_OIDS: (u32, u32) = (2249, 2287);

impl RecordType {
    /// A row as `ROW(…)` makes it.
    pub fn row(fields: Vec<RecordField>) -> Self {
        Self { fields: fields.into(), kind: RecordKind::Row }
    }

    /// A composite type.
    pub fn composite(name: CompositeName, fields: Vec<RecordField>) -> Self {
        Self { fields: fields.into(), kind: RecordKind::Composite(Arc::new(name)) }
    }

    /// The same kind of row with other columns.
    pub fn with(&self, fields: Vec<RecordField>) -> Self {
        Self { fields: fields.into(), kind: self.kind.clone() }
    }

    /// Whether it is shown as a row, not as a struct.
    pub fn is_row(&self) -> bool {
        self.kind != RecordKind::Struct
    }

    /// For each column of another type, in its order, which column of this one it is made of in a cast; `None` for a
    /// column that becomes NULL. Columns of a struct go by their names, letters' case aside, if one of them is in both
    /// types; those of rows go by their places. `None` of all if neither leads to the other type.
    pub fn sources(&self, to: &Self) -> Option<Vec<Option<usize>>> {
        let is_named = self.kind == RecordKind::Struct && to.kind != RecordKind::Row;
        let place = |wanted: &RecordField| {
            let exact = self.fields.iter().position(|field| field.name == wanted.name);
            exact.or_else(|| self.fields.iter().position(|field| field.name.eq_ignore_ascii_case(&wanted.name)))
        };
        let by_name = is_named.then(|| to.fields.iter().map(place).collect::<Vec<_>>());
        match by_name {
            Some(sources) if sources.iter().any(Option::is_some) => Some(sources),
            _ if self.fields.len() == to.fields.len() => Some((0..self.fields.len()).map(Some).collect()),
            _ => None,
        }
    }

    /// The struct with the columns of all of these structs, in the order in which they come first: what each column is
    /// in the structs that have it. `None` if one is a row, or if all have the same names in the same order.
    pub(crate) fn merged<'a>(structs: &[&'a Self]) -> Option<Vec<(&'a str, Vec<&'a RecordField>)>> {
        let (first, others) = structs.split_first()?;
        let is_alike =
            |other: &&Self| other.len() == first.len() && other.iter().zip(first.iter()).all(|(a, b)| a.name == b.name);
        if structs.iter().any(|one| one.kind != RecordKind::Struct) || others.iter().all(is_alike) {
            return None;
        }
        let mut columns: Vec<(&str, Vec<&RecordField>)> = vec![];
        for field in structs.iter().flat_map(|one| one.fields.iter()) {
            match columns.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(&field.name)) {
                Some((_, found)) => found.push(field),
                None => columns.push((&field.name, vec![field])),
            }
        }
        Some(columns)
    }

    /// Whether two structs have other columns, or the same in another order. Rows go by places.
    pub fn has_other_columns(&self, other: &Self) -> bool {
        Self::merged(&[self, other]).is_some()
    }

    /// The name, if it is a composite type.
    pub fn composite_name(&self) -> Option<&CompositeName> {
        match &self.kind {
            RecordKind::Composite(name) => Some(name),
            _ => None,
        }
    }

    /// Its name without its schema, if it is a composite type.
    pub fn name(&self) -> Option<&str> {
        self.composite_name().map(|name| name.name.as_str())
    }

    /// The numbers of the type and of its arrays.
    pub(crate) fn oids(&self) -> (u32, u32) {
        self.composite_name().map_or(RECORD_OIDS, |name| (name.oid, name.array_oid))
    }

    /// The text by which a field notes the kind; the columns are in the field's own type.
    pub(crate) fn noted(&self) -> String {
        match &self.kind {
            RecordKind::Struct => "struct".to_owned(),
            RecordKind::Row => HEAD.to_owned(),
            RecordKind::Composite(name) => {
                let schema = name.schema.as_deref().unwrap_or_default();
                format!("{HEAD}{PART}{}{PART}{}{PART}{schema}{PART}{}", name.oid, name.array_oid, name.name)
            }
        }
    }

    /// The kind that a field has noted, without columns.
    pub(crate) fn of_noted(text: &str) -> Option<Self> {
        let mut parts = text.split(PART);
        if parts.next() != Some(HEAD) {
            return None;
        }
        let Some(oid) = parts.next() else { return Some(Self::row(vec![])) };
        let (oid, array_oid) = (oid.parse().ok()?, parts.next()?.parse().ok()?);
        let schema = Some(parts.next()?.to_owned()).filter(|schema| !schema.is_empty());
        let name = parts.next()?.to_owned();
        Some(Self::composite(CompositeName { oid, array_oid, schema, name }, vec![]))
    }
}

impl Deref for RecordType {
    type Target = [RecordField];

    fn deref(&self) -> &[RecordField] {
        &self.fields
    }
}

impl From<Vec<RecordField>> for RecordType {
    fn from(fields: Vec<RecordField>) -> Self {
        Self { fields: fields.into(), kind: RecordKind::Struct }
    }
}

impl<const COUNT: usize> From<[RecordField; COUNT]> for RecordType {
    fn from(fields: [RecordField; COUNT]) -> Self {
        Self { fields: fields.into(), kind: RecordKind::Struct }
    }
}

impl FromIterator<RecordField> for RecordType {
    fn from_iter<I: IntoIterator<Item = RecordField>>(fields: I) -> Self {
        Self { fields: fields.into_iter().collect(), kind: RecordKind::Struct }
    }
}

impl fmt::Display for RecordType {
    /// The name of a composite type, `record` for any other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.composite_name() {
            None => f.write_str(HEAD),
            Some(CompositeName { schema, name, .. }) => {
                if let Some(schema) = schema {
                    write!(f, "{}.", crate::quoted::quoted_name(schema))?;
                }
                f.write_str(&crate::quoted::quoted_name(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlType;

    fn columns(names: &[&str]) -> Vec<RecordField> {
        names.iter().map(|name| RecordField { name: (*name).to_owned(), sql_type: SqlType::Uuid }).collect()
    }

    #[test]
    fn structs_are_cast_by_names_and_rows_by_places() {
        let of_names = |names: &[&str]| RecordType::from(columns(names));
        let wanted = of_names(&["k", "v"]);
        assert_eq!(of_names(&["v", "K", "z"]).sources(&wanted), Some(vec![Some(1), Some(0)]));
        assert_eq!(of_names(&["v"]).sources(&wanted), Some(vec![None, Some(0)]));
        assert_eq!(of_names(&["x", "y"]).sources(&wanted), Some(vec![Some(0), Some(1)]));
        assert_eq!(of_names(&["x"]).sources(&wanted), None);
        assert_eq!(RecordType::row(columns(&["v", "k"])).sources(&wanted), Some(vec![Some(0), Some(1)]));
        assert_eq!(RecordType::row(columns(&["v"])).sources(&wanted), None);
    }

    #[test]
    fn structs_of_different_columns_have_all_of_them_in_common() {
        let of_names = |names: &[&str]| RecordType::from(columns(names));
        let (ab, bc) = (of_names(&["a", "b"]), of_names(&["b", "c"]));
        let merged = RecordType::merged(&[&ab, &bc]).expect("they differ");
        let found = merged.iter().map(|(name, fields)| (*name, fields.len())).collect::<Vec<_>>();
        assert_eq!(found, [("a", 1), ("b", 2), ("c", 1)]);
        assert!(RecordType::merged(&[&ab, &ab.clone()]).is_none());
        assert!(RecordType::merged(&[&ab, &RecordType::row(columns(&["c"]))]).is_none());
    }

    #[test]
    fn a_field_notes_what_kind_of_row_it_has() {
        let fields = || vec![RecordField { name: "a".to_owned(), sql_type: SqlType::Uuid }];
        let name = CompositeName { oid: 7, array_oid: 8, schema: Some("s".to_owned()), name: "Point".to_owned() };
        let composite = RecordType::composite(name, fields());
        assert_eq!(composite.to_string(), "s.\"Point\"");
        assert_eq!(composite.oids(), (7, 8));
        for kind in [RecordType::from(fields()), RecordType::row(fields()), composite] {
            let sql_type = SqlType::Record(kind);
            for sql_type in [SqlType::array_of(sql_type.clone()), sql_type] {
                assert_eq!(SqlType::of_field(&sql_type.field("a", true)), Some(sql_type));
            }
        }
    }
}
