//! The rows: each follows from the seed and its number alone.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

/// The rows of a log, of which each seed has another.
#[derive(Clone, Copy, Debug)]
pub struct WebLog {
    seed: u64,
}

/// Sites that are visited: a few by most.
const SITES: u64 = 5_000;
/// Visitors, of whom most come rarely.
const USERS: u64 = 1_500_000;
/// Pages that are visited again and again; others are seen once.
const PAGES: u64 = 200_000;
/// Questions that visitors came with.
const PHRASES: u64 = 300_000;
/// Regions of the visitors.
const REGIONS: u64 = 3_000;
/// The first day, counted from 1970: 2025-07-01.
const FIRST_DAY: i64 = 20_270;
/// Days in the log.
const DAYS: u64 = 31;
const DAY_US: i64 = 86_400_000_000;

const WORDS: [&str; 48] = [
    "summer",
    "garden",
    "window",
    "market",
    "travel",
    "music",
    "winter",
    "forum",
    "recipe",
    "camera",
    "engine",
    "ticket",
    "football",
    "weather",
    "school",
    "kitchen",
    "phone",
    "laptop",
    "flower",
    "guitar",
    "history",
    "science",
    "village",
    "mountain",
    "river",
    "train",
    "hotel",
    "photo",
    "video",
    "cinema",
    "doctor",
    "health",
    "repair",
    "bicycle",
    "jacket",
    "shoes",
    "painting",
    "furniture",
    "insurance",
    "letter",
    "station",
    "harbor",
    "island",
    "library",
    "museum",
    "theater",
    "breakfast",
    "calendar",
];
const HOSTS: [&str; 12] = [
    "search.example",
    "news.example",
    "shop.example",
    "mail.example",
    "video.example",
    "forum.example",
    "maps.example",
    "wiki.example",
    "jobs.example",
    "auto.example",
    "travel.example",
    "kino.example",
];
const BROWSERS: [&str; 9] = ["Firefox", "Chrome", "Safari", "Edge", "Opera", "Vivaldi", "Konqueror", "Lynx", "Unknown"];
const DEVICES: [&str; 6] = ["Pixel", "Galaxy S", "iPhone", "Nokia", "Redmi Note", "Tab"];
const WIDTHS: [i16; 8] = [1920, 1366, 1536, 1280, 390, 414, 2560, 3840];
const HEIGHTS: [i16; 8] = [1080, 768, 864, 720, 844, 896, 1440, 2160];

impl WebLog {
    /// The log of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The columns.
    pub fn schema() -> SchemaRef {
        let fields = [
            ("event_id", DataType::Int64),
            ("event_time", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("event_date", DataType::Date32),
            ("site_id", DataType::Int32),
            ("user_id", DataType::Int64),
            ("session_id", DataType::Int64),
            ("region_id", DataType::Int32),
            ("client_ip", DataType::Int32),
            ("url", DataType::Utf8),
            ("referrer", DataType::Utf8),
            ("title", DataType::Utf8),
            ("search_phrase", DataType::Utf8),
            ("browser", DataType::Utf8),
            ("device", DataType::Utf8),
            ("system", DataType::Int16),
            ("is_mobile", DataType::Int16),
            ("is_refresh", DataType::Int16),
            ("width", DataType::Int16),
            ("height", DataType::Int16),
            ("source_id", DataType::Int16),
            ("search_engine", DataType::Int16),
            ("duration_ms", DataType::Int32),
            ("sent_bytes", DataType::Int64),
        ];
        Arc::new(Schema::new(fields.map(|(name, ty)| Field::new(name, ty, false)).to_vec()))
    }

    /// Some rows of the log, from the row `first` on. An error is one of Arrow's: the texts are too long for a batch.
    pub fn batch(&self, first: u64, rows: usize) -> Result<RecordBatch, ArrowError> {
        let visits = (first..first + rows as u64).map(|row| Visit::new(self.seed, row)).collect::<Vec<_>>();
        let long =
            |value: fn(&Visit) -> i64| -> ArrayRef { Arc::new(visits.iter().map(value).collect::<Int64Array>()) };
        let int = |value: fn(&Visit) -> i32| -> ArrayRef { Arc::new(visits.iter().map(value).collect::<Int32Array>()) };
        let short =
            |value: fn(&Visit) -> i16| -> ArrayRef { Arc::new(visits.iter().map(value).collect::<Int16Array>()) };
        let text = |write: fn(&Visit, &mut String)| -> ArrayRef {
            let mut builder = StringBuilder::new();
            let mut value = String::new();
            for visit in &visits {
                value.clear();
                write(visit, &mut value);
                builder.append_value(&value);
            }
            Arc::new(builder.finish())
        };
        let columns = vec![
            long(|visit| visit.number(0) as i64),
            Arc::new(TimestampMicrosecondArray::from_iter_values(visits.iter().map(|visit| visit.time_us))),
            Arc::new(Date32Array::from_iter_values(visits.iter().map(|visit| (visit.time_us / DAY_US) as i32))),
            int(|visit| visit.site as i32),
            long(|visit| spread(visit.user) as i64),
            long(|visit| spread((visit.user << 8) | ((visit.time_us / (DAY_US / 8)) as u64 % 256)) as i64),
            int(|visit| visit.skewed(1, REGIONS) as i32),
            int(|visit| spread(visit.user / 2) as i32),
            text(Visit::url),
            text(Visit::referrer),
            text(Visit::title),
            text(Visit::phrase),
            text(|visit, out| out.push_str(BROWSERS[visit.of_user(2, BROWSERS.len())])),
            text(Visit::device),
            short(|visit| visit.of_user(3, 40) as i16),
            short(|visit| i16::from(visit.is_mobile())),
            short(|visit| i16::from(visit.number(4).is_multiple_of(12))),
            short(|visit| WIDTHS[visit.of_user(5, WIDTHS.len())]),
            short(|visit| HEIGHTS[visit.of_user(5, HEIGHTS.len())]),
            short(|visit| visit.skewed(6, 12) as i16 - 1),
            short(|visit| if visit.has_phrase() { visit.skewed(7, 30) as i16 + 1 } else { 0 }),
            int(|visit| visit.skewed(8, 600_000) as i32),
            long(|visit| visit.skewed(9, 4_000_000) as i64 + 200),
        ];
        RecordBatch::try_new(Self::schema(), columns)
    }
}

/// One row.
struct Visit {
    state: u64,
    time_us: i64,
    site: u64,
    user: u64,
}

impl Visit {
    fn new(seed: u64, row: u64) -> Self {
        let mut visit = Self { state: spread(seed.wrapping_add(spread(row))), time_us: 0, site: 0, user: 0 };
        // Rows come about in the order of time, as in a log; a day has 40,000 of them in a small log and more in a
        // large one.
        let day = row / 40_000 % DAYS;
        visit.time_us = (FIRST_DAY + day as i64) * DAY_US + (visit.number(20) % DAY_US as u64) as i64;
        visit.site = visit.skewed(21, SITES);
        visit.user = visit.skewed(22, USERS);
        visit
    }

    /// A random number for this row, another for each purpose.
    fn number(&self, purpose: u64) -> u64 {
        spread(self.state ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A random number below `most`, small ones much more often than large ones.
    fn skewed(&self, purpose: u64, most: u64) -> u64 {
        let uniform = (self.number(purpose) >> 11) as f64 / (1u64 << 53) as f64;
        // The cube: half of the rows have the first eighth of the values.
        ((uniform * uniform * uniform) * most as f64) as u64
    }

    /// A random number below `most` that all rows of a user have in common.
    fn of_user(&self, purpose: u64, most: usize) -> usize {
        let number = spread(self.user ^ purpose << 40);
        // Of two, the smaller one: some values are common.
        (number as usize % most).min((number >> 32) as usize % most)
    }

    fn is_mobile(&self) -> bool {
        self.of_user(5, WIDTHS.len()) >= 4
    }

    fn has_phrase(&self) -> bool {
        self.number(10).is_multiple_of(9)
    }

    fn url(&self, out: &mut String) {
        let page = match self.number(11) % 3 {
            0 => self.number(12) >> 20,
            _ => (self.skewed(12, PAGES) << 8) | (self.site % 256),
        };
        let _ = write!(out, "https://{}/", HOSTS[self.site as usize % HOSTS.len()]);
        words(page, 2, '-', out);
        let _ = write!(out, "/{}?id={page}", WORDS[page as usize / 7 % WORDS.len()]);
    }

    fn referrer(&self, out: &mut String) {
        match self.number(13) % 10 {
            0..4 => {}
            4..7 => {
                out.push_str("https://search.example/?q=");
                words(self.skewed(14, PHRASES), 3, '+', out);
                let _ = write!(out, "&page={}", self.skewed(15, 20));
            }
            _ => {
                let page = self.skewed(14, PAGES * 8);
                let _ = write!(out, "https://{}/", HOSTS[page as usize % HOSTS.len()]);
                words(page, 3, '/', out);
                let _ = write!(out, ".html#{page}");
            }
        }
    }

    fn title(&self, out: &mut String) {
        let page = (self.skewed(12, PAGES) << 8) | (self.site % 256);
        words(page, 5, ' ', out);
        let _ = write!(out, " | number {}", page % 100_000);
    }

    fn phrase(&self, out: &mut String) {
        if self.has_phrase() {
            let phrase = self.skewed(16, PHRASES);
            words(phrase, 2 + phrase as usize % 3, ' ', out);
            if phrase % 4 == 1 {
                let _ = write!(out, " {}", 1990 + phrase % 36);
            }
        }
    }

    fn device(&self, out: &mut String) {
        if self.is_mobile() {
            let _ = write!(out, "{} {}", DEVICES[self.of_user(17, DEVICES.len())], self.of_user(18, 20) + 1);
        }
    }
}

/// Words that a number stands for.
fn words(number: u64, count: usize, between: char, out: &mut String) {
    let mut number = spread(number);
    for index in 0..count {
        if index > 0 {
            out.push(between);
        }
        out.push_str(WORDS[number as usize % WORDS.len()]);
        number /= WORDS.len() as u64;
    }
}

/// A number that looks random, another for each number: the finalizer of SplitMix64.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;

    use super::*;

    #[test]
    fn rows_follow_from_the_seed_and_their_number() {
        let log = WebLog::new(7);
        let whole = log.batch(1000, 300).unwrap();
        let parts = [log.batch(1000, 100).unwrap(), log.batch(1100, 200).unwrap()];
        assert_eq!(whole, concat_batches(&WebLog::schema(), &parts).unwrap());
        assert_ne!(whole, WebLog::new(8).batch(1000, 300).unwrap());
    }

    #[test]
    fn texts_are_long_and_skewed() {
        let rows = 20_000;
        let batch = WebLog::new(1).batch(0, rows).unwrap();
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        let average = |name: &str| text(name).value_data().len() / rows;
        assert!((40..=80).contains(&average("url")), "{}", average("url"));
        assert!((40..=80).contains(&average("title")), "{}", average("title"));
        let phrases = text("search_phrase");
        let empty = (0..rows).filter(|&row| phrases.value(row).is_empty()).count();
        assert!((rows * 8 / 10..rows).contains(&empty), "{empty}");
        let urls = text("url");
        let distinct = (0..rows).map(|row| urls.value(row)).collect::<std::collections::HashSet<_>>().len();
        assert!((rows / 3..rows).contains(&distinct), "{distinct}");
    }
}
