//! The words that dates, times and intervals are written with.
//!
//! Only the first ten letters of a word count, as in PostgreSQL (`TOKMAXLEN`).

/// Units of dates and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
    /// The next number is a Julian day.
    Julian,
    /// The next number is a time (`T` of ISO 8601).
    Time,
    /// A unit that one can ask for but not write.
    Other,
}

/// Words for times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    Now,
    Yesterday,
    Today,
    Tomorrow,
    Midnight,
    Epoch,
    Infinity,
    NegativeInfinity,
}

/// What a word in a date or time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Reserved(Reserved),
    Month(u32),
    Weekday,
    Unit(Unit),
    /// BC or AD.
    Era {
        is_before: bool,
    },
    /// AM or PM.
    Half {
        is_after_noon: bool,
    },
    /// `dst`: an hour more than the zone before it.
    DaylightSaving,
    Ignored,
}

/// What a word in an interval means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalWord {
    Unit(Unit),
    Ago,
}

fn cut(word: &str) -> &str {
    word.get(..10).unwrap_or(word)
}

/// The meaning of a word, in lower case, in a date or time.
pub(super) fn of_date(word: &str) -> Option<Word> {
    Some(match cut(word) {
        "-infinity" => Word::Reserved(Reserved::NegativeInfinity),
        "infinity" => Word::Reserved(Reserved::Infinity),
        "epoch" => Word::Reserved(Reserved::Epoch),
        "now" => Word::Reserved(Reserved::Now),
        "today" => Word::Reserved(Reserved::Today),
        "tomorrow" => Word::Reserved(Reserved::Tomorrow),
        "yesterday" => Word::Reserved(Reserved::Yesterday),
        "allballs" => Word::Reserved(Reserved::Midnight),
        "ad" => Word::Era { is_before: false },
        "bc" => Word::Era { is_before: true },
        "am" => Word::Half { is_after_noon: false },
        "pm" => Word::Half { is_after_noon: true },
        "dst" => Word::DaylightSaving,
        "at" | "on" => Word::Ignored,
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "d" => Word::Unit(Unit::Day),
        "h" => Word::Unit(Unit::Hour),
        "m" => Word::Unit(Unit::Month),
        "mm" => Word::Unit(Unit::Minute),
        "s" => Word::Unit(Unit::Second),
        "y" => Word::Unit(Unit::Year),
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "t" => Word::Unit(Unit::Time),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit(Unit::Other),
        _ => return None,
    })
}

/// The meaning of a word, in lower case, in an interval.
pub(crate) fn of_interval(word: &str) -> Option<IntervalWord> {
    Some(IntervalWord::Unit(match cut(word) {
        "ago" => return Some(IntervalWord::Ago),
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" | "mm" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    }))
}
