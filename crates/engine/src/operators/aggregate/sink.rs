//! The sink of an aggregate: its packets build groups, its parts merge them.

use std::sync::Arc;

use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reclaim;

use super::local::LocalGroups;
use super::shared::{Finished, Merging, SharedAggregate};
use crate::flow::profile::Spills;
use crate::flow::{QueryContext, Sink, SinkState};

/// Groups rows and aggregates each group.
pub(super) struct AggregateSink(pub Arc<SharedAggregate>);

impl Sink for AggregateSink {
    fn name(&self) -> &'static str {
        "Aggregate"
    }

    fn spills(&self) -> Option<Arc<Spills>> {
        Some(self.0.spills.clone())
    }

    fn bytes_min(&self, context: &QueryContext) -> usize {
        match (&context.temp, self.0.finished.get()) {
            // Nothing is left to be merged out of temp space.
            (Some(temp), Some(Finished { board: None, .. })) => self.0.retired.bytes_min(context, temp),
            (Some(temp), _) if self.0.may_spill() => self.0.spill_bytes(context, temp),
            _ => 0,
        }
    }

    fn bytes_at_rest(&self, _context: &QueryContext) -> usize {
        0
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        self.0.context.get_or_init(|| context.clone());
        Ok(Box::new(LocalGroups::new(self.0.clone(), context)?))
    }

    fn parts(&self) -> Result<usize> {
        let merging = match self.0.has_spilled() {
            true => Merging::nothing(),
            false => self.0.plan_merging()?,
        };
        let parts = merging.parts.len();
        self.0.merging.set(merging).map_err(|_| Error::bug("an aggregate was finished twice"))?;
        Ok(parts)
    }

    fn part(&self, index: usize, context: &QueryContext) -> Result<()> {
        match self.0.merge_part(index, &context.memory) {
            Ok(finished) => *self.0.merging()?.results[index].lock() = Some(finished),
            // The source will do it.
            Err(error) if error.kind() == ErrorKind::Resource && context.temp.is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn complete(&self) -> Result<()> {
        let finished = self.0.finish()?;
        self.0.finished.set(finished).map_err(|_| Error::bug("an aggregate was completed twice"))?;
        // It may be long until somebody reads it.
        self.0.spill.get().into_iter().for_each(|spill| spill.rest());
        if let Some(context) = self.0.context.get() {
            let at_rest: Arc<dyn Reclaim> = self.0.clone();
            context.memory.keep_at_rest(&at_rest);
        }
        Ok(())
    }
}
