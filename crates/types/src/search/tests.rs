//! Words, documents and queries as PostgreSQL has them, and what holds of any.

use proptest::prelude::*;

use super::dictionaries::{Dictionary, Lexized};
use super::headline::{HeadlineOptions, headline};
use super::query::QuerySyntax;
use super::ranking::{WEIGHT_VALUES, rank, rank_covers};
use super::words::{WordClass, Words};
use super::{Configuration, Query, SearchKind, Vector};

/// Texts and the words that PostgreSQL 15 finds in them (`ts_parse`), each with the number of its class.
const WORDS: &str = include_str!("words.tsv");

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        out.push(match next {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    out
}

#[test]
fn words_are_those_that_postgresql_finds() {
    let mut count = 0;
    for line in WORDS.lines() {
        let text = unescaped(line.split('\t').next().unwrap_or_default());
        let found = Words::new(&text).map(|word| format!("\t{} {}", word.class.number(), escaped(word.text)));
        assert_eq!(escaped(&text) + &found.collect::<String>(), line);
        count += 1;
    }
    assert!(count > 500);
}

#[test]
fn stems_are_those_of_postgresql() {
    // Of a stop word nothing is left.
    for (language, word, stem) in [
        ("danish", "husene", "hus"),
        ("danish", "underskrifter", "underskrift"),
        ("danish", "bilerne", "bil"),
        ("dutch", "huizen", "huiz"),
        ("dutch", "lichamelijk", "licham"),
        ("dutch", "opgaven", "opgav"),
        ("english", "running", "run"),
        ("english", "flies", "fli"),
        ("english", "generously", "generous"),
        ("english", "relational", "relat"),
        ("english", "skies", "sky"),
        ("english", "the", ""),
        ("english", "agreed", "agre"),
        ("english", "news", "news"),
        ("finnish", "taloissa", "talo"),
        ("finnish", "kirjoitettiin", "kirjoitet"),
        ("finnish", "edellyttävät", "edellyttäv"),
        ("french", "chevaux", "cheval"),
        ("french", "continuellement", "continuel"),
        ("french", "majestueuse", "majestu"),
        ("french", "les", "le"),
        ("german", "häuser", "haus"),
        ("german", "aufeinander", "aufeinand"),
        ("german", "kategorischen", "kategor"),
        ("german", "die", ""),
        ("greek", "σπίτια", "σπιτ"),
        ("greek", "θάλασσες", "θαλασσ"),
        ("hungarian", "házakban", "ház"),
        ("hungarian", "gyerekek", "gyerek"),
        ("italian", "abbandonata", "abbandon"),
        ("italian", "propagandisti", "propagand"),
        ("italian", "della", ""),
        ("norwegian", "husene", "hus"),
        ("norwegian", "opplysninger", "opplysning"),
        ("portuguese", "meninas", "menin"),
        ("portuguese", "quilométricas", "quilométr"),
        ("romanian", "copiilor", "cop"),
        ("romanian", "frumoase", "frumoas"),
        ("russian", "кошки", "кошк"),
        ("russian", "бегали", "бега"),
        ("russian", "важнейшими", "важн"),
        ("russian", "и", ""),
        ("spanish", "chicharrones", "chicharron"),
        ("spanish", "torniquetes", "torniquet"),
        ("spanish", "los", ""),
        ("swedish", "husen", "hus"),
        ("swedish", "friskaste", "frisk"),
        ("swedish", "och", ""),
        ("tamil", "மரங்கள்", "மரங்"),
        ("tamil", "வீடுகள்", "வீடு"),
        ("turkish", "evlerimizden", "ev"),
        ("turkish", "kitaplar", "kitap"),
    ] {
        let dictionary = Dictionary::of_name(&format!("{language}_stem")).unwrap();
        let expected = if stem.is_empty() { Lexized::Stop } else { Lexized::Lexeme(stem.to_owned()) };
        assert_eq!(dictionary.lexize(word), expected, "{language}: {word}");
    }
    for (configuration, _) in Configuration::all() {
        assert_eq!(Configuration::of_name(configuration.name()).unwrap(), configuration);
    }
    assert_eq!(Configuration::of_name("klingon").unwrap_err().code(), Some("42704"));
    assert_eq!(Configuration::of_name("nepali").unwrap_err().code(), Some("0A000"));
    // Longer words keep their ends.
    let long = "running".repeat(200);
    assert_eq!(Dictionary::of_name("english_stem").unwrap().lexize(&long), Lexized::Lexeme(long));
}

#[test]
fn long_texts_take_no_stack() {
    for piece in ["a-", "a.", "a_", "<", "&", "-1.", "a@", "<!-", "é-"] {
        let text = piece.repeat(3_000);
        let length = Words::new(&text).map(|word| word.text.len()).sum::<usize>();
        assert!(length >= text.len() / 2, "{piece}");
    }
    // Each operator waits for the next one.
    let query = format!("{}a", "!(".repeat(20_000)) + &")".repeat(20_000);
    let query = Query::read(&query).unwrap();
    assert_eq!(query.items.len(), 20_001);
    assert!(query.matches(&Vector::read("a").unwrap()));
    let query = Query::read(&vec!["a"; 20_000].join("<->")).unwrap();
    assert!(!query.matches(&Vector::read("a:1,2,3").unwrap()));
}

#[test]
fn classes_have_postgresqls_numbers() {
    for (index, (class, ..)) in WordClass::ALL.iter().enumerate() {
        assert_eq!(class.number(), index as i32 + 1);
    }
}

fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[a-zA-Z]{1,6}",
        "[0-9.+-]{1,5}",
        "[-_./@:~<>&#;!?='\"\\\\ ]{1,3}",
        "[a-z]{1,3}(-|\\.|/|@|_)[a-z0-9]{1,3}",
        Just("http://".to_owned()),
        "\\PC{1,3}",
    ];
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

fn vectors() -> impl Strategy<Value = String> {
    let lexeme = "('[a-c' ]{0,2}'|[a-c]{1,2})(:[1-9]{1,2}[ABCD]?(,[1-9][ABCD]?){0,2})?";
    prop::collection::vec(lexeme, 0..6).prop_map(|lexemes| lexemes.join(" "))
}

fn queries() -> impl Strategy<Value = String> {
    let operand = "!{0,2}[a-c]{1,2}(:\\*?[ABCD]{0,2})?".prop_map(|text: String| text);
    operand.prop_recursive(4, 16, 2, |inner| {
        let operator = prop_oneof![Just("&"), Just("|"), Just("<->"), Just("<2>"), Just("<0>")];
        (inner.clone(), operator, inner, any::<bool>()).prop_map(|(left, operator, right, has_parentheses)| {
            match has_parentheses {
                true => format!("!({left} {operator} {right})"),
                false => format!("({left}) {operator} {right}"),
            }
        })
    })
}

/// What a query says of a document, found without lists: where each part ends. `None` if it is not known.
fn ends(query: &str, vector: &Vector<'_>) -> bool {
    Query::read(query).is_ok_and(|query| query.matches(vector))
}

proptest! {
    #[test]
    fn words_cover_their_text(text in texts()) {
        let mut at = 0;
        for word in Words::new(&text) {
            prop_assert!(!word.text.is_empty());
            let start = word.text.as_ptr() as usize - text.as_ptr() as usize;
            // Compound words come once as a whole, and once in parts.
            prop_assert!(start <= at, "a gap before {:?} in {text:?}", word.text);
            if !matches!(
                word.class,
                WordClass::Url
                    | WordClass::HyphenatedWord
                    | WordClass::HyphenatedAsciiWord
                    | WordClass::HyphenatedNumberWord
            ) {
                at = at.max(start + word.text.len());
            }
        }
    }

    #[test]
    fn what_is_written_is_read(text in vectors(), query in queries(), any in texts()) {
        if let Ok(vector) = Vector::read(&text) {
            let held = vector.text();
            prop_assert_eq!(&SearchKind::Vector.held(&held).unwrap(), &held);
            let bytes = SearchKind::Vector.binary(&held);
            prop_assert_eq!(&SearchKind::Vector.of_binary(&bytes).unwrap(), &held);
            for cut in 0..bytes.len() {
                prop_assert!(SearchKind::Vector.of_binary(&bytes[..cut]).is_err());
            }
        }
        let held = Query::read(&query).unwrap().text();
        prop_assert_eq!(&SearchKind::Query.held(&held).unwrap(), &held);
        prop_assert_eq!(&SearchKind::Query.of_binary(&SearchKind::Query.binary(&held)).unwrap(), &held);
        // Any text is a query for search engines, and a document.
        let english = Configuration::of_name("english").unwrap();
        for syntax in [QuerySyntax::Web, QuerySyntax::Plain, QuerySyntax::Phrase] {
            let held = Query::of_text(english, &any, syntax).unwrap().text();
            prop_assert_eq!(&SearchKind::Query.held(&held).unwrap(), &held);
        }
        let held = Vector::of_text(english, &any).unwrap().text();
        prop_assert_eq!(&SearchKind::Vector.held(&held).unwrap(), &held);
        let _ = (Vector::read(&any), Query::read(&any));
    }

    #[test]
    fn operators_above_phrases_are_those_of_logic(left in queries(), right in queries(), text in vectors()) {
        let Ok(vector) = Vector::read(&text) else { return Ok(()) };
        let (a, b) = (ends(&left, &vector), ends(&right, &vector));
        prop_assert_eq!(ends(&format!("({left}) & ({right})"), &vector), a && b);
        prop_assert_eq!(ends(&format!("({left}) | ({right})"), &vector), a || b);
        prop_assert_eq!(ends(&format!("!({left})"), &vector), !a);
        let query = Query::read(&left).unwrap();
        for divisors in [0, 63] {
            prop_assert!(rank(&WEIGHT_VALUES, &vector, &query, divisors) >= 0.0);
            prop_assert!(rank_covers(&WEIGHT_VALUES, &vector, &query, divisors) >= 0.0);
        }
    }

    #[test]
    fn headlines_without_marks_are_of_the_text(text in texts(), query in queries(), least in 1..4_i32, fragments in 0..3) {
        let options = format!("MinWords={least}, MaxWords={}, MaxFragments={fragments}, StartSel='', StopSel='', FragmentDelimiter='\u{1}'", least + 3);
        let options = HeadlineOptions::read(&options).unwrap();
        let query = Query::read(&query).unwrap();
        let shown = headline(Configuration::of_name("simple").unwrap(), &text, &query, &options);
        prop_assert!(shown.len() <= text.len() * 2 + 8);
    }
}
