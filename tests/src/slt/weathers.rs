//! The weathers: ways to run the same scripts, which must not change an answer.

use diligence_db::DatabaseOptions;
use diligence_engine::stages::PolicyKind;

use super::scripts::Script;

/// Seeds of the inline executor.
const INLINE_SEEDS: u64 = 20;

/// Seeds that one script is run under by default: seed s runs the scripts at every position p with (p + s) % 20 below this, so that
/// every seed is used, every script meets this many, and the whole takes a tenth of the time of all of them.
const SEEDS_PER_SCRIPT: u64 = 2;

/// A way to run the scripts.
pub struct Weather {
    /// `kind` or `kind:parameter`.
    pub name: String,
    /// What is different.
    pub about: String,
    workers: Option<usize>,
    inline_seed: Option<u64>,
    settings: Vec<(&'static str, String)>,
}

/// All of them.
pub fn all() -> Vec<Weather> {
    let weather = |name: &str, about: &str| Weather {
        name: name.to_owned(),
        about: about.to_owned(),
        workers: None,
        inline_seed: None,
        settings: Vec::new(),
    };
    let mut all = vec![
        weather("default", "nothing is set"),
        Weather {
            settings: vec![("batch_rows", "1".to_owned())],
            ..weather("one-row-batches", "every batch has one row")
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
    for seed in 0..INLINE_SEEDS {
        all.push(Weather {
            inline_seed: Some(seed),
            ..weather(&format!("inline:{seed}"), "packets run on one thread, in an order given by the seed")
        });
    }
    all
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
            settings: self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            ..DatabaseOptions::default()
        }
    }

    /// Why the script at this position is left out here, if it is.
    pub fn skips(&self, script: &Script, position: usize) -> Option<&'static str> {
        let large = script.scale_factor.is_some_and(|scale_factor| scale_factor > 0.05);
        if self.kind() == "one-row-batches" && large {
            return Some("TPC-H at scale factor 0.1, because 600,000 batches of one row take minutes; 0.01 runs");
        }
        if let Some(seed) = self.inline_seed
            && (position as u64 + seed) % INLINE_SEEDS >= SEEDS_PER_SCRIPT
        {
            return Some("each script runs under 2 of the 20 seeds, because of the time; every seed runs some scripts");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_and_every_script_has_its_share() {
        let script = Script { name: "a.slt".to_owned(), scale_factor: None, records: Vec::new() };
        let inline: Vec<_> = all().into_iter().filter(|weather| weather.kind() == "inline").collect();
        assert_eq!(inline.len(), 20);
        for position in 0..40 {
            let ran = inline.iter().filter(|weather| weather.skips(&script, position).is_none()).count();
            assert_eq!(ran, 2);
        }
        for weather in &inline {
            assert!((0..20).any(|position| weather.skips(&script, position).is_none()), "{}", weather.name);
        }
    }

    #[test]
    fn a_weather_is_called_by_its_name_or_its_kind() {
        let all = all();
        let called = |name: &str| all.iter().filter(|weather| weather.is_called(name)).count();
        assert_eq!((called("inline:7"), called("inline"), called("policy"), called("nice")), (1, 20, 5, 0));
        assert_eq!(called(""), all.len());
    }
}
