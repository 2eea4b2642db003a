//! Draws a time series as SVG: curves over seconds, one panel per unit. Knows nothing of their meaning.

use super::database::HOT;
use super::{Point, Sizes, Timeline};
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 56.0;
/// Height of a panel's heading.
const PANEL_HEAD: f64 = 28.0;
/// Height of a panel's curves.
const PANEL: f64 = 130.0;
/// Height of the axis labels below a panel.
const PANEL_FOOT: f64 = 30.0;
/// Maximum number of ticks on a vertical axis.
const TICKS: f64 = 5.0;
/// Maximum number of ticks on the time axis.
const SECONDS_TICKS: f64 = 10.0;

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2933";
const FAINT: &str = "#66727f";
const GRID: &str = "#e4e7eb";
const EVENT: &str = "#9f1239";
const CURVES: [&str; 5] = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207"];

const MB: f64 = 1e6;

/// Curves that share a unit.
struct Panel {
    title: &'static str,
    curves: Vec<Curve>,
}

struct Curve {
    label: &'static str,
    /// Second and value.
    points: Vec<(f64, f64)>,
}

impl Timeline {
    /// Draws all panels that have data.
    pub(super) fn svg(&self, title: &str) -> String {
        let panels = self.panels();
        let height = HEAD + panels.len() as f64 * (PANEL_HEAD + PANEL + PANEL_FOOT);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{INK}\" role=\"img\">\n\
             <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"{PAPER}\"/>\n",
            title = escaped(title),
        );
        words(&mut text, 16.0, 30.0, "font-size=\"18\" font-weight=\"600\"", title);
        let upto_s = self.points.last().map_or(1.0, |point| point.at_s).max(1e-3);
        let mut top = HEAD;
        for panel in &panels {
            self.draw(&mut text, panel, top + PANEL_HEAD, upto_s);
            top += PANEL_HEAD + PANEL + PANEL_FOOT;
        }
        text.push_str("</svg>\n");
        text
    }

    fn panels(&self) -> Vec<Panel> {
        let wal_start = self.wal_start();
        let bytes =
            |it: fn(&Sizes) -> u64| self.curve(|point| point.sizes.map(|s| it(&s) as f64 / MB));
        let hot = |table: usize| {
            self.curve(|point| point.sizes.map(|it| it.hot_bytes[table] as f64 / MB))
        };
        let wal = self.curve(|point| {
            point.sizes.map(|it| it.wal_bytes.saturating_sub(wal_start) as f64 / MB)
        });
        let panel = |title, curves: Vec<(&'static str, Vec<(f64, f64)>)>| {
            let curve = |(label, points)| Curve { label, points };
            Panel { title, curves: curves.into_iter().map(curve).collect() }
        };
        let panels = [
            panel("jobs per second", vec![("", self.curve(|it| Some(it.jobs_per_s)))]),
            panel("ms from enqueue to handler, p99", vec![("", self.curve(|it| it.p99_ms))]),
            panel(
                "hot tables, MB",
                HOT.iter().enumerate().map(|(at, table)| (*table, hot(at))).collect(),
            ),
            panel("dead rows", vec![("", self.curve(|it| it.sizes.map(|it| it.dead_rows as f64)))]),
            panel(
                "size, MB",
                vec![
                    ("whole schema", bytes(|it| it.schema_bytes)),
                    ("whole database", bytes(|it| it.database_bytes)),
                ],
            ),
            panel("write-ahead log since the start, MB", vec![("", wal)]),
        ];
        let is_known = |panel: &Panel| panel.curves.iter().any(|curve| !curve.points.is_empty());
        panels.into_iter().filter(is_known).collect()
    }

    fn curve(&self, value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
        self.points.iter().filter_map(|point| Some((point.at_s, value(point)?))).collect()
    }

    fn draw(&self, text: &mut String, panel: &Panel, top: f64, upto_s: f64) {
        let values = panel.curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
        let most = values.fold(0.0, f64::max).max(1e-3);
        let step = step(most, TICKS);
        let most = (most / step).ceil() * step;
        let (wide, bottom) = (WIDTH - LEFT - RIGHT, top + PANEL);
        let x = |at_s: f64| LEFT + at_s / upto_s * wide;
        let y = |value: f64| bottom - value / most * PANEL;
        words(text, 16.0, top - 10.0, "font-weight=\"600\"", panel.title);
        legend(text, panel, top - 10.0);
        for tick in ticks(step, most) {
            let at = y(tick);
            let _ = writeln!(text, "<path d=\"M{LEFT} {at:.1}h{wide}\" stroke=\"{GRID}\"/>");
            let style = format!("text-anchor=\"end\" fill=\"{FAINT}\"");
            words(text, LEFT - 8.0, at + 4.0, &style, &number(tick, step));
        }
        let seconds = self::step(upto_s, SECONDS_TICKS);
        for tick in ticks(seconds, upto_s) {
            let style = format!("text-anchor=\"middle\" fill=\"{FAINT}\"");
            let unit = if tick == 0.0 { " s" } else { "" };
            let shown = number(tick, seconds) + unit;
            words(text, x(tick), bottom + 17.0, &style, &shown);
        }
        for (curve, colour) in panel.curves.iter().zip(CURVES.iter().cycle()) {
            let path = curve.points.iter().map(|(at_s, value)| (x(*at_s), y(*value)));
            let path: Vec<String> = path.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
                 stroke-linejoin=\"round\"/>",
                path.join(" ")
            );
        }
        for (count, event) in self.events.iter().enumerate() {
            let at = x(event.at_s.min(upto_s));
            let _ = writeln!(
                text,
                "<path d=\"M{at:.1} {top}v{PANEL}\" stroke=\"{EVENT}\" stroke-dasharray=\"4 3\"/>"
            );
            let style = format!("text-anchor=\"end\" fill=\"{EVENT}\"");
            words(text, at - 5.0, top + 12.0 + 14.0 * count as f64, &style, &event.what);
        }
    }
}

/// Draws the legend, to the right of the heading.
fn legend(text: &mut String, panel: &Panel, y: f64) {
    let labelled = panel.curves.iter().zip(CURVES.iter().cycle());
    let mut x = LEFT + 240.0;
    for (curve, colour) in labelled.filter(|(curve, _)| !curve.label.is_empty()) {
        let _ = writeln!(
            text,
            "<path d=\"M{x} {at}h16\" stroke=\"{colour}\" stroke-width=\"3\"/>",
            at = y - 4.0
        );
        words(text, x + 22.0, y, "", curve.label);
        x += 120.0;
    }
}

/// A round distance between ticks, for about `count` ticks.
fn step(most: f64, count: f64) -> f64 {
    let rough = most / count;
    let power = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|it| it * power >= rough);
    round.unwrap_or(10.0) * power
}

fn ticks(step: f64, upto: f64) -> impl Iterator<Item = f64> {
    let last = (upto / step + 1e-9).floor() as u32;
    (0..=last).map(move |tick| f64::from(tick) * step)
}

/// Formats a tick with as many decimals as the distance between ticks requires.
fn number(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    match decimals {
        0 => super::super::table::whole(Some(value)),
        _ => format!("{value:.decimals$}"),
    }
}

fn words(text: &mut String, x: f64, y: f64, style: &str, words: &str) {
    let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(words));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::timeline;
    use super::super::{Event, Point};
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(step(42_000.0, TICKS), 10_000.0);
        assert_eq!(step(0.9, TICKS), 0.2);
        assert_eq!(ticks(10_000.0, 50_000.0).count(), 6);
        assert_eq!(number(0.4, 0.2), "0.4");
        assert_eq!(number(10_000.0, 10_000.0), "10,000");
    }

    #[test]
    fn rate_and_size_have_panels_of_their_own_and_events_stand_in_each() {
        let mut timeline = timeline([(100.0, 1_000_000), (200.0, 20_000_000)]);
        timeline.events.push(Event { at_s: 1.5, what: "released <now>".into() });
        let svg = timeline.svg("W7 & others");
        assert!(svg.contains("W7 &amp; others") && svg.contains("jobs per second"), "{svg}");
        assert!(svg.contains("size, MB") && svg.contains("whole database"), "{svg}");
        assert_eq!(svg.matches("released &lt;now&gt;").count(), 6, "{svg}");
        // At second 2 of 2, at the top of a scale that ends at 20 MB.
        assert!(svg.contains(&format!("{:.1},", WIDTH - RIGHT)), "{svg}");
    }

    #[test]
    fn where_no_sizes_are_known_there_are_no_panels_of_them() {
        let mut timeline = Timeline::default();
        timeline.push(Point { at_s: 1.0, jobs_per_s: 7.0, p99_ms: Some(1.0), sizes: None });
        let svg = timeline.svg("W6");
        assert!(svg.contains("jobs per second") && !svg.contains("MB"), "{svg}");
        assert!(Timeline::default().svg("nothing").ends_with("</svg>\n"));
    }
}
