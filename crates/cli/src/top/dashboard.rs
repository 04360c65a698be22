//! A snapshot as lines of text.

use console::{measure_text_width, truncate_str};
use diligence_db::status::{display_bytes, display_ns};
use nu_ansi_term::{Color, Style};

use super::snapshot::{FrontStage, Query, Snapshot};
use crate::output::printable;

/// The width of a bar in characters.
const BAR_WIDTH: usize = 12;
/// The most ended queries that are listed.
const ENDED_MAX: usize = 8;

/// The dashboard in lines of at most `width` columns. Rates are since the snapshot `before`.
pub fn lines(snapshot: &Snapshot, before: Option<&Snapshot>, width: usize, colored: bool) -> Vec<String> {
    let palette = Palette(colored);
    let seconds = before.map(|before| snapshot.at.duration_since(before.at).as_secs_f64().max(0.001));
    let per_second = |now: u64, then: Option<u64>| match (seconds, then) {
        (Some(seconds), Some(then)) => format!("{:.0}", now.saturating_sub(then) as f64 / seconds),
        _ => "–".to_owned(),
    };
    let mut lines = vec![head(snapshot, &palette), String::new()];

    let title = format!("{:<14}{:>18}{:>18}{:>12}{:>10}{:>12}", "stage", "running", "queue", "done", "per s", "wait");
    lines.push(palette.title(&title));
    for stage in &snapshot.front {
        let then = before.and_then(|before| before.front.iter().find(|other| other.name == stage.name));
        let rate = per_second(stage.done_total, then.map(|then| then.done_total));
        lines.push(front(stage, &rate, &palette));
    }
    lines.push(String::new());

    let title =
        format!("{:<14}{:>18}{:>18}{:>12}{:>10}{:>12}", "engine", "running", "queue", "turns", "per s", "workers");
    lines.push(palette.title(&title));
    // Stages that were never used would only take space.
    for stage in snapshot.stages.iter().filter(|stage| stage.turns_total + stage.queued + stage.running > 0) {
        let then = before.and_then(|before| before.stages.iter().find(|other| other.name == stage.name));
        let rate = per_second(stage.turns_total, then.map(|then| then.turns_total));
        let busy = match (seconds, then) {
            (Some(seconds), Some(then)) => {
                let us = stage.service_us_total.saturating_sub(then.service_us_total);
                format!("{:.2}", us as f64 / 1e6 / seconds)
            }
            _ => "–".to_owned(),
        };
        let (running, queued) = (stage.running, stage.queued);
        let line = format!("{:<14}{running:>18}{queued:>18}{:>12}{rate:>10}{busy:>12}", stage.name, stage.turns_total);
        lines.push(if running > 0 { palette.busy(&line) } else { line });
    }
    lines.push(String::new());

    lines.push(palette.title(&format!(
        "{:>8}  {:<10}{:>10}  {:<19}{:>10}  statement",
        "query", "state", "time", "progress", "memory"
    )));
    let mut ended = 0;
    for query in &snapshot.queries {
        ended += usize::from(!query.is_active());
        if ended <= ENDED_MAX {
            lines.push(self::query(query, &palette));
        }
    }
    if snapshot.queries.is_empty() {
        lines.push(palette.faint("    none yet"));
    }
    lines.iter().map(|line| truncate_str(line, width, "…").into_owned()).collect()
}

fn head(snapshot: &Snapshot, palette: &Palette) -> String {
    let waiting = snapshot.queries.iter().filter(|query| query.waiting.is_some()).count();
    let running = snapshot.queries.iter().filter(|query| query.is_active()).count() - waiting;
    let waiting = if waiting == 0 { String::new() } else { format!("{waiting} waiting   ") };
    let memory = match snapshot.budget_bytes {
        0 => display_bytes(snapshot.memory_bytes as usize),
        budget => {
            let bar = bar(snapshot.memory_bytes, budget);
            let (used, budget) = (display_bytes(snapshot.memory_bytes as usize), display_bytes(budget as usize));
            format!("{} {used} of {budget}", palette.busy(&bar))
        }
    };
    let temp = display_bytes(snapshot.temp_bytes as usize);
    format!(
        "{}   {running} running   {waiting}{} sessions   memory {memory}   temp {temp}",
        palette.strong("diligence"),
        snapshot.sessions
    )
}

fn front(stage: &FrontStage, rate: &str, palette: &Palette) -> String {
    let of = |used: Option<u64>, all: Option<u64>| match (used, all) {
        (Some(used), Some(all)) => format!("{used} of {all}"),
        (Some(used), None) => used.to_string(),
        _ => "–".to_owned(),
    };
    let wait = match (stage.wait_us_total, stage.done_total) {
        (Some(us), done @ 1..) => display_ns(us.saturating_mul(1000) / done),
        _ => "–".to_owned(),
    };
    let (running, queue) = (of(stage.running, stage.running_max), of(stage.queued, stage.queue_max));
    let mut line = format!("{:<14}{running:>18}{queue:>18}{:>12}{rate:>10}{wait:>12}", stage.name, stage.done_total);
    // The plan cache counts misses as refusals; no statement is rejected.
    if stage.refused_total > 0 && stage.name != "plan cache" {
        line.push_str(&palette.bad(&format!("   {} rejected", stage.refused_total)));
    }
    match (stage.queued, stage.queue_max) {
        (Some(queued), Some(all)) if queued >= all && stage.name != "plan cache" => palette.bad(&line),
        _ if stage.running.is_some_and(|running| running > 0) => palette.busy(&line),
        _ => line,
    }
}

fn query(query: &Query, palette: &Palette) -> String {
    let progress = match (&query.waiting, query.clusters_total) {
        (Some((position, _)), _) => format!("number {position}"),
        (None, total @ 1..) if query.is_active() => {
            format!("{} {:>3} %", bar(query.clusters_done, total), 100 * query.clusters_done.min(total) / total)
        }
        _ => String::new(),
    };
    let memory = display_bytes(query.memory_bytes as usize);
    let statement = query.statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let time = display_ns(query.elapsed_us.saturating_mul(1000));
    let fill = " ".repeat(19usize.saturating_sub(measure_text_width(&progress)));
    let (memory, reason) = match &query.waiting {
        Some((_, reason)) => (String::new(), format!("{reason}: ")),
        None => (memory, String::new()),
    };
    let statement = printable(&statement);
    let line =
        format!("{:>8}  {:<10}{time:>10}  {progress}{fill}{memory:>10}  {reason}{statement}", query.id, query.state);
    if query.is_active() { palette.busy(&line) } else { palette.faint(&line) }
}

fn bar(part: u64, whole: u64) -> String {
    let filled = (part.min(whole) as f64 / whole.max(1) as f64 * BAR_WIDTH as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled))
}

/// Styles, or none without a terminal.
struct Palette(bool);

impl Palette {
    fn with(&self, style: Style, text: &str) -> String {
        if self.0 { style.paint(text).to_string() } else { text.to_owned() }
    }

    fn title(&self, text: &str) -> String {
        self.with(Style::new().fg(Color::Cyan), text)
    }

    fn strong(&self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    fn busy(&self, text: &str) -> String {
        self.with(Style::new().fg(Color::Green), text)
    }

    fn bad(&self, text: &str) -> String {
        self.with(Style::new().fg(Color::Red), text)
    }

    fn faint(&self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::snapshot::EngineStage;
    use super::*;

    fn snapshot(at: Instant, done: u64) -> Snapshot {
        let front = FrontStage {
            name: "optimize".to_owned(),
            queued: Some(3),
            queue_max: Some(256),
            running: Some(2),
            running_max: Some(2),
            done_total: done,
            refused_total: 0,
            wait_us_total: Some(done * 40),
        };
        let scan = EngineStage {
            name: "scan".to_owned(),
            turns_total: done,
            service_us_total: done * 1000,
            ..EngineStage::default()
        };
        let running = Query {
            id: 7,
            state: "running".to_owned(),
            clusters_done: 5,
            clusters_total: 10,
            statement: "SELECT\n  1\u{1b}[2J".to_owned(),
            ..Query::default()
        };
        let waiting = Query {
            id: -8,
            state: "waiting".to_owned(),
            waiting: Some((2, "of heavy queries: behind others".to_owned())),
            statement: "SELECT 2".to_owned(),
            ..Query::default()
        };
        let ended = Query { id: 6, state: "finished".to_owned(), ..Query::default() };
        Snapshot {
            at,
            front: vec![front],
            stages: vec![scan],
            queries: vec![running, waiting, ended],
            sessions: 4,
            memory_bytes: 1 << 30,
            budget_bytes: 4 << 30,
            temp_bytes: 0,
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let now = Instant::now();
        let first = snapshot(now, 1000);
        let second = snapshot(now + Duration::from_secs(2), 1500);
        let alone = lines(&first, None, 200, false).join("\n");
        assert!(
            alone.contains("1 running   1 waiting   4 sessions   memory ███░░░░░░░░░ 1.0 GiB of 4.0 GiB"),
            "{alone}"
        );
        let both = lines(&second, Some(&first), 200, false);
        let words = |name: &str| {
            let line = both.iter().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("optimize"), ["optimize", "2", "of", "2", "3", "of", "256", "1500", "250", "40.0", "us"]);
        assert_eq!(words("scan").last().unwrap(), "0.25");
        let waits = both.iter().find(|line| line.contains("  waiting ")).unwrap();
        assert!(
            waits.starts_with("      -8  waiting")
                && waits.contains("number 2")
                && waits.ends_with("of heavy queries: behind others: SELECT 2"),
            "{waits}"
        );
    }

    #[test]
    fn a_line_is_no_wider_than_the_terminal_and_commands_it_nothing() {
        for width in [20, 60, 110] {
            for colored in [false, true] {
                let board = lines(&snapshot(Instant::now(), 1), None, width, colored);
                assert!(board.iter().all(|line| measure_text_width(line) <= width), "{board:?}");
                assert!(board.iter().all(|line| !line.contains("\u{1b}[2J")));
            }
        }
        let plain = lines(&snapshot(Instant::now(), 1), None, 110, false).join("\n");
        assert!(!plain.contains('\u{1b}') && plain.contains("██████░░░░░░  50 %"), "{plain}");
    }
}
