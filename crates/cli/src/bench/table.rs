//! A plain-text table: columns as wide as their widest cell, numbers aligned to the right.

use std::fmt;

/// A table under construction.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

/// Indexes of the text columns; the others contain numbers.
const WORDS: [usize; 3] = [0, 1, 13];

impl Table {
    /// An empty table with these column headers.
    pub(super) fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![heads.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The width of a column; 0 if all its cells are empty, so that it is left out.
    fn width(&self, column: usize) -> usize {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        if cells().skip(1).all(String::is_empty) {
            return 0;
        }
        cells().map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate().filter(|(column, _)| widths[*column] > 0) {
                let width = widths[column];
                line += &match WORDS.contains(&column) {
                    true => format!("{cell:<width$}  "),
                    false => format!("{cell:>width$}  "),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats a number without decimals, with thousands separators; empty if there is none.
pub(super) fn whole(figure: Option<f64>) -> String {
    let Some(figure) = figure else { return String::new() };
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a small number with about three significant digits; empty if there is none.
pub(super) fn fine(figure: Option<f64>) -> String {
    match figure {
        None => String::new(),
        Some(figure) if figure < 0.1 => format!("{figure:.4}"),
        Some(figure) if figure < 10.0 => format!("{figure:.2}"),
        Some(figure) if figure < 100.0 => format!("{figure:.1}"),
        Some(figure) => whole(Some(figure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right_and_empty_columns_are_left_out() {
        let mut table = Table::new(["", "", "jobs/s", "min–max"]);
        table.row(vec!["W1".into(), "singles".into(), "12,345".into(), String::new()]);
        table.row(vec!["W10".into(), "x".into(), "5".into(), String::new()]);
        let lines = ["              jobs/s", "W1   singles  12,345", "W10  x             5", ""];
        assert_eq!(table.to_string(), lines.join("\n"));
    }

    #[test]
    fn figures_are_as_fine_as_they_need_to_be() {
        assert_eq!(whole(Some(1_234_567.4)), "1,234,567");
        assert_eq!(whole(Some(999.6)), "1,000");
        assert_eq!(whole(None), "");
        assert_eq!(fine(Some(0.015_61)), "0.0156");
        assert_eq!(fine(Some(0.456)), "0.46");
        assert_eq!(fine(Some(12.34)), "12.3");
        assert_eq!(fine(Some(1234.0)), "1,234");
        assert_eq!(fine(None), "");
    }
}
