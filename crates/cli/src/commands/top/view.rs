//! Draws the screen of `windlass top` from snapshots. Knows nothing of stores or keys.

use super::snapshot::{Queue, Snapshot};
use crate::output::ago;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use windlass_core::Timestamp;
use windlass_core::time::rough_span;

/// Lines for workers at the bottom, including their header.
const WORKER_LINES: u16 = 8;
/// Column headers of the queue table.
const HEADS: [&str; 10] = [
    "QUEUE",
    "DEPTH",
    "READY",
    "SCHEDULED",
    "BLOCKED",
    "PAUSED",
    "RUNNING",
    "DEAD",
    "OLDEST",
    "DEPTH/s",
];

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    store: String,
    latest: Option<Snapshot>,
    before: Option<Snapshot>,
    error: Option<String>,
    place: TableState,
}

impl View {
    /// An empty screen for the store with this name.
    pub(super) fn new(store: String) -> Self {
        let place = TableState::default().with_selected(0);
        Self { store, latest: None, before: None, error: None, place }
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
        let at = self.place.selected().unwrap_or_default();
        self.place.select(Some(at.saturating_add_signed(step).min(count.saturating_sub(1))));
    }

    /// The selected queue, and whether it is paused.
    pub(super) fn selected(&self) -> Option<(String, bool)> {
        let queues = &self.latest.as_ref()?.queues;
        let (name, queue) = queues.iter().nth(self.place.selected()?)?;
        Some((name.clone(), queue.paused))
    }

    /// Draws the whole screen.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = [Constraint::Length(2), Constraint::Min(3), Constraint::Length(WORKER_LINES)];
        let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.head(), top);
        self.draw_queues(frame, middle);
        self.draw_workers(frame, bottom);
    }

    fn head(&self) -> Paragraph<'_> {
        let mut line = vec![Span::from(format!("windlass  {}", self.store)).bold()];
        if let Some(error) = &self.error {
            line.push(Span::from(format!("  {error}")).red());
        } else if let Some(latest) = &self.latest {
            let sum = |of: fn(&Queue) -> u64| latest.queues.values().map(of).sum::<u64>();
            let (depth, running) = (sum(|it| it.sums.depth), sum(|it| it.sums.running));
            let dead = sum(|it| it.sums.dead);
            line.push(Span::from(format!("  {depth} waiting, {running} running, ")));
            let dead_style = if dead > 0 { Style::new().red() } else { Style::new() };
            line.push(Span::styled(format!("{dead} dead"), dead_style));
            line.push(Span::from(format!("   {}   q quits, p pauses", latest.now)).dim());
        }
        Paragraph::new(Line::from(line))
    }

    fn draw_queues(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(latest) = &self.latest else { return };
        let row = |(name, queue): (&String, &Queue)| {
            let per_second = self.before.as_ref().and_then(|before| change(before, latest, name));
            queue_row(name, queue, per_second, latest.now)
        };
        let rows: Vec<_> = latest.queues.iter().map(row).collect();
        let widths = [24, 9, 9, 9, 9, 9, 9, 9, 9, 9].map(Constraint::Length);
        let head = Row::new(HEADS.map(|head| figure(head, head != "QUEUE"))).bold();
        let table = Table::new(rows, widths).header(head);
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    fn draw_workers(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(latest) = &self.latest else { return };
        let rows = latest.workers.iter().map(|worker| {
            Row::new([
                Cell::from(worker.worker.clone()),
                figure(&worker.running.to_string(), true),
                Cell::from(ago(worker.opened_at, latest.now)),
            ])
        });
        let widths = [Constraint::Length(40), Constraint::Length(9), Constraint::Length(20)];
        let head =
            Row::new([figure("WORKER", false), figure("RUNNING", true), figure("SINCE", false)]);
        frame.render_widget(Table::new(rows, widths).header(head.bold()), area);
    }
}

fn queue_row(name: &str, queue: &Queue, per_second: Option<f64>, now: Timestamp) -> Row<'static> {
    let sums = &queue.sums;
    let name = if queue.paused { format!("{name} (queue paused)") } else { name.to_owned() };
    let dead = figure(&sums.dead.to_string(), true);
    let row = Row::new([
        Cell::from(name),
        figure(&sums.depth.to_string(), true),
        figure(&sums.available.to_string(), true),
        figure(&sums.scheduled.to_string(), true),
        figure(&sums.blocked.to_string(), true),
        figure(&sums.paused.to_string(), true),
        figure(&sums.running.to_string(), true),
        if sums.dead > 0 { dead.style(Style::new().fg(Color::Red)) } else { dead },
        figure(&sums.oldest.map(|at| rough_span(now.since(at))).unwrap_or_default(), true),
        figure(&per_second.map(|it| format!("{it:+.1}")).unwrap_or_default(), true),
    ]);
    if queue.paused { row.yellow() } else { row }
}

fn figure(text: &str, right: bool) -> Cell<'static> {
    let line = Line::from(text.to_owned());
    Cell::from(if right { line.right_aligned() } else { line })
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
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::collections::BTreeMap;

    fn snapshot(at: i64, depth: u64) -> Snapshot {
        let mut mail = Queue::default();
        (mail.sums.depth, mail.sums.available, mail.sums.dead) = (depth, depth, 3);
        let slow = Queue { paused: true, ..Queue::default() };
        let queues = BTreeMap::from([("mail".to_owned(), mail), ("slow".to_owned(), slow)]);
        Snapshot { now: Timestamp::from_millis(at), queues, workers: Vec::new() }
    }

    fn screen(view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn queues_are_shown_with_how_fast_they_grow() {
        let mut view = View::new("file:./jobs".into());
        view.show(snapshot(1_000, 10));
        view.show(snapshot(3_000, 40));
        let screen = screen(&mut view);
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
        let screen = screen(&mut view);
        assert!(screen.contains("not answering") && screen.contains("mail"), "{screen}");
    }

    #[test]
    fn the_selection_stays_on_the_list() {
        let mut view = View::new("memory:".into());
        assert_eq!(view.selected(), None);
        view.show(snapshot(1_000, 1));
        view.select(-1);
        assert_eq!(view.selected(), Some(("mail".into(), false)));
        view.select(5);
        assert_eq!(view.selected(), Some(("slow".into(), true)));
    }
}
