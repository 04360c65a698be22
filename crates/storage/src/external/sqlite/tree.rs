//! The tree of a table: which pages have its rows, and the records in a page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::Result;

use super::pages::Pages;
use super::values::{Cell, Value};

/// The kinds of pages of tables.
const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;

/// Bytes of the header of the first page that come before its tree.
const FILE_HEADER_BYTES: usize = 100;

/// Levels of a tree at most.
const DEPTH_MAX: usize = 64;

/// A page with rows.
pub(super) struct Leaf<'a> {
    pages: &'a Arc<Pages>,
    bytes: &'a Bytes,
    /// Where cells begin.
    cells: Vec<usize>,
}

/// A record as a page has it.
struct Placed<'a> {
    row: i64,
    /// What of it is in the page.
    here: &'a [u8],
    /// Its length, and the page that it goes on in.
    length: usize,
    next: Option<u32>,
}

/// Where the cells of a page begin, and what kind it is.
fn cells_of(pages: &Pages, page: u32, bytes: &[u8]) -> Result<(u8, usize, Vec<usize>)> {
    let damaged = || pages.error(format!("page {page} is none of a table; the database is damaged"));
    let begin = if page == 1 { FILE_HEADER_BYTES } else { 0 };
    let kind = bytes[begin];
    let header = match kind {
        LEAF => 8,
        INTERIOR => 12,
        _ => return Err(damaged()),
    };
    let count = usize::from(u16::from_be_bytes([bytes[begin + 3], bytes[begin + 4]]));
    let list = begin + header;
    let list = bytes.get(list..list + count * 2).ok_or_else(damaged)?;
    let cells = list.chunks_exact(2).map(|place| usize::from(u16::from_be_bytes([place[0], place[1]])));
    Ok((kind, begin, cells.collect()))
}

/// The pages of a table that have rows, in the order of their rows.
pub(super) fn leaves(pages: &Arc<Pages>, root: u32) -> Result<Vec<u32>> {
    let damaged = |page: u32| pages.error(format!("page {page} is in a tree twice; the database is damaged"));
    let (mut leaves, mut seen) = (Vec::new(), HashSet::new());
    let mut waiting = vec![(root, 0)];
    while let Some((page, depth)) = waiting.pop() {
        if !seen.insert(page) || depth > DEPTH_MAX {
            return Err(damaged(page));
        }
        let bytes = pages.page(page)?;
        let (kind, begin, cells) = cells_of(pages, page, &bytes)?;
        if kind == LEAF {
            leaves.push(page);
            continue;
        }
        let short = || pages.error(format!("page {page} ends too early; the database is damaged"));
        let child = |at: usize| {
            let bytes = bytes.get(at..at + 4).ok_or_else(short)?;
            Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let mut children = cells.into_iter().map(child).collect::<Result<Vec<_>>>()?;
        children.push(child(begin + 8)?);
        waiting.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    Ok(leaves)
}

/// A number of one to nine bytes, and what is behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for place in 0..8 {
        let byte = *bytes.get(place)?;
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    Some((number << 8 | u64::from(*bytes.get(8)?), &bytes[9..]))
}

impl<'a> Leaf<'a> {
    pub fn new(pages: &'a Arc<Pages>, page: u32, bytes: &'a Bytes) -> Result<Self> {
        let (kind, _, cells) = cells_of(pages, page, bytes)?;
        if kind != LEAF {
            return Err(pages.error(format!("page {page} has no rows any more; the database changed")));
        }
        Ok(Self { pages, bytes, cells })
    }

    fn placed(&self, cell: usize) -> Result<Placed<'a>> {
        self.try_placed(cell).ok_or_else(|| self.pages.error("a row ends too early; the database is damaged"))
    }

    fn try_placed(&self, cell: usize) -> Option<Placed<'a>> {
        let (length, rest) = varint(self.bytes.get(cell..)?)?;
        let (row, rest) = varint(rest)?;
        if length > self.pages.bytes() {
            return None;
        }
        let (usable, length) = (self.pages.usable(), length as usize);
        let row = row as i64;
        // How much of a long record is in its page, as the format has it.
        if length <= usable - 35 {
            return Some(Placed { row, here: rest.get(..length)?, length, next: None });
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let most = least + (length - least) % (usable - 4);
        let here = if most <= usable - 35 { most } else { least };
        let next = rest.get(here..here + 4)?;
        let next = u32::from_be_bytes([next[0], next[1], next[2], next[3]]);
        Some(Placed { row, here: &rest[..here], length, next: Some(next) })
    }

    /// What of the page's rows lies elsewhere, by the page that it begins at. Reads those pages.
    pub fn overflow(&self) -> Result<HashMap<u32, Vec<u8>>> {
        let mut found = HashMap::new();
        for cell in &self.cells {
            let Placed { here, length, next: Some(first), .. } = self.placed(*cell)? else { continue };
            let (mut bytes, mut next) = (Vec::new(), first);
            let missing = length - here.len();
            while bytes.len() < missing {
                let page = self.pages.page(next)?;
                let taken = (missing - bytes.len()).min(self.pages.usable() - 4);
                bytes.extend_from_slice(&page[4..4 + taken]);
                next = u32::from_be_bytes([page[0], page[1], page[2], page[3]]);
            }
            found.insert(first, bytes);
        }
        Ok(found)
    }

    /// The page's rows.
    pub fn cells(&self, overflow: &HashMap<u32, Vec<u8>>) -> Result<Vec<Cell>> {
        let cells = self.cells.iter().map(|cell| {
            let Placed { row, here, next, .. } = self.placed(*cell)?;
            let whole;
            let record = match next {
                None => here,
                Some(first) => {
                    let rest = overflow.get(&first).map_or(&[][..], Vec::as_slice);
                    whole = [here, rest].concat();
                    &whole
                }
            };
            let values = record_values(record);
            let values = values.ok_or_else(|| self.pages.error("a record ends too early; the database is damaged"))?;
            Ok(Cell { row, values })
        });
        cells.collect()
    }
}

/// The values of a record; `None` if it is damaged.
fn record_values(record: &[u8]) -> Option<Vec<Value>> {
    let (header, rest) = varint(record)?;
    let header = usize::try_from(header).ok()?;
    let mut types = rest.get(..header.checked_sub(record.len() - rest.len())?)?;
    let mut body = record.get(header..)?;
    let mut values = Vec::new();
    let mut take = |bytes: usize| {
        let (taken, rest) = body.split_at_checked(bytes)?;
        body = rest;
        Some(taken)
    };
    let whole = |bytes: &[u8]| {
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        bytes.iter().fold(sign, |number: i64, byte| number << 8 | i64::from(*byte))
    };
    while !types.is_empty() {
        let (kind, rest) = varint(types)?;
        types = rest;
        values.push(match kind {
            0 => Value::Null,
            1..=4 => Value::Whole(whole(take(kind as usize)?)),
            5 => Value::Whole(whole(take(6)?)),
            6 => Value::Whole(whole(take(8)?)),
            7 => Value::Real(f64::from_be_bytes(take(8)?.try_into().ok()?)),
            8 => Value::Whole(0),
            9 => Value::Whole(1),
            10 | 11 => return None,
            _ => {
                let bytes = take(usize::try_from((kind - 12) / 2).ok()?)?.to_vec();
                if kind % 2 == 0 { Value::Blob(bytes) } else { Value::Text(bytes) }
            }
        });
    }
    Some(values)
}
