//! The steps of an aggregate whose function takes whole columns, so that states and values may be of any kind.
//!
//! ```text
//!   rows by group:  a a a b c c        1st call: a1 b1 c1    2nd call: a2 c2    3rd call: a3
//! ```
//!
//! Each call takes one step of every group that has rows left. The states that it gives are arguments of the next call.
//! So many groups of few rows are few calls, and few groups of many rows are a call for each row of the longest.

use std::ops::Range;

use wasmtime::Store;

use crate::columns::{Column, Columns, read};
use crate::frames::{Kind, NATIVE, Raised, Rest, TEXTS};
use crate::held::{Held, Signature, Steps, Values, front};

/// A value as it comes in a column, by itself; `None` is NULL.
type Cell = Option<Vec<u8>>;

/// The rows of one column of a call.
#[derive(Default)]
struct Made {
    valid: Vec<u8>,
    has_nulls: bool,
    lengths: Vec<u8>,
    values: Vec<u8>,
}

impl Made {
    fn push(&mut self, kind: Kind, cell: Option<&[u8]>) {
        self.valid.push(u8::from(cell.is_some()));
        self.has_nulls |= cell.is_none();
        match (kind.width(), cell) {
            (Some(_), Some(value)) => self.values.extend(value),
            (Some(width), None) => self.values.extend(std::iter::repeat_n(0, width)),
            (None, cell) => {
                let value = cell.unwrap_or_default();
                self.lengths.extend((value.len() as u32).to_le_bytes());
                self.values.extend(value);
            }
        }
    }

    fn column(&self, kind: Kind) -> Column<'_> {
        Column {
            kind,
            valid: self.has_nulls.then_some(self.valid.as_slice()),
            lengths: kind.width().is_none().then_some(self.lengths.as_slice()),
            rows: self.valid.len(),
            values: &self.values,
            elements: None,
        }
    }
}

/// A column that came, whose values are found by their rows.
struct Given<'p> {
    column: &'p Column<'p>,
    /// Where each value begins, and the last ends, if they are of any length.
    starts: Vec<usize>,
}

impl<'p> Given<'p> {
    fn of(column: &'p Column<'p>) -> Self {
        let mut starts = vec![0];
        for length in column.lengths.unwrap_or_default().as_chunks::<4>().0 {
            starts.push(starts.last().copied().unwrap_or(0) + u32::from_le_bytes(*length) as usize);
        }
        Self { column, starts }
    }

    fn cell(&self, row: usize) -> Option<&'p [u8]> {
        if self.column.valid.is_some_and(|valid| valid.get(row) == Some(&0)) {
            return None;
        }
        let range = match self.column.kind.width() {
            Some(width) => row * width..(row + 1) * width,
            None => *self.starts.get(row)?..*self.starts.get(row + 1)?,
        };
        self.column.values.get(range)
    }
}

/// A group: its state, and its rows that have not made a step yet.
struct Group {
    state: Cell,
    left: Range<usize>,
    /// Its last row, where its state goes.
    last: usize,
}

/// Calls the function for the rows of a payload, once or step by step.
pub(crate) fn called(
    columns: &mut Columns,
    store: &mut Store<Held>,
    signature: &Signature,
    payload: &[u8],
) -> Result<Values, Raised> {
    let (rows, came) = read(payload, signature)?;
    match &signature.steps {
        None => columns.called(store, signature.returns, rows, &came),
        Some(steps) => taken(columns, store, signature, steps, rows, &came),
    }
}

/// Takes the steps of all rows. Of each group, the last row has its state, and others are NULL.
fn taken(
    columns: &mut Columns,
    store: &mut Store<Held>,
    signature: &Signature,
    steps: &Steps,
    rows: usize,
    came: &[Column<'_>],
) -> Result<Values, Raised> {
    let [numbers, arguments @ ..] = came else { return Err(Raised::wrong("steps came without groups")) };
    let given = arguments.iter().map(Given::of).collect::<Vec<_>>();
    let mut groups = begun(signature, steps, numbers.values, given.first())?;
    let is_over = |group: &Group| group.left.is_empty() || steps.is_strict && group.state.is_none();
    let mut active = (0..groups.len()).collect::<Vec<_>>();
    loop {
        active.retain(|place| !is_over(&groups[*place]));
        if active.is_empty() {
            break;
        }
        let mut made = signature.parameters.iter().map(|kind| (*kind, Made::default())).collect::<Vec<_>>();
        for place in &active {
            let group = &groups[*place];
            let cells = given.iter().map(|column| column.cell(group.left.start));
            for ((kind, made), cell) in made.iter_mut().zip([group.state.as_deref()].into_iter().chain(cells)) {
                made.push(*kind, cell);
            }
        }
        let call = made.iter().map(|(kind, made)| made.column(*kind)).collect::<Vec<_>>();
        let values = columns.called(store, signature.returns, active.len(), &call)?;
        for (place, state) in active.iter().zip(cells(&values, store, signature.returns, active.len())?) {
            let group = &mut groups[*place];
            (group.state, group.left.start) = (state, group.left.start + 1);
        }
    }
    Ok(answer(signature.returns, rows, &groups))
}

/// The groups before their first step. A strict function without a first state begins with the first row's value.
fn begun(
    signature: &Signature,
    steps: &Steps,
    numbers: &[u8],
    values: Option<&Given<'_>>,
) -> Result<Vec<Group>, Raised> {
    let first = match &steps.first {
        None => None,
        Some(shown) => Some(cell_of(signature.returns, shown).ok_or_else(|| {
            Raised::wrong(format!("the first state \"{shown}\" is none of the kind {:?}", signature.returns))
        })?),
    };
    let begins_with_value = steps.is_strict && first.is_none();
    if begins_with_value && signature.parameters.get(1) != Some(&signature.returns) {
        return Err(Raised::wrong("the first value cannot be the first state, whose kind is another"));
    }
    let mut groups = Vec::new();
    let mut begin = 0;
    for group in numbers.as_chunks::<4>().0.chunk_by(|one, other| one == other) {
        let rows = begin..begin + group.len();
        begin = rows.end;
        let last = rows.end - 1;
        groups.push(match values.filter(|_| begins_with_value) {
            None => Group { state: first.clone(), left: rows, last },
            Some(values) => {
                Group { state: values.cell(rows.start).map(<[u8]>::to_vec), left: rows.start + 1..rows.end, last }
            }
        });
    }
    Ok(groups)
}

/// A value as it comes in a column, of how SQL shows it; `None` if it is none of the kind.
fn cell_of(kind: Kind, shown: &str) -> Cell {
    Some(match kind {
        Kind::Boolean => vec![u8::from(shown == "true")],
        Kind::SmallInt => shown.parse::<i16>().ok()?.to_le_bytes().to_vec(),
        Kind::Integer => shown.parse::<i32>().ok()?.to_le_bytes().to_vec(),
        Kind::BigInt => shown.parse::<i64>().ok()?.to_le_bytes().to_vec(),
        Kind::Real => shown.parse::<f32>().ok()?.to_le_bytes().to_vec(),
        Kind::Double => shown.parse::<f64>().ok()?.to_le_bytes().to_vec(),
        Kind::Numeric | Kind::Text => shown.as_bytes().to_vec(),
        Kind::Bytes => {
            let (pairs, []) = shown.strip_prefix("\\x")?.as_bytes().as_chunks::<2>() else { return None };
            let digit = |byte: u8| (byte as char).to_digit(16);
            let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? * 16 + digit(*low)?) as u8));
            bytes.collect::<Option<Vec<_>>>()?
        }
        Kind::List(_) => return None,
    })
}

/// Values that a function gave, one by one, as they come in a column.
fn cells(values: &Values, store: &Store<Held>, kind: Kind, rows: usize) -> Result<Vec<Cell>, Raised> {
    let mut bytes = values.front.clone();
    if let Some((memory, range)) = &values.rest {
        bytes.extend(memory.data(store).get(range.clone()).unwrap_or_default());
    }
    let mut rest = Rest::new(&bytes);
    rest.byte()?;
    let valid = if rest.byte()? == 0 { None } else { Some(rest.take(rows)?) };
    let lengths = match kind.width() {
        Some(_) => &[],
        None => rest.take(rows.saturating_mul(4))?.as_chunks::<4>().0,
    };
    let mut cells = Vec::with_capacity(rows);
    for row in 0..rows {
        let value = match kind {
            Kind::Boolean => rest.take(1)?.to_vec(),
            Kind::SmallInt => rest.take(8)?[..2].to_vec(),
            Kind::Integer => rest.take(8)?[..4].to_vec(),
            Kind::BigInt | Kind::Double => rest.take(8)?.to_vec(),
            Kind::Real => {
                let wide = f64::from_bits(rest.eight()?);
                (wide as f32).to_le_bytes().to_vec()
            }
            Kind::Numeric | Kind::Text | Kind::Bytes => rest.take(u32::from_le_bytes(lengths[row]) as usize)?.to_vec(),
            Kind::List(_) => return Err(Raised::wrong("arrays came as states")),
        };
        cells.push(Some(value).filter(|_| valid.is_none_or(|valid| valid[row] != 0)));
    }
    Ok(cells)
}

/// The states as they are sent, each at its group's last row.
fn answer(kind: Kind, rows: usize, groups: &[Group]) -> Values {
    let mut states: Vec<Option<&[u8]>> = vec![None; rows];
    for group in groups {
        states[group.last] = group.state.as_deref();
    }
    let form = if matches!(kind, Kind::Numeric | Kind::Text) { TEXTS } else { NATIVE };
    let mut front = front(form, Some(states.iter().map(|state| u8::from(state.is_some())).collect()));
    let two = |state: &[u8]| <[u8; 2]>::try_from(state).unwrap_or_default();
    let four = |state: &[u8]| <[u8; 4]>::try_from(state).unwrap_or_default();
    match kind {
        Kind::Boolean => front.extend(states.iter().map(|state| state.and_then(|state| state.first()).unwrap_or(&0))),
        Kind::SmallInt => {
            states.iter().for_each(|state| {
                front.extend(i64::from(i16::from_le_bytes(two(state.unwrap_or_default()))).to_le_bytes());
            });
        }
        Kind::Integer => {
            states.iter().for_each(|state| {
                front.extend(i64::from(i32::from_le_bytes(four(state.unwrap_or_default()))).to_le_bytes());
            });
        }
        Kind::Real => {
            states.iter().for_each(|state| {
                front.extend(f64::from(f32::from_le_bytes(four(state.unwrap_or_default()))).to_le_bytes());
            });
        }
        Kind::BigInt | Kind::Double => states.iter().for_each(|state| front.extend(state.unwrap_or(&[0; 8]))),
        Kind::Numeric | Kind::Text | Kind::Bytes => {
            for state in &states {
                front.extend((state.unwrap_or_default().len() as u32).to_le_bytes());
            }
            states.iter().for_each(|state| front.extend(state.unwrap_or_default()));
        }
        // Functions with arrays take no steps.
        Kind::List(_) => {}
    }
    Values { front, rest: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_states_are_read_as_sql_shows_them() {
        assert_eq!(cell_of(Kind::Boolean, "true"), Some(vec![1]));
        assert_eq!(cell_of(Kind::SmallInt, "-2"), Some(vec![0xfe, 0xff]));
        assert_eq!(cell_of(Kind::Double, "Infinity"), Some(f64::INFINITY.to_le_bytes().to_vec()));
        assert_eq!(cell_of(Kind::Text, ""), Some(vec![]));
        assert_eq!(cell_of(Kind::Bytes, "\\x00fF"), Some(vec![0, 255]));
        for (kind, wrong) in
            [(Kind::SmallInt, "70000"), (Kind::BigInt, "x"), (Kind::Bytes, "00"), (Kind::Bytes, "\\x0")]
        {
            assert_eq!(cell_of(kind, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_last_row_of_each_group_has_its_state() {
        let group = |state: &[u8], last| Group { state: Some(state.to_vec()), left: 0..0, last };
        let texts = answer(Kind::Text, 3, &[group(b"ab", 1), group(b"", 2)]);
        assert_eq!(texts.front, [TEXTS, 1, 0, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
        let numbers = answer(Kind::SmallInt, 2, &[group(&[0xfe, 0xff], 1)]);
        let expected = [&[NATIVE, 1, 0, 1][..], &0_i64.to_le_bytes(), &(-2_i64).to_le_bytes()].concat();
        assert_eq!(numbers.front, expected);
    }
}
