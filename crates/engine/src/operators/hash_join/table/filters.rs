//! What a build side says of its keys to scans of the probe side.

use std::sync::Arc;

use diligence_base::Result;

use super::chunk::{Chunk, key_bounds};
use super::hash_table::Table;
use super::spec::TableSpec;
use crate::operators::key_words::words_are_ordered;
use crate::operators::runtime_filter::{FilterWork, RuntimeFilter, WordSet};

/// Runtime filters and the key that each is of.
pub(in super::super) type Filters = [(Arc<RuntimeFilter>, usize)];

/// What a build side says of one of its keys to scans of the probe side.
#[derive(Clone)]
pub(in super::super) enum FilterContent {
    /// There is no key.
    Empty,
    /// The filter, and the smallest and largest word, if they are in the order of the values.
    Work(Arc<FilterWork>, Option<(u64, u64)>),
    /// The words of the only key, and the same.
    Words(Arc<dyn WordSet>, Option<(u64, u64)>),
}

impl FilterContent {
    /// For all keys that a filter is wanted of; nothing for those of which none can be made.
    pub fn all(
        spec: &TableSpec,
        filters: &Filters,
        table: Option<&Arc<Table>>,
        chunks: &[Chunk],
        works: Vec<(usize, FilterWork)>,
    ) -> Vec<(usize, Self)> {
        let mut contents: Vec<(usize, Self)> = Vec::new();
        let mut works: Vec<_> = works.into_iter().map(|(key, work)| (key, Arc::new(work))).collect();
        for &(_, key) in filters {
            if contents.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let Some(table) = table else {
                contents.push((key, Self::Empty));
                continue;
            };
            let has_null = |chunk: &Chunk| chunk.keys[key].nulls.is_some();
            if spec.null_equal && chunks.iter().any(has_null) {
                // NULL would have to pass.
                continue;
            }
            let bounds = Some(key_bounds(chunks.iter(), key)).filter(|(min, max)| min <= max);
            let bounds = bounds
                .filter(|_| words_are_ordered(spec.keys[key].expression.data_type()) && spec.keys[key].kind.is_word());
            if let Some(place) = works.iter().position(|(other, _)| *other == key) {
                contents.push((key, Self::Work(works.swap_remove(place).1, bounds)));
            } else if let (1, Table::Dense(dense)) = (spec.keys.len(), &**table) {
                contents.push((key, Self::Words(dense.clone(), bounds)));
            }
        }
        contents
    }
}

/// Fills the filters of a join from what its build side says.
pub(in super::super) fn fill_filters(
    spec: &TableSpec,
    filters: &Filters,
    contents: &[(usize, FilterContent)],
) -> Result<()> {
    for (filter, key) in filters {
        let logical = spec.keys[*key].expression.data_type();
        match contents.iter().find(|(other, _)| other == key) {
            Some((_, FilterContent::Empty)) => filter.set_empty(),
            Some((_, FilterContent::Work(work, bounds))) => filter.set_work(work.clone(), *bounds, logical)?,
            Some((_, FilterContent::Words(words, bounds))) => filter.set_words(words.clone(), *bounds, logical)?,
            None => {}
        }
    }
    Ok(())
}
