//! How many workers may serve one stage at once.

use std::fmt;
use std::str::FromStr;

use diligence_base::{Error, Result};

use super::StageId;

const STAGES: usize = StageId::ALL.len();

/// Workers that may run packets of each stage at the same time: as text `scan: 1, sort: 2`, or `all`.
///
/// The thesis proposal has threads of its own for each stage, and tunes their number (section 4.4.1). Here every worker
/// serves every stage, so a stage has a limit instead. What gives memory back has none, because others wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageWorkers([usize; STAGES]);

impl StageWorkers {
    /// How many may serve a stage; `None` is all.
    pub fn of(self, stage: StageId) -> Option<usize> {
        Some(self.0[stage as usize]).filter(|workers| *workers > 0)
    }

    /// The same limits but for one stage, which `None` or 0 leaves to all workers.
    #[must_use]
    pub fn with(mut self, stage: StageId, workers: Option<usize>) -> Self {
        if stage != StageId::Memory {
            self.0[stage as usize] = workers.unwrap_or(0);
        }
        self
    }

    /// Whether any stage has a limit.
    pub fn is_any(self) -> bool {
        self.0.iter().any(|workers| *workers > 0)
    }
}

impl fmt::Display for StageWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_any() {
            return f.write_str("all");
        }
        let limited = StageId::ALL.into_iter().filter_map(|stage| Some((stage.name(), self.of(stage)?)));
        for (place, (name, workers)) in limited.enumerate() {
            write!(f, "{}{name}: {workers}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for StageWorkers {
    type Err = Error;

    /// An input error where a part is no stage and a number from 1 on, or a stage has two numbers or can have none.
    fn from_str(text: &str) -> Result<Self> {
        let mut all = Self::default();
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(all);
        }
        for part in text.split(',') {
            let wrong = |message: String| {
                let limited = StageId::ALL.into_iter().filter(|stage| *stage != StageId::Memory).map(StageId::name);
                let names = limited.collect::<Vec<_>>().join(", ");
                let hint =
                    format!("say all, or a number for each of some stages, as in 'scan: 1, sort: 2', of {names}");
                Error::input(message).with_hint(hint)
            };
            let (name, workers) = part.split_once(':').unwrap_or((part, ""));
            let name = name.trim().to_ascii_lowercase();
            let found = StageId::ALL.into_iter().find(|stage| stage.name() == name && *stage != StageId::Memory);
            let stage =
                found.ok_or_else(|| wrong(format!("there is no stage '{name}' whose workers can be limited")))?;
            let number = workers.trim().parse::<usize>().ok().filter(|workers| *workers > 0);
            let number = number.ok_or_else(|| wrong(format!("'{}' is not a number of workers", workers.trim())))?;
            if all.of(stage).is_some() {
                return Err(wrong(format!("two numbers of workers for {name}")));
            }
            all = all.with(stage, Some(number));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_shown() {
        let limits: StageWorkers = " SORT:2 , scan : 1 ".parse().unwrap();
        assert_eq!(limits.to_string(), "scan: 1, sort: 2");
        assert_eq!(limits.to_string().parse::<StageWorkers>().unwrap(), limits);
        assert_eq!((limits.of(StageId::Scan), limits.of(StageId::Join)), (Some(1), None));
        assert_eq!(limits.with(StageId::Sort, None).with(StageId::Scan, Some(0)), StageWorkers::default());
        assert_eq!(limits.with(StageId::Memory, Some(1)), limits);
        assert_eq!("All".parse::<StageWorkers>().unwrap().to_string(), "all");
        for wrong in
            ["", "scan", "scan: 0", "scan: -1", "scan: x", "scans: 1", "memory: 1", "scan: 1, scan: 2", "scan: 1,"]
        {
            let error = wrong.parse::<StageWorkers>().unwrap_err();
            assert!(error.hint().unwrap().contains("'scan: 1, sort: 2'"), "{wrong}: {error}");
        }
    }
}
