//! The parts of a text that a query asks for, with what is asked for in them marked.

use diligence_base::{Error, Result};

use super::dictionaries::Lexized;
use super::matching::Presence;
use super::query::{Item, Query};
use super::words::{WordClass, Words};
use super::{Configuration, WORD_BYTES_MAX, held_position};

/// How a headline is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadlineOptions {
    words_least: i32,
    words_most: i32,
    short_word: i32,
    fragments_most: i32,
    is_whole: bool,
    begin: String,
    end: String,
    between: String,
}

impl Default for HeadlineOptions {
    fn default() -> Self {
        Self {
            words_least: 15,
            words_most: 35,
            short_word: 3,
            fragments_most: 0,
            is_whole: false,
            begin: "<b>".to_owned(),
            end: "</b>".to_owned(),
            between: " ... ".to_owned(),
        }
    }
}

impl HeadlineOptions {
    /// The options of a text: `MaxWords=5, StartSel="<i>"`. Fails with 42601 if it is none, 22023 for an option that
    /// there is none of, 22P02 for a value that is no number.
    pub fn read(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for (name, value) in pairs(text)? {
            let number = || crate::text::numbers::parse_integer(&value, i32::MIN.into(), i32::MAX.into(), "integer");
            let number = || number().map(|number| number as i32);
            match name.to_ascii_lowercase().as_str() {
                "maxwords" => options.words_most = number()?,
                "minwords" => options.words_least = number()?,
                "shortword" => options.short_word = number()?,
                "maxfragments" => options.fragments_most = number()?,
                "startsel" => options.begin = value,
                "stopsel" => options.end = value,
                "fragmentdelimiter" => options.between = value,
                "highlightall" => {
                    let yes = ["1", "on", "true", "t", "y", "yes"];
                    options.is_whole = yes.iter().any(|yes| value.eq_ignore_ascii_case(yes));
                }
                _ => return Err(wrong(format!("unrecognized headline parameter: \"{name}\""))),
            }
        }
        if options.is_whole {
            return Ok(options);
        }
        for (is_wrong, message) in [
            (options.words_least >= options.words_most, "MinWords should be less than MaxWords"),
            (options.words_least <= 0, "MinWords should be positive"),
            (options.short_word < 0, "ShortWord should be >= 0"),
            (options.fragments_most < 0, "MaxFragments should be >= 0"),
        ] {
            if is_wrong {
                return Err(wrong(message));
            }
        }
        Ok(options)
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::input(message).with_code("22023")
}

/// Names and values with commas between them. Values may be in quotes.
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = || Error::input(format!("invalid parameter list format: \"{text}\"")).with_code("42601");
    let mut rest = text.chars().peekable();
    let mut pairs = Vec::new();
    let is_blank = |character: &char| character.is_ascii_whitespace();
    loop {
        while rest.next_if(is_blank).is_some() {}
        if rest.peek().is_none() {
            return Ok(pairs);
        }
        let mut name = String::new();
        match rest.peek() {
            Some('"') => name = quoted(&mut rest, '"').ok_or_else(wrong)?,
            _ => {
                while let Some(next) = rest.next_if(|next| !is_blank(next) && !matches!(next, '=' | ',')) {
                    name.push(next);
                }
            }
        }
        while rest.next_if(is_blank).is_some() {}
        if name.is_empty() || rest.next() != Some('=') {
            return Err(wrong());
        }
        while rest.next_if(is_blank).is_some() {}
        let mut value = String::new();
        match rest.peek().copied() {
            Some(quote @ ('\'' | '"')) => value = quoted(&mut rest, quote).ok_or_else(wrong)?,
            _ => {
                while let Some(next) = rest.next_if(|next| !is_blank(next) && *next != ',') {
                    value.push(next);
                }
            }
        }
        while rest.next_if(is_blank).is_some() {}
        pairs.push((name, value));
        match rest.next() {
            None => return Ok(pairs),
            Some(',') => {}
            Some(_) => return Err(wrong()),
        }
    }
}

/// What is in quotes here; two are one. `None` if they do not end.
fn quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char) -> Option<String> {
    rest.next();
    let mut value = String::new();
    loop {
        match rest.next()? {
            next if next == quote && rest.next_if_eq(&quote).is_some() => value.push(quote),
            next if next == quote => return Some(value),
            '\\' if quote == '\'' && rest.peek() == Some(&'\\') => {
                rest.next();
                value.push('\\');
            }
            next => value.push(next),
        }
    }
}

/// A word of the text.
#[derive(Clone)]
struct Shown<'a> {
    text: &'a str,
    class: WordClass,
    position: u16,
    /// The operand that asks for it, as the place of its item.
    item: Option<usize>,
    /// Whether it is there once more, for another operand.
    is_repeated: bool,
    is_within: bool,
    is_marked: bool,
    /// Whether it is left out, or a blank stands for it.
    is_left_out: bool,
    is_blank: bool,
}

impl Shown<'_> {
    /// Whether it counts as a word.
    fn counts(&self) -> bool {
        !matches!(self.class, WordClass::Blank | WordClass::Tag) && !self.class.is_compound()
    }

    fn is_asked_for(&self) -> bool {
        self.item.is_some() && !self.is_repeated
    }

    /// Whether a headline should not end with it.
    fn ends_badly(&self, options: &HeadlineOptions) -> bool {
        use WordClass as W;
        let is_no_end = !self.counts()
            || matches!(self.class, W::Scientific | W::Version | W::Decimal | W::Signed | W::Unsigned)
            || matches!(self.class, W::Protocol | W::Entity);
        let is_short = i32::try_from(self.text.len()).unwrap_or(i32::MAX) <= options.short_word;
        (is_no_end || is_short) && !self.is_asked_for()
    }
}

/// The words of a text, and which a query asks for.
fn shown<'a>(configuration: Configuration, text: &'a str, query: &Query) -> Vec<Shown<'a>> {
    let mut words = Vec::new();
    let mut position = 0;
    for word in Words::new(text) {
        let dictionary = configuration.dictionary(word.class);
        if word.text.len() > WORD_BYTES_MAX {
            continue;
        }
        let lexized = dictionary.map(|dictionary| dictionary.lexize(word.text));
        position += usize::from(lexized.is_some());
        let plain = Shown {
            text: word.text,
            class: word.class,
            position: held_position(position),
            item: None,
            is_repeated: false,
            is_within: false,
            is_marked: false,
            is_left_out: false,
            is_blank: false,
        };
        let first = words.len();
        words.push(plain.clone());
        let Some(Lexized::Lexeme(lexeme)) = lexized else { continue };
        for (place, item) in query.items.iter().enumerate() {
            let Item::Operand(operand) = item else { continue };
            let is_it = match operand.is_prefix {
                true => lexeme.starts_with(&operand.word),
                false => lexeme == operand.word,
            };
            if is_it && words[first].item.is_none() {
                words[first].item = Some(place);
            } else if is_it {
                words.push(Shown { item: Some(place), is_repeated: true, ..plain.clone() });
            }
        }
    }
    words
}

/// Whether the query holds of these words.
fn holds(query: &Query, words: &[Shown<'_>]) -> bool {
    query.holds(|item, _, wants_positions| {
        let mut positions: Vec<u16> = Vec::new();
        for word in words.iter().filter(|word| word.item == Some(item)) {
            if !wants_positions {
                return Presence::Somewhere;
            }
            if positions.last().is_none_or(|last| *last < word.position) {
                positions.push(word.position);
            }
        }
        if positions.is_empty() { Presence::Absent } else { Presence::At(positions) }
    })
}

/// The first and shortest words from a place on of which the query holds, at most so many.
fn cover(query: &Query, words: &[Shown<'_>], from: usize, most: usize) -> Option<(usize, usize)> {
    let asked = |from: usize| (from..words.len()).find(|place| words[*place].item.is_some());
    let mut begin = asked(from);
    while let Some(first) = begin {
        let mut end = Some(first);
        while let Some(last) = end.filter(|last| *last == first || last - first < most) {
            if holds(query, &words[first..=last]) {
                return Some((first, last));
            }
            end = asked(last + 1);
        }
        begin = asked(first + 1);
    }
    None
}

/// The headline of a text.
pub fn headline(configuration: Configuration, text: &str, query: &Query, options: &HeadlineOptions) -> String {
    let mut words = shown(configuration, text, query);
    if !words.is_empty() {
        match options.fragments_most {
            0 => choose_words(&mut words, query, options),
            _ => choose_fragments(&mut words, query, options),
        }
    }
    written(&words, options)
}

/// The most words between the ends of a cover.
fn cover_most(options: &HeadlineOptions) -> usize {
    let most = options.words_most.saturating_mul(10).max(100).saturating_mul(options.fragments_most.max(1));
    usize::try_from(most).unwrap_or(0)
}

fn choose_words(words: &mut [Shown<'_>], query: &Query, options: &HeadlineOptions) {
    if options.is_whole {
        let last = words.len() - 1;
        return mark(words, 0, last, options);
    }
    // The best one: whether it has its cover, how much of what is asked for, whether it ends badly, and its ends.
    let mut best: Option<(bool, i32, bool, usize, usize)> = None;
    let mut from = 0;
    while let Some((first, last)) = cover(query, words, from, cover_most(options)) {
        let (begin, end, asked) = around(words, first, last, options);
        let has_cover = begin <= first && end >= last;
        let ends_badly = words[end].ends_badly(options);
        let is_better = best.is_none_or(|(best_cover, best_asked, best_badly, ..)| {
            (has_cover, asked, best_badly && !ends_badly) > (best_cover, best_asked, false)
        });
        if is_better {
            best = Some((has_cover, asked, ends_badly, begin, end));
        }
        from = first + 1;
    }
    let (begin, end) = match best {
        Some((.., begin, end)) => (begin, end),
        None => (0, first_words(words, options.words_least)),
    };
    mark(words, begin, end, options);
}

/// The place up to which so many words are.
fn first_words(words: &[Shown<'_>], count: i32) -> usize {
    let (mut found, mut end) = (0, 0);
    for (place, word) in words.iter().enumerate() {
        if found >= count {
            break;
        }
        found += i32::from(word.counts());
        end = place;
    }
    end
}

/// What is shown around a cover: its ends, and how many words in it are asked for.
fn around(words: &[Shown<'_>], first: usize, last: usize, options: &HeadlineOptions) -> (usize, usize, i32) {
    let (least, most) = (options.words_least, options.words_most);
    let counted = |place: usize| (i32::from(words[place].counts()), i32::from(words[place].is_asked_for()));
    let (mut length, mut asked, mut begin, mut end) = (0, 0, first, first);
    let mut place = first;
    while place <= last && length < most {
        let (word, wanted) = counted(place);
        length += word;
        asked += wanted;
        end = place;
        place += 1;
    }
    if length < most {
        // There is room: up to a good end.
        place = place.saturating_sub(1);
        while place < words.len() && length < most {
            if place > last {
                let (word, wanted) = counted(place);
                length += word;
                asked += wanted;
            }
            end = place;
            if !words[place].ends_badly(options) && length >= least {
                break;
            }
            place += 1;
        }
        if length < least {
            // The text ends before: more of what is in front.
            begin = 0;
            for place in (0..first).rev() {
                let (word, wanted) = counted(place);
                length += word;
                asked += wanted;
                if length >= most || !words[place].ends_badly(options) && length >= least {
                    begin = place;
                    break;
                }
            }
        }
        return (begin, end, asked);
    }
    // No more room: perhaps less, for a better end.
    let mut place = place.min(last);
    while length > least && words[place].ends_badly(options) {
        let (word, wanted) = counted(place);
        length -= word;
        asked -= wanted;
        let Some(before) = place.checked_sub(1) else { break };
        place = before;
        end = place;
    }
    (begin, end, asked)
}

/// A part of a cover.
struct Fragment {
    begin: usize,
    end: usize,
    length: i32,
    asked: i32,
    is_used: bool,
}

/// The next part of a cover, with at most so many words, which begins and ends with words that are asked for.
fn fragment(words: &[Shown<'_>], begin: usize, end: usize, most: i32) -> Fragment {
    let first = (begin..=end).find(|place| words[*place].is_asked_for()).unwrap_or(end);
    let (mut length, mut asked, mut place, mut last) = (0, 0, first, end);
    while place <= end && length < most {
        length += i32::from(words[place].counts());
        asked += i32::from(words[place].is_asked_for());
        place += 1;
    }
    if end > place {
        last = place;
        for place in (first..=place).rev() {
            last = place;
            if words[place].is_asked_for() {
                break;
            }
            length -= i32::from(words[place].counts());
        }
    }
    Fragment { begin: first, end: last, length, asked, is_used: false }
}

fn choose_fragments(words: &mut [Shown<'_>], query: &Query, options: &HeadlineOptions) {
    let most = options.words_most;
    let mut fragments = Vec::new();
    let mut from = 0;
    while let Some((first, last)) = cover(query, words, from, cover_most(options)) {
        let mut begin = first;
        while begin <= last {
            let one = fragment(words, begin, last, most);
            begin = one.end + 1;
            fragments.push(one);
        }
        from = first + 1;
    }
    let mut is_any = false;
    for _ in 0..options.fragments_most {
        // The one with the most words that are asked for, and of such the shortest.
        let free = fragments.iter().enumerate().filter(|(_, one)| !one.is_used);
        let best = free.min_by_key(|(place, one)| (std::cmp::Reverse(one.asked), one.length, *place));
        let Some(best) = best.map(|(place, _)| place) else { break };
        let (begin, end) = stretched(words, &fragments[best], options);
        mark(words, begin, end, options);
        is_any = true;
        fragments[best].is_used = true;
        for one in &mut fragments {
            let overlaps = begin <= one.begin && one.begin <= end
                || begin <= one.end && one.end <= end
                || one.begin < begin && one.end > end;
            one.is_used |= overlaps;
        }
    }
    if !is_any {
        let end = first_words(words, options.words_least);
        mark(words, 0, end, options);
    }
}

/// The ends of a fragment when it has as many words as it may.
fn stretched(words: &[Shown<'_>], one: &Fragment, options: &HeadlineOptions) -> (usize, usize) {
    let most = options.words_most;
    let (mut begin, mut end, mut length) = (one.begin, one.end, one.length);
    if length >= most {
        return (begin, end);
    }
    let side = (most - length) / 2;
    let (mut added, mut marker) = (0, begin);
    for place in (0..begin).rev() {
        if added >= side || words[place].is_within {
            break;
        }
        added += i32::from(words[place].counts());
        marker = place;
    }
    length += added;
    while marker < begin && words[marker].ends_badly(options) {
        length -= i32::from(words[marker].counts());
        marker += 1;
    }
    begin = marker;
    let mut marker = end;
    for (place, word) in words.iter().enumerate().skip(end + 1) {
        if length >= most || word.is_within {
            break;
        }
        length += i32::from(word.counts());
        marker = place;
    }
    while marker > end && words[marker].ends_badly(options) {
        marker -= 1;
    }
    end = marker;
    (begin, end)
}

fn mark(words: &mut [Shown<'_>], begin: usize, end: usize, options: &HeadlineOptions) {
    for word in &mut words[begin..=end] {
        word.is_marked |= word.item.is_some();
        if !options.is_whole && word.class == WordClass::Tag {
            word.is_blank = true;
        } else if word.class.is_compound() {
            word.is_left_out = true;
        }
        word.is_within = !word.is_repeated;
    }
}

fn written(words: &[Shown<'_>], options: &HeadlineOptions) -> String {
    let mut out = String::new();
    let (mut fragments, mut is_inside) = (0, false);
    for word in words.iter().filter(|word| !word.is_repeated) {
        if !word.is_within {
            is_inside = false;
            continue;
        }
        if !is_inside {
            is_inside = true;
            fragments += 1;
            if fragments > 1 {
                out.push_str(&options.between);
            }
        }
        if word.is_blank {
            out.push(' ');
        } else if !word.is_left_out {
            if word.is_marked {
                out.push_str(&options.begin);
            }
            out.push_str(word.text);
            if word.is_marked {
                out.push_str(&options.end);
            }
        }
    }
    out
}
