//! Writes the report in Markdown with charts, the peers' wins first. Knows nothing of running.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::chart::{self, Bar, Group};
use super::contender::{Contender, Family};
use super::figures::{Figure, Spread};
use super::results::Results;
use super::tables::{Table, number, times, with_ms};
use super::workload::Workload;

/// Writes `README.md`, the charts and the raw results.
pub(super) fn write(results: &Results, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let save = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    save("results.json", &(serde_json::to_string_pretty(results)? + "\n"))?;
    for figure in Figure::of(results) {
        save(&chart_file(figure), &chart(results, figure))?;
    }
    save("README.md", &markdown(results))
}

fn markdown(results: &Results) -> String {
    let mut text = String::from("# Windlass beside its peers\n\n");
    text.push_str(&format!("`{}`\n\n", results.command));
    text.push_str("## Where a peer wins\n\n");
    text.push_str(&wins(results));
    for family in Family::ALL {
        if !of_family(results, family).is_empty() {
            text.push_str(&format!("\n## {}\n\n", family.title()));
            text.push_str(&figures(results, family));
            text.push_str("\nHow many times better Windlass was (more than 1: Windlass is ahead), median, minimum and maximum of \
                           all pairs of consecutive measurements:\n\n");
            text.push_str(&ratios(results, family));
        }
    }
    text.push_str("\n## Workloads\n\n");
    text.push_str(&workloads(results));
    text.push_str(READING);
    text.push_str("\n## Charts\n\n");
    for figure in Figure::of(results) {
        text.push_str(&format!("![{}]({})\n\n", figure.name(), chart_file(figure)));
    }
    text.push_str(&failures(results));
    text.push_str("## Versions, durability and settings\n\n");
    text.push_str(&settings(results));
    text.push_str("\n## Cost\n\nCPU time per job and peak memory of the process that is client and worker (the \
                   server, if there is one, is not included).\n\n");
    text.push_str(&costs(results));
    text.push_str("\n## Machine\n\n");
    results.machine.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
    text
}

/// Notes on how to interpret the ratios.
const READING: &str = "
A job is about 200 bytes of JSON; handlers do nothing; client, worker and store share the machine. Every cell has a
new, empty store and a separate process. Client and worker are those of the library, in one process; Windlass also uses
its public client and worker, not direct engine calls. A completion counts when the store shows it.

- **W1c64**: concurrent calls of one Windlass client are coalesced: jobs enqueued during one commit are part of the next.
  Peers on PostgreSQL commit each call separately. Callers in separate processes are not coalesced; that is not measured
  here. Coalescing has no effect in W1seq, which has only one caller.
- **W2** is each peer's own bulk call, with the batch size in the settings below.
- **W3, W5**: timed from the start of the worker. Peers drain 50,000 jobs (or as many as the time allows), Windlass more,
  so that its figure is that of a steady state. Peers that delete finished jobs keep no history; Windlass keeps it.
- **W4**: enqueue and handler run in one process, so both times are from the same clock.
- **W6**: bulk calls of 100 jobs by 4 callers.
";

/// Lists where a peer was better, clearest first; then results that are too close to call.
fn wins(results: &Results) -> String {
    let mut found: Vec<(Figure, &Contender, Spread)> = Vec::new();
    for figure in Figure::of(results) {
        for peer in results.contenders().into_iter().filter(|it| !it.is_ours()) {
            let ratio = figure.ratio(results, peer);
            found.extend(ratio.filter(|it| it.min < 1.0).map(|ratio| (figure, peer, ratio)));
        }
    }
    if found.is_empty() {
        return "Nowhere in this run.\n".to_owned();
    }
    found.sort_by(|(_, _, a), (_, _, b)| a.median.total_cmp(&b.median));
    let (ahead, close): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, _, it)| it.median < 1.0);
    let mut text = String::new();
    if ahead.is_empty() {
        text.push_str("Nowhere by the median of this run's measurements.\n");
    }
    for (figure, peer, ratio) in ahead {
        let certain = if ratio.max < 1.0 { "" } else { "; within the spread" };
        text.push_str(&format!(
            "- **{}**, {}: {} is ahead, {} against {}; the ratio is {}{certain}\n",
            figure.name(),
            figure.workload.about(),
            peer.title,
            value(figure, figure.of_contender(results, peer)),
            value(figure, figure.ours_beside(results, peer)),
            times(&ratio),
        ));
    }
    if !close.is_empty() {
        text.push_str(
            "\nToo close to call (Windlass is ahead by the median, not by the minimum): ",
        );
        let close = close.iter().map(|(figure, peer, ratio)| {
            format!("{} {} {}", figure.name(), peer.title, times(ratio))
        });
        text.push_str(&(close.collect::<Vec<_>>().join("; ") + ".\n"));
    }
    text
}

fn of_family(results: &Results, family: Family) -> Vec<&'static Contender> {
    results.contenders().into_iter().filter(|it| it.family() == family).collect()
}

fn value(figure: Figure, spread: Option<Spread>) -> String {
    match (spread, figure.is_latency()) {
        (None, _) => "–".to_owned(),
        (Some(spread), true) => with_ms(spread.median),
        (Some(spread), false) => format!("{}/s", number(spread.median)),
    }
}

fn figures(results: &Results, family: Family) -> String {
    let figures = Figure::of(results);
    let both = [Workload::W3, Workload::W5].iter().all(|it| results.workloads().contains(it));
    let mut head = vec!["median".to_owned()];
    head.extend(figures.iter().map(|figure| figure.name()));
    head.extend(both.then(|| "W5 ÷ W3".to_owned()));
    let mut table = Table::of_numbers(&head);
    for contender in of_family(results, family) {
        let mut row = vec![bold_if_ours(contender)];
        row.extend(figures.iter().map(|it| value(*it, it.of_contender(results, contender))));
        row.extend(both.then(|| depth(results, contender)));
        table.row(&row);
    }
    table.text() + &fewer_others(results, family)
}

/// The ratio of W5 to W3: the effect of other waiting jobs.
fn depth(results: &Results, contender: &Contender) -> String {
    let rate = |workload| {
        let answers = results.answers(workload, contender);
        Spread::of(answers.iter().map(|answer| answer.jobs_per_s()))
    };
    match (rate(Workload::W5), rate(Workload::W3)) {
        (Some(deep), Some(shallow)) => format!("{:.2}", deep.median / shallow.median),
        _ => "–".to_owned(),
    }
}

/// Lists contenders whose store could not be filled with all other jobs in time.
fn fewer_others(results: &Results, family: Family) -> String {
    let ordered = Workload::W5.sizes(None).others;
    let mut text = String::new();
    for contender in of_family(results, family) {
        let others = results.answers(Workload::W5, contender).iter().map(|it| it.others).min();
        if let Some(others) = others.filter(|others| *others < ordered) {
            text.push_str(&format!(
                "\nW5, {}: only {} others waited; filling the store took too long for more.\n",
                contender.title,
                number(others as f64),
            ));
        }
    }
    text
}

fn ratios(results: &Results, family: Family) -> String {
    let figures = Figure::of(results);
    let mut head = vec!["Windlass against".to_owned()];
    head.extend(figures.iter().map(|figure| figure.name()));
    let mut table = Table::of_numbers(&head);
    for peer in of_family(results, family).into_iter().filter(|it| !it.is_ours()) {
        let mut row = vec![peer.title.to_owned()];
        row.extend(figures.iter().map(|figure| {
            figure.ratio(results, peer).map_or("–".to_owned(), |ratio| times(&ratio))
        }));
        table.row(&row);
    }
    table.text()
}

fn workloads(results: &Results) -> String {
    let mut table = Table::of_text(&["", "workload"]);
    for workload in results.workloads() {
        table.row(&[workload.name(), workload.about()]);
    }
    table.text()
}

fn failures(results: &Results) -> String {
    let mut lines = Vec::new();
    for missing in &results.missing {
        lines.push(format!("- {} could not be installed: {}", missing.contender, missing.why));
    }
    for (entry, why) in results.failures() {
        lines.push(format!("- {} {}: {why}", entry.workload, entry.contender));
    }
    if results.left_out > 0 {
        lines.push(format!("- {} cells were left out: the time was over", results.left_out));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("## Not measured\n\n{}\n\n", lines.join("\n")),
    }
}

fn settings(results: &Results) -> String {
    let mut table = Table::of_text(&["", "version", "an acknowledged job is", "settings"]);
    for contender in results.contenders() {
        let answers = Workload::ALL.into_iter().flat_map(|it| results.answers(it, contender));
        let Some(answer) = answers.last() else { continue };
        table.row(&[contender.title, &answer.version, contender.durability, &answer.settings]);
    }
    table.text()
}

fn costs(results: &Results) -> String {
    let workloads = results.workloads();
    let mut head = vec!["µs of processor per job · MB".to_owned()];
    head.extend(workloads.iter().map(|workload| workload.name().to_owned()));
    let mut table = Table::of_numbers(&head);
    for contender in results.contenders() {
        let mut row = vec![bold_if_ours(contender)];
        row.extend(workloads.iter().map(|workload| {
            let answers = results.answers(*workload, contender);
            let cpu = Spread::of(answers.iter().map(|it| it.cpu_s * 1e6 / it.jobs as f64));
            let memory = Spread::of(answers.iter().map(|it| it.rss_mb));
            match (cpu, memory) {
                (Some(cpu), Some(memory)) => {
                    format!("{} · {:.0}", number(cpu.median), memory.max)
                }
                _ => "–".to_owned(),
            }
        }));
        table.row(&row);
    }
    table.text()
}

fn bold_if_ours(contender: &Contender) -> String {
    match contender.is_ours() {
        true => format!("**{}**", contender.title),
        false => contender.title.to_owned(),
    }
}

fn chart_file(figure: Figure) -> String {
    format!("{}.svg", figure.name().replace(' ', "-"))
}

fn chart(results: &Results, figure: Figure) -> String {
    let groups = Family::ALL.into_iter().map(|family| Group {
        title: family.title().to_owned(),
        bars: of_family(results, family)
            .into_iter()
            .filter_map(|it| bar(results, figure, it))
            .collect(),
    });
    let groups: Vec<Group> = groups.filter(|group| !group.bars.is_empty()).collect();
    let better = if figure.is_latency() { "less is better" } else { "more is better" };
    let title = format!("{}: {}", figure.name(), figure.workload.about());
    chart::svg(
        &title,
        &format!("{}, {better}; median, whiskers from least to greatest", figure.unit()),
        &groups,
    )
}

fn bar(results: &Results, figure: Figure, contender: &Contender) -> Option<Bar> {
    let spread = figure.of_contender(results, contender)?;
    Some(Bar {
        label: contender.title.to_owned(),
        shown: value(figure, Some(spread)),
        value: spread.median,
        min: spread.min,
        max: spread.max,
        is_ours: contender.is_ours(),
    })
}

#[cfg(test)]
mod tests;
