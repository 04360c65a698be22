//! Which fragment each row belongs to, and which fragments may have rows that a condition wants.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, SchemaRef, UInt64Type};
use arrow_row::{RowConverter, Rows, SortField};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::{Guarantee, LiteralGuarantee};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::zones::{ZoneMap, may_be_true};

use super::{Distribution, STRICT, Strategy, texts_of};
use crate::conformed::gathered;

/// Hashes fall into so many slots, whatever the number of fragments: a fragment has neighboring slots.
const SLOTS: u64 = 4096;
/// Combinations of values that a condition may name for the columns of a key, at most; all fragments are read if there
/// are more.
const COMBINATIONS_MAX: usize = 4096;

/// A [`Distribution`] made ready for the columns of a table.
pub struct Placement {
    fragments: u16,
    rule: Rule,
    /// Where the columns of the clustering key are.
    clustered: Vec<usize>,
    schema: SchemaRef,
}

enum Rule {
    RoundRobin,
    Hash(Vec<usize>),
    Range { place: usize, bounds: ArrayRef, order: RowConverter, encoded: Rows },
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Placement({} fragments)", self.fragments)
    }
}

/// Some rows of a batch.
#[derive(Debug)]
pub struct FragmentRows {
    /// The fragment that they belong to.
    pub fragment: u16,
    /// The rows.
    pub rows: RecordBatch,
    /// Their places in the batch, which ascend; all, if `None`.
    pub places: Option<Vec<u32>>,
}

impl Placement {
    /// Fails with code 42703 if the table has no such column, 0A000 if a column's values cannot decide, and with kind
    /// `Value` if a bound is no value of its column.
    pub fn new(distribution: &Distribution, schema: &SchemaRef) -> Result<Self> {
        let place = |name: &String| {
            let missing = || Error::input(format!("column \"{name}\" named in key does not exist")).with_code("42703");
            schema.index_of(name).map_err(|_| missing())
        };
        let Distribution { strategy, clustered } = distribution;
        let keys = strategy.columns().iter().map(place).collect::<Result<Vec<_>>>()?;
        for key in &keys {
            check_type(schema.field(*key).name(), schema.field(*key).data_type())?;
        }
        let clustered = clustered.iter().map(place).collect::<Result<Vec<_>>>()?;
        for column in &clustered {
            order_of(schema.field(*column).data_type())?;
        }
        let fragments = strategy.fragments();
        let rule = match (strategy, keys.as_slice()) {
            (Strategy::Hash { .. }, _) => Rule::Hash(keys),
            (Strategy::Range { bounds, .. } | Strategy::Uniform { bounds: Some(bounds), .. }, [place]) => {
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(bounds));
                let data_type = schema.field(*place).data_type();
                let bounds = cast_with_options(&texts, data_type, &STRICT).map_err(from_arrow)?;
                let order = order_of(data_type)?;
                let encoded = order.convert_columns(&[comparable(&bounds)?]).map_err(from_arrow)?;
                Rule::Range { place: *place, bounds, order, encoded }
            }
            _ => Rule::RoundRobin,
        };
        Ok(Self { fragments, rule, clustered, schema: schema.clone() })
    }

    /// How many fragments there are.
    pub fn fragments(&self) -> u16 {
        self.fragments
    }

    /// The columns whose values decide, and the rule by which they do: tables of one rule have rows with equal values
    /// in fragments of one number. `None` if there is one fragment, or values do not decide.
    pub fn rule(&self) -> Option<(Vec<usize>, String)> {
        if self.fragments < 2 {
            return None;
        }
        let type_of = |place: &usize| self.schema.field(*place).data_type();
        match &self.rule {
            Rule::RoundRobin => None,
            Rule::Hash(places) => {
                let types = places.iter().map(|place| type_of(place).to_string()).collect::<Vec<_>>();
                Some((places.clone(), format!("hash ({}) into {}", types.join(", "), self.fragments)))
            }
            Rule::Range { place, bounds, .. } => {
                Some((vec![*place], format!("range ({}) at {:?}", type_of(place), texts_of(bounds).ok()?)))
            }
        }
    }

    /// Where the columns of the clustering key are; none, if there is no such key.
    pub fn clustered(&self) -> &[usize] {
        &self.clustered
    }

    /// Whether its bounds ascend, each larger than the one before it.
    pub fn ascends(&self) -> bool {
        match &self.rule {
            Rule::Range { encoded, .. } => (1..encoded.num_rows()).all(|at| encoded.row(at - 1) < encoded.row(at)),
            _ => true,
        }
    }

    /// The fragment of each row of the table; `first` is the number of the first one.
    fn fragments_of(&self, batch: &RecordBatch, first: i64) -> Result<Vec<u16>> {
        let rows = batch.num_rows();
        match &self.rule {
            Rule::RoundRobin => {
                let fragments = i64::from(self.fragments);
                Ok((0..rows as i64).map(|row| (first + row).rem_euclid(fragments) as u16).collect())
            }
            Rule::Hash(places) => {
                let columns = places.iter().map(|place| batch.column(*place).clone()).collect::<Vec<_>>();
                self.hashed(&columns, rows)
            }
            Rule::Range { place, .. } => self.ranged(batch.column(*place)),
        }
    }

    fn hashed(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
        let mut hashes = vec![Some(0); rows];
        for column in columns {
            add_hashes(column, &mut hashes)?;
        }
        let fragments = u64::from(self.fragments);
        let fragment = |hash: u64| ((hash % SLOTS) * fragments / SLOTS) as u16;
        Ok(hashes.into_iter().map(|hash| hash.map_or(0, |hash| fragment(mixed(hash)))).collect())
    }

    fn ranged(&self, column: &ArrayRef) -> Result<Vec<u16>> {
        let Rule::Range { order, encoded, .. } = &self.rule else { return Ok(vec![0; column.len()]) };
        let values = order.convert_columns(&[comparable(column)?]).map_err(from_arrow)?;
        let fragment = |row: usize| {
            if column.is_null(row) {
                return 0;
            }
            let (mut low, mut high) = (0, encoded.num_rows());
            while low < high {
                let middle = usize::midpoint(low, high);
                match encoded.row(middle) <= values.row(row) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low as u16
        };
        Ok((0..column.len()).map(fragment).collect())
    }

    /// Rows of the table by fragment, each in their order; `first` is the number of the first one. Fails with kind
    /// `Resource` if memory is short.
    pub fn split(&self, batch: &RecordBatch, first: i64) -> Result<Vec<FragmentRows>> {
        if self.fragments == 1 || batch.num_rows() == 0 {
            return Ok(vec![FragmentRows { fragment: 0, rows: batch.clone(), places: None }]);
        }
        let mut places = vec![Vec::<u32>::new(); usize::from(self.fragments)];
        for (row, fragment) in (0..).zip(self.fragments_of(batch, first)?) {
            places[usize::from(fragment)].push(row);
        }
        let parts = (0..).zip(places).filter(|(_, places)| !places.is_empty()).map(|(fragment, places)| {
            if places.len() == batch.num_rows() {
                return Ok(FragmentRows { fragment, rows: batch.clone(), places: None });
            }
            let rows = take_record_batch(batch, &UInt32Array::from(places.clone())).map_err(from_arrow)?;
            Ok(FragmentRows { fragment, rows: whole(&rows)?, places: Some(places) })
        });
        parts.collect()
    }

    /// Rows in the order of the clustering key, with their places before that. Fails with kind `Resource` if memory is
    /// short.
    pub fn ordered(&self, batches: &[RecordBatch]) -> Result<(RecordBatch, Vec<u32>)> {
        let rows = concat_batches(&self.schema, batches).map_err(from_arrow)?;
        let fields = self.clustered.iter().map(|place| SortField::new(self.schema.field(*place).data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(from_arrow)?;
        let keys = self.clustered.iter().map(|place| comparable(rows.column(*place))).collect::<Result<Vec<_>>>()?;
        let keys = converter.convert_columns(&keys).map_err(from_arrow)?;
        let mut places = (0..rows.num_rows() as u32).collect::<Vec<_>>();
        // Equal ones stay as they came.
        places.sort_by(|left, right| keys.row(*left as usize).cmp(&keys.row(*right as usize)));
        let rows = take_record_batch(&rows, &UInt32Array::from(places.clone())).map_err(from_arrow)?;
        Ok((whole(&rows)?, places))
    }

    /// For each fragment whether it may have a row for which a condition over the table's columns is true; `None` if
    /// all may.
    pub fn wanted(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<Vec<bool>> {
        if self.fragments == 1 {
            return None;
        }
        let named = self.named(condition);
        let within = match &self.rule {
            Rule::Range { place, bounds, .. } => {
                may_be_true(condition, &self.schema, &RangeStatistics { place: *place, bounds })
            }
            _ => None,
        };
        match (named, within) {
            (Some(named), Some(within)) => {
                Some(named.iter().zip(within).map(|(named, within)| *named && within).collect())
            }
            (named, within) => named.or(within),
        }
    }

    /// The fragments of the values that a condition names for all columns of the key.
    fn named(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<Vec<bool>> {
        let places = match &self.rule {
            Rule::RoundRobin => return None,
            Rule::Hash(places) => places.as_slice(),
            Rule::Range { place, .. } => std::slice::from_ref(place),
        };
        let mut values = HashMap::<usize, HashSet<ScalarValue>>::new();
        for guarantee in LiteralGuarantee::analyze(condition) {
            let Ok(place) = self.schema.index_of(&guarantee.column.name) else { continue };
            let is_typed = |value: &ScalarValue| is_like(&value.data_type(), self.schema.field(place).data_type());
            if guarantee.guarantee == Guarantee::In && guarantee.literals.iter().all(is_typed) {
                values.entry(place).or_insert(guarantee.literals);
            }
        }
        let lists = places.iter().map(|place| values.get(place)).collect::<Option<Vec<_>>>()?;
        let count = lists.iter().try_fold(1_usize, |count, list| count.checked_mul(list.len()))?;
        if count > COMBINATIONS_MAX {
            return None;
        }
        // All combinations, column by column.
        let mut repeat = 1;
        let columns = places.iter().zip(&lists).map(|(place, list)| {
            let data_type = self.schema.field(*place).data_type();
            let list = list.iter().map(|value| value.cast_to(data_type).ok()).collect::<Option<Vec<_>>>()?;
            let every = repeat;
            repeat *= list.len();
            let column = (0..count).map(|row| list[row / every % list.len()].clone());
            if count == 0 { None } else { ScalarValue::iter_to_array(column).ok() }
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let fragments = match &self.rule {
            Rule::Range { .. } => self.ranged(columns.first()?).ok()?,
            _ => self.hashed(&columns, count).ok()?,
        };
        let mut wanted = vec![false; usize::from(self.fragments)];
        fragments.into_iter().for_each(|fragment| wanted[usize::from(fragment)] = true);
        Some(wanted)
    }
}

/// Whether values of one type are those of the other without any change.
fn is_like(one: &DataType, other: &DataType) -> bool {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    one == other || is_text(one) && is_text(other)
}

/// What bounds say of the fragments between them.
struct RangeStatistics<'a> {
    /// The column of the key.
    place: usize,
    bounds: &'a ArrayRef,
}

impl RangeStatistics<'_> {
    /// The bounds as those of the fragments at `places`; floats have none, since nothing is beyond NaN.
    fn at(&self, column: usize, places: impl Iterator<Item = Option<usize>>) -> Option<ArrayRef> {
        if column != self.place || self.bounds.data_type().is_floating() {
            return None;
        }
        let places = UInt32Array::from_iter(places.map(|place| place.map(|place| place as u32)));
        arrow::compute::take(self.bounds, &places, None).ok()
    }
}

impl ZoneMap for RangeStatistics<'_> {
    fn zones(&self) -> usize {
        self.bounds.len() + 1
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.at(column, (0..self.zones()).map(|fragment| fragment.checked_sub(1)))
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        let last = self.bounds.len();
        let bounds = self.at(column, (0..=last).map(|fragment| (fragment < last).then_some(fragment)))?;
        // All values are less than the bound; of whole numbers the largest one is known.
        let below = |bounds: &ArrayRef| {
            let numbers = cast_with_options(bounds, &DataType::Int64, &STRICT).ok()?;
            let below = numbers.as_primitive::<Int64Type>().unary_opt::<_, Int64Type>(|bound| bound.checked_sub(1));
            cast_with_options(&below, bounds.data_type(), &CastOptions::default()).ok()
        };
        match bounds.data_type().is_integer() {
            true => below(&bounds).or(Some(bounds)),
            false => Some(bounds),
        }
    }

    fn nulls(&self, _column: usize) -> Option<UInt64Array> {
        None
    }

    fn rows(&self) -> Option<UInt64Array> {
        None
    }
}

/// Fails with code 0A000 if values of a type do not decide on a fragment.
fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    let is_known = data_type.is_integer()
        || data_type.is_floating()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        );
    if is_known {
        return Ok(());
    }
    let error = Error::unsupported(format!("rows cannot be distributed by the column \"{name}\"")).with_code("0A000");
    Err(error.with_hint("choose a column of numbers, texts, dates or times, or ROUND ROBIN"))
}

/// Puts values of a type in order. Fails with code 0A000 if they have none.
pub(super) fn order_of(data_type: &DataType) -> Result<RowConverter> {
    let field = SortField::new(data_type.clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        let error = Error::unsupported("rows cannot be put in the order of such a column").with_code("0A000");
        return Err(error.with_hint("choose a column of numbers, texts, dates or times"));
    }
    RowConverter::new(vec![field]).map_err(from_arrow)
}

/// Values of which equal ones have equal bits: there is one zero, and one NaN.
pub(super) fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
    if !column.data_type().is_floating() {
        return Ok(column.clone());
    }
    let wide = cast_with_options(column, &DataType::Float64, &STRICT).map_err(from_arrow)?;
    let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
    let wide = wide.as_primitive::<Float64Type>().unary::<_, Float64Type>(one);
    cast_with_options(&wide, column.data_type(), &STRICT).map_err(from_arrow)
}

/// Texts in memory of their own: taken views refer to all texts of the batch.
fn whole(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
        _ => gathered(column),
    });
    RecordBatch::try_new(rows.schema(), columns.collect()).map_err(from_arrow)
}

/// Adds the values of a column to the hashes of rows. A row with a NULL has none.
fn add_hashes(column: &ArrayRef, hashes: &mut [Option<u64>]) -> Result<()> {
    let mut add = |row: usize, bytes: &[u8]| hashes[row] = hashes[row].map(|hash| with_bytes(hash, bytes));
    let all = 0..column.len();
    let valid = all.clone().filter(|row| column.is_valid(*row));
    let as_type = |data_type: &DataType| cast_with_options(column, data_type, &STRICT).map_err(from_arrow);
    match column.data_type() {
        DataType::UInt64 => {
            let values = column.as_primitive::<UInt64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Float32 | DataType::Float64 => {
            let values = cast_with_options(&comparable(column)?, &DataType::Float64, &STRICT).map_err(from_arrow)?;
            let values = values.as_primitive::<Float64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_bits().to_le_bytes()));
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Decimal256(..) => {
            let values = column.as_primitive::<Decimal256Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let values = as_type(&DataType::Utf8View)?;
            let values = values.as_string_view();
            valid.for_each(|row| add(row, values.value(row).as_bytes()));
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let values = as_type(&DataType::BinaryView)?;
            let values = values.as_binary_view();
            valid.for_each(|row| add(row, values.value(row)));
        }
        _ => {
            let values = as_type(&DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
    }
    all.filter(|row| column.is_null(*row)).for_each(|row| hashes[row] = None);
    Ok(())
}

/// FNV-1a, with the length, so that neighboring columns do not run together. Tables on disk depend on it.
fn with_bytes(hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let begin = hash ^ 0xcbf2_9ce4_8422_2325 ^ (bytes.len() as u64).rotate_left(32);
    bytes.iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Has all bits depend on all bits (the end of SplitMix64).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
