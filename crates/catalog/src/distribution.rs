//! Declustering: which fragment of its table a row belongs to, and in which order the rows of a fragment lie on disk.
//!
//! The strategies are those of Gamma (DeWitt et al., "The Gamma Database Machine Project", 1990, section 2): round
//! robin, hashed, and ranges, whose bounds are given or make fragments of equal size.
//!
//! A table declares a [`Distribution`]; a [`Placement`] is one made ready for the table's columns. The fragment of a
//! row follows from its values and its number alone, so a log that is replayed gives each row its fragment again.
//!
//! Invariant: a row whose key is NULL is in the first fragment, if fragments have keys.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options, concat, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, SchemaRef, UInt64Type};
use arrow_row::{RowConverter, Rows, SortField};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::{Guarantee, LiteralGuarantee};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::zones::{ZoneMap, may_be_true};

use crate::conformed::gathered;

/// Fragments of a table at most.
pub const FRAGMENTS_MAX: u16 = 64;
/// Fragments of a table that is declared without a number.
pub const FRAGMENTS_DEFAULT: u16 = 8;
/// Hashes fall into so many slots, whatever the number of fragments: a fragment has neighboring slots.
const SLOTS: u64 = 4096;
/// Combinations of values that a condition may name for the columns of a key, at most; all fragments are read if there
/// are more.
const COMBINATIONS_MAX: usize = 4096;

/// How the rows of a table are divided, and ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Which fragment a row belongs to.
    pub strategy: Strategy,
    /// Columns by which the rows of a fragment are put in order where they move to segments.
    pub clustered: Vec<String>,
}

/// Which fragment a row belongs to. Bounds are values as texts; a bound is the least value of its fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One row after another goes to the next fragment.
    RoundRobin {
        /// How many there are.
        fragments: u16,
    },
    /// By a hash of these columns.
    Hash {
        /// Their names.
        columns: Vec<String>,
        /// How many fragments there are.
        fragments: u16,
    },
    /// By the bounds between the values of a column.
    Range {
        /// Its name.
        column: String,
        /// Of the second fragment and those behind it.
        bounds: Vec<String>,
    },
    /// By bounds that make fragments of equal size.
    Uniform {
        /// The column's name.
        column: String,
        /// How many fragments are wanted.
        fragments: u16,
        /// As in `Range`, once there were rows to take them from; all rows are in the first fragment before that.
        bounds: Option<Vec<String>>,
    },
}

impl Default for Strategy {
    fn default() -> Self {
        Self::RoundRobin { fragments: 1 }
    }
}

impl Strategy {
    /// How many fragments there are.
    pub fn fragments(&self) -> u16 {
        match self {
            Self::RoundRobin { fragments } | Self::Hash { fragments, .. } => *fragments,
            Self::Range { bounds, .. } | Self::Uniform { bounds: Some(bounds), .. } => bounds.len() as u16 + 1,
            Self::Uniform { bounds: None, .. } => 1,
        }
    }

    /// The names of the columns that it looks at.
    pub fn columns(&self) -> &[String] {
        match self {
            Self::RoundRobin { .. } => &[],
            Self::Hash { columns, .. } => columns,
            Self::Range { column, .. } | Self::Uniform { column, .. } => std::slice::from_ref(column),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RoundRobin { .. } => "round robin",
            Self::Hash { .. } => "hash",
            Self::Range { .. } => "range",
            Self::Uniform { .. } => "uniform range",
        }
    }

    /// The bounds between fragments; none, if it has no such bounds.
    pub fn bounds(&self) -> &[String] {
        match self {
            Self::Range { bounds, .. } | Self::Uniform { bounds: Some(bounds), .. } => bounds,
            _ => &[],
        }
    }

    /// What a fragment has, in words: `10 <= k < 20`; `None` if the strategy has no bounds.
    pub fn bounds_of(&self, fragment: u16) -> Option<String> {
        let (column, bounds, fragment) = (self.columns().first()?, self.bounds(), usize::from(fragment));
        let (least, next) = (fragment.checked_sub(1).and_then(|before| bounds.get(before)), bounds.get(fragment));
        match (least, next) {
            (None, None) => None,
            (None, Some(next)) => Some(format!("{column} < {next}")),
            (Some(least), None) => Some(format!("{least} <= {column}")),
            (Some(least), Some(next)) => Some(format!("{least} <= {column} < {next}")),
        }
    }
}

impl fmt::Display for Distribution {
    /// The clauses of CREATE TABLE that divide rows in the same way; nothing, for a table that needs none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        let quoted = |columns: &[String]| {
            let quoted = columns.iter().map(|column| format!("\"{}\"", column.replace('"', "\"\"")));
            quoted.collect::<Vec<_>>().join(", ")
        };
        let columns = quoted(self.strategy.columns());
        match &self.strategy {
            Strategy::RoundRobin { fragments } => write!(f, "DISTRIBUTED BY ROUND ROBIN FRAGMENTS {fragments}")?,
            Strategy::Hash { fragments, .. } => write!(f, "DISTRIBUTED BY HASH ({columns}) FRAGMENTS {fragments}")?,
            Strategy::Range { bounds, .. } | Strategy::Uniform { bounds: Some(bounds), .. } => {
                let values = bounds.iter().map(|bound| format!("'{}'", bound.replace('\'', "''")));
                let values = values.collect::<Vec<_>>().join(", ");
                write!(f, "DISTRIBUTED BY RANGE ({columns}) VALUES ({values})")?;
            }
            Strategy::Uniform { fragments, bounds: None, .. } => {
                write!(f, "DISTRIBUTED BY RANGE ({columns}) UNIFORM FRAGMENTS {fragments}")?;
            }
        }
        match self.clustered.as_slice() {
            [] => Ok(()),
            columns => write!(f, " CLUSTERED BY ({})", quoted(columns)),
        }
    }
}

/// What stands between the words of a distribution that is written down; no text has it.
const BETWEEN: char = '\0';

impl Distribution {
    /// Whether a column has a part in it.
    pub fn uses(&self, column: &str) -> bool {
        self.strategy.columns().iter().chain(&self.clustered).any(|name| name == column)
    }

    /// The same with another name of a column.
    pub fn rename(&mut self, old: &str, new: &str) {
        let own: &mut [String] = match &mut self.strategy {
            Strategy::RoundRobin { .. } => &mut [],
            Strategy::Hash { columns, .. } => columns,
            Strategy::Range { column, .. } | Strategy::Uniform { column, .. } => std::slice::from_mut(column),
        };
        own.iter_mut().chain(&mut self.clustered).filter(|name| **name == old).for_each(|name| new.clone_into(name));
    }

    /// All of it as one text, from which [`decoded`](Self::decoded) makes it again.
    pub fn encoded(&self) -> String {
        let mut words = vec![self.strategy.name().to_owned()];
        let mut list = |list: &[String]| {
            words.push(list.len().to_string());
            words.extend_from_slice(list);
        };
        list(&self.clustered);
        list(self.strategy.columns());
        list(self.strategy.bounds());
        let wanted = match &self.strategy {
            Strategy::Uniform { fragments, .. } => *fragments,
            other => other.fragments(),
        };
        words.push(wanted.to_string());
        words.join(&BETWEEN.to_string())
    }

    /// What [`encoded`](Self::encoded) gave. Fails with kind `File` for another text.
    pub fn decoded(text: &str) -> Result<Self> {
        let mut words = text.split(BETWEEN);
        let unknown = || Error::file("a table's distribution is not known to this version");
        let strategy = words.next().ok_or_else(unknown)?;
        let mut list = || {
            let count = words.next().and_then(|word| word.parse::<usize>().ok()).ok_or_else(unknown)?;
            (0..count).map(|_| words.next().map(str::to_owned).ok_or_else(unknown)).collect::<Result<Vec<_>>>()
        };
        let (clustered, mut columns, bounds) = (list()?, list()?, list()?);
        let fragments = words.next().and_then(|word| word.parse::<u16>().ok()).ok_or_else(unknown)?;
        let strategy = match (strategy, columns.len()) {
            ("round robin", 0) => Strategy::RoundRobin { fragments },
            ("hash", 1..) => Strategy::Hash { columns, fragments },
            ("range", 1) => Strategy::Range { column: columns.remove(0), bounds },
            ("uniform range", 1) => {
                let bounds = (!bounds.is_empty()).then_some(bounds);
                Strategy::Uniform { column: columns.remove(0), fragments, bounds }
            }
            _ => return Err(unknown()),
        };
        Ok(Self { strategy, clustered })
    }

    /// The same with bounds that divide these values of its column into parts of equal size, as far as equal values
    /// stay together. As it is, if it takes no bounds from rows, or there are too few values for two fragments. Fails
    /// with kind `Value` if a value cannot be a bound.
    pub fn with_bounds_of(&self, values: &[ArrayRef]) -> Result<Self> {
        let Strategy::Uniform { column, fragments, .. } = &self.strategy else { return Ok(self.clone()) };
        let Some(first) = values.first() else { return Ok(self.clone()) };
        let values = concat(&values.iter().map(|array| &**array).collect::<Vec<_>>()).map_err(from_arrow)?;
        let order = order_of(first.data_type())?;
        let rows = order.convert_columns(&[comparable(&values)?]).map_err(from_arrow)?;
        let mut places = (0..values.len()).filter(|place| values.is_valid(*place)).collect::<Vec<_>>();
        places.sort_unstable_by(|left, right| rows.row(*left).cmp(&rows.row(*right)));
        let mut chosen = Vec::<usize>::new();
        for part in 1..usize::from(*fragments) {
            let Some(place) = places.get(places.len() * part / usize::from(*fragments)) else { continue };
            let larger = |place: &usize, than: &usize| rows.row(*place) > rows.row(*than);
            match (chosen.last(), places.first()) {
                (Some(before), _) if !larger(place, before) => {}
                // The least value has a fragment of its own, if it has so many rows.
                (None, Some(least)) if !larger(place, least) => {
                    let next = places.partition_point(|place| !larger(place, least));
                    chosen.extend(places.get(next));
                }
                _ => chosen.push(*place),
            }
        }
        if chosen.is_empty() {
            return Ok(self.clone());
        }
        let chosen = UInt32Array::from_iter_values(chosen.into_iter().map(|place| place as u32));
        let chosen = arrow::compute::take(&values, &chosen, None).map_err(from_arrow)?;
        let bounds = Some(texts_of(&chosen)?);
        let strategy = Strategy::Uniform { column: column.clone(), fragments: *fragments, bounds };
        Ok(Self { strategy, clustered: self.clustered.clone() })
    }
}

/// Values as the texts that bounds are. Fails with kind `Value` for a NULL or a type that has no such texts.
pub fn texts_of(values: &ArrayRef) -> Result<Vec<String>> {
    let texts = cast_with_options(values, &DataType::Utf8, &STRICT).map_err(from_arrow)?;
    let text = |text: Option<&str>| {
        text.map(str::to_owned).ok_or_else(|| {
            let error = Error::value("a bound between fragments is NULL").with_code("22004");
            error.with_hint("rows without a value are in the first fragment anyway: leave it out")
        })
    };
    texts.as_string::<i32>().iter().map(text).collect()
}

const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

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

fn order_of(data_type: &DataType) -> Result<RowConverter> {
    let field = SortField::new(data_type.clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        let error = Error::unsupported("rows cannot be put in the order of such a column").with_code("0A000");
        return Err(error.with_hint("choose a column of numbers, texts, dates or times"));
    }
    RowConverter::new(vec![field]).map_err(from_arrow)
}

/// Values of which equal ones have equal bits: there is one zero, and one NaN.
fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
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

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion_common::cast::as_boolean_array;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{
        BinaryExpr, Column as ColumnExpr, InListExpr, IsNullExpr, Literal, NotExpr,
    };
    use diligence_base::seams::Random;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("k", DataType::Int64, true),
            Field::new("s", DataType::Utf8View, true),
            Field::new("f", DataType::Float64, true),
        ]))
    }

    fn batch(rows: usize, random: &mut Random) -> RecordBatch {
        let mut some = |value: &mut dyn FnMut(&mut Random) -> i64| {
            (0..rows).map(|_| (random.below(8) > 0).then(|| value(random))).collect::<Vec<_>>()
        };
        let numbers = some(&mut |random| random.below(30) as i64 - 10);
        let texts = some(&mut |random| random.below(30) as i64);
        let floats = some(&mut |random| random.below(12) as i64);
        let float = |number: i64| match number {
            0 => f64::NAN,
            1 => -0.0,
            2 => 0.0,
            3 => f64::NEG_INFINITY,
            other => other as f64 - 6.5,
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(numbers)),
            Arc::new(StringViewArray::from_iter(texts.iter().map(|text| text.map(|text| format!("t{text}"))))),
            Arc::new(Float64Array::from_iter(floats.into_iter().map(|number| number.map(float)))),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn strategies() -> Vec<Strategy> {
        let column = |name: &str| name.to_owned();
        let bounds = |bounds: &[&str]| bounds.iter().map(|bound| (*bound).to_owned()).collect();
        vec![
            Strategy::RoundRobin { fragments: 3 },
            Strategy::Hash { columns: vec![column("k")], fragments: 8 },
            Strategy::Hash { columns: vec![column("s"), column("k")], fragments: 64 },
            Strategy::Hash { columns: vec![column("f")], fragments: 5 },
            Strategy::Range { column: column("k"), bounds: bounds(&["-3", "5", "19"]) },
            Strategy::Range { column: column("s"), bounds: bounds(&["t1", "t25", "t3"]) },
            Strategy::Range { column: column("f"), bounds: bounds(&["-1", "0", "NaN"]) },
            Strategy::Uniform { column: column("k"), fragments: 4, bounds: None },
            Strategy::Uniform { column: column("s"), fragments: 4, bounds: Some(bounds(&["t'4", "t2"])) },
        ]
    }

    fn placement(strategy: Strategy) -> Placement {
        let distribution = Distribution { strategy, clustered: vec!["k".to_owned()] };
        Placement::new(&distribution, &schema()).unwrap()
    }

    /// Tables on disk depend on it.
    #[test]
    fn hashes_are_what_they_were() {
        let hash = |column: &str| placement(Strategy::Hash { columns: vec![column.to_owned()], fragments: 8 });
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..16));
        assert_eq!(hash("k").hashed(&[numbers], 16).unwrap(), [6, 6, 6, 3, 6, 6, 6, 2, 6, 4, 5, 5, 0, 4, 3, 4]);
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["", "a", "b", "abc", "the value"]));
        assert_eq!(hash("s").hashed(&[texts], 5).unwrap(), [4, 0, 1, 0, 5]);
    }

    #[test]
    fn each_row_is_in_one_fragment_and_equal_keys_in_the_same() {
        let mut random = Random::new(3);
        for strategy in strategies() {
            let placement = placement(strategy.clone());
            let rows = batch(500, &mut random);
            let parts = placement.split(&rows, 7).unwrap();
            let count = parts.iter().map(|part| part.rows.num_rows()).sum::<usize>();
            assert_eq!(count, 500);
            for FragmentRows { fragment, rows: own, places } in &parts {
                assert!(*fragment < strategy.fragments().max(1));
                let places = places.clone().unwrap_or_else(|| (0..500).collect());
                let same = take_record_batch(&rows, &UInt32Array::from(places)).unwrap();
                assert_eq!(same, own.clone(), "{strategy:?}");
                if let Strategy::RoundRobin { .. } = strategy {
                    assert!(own.num_rows().abs_diff(500 / 3) <= 1);
                    continue;
                }
                // One row by itself goes where it goes with others, and NULL to the first.
                for row in 0..own.num_rows() {
                    let alone = placement.split(&own.slice(row, 1), 999).unwrap();
                    assert_eq!(alone[0].fragment, *fragment, "{strategy:?}");
                    let is_null = |column: &String| own.column_by_name(column).unwrap().is_null(row);
                    assert!(*fragment == 0 || !strategy.columns().iter().any(is_null), "{strategy:?}");
                }
            }
        }
    }

    /// A condition over one column, or several.
    fn condition(random: &mut Random, depth: usize) -> Arc<dyn PhysicalExpr> {
        let place = random.below(3);
        let schema = schema();
        let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(place).name(), place));
        let value = |random: &mut Random| -> Arc<dyn PhysicalExpr> {
            let value = ScalarValue::try_from_array(batch(1, random).column(place), 0).unwrap();
            Arc::new(Literal::new(value))
        };
        if depth > 0 && random.below(2) == 0 {
            let operator = if random.below(2) == 0 { Operator::And } else { Operator::Or };
            let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
            return Arc::new(BinaryExpr::new(left, operator, right));
        }
        match random.below(8) {
            0 => {
                let list = (0..1 + random.below(3)).map(|_| value(random)).collect();
                Arc::new(InListExpr::try_new(column, list, random.below(4) == 0, &schema).unwrap())
            }
            1 => Arc::new(IsNullExpr::new(column)),
            2 => Arc::new(NotExpr::new(condition(random, 0))),
            kind => {
                let operators =
                    [Operator::Eq, Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
                let value = value(random);
                Arc::new(BinaryExpr::new(column, operators[(kind - 3 + random.below(2)) % 6], value))
            }
        }
    }

    #[test]
    fn no_fragment_is_left_out_that_has_a_wanted_row() {
        let mut random = Random::new(11);
        let mut left_out = 0;
        for strategy in strategies() {
            let placement = placement(strategy.clone());
            let parts = placement.split(&batch(300, &mut random), 0).unwrap();
            for _ in 0..400 {
                let condition = condition(&mut random, 2);
                let Some(wanted) = placement.wanted(&condition) else { continue };
                assert_eq!(wanted.len(), usize::from(placement.fragments()));
                left_out += wanted.iter().filter(|wanted| !**wanted).count();
                for part in &parts {
                    let found = condition.evaluate(&part.rows).unwrap().into_array(part.rows.num_rows()).unwrap();
                    let found = as_boolean_array(&found).unwrap().true_count();
                    assert!(found == 0 || wanted[usize::from(part.fragment)], "{condition} of {strategy:?}");
                }
            }
        }
        assert!(left_out > 500, "{left_out}");
    }

    #[test]
    fn conditions_on_keys_want_the_fragments_of_their_values() {
        let compared = |operator, value: i64| -> Arc<dyn PhysicalExpr> {
            let value = Arc::new(Literal::new(ScalarValue::Int64(Some(value))));
            Arc::new(BinaryExpr::new(Arc::new(ColumnExpr::new("k", 0)), operator, value))
        };
        let wanted = |placement: &Placement, condition: &Arc<dyn PhysicalExpr>| {
            placement
                .wanted(condition)
                .map(|wanted| (0..).zip(wanted).filter(|(_, is)| *is).map(|(f, _)| f).collect::<Vec<usize>>())
        };
        let range = Strategy::Range { column: "k".to_owned(), bounds: vec!["10".to_owned(), "20".to_owned()] };
        let range = placement(range);
        assert_eq!(wanted(&range, &compared(Operator::Eq, 10)), Some(vec![1]));
        assert_eq!(wanted(&range, &compared(Operator::Lt, 10)), Some(vec![0]));
        assert_eq!(wanted(&range, &compared(Operator::LtEq, 10)), Some(vec![0, 1]));
        assert_eq!(wanted(&range, &compared(Operator::GtEq, 20)), Some(vec![2]));
        assert_eq!(wanted(&range, &compared(Operator::Gt, 9)), Some(vec![1, 2]));
        let hash = placement(Strategy::Hash { columns: vec!["k".to_owned()], fragments: 8 });
        assert_eq!(wanted(&hash, &compared(Operator::Eq, 3)), Some(vec![3]));
        assert_eq!(wanted(&hash, &compared(Operator::Gt, 3)), None);
    }

    #[test]
    fn a_distribution_that_is_written_down_is_the_same_again() {
        for strategy in strategies() {
            for clustered in [vec![], vec!["s".to_owned(), "k".to_owned()]] {
                let mut distribution = Distribution { strategy: strategy.clone(), clustered };
                assert_eq!(Distribution::decoded(&distribution.encoded()).unwrap(), distribution);
                distribution.rename("k", "other");
                assert!(!distribution.uses("k"));
                assert!(Distribution::decoded(&distribution.encoded()).unwrap() == distribution);
            }
        }
        assert!(Distribution::decoded("by luck").is_err());
    }

    #[test]
    fn bounds_make_fragments_of_equal_size() {
        let uniform = |fragments| Distribution {
            strategy: Strategy::Uniform { column: "k".to_owned(), fragments, bounds: None },
            ..Distribution::default()
        };
        let bounds = |fragments, values: Vec<Option<i64>>| {
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            let halves =
                [values.slice(0, values.len() / 2), values.slice(values.len() / 2, values.len() - values.len() / 2)];
            uniform(fragments).with_bounds_of(&halves).unwrap().strategy.bounds().to_vec()
        };
        let all = (0..100).map(|value| Some(value * 37 % 100)).chain([None, None]).collect();
        assert_eq!(bounds(4, all), ["25", "50", "75"]);
        assert_eq!(bounds(4, vec![Some(7); 50]), [""; 0]);
        assert_eq!(bounds(3, vec![Some(1), Some(1), Some(1), Some(2)]), ["2"]);
        assert_eq!(bounds(8, vec![None, None]), [""; 0]);
        assert_eq!(bounds(8, vec![]), [""; 0]);
    }

    #[test]
    fn rows_in_order_keep_their_places() {
        let mut random = Random::new(5);
        let rows = batch(200, &mut random);
        let placement = placement(Strategy::default());
        let (ordered, places) = placement.ordered(&[rows.slice(0, 90), rows.slice(90, 110)]).unwrap();
        let keys = ordered.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert!(keys.is_sorted());
        let same = take_record_batch(&rows, &UInt32Array::from(places)).unwrap();
        assert_eq!(same, ordered);
    }
}
