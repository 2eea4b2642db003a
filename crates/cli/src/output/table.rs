//! A plain-text table: columns as wide as their widest cell, numbers aligned to the right.

use super::paint::{Colour, paint};
use std::fmt;

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
    right: bool,
}

impl Cell {
    /// A text cell, aligned to the left.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        // A cell is a single line: control characters become spaces.
        let text: String = text.into();
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { text, colour: None, right: false }
    }

    /// A number; 0 is shown in a faint colour.
    pub(crate) fn count(count: u64) -> Self {
        let colour = (count == 0).then_some(Colour::Faint);
        Self { text: count.to_string(), colour, right: true }
    }

    /// Sets the colour.
    #[must_use]
    pub(crate) const fn colour(mut self, colour: Colour) -> Self {
        self.colour = Some(colour);
        self
    }

    /// Aligns the cell to the right.
    #[must_use]
    pub(crate) const fn right(mut self) -> Self {
        self.right = true;
        self
    }

    fn padded(&self, width: usize, right: bool) -> String {
        let gap = " ".repeat(width.saturating_sub(self.text.chars().count()));
        let text =
            self.colour.map_or_else(|| self.text.clone(), |colour| paint(&self.text, colour));
        if right { format!("{gap}{text}") } else { format!("{text}{gap}") }
    }
}

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these column headers.
    pub(crate) fn new(heads: impl IntoIterator<Item = &'static str>) -> Self {
        Self { heads: heads.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        widest.max(self.heads[column].chars().count())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.heads.len()).map(|column| self.width(column)).collect();
        let head = |column: usize| Cell::text(self.heads[column]).colour(Colour::Strong);
        let heads: Vec<Cell> = (0..self.heads.len()).map(head).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                // A header is aligned like the cells of its column.
                let right = self.rows.first().and_then(|row| row.get(column));
                line += &cell.padded(widths[column], right.is_some_and(|cell| cell.right));
                line += "  ";
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_figures_stand_to_the_right() {
        let mut table = Table::new(["QUEUE", "DEPTH"]);
        table.row([Cell::text("mail"), Cell::count(12_345)]);
        table.row([Cell::text("default\n"), Cell::count(7)]);
        let lines = ["QUEUE     DEPTH", "mail      12345", "default       7", ""];
        assert_eq!(table.to_string(), lines.join("\n"));
    }
}
