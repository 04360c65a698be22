//! RAISE, and which errors a handler is for.

use std::collections::BTreeSet;

use diligence_base::{Error, Result};
use diligence_sql::procedural::Condition;
use parking_lot::Mutex;

use super::conditions::NAMES;
use crate::sqlstate::sqlstate;

/// Codes of no condition's that statements may make up, at most.
const CODES_MAX: usize = 1024;

/// The code of a condition's name. Fails with 42704 if there is none.
pub(super) fn code_of(name: &str) -> Result<&'static str> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, code)| *code)
        .ok_or_else(|| Error::input(format!("unrecognized exception condition \"{name}\"")).with_code("42704"))
}

/// A code as errors hold it. Fails with 42704 if it is none, and with 54000 if too many were made up.
pub(super) fn code(text: &str) -> Result<&'static str> {
    static MADE: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if let Some((_, code)) = NAMES.iter().find(|(_, code)| *code == text) {
        return Ok(code);
    }
    if text.len() != 5 || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) {
        return code_of(text);
    }
    let mut made = MADE.lock();
    if let Some(code) = made.get(text) {
        return Ok(code);
    }
    if made.len() >= CODES_MAX {
        return Err(Error::resource("too many codes of errors were made up").with_code("54000"));
    }
    let code: &'static str = Box::leak(text.to_owned().into_boxed_str());
    made.insert(code);
    Ok(code)
}

/// Whether a handler of these conditions is for an error. Fails with 42704 for a condition that there is not.
pub(super) fn is_for(conditions: &[Condition], error: &Error) -> Result<bool> {
    let given = sqlstate(error);
    for condition in conditions {
        let wanted = match condition {
            Condition::Others if matches!(given, "57014" | "P0004") => continue,
            Condition::Others => return Ok(true),
            Condition::Named(name) => code_of(name)?,
            Condition::Code(text) => text.as_str(),
        };
        if wanted == given || wanted.ends_with("000") && wanted.get(..2) == given.get(..2) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A message with values in the places of `%`. Fails with 42601 if there are more or fewer of them.
pub(super) fn message(format: &str, values: &[String]) -> Result<String> {
    let mut text = String::new();
    let mut values = values.iter();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '%' if letters.peek() == Some(&'%') => {
                letters.next();
                text.push('%');
            }
            '%' => {
                let few = || Error::input("too few parameters specified for RAISE").with_code("42601");
                text.push_str(values.next().ok_or_else(few)?);
            }
            other => text.push(other),
        }
    }
    match values.next() {
        None => Ok(text),
        Some(_) => Err(Error::input("too many parameters specified for RAISE").with_code("42601")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_for_a_name_a_code_a_class_and_all_but_what_must_go_on() {
        let error = Error::value("twice").with_code("23505");
        let named = |name: &str| Condition::Named(name.to_owned());
        assert!(is_for(&[named("division_by_zero"), named("unique_violation")], &error).unwrap());
        assert!(is_for(&[named("integrity_constraint_violation")], &error).unwrap());
        assert!(!is_for(&[Condition::Code("23503".to_owned())], &error).unwrap());
        assert!(is_for(&[Condition::Others], &error).unwrap());
        assert!(!is_for(&[Condition::Others], &Error::cancelled()).unwrap());
        assert_eq!(is_for(&[named("nothing")], &error).unwrap_err().code(), Some("42704"));
        assert_eq!((code("division_by_zero").unwrap(), code("ZZ123").unwrap()), ("22012", "ZZ123"));
        assert!(code("zz").is_err());
    }

    #[test]
    fn a_message_has_its_values() {
        let values = ["1".to_owned(), "b".to_owned()];
        assert_eq!(message("a % of % is 5%%", &values).unwrap(), "a 1 of b is 5%");
        assert_eq!(message("%", &values).unwrap_err().code(), Some("42601"));
        assert_eq!(message("%%%", &[]).unwrap_err().code(), Some("42601"));
    }
}
