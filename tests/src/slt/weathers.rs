//! The weathers: ways to run the same scripts, which must not change an answer.

use std::sync::Arc;

use diligence_base::limits::MEMORY_BYTES_MIN;
use diligence_base::seams::Random;
use diligence_db::{DatabaseOptions, SegmentSizes};
use diligence_engine::plan::bytes::PlanPass;
use diligence_engine::stages::PolicyKind;

use super::scripts::Script;
use super::written::WrittenPlans;

/// Seeds of the inline executor.
const INLINE_SEEDS: u64 = 20;

/// Seeds of the inline executor that a script is run under by default. Seed s runs the scripts at the positions p with
/// (p + s + drawn) % 20 below this, so that every seed has its share, and other scripts each time.
const SEEDS_PER_SCRIPT: u64 = 8;

/// The same of long scripts. Batches of one row make a long script take as long as all others together, so its weather
/// draws a seed and runs that seed's share of the long scripts, and all others.
const SEEDS_PER_LONG_SCRIPT: u64 = 2;

/// Budgets drawn at random.
const BUDGETS_DRAWN: usize = 3;

/// They are below the smallest times two to this power.
const BUDGET_POWERS: usize = 5;

/// A way to run the scripts.
pub struct Weather {
    /// `kind` or `kind:parameter`.
    pub name: String,
    /// What is different.
    pub about: String,
    workers: Option<usize>,
    inline_seed: Option<u64>,
    /// Whose share of the scripts runs; all of them, if `None`.
    share: Option<Share>,
    memory_bytes: Option<usize>,
    settings: Vec<(&'static str, String)>,
    /// How many rows segments have, where tables are on disk and there is a checkpoint after each statement.
    pub kept: Option<SegmentSizes>,
    /// Whether statements go through a server.
    pub over_the_wire: bool,
    /// Whether each query runs twice at the same time.
    pub twice: bool,
    /// Whether plans are written down and read back before they run.
    writes_plans: bool,
}

/// A part of the scripts.
struct Share {
    seed: u64,
    /// Seeds that run a script.
    per_script: u64,
}

/// All of them. The name of a random one says its budget, so a failure is seen again by that name.
pub fn all(seed: u64) -> Vec<Weather> {
    let drawn = Random::new(seed).below(INLINE_SEEDS as usize) as u64;
    let mut all = vec![
        weather("default", "nothing is set"),
        Weather {
            settings: vec![("batch_rows", "1".to_owned())],
            share: Some(Share { seed: drawn, per_script: INLINE_SEEDS }),
            ..weather("one-row-batches", "every batch has one row")
        },
        Weather {
            settings: vec![("sharing_rows", "0".to_owned())],
            ..weather("sharing:forced", "whatever may be shared is, however small")
        },
        Weather {
            memory_bytes: Some(MEMORY_BYTES_MIN),
            settings: vec![("sharing_rows", "0".to_owned())],
            ..weather("sharing:forced-in-little-memory", "the same in the smallest memory budget that there is")
        },
        Weather { settings: vec![("sharing", "off".to_owned())], ..weather("sharing:off", "nothing is shared") },
        Weather {
            settings: vec![("sharing_rows", "0".to_owned())],
            twice: true,
            ..weather("sharing:twice", "each query runs twice at the same time, and shares whatever may be shared")
        },
        Weather {
            over_the_wire: true,
            ..weather("pgwire", "statements go through a server, over PostgreSQL's protocol")
        },
        Weather {
            kept: Some(SegmentSizes { rows_min: 1, cluster_rows: 100, keys_min: 1 }),
            ..weather("kept", "tables are on disk, in small segments, with a checkpoint after each statement")
        },
        Weather {
            writes_plans: true,
            ..weather("plans:written", "each plan is written down as bytes, and what is read back runs")
        },
        Weather { workers: Some(1), ..weather("workers:1", "one worker") },
        Weather { workers: Some(4), ..weather("workers:4", "four workers, also where there are fewer cores") },
    ];
    for policy in PolicyKind::ALL {
        all.push(Weather {
            settings: vec![("stage_policy", policy.to_string())],
            ..weather(&format!("policy:{policy}"), "another policy for what runs next")
        });
    }
    all.push(Weather {
        settings: vec![("stage_policy", "two_level(6), scan: t_gated(2), join: d_gated, sort: fcfs".to_owned())],
        ..weather("policy:of-stages", "stages with policies of their own for what runs next")
    });
    all.push(Weather {
        workers: Some(3),
        settings: vec![("stage_workers", "scan: 1, join: 2, aggregate: 1, sort: 1, exchange: 1, window: 1".to_owned())],
        ..weather("workers:of-stages", "three workers, of which one or two serve a stage at once")
    });
    let mut random = Random::new(seed);
    all.push(of_memory(MEMORY_BYTES_MIN, "the smallest memory budget that there is"));
    for _ in 0..BUDGETS_DRAWN {
        // As many small ones as large ones.
        let power = MEMORY_BYTES_MIN << random.below(BUDGET_POWERS);
        all.push(of_memory(power + random.below(power), "a memory budget drawn at random"));
    }
    for seed in 0..INLINE_SEEDS {
        all.push(Weather {
            inline_seed: Some(seed),
            share: Some(Share { seed: seed + drawn, per_script: SEEDS_PER_SCRIPT }),
            ..weather(&format!("inline:{seed}"), "packets run on one thread, in an order given by the seed")
        });
    }
    all
}

/// The weather of that name, if it is one with any budget: `memory:30000KiB`.
pub fn named(name: &str) -> Option<Weather> {
    let kib: usize = name.strip_prefix("memory:")?.strip_suffix("KiB")?.parse().ok()?;
    Some(of_memory(kib << 10, "the memory budget that its name says"))
}

fn of_memory(bytes: usize, about: &str) -> Weather {
    let kib = bytes >> 10;
    Weather { memory_bytes: Some(kib << 10), ..weather(&format!("memory:{kib}KiB"), about) }
}

/// One in which nothing is set.
fn weather(name: &str, about: &str) -> Weather {
    Weather {
        name: name.to_owned(),
        about: about.to_owned(),
        workers: None,
        inline_seed: None,
        share: None,
        memory_bytes: None,
        settings: Vec::new(),
        kept: None,
        over_the_wire: false,
        twice: false,
        writes_plans: false,
    }
}

impl Weather {
    /// The part of the name before the colon.
    pub fn kind(&self) -> &str {
        self.name.split(':').next().unwrap_or(&self.name)
    }

    /// True if a user who says this means this weather; nothing means every weather.
    pub fn is_called(&self, name: &str) -> bool {
        name.is_empty() || name == self.name || name == self.kind()
    }

    /// How a database is opened in this weather.
    pub fn options(&self) -> DatabaseOptions {
        DatabaseOptions {
            workers: self.workers,
            inline_seed: self.inline_seed,
            segments: self.kept.unwrap_or_default(),
            memory_bytes: self.memory_bytes,
            plan_pass: self.writes_plans.then(|| Arc::new(WrittenPlans) as Arc<dyn PlanPass>),
            settings: self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            ..DatabaseOptions::default()
        }
    }

    /// Why the script at this position is left out here, if it is.
    pub fn skips(&self, script: &Script, position: usize) -> Option<&'static str> {
        if self.over_the_wire && script.is_embedded_only {
            return Some("what the script asks for is only in the library; the script says why");
        }
        let share = self.share.as_ref()?;
        let place = (position as u64 + share.seed) % INLINE_SEEDS;
        let long = script.scale_factor.is_some_and(|scale_factor| scale_factor > 0.05);
        if long && place >= SEEDS_PER_LONG_SCRIPT {
            return Some("TPC-H at scale factor 0.1 runs under 2 of 20 seeds only, because of the time");
        }
        (place >= share.per_script).then_some("a script runs under 8 of 20 seeds, others each time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_some_seeds_and_long_ones_fewer() {
        let script = |scale_factor| Script {
            name: "a.slt".to_owned(),
            scale_factor,
            records: Vec::new(),
            is_embedded_only: false,
        };
        let inline: Vec<_> = all(1).into_iter().filter(|weather| weather.kind() == "inline").collect();
        let runs = |script: &Script, position| {
            inline.iter().filter(|weather| weather.skips(script, position).is_none()).count()
        };
        for position in 0..40 {
            assert_eq!(runs(&script(Some(0.1)), position), 2);
            assert_eq!(runs(&script(Some(0.01)), position), 8);
            assert_eq!(runs(&script(None), position), 8);
        }
    }

    #[test]
    fn a_weather_is_called_by_its_name_or_its_kind() {
        let all = all(1);
        let called = |name: &str| all.iter().filter(|weather| weather.is_called(name)).count();
        assert_eq!((called("inline:7"), called("inline"), called("policy"), called("nice")), (1, 20, 7, 0));
        assert_eq!((called("memory:16384KiB"), called("memory")), (1, 4));
        assert_eq!(called(""), all.len());
    }

    #[test]
    fn any_budget_is_a_weather() {
        let named = named("memory:30001KiB").unwrap();
        assert_eq!((named.memory_bytes, named.is_called("memory:30001KiB")), (Some(30_001 << 10), true));
        assert!(["memory:x", "memory:30MiB", "inline:7"].iter().all(|name| super::named(name).is_none()));
        let drawn = |seed| all(seed).into_iter().filter_map(|weather| weather.memory_bytes).collect::<Vec<_>>();
        assert_ne!(drawn(1), drawn(2));
        assert!(drawn(3).iter().all(|bytes| *bytes >= MEMORY_BYTES_MIN));
    }
}
