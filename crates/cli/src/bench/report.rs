//! The report of a benchmark: medians and spreads over the repeats, as JSON or as a table.

use super::meter::Sample;
use super::stats::Spread;
use super::table::{self, Table};
use super::timeline::Trend;
use super::workload::Workload;
use crate::connect::Url;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A contender, which runs workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// The engine under measurement.
    Engine,
    /// The bare log.
    Log,
    /// The slim SQLite baseline.
    Slim,
    /// The engine behind a server in a separate process, over loopback.
    Served,
}

impl Contender {
    /// Its title in the table.
    pub(super) const fn title(self, url: &Url) -> &'static str {
        match (self, url) {
            (Self::Engine, Url::Memory) => "memory",
            (Self::Engine, Url::File(_)) => "file",
            (Self::Engine, Url::Postgres(_)) => "postgres",
            (Self::Engine, Url::Redis(_)) => "redis",
            (Self::Engine, Url::Http(_)) => "server",
            (Self::Engine, _) => "engine",
            (Self::Log, _) => "bare log",
            (Self::Slim, _) => "slim SQLite",
            (Self::Served, _) => "over HTTP",
        }
    }
}

/// All samples so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    workload: Workload,
    contender: Contender,
    samples: Vec<Sample>,
}

impl Entry {
    /// The spread of one figure over the repeats.
    fn spread(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.samples.iter().filter_map(figure))
    }

    fn median(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    fn rate(&self) -> Option<f64> {
        self.median(|it| it.jobs_per_s)
    }

    /// The medians of the figures specific to the workload.
    fn figures(&self) -> BTreeMap<String, f64> {
        let names = self.samples.iter().flat_map(|sample| sample.figures.keys());
        let median = |name: &String| self.median(|it| it.figures.get(name).copied());
        names.filter_map(|name| Some((name.clone(), median(name)?))).collect()
    }

    /// Why nothing could be measured.
    fn skipped(&self) -> Option<String> {
        self.samples.iter().find_map(|sample| sample.skipped.clone())
    }
}

/// One row of the JSON.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    jobs_per_s: Option<f64>,
    jobs: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    rss_mb: Option<f64>,
    cpu_s: Option<f64>,
    cpu_percent: Option<f64>,
    bytes_per_job: Option<f64>,
    fsyncs_per_job: Option<f64>,
    wal_per_job: Option<f64>,
    commits_per_job: Option<f64>,
    dead_rows_per_job: Option<f64>,
    jobs_per_s_min: Option<f64>,
    jobs_per_s_max: Option<f64>,
    repeats: usize,
    ratio_to_log: Option<f64>,
    ratio_to_slim: Option<f64>,
    /// Ratio to the workload whose rate it should approach.
    ratio_to_reference: Option<f64>,
    #[serde(skip)]
    reference: &'static str,
    /// Ratio of the rate through a server to that of the same workload in one process.
    ratio_to_inside: Option<f64>,
    /// Figures specific to the workload, by names that end in their unit.
    figures: BTreeMap<String, f64>,
    /// The trend of each run with a time series.
    over_time: Vec<Trend>,
    /// Why nothing could be measured.
    skipped: Option<String>,
}

impl Report {
    /// Adds a sample; returns the number of samples of this workload and contender.
    pub(super) fn add(
        &mut self,
        workload: Workload,
        contender: Contender,
        sample: Sample,
    ) -> usize {
        let same = |it: &Entry| (it.workload, it.contender) == (workload, contender);
        let at = self.entries.iter().position(same).unwrap_or_else(|| {
            self.entries.push(Entry { workload, contender, samples: Vec::new() });
            self.entries.len() - 1
        });
        self.entries[at].samples.push(sample);
        self.entries[at].samples.len()
    }

    fn rate(&self, workload: Workload, contender: Contender) -> Option<f64> {
        let same = |it: &&Entry| (it.workload, it.contender) == (workload, contender);
        self.entries.iter().find(same)?.rate()
    }

    /// The entry's rate divided by that of another, where the entry is that of `who`.
    fn ratio(&self, entry: &Entry, who: Contender, other: (Workload, Contender)) -> Option<f64> {
        if entry.contender != who {
            return None;
        }
        Some(entry.rate()? / self.rate(other.0, other.1)?)
    }

    /// A JSON array with one row per workload, and one per other contender, called `W3@log`, `W3@slim` or
    /// `W3@http`.
    pub(super) fn json(&self) -> Result<String> {
        let rows: Vec<Row> = self.entries.iter().map(|entry| self.row(entry)).collect();
        Ok(serde_json::to_string_pretty(&rows)?)
    }

    fn row(&self, entry: &Entry) -> Row {
        let name = entry.workload.name();
        let rate = entry.spread(|it| it.jobs_per_s);
        let reference = entry.workload.reference();
        let (workload, engine) = (entry.workload, Contender::Engine);
        let ratio = |other| self.ratio(entry, engine, other);
        Row {
            name: match entry.contender {
                Contender::Engine => name.to_owned(),
                Contender::Log => format!("{name}@log"),
                Contender::Slim => format!("{name}@slim"),
                Contender::Served => format!("{name}@http"),
            },
            jobs_per_s: rate.map(|it| it.median),
            jobs: entry.median(|it| Some(it.jobs as f64)),
            p50_ms: entry.median(|it| it.p50_ms),
            p99_ms: entry.median(|it| it.p99_ms),
            rss_mb: entry.median(|it| it.rss_mb),
            cpu_s: entry.median(|it| it.cpu_s),
            cpu_percent: entry.median(|it| it.cpu_percent),
            bytes_per_job: entry.median(|it| it.bytes_per_job),
            fsyncs_per_job: entry.median(|it| it.fsyncs_per_job),
            wal_per_job: entry.median(|it| it.wal_per_job),
            commits_per_job: entry.median(|it| it.commits_per_job),
            dead_rows_per_job: entry.median(|it| it.dead_rows_per_job),
            jobs_per_s_min: rate.map(|it| it.min),
            jobs_per_s_max: rate.map(|it| it.max),
            repeats: entry.samples.len(),
            ratio_to_log: ratio((workload, Contender::Log)),
            ratio_to_slim: ratio((workload, Contender::Slim)),
            ratio_to_reference: reference.and_then(|it| ratio((it, engine))),
            reference: reference_title(workload),
            // The rate of W4 is fixed, so its ratio is meaningless.
            ratio_to_inside: match workload {
                Workload::W4 => None,
                _ => self.ratio(entry, Contender::Served, (workload, engine)),
            },
            figures: entry.figures(),
            over_time: entry
                .samples
                .iter()
                .filter_map(|it| Some(it.timeline.as_ref()?.trend()))
                .collect(),
            skipped: entry.skipped(),
        }
    }

    /// The report as a table.
    pub(super) fn table(&self, url: &Url) -> String {
        let heads = ["", "", "jobs/s", "min–max", "p50 ms", "p99 ms"];
        let costs = [
            "RSS MB",
            "CPU s",
            "B/job",
            "fsync/job",
            "WAL B/job",
            "commits/job",
            "dead/job",
            "compared",
        ];
        let mut table = Table::new(heads.into_iter().chain(costs));
        for entry in &self.entries {
            table.row(self.cells(entry, url));
        }
        let build = env!("WINDLASS_BUILD_PROFILE");
        format!("windlass bench {url} ({build} build)\n\n{table}\n{}{NOTES}", self.details())
    }

    /// Lines below the table: figures specific to a workload, and trends over time.
    fn details(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let name = entry.workload.name();
            for (figure, value) in entry.figures() {
                let alone = self.reference_figure(entry, &figure);
                let compared = alone.map_or_else(String::new, |alone| {
                    format!(", {:.2} × {}", value / alone, reference_title(entry.workload))
                });
                let words = figure.replace('_', " ");
                let _ = writeln!(text, "{name}: {words} {}{compared}", signed(value));
            }
            for (number, sample) in (1..).zip(&entry.samples) {
                let trend = sample.timeline.as_ref().map(|it| it.trend().said());
                let said: Vec<String> =
                    trend.into_iter().flatten().chain(sample.said.iter().cloned()).collect();
                if !said.is_empty() {
                    let _ = writeln!(text, "{name} run {number}: {}", said.join("; "));
                }
            }
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// The same figure, if it is a rate, of the reference workload.
    fn reference_figure(&self, entry: &Entry, figure: &str) -> Option<f64> {
        let reference = entry.workload.reference().filter(|_| figure.ends_with("jobs_per_s"))?;
        let other = self.entries.iter().find(|it| it.workload == reference)?;
        other.figures().get(figure).copied().filter(|rate| *rate > 0.0)
    }

    fn cells(&self, entry: &Entry, url: &Url) -> Vec<String> {
        let row = self.row(entry);
        let is_first = self.entries.iter().find(|it| it.workload == entry.workload);
        let is_first = is_first.is_some_and(|first| first.contender == entry.contender);
        // One repeat has no spread to show.
        let spread =
            (row.repeats > 1).then_some(()).and(row.jobs_per_s_min.zip(row.jobs_per_s_max));
        vec![
            if is_first { entry.workload.name().to_owned() } else { String::new() },
            match is_first {
                true => entry.workload.about().to_owned(),
                false => format!("  {}", entry.contender.title(url)),
            },
            table::whole(row.jobs_per_s),
            spread.map_or_else(String::new, |(min, max)| {
                format!("{}–{}", table::whole(Some(min)), table::whole(Some(max)))
            }),
            table::fine(row.p50_ms),
            table::fine(row.p99_ms),
            table::whole(row.rss_mb),
            table::fine(row.cpu_s),
            table::whole(row.bytes_per_job),
            table::fine(row.fsyncs_per_job),
            table::whole(row.wal_per_job),
            table::fine(row.commits_per_job),
            table::fine(row.dead_rows_per_job),
            match entry.workload {
                Workload::Idle2000 => {
                    row.cpu_percent.map_or_else(String::new, |it| format!("{it:.2} % of a CPU"))
                }
                _ => match &row.skipped {
                    Some(reason) => format!("skipped: {reason}"),
                    None => compared(&row),
                },
            },
        ]
    }
}

/// Title of the reference workload.
const fn reference_title(workload: Workload) -> &'static str {
    match workload.reference() {
        Some(Workload::W3) => "W3",
        Some(Workload::W6) => "W6",
        _ => "nothing waiting",
    }
}

/// Formats a figure that may be negative.
fn signed(figure: f64) -> String {
    let sign = if figure < 0.0 { "-" } else { "" };
    sign.to_owned() + &table::fine(Some(figure.abs()))
}

/// Explanation of the columns, printed below the table.
const NOTES: &str = "\
Medians over the repeats. RSS: the most the process held, filling included; CPU, bytes and fsyncs:\n\
of the measured stretch; over HTTP those of the server. Latency: W1 and P256 the call of enqueue, W4\n\
and W6 from that call to the start of the handler, open until the first job is claimed, idle2000 from\n\
an enqueue of as many jobs to each answer. WAL, commits, dead rows: of the whole server, and up to a\n\
second late. Batches: W2 1,000 and W3 100 jobs a call; over HTTP 100 and 50.\n";

/// The ratios of a row as text.
fn compared(row: &Row) -> String {
    let ratios = [
        (row.ratio_to_log, "the bare log"),
        (row.ratio_to_slim, "slim SQLite"),
        (row.ratio_to_reference, row.reference),
        (row.ratio_to_inside, "in-process"),
    ];
    let said =
        ratios.into_iter().filter_map(|(ratio, what)| Some(format!("{:.2} × {what}", ratio?)));
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(jobs_per_s: f64) -> Sample {
        Sample { jobs_per_s: Some(jobs_per_s), cpu_s: Some(1.5), ..Sample::default() }
    }

    fn report() -> Report {
        let mut report = Report::default();
        for rate in [10_000.0, 30_000.0, 12_000.0] {
            report.add(Workload::W3, Contender::Engine, sample(rate));
            report.add(Workload::W3, Contender::Log, sample(2.0 * rate));
            report.add(Workload::W3, Contender::Served, sample(rate / 2.0));
            report.add(Workload::W5same0, Contender::Engine, sample(rate));
            report.add(Workload::W5same, Contender::Engine, sample(0.9 * rate));
        }
        report
    }

    #[test]
    fn json_has_a_row_per_workload_and_baseline_with_the_promised_names() {
        let json: serde_json::Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        let names: Vec<_> = json.as_array().unwrap().iter().map(|row| &row["name"]).collect();
        assert_eq!(names, ["W3", "W3@log", "W3@http", "W5same0", "W5same"]);
        let row = json[0].as_object().unwrap();
        for field in ["name", "jobs_per_s", "p50_ms", "p99_ms", "rss_mb", "cpu_s", "jobs"] {
            assert!(row.contains_key(field), "{field}");
        }
        assert_eq!(row["jobs_per_s"], 12_000.0);
        assert_eq!(
            (&row["jobs_per_s_min"], &row["jobs_per_s_max"]),
            (&10_000.0.into(), &30_000.0.into())
        );
        assert_eq!(row["ratio_to_log"], 0.5);
        assert_eq!(row["ratio_to_slim"], serde_json::Value::Null);
        assert_eq!(json[2]["ratio_to_inside"], 0.5);
    }

    #[test]
    fn figures_of_one_workload_stand_below_the_table_with_their_ratio() {
        let mut report = Report::default();
        for (workload, rate) in [(Workload::W5deep0, 1_000.0), (Workload::W5deep, 900.0)] {
            let mut sample = sample(rate);
            sample.figure("promoted_jobs_per_s", rate * 2.0);
            sample.figure("stats_ms", 12.0);
            sample.said.push("as it should be".to_owned());
            report.add(workload, Contender::Engine, sample);
        }
        let skipped = Sample::skipped("there is no pg_dump".to_owned());
        report.add(Workload::W7dump, Contender::Engine, skipped);
        let table = report.table(&Url::Memory);
        assert!(
            table.contains("W5deep: promoted jobs per s 1,800, 0.90 × nothing waiting"),
            "{table}"
        );
        assert!(table.contains("W5deep: stats ms 12.0\n"), "{table}");
        assert!(table.contains("W5deep run 1: as it should be"), "{table}");
        assert!(table.contains("skipped: there is no pg_dump"), "{table}");
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json[1]["figures"]["promoted_jobs_per_s"], 1_800.0);
        assert_eq!(json[2]["skipped"], "there is no pg_dump");
    }

    #[test]
    fn the_table_shows_medians_spread_and_ratios() {
        let table = report().table(&Url::Memory);
        let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line("W3").contains("12,000"), "{table}");
        assert!(line("W3").contains("10,000–30,000"), "{table}");
        assert!(line("W3").contains("0.50 × the bare log"), "{table}");
        assert!(table.contains("0.50 × in-process"), "{table}");
        assert!(line("W5same ").contains("0.90 × nothing waiting"), "{table}");
    }
}
