//! Writes a time series as CSV, one line per point.

use super::database::HOT;
use super::{Point, Timeline};
use std::fmt::Write as _;

impl Timeline {
    /// The CSV with a header of column names and units. Missing values are empty; an event is in the line of
    /// the first point after it.
    pub(super) fn csv(&self) -> String {
        let hot = HOT.map(|table| format!("{table}_bytes")).join(",");
        let mut text = format!(
            "at_s,jobs_per_s,p99_ms,dead_rows,{hot},schema_bytes,database_bytes,wal_bytes,event\n"
        );
        let mut after_s = f64::NEG_INFINITY;
        for point in &self.points {
            let events = self.events.iter().filter(|it| after_s < it.at_s && it.at_s <= point.at_s);
            // Event names contain no commas or quotes.
            let events: Vec<&str> = events.map(|event| event.what.as_str()).collect();
            self.line(&mut text, point, &events.join("; "));
            after_s = point.at_s;
        }
        text
    }

    fn line(&self, text: &mut String, point: &Point, events: &str) {
        let p99_ms = point.p99_ms.map_or_else(String::new, |it| format!("{it:.3}"));
        let _ = write!(text, "{:.2},{:.1},{p99_ms},", point.at_s, point.jobs_per_s);
        let _ = match &point.sizes {
            Some(sizes) => {
                let hot = sizes.hot_bytes.map(|bytes| bytes.to_string()).join(",");
                let wal_bytes = sizes.wal_bytes.saturating_sub(self.wal_start());
                write!(text, "{},{hot},", sizes.dead_rows).and_then(|()| {
                    write!(text, "{},{},{wal_bytes},", sizes.schema_bytes, sizes.database_bytes)
                })
            }
            None => write!(text, "{}", ",".repeat(HOT.len() + 4)),
        };
        let _ = writeln!(text, "{events}");
    }

    /// The WAL position at the first point; the CSV has only the difference to it.
    pub(super) fn wal_start(&self) -> u64 {
        self.points.iter().find_map(|point| point.sizes).map_or(0, |sizes| sizes.wal_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::timeline;
    use super::super::{Event, Point};

    #[test]
    fn every_line_has_the_columns_of_the_head() {
        let mut timeline = timeline([(100.0, 1_000), (200.0, 2_000)]);
        timeline.points.push(Point { at_s: 3.0, jobs_per_s: 1.0, p99_ms: None, sizes: None });
        timeline.events.push(Event { at_s: 1.5, what: "released".into() });
        let csv = timeline.csv();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
        let column = |name: &str| lines[0].iter().position(|it| *it == name).unwrap();
        assert_eq!(lines[1][column("ready_bytes")], "100");
        assert_eq!(lines[2][column("database_bytes")], "2000");
        assert_eq!(lines[3][column("database_bytes")], "");
        let events: Vec<&str> = lines[1..].iter().map(|line| line[column("event")]).collect();
        assert_eq!(events, ["", "released", ""]);
    }
}
