//! Texts that several queries look for in one column: one pass finds those of all.
//!
//! `LIKE 'abc%'` looks at the beginning of a string. The first up to four bytes of the texts are keys of a table, so a
//! string is looked up once for each length of keys that there is. `LIKE '%abc%'` looks everywhere: an
//! [`Automaton`] reads each byte of a string once, however many texts there are.
//!
//! Other patterns, and few of these, are conditions like all others.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_memory::{QueryMemory, Reservation};
use hashbrown::HashMap;

use super::automaton::{Automaton, TextsIn};
use crate::batch::{Batch, to_logical, views};
use crate::expressions::{Expr, SoughtText};

/// Beginnings from which on they are looked for together: one costs a comparison of four bytes.
const BEGINNINGS_MIN: usize = 4;

/// The same of texts anywhere: an automaton reads byte by byte, the search for one text many bytes at once.
const PIECES_MIN: usize = 7;

/// Bytes of a string that are looked up.
const HEAD_BYTES: usize = 4;

/// What queries look for in one column of the input.
pub(super) struct TextSearch {
    column: usize,
    /// Queries that look for something.
    queries: u64,
    texts: Texts,
    /// Of an automaton.
    _memory: Reservation,
}

enum Texts {
    Beginnings(Beginnings),
    Pieces(Automaton),
}

impl fmt::Debug for TextSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self.texts, Texts::Pieces(_)) { "pieces" } else { "beginnings" };
        write!(f, "{kind} of column {} for {:b}", self.column, self.queries)
    }
}

impl TextSearch {
    /// Takes those conditions that are better looked at together, if there is memory for that. Each has the bits of the
    /// queries that have it.
    pub fn take_from(conditions: &mut Vec<(Expr, u64)>, memory: &QueryMemory) -> Vec<Self> {
        let mut groups: Vec<TextGroup> = Vec::new();
        for (place, (condition, queries)) in conditions.iter().enumerate() {
            let Some((column, sought)) = condition.sought_text() else { continue };
            let (is_beginning, text) = match sought {
                SoughtText::Beginning(text) => (true, text),
                SoughtText::Piece(text) => (false, text),
            };
            // A query that looks for two texts wants both: it is in two groups.
            let fits = |group: &TextGroup| {
                (group.column, group.is_beginning) == (column, is_beginning) && group.queries & queries == 0
            };
            let found = groups.iter().position(fits).unwrap_or(groups.len());
            if found == groups.len() {
                groups.push(TextGroup { column, is_beginning, queries: 0, texts: Vec::new(), places: Vec::new() });
            }
            let group = &mut groups[found];
            group.queries |= queries;
            group.texts.push((text, *queries));
            group.places.push(place);
        }
        let (mut searches, mut taken) = (Vec::new(), Vec::new());
        for mut group in groups.into_iter().filter(TextGroup::pays) {
            let places = std::mem::take(&mut group.places);
            if let Some(search) = group.search(memory) {
                searches.push(search);
                taken.extend(places);
            }
        }
        let mut places = 0..;
        conditions.retain(|_| places.next().is_none_or(|place| !taken.contains(&place)));
        searches
    }

    /// Clears the bits of the queries whose text a row does not have.
    pub fn restrict(&self, input: &Batch, rows: &mut [u64]) -> Result<()> {
        let column = input.column(self.column);
        let (values, picks) = column.parts();
        let Some(picks) = picks.filter(|_| values.len() <= input.rows()) else {
            let strings = Strings::new(&column.flat()?)?;
            let asked = |row: &usize| rows[*row] & self.queries != 0;
            let asked: Vec<_> = (0..rows.len()).filter(asked).collect();
            self.find(&strings, asked.into_iter(), |row, found| rows[row] &= !self.queries | found);
            return Ok(());
        };
        // Few values that many rows have are looked at once.
        let strings = Strings::new(values)?;
        let mut found = vec![0; values.len()];
        self.find(&strings, 0..values.len(), |value, of_it| found[value] = of_it);
        for (row, mask) in rows.iter_mut().enumerate() {
            let found = if picks.is_valid(row) { found[picks.value(row) as usize] } else { 0 };
            *mask &= !self.queries | found;
        }
        Ok(())
    }

    /// Tells of some strings the queries whose text each has: none of a NULL.
    fn find(&self, strings: &Strings, wanted: impl Iterator<Item = usize>, mut tell: impl FnMut(usize, u64)) {
        match &self.texts {
            Texts::Beginnings(beginnings) => wanted.for_each(|number| {
                tell(number, strings.get(number).map_or(0, |bytes| beginnings.find(bytes)));
            }),
            Texts::Pieces(automaton) => strings.find(automaton, wanted, tell),
        }
    }
}

/// Conditions on one column that may go together.
struct TextGroup {
    column: usize,
    is_beginning: bool,
    queries: u64,
    texts: Vec<(String, u64)>,
    places: Vec<usize>,
}

impl TextGroup {
    fn pays(&self) -> bool {
        let bytes: usize = self.texts.iter().map(|(text, _)| text.len()).sum();
        match self.is_beginning {
            true => self.texts.len() >= BEGINNINGS_MIN,
            false => self.texts.len() >= PIECES_MIN && bytes <= Automaton::TEXT_BYTES_MAX,
        }
    }

    /// `None` if there is no memory for an automaton.
    fn search(self, memory: &QueryMemory) -> Option<TextSearch> {
        let mut memory = memory.reservation("Texts");
        let texts = if self.is_beginning {
            Texts::Beginnings(Beginnings::new(self.texts))
        } else {
            if memory.resize(Automaton::bytes_max(&self.texts)).is_err() {
                return None;
            }
            Texts::Pieces(Automaton::new(&self.texts))
        };
        Some(TextSearch { column: self.column, queries: self.queries, texts, _memory: memory })
    }
}

/// Texts that strings may begin with.
struct Beginnings {
    /// By the length of keys that there are: their bits in a head.
    key_bits: Vec<u32>,
    /// By key, the texts that begin with it, each with the queries that look for it.
    texts: HashMap<(u32, u32), Vec<(Box<[u8]>, u64)>, foldhash::fast::RandomState>,
}

impl Beginnings {
    fn new(all: Vec<(String, u64)>) -> Self {
        let mut texts: HashMap<_, Vec<_>, _> = HashMap::default();
        let mut key_bits = Vec::new();
        for (text, queries) in all {
            let bits = u32::MAX >> (8 * (HEAD_BYTES - text.len().min(HEAD_BYTES)));
            if !key_bits.contains(&bits) {
                key_bits.push(bits);
            }
            texts.entry((bits, head(text.as_bytes()) & bits)).or_default().push((text.into_bytes().into(), queries));
        }
        Self { key_bits, texts }
    }

    fn find(&self, bytes: &[u8]) -> u64 {
        let head = head(bytes);
        let known = self.key_bits.iter().filter_map(|bits| self.texts.get(&(*bits, head & bits)));
        let begin = known.flatten().filter(|(text, _)| bytes.starts_with(text));
        begin.fold(0, |found, (_, queries)| found | queries)
    }
}

/// The first bytes of a string, and zeros behind its end.
#[inline(always)]
fn head(bytes: &[u8]) -> u32 {
    match bytes.first_chunk::<HEAD_BYTES>() {
        Some(head) => u32::from_le_bytes(*head),
        None => bytes.iter().rev().fold(0, |head, byte| head << 8 | u32::from(*byte)),
    }
}

/// Adds some of the strings of an array with offsets to a search; of a NULL, nothing.
fn add_all<'a, O: OffsetSizeTrait, F: FnMut(usize, u64)>(
    search: &mut TextsIn<'a, F>,
    strings: &'a GenericStringArray<O>,
    wanted: impl Iterator<Item = usize>,
) {
    let (offsets, bytes) = (strings.value_offsets(), strings.value_data());
    for number in wanted {
        let end = number + usize::from(strings.is_valid(number));
        search.add(number, bytes, offsets[number].as_usize(), offsets[end].as_usize());
    }
}

/// The strings of an array as bytes.
struct Strings(ArrayRef);

impl Strings {
    fn new(values: &ArrayRef) -> Result<Self> {
        match values.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(Self(values.clone())),
            _ => to_logical(values, &DataType::Utf8View).map(Self),
        }
    }

    /// Finds an automaton's texts in some of the strings.
    fn find(&self, automaton: &Automaton, wanted: impl Iterator<Item = usize>, tell: impl FnMut(usize, u64)) {
        let mut search = TextsIn::new(automaton, tell);
        match self.0.data_type() {
            DataType::Utf8View => {
                let strings = self.0.as_string_view();
                let (all, buffers) = (strings.views(), strings.data_buffers());
                for number in wanted {
                    let view = &all[number];
                    if strings.is_null(number) {
                        search.add_copied(number, &[]);
                    } else if views::is_long(*view) {
                        let (buffer, start) = views::place(*view);
                        search.add(number, &buffers[buffer], start, start + views::length(*view));
                    } else {
                        search.add_copied(number, views::bytes(view, buffers));
                    }
                }
            }
            DataType::LargeUtf8 => add_all(&mut search, self.0.as_string::<i64>(), wanted),
            _ => add_all(&mut search, self.0.as_string::<i32>(), wanted),
        }
        search.finish();
    }

    /// `None` for NULL.
    #[inline(always)]
    fn get(&self, row: usize) -> Option<&[u8]> {
        if self.0.is_null(row) {
            return None;
        }
        Some(match self.0.data_type() {
            DataType::Utf8 => self.0.as_string::<i32>().value(row).as_bytes(),
            DataType::LargeUtf8 => self.0.as_string::<i64>().value(row).as_bytes(),
            _ => self.0.as_string_view().value(row).as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{LargeStringArray, StringArray, StringViewArray, UInt32Array};
    use arrow::datatypes::{Field, Schema};
    use datafusion_common::ScalarValue;
    use datafusion_physical_expr::expressions::{Column as ColumnExpr, LikeExpr, Literal};
    use diligence_base::ids::QueryId;
    use diligence_memory::Broker;

    use super::*;
    use crate::batch::Column;

    const VALUES: [Option<&str>; 12] = [
        Some(""),
        Some("a"),
        Some("ab"),
        Some("abc"),
        Some("abcd"),
        Some("abcdefghijklmnopqrstuvwxyz"),
        None,
        Some("xyzabc"),
        Some("żółw\nżółwie"),
        Some("a\0"),
        Some("aaaaaaaaaaaaaaaaaaaaab"),
        Some("special requests, final packages"),
    ];

    fn like(pattern: &str, negated: bool, schema: &Schema) -> Expr {
        let column = Arc::new(ColumnExpr::new("text", 0));
        let pattern = Arc::new(Literal::new(ScalarValue::Utf8View(Some(pattern.to_owned()))));
        Expr::new(Arc::new(LikeExpr::new(negated, false, column, pattern)), schema).unwrap()
    }

    #[test]
    fn texts_that_are_looked_for_together_are_those_that_are_found_alone() {
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8View, true)]);
        let patterns = [
            "a%",
            "ab%",
            "abc%",
            "abcde%",
            "ż%",
            "xyz%",
            "aaaa%",
            "%a%",
            "%ab%",
            "%abc%",
            "%bcd%",
            "%aa%",
            "%final%",
            "%ó%",
            "%z%",
            "%requests, final%",
            "%nowhere%",
            "%e%",
            "%x%",
            "%special requests, final packages%",
            "%yz%",
            "a_c%",
            "%b",
            "%a%b%",
        ];
        let mut conditions: Vec<_> = patterns
            .iter()
            .enumerate()
            .map(|(query, pattern)| (like(pattern, false, &schema), 1u64 << query))
            .collect();
        // One text for several queries, a query that looks for two texts, and one that does not want what has one.
        conditions.push((like("%final%", false, &schema), 3 << 40));
        conditions.push((like("%pack%", false, &schema), 1 << 40));
        conditions.push((like("%a%", true, &schema), 1 << 50));
        let all = conditions.clone();
        let searches = TextSearch::take_from(&mut conditions, &QueryMemory::unbounded());
        assert_eq!((searches.len(), conditions.len()), (2, 5), "{searches:?} {conditions:?}");

        let texts: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(VALUES.to_vec())),
            Arc::new(LargeStringArray::from(VALUES.to_vec())),
            Arc::new(StringViewArray::from(VALUES.to_vec())),
        ];
        let picks = Arc::new(UInt32Array::from_iter((0..200).map(|row| (row % 19 != 0).then_some(row % 12))));
        let picked = texts.iter().map(|text| Column::picked(text.clone(), picks.clone()));
        for column in texts.iter().map(|text| Column::flat_array(text.clone())).chain(picked) {
            let rows = column.len();
            let batch = Batch::new(vec![column], rows);
            for start in [u64::MAX, 0x5555_5555_5555_5555, 1 << 9] {
                let mut found = vec![start; rows];
                searches.iter().for_each(|search| search.restrict(&batch, &mut found).unwrap());
                let mut expected = vec![start; rows];
                for (condition, queries) in &all {
                    let left = |(left, _): &&(Expr, u64)| left == condition;
                    if conditions.iter().any(|condition| left(&condition)) {
                        continue;
                    }
                    let answers = condition.evaluate(&batch).unwrap().flat().unwrap();
                    for (mask, answer) in expected.iter_mut().zip(answers.as_boolean()) {
                        *mask &= if answer == Some(true) { u64::MAX } else { !queries };
                    }
                }
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn without_memory_for_an_automaton_each_text_is_looked_for_alone() {
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8View, true)]);
        let texts = (0..20).map(|query| (like(&format!("%text {query}%"), false, &schema), 1u64 << query));
        let beginnings = (0..5).map(|query| (like(&format!("text {query}%"), false, &schema), 1u64 << query));
        let mut conditions: Vec<_> = texts.chain(beginnings).collect();
        let memory = Broker::new(64).account(QueryId(0), None);
        let searches = TextSearch::take_from(&mut conditions, &memory);
        assert_eq!((searches.len(), conditions.len()), (1, 20), "{searches:?} {conditions:?}");
    }
}
