//! Draws a bar chart as SVG: one bar per contender, whiskers from minimum to maximum. Knows no results.

use std::fmt::Write as _;

/// A bar.
pub(super) struct Bar {
    pub(super) label: String,
    /// The label at its end.
    pub(super) shown: String,
    pub(super) value: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) is_ours: bool,
}

/// Bars under one heading.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

const WIDTH: f64 = 860.0;
const LABELS: f64 = 270.0;
const NUMBERS: f64 = 120.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const HEAD: f64 = 64.0;
const GROUP_HEAD: f64 = 34.0;
const FOOT: f64 = 14.0;

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2933";
const FAINT: &str = "#66727f";
const OURS: &str = "#c2410c";
const THEIRS: &str = "#94a3b8";

/// Draws the chart. Each group has its own scale, because groups are different stores.
pub(super) fn svg(title: &str, subtitle: &str, groups: &[Group]) -> String {
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = HEAD + groups.len() as f64 * GROUP_HEAD + rows as f64 * ROW + FOOT;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{INK}\" role=\"img\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"{PAPER}\"/>\n",
        title = escaped(title),
    );
    line(&mut text, 16.0, 28.0, "font-size=\"18\" font-weight=\"600\"", title);
    line(&mut text, 16.0, 48.0, &format!("fill=\"{FAINT}\""), subtitle);
    let mut y = HEAD;
    for group in groups {
        line(&mut text, 16.0, y + 22.0, "font-weight=\"600\"", &group.title);
        y += GROUP_HEAD;
        let most = group.bars.iter().map(|bar| bar.max).fold(f64::MIN_POSITIVE, f64::max);
        for bar in &group.bars {
            draw(&mut text, bar, y, (WIDTH - LABELS - NUMBERS) / most);
            y += ROW;
        }
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, bar: &Bar, y: f64, scale: f64) {
    let (fill, weight) = if bar.is_ours { (OURS, "600") } else { (THEIRS, "400") };
    let baseline = y + BAR - 3.5;
    let at_end = format!("text-anchor=\"end\" font-weight=\"{weight}\"");
    line(text, LABELS - 10.0, baseline, &at_end, &bar.label);
    let width = (bar.value * scale).max(1.0);
    let _ = writeln!(
        text,
        "<rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{fill}\"/>"
    );
    let (from, upto) = (LABELS + bar.min * scale, LABELS + bar.max * scale);
    if upto - from > 1.0 {
        let middle = y + BAR / 2.0;
        let _ = writeln!(
            text,
            "<path d=\"M{from:.1} {middle:.1}H{upto:.1}M{from:.1} {top:.1}v8M{upto:.1} {top:.1}v8\" \
             stroke=\"{INK}\" stroke-width=\"1.2\" fill=\"none\"/>",
            top = middle - 4.0,
        );
    }
    let end = (LABELS + width).max(upto) + 8.0;
    line(text, end, baseline, &format!("font-weight=\"{weight}\""), &bar.shown);
}

fn line(text: &mut String, x: f64, y: f64, style: &str, words: &str) {
    let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(words));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        let (label, shown) = (label.to_owned(), format!("{value}"));
        Bar { label, shown, value, min: value, max: value, is_ours: false }
    }

    #[test]
    fn the_longest_bar_fills_the_space_and_the_others_are_in_proportion() {
        let bars = vec![bar("a", 200.0), bar("b <c>", 100.0)];
        let text = svg("t", "s", &[Group { title: "g".into(), bars }]);
        assert!(text.contains("width=\"470.0\"") && text.contains("width=\"235.0\""), "{text}");
        assert!(text.contains("b &lt;c&gt;"), "{text}");
        assert!(!text.contains("stroke-width"), "a single value has no whiskers: {text}");
    }
}
