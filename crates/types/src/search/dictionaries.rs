//! Configurations, and the dictionaries that make lexemes of words.
//!
//! `simple` takes words as they are, in lower case. The dictionary of a language leaves out its stop words, as
//! PostgreSQL's files list them, and cuts the others down to their stems, by the algorithms of Snowball.

use diligence_base::{Error, Result};
use rust_stemmers::{Algorithm, Stemmer};

use super::WORD_BYTES_MAX;
use super::letters::lowered;
use super::words::{WordClass, Words};

/// Words of more bytes keep their ends, as in PostgreSQL.
const STEMMED_BYTES_MAX: usize = 1_000;

/// A language with its dictionary.
#[derive(Debug)]
struct Language {
    name: &'static str,
    /// The number of its configuration in PostgreSQL's `pg_ts_config`.
    oid: u32,
    /// The language of its words of ASCII letters.
    ascii: &'static str,
    algorithm: Option<Algorithm>,
    stop_words: &'static str,
}

macro_rules! languages {
    ($($name:literal $oid:literal $ascii:literal $algorithm:expr, $stop_words:expr;)+) => {
        &[$(Language { name: $name, oid: $oid, ascii: $ascii, algorithm: $algorithm, stop_words: $stop_words }),+]
    };
}

macro_rules! stop_words {
    ($name:literal) => {
        include_str!(concat!("stop_words/", $name, ".txt"))
    };
}

/// PostgreSQL's languages. Those without an algorithm are known by name only.
static LANGUAGES: &[Language] = languages! {
    "arabic" 13152 "arabic" Some(Algorithm::Arabic), "";
    "armenian" 13154 "armenian" None, "";
    "basque" 13156 "basque" None, "";
    "catalan" 13158 "catalan" None, "";
    "danish" 13160 "danish" Some(Algorithm::Danish), stop_words!("danish");
    "dutch" 13162 "dutch" Some(Algorithm::Dutch), stop_words!("dutch");
    "english" 13164 "english" Some(Algorithm::English), stop_words!("english");
    "finnish" 13166 "finnish" Some(Algorithm::Finnish), stop_words!("finnish");
    "french" 13168 "french" Some(Algorithm::French), stop_words!("french");
    "german" 13170 "german" Some(Algorithm::German), stop_words!("german");
    "greek" 13172 "greek" Some(Algorithm::Greek), "";
    "hindi" 13174 "english" None, "";
    "hungarian" 13176 "hungarian" Some(Algorithm::Hungarian), stop_words!("hungarian");
    "indonesian" 13178 "indonesian" None, "";
    "irish" 13180 "irish" None, "";
    "italian" 13182 "italian" Some(Algorithm::Italian), stop_words!("italian");
    "lithuanian" 13184 "lithuanian" None, "";
    "nepali" 13186 "nepali" None, stop_words!("nepali");
    "norwegian" 13188 "norwegian" Some(Algorithm::Norwegian), stop_words!("norwegian");
    "portuguese" 13190 "portuguese" Some(Algorithm::Portuguese), stop_words!("portuguese");
    "romanian" 13192 "romanian" Some(Algorithm::Romanian), "";
    "russian" 13194 "english" Some(Algorithm::Russian), stop_words!("russian");
    "serbian" 13196 "serbian" None, "";
    "spanish" 13198 "spanish" Some(Algorithm::Spanish), stop_words!("spanish");
    "swedish" 13200 "swedish" Some(Algorithm::Swedish), stop_words!("swedish");
    "tamil" 13202 "tamil" Some(Algorithm::Tamil), "";
    "turkish" 13204 "turkish" Some(Algorithm::Turkish), stop_words!("turkish");
    "yiddish" 13206 "yiddish" None, "";
};

/// What makes lexemes of words.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary(Option<&'static Language>);

/// What a dictionary makes of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lexized {
    /// Nothing: it is a stop word.
    Stop,
    /// A lexeme.
    Lexeme(String),
}

impl Dictionary {
    /// The dictionary that takes words as they are.
    pub const SIMPLE: Dictionary = Dictionary(None);

    /// The dictionary of a name. Fails with 42704 if there is none, 0A000 if its language has no algorithm here.
    pub fn of_name(text: &str) -> Result<Self> {
        let name = bare(text);
        let language = name.strip_suffix("_stem").and_then(language);
        match (name.as_str(), language) {
            ("simple", _) => Ok(Self::SIMPLE),
            (_, Some(language)) => Self(Some(language)).usable(),
            _ => {
                let message = format!("text search dictionary \"{}\" does not exist", text.trim());
                Err(Error::input(message).with_code("42704"))
            }
        }
    }

    fn usable(self) -> Result<Self> {
        match self.0 {
            Some(language) if language.algorithm.is_none() => {
                let message = format!("text search in the language {} is not supported", language.name);
                Err(Error::unsupported(message).with_code("0A000").with_hint("use the configuration simple"))
            }
            _ => Ok(self),
        }
    }

    /// All of them with their numbers in PostgreSQL's catalog, but for those of languages without an algorithm.
    pub fn all() -> impl Iterator<Item = (Dictionary, u32)> {
        // PostgreSQL makes a dictionary right before its configuration.
        Configuration::all().map(|(one, oid)| (Self(one.0), if one.0.is_some() { oid - 1 } else { SIMPLE_OID }))
    }

    /// The number of a name, 0 if nothing has it.
    pub(super) fn oid_of(name: &str) -> u32 {
        Self::all().find(|(one, _)| one.name() == name).map_or(0, |(_, oid)| oid)
    }

    /// Its name.
    pub fn name(self) -> String {
        self.0.map_or_else(|| "simple".to_owned(), |language| format!("{}_stem", language.name))
    }

    /// What becomes of a word.
    pub fn lexize(self, word: &str) -> Lexized {
        let lower = lowered(word);
        if lower.is_empty() {
            return Lexized::Stop;
        }
        let Some(language) = self.0 else { return Lexized::Lexeme(lower) };
        if lower.len() > STEMMED_BYTES_MAX {
            return Lexized::Lexeme(lower);
        }
        if language.stops(&lower) {
            return Lexized::Stop;
        }
        let stem = language.algorithm.map(|algorithm| Stemmer::create(algorithm).stem(&lower).into_owned());
        // A word that is nothing but endings stays.
        Lexized::Lexeme(stem.filter(|stem| !stem.is_empty()).unwrap_or(lower))
    }
}

impl Language {
    /// Whether a word in lower case is a stop word.
    fn stops(&self, word: &str) -> bool {
        // The lists are short, and most words are longer than most of theirs.
        let mut rest = self.stop_words.lines().map(str::trim_end);
        rest.any(|stop| stop == word)
    }
}

fn language(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.name == name)
}

/// A name of the catalog without its schema, in lower case if it is not in quotes.
fn bare(text: &str) -> String {
    let text = text.trim();
    let name = text.strip_prefix("pg_catalog.").unwrap_or(text);
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// The number of the dictionary `simple` in PostgreSQL's `pg_ts_dict`.
const SIMPLE_OID: u32 = 3765;

/// How texts become lexemes: which dictionary gets words of which class.
#[derive(Clone, Copy, Debug)]
pub struct Configuration(Option<&'static Language>);

impl PartialEq for Configuration {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Configuration {
    /// The configuration of a name. Fails with 42704 if there is none, 0A000 if its language has no algorithm here.
    pub fn of_name(text: &str) -> Result<Self> {
        let name = bare(text);
        match (name.as_str(), language(&name)) {
            ("simple", _) => Ok(Self(None)),
            (_, Some(language)) => Dictionary(Some(language)).usable().map(|_| Self(Some(language))),
            _ => {
                let message = format!("text search configuration \"{}\" does not exist", text.trim());
                Err(Error::input(message).with_code("42704"))
            }
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.map_or("simple", |language| language.name)
    }

    /// The names of all with their numbers in PostgreSQL's catalog, but for those of languages without an algorithm.
    pub fn all() -> impl Iterator<Item = (Configuration, u32)> {
        let usable = LANGUAGES.iter().filter(|language| language.algorithm.is_some());
        let languages = usable.map(|language| (Configuration(Some(language)), language.oid));
        std::iter::once((Configuration(None), 3748)).chain(languages)
    }

    /// The number of a name, 0 if nothing has it.
    pub(super) fn oid_of(name: &str) -> u32 {
        Self::all().find(|(one, _)| one.name() == name).map_or(0, |(_, oid)| oid)
    }

    /// The language's options of its dictionary, as `pg_ts_dict` has them.
    pub fn dictionary_options(self) -> Option<String> {
        let language = self.0?;
        let stop_words = match language.stop_words {
            "" => String::new(),
            _ => format!(", stopwords = '{}'", language.name),
        };
        Some(format!("language = '{}'{stop_words}", language.name))
    }

    /// The dictionary for words of a class; `None` if they are left out.
    pub fn dictionary(self, class: WordClass) -> Option<Dictionary> {
        use WordClass as W;
        match class {
            class if !class.is_indexed() => None,
            W::AsciiWord | W::PartAsciiWord | W::HyphenatedAsciiWord => {
                Some(Dictionary(self.0.and_then(|language_of| language(language_of.ascii))))
            }
            W::Word | W::PartWord | W::HyphenatedWord => Some(Dictionary(self.0)),
            _ => Some(Dictionary::SIMPLE),
        }
    }

    /// The lexemes of a text, each with its position among the words that have a dictionary, counted from 1. Stop words
    /// are counted.
    pub fn lexemes(self, text: &str) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        self.lexemes_from(text, &mut 0, &mut |lexeme, position| found.push((lexeme, position)));
        found
    }

    /// The same for a part of a text, behind so many words of others.
    pub(super) fn lexemes_from(self, text: &str, position: &mut usize, give: &mut impl FnMut(String, usize)) {
        for word in Words::new(text) {
            let Some(dictionary) = self.dictionary(word.class) else { continue };
            if word.text.len() > WORD_BYTES_MAX {
                continue;
            }
            *position += 1;
            if let Lexized::Lexeme(lexeme) = dictionary.lexize(word.text) {
                give(lexeme, *position);
            }
        }
    }
}
