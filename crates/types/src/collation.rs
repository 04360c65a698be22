//! Collations: in which order texts are, and which of them are equal (manual, section 23.2).
//!
//! The order of a language is ICU's (`icu_collator`). A text in such an order has a *key*, whose bytes sort as the
//! texts do ([`Collator::key`]); so whatever sorts, groups or joins bytes needs to know nothing of collations. Of a
//! deterministic collation the key ends with the text itself: only what has the same bytes is equal. Of a
//! nondeterministic one it does not: texts that ICU holds for equal are.
//!
//! A collation carries its locale, so nothing has to be looked up where texts are compared.

use std::fmt;
use std::sync::{Arc, LazyLock};

use diligence_base::{Error, Result};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::quoted::quoted_name;

/// How texts are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TextOrder {
    /// By their bytes.
    Bytes,
    /// As ICU does for a locale.
    Icu {
        /// The locale, as it was given: `de-u-co-phonebk`, `@colStrength=primary`.
        locale: String,
        /// Whether only texts of the same bytes are equal.
        is_deterministic: bool,
    },
    /// Not at all: two collations met, and nothing says which one it is. This is the other one's name.
    Undecided(String),
}

/// A collation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collation {
    /// The number by which PostgreSQL's clients know it; 0 of an undecided one.
    pub oid: u32,
    /// Its schema, if it is not one that needs no name: `pg_catalog`, and the one where statements make what they do.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// How texts are compared.
    pub order: TextOrder,
}

/// The number of the collation `default`, which texts have that say no other.
pub const DEFAULT_OID: u32 = 100;
/// The number of the collation `C`.
pub const C_OID: u32 = 950;
/// The number of the first of PostgreSQL's collations by ICU; the others follow in the order of their names.
const FIRST_LOCALE_OID: u32 = 12_342;
/// Those that statements made have numbers from here on.
const FIRST_MADE_OID: u32 = 16_384;
/// What the name of such a collation ends with.
const LOCALE_SUFFIX: &str = "-x-icu";

/// The locales for which PostgreSQL has collations by ICU (`pg_collation` of version 15), in its order. ICU's data for
/// Rust does not say which locales it has: those that need no rules of their own are in none of its tables.
static LOCALES: LazyLock<Vec<&'static str>> = LazyLock::new(|| include_str!("collation/locales.txt").lines().collect());

/// Collations by bytes: their numbers and names.
const BY_BYTES: [(u32, &str); 4] = [(DEFAULT_OID, "default"), (C_OID, "C"), (951, "POSIX"), (12_340, "ucs_basic")];
/// DuckDB's collations: their numbers, which are none of PostgreSQL's, their names, and what they do not tell apart.
const FOLDED: [(u32, &str, Folded); 5] = [
    (16_379, "nfc", Folded { case: false, accents: false }),
    (16_380, "nocase", Folded { case: true, accents: false }),
    (16_381, "noaccent", Folded { case: false, accents: true }),
    (16_382, "nocase.noaccent", Folded { case: true, accents: true }),
    (16_383, "noaccent.nocase", Folded { case: true, accents: true }),
];

/// What a collation of DuckDB's does not tell apart; what is left is compared by its bytes.
#[derive(Clone, Copy, Debug)]
struct Folded {
    case: bool,
    accents: bool,
}

/// The collation of all languages, as PostgreSQL calls it from version 16 on.
const UNICODE: (u32, &str) = (963, "unicode");

impl Collation {
    /// The collation that DuckDB has of a name: `nocase` and its kin, a language's, or one by bytes.
    pub fn of_duckdb(name: &str) -> Option<Self> {
        if let Some((oid, name, _)) = FOLDED.iter().find(|(_, known, _)| *known == name) {
            let order = TextOrder::Icu { locale: (*name).to_owned(), is_deterministic: false };
            return Some(Self { oid: *oid, schema: None, name: (*name).to_owned(), order });
        }
        match name {
            "c" | "posix" => Self::predefined(&name.to_uppercase()),
            language => Self::predefined(&format!("{language}{LOCALE_SUFFIX}")),
        }
    }

    /// The collation of PostgreSQL's of a name in `pg_catalog`.
    pub fn predefined(name: &str) -> Option<Self> {
        let found = |oid, order| Some(Self { oid, schema: None, name: name.to_owned(), order });
        if let Some((oid, _)) = BY_BYTES.iter().find(|(_, known)| *known == name) {
            return found(*oid, TextOrder::Bytes);
        }
        if name == UNICODE.1 {
            return found(UNICODE.0, by_locale("und"));
        }
        let locale = name.strip_suffix(LOCALE_SUFFIX)?;
        let place = LOCALES.iter().position(|known| *known == locale)?;
        found(FIRST_LOCALE_OID + u32::try_from(place).ok()?, by_locale(locale))
    }

    /// All collations of PostgreSQL's.
    pub fn all_predefined() -> impl Iterator<Item = Self> {
        let names = BY_BYTES.iter().map(|(_, name)| (*name).to_owned()).chain([UNICODE.1.to_owned()]);
        names
            .chain(LOCALES.iter().map(|locale| format!("{locale}{LOCALE_SUFFIX}")))
            .filter_map(|name| Self::predefined(&name))
    }

    /// What a text of these two collations has, neither of which was asked for.
    pub fn undecided(one: &Self, other: &Self) -> Self {
        let order = TextOrder::Undecided(other.name.clone());
        Self { oid: 0, schema: None, name: one.name.clone(), order }
    }

    /// Whether it is one of PostgreSQL's.
    pub fn is_predefined(&self) -> bool {
        self.oid < FIRST_MADE_OID
    }

    /// Whether it is what texts have that say no other.
    pub fn is_default(&self) -> bool {
        self.oid == DEFAULT_OID
    }

    /// Whether only texts of the same bytes are equal.
    pub fn is_deterministic(&self) -> bool {
        !matches!(self.order, TextOrder::Icu { is_deterministic: false, .. })
    }

    /// Whether one of DuckDB's does not tell apart cases, and accents; `None` for all others.
    pub fn folds(&self) -> Option<(bool, bool)> {
        let (.., folded) = FOLDED.iter().find(|(oid, ..)| *oid == self.oid)?;
        Some((folded.case, folded.accents))
    }

    /// Whether texts are compared by their bytes.
    pub fn is_by_bytes(&self) -> bool {
        self.order == TextOrder::Bytes
    }

    /// The other one, if it is undecided.
    pub fn other(&self) -> Option<&str> {
        match &self.order {
            TextOrder::Undecided(other) => Some(other),
            _ => None,
        }
    }

    /// What compares its texts; `None` if their bytes do. Fails with 42P22 if it is undecided, 22023 if there is no
    /// such locale, 0A000 for what it asks that cannot be done.
    pub fn collator(&self) -> Result<Option<Collator>> {
        match &self.order {
            TextOrder::Bytes => Ok(None),
            TextOrder::Icu { locale, is_deterministic } => Collator::new(locale, *is_deterministic).map(Some),
            TextOrder::Undecided(_) => Err(undecided("string comparison")),
        }
    }

    /// The parts of the text in which a field notes it.
    pub(crate) fn noted(&self) -> [String; 5] {
        let (kind, detail) = match &self.order {
            TextOrder::Bytes => ("c", String::new()),
            TextOrder::Icu { locale, is_deterministic: true } => ("i", locale.clone()),
            TextOrder::Icu { locale, is_deterministic: false } => ("n", locale.clone()),
            TextOrder::Undecided(other) => ("u", other.clone()),
        };
        let schema = self.schema.clone().unwrap_or_default();
        [self.oid.to_string(), schema, self.name.clone(), kind.to_owned(), detail]
    }

    /// The collation of these parts.
    pub(crate) fn of_noted([oid, schema, name, kind, detail]: [&str; 5]) -> Option<Self> {
        let order = match kind {
            "c" => TextOrder::Bytes,
            "i" | "n" => TextOrder::Icu { locale: detail.to_owned(), is_deterministic: kind == "i" },
            "u" => TextOrder::Undecided(detail.to_owned()),
            _ => return None,
        };
        let schema = Some(schema.to_owned()).filter(|schema| !schema.is_empty());
        Some(Self { oid: oid.parse().ok()?, schema, name: name.to_owned(), order })
    }
}

impl fmt::Display for Collation {
    /// As a statement has to write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{}.", quoted_name(schema))?,
            None if self.is_default() => return f.write_str("\"default\""),
            None => {}
        }
        f.write_str(&quoted_name(&self.name))
    }
}

/// The error for what needs a collation where two met.
pub fn undecided(what: &str) -> Error {
    let error = Error::input(format!("could not determine which collation to use for {what}")).with_code("42P22");
    error.with_hint("Use the COLLATE clause to set the collation explicitly.")
}

fn by_locale(locale: &str) -> TextOrder {
    TextOrder::Icu { locale: locale.to_owned(), is_deterministic: true }
}

/// Compares texts as ICU does for a locale, or as DuckDB's collations do.
#[derive(Clone)]
pub struct Collator {
    keys: Keys,
    is_deterministic: bool,
}

/// What makes keys of texts.
#[derive(Clone)]
enum Keys {
    Icu(Arc<CollatorBorrowed<'static>>),
    Folded(Folded),
}

impl fmt::Debug for Collator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keys {
            Keys::Icu(collator) => write!(f, "Collator({:?})", collator.resolved_options()),
            Keys::Folded(folded) => write!(f, "Collator({folded:?})"),
        }
    }
}

impl Collator {
    /// For a locale. Fails with 22023 if there is none, 0A000 for what it asks that cannot be done.
    pub fn new(locale: &str, is_deterministic: bool) -> Result<Self> {
        if let Some((.., folded)) = FOLDED.iter().find(|(_, known, _)| *known == locale) {
            return Ok(Self { keys: Keys::Folded(*folded), is_deterministic });
        }
        let wrong = |why: &dyn fmt::Display| {
            Error::input(format!("could not open collator for locale \"{locale}\": {why}")).with_code("22023")
        };
        let tag = language_tag(locale);
        let known = Locale::try_from_str(&tag).map_err(|error| wrong(&error))?;
        let options = options(locale, &known)?;
        let collator = CollatorBorrowed::try_new(CollatorPreferences::from(&known), options);
        let collator = Arc::new(collator.map_err(|error| wrong(&error))?);
        Ok(Self { keys: Keys::Icu(collator), is_deterministic })
    }

    /// Writes the bytes that sort as the text does, in the place of what was there.
    pub fn key<'k>(&self, text: &str, key: &'k mut Vec<u8>) -> &'k [u8] {
        key.clear();
        match &self.keys {
            Keys::Icu(collator) => {
                // A vector takes all.
                let Ok(()) = collator.write_sort_key_to(text, key);
            }
            Keys::Folded(folded) => folded.key(text, key),
        }
        if self.is_deterministic {
            // No key of ICU's has a zero in it: it ends before all that goes on.
            key.push(0);
            key.extend_from_slice(text.as_bytes());
        }
        key
    }
}

impl Folded {
    fn key(self, text: &str, key: &mut Vec<u8>) {
        let mut letter_bytes = [0; 4];
        let mut put = |letter: char| key.extend_from_slice(letter.encode_utf8(&mut letter_bytes).as_bytes());
        match self {
            Self { case: false, accents: false } => text.nfc().for_each(&mut put),
            Self { case: true, accents: false } => text.chars().flat_map(char::to_lowercase).for_each(&mut put),
            Self { case, accents: true } => {
                for letter in text.nfd().filter(|letter| !is_combining_mark(*letter)).nfc() {
                    match case {
                        true => letter.to_lowercase().for_each(&mut put),
                        false => put(letter),
                    }
                }
            }
        }
    }
}

/// A locale as BCP 47 writes it. ICU's older form has keywords behind `@` (`de@collation=phonebook`).
fn language_tag(locale: &str) -> String {
    let (language, keywords) = locale.split_once('@').unwrap_or((locale, ""));
    let mut tag = match language {
        "" | "root" => "und".to_owned(),
        language => language.split('.').next().unwrap_or_default().replace('_', "-"),
    };
    let mut extension = String::new();
    for keyword in keywords.split(';').filter(|keyword| !keyword.is_empty()) {
        let (key, value) = keyword.split_once('=').unwrap_or((keyword, "yes"));
        let (key, value) = (key.trim().to_lowercase(), value.trim().to_lowercase());
        let key = match key.as_str() {
            "collation" => "co",
            "colstrength" => "ks",
            "colcaselevel" => "kc",
            "colcasefirst" => "kf",
            "colnumeric" => "kn",
            "colalternate" => "ka",
            "colbackwards" => "kb",
            "colnormalization" => "kk",
            "colreorder" => "kr",
            other => other,
        };
        let value = match (key, value.as_str()) {
            ("co", "phonebook") => "phonebk",
            ("co", "traditional") => "trad",
            ("co", "dictionary") => "dict",
            ("co", "gb2312han") => "gb2312",
            ("ks", "primary") => "level1",
            ("ks", "secondary") => "level2",
            ("ks", "tertiary") => "level3",
            ("ks", "quaternary") => "level4",
            ("ks", "identical") => "identic",
            ("ka", "non-ignorable") => "noignore",
            (_, "yes") => "true",
            (_, "no") => "false",
            (_, other) => other,
        };
        extension.push_str(&format!("-{key}-{value}"));
    }
    if !extension.is_empty() {
        tag.push_str("-u");
        tag.push_str(&extension);
    }
    tag
}

/// What the keywords of a locale say of how texts are compared. Fails with 0A000 for what cannot be done.
fn options(given: &str, locale: &Locale) -> Result<CollatorOptions> {
    let mut options = CollatorOptions::default();
    for (key, value) in locale.extensions.unicode.keywords.iter() {
        let (key, value) = (key.to_string(), value.to_string());
        let is_on = matches!(value.as_str(), "" | "true");
        match (key.as_str(), value.as_str()) {
            ("ks", "level1") => options.strength = Some(Strength::Primary),
            ("ks", "level2") => options.strength = Some(Strength::Secondary),
            ("ks", "level3") => options.strength = Some(Strength::Tertiary),
            ("ks", "level4") => options.strength = Some(Strength::Quaternary),
            ("ks", "identic") => options.strength = Some(Strength::Identical),
            ("kc", _) => options.case_level = Some(if is_on { CaseLevel::On } else { CaseLevel::Off }),
            ("ka", "shifted") => options.alternate_handling = Some(AlternateHandling::Shifted),
            ("ka", "noignore") => options.alternate_handling = Some(AlternateHandling::NonIgnorable),
            ("kv", "space") => options.max_variable = Some(MaxVariable::Space),
            ("kv", "punct") => options.max_variable = Some(MaxVariable::Punctuation),
            ("kv", "symbol") => options.max_variable = Some(MaxVariable::Symbol),
            ("kv", "currency") => options.max_variable = Some(MaxVariable::Currency),
            ("kb", _) if is_on => return Err(not_done(given, "accents from the end of a text (kb)")),
            ("kr", _) => return Err(not_done(given, "another order of scripts (kr)")),
            ("vt", _) => return Err(not_done(given, "a variable top (vt)")),
            ("co", "search" | "searchjl") => return Err(not_done(given, "a collation for searching (co-search)")),
            _ => {}
        }
    }
    Ok(options)
}

fn not_done(locale: &str, what: &str) -> Error {
    Error::unsupported(format!("the collation of the locale \"{locale}\" is not supported: {what}")).with_code("0A000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(locale: &str, texts: &[&str]) -> Vec<String> {
        let collator = Collator::new(locale, true).unwrap();
        let mut texts = texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        texts.sort_by_cached_key(|text| collator.key(text, &mut Vec::new()).to_vec());
        texts
    }

    #[test]
    fn languages_have_orders_of_their_own() {
        assert_eq!(sorted("de", &["z", "ä", "b", "A", "a"]), ["a", "A", "ä", "b", "z"]);
        assert_eq!(sorted("sv", &["z", "ä", "b", "a"]), ["a", "b", "z", "ä"]);
        assert_eq!(sorted("de-u-co-phonebk", &["Af", "Ä", "Ad"]), ["Ad", "Ä", "Af"]);
        assert_eq!(sorted("de@collation=phonebook", &["Af", "Ä", "Ad"]), ["Ad", "Ä", "Af"]);
        assert_eq!(sorted("en-u-kn", &["a10", "a9"]), ["a9", "a10"]);
        assert_eq!(sorted("en-u-kf-upper", &["a", "A"]), ["A", "a"]);
        assert_eq!(sorted("da", &["a", "A", "å", "z"]), ["A", "a", "z", "å"]);
    }

    #[test]
    fn equal_texts_have_one_key() {
        let equal = |locale: &str, one: &str, other: &str| {
            let collator = Collator::new(locale, false).unwrap();
            collator.key(one, &mut Vec::new()) == collator.key(other, &mut Vec::new())
        };
        assert!(equal("und-u-ks-level2", "Résumé", "RÉSUMÉ") && !equal("und-u-ks-level2", "résumé", "resume"));
        assert!(equal("und-u-ks-level1", "Straße", "STRASSE") && !equal("und-u-ks-level2", "Straße", "STRASSE"));
        assert!(equal("@colStrength=primary", "Résumé", "resume"));
        assert!(equal("und-u-ks-level1-kc", "résumé", "resume") && !equal("und-u-ks-level1-kc", "Resume", "resume"));
        assert!(equal("und-u-ka-shifted-ks-level1", "de luge", "de-luge"));
        // Composed and decomposed.
        assert!(equal("und", "\u{e4}", "a\u{308}"));
        let deterministic = Collator::new("und", true).unwrap();
        assert_ne!(deterministic.key("\u{e4}", &mut Vec::new()), deterministic.key("a\u{308}", &mut Vec::new()));
    }

    #[test]
    fn every_predefined_collation_compares() {
        let all = Collation::all_predefined().collect::<Vec<_>>();
        assert!(all.len() > 800);
        for one in all {
            assert_eq!(one.collator().unwrap().is_none(), one.is_by_bytes(), "{one}");
            assert_eq!(Collation::of_noted(one.noted().each_ref().map(String::as_str)), Some(one));
        }
        assert_eq!(Collation::predefined("de-x-icu").unwrap().to_string(), "\"de-x-icu\"");
        assert!(Collation::predefined("nope-x-icu").is_none() && Collation::predefined("DE-x-icu").is_none());
    }

    #[test]
    fn folded_texts_are_compared_by_their_bytes() {
        let key = |name: &str, text: &str| {
            let collator = Collation::of_duckdb(name).unwrap().collator().unwrap().unwrap();
            collator.key(text, &mut Vec::new()).to_vec()
        };
        assert_eq!(key("nocase", "ÄbC"), "äbc".as_bytes());
        assert_eq!(key("noaccent", "ÄbC"), b"AbC");
        assert_eq!(key("nocase.noaccent", "ÄbC"), b"abc");
        assert_eq!(key("nfc", "a\u{308}"), "ä".as_bytes());
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for locale in ["und-u-kr-latn-digit", "fr-u-kb-true", "de-u-co-search"] {
            assert_eq!(Collator::new(locale, true).unwrap_err().code(), Some("0A000"), "{locale}");
        }
        assert_eq!(Collator::new("no locale!", true).unwrap_err().code(), Some("22023"));
    }
}
