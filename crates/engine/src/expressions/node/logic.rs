//! AND, OR, NOT.
//!
//! A condition is mostly asked which rows are true; who asks that needs no NULLs, so [`rows_that_are`] carries plain
//! bitmaps: the rows where `a AND b` is true are the rows where both are, those where `NOT a` is true are those where
//! `a` is false. Terms are taken in turn on the rows that are still undecided: by bitmaps over the whole batch while
//! many are, on picked rows once few are.
//!
//! Errors: a term sees at most the rows that the terms before it leave undecided. That is what SQL users expect of
//! `x <> 0 AND y / x > 1`, and never more rows than DataFusion looks at; which rows those are depends on the rows alone
//! and not on how they were cut into batches. A term that may fail is therefore tried on the whole batch at most as a
//! bet: if that fails, the error is forgotten and the term runs on the undecided rows.

use arrow::array::{Array, BooleanArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{and_kleene, or_kleene};
use diligence_base::Result;

use super::Node;
use super::compare::Comparison;
use super::test::{Predicate, Test};
use crate::batch::{Batch, Selection};
use crate::expressions::bits;

/// Which connective joins the terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expressions) enum Connective {
    And,
    Or,
}

/// Terms joined by one connective.
#[derive(Debug)]
pub(in crate::expressions) struct Junction {
    pub(in crate::expressions) connective: Connective,
    pub(in crate::expressions) terms: Vec<Node>,
}

impl Junction {
    /// The junction, with bounds of one column joined to ranges, and cheap terms before dear ones where no error can
    /// tell.
    pub(in crate::expressions) fn new(connective: Connective, terms: Vec<Node>) -> Self {
        let mut terms = if connective == Connective::And { with_ranges(terms) } else { terms };
        // A term that may fail, or gives another value each time, stays where it is, and nothing passes it.
        for run in terms.chunk_by_mut(|left, right| left.is_movable() && right.is_movable()) {
            run.sort_by_key(Node::cost);
        }
        Self { connective, terms }
    }

    /// The rows whose answer is `wanted`.
    pub(in crate::expressions) fn rows_that_are(&self, wanted: bool, batch: &Batch) -> Result<BooleanBuffer> {
        let bits = self.undecided(batch, wanted)?.into_bits(batch.rows());
        // Asked for the deciding answer, the rows that no term decided are the ones without it.
        Ok(if wanted == self.decisive() { !&bits } else { bits })
    }

    /// The rows where all terms are true. Only for AND.
    pub(in crate::expressions) fn select(&self, batch: &Batch) -> Result<Selection> {
        debug_assert_eq!(self.connective, Connective::And);
        Ok(self.undecided(batch, true)?.into_selection())
    }

    /// The answer of one term that decides the whole.
    fn decisive(&self) -> bool {
        self.connective == Connective::Or
    }

    /// The rows that no term decides. If the answer that is wanted is not the deciding one, a NULL decides too: it
    /// cannot become what is wanted any more.
    fn undecided(&self, batch: &Batch, wanted: bool) -> Result<Undecided> {
        let decisive = self.decisive();
        let left_by = |term: &Node, batch: &Batch| -> Result<BooleanBuffer> {
            if wanted == decisive {
                Ok(!&term.rows_that_are(decisive, batch)?)
            } else {
                term.rows_that_are(!decisive, batch)
            }
        };
        let mut left = Undecided::All;
        for term in &self.terms {
            left = match left {
                Undecided::None => return Ok(Undecided::None),
                Undecided::All => Undecided::bits(left_by(term, batch)?),
                Undecided::Bits(bits, count) => match term.on_undecided(batch, count, |batch| left_by(term, batch))? {
                    Some(more) => Undecided::bits(&bits & &more),
                    None => {
                        let rows = UInt32Array::from(bits::set_rows(&bits, count));
                        let more = left_by(term, &batch.pick(&rows)?)?;
                        Undecided::rows(rows, &more)
                    }
                },
                Undecided::Rows(rows) => {
                    let more = left_by(term, &batch.pick(&rows)?)?;
                    Undecided::rows(rows, &more)
                }
            };
        }
        Ok(left)
    }

    /// The three-valued answer for every row.
    pub(in crate::expressions) fn mask(&self, batch: &Batch) -> Result<BooleanArray> {
        let decisive = self.decisive();
        let mut answer: Option<BooleanArray> = None;
        for term in &self.terms {
            let Some(so_far) = answer else {
                answer = Some(term.mask(batch)?);
                continue;
            };
            let undecided = !&bits::rows_that_are(decisive, &so_far);
            let count = undecided.count_set_bits();
            if count == 0 {
                return Ok(so_far);
            }
            let next = match term.on_undecided(batch, count, |batch| term.mask(batch))? {
                Some(mask) => mask,
                None => {
                    let rows = UInt32Array::from(bits::set_rows(&undecided, count));
                    scatter(&term.mask(&batch.pick(&rows)?)?, &rows, batch.rows(), decisive)
                }
            };
            let joined = match self.connective {
                Connective::And => and_kleene(&so_far, &next),
                Connective::Or => or_kleene(&so_far, &next),
            };
            answer = Some(joined.map_err(diligence_storage::foreign_error::from_arrow)?);
        }
        Ok(answer.unwrap_or_else(|| BooleanBuffer::collect_bool(batch.rows(), |_| !decisive).into()))
    }
}

/// Terms of an AND with pairs such as `x >= 1` and `x < 9` made one test, which reads the column once.
fn with_ranges(terms: Vec<Node>) -> Vec<Node> {
    let mut joined: Vec<Node> = Vec::with_capacity(terms.len());
    // No term moves to before this place: a term that may fail stands there.
    let mut barrier = 0;
    for term in terms {
        if !term.is_movable() {
            joined.push(term);
            barrier = joined.len();
            continue;
        }
        let partner = joined[barrier..].iter().position(|other| is_range(other, &term)).map(|place| barrier + place);
        match partner {
            Some(place) => {
                let other = joined.remove(place);
                joined.insert(place, as_range(other, term));
            }
            None => joined.push(term),
        }
    }
    joined
}

/// The column and the comparison of a test with a constant.
fn bound_of(node: &Node) -> Option<(usize, Comparison)> {
    let Node::Test(Test { input, predicate: Predicate::Compare(comparison, _), .. }) = node else { return None };
    let Node::Column { index, .. } = input.as_ref() else { return None };
    Some((*index, *comparison))
}

fn is_lower(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::Greater | Comparison::GreaterEqual)
}

fn is_upper(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::Less | Comparison::LessEqual)
}

/// Whether two terms bound one column from both sides.
fn is_range(one: &Node, other: &Node) -> bool {
    let (Some((one_column, one)), Some((other_column, other))) = (bound_of(one), bound_of(other)) else { return false };
    one_column == other_column && (is_lower(one) && is_upper(other) || is_upper(one) && is_lower(other))
}

/// The one test of two terms that [`is_range`] is true of.
fn as_range(one: Node, other: Node) -> Node {
    let (Node::Test(one), Node::Test(other)) = (one, other) else { unreachable!("only tests are bounds") };
    let (Predicate::Compare(first, first_bound), Predicate::Compare(second, second_bound)) =
        (one.predicate, other.predicate)
    else {
        unreachable!("only comparisons are bounds")
    };
    let predicate = if is_lower(first) {
        Predicate::Range((first, first_bound), (second, second_bound))
    } else {
        Predicate::Range((second, second_bound), (first, first_bound))
    };
    Node::Test(Test { input: one.input, predicate, value_type: one.value_type, remembered: one.remembered })
}

impl Node {
    /// What the node gives for the whole batch, if that is the way to go when only `undecided` of its rows matter;
    /// `None` if it is to run on just these.
    fn on_undecided<T>(
        &self,
        batch: &Batch,
        undecided: usize,
        evaluate: impl Fn(&Batch) -> Result<T>,
    ) -> Result<Option<T>> {
        if undecided == batch.rows() {
            return evaluate(batch).map(Some);
        }
        if !self.prefers_whole_batch(undecided, batch.rows()) {
            return Ok(None);
        }
        if self.may_fail() { Ok(evaluate(batch).ok()) } else { evaluate(batch).map(Some) }
    }
}

/// The rows of a batch that are still of interest: a bitmap while they are many, row numbers once they are few.
enum Undecided {
    All,
    None,
    /// The set bits, and how many there are: some, but not all.
    Bits(BooleanBuffer, usize),
    /// At least one row.
    Rows(UInt32Array),
}

impl Undecided {
    fn bits(bits: BooleanBuffer) -> Self {
        match bits.count_set_bits() {
            0 => Self::None,
            count if count == bits.len() => Self::All,
            count => Self::Bits(bits, count),
        }
    }

    /// Those of some rows whose bit, one for each of them, is set.
    fn rows(rows: UInt32Array, bits: &BooleanBuffer) -> Self {
        match bits.count_set_bits() {
            0 => Self::None,
            count if count == rows.len() => Self::Rows(rows),
            count => {
                Self::Rows(bits::set_rows(bits, count).into_iter().map(|place| rows.value(place as usize)).collect())
            }
        }
    }

    fn into_bits(self, total: usize) -> BooleanBuffer {
        match self {
            Self::All => BooleanBuffer::new_set(total),
            Self::None => BooleanBuffer::new_unset(total),
            Self::Bits(bits, _) => bits,
            Self::Rows(rows) => bits_of(rows.values(), total),
        }
    }

    fn into_selection(self) -> Selection {
        match self {
            Self::All => Selection::All,
            Self::None => Selection::None,
            Self::Bits(bits, count) => as_rows(&bits, count),
            Self::Rows(rows) => Selection::Rows(rows),
        }
    }
}

/// The numbers of `count` set bits.
pub(in crate::expressions) fn as_rows(bits: &BooleanBuffer, count: usize) -> Selection {
    if count == 0 {
        return Selection::None;
    }
    if count == bits.len() {
        return Selection::All;
    }
    Selection::Rows(bits::set_rows(bits, count).into())
}

/// A bitmap of `total` rows with these set.
fn bits_of(rows: &[u32], total: usize) -> BooleanBuffer {
    let mut words = vec![0_u64; total.div_ceil(64)];
    for row in rows {
        words[*row as usize / 64] |= 1 << (row % 64);
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, total)
}

/// Answers for some rows among `total` with the same answer elsewhere.
fn scatter(answers: &BooleanArray, rows: &UInt32Array, total: usize, elsewhere: bool) -> BooleanArray {
    let spread = |bits: &BooleanBuffer| {
        let places = bits::set_rows(bits, bits.count_set_bits());
        let rows = places.into_iter().map(|place| rows.value(place as usize)).collect::<Vec<_>>();
        bits_of(&rows, total)
    };
    let others = !&bits_of(rows.values(), total);
    let mut values = spread(answers.values());
    if elsewhere {
        values = &values | &others;
    }
    let nulls = answers.nulls().filter(|nulls| nulls.null_count() > 0);
    BooleanArray::new(values, nulls.map(|nulls| NullBuffer::new(&spread(nulls.inner()) | &others)))
}
