//! Whether a setting is better than another: what queries took under the one and under the other.
//!
//! Compared are queries of one class of work with each other, by the logarithm of what they took: a third less is as
//! much for a lookup as for a join. The classes that have enough of them count alike, so many lookups do not outvote a
//! few joins. What the spans of one setting differ among themselves tells how much of a difference is chance.

use super::counters::{CLASSES, ClassCounters, Counters};

/// Queries of a class that must have ended under each of two settings for it to be judged.
const ENDED_MIN: u64 = 8;

/// A change is kept if queries take less by so much, as a logarithm: some 5 %.
const MARGIN: f64 = 0.05;

/// And if that is so many times what chance makes.
const ERRORS: f64 = 2.0;

/// A change that makes queries of one class take more by so much is not tried any longer: some 35 %.
const HARM: f64 = 0.3;

/// Queries of a class that must have ended for that.
const HARM_ENDED_MIN: u64 = 4;

/// What was measured under one setting.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    total: [ClassCounters; CLASSES],
    /// Mean logarithms of each span.
    means: Vec<[Option<f64>; CLASSES]>,
}

/// What is to be done with a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it stays.
    pub keep: bool,
    /// What queries took without it and with it, in nanoseconds: geometric means over the classes that were judged.
    /// `None` if there were none.
    pub took_ns: Option<(f64, f64)>,
}

impl Measured {
    /// Adds what happened in a span.
    pub fn add(&mut self, span: &Counters) {
        self.total.iter_mut().zip(span.classes).for_each(|(total, class)| *total = total.and(class));
        self.means.push(span.classes.map(ClassCounters::mean));
    }

    /// How much chance moves the mean of a class, squared; `None` where there are too few spans to tell.
    fn variance(&self, class: usize) -> Option<f64> {
        let means: Vec<f64> = self.means.iter().filter_map(|span| span[class]).collect();
        let count = means.len() as f64;
        if means.len() < 2 {
            return None;
        }
        let mean = means.iter().sum::<f64>() / count;
        let squares = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Some(squares / (count - 1.0) / count)
    }
}

/// The logarithms of what queries of a class took, without a change and with it, if enough have ended.
fn both(before: &Measured, after: &Measured, class: usize, ended_min: u64) -> Option<(f64, f64)> {
    let (before, after) = (before.total[class], after.total[class]);
    if before.ended < ended_min || after.ended < ended_min {
        return None;
    }
    Some((before.mean()?, after.mean()?))
}

/// Whether queries of a class take so much more that there is nothing to wait for.
pub fn is_harmful(before: &Measured, after: &Measured) -> bool {
    let harmed =
        |class| both(before, after, class, HARM_ENDED_MIN).is_some_and(|(before, after)| after - before > HARM);
    (0..CLASSES).any(harmed)
}

/// Whether a change stays. One that leads home stays unless queries take more; any other only if they take less.
pub fn judge(before: &Measured, after: &Measured, leads_home: bool) -> Verdict {
    let (mut sums, mut errors, mut judged, mut is_worse) = ((0.0, 0.0), 0.0, 0.0, false);
    for class in 0..CLASSES {
        let Some((old, new)) = both(before, after, class, ENDED_MIN) else { continue };
        let (Some(old_variance), Some(new_variance)) = (before.variance(class), after.variance(class)) else {
            continue;
        };
        let error = (old_variance + new_variance).sqrt();
        is_worse |= new - old > MARGIN.max(ERRORS * error);
        sums = (sums.0 + old, sums.1 + new);
        errors += old_variance + new_variance;
        judged += 1.0;
    }
    if judged == 0.0 {
        return Verdict { keep: false, took_ns: None };
    }
    let (old, new) = (sums.0 / judged, sums.1 / judged);
    let error = errors.sqrt() / judged;
    // Written so that what is no number keeps nothing.
    let is_better = if leads_home { new - old <= MARGIN / 2.0 } else { old - new >= MARGIN.max(ERRORS * error) };
    Verdict { keep: is_better && !is_worse, took_ns: Some((old.exp(), new.exp())) }
}

#[cfg(test)]
mod tests {
    use super::super::counters::logarithm;
    use super::*;

    /// Spans in which so many queries of a class took so long.
    fn measured(spans: &[&[(usize, u64, u64)]]) -> Measured {
        let mut measured = Measured::default();
        for span in spans {
            let mut counters = Counters::default();
            for &(class, ended, took_ns) in *span {
                counters.classes[class] = ClassCounters { ended, logarithms: ended * logarithm(took_ns) };
            }
            measured.add(&counters);
        }
        measured
    }

    #[test]
    fn less_time_is_better_if_it_is_more_than_chance() {
        let old = measured(&[&[(1, 10, 1000)], &[(1, 10, 1010)]]);
        let new = measured(&[&[(1, 10, 800)], &[(1, 10, 810)]]);
        let verdict = judge(&old, &new, false);
        let (before, after) = verdict.took_ns.unwrap();
        assert!(verdict.keep && (1000.0..1010.0).contains(&before) && (800.0..810.0).contains(&after));
        assert!(!judge(&new, &old, false).keep && !judge(&new, &old, true).keep);
        // As much less in the mean, but the spans differ by more.
        let restless = measured(&[&[(1, 10, 400)], &[(1, 10, 1600)]]);
        assert!(!judge(&old, &restless, false).keep);
        assert!(!judge(&old, &old, false).keep && judge(&old, &old, true).keep, "only home needs no reason");
    }

    #[test]
    fn many_lookups_do_not_outvote_a_few_joins() {
        let old = measured(&[&[(0, 1000, 1000), (4, 8, 1_000_000)], &[(0, 1000, 1001), (4, 8, 1_000_100)]]);
        let new = measured(&[&[(0, 1000, 500), (4, 8, 1_200_000)], &[(0, 1000, 500), (4, 8, 1_200_100)]]);
        assert!(!judge(&old, &new, false).keep, "one class takes more");
        assert!(!is_harmful(&old, &new) && is_harmful(&new, &old));
    }

    #[test]
    fn too_few_queries_say_nothing() {
        let few = |took| measured(&[&[(1, 3, took)], &[(1, 3, took)]]);
        assert_eq!(judge(&few(1000), &few(10), false), Verdict { keep: false, took_ns: None });
        assert_eq!(judge(&Measured::default(), &Measured::default(), true).took_ns, None);
        assert!(!is_harmful(&Measured::default(), &Measured::default()));
    }
}
