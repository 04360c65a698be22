//! How an index was declared, beside the columns by which it finds rows: what is shown of it and kept, and changes
//! nothing about how rows are found.

use diligence_base::{Error, Result};

use crate::parts::{shielded, unshielded};

/// The access method of an index that names none.
pub const BTREE: &str = "btree";

/// What CREATE INDEX said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexForm {
    /// The access method.
    pub method: String,
    /// By column of the key.
    pub parts: Vec<PartForm>,
    /// The columns of INCLUDE.
    pub included: Vec<String>,
    /// The names and values of WITH.
    pub options: Vec<(String, String)>,
}

/// How one column of a key is ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartForm {
    /// The operator class, if one is named.
    pub operator_class: Option<String>,
    /// Whether the greatest value comes first.
    pub is_descending: bool,
    /// Whether NULL comes in front of values.
    pub nulls_first: bool,
    /// What compares two rows, of a column of an exclusion constraint.
    pub operator: Option<String>,
}

impl Default for IndexForm {
    fn default() -> Self {
        Self { method: BTREE.to_owned(), parts: vec![], included: vec![], options: vec![] }
    }
}

impl PartForm {
    /// The bits of `pg_index.indoption`.
    pub fn bits(&self) -> i64 {
        i64::from(self.is_descending) | i64::from(self.nulls_first) << 1
    }
}

/// Between the parts of a form's text, between those of a part, and between their own.
const BETWEEN: char = '\u{11}';
const WITHIN: char = '\u{12}';
const INSIDE: char = '\u{13}';

impl IndexForm {
    /// Whether it says nothing that an index without it would not have.
    pub fn is_plain(&self) -> bool {
        let Self { method, parts, included, options } = self;
        method == BTREE
            && included.is_empty()
            && options.is_empty()
            && parts.iter().all(|part| *part == PartForm::default())
    }

    /// As a text, which a log keeps.
    pub fn encoded(&self) -> String {
        let part = |part: &PartForm| {
            let class = part.operator_class.as_deref().map(shielded).unwrap_or_default();
            let operator = part.operator.as_deref().map(|operator| format!("{INSIDE}{}", shielded(operator)));
            let operator = operator.unwrap_or_default();
            format!("{}{INSIDE}{class}{operator}{WITHIN}", part.bits())
        };
        let option =
            |(name, value): &(String, String)| format!("{}{INSIDE}{}{WITHIN}", shielded(name), shielded(value));
        let parts = [
            self.method.clone(),
            self.parts.iter().map(part).collect(),
            self.included.iter().map(|name| format!("{}{WITHIN}", shielded(name))).collect(),
            self.options.iter().map(option).collect(),
        ];
        parts.join(&BETWEEN.to_string())
    }

    /// The form of a text. Fails with kind `File` if it says none.
    pub fn decoded(text: &str) -> Result<Self> {
        let broken = || Error::file("the form of an index cannot be understood");
        let listed = |text: &str| {
            let mut all = text.split(WITHIN).map(str::to_owned).collect::<Vec<_>>();
            all.pop();
            all
        };
        let texts = text.split(BETWEEN).collect::<Vec<_>>();
        let [method, parts, included, options, ..] = texts.as_slice() else { return Err(broken()) };
        let part = |text: &String| {
            let (bits, class) = text.split_once(INSIDE).ok_or_else(broken)?;
            let bits = bits.parse::<u8>().map_err(|_| broken())?;
            let (class, operator) = match class.split_once(INSIDE) {
                Some((class, operator)) => (class, Some(unshielded(operator))),
                None => (class, None),
            };
            let operator_class = (!class.is_empty()).then(|| unshielded(class));
            Ok(PartForm { operator_class, is_descending: bits & 1 != 0, nulls_first: bits & 2 != 0, operator })
        };
        let option = |text: &String| {
            let (name, value) = text.split_once(INSIDE).ok_or_else(broken)?;
            Ok((unshielded(name), unshielded(value)))
        };
        Ok(Self {
            method: (*method).to_owned(),
            parts: listed(parts).iter().map(part).collect::<Result<_>>()?,
            included: listed(included).iter().map(|name| unshielded(name)).collect(),
            options: listed(options).iter().map(option).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_what_its_text_says() {
        let first = PartForm { is_descending: true, nulls_first: true, ..PartForm::default() };
        let second = PartForm { operator_class: Some("text_pattern_ops".into()), ..PartForm::default() };
        let form = IndexForm {
            parts: vec![first, second],
            included: vec!["c".into(), "Q x".into()],
            options: vec![("fillfactor".into(), "70".into())],
            ..IndexForm::default()
        };
        assert_eq!(IndexForm::decoded(&form.encoded()).unwrap(), form);
        assert!(!form.is_plain());
        let plain = IndexForm { parts: vec![PartForm::default()], ..IndexForm::default() };
        assert!(plain.is_plain());
        assert_eq!(IndexForm::decoded(&plain.encoded()).unwrap(), plain);
        let hash = IndexForm { method: "hash".into(), ..IndexForm::default() };
        assert_eq!(IndexForm::decoded(&hash.encoded()).unwrap(), hash);
        assert!(!hash.is_plain());
        let excludes = PartForm { operator: Some("&&".into()), ..PartForm::default() };
        let named = PartForm { operator_class: Some("range_ops".into()), ..excludes.clone() };
        let exclusion = IndexForm { method: "gist".into(), parts: vec![excludes, named], ..IndexForm::default() };
        assert_eq!(IndexForm::decoded(&exclusion.encoded()).unwrap(), exclusion);
        assert!(IndexForm::decoded("btree").is_err());
    }
}
