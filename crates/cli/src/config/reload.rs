//! Reloads the configuration file on SIGHUP and applies the settings that can change while the server runs. An
//! invalid file changes nothing. It must not know how the server applies changes.

use super::apply::Setup;
use super::field::Reload;
use super::load::{Choice, Config, Inputs};
use super::log::LogHandle;
use super::mistake::Mistakes;
use super::sections::{Fixed, keys};
use anyhow::{Result, anyhow};
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use tokio::signal::unix::Signal;
use windlass_server::ServerHandle;

/// Reloads the configuration of a running server.
pub(crate) struct Reloader {
    given: Inputs,
    /// The effective settings: live ones as of the last reload, the others as of the start.
    running: Fixed,
    setup: Arc<Setup>,
    server: ServerHandle,
    log: LogHandle,
}

impl Reloader {
    /// A reloader for a server that was started with this configuration.
    pub(crate) fn new(
        given: Inputs,
        setup: Arc<Setup>,
        server: ServerHandle,
        log: LogHandle,
    ) -> Self {
        let (mut given, config) = (given, setup.config());
        if let Some(path) = &config.file {
            // From now on the file is required: if it disappears, a reload must not fall back to defaults.
            given.file = Choice::Named(path.clone());
        }
        Self { given, running: config.fixed.clone(), setup, server, log }
    }

    /// Reloads on every SIGHUP. Returns when the terminal that the server was started in is gone: closing a
    /// terminal sends the same signal, and is meant to stop the programs in it.
    pub(crate) async fn run(mut self, mut hangup: Signal) {
        let in_terminal = std::io::stdout().is_terminal();
        while hangup.recv().await.is_some() {
            let report = match self.reload().await {
                Ok(lines) if lines.is_empty() => "reloaded: nothing has changed".to_owned(),
                Ok(lines) => format!("reloaded:\n  {}", lines.join("\n  ")),
                Err(error) => {
                    let why = crate::exit::sentence(&error);
                    let refusal = match error.is::<Mistakes>() {
                        true => format!("not reloaded, nothing is changed: {why}"),
                        false => {
                            format!(
                                "not reloaded: {why}; fix the reported error and send SIGHUP again"
                            )
                        }
                    };
                    let _ = writeln!(std::io::stderr(), "{refusal}");
                    "the configuration stays as it is".to_owned()
                }
            };
            if writeln!(std::io::stdout(), "{report}").is_err() && in_terminal {
                return;
            }
        }
    }

    /// Reloads; returns one line for each changed setting and for each that requires a restart.
    async fn reload(&mut self) -> Result<Vec<String>> {
        let config = Config::load(&self.given)?;
        let plan = Plan::new(&self.running, &config)?;
        // The step that can fail goes first.
        let mut lines = self.setup.change(config).await?;
        self.server.set_limits(plan.next.server.options.limits())?;
        if plan.touches("log.") {
            self.log.change(&plan.next)?;
        }
        if plan.touches("services.") {
            self.server.set_services(plan.next.services.hosted()).await?;
        }
        lines.extend(plan.lines);
        self.running = plan.next;
        Ok(lines)
    }
}

/// The effect of a new configuration on the running server.
struct Plan {
    next: Fixed,
    /// Keys of the settings that change now.
    live: Vec<String>,
    lines: Vec<String>,
}

impl Plan {
    fn new(running: &Fixed, config: &Config) -> Result<Self> {
        let mut plan = Self { next: running.clone(), live: Vec::new(), lines: Vec::new() };
        for (key, field) in keys() {
            let (old, new) = ((field.get)(running), (field.get)(&config.fixed));
            if old == new {
                continue;
            }
            let (was, becomes) = (field.kind.written(&old), field.kind.written(&new));
            match field.reload {
                Reload::Live => {
                    let set = (field.set)(&mut plan.next, &new);
                    set.map_err(|wrong| anyhow!("{key}: {}", wrong.expected))?;
                    plan.lines.push(format!("{key}: {was} becomes {becomes}"));
                    plan.live.push(key);
                }
                Reload::Restart => {
                    let line = format!("{key}: stays {was}; restart the server for {becomes}");
                    plan.lines.push(line);
                }
            }
        }
        plan.next.server.options.check().map_err(|error| error.within("server"))?;
        Ok(plan)
    }

    fn touches(&self, section: &str) -> bool {
        self.live.iter().any(|key| key.starts_with(section))
    }
}
