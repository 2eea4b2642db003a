//! `windlass top`: shows queues and workers live. `--json` prints one snapshot.

mod snapshot;
mod terminal;
mod view;

use crate::output::print_json;
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Context as _, Result, bail};
use snapshot::Snapshot;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use terminal::{Key, Terminal};
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
            let terminal = Terminal::take()?;
            let watched = self.watch(&client, &terminal).await;
            drop(terminal);
            watched.map(|()| ExitCode::SUCCESS)
        })
    }

    async fn watch(&self, client: &Client, terminal: &Terminal) -> Result<()> {
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
                let (width, height) = terminal.size();
                terminal.draw(&view.lines(width, height))?;
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
    let read = tokio::task::spawn_blocking(move || terminal::key(wait)).await;
    let key = read.context("cannot wait for a key")?.context("cannot read keys")?;
    Ok(match key {
        // 3 is Ctrl-C, which sends no signal in raw mode.
        Some(Key::Escape | Key::Char(b'q' | 3)) => Input::Quit,
        Some(Key::Up | Key::Char(b'k')) => Input::Up,
        Some(Key::Down | Key::Char(b'j')) => Input::Down,
        Some(Key::Char(b'p')) => Input::Pause,
        Some(Key::Char(_)) | None => Input::Refresh,
    })
}
