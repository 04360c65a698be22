//! What a table declares of its fragments, as clauses and as a text that is written down; bounds taken from rows.

use std::fmt;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::concat;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::values::{comparable, order_of, texts_of};

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
