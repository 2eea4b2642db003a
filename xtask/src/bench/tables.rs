//! Formats Markdown tables and numbers. Knows nothing of benchmarks.

use super::figures::Spread;

/// `1234567.8` as `1,234,568`; small numbers keep a decimal.
pub(super) fn number(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats milliseconds.
pub(super) fn with_ms(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2} ms"),
        value => format!("{} ms", number(value)),
    }
}

/// `5.3 × (4.9–5.8)`; the range is omitted if there is only one value.
pub(super) fn times(spread: &Spread) -> String {
    let digits = if spread.median < 10.0 { 2 } else { 0 };
    let middle = format!("{:.digits$} ×", spread.median);
    match spread.min < spread.max {
        true => format!("{middle} ({:.digits$}–{:.digits$})", spread.min, spread.max),
        false => middle,
    }
}

/// A table of cells.
pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    /// The first column is text, the others are numbers.
    pub(super) fn of_numbers(head: &[String]) -> Self {
        Self::new(head, "---:")
    }

    /// All columns are text.
    pub(super) fn of_text(head: &[&str]) -> Self {
        let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self::new(&head, "---")
    }

    fn new(head: &[String], align: &str) -> Self {
        let rule = head.iter().skip(1).map(|_| align.to_owned());
        let rule: Vec<String> = std::iter::once("---".to_owned()).chain(rule).collect();
        let mut table = Self { lines: Vec::new() };
        table.row(head);
        table.row(&rule);
        table
    }

    pub(super) fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        let cells: Vec<String> =
            cells.iter().map(|cell| cell.as_ref().replace('|', "\\|")).collect();
        self.lines.push(format!("| {} |", cells.join(" | ")));
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(number(1_234_567.8), "1,234,568");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(4.25), "4.2");
    }

    #[test]
    fn a_ratio_shows_its_ends_if_there_are_any() {
        assert_eq!(times(&Spread { min: 1.0, median: 1.5, max: 2.0 }), "1.50 × (1.00–2.00)");
        assert_eq!(times(&Spread { min: 26.4, median: 26.4, max: 26.4 }), "26 ×");
    }

    #[test]
    fn a_cell_cannot_break_its_row() {
        let mut table = Table::of_text(&["a", "b"]);
        table.row(&["x|y", "z"]);
        assert_eq!(table.text(), "| a | b |\n| --- | --- |\n| x\\|y | z |\n");
    }
}
