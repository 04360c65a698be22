//! A distribution made ready for the columns of a table: rows divided and ordered, and the fragments that a condition
//! wants.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast_with_options, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow_row::{RowConverter, Rows, SortField};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::{Guarantee, LiteralGuarantee};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::zones::may_be_true;

use super::bounds::RangeStatistics;
use super::hashes::{add_hashes, mixed};
use super::strategy::{Distribution, Strategy};
use super::values::{STRICT, check_type, comparable, is_like, order_of, texts_of};
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

    /// The fragments of rows with these values in the columns of the key.
    pub(super) fn hashed(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
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

/// Texts in memory of their own: taken views refer to all texts of the batch.
fn whole(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
        _ => gathered(column),
    });
    RecordBatch::try_new(rows.schema(), columns.collect()).map_err(from_arrow)
}
