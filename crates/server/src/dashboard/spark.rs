//! Sparklines, rendered as SVG.

use askama::filters::HtmlSafe;
use std::fmt;

/// Height of the drawing; its width is the number of points.
const HEIGHT: f64 = 24.0;

/// A filled line chart, scaled to its maximum.
#[derive(Clone, Debug)]
pub(super) struct Spark {
    points: Vec<f64>,
    max: f64,
}

impl Spark {
    pub(super) fn new(points: impl IntoIterator<Item = f64>) -> Self {
        let points: Vec<f64> = points.into_iter().collect();
        let max = points.iter().copied().fold(0.0, f64::max);
        Self { points, max }
    }

    /// Whether there is nothing to draw: all values are zero, or there are fewer than two points.
    pub(super) fn is_flat(&self) -> bool {
        self.max == 0.0 || self.points.len() < 2
    }
}

impl fmt::Display for Spark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.points.len().saturating_sub(1).max(1);
        let scale = (HEIGHT - 2.0) / self.max.max(1.0);
        write!(f, r#"<svg class="spark" viewBox="0 0 {width} {HEIGHT}""#)?;
        write!(
            f,
            r#" preserveAspectRatio="none" aria-hidden="true"><path class="area" d="M0 {HEIGHT}"#
        )?;
        let line: Vec<String> = self
            .points
            .iter()
            .enumerate()
            .map(|(x, y)| format!("{x} {:.1}", HEIGHT - 1.0 - y * scale))
            .collect();
        write!(f, r#"L{}L{width} {HEIGHT}Z"/>"#, line.join("L"))?;
        write!(f, r#"<path class="line" d="M{}"/></svg>"#, line.join("L"))
    }
}

// Contains only numbers.
impl HtmlSafe for Spark {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stays_within_its_drawing() {
        let text = Spark::new([0.0, 5.0, 1_000.0]).to_string();
        assert!(text.contains(r#"viewBox="0 0 2 24""#), "{text}");
        assert!(text.contains("M0 23.0L1 22.9L2 1.0"), "{text}");
        assert!(Spark::new([0.0; 3]).is_flat());
    }
}
