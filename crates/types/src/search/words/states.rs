//! The states of the automaton that finds words, as a table.
//!
//! A line is a state: its name, and what it does at the character where it is, by the first test that holds:
//!
//! | words | meaning |
//! |---|---|
//! | `stay`, `go s` | the character belongs to the word; on in this state, or another |
//! | `try s` | the same, but what comes behind may lead `back` here, to the next test |
//! | `decide s` | like `go`: the latest `try` has succeeded |
//! | `back` | to the latest `try` |
//! | `escape` | to the state of the latest `try`, but at the next character |
//! | `again s`, `restart s` | another state looks at the character, or at the word's first one |
//! | `is c`, `is c then s` | the word ends before the character, is of the class; the next one begins in the state |
//! | `!` | behind it: what the word says as a tag is remembered |

use std::collections::HashMap;
use std::sync::LazyLock;

use super::WordClass;

const STATES: &str = r#"
base: end stay, '<' try tag-first, skipping go blank, ascii go ascii-word, letter go word, digit go unsigned, '-' try sign, '+' try sign, '&' try entity-first, '~' try twiddle, '/' try file-first, '.' try dot-first, else go blank
url-path-first: url go url-path, else back
blank: end is blank, '<' is blank, skipping stay, '-' is blank, '+' is blank, '&' is blank, '/' is blank, other stay, else is blank

number-word: alnum stay, mark stay, '@' try email, '/' try file-first, '.' try file-next, '-' try hyphen-number-first, else is numword
ascii-word: ascii stay, '.' try domain-first, '.' try file-next, '-' try host-part, '-' try hyphen-ascii-first, '_' try host-part, '@' try email, ':' try protocol-first, '/' try file-first, digit try host, digit go number-word, letter go word, mark go word, else is asciiword
word: letter stay, mark stay, digit go number-word, '-' try hyphen-word-first, else is word

unsigned: digit stay, '.' try domain-first, '.' try decimal-first, 'e' try exponent-first, 'E' try exponent-first, '-' try host-part, '_' try host-part, '@' try email, ascii try host, letter go number-word, mark go number-word, '/' try file-first, else is uint
sign: digit decide signed, else back
signed: digit stay, '.' try signed-decimal-first, 'e' try exponent-first, 'E' try exponent-first, else is int
decimal-first: digit decide decimal, else back
decimal: digit stay, '.' try version-first, 'e' try exponent-first, 'E' try exponent-first, else is float
signed-decimal-first: digit decide signed-decimal, else back
signed-decimal: digit stay, '.' try signed-version, 'e' try exponent-first, 'E' try exponent-first, else is float
signed-version: digit restart behind-sign, else back
behind-sign: end back, digit is blank then unsigned, else stay
version-first: digit decide version, else back
version: digit stay, '.' try version-first, else is version
exponent-first: digit decide exponent, '+' go exponent-sign, '-' go exponent-sign, else back
exponent-sign: digit decide exponent, else back
exponent: digit stay, else is sfloat

entity-first: '#' go entity-number-first, ascii go entity, ':' go entity, '_' go entity, else back
entity: alnum stay, ':' stay, '_' stay, '.' stay, '-' stay, ';' go entity-end, else back
entity-number-first: 'x' go entity-hex-first, 'X' go entity-hex-first, digit go entity-number, else back
entity-hex-first: hex go entity-hex, else back
entity-number: digit stay, ';' go entity-end, else back
entity-hex: hex stay, ';' go entity-end, else back
entity-end: else is entity

tag-first: '/' try tag-close-first, '!' try comment-first, '?' try instruction, ascii try tag-name, ':' try tag-name, '_' try tag-name, else back
instruction: 'x' go tag, else back
tag-close-first: ascii go tag-name, else back
tag-name: '/' go tag-slash, '>' go tag-end !, space go tag !, alnum stay, ':' stay, '_' stay, '.' stay, '-' stay, else back
tag-slash: '>' go tag-end, else back
tag: '>' go tag-end !, ''' go tag-single, '"' go tag-double, ascii stay, digit stay, '=' stay, '-' stay, '_' stay, '#' stay, '/' stay, ':' stay, '.' stay, '&' stay, '?' stay, '%' stay, '~' stay, space stay !, else back
tag-single: end back, '\' try tag-escape, ''' go tag, else stay
tag-double: end back, '\' try tag-escape, '"' go tag, else stay
tag-escape: end back, else escape
tag-end: else is tag
comment-first: '-' go comment-second, 'D' go tag, 'd' go tag, else back
comment-second: '-' go comment, else back
comment: end back, '-' go comment-close-first, else stay
comment-close-first: end back, '-' go comment-close-second, else go comment
comment-close-second: end back, '-' stay, '>' go comment-end, else go comment
comment-end: else is tag

domain-first: ascii go domain-second, digit go host, else back
domain-second: ascii go domain, digit try host, '-' try host-part, '_' try host-part, '.' try domain-first, '@' try email, else back
domain: end is host, ascii stay, digit try host, ':' try port-first, '-' try host-part, '_' try host-part, '.' try domain-first, '@' try email, digit back, wants-host is host then url-path-start, '/' try url-behind-host, else is host
port-first: digit go port, else back
port: end is host, digit stay, wants-host is host then url-path-start, '/' try url-behind-host, else is host
host-part: digit go host, ascii go host, else back
host: digit stay, ascii stay, '@' try email, '.' try domain-first, '-' try host-part, '_' try host-part, else back
email: wants-host back, host-behind is email, else back
url-behind-host: end back, path-behind is url, else back
url-path-start: else go url-path
url-path: url stay, else is url_path
protocol-first: '/' go protocol-second, else back
protocol-second: '/' go protocol-end, else back
protocol-end: else is protocol

file-first: ascii go file, digit go file, '.' go path-first, '_' go file, '~' try twiddle, else back
twiddle: ascii go file, digit go file, '_' go file, '/' go file-first, else back
path-first: ascii go file, digit go file, '_' go file, '.' go path-second, '/' go file-first, else back
dot-first: '.' go path-second, '/' go file-first, else back
path-second: end is file, '/' try file-first, '/' is file, space is file, else back
file: ascii stay, digit stay, '.' try file-next, '_' stay, '-' stay, '/' try file-first, else is file
file-next: ascii decide file, digit decide file, '_' decide file, else back

hyphen-ascii-first: ascii go hyphen-ascii, letter go hyphen-word, digit go hyphen-digits, else back
hyphen-ascii: ascii stay, letter go hyphen-word, mark go hyphen-word, digit go hyphen-number, '-' try hyphen-ascii-first, else is asciihword then parts
hyphen-word-first: letter go hyphen-word, digit go hyphen-digits, else back
hyphen-word: letter stay, mark stay, digit go hyphen-number, '-' try hyphen-word-first, else is hword then parts
hyphen-number-first: letter go hyphen-number, digit go hyphen-digits, else back
hyphen-number: alnum stay, mark stay, '-' try hyphen-number-first, else is numhword then parts
hyphen-digits: digit stay, letter go hyphen-number, mark go hyphen-number, else back
parts: ascii go part-ascii, letter go part-word, digit try part-digits, '-' try between-parts, else again base
between-parts: alnum is blank then parts, mark is blank then parts, else back
part-word: letter stay, mark stay, digit go part-number, else is hword_part then parts
part-ascii: ascii stay, letter go part-word, mark go part-word, digit go part-number, else is hword_asciipart then parts
part-number: alnum stay, mark stay, else is hword_numpart then parts
part-digits: digit stay, letter decide part-number, mark decide part-number, else back
"#;

/// A state: its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) usize);

impl State {
    /// Where words begin.
    pub(super) const BASE: State = State(0);
    /// Where the path of an address of the web begins.
    pub(super) const URL_PATH: State = State(1);
}

/// What is asked of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Always,
    End,
    Character(char),
    AsciiLetter,
    Letter,
    Digit,
    Mark,
    Blank,
    LetterOrDigit,
    NoLetterOrDigit,
    Hexadecimal,
    OfUrl,
    /// Whether text is skipped.
    Skipping,
    /// Whether a host ends before its path; from then on no longer.
    WantsHost,
    /// A host begins here, and is read.
    Host,
    /// A path of the web begins here, and is read.
    UrlPath,
}

/// What is done; the words are in the table's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Stay,
    Go(State),
    Try(State),
    Decide(State),
    Back,
    Escape,
    Again(State),
    FromStart(State),
    Word(WordClass, State),
}

/// What is done if a test holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) test: Test,
    pub(super) action: Action,
    pub(super) looks_at_tag: bool,
}

/// The rules of each state. A line that cannot be read is a mistake in this file; the tests find it.
pub(super) static RULES: LazyLock<Vec<Vec<Rule>>> = LazyLock::new(|| {
    let lines = STATES.lines().filter_map(|line| line.split_once(": ")).collect::<Vec<_>>();
    let places = lines.iter().enumerate().map(|(place, (name, _))| (*name, State(place))).collect::<HashMap<_, _>>();
    let rules = |(_, rules): &(&str, &str)| rules.split(", ").map(|rule| read(rule, &places)).collect();
    lines.iter().map(rules).collect()
});

fn read(rule: &str, places: &HashMap<&str, State>) -> Rule {
    let words = rule.split(' ').collect::<Vec<_>>();
    let state = |place: usize| {
        let name = words.get(place).copied().unwrap_or("base");
        *places.get(name).unwrap_or_else(|| panic!("no state {name} in {rule}"))
    };
    let test = match words[0] {
        "else" => Test::Always,
        "end" => Test::End,
        "ascii" => Test::AsciiLetter,
        "letter" => Test::Letter,
        "digit" => Test::Digit,
        "mark" => Test::Mark,
        "space" => Test::Blank,
        "alnum" => Test::LetterOrDigit,
        "other" => Test::NoLetterOrDigit,
        "hex" => Test::Hexadecimal,
        "url" => Test::OfUrl,
        "skipping" => Test::Skipping,
        "wants-host" => Test::WantsHost,
        "host-behind" => Test::Host,
        "path-behind" => Test::UrlPath,
        quoted => match quoted.chars().collect::<Vec<_>>()[..] {
            ['\'', character, '\''] => Test::Character(character),
            _ => panic!("no test {quoted} in {rule}"),
        },
    };
    let action = match words.get(1).copied() {
        Some("stay") => Action::Stay,
        Some("go") => Action::Go(state(2)),
        Some("try") => Action::Try(state(2)),
        Some("decide") => Action::Decide(state(2)),
        Some("back") => Action::Back,
        Some("escape") => Action::Escape,
        Some("again") => Action::Again(state(2)),
        Some("restart") => Action::FromStart(state(2)),
        Some("is") => {
            let named = WordClass::ALL.into_iter().find(|(_, name, _)| words.get(2) == Some(name));
            let (class, ..) = named.unwrap_or_else(|| panic!("no class in {rule}"));
            Action::Word(class, if words.get(3) == Some(&"then") { state(4) } else { State::BASE })
        }
        _ => panic!("nothing is done in {rule}"),
    };
    Rule { test, action, looks_at_tag: words.last() == Some(&"!") }
}
