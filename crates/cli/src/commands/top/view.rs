//! Draws the screen of `windlass top` from snapshots. Knows nothing of stores or keys.

use super::snapshot::{Queue, Snapshot};
use crate::output::ago;
use windlass_core::Timestamp;
use windlass_core::time::rough_span;

/// Lines for workers at the bottom, including their header.
const WORKER_LINES: usize = 8;
/// Lines above the queues: the summary, an empty line and the column headers.
const TOP_LINES: usize = 3;
/// Width of the first column of the queues.
const NAME_WIDTH: usize = 26;
/// Width of the other columns of the queues.
const COUNT_WIDTH: usize = 10;
/// Width of the first column of the workers.
const WORKER_WIDTH: usize = 40;
/// Column headers of the queues, after their names.
const HEADS: [&str; 9] =
    ["DEPTH", "READY", "SCHEDULED", "BLOCKED", "PAUSED", "RUNNING", "DEAD", "OLDEST", "DEPTH/s"];

const BOLD: &str = "1";
const FAINT: &str = "2";
const RED: &str = "31";
const YELLOW: &str = "33";
const REVERSED: &str = "7";

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    store: String,
    latest: Option<Snapshot>,
    before: Option<Snapshot>,
    error: Option<String>,
    /// The selected queue.
    place: usize,
}

impl View {
    /// An empty screen for the store with this name.
    pub(super) const fn new(store: String) -> Self {
        Self { store, latest: None, before: None, error: None, place: 0 }
    }

    /// Shows the next snapshot and clears the error.
    pub(super) fn show(&mut self, snapshot: Snapshot) {
        self.before = self.latest.replace(snapshot);
        self.error = None;
    }

    /// Shows the error of a failed read.
    pub(super) fn fail(&mut self, error: &anyhow::Error) {
        self.error = Some(crate::exit::sentence(error));
    }

    /// Moves the selection by `step` queues.
    pub(super) fn select(&mut self, step: isize) {
        let count = self.latest.as_ref().map_or(0, |it| it.queues.len());
        self.place = self.place.saturating_add_signed(step).min(count.saturating_sub(1));
    }

    /// The selected queue, and whether it is paused.
    pub(super) fn selected(&self) -> Option<(String, bool)> {
        let queues = &self.latest.as_ref()?.queues;
        let (name, queue) = queues.iter().nth(self.place)?;
        Some((name.clone(), queue.paused))
    }

    /// The lines of a screen of this size.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let mut lines = Lines { width, lines: Vec::new() };
        self.head(&mut lines);
        if let Some(latest) = &self.latest {
            let workers = WORKER_LINES.min(latest.workers.len() + 2);
            let rows = height.saturating_sub(TOP_LINES + workers).max(1);
            self.queues(latest, rows, &mut lines);
            workers_of(latest, workers, &mut lines);
        }
        lines.lines.truncate(height);
        lines.lines
    }

    fn head(&self, lines: &mut Lines) {
        let title = format!("windlass  {}", self.store);
        if let Some(error) = &self.error {
            lines.push(&[(&title, BOLD), (&format!("  {error}"), RED)]);
        } else if let Some(latest) = &self.latest {
            let sum = |of: fn(&Queue) -> u64| latest.queues.values().map(of).sum::<u64>();
            let (depth, running) = (sum(|it| it.sums.depth), sum(|it| it.sums.running));
            let dead = sum(|it| it.sums.dead);
            lines.push(&[
                (&title, BOLD),
                (&format!("  {depth} waiting, {running} running, "), ""),
                (&format!("{dead} dead"), if dead > 0 { RED } else { "" }),
                (&format!("   {}   q quits, p pauses", latest.now), FAINT),
            ]);
        } else {
            lines.push(&[(&title, BOLD)]);
        }
        lines.push(&[]);
    }

    /// The queues around the selected one, as many as there are lines.
    fn queues(&self, latest: &Snapshot, rows: usize, lines: &mut Lines) {
        let heads: String = HEADS.iter().map(|head| right(head)).collect();
        lines.push(&[(&format!("{:<NAME_WIDTH$}{heads}", "QUEUE"), BOLD)]);
        let first = self.place.saturating_sub(rows.saturating_sub(1));
        for (at, (name, queue)) in latest.queues.iter().enumerate().skip(first).take(rows) {
            let per_second = self.before.as_ref().and_then(|before| change(before, latest, name));
            let style = match (at == self.place, queue.paused) {
                (true, _) => REVERSED,
                (false, true) => YELLOW,
                (false, false) => "",
            };
            row(name, queue, per_second, latest.now, style, lines);
        }
    }
}

fn row(
    name: &str,
    queue: &Queue,
    per_second: Option<f64>,
    now: Timestamp,
    style: &str,
    lines: &mut Lines,
) {
    let sums = &queue.sums;
    let name = if queue.paused { format!("{name} (queue paused)") } else { name.to_owned() };
    let counts =
        [sums.depth, sums.available, sums.scheduled, sums.blocked, sums.paused, sums.running];
    let counts: String = counts.iter().map(|count| right(&count.to_string())).collect();
    let dead = right(&sums.dead.to_string());
    let oldest = sums.oldest.map(|at| rough_span(now.since(at))).unwrap_or_default();
    let growth = per_second.map(|it| format!("{it:+.1}")).unwrap_or_default();
    let dead_style = if sums.dead > 0 && style.is_empty() { RED } else { style };
    lines.push(&[
        (&format!("{:<NAME_WIDTH$}{counts}", cut(&name, NAME_WIDTH - 1)), style),
        (&dead, dead_style),
        (&format!("{}{}", right(&oldest), right(&growth)), style),
    ]);
}

fn workers_of(latest: &Snapshot, lines_max: usize, lines: &mut Lines) {
    let head = format!("{:<WORKER_WIDTH$}{:>COUNT_WIDTH$}  SINCE", "WORKER", "RUNNING");
    lines.push(&[]);
    lines.push(&[(&head, BOLD)]);
    for worker in latest.workers.iter().take(lines_max.saturating_sub(2)) {
        let (name, running) = (cut(&worker.worker, WORKER_WIDTH - 1), worker.running);
        let since = ago(worker.opened_at, latest.now);
        lines.push(&[(&format!("{name:<WORKER_WIDTH$}{running:>COUNT_WIDTH$}  {since}"), "")]);
    }
}

/// Lines of a width, under construction.
struct Lines {
    width: usize,
    lines: Vec<String>,
}

impl Lines {
    /// Adds a line of texts with their styles, cut at the width.
    fn push(&mut self, texts: &[(&str, &str)]) {
        let (mut line, mut left) = (String::new(), self.width);
        for (text, style) in texts {
            // Names may contain characters that move the cursor.
            let shown: String = text.chars().filter(|c| !c.is_control()).take(left).collect();
            left -= shown.chars().count();
            match style.is_empty() {
                true => line += &shown,
                false => line += &format!("\x1b[{style}m{shown}\x1b[0m"),
            }
        }
        self.lines.push(line);
    }
}

fn right(text: &str) -> String {
    format!("{text:>COUNT_WIDTH$}")
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// The growth of a queue's depth between two snapshots, in jobs per second.
fn change(before: &Snapshot, latest: &Snapshot, queue: &str) -> Option<f64> {
    let seconds = latest.now.since(before.now) as f64 / 1_000.0;
    let depth = |of: &Snapshot| of.queues.get(queue).map_or(0, |it| it.sums.depth) as f64;
    (seconds > 0.0).then(|| (depth(latest) - depth(before)) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn snapshot(at: i64, depth: u64) -> Snapshot {
        let mut mail = Queue::default();
        (mail.sums.depth, mail.sums.available, mail.sums.dead) = (depth, depth, 3);
        let slow = Queue { paused: true, ..Queue::default() };
        let queues = BTreeMap::from([("mail".to_owned(), mail), ("slow".to_owned(), slow)]);
        Snapshot { now: Timestamp::from_millis(at), queues, workers: Vec::new() }
    }

    fn screen(view: &View) -> String {
        view.lines(120, 20).join("\n")
    }

    #[test]
    fn queues_are_shown_with_how_fast_they_grow() {
        let mut view = View::new("file:./jobs".into());
        view.show(snapshot(1_000, 10));
        view.show(snapshot(3_000, 40));
        let screen = screen(&view);
        for part in
            ["file:./jobs", "40 waiting", "3 dead", "+15.0", "slow (queue paused)", "WORKER"]
        {
            assert!(screen.contains(part), "{part} in\n{screen}");
        }
    }

    #[test]
    fn a_store_that_is_away_is_said_and_what_was_seen_stays() {
        let mut view = View::new("file:./jobs".into());
        view.show(snapshot(1_000, 10));
        view.fail(&anyhow::anyhow!("not answering"));
        let screen = screen(&view);
        assert!(screen.contains("not answering") && screen.contains("mail"), "{screen}");
    }

    #[test]
    fn the_selection_stays_on_the_list_and_on_the_screen() {
        let mut view = View::new("memory:".into());
        assert_eq!(view.selected(), None);
        view.show(snapshot(1_000, 1));
        view.select(-1);
        assert_eq!(view.selected(), Some(("mail".into(), false)));
        view.select(5);
        assert_eq!(view.selected(), Some(("slow".into(), true)));
        let small = view.lines(40, 4).join("\n");
        assert!(small.contains("slow (queue") && !small.contains("mail"), "{small}");
    }

    #[test]
    fn lines_are_cut_at_the_width_and_never_move_the_cursor() {
        let mut view = View::new("x\x1b[2Jy".repeat(40));
        view.show(snapshot(1_000, 1));
        for line in view.lines(30, 10) {
            let styles = ["\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[31m", "\x1b[33m", "\x1b[0m"];
            let plain = styles.iter().fold(line, |line, style| line.replace(style, ""));
            assert!(!plain.contains('\x1b') && plain.chars().count() <= 30, "{plain:?}");
        }
    }
}
