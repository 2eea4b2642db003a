//! `windlass top`: shows queues and workers live. `--json` prints one snapshot.

mod snapshot;
mod view;

use crate::output::print_json;
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Context as _, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use snapshot::Snapshot;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use view::View;
use windlass::Client;

/// Minimum refresh interval.
const EVERY_MIN: Duration = Duration::from_millis(100);
/// Maximum refresh interval.
const EVERY_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: q or Esc quits, up and down select a queue, p pauses or resumes it")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Refresh interval
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    every: Duration,
}

/// The action that a key selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Quit,
    Up,
    Down,
    Pause,
    /// Refresh.
    Refresh,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        if !(EVERY_MIN..=EVERY_MAX).contains(&self.every) {
            bail!(
                "--every is {:?}: it must be between {EVERY_MIN:?} and {EVERY_MAX:?}",
                self.every
            );
        }
        if !self.common.json && !std::io::stdout().is_terminal() {
            bail!("top needs a terminal; to print one snapshot use --json, or `windlass queues`");
        }
        block_on(async {
            let client = self.common.open().await?;
            if self.common.json {
                print_json(&Snapshot::take(&client).await?.value())?;
                return Ok(ExitCode::SUCCESS);
            }
            let terminal = ratatui::try_init().context("cannot take over the terminal")?;
            let watched = self.watch(&client, terminal).await;
            ratatui::restore();
            watched.map(|()| ExitCode::SUCCESS)
        })
    }

    async fn watch(&self, client: &Client, mut terminal: DefaultTerminal) -> Result<()> {
        let mut view = View::new(self.common.url()?.to_string());
        loop {
            // If the store is unavailable, the last snapshot stays on the screen with the error, until a read
            // succeeds.
            match Snapshot::take(client).await {
                Ok(snapshot) => view.show(snapshot),
                Err(error) => view.fail(&error),
            }
            let drawn_at = tokio::time::Instant::now();
            loop {
                terminal.draw(|frame| view.draw(frame)).context("cannot draw")?;
                match next_input(self.every.saturating_sub(drawn_at.elapsed())).await? {
                    Input::Quit => return Ok(()),
                    Input::Up => view.select(-1),
                    Input::Down => view.select(1),
                    Input::Pause => {
                        if let Some((queue, paused)) = view.selected() {
                            let queue = client.queue(queue);
                            let done =
                                if paused { queue.resume().await } else { queue.pause().await };
                            if let Err(error) = done {
                                view.fail(&error.into());
                                continue;
                            }
                        }
                        break;
                    }
                    Input::Refresh => break,
                }
            }
        }
    }
}

/// The action of the next key, or a refresh when the time is up.
async fn next_input(wait: Duration) -> Result<Input> {
    let read = tokio::task::spawn_blocking(move || match event::poll(wait)? {
        true => event::read().map(Some),
        false => Ok(None),
    });
    let read = read.await.context("cannot wait for a key")?.context("cannot read keys")?;
    let Some(Event::Key(key)) = read else { return Ok(Input::Refresh) };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(match key.code {
        _ if key.kind != KeyEventKind::Press => Input::Refresh,
        KeyCode::Char('q') | KeyCode::Esc => Input::Quit,
        _ if control_c => Input::Quit,
        KeyCode::Up | KeyCode::Char('k') => Input::Up,
        KeyCode::Down | KeyCode::Char('j') => Input::Down,
        KeyCode::Char('p') => Input::Pause,
        _ => Input::Refresh,
    })
}
