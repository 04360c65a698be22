//! Words of a text, as PostgreSQL's default parser finds them: words, numbers, addresses, paths, tags.
//!
//! The parser is an automaton that tries: it remembers where it is, goes on with one reading, and comes back if that
//! comes to nothing. A word may come several times, as a whole and in parts: `up-to-date`, `example.com/a`. The states
//! are in [`states`].

mod states;

use self::states::{Action, RULES, State, Test};
use super::letters::CharacterClass;

/// What a word is (manual, table 12.1). The numbers are PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WordClass {
    /// ASCII letters.
    AsciiWord = 1,
    /// Letters.
    Word,
    /// Letters and digits.
    NumberWord,
    /// An address of mail.
    Email,
    /// An address of the web, with a path.
    Url,
    /// A host.
    Host,
    /// A number with an exponent.
    Scientific,
    /// A number with several points.
    Version,
    /// A part of a hyphenated word, of letters and digits.
    PartNumberWord,
    /// A part of a hyphenated word, of letters.
    PartWord,
    /// A part of a hyphenated word, of ASCII letters.
    PartAsciiWord,
    /// What is between words.
    Blank,
    /// A tag of XML, or a comment.
    Tag,
    /// The beginning of an address, such as `http://`.
    Protocol,
    /// A hyphenated word of letters and digits.
    HyphenatedNumberWord,
    /// A hyphenated word of ASCII letters.
    HyphenatedAsciiWord,
    /// A hyphenated word of letters.
    HyphenatedWord,
    /// The path of an address of the web.
    UrlPath,
    /// A path of files.
    Path,
    /// A number with a point.
    Decimal,
    /// A number with a sign.
    Signed,
    /// A number.
    Unsigned,
    /// An entity of XML.
    Entity,
}

impl WordClass {
    /// All of them with PostgreSQL's names and descriptions, in the order of their numbers.
    pub const ALL: [(WordClass, &'static str, &'static str); 23] = [
        (Self::AsciiWord, "asciiword", "Word, all ASCII"),
        (Self::Word, "word", "Word, all letters"),
        (Self::NumberWord, "numword", "Word, letters and digits"),
        (Self::Email, "email", "Email address"),
        (Self::Url, "url", "URL"),
        (Self::Host, "host", "Host"),
        (Self::Scientific, "sfloat", "Scientific notation"),
        (Self::Version, "version", "Version number"),
        (Self::PartNumberWord, "hword_numpart", "Hyphenated word part, letters and digits"),
        (Self::PartWord, "hword_part", "Hyphenated word part, all letters"),
        (Self::PartAsciiWord, "hword_asciipart", "Hyphenated word part, all ASCII"),
        (Self::Blank, "blank", "Space symbols"),
        (Self::Tag, "tag", "XML tag"),
        (Self::Protocol, "protocol", "Protocol head"),
        (Self::HyphenatedNumberWord, "numhword", "Hyphenated word, letters and digits"),
        (Self::HyphenatedAsciiWord, "asciihword", "Hyphenated word, all ASCII"),
        (Self::HyphenatedWord, "hword", "Hyphenated word, all letters"),
        (Self::UrlPath, "url_path", "URL path"),
        (Self::Path, "file", "File or path name"),
        (Self::Decimal, "float", "Decimal notation"),
        (Self::Signed, "int", "Signed integer"),
        (Self::Unsigned, "uint", "Unsigned integer"),
        (Self::Entity, "entity", "XML entity"),
    ];

    /// PostgreSQL's number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Whether its parts come behind it as words of their own.
    pub(super) fn is_compound(self) -> bool {
        matches!(self, Self::Url | Self::HyphenatedNumberWord | Self::HyphenatedAsciiWord | Self::HyphenatedWord)
    }

    /// Whether a configuration has a dictionary for it.
    pub fn is_indexed(self) -> bool {
        !matches!(self, Self::Blank | Self::Tag | Self::Protocol | Self::Entity)
    }
}

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextWord<'a> {
    /// What it is.
    pub class: WordClass,
    /// Its text.
    pub text: &'a str,
}

/// Where a reading is, or can be taken up again.
#[derive(Clone, Copy)]
struct Place {
    state: State,
    at: usize,
    /// The rule of the state from which on it is taken up.
    rule: usize,
}

/// The words of a text, in order.
pub struct Words<'a> {
    text: &'a str,
    place: Place,
    /// The readings to come back to, the latest last.
    open: Vec<Place>,
    /// Whether a host ends before its path.
    wants_host: bool,
    /// Whether what is between tags is no text: that of scripts and styles.
    is_skipping: bool,
}

impl<'a> Words<'a> {
    /// The words of a text.
    pub fn new(text: &'a str) -> Self {
        Self::within(text, State::BASE, false)
    }

    fn within(text: &'a str, state: State, wants_host: bool) -> Self {
        Self { text, place: Place { state, at: 0, rule: 0 }, open: vec![], wants_host, is_skipping: false }
    }

    /// The length in bytes of the word of a class that begins here, read by itself.
    fn part(&self, state: State, class: WordClass) -> Option<usize> {
        let mut part = Words::within(&self.text[self.place.at..], state, class == WordClass::Host);
        part.next().filter(|word| word.class == class).map(|word| word.text.len())
    }

    /// Whether the character here is what the test asks for. Hosts and paths behind addresses are read by it.
    fn is(&mut self, test: Test, next: Option<char>) -> bool {
        let class = next.map(CharacterClass::of);
        use CharacterClass as C;
        match test {
            Test::Always => true,
            Test::End => next.is_none(),
            Test::Character(wanted) => next == Some(wanted),
            Test::AsciiLetter => next.is_some_and(|next| next.is_ascii_alphabetic()),
            Test::Letter => class == Some(C::Letter),
            Test::Digit => class == Some(C::Digit),
            Test::Mark => class == Some(C::Mark),
            Test::Blank => class == Some(C::Blank),
            Test::LetterOrDigit => matches!(class, Some(C::Letter | C::Digit)),
            Test::NoLetterOrDigit => !matches!(class, Some(C::Letter | C::Digit)),
            Test::Hexadecimal => next.is_some_and(|next| next.is_ascii_hexdigit()),
            Test::OfUrl => next.is_some_and(|next| {
                next.is_ascii_graphic() && !matches!(next, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
            }),
            Test::Skipping => self.is_skipping,
            Test::WantsHost => std::mem::take(&mut self.wants_host),
            Test::Host => self.take(State::BASE, WordClass::Host),
            Test::UrlPath => self.take(State::URL_PATH, WordClass::UrlPath),
        }
    }

    fn take(&mut self, state: State, class: WordClass) -> bool {
        let length = self.part(state, class);
        self.place.at += length.unwrap_or(0);
        length.is_some()
    }

    /// What a tag says of the text behind it.
    fn look_at_tag(&mut self, tag: &str) {
        let is = |name: &str| tag.eq_ignore_ascii_case(name);
        if is("</script") || is("</style") {
            self.is_skipping = false;
        } else if is("<script") || is("<style") {
            self.is_skipping = true;
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = TextWord<'a>;

    fn next(&mut self) -> Option<TextWord<'a>> {
        let start = self.place.at;
        if start >= self.text.len() {
            return None;
        }
        self.place.rule = 0;
        loop {
            let next = self.text[self.place.at..].chars().next();
            let rules = &RULES[self.place.state.0];
            let mut rule = std::mem::take(&mut self.place.rule);
            while !self.is(rules[rule].test, next) {
                rule += 1;
            }
            let found = rules[rule];
            if found.looks_at_tag {
                self.look_at_tag(&self.text[start..self.place.at]);
            }
            let length = next.map_or(0, char::len_utf8);
            match found.action {
                Action::Stay => {}
                Action::Go(state) => self.place.state = state,
                Action::Try(state) => {
                    self.open.push(Place { rule: rule + 1, ..self.place });
                    self.place.state = state;
                }
                Action::Decide(state) => {
                    self.open.pop();
                    self.place.state = state;
                }
                Action::Back => {
                    // Nothing is open only if a rule is wrong: then the rest is left out.
                    self.place = self.open.pop()?;
                    continue;
                }
                Action::Escape => {
                    let place = self.open.pop()?;
                    self.place = Place { at: self.place.at, ..place };
                }
                Action::Again(state) => {
                    self.place.state = state;
                    continue;
                }
                Action::FromStart(state) => {
                    self.place = Place { state, at: start, rule: 0 };
                    continue;
                }
                Action::Word(class, state) => {
                    let text = &self.text[start..self.place.at];
                    self.open.clear();
                    self.place.state = state;
                    if class.is_compound() {
                        self.place.at = start;
                        self.wants_host |= class == WordClass::Url;
                    }
                    return Some(TextWord { class, text });
                }
            }
            if self.place.at >= self.text.len() {
                return None;
            }
            self.place.at += length;
        }
    }
}
