//! Columns that are neither lists nor structs, decoded straight from their pages.
//!
//! One row is one value or NULL. A column is read in portions that need not end where pages do. Values of a portion are
//! written one after another into a vector, which becomes the array's buffer; where only some rows are wanted, only
//! their values are written. Encodings that are rare (deltas, split bytes) are left to Parquet's own reader; see
//! `columns`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;
use diligence_base::Result;

use super::column_rows::{ColumnAhead, ColumnRows};
use super::header::{Header, Kind, Malformed, Page, Text, encoding};
use super::large_page::LargePage;
use super::page::{PASSED_ROWS, Pages};
use super::runs::Runs;
use crate::external::selection::extract;
use crate::external::source::Source;

/// Codes that are unpacked at once: they stay in the first-level cache.
const CODES: usize = 1024;

/// How values of one kind are decoded. A page's values are passed front to back, each once.
pub(super) trait Values: Send + 'static {
    /// What stands for a value while an array is gathered.
    type Item: Copy + Default + Send;
    /// Whether values that are not plain come in runs of bits, and not as codes of a dictionary.
    const IN_RUNS: bool = false;

    /// Bytes that are kept of a dictionary of so many values and bytes of text, and bytes more while it is taken.
    fn dictionary_bytes(values: usize, text_bytes: usize) -> (usize, usize) {
        (values.saturating_mul(size_of::<Self::Item>()), text_bytes)
    }
    /// The chunk's dictionary, if it has one: called once at most, before any page of values.
    fn set_dictionary(&mut self, page: Page, values: usize) -> Result<(), Malformed>;
    /// A page of plain values begins. `values` of them are not NULL, at most.
    fn start_plain(&mut self, page: Page, values: usize) -> Result<(), Malformed>;
    /// Appends the next plain values.
    fn plain(&mut self, count: usize, out: &mut Vec<Self::Item>) -> Result<(), Malformed>;
    /// Of the next plain values appends the selected ones.
    fn plain_selected(&mut self, selected: &BooleanBuffer, out: &mut Vec<Self::Item>) -> Result<(), Malformed>;
    /// Passes plain values.
    fn skip_plain(&mut self, count: usize) -> Result<(), Malformed>;
    /// Appends the dictionary's values for codes; without a dictionary every code is an error.
    fn look_up(&mut self, codes: &[u32], out: &mut Vec<Self::Item>) -> Result<(), Malformed>;
    /// Gives back the text of a page that is used up, so that the next page may use its memory.
    fn take_text(&mut self) -> Text;
    /// The array of what was gathered.
    fn finish(&mut self, items: Vec<Self::Item>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Malformed>;
}

/// A flat column.
pub(super) struct FlatRows<V: Values> {
    source: Arc<Source>,
    what: String,
    pages: Pages,
    values: V,
    /// Whether values may be NULL.
    optional: bool,
    /// The page that is being read.
    page: Option<Open>,
    /// Rows to pass before the next one that is wanted.
    behind: usize,
    codes: Box<[u32; CODES]>,
    /// Bytes of the dictionary, and of the longest page seen so far, if it is read in steps.
    decoded_bytes: (usize, usize),
}

/// A page with rows left.
struct Open {
    rows: usize,
    /// The definition levels of the rows left, if there are NULLs among them perhaps.
    levels: Option<Runs>,
    /// The page's text: codes and levels.
    text: Text,
    /// Codes of a dictionary; plain values if `None`.
    codes: Option<Runs>,
}

impl<V: Values> FlatRows<V> {
    /// A column whose first row is `behind` rows after the first of its pages.
    pub fn new(source: Arc<Source>, what: String, pages: Pages, values: V, optional: bool, behind: usize) -> Self {
        let codes = Box::new([0; CODES]);
        Self { source, what, pages, values, optional, page: None, behind, codes, decoded_bytes: (0, 0) }
    }

    fn error(&self, malformed: Malformed) -> diligence_base::Error {
        self.source.error(format!("{} ({}); the file is corrupt", self.what, malformed.0))
    }

    /// Opens the page that has the next wanted row, passing those before it.
    fn open(&mut self) -> Result<&mut Open, Malformed> {
        loop {
            if let Some(page) = &mut self.page
                && page.rows > 0
            {
                let pass = self.behind.min(page.rows);
                if pass > 0 && pass < page.rows {
                    skip(page, &mut self.values, pass)?;
                } else {
                    page.rows -= pass;
                }
                self.behind -= pass;
                if page.rows == 0 {
                    continue;
                }
                break;
            }
            let used = self.page.take();
            if let Some((header, page)) = self.part()? {
                self.page = Some(self.start(&header, page)?);
                continue;
            }
            let Some((header, bytes)) = self.pages.next()? else {
                return Err(Malformed("it has fewer rows than its row group".to_owned()));
            };
            match header.kind {
                Kind::Other => {}
                Kind::Dictionary => {
                    let page = self.pages.read(&header, bytes, Text::default(), false)?;
                    // `pages` gives one dictionary at most, before everything else: all that is in an array is of one.
                    self.values.set_dictionary(page, header.values)?;
                }
                Kind::Data | Kind::DataV2 if header.values <= self.behind => self.behind -= header.values,
                Kind::Data | Kind::DataV2 => {
                    let text = match used {
                        Some(Open { text: Text::Own(text), .. }) if text.capacity() > 0 => Text::Own(text),
                        _ => self.values.take_text(),
                    };
                    let page = self.pages.read(&header, bytes, text, self.optional)?;
                    self.page = Some(self.start(&header, page)?);
                }
            }
        }
        // The loop ends only with a page.
        self.page.as_mut().ok_or_else(|| Malformed("it has no pages".to_owned()))
    }

    /// Passes pages that are behind as a whole, and takes the dictionary, as far as they have been read.
    fn pass(&mut self) -> Result<(), Malformed> {
        if let Some(page) = &self.page
            && page.rows <= self.behind
        {
            self.behind -= page.rows;
            self.page = None;
        }
        while self.page.is_none() {
            if let Some(large) = self.pages.large() {
                if !pass_large(large, &mut self.behind)? {
                    break;
                }
                continue;
            }
            let Some(header) = self.pages.peek()? else { break };
            match header.kind {
                Kind::Data | Kind::DataV2 if header.values > self.behind => break,
                Kind::Data | Kind::DataV2 => self.behind -= header.values,
                Kind::Dictionary | Kind::Other => {}
            }
            let Some((header, bytes)) = self.pages.next()? else { break };
            if header.kind == Kind::Dictionary {
                let page = self.pages.read(&header, bytes, Text::default(), false)?;
                self.values.set_dictionary(page, header.values)?;
            }
        }
        Ok(())
    }

    /// The next part of a page that is taken apart, if that comes next.
    fn part(&mut self) -> Result<Option<(Header, Page)>, Malformed> {
        let Some(large) = self.pages.large() else { return Ok(None) };
        if large.rows_ready() == 0 {
            large.fill(CODES)?;
        }
        Ok(large.take())
    }

    fn start(&mut self, header: &Header, page: Page) -> Result<Open, Malformed> {
        let rows = header.values;
        let mut levels = match self.optional {
            true => Some(Runs::new(1, page.levels.clone())?),
            false => None,
        };
        // Most pages have no NULLs: their levels are one run.
        if let Some(runs) = &levels
            && runs.clone().same(&page.text, rows)? == Some(1)
        {
            levels = None;
        }
        if V::IN_RUNS && header.encoding == encoding::RLE {
            // Behind their length.
            let codes = Some(Runs::new(1, page.text.len().min(page.values + 4)..page.text.len())?);
            return Ok(Open { rows, levels, codes, text: page.text });
        }
        if encoding::is_dictionary(header.encoding) && !V::IN_RUNS {
            // Without a dictionary there may still be such pages, of NULLs.
            let Some(&width) = page.text.get(page.values) else {
                // No values: all rows are NULL.
                return Ok(Open { rows, levels, codes: Some(Runs::new(0, 0..0)?), text: page.text });
            };
            let codes = Some(Runs::new(u32::from(width), page.values + 1..page.text.len())?);
            return Ok(Open { rows, levels, codes, text: page.text });
        }
        if header.encoding != encoding::PLAIN {
            return Err(Malformed(format!("a page is in encoding {}, which the footer does not say", header.encoding)));
        }
        // The levels are read from a copy, so that the values can own the text.
        let mut level_text = Text::default();
        if levels.is_some() {
            level_text = Text::Own(page.text[page.levels.clone()].to_vec());
            levels = Some(Runs::new(1, 0..level_text.len())?);
        }
        self.values.start_plain(page, rows)?;
        Ok(Open { rows, levels, codes: None, text: level_text })
    }

    /// Appends `count` rows of the open page.
    fn take(&mut self, count: usize, out: &mut Gathered<V::Item>) -> Result<(), Malformed> {
        match self.take_items(count, &mut out.items)? {
            None => out.append_present(count),
            Some(present) => out.append(&present),
        }
        Ok(())
    }

    /// Appends the values of `count` rows of the open page. Says which rows have one; all if `None`.
    fn take_items(&mut self, count: usize, items: &mut Vec<V::Item>) -> Result<Option<BooleanBuffer>, Malformed> {
        let Some(page) = &mut self.page else { return Err(Malformed("it has no page".to_owned())) };
        page.rows -= count;
        let Some(levels) = &mut page.levels else {
            values(page, &mut self.values, count, &mut self.codes, items)?;
            return Ok(None);
        };
        let start = items.len();
        let present = levels.read_bits(&page.text, count)?;
        let values_here = present.count_set_bits();
        values(page, &mut self.values, values_here, &mut self.codes, items)?;
        if values_here < count {
            spread(items, start, &present);
        }
        Ok(Some(present))
    }

    /// Appends the selected ones of the next `selected.len()` rows of the open page.
    fn take_selected(&mut self, selected: &BooleanBuffer, out: &mut Gathered<V::Item>) -> Result<(), Malformed> {
        let Some(page) = &mut self.page else { return Err(Malformed("it has no page".to_owned())) };
        if page.levels.is_some() {
            // With NULLs in between, rows and values are at different places: decode all, keep some.
            let start = out.items.len();
            let present = self.take_items(selected.len(), &mut out.items)?;
            let mut to = start;
            for row in selected.set_indices() {
                out.items[to] = out.items[start + row];
                to += 1;
            }
            out.items.truncate(to);
            match present {
                None => out.append_present(to - start),
                Some(present) => out.append(&extract(&present, selected)),
            }
            return Ok(());
        }
        page.rows -= selected.len();
        let before = out.items.len();
        match &mut page.codes {
            None => self.values.plain_selected(selected, &mut out.items)?,
            Some(runs) => {
                // Codes are unpacked all, because that is cheap, and looked up only where wanted.
                let mut at = 0;
                while at < selected.len() {
                    let count = CODES.min(selected.len() - at);
                    let part = selected.slice(at, count);
                    at += count;
                    let wanted = part.count_set_bits();
                    if wanted == 0 {
                        runs.skip(&page.text, count)?;
                        continue;
                    }
                    let codes = &mut self.codes[..count];
                    runs.read(&page.text, codes)?;
                    if wanted < count {
                        for (to, from) in part.set_indices().enumerate() {
                            codes[to] = codes[from];
                        }
                    }
                    self.values.look_up(&codes[..wanted], &mut out.items)?;
                }
            }
        }
        out.append_present(out.items.len() - before);
        Ok(())
    }
}

impl<V: Values> ColumnRows for FlatRows<V> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.behind += rows;
        Ok(())
    }

    fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        let mut read = || {
            let mut out = Gathered::with_capacity(rows);
            while out.items.len() < rows {
                let left = rows - out.items.len();
                let here = self.open()?.rows.min(left);
                self.take(here, &mut out)?;
            }
            let (items, nulls) = out.finish();
            self.values.finish(items, nulls)
        };
        read().map_err(|error| self.error(error))
    }

    fn read_selected(&mut self, selected: &BooleanBuffer) -> Result<ArrayRef> {
        let mut read = || {
            let wanted = selected.count_set_bits();
            let mut out = Gathered::with_capacity(wanted);
            let mut at = 0;
            while out.items.len() < wanted {
                let here = self.open()?.rows.min(selected.len() - at);
                self.take_selected(&selected.slice(at, here), &mut out)?;
                at += here;
            }
            self.behind += selected.len() - at;
            let (items, nulls) = out.finish();
            self.values.finish(items, nulls)
        };
        read().map_err(|error| self.error(error))
    }

    fn look_ahead(&mut self, rows: usize, pass: bool) -> Result<ColumnAhead> {
        let mut look = || {
            self.pages.find_large()?;
            let mut passed_bytes = 0;
            if pass {
                self.pass()?;
                if self.page.is_none() {
                    passed_bytes = self.pages.pass_unread(&mut self.behind)?;
                }
            }
            let here = self.page.as_ref().map_or(0, |page| page.rows);
            // What is to be passed first is not made ready.
            let most = if pass { usize::MAX } else { rows };
            let ahead = self.pages.look_ahead((self.behind + rows).saturating_sub(here), rows, most)?;
            let (dictionary, longest) = &mut self.decoded_bytes;
            let mut passing_bytes = 0;
            if let Some(header) = &ahead.dictionary {
                // Each value has a byte of text at least, so memory is never taken for more of them.
                let values = header.values.min(header.text_bytes);
                (*dictionary, passing_bytes) = V::dictionary_bytes(values, header.text_bytes);
            }
            *longest = ahead.longest_bytes.max(*longest);
            let decoded_bytes = dictionary.saturating_add(*longest);
            let missing_bytes = if here >= self.behind + rows { 0 } else { ahead.missing_bytes };
            let held_bytes = self.pages.held_bytes();
            Ok(ColumnAhead { passed_bytes, missing_bytes, held_bytes, decoded_bytes, passing_bytes })
        };
        look().map_err(|error| self.error(error))
    }

    fn feed(&mut self, bytes: &Bytes) {
        self.pages.feed(bytes);
    }
}

/// Appends the next values of a page.
fn values<V: Values>(
    page: &mut Open,
    values: &mut V,
    count: usize,
    codes: &mut [u32; CODES],
    out: &mut Vec<V::Item>,
) -> Result<(), Malformed> {
    let Some(runs) = &mut page.codes else { return values.plain(count, out) };
    let mut left = count;
    while left > 0 {
        let portion = left.min(CODES);
        runs.read(&page.text, &mut codes[..portion])?;
        values.look_up(&codes[..portion], out)?;
        left -= portion;
    }
    Ok(())
}

/// Passes rows of a page that is taken apart, as far as it has been read and these rows are behind. Whether there may
/// be more to pass.
fn pass_large(large: &mut LargePage, behind: &mut usize) -> Result<bool, Malformed> {
    if large.rows_left() <= *behind {
        *behind -= large.rows_left();
        large.skip_rest();
        return Ok(true);
    }
    if *behind == 0 || !large.fill((*behind).min(PASSED_ROWS))? || large.rows_ready() > *behind {
        return Ok(false);
    }
    *behind -= large.rows_ready();
    large.skip_ready();
    Ok(true)
}

/// Passes rows of a page.
fn skip<V: Values>(page: &mut Open, values: &mut V, rows: usize) -> Result<(), Malformed> {
    page.rows -= rows;
    let count = match &mut page.levels {
        None => rows,
        Some(levels) => levels.read_bits(&page.text, rows)?.count_set_bits(),
    };
    match &mut page.codes {
        Some(runs) => runs.skip(&page.text, count)?,
        None => values.skip_plain(count)?,
    }
    Ok(())
}

/// Moves the values from `start` on to the rows that have one.
fn spread<T: Copy + Default>(items: &mut Vec<T>, start: usize, present: &BooleanBuffer) {
    let mut from = items.len();
    items.resize(start + present.len(), T::default());
    for row in (0..present.len()).rev() {
        if present.value(row) {
            from -= 1;
            items[start + row] = items[from];
        } else {
            items[start + row] = T::default();
        }
        if from == start + row {
            // Everything before is where it belongs.
            break;
        }
    }
}

/// Values of an array that is being made.
struct Gathered<T> {
    items: Vec<T>,
    present: Presence,
}

enum Presence {
    /// So many rows, none NULL.
    All(usize),
    /// For each row whether it has a value.
    Some(BooleanBufferBuilder),
}

impl<T> Gathered<T> {
    fn with_capacity(rows: usize) -> Self {
        Self { items: Vec::with_capacity(rows), present: Presence::All(0) }
    }

    fn append_present(&mut self, rows: usize) {
        match &mut self.present {
            Presence::All(all) => *all += rows,
            Presence::Some(bits) => bits.append_n(rows, true),
        }
    }

    fn append(&mut self, present: &BooleanBuffer) {
        if present.count_set_bits() == present.len() {
            return self.append_present(present.len());
        }
        if let Presence::All(rows) = self.present {
            let mut bits = BooleanBufferBuilder::new(self.items.capacity());
            bits.append_n(rows, true);
            self.present = Presence::Some(bits);
        }
        if let Presence::Some(bits) = &mut self.present {
            bits.append_buffer(present);
        }
    }

    /// The rows gathered: their values, and which of them are NULL.
    fn finish(self) -> (Vec<T>, Option<NullBuffer>) {
        let nulls = match self.present {
            Presence::All(_) => None,
            Presence::Some(bits) => Some(NullBuffer::new(bits.build())),
        };
        (self.items, nulls)
    }
}

/// The bytes of values in a page's text.
pub(super) fn range(at: usize, count: usize, width: usize, text: &[u8]) -> Result<Range<usize>, Malformed> {
    let end = count.checked_mul(width).and_then(|bytes| bytes.checked_add(at)).filter(|&end| end <= text.len());
    match end {
        Some(end) => Ok(at..end),
        None => Err(Malformed("a page has fewer values than rows".to_owned())),
    }
}
