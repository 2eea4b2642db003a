//! Manages the client processes of a run: starts, kills, stalls and stops them. Knows nothing of the reasons.

use super::client::{Counts, Order, Spec};
use super::participants::Member;
use super::process::{Running, Unexpected, signal_process};
use super::proxy::Weather;
use super::schedule::Action;
use super::target::Target;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum time for all clients to open the store.
const START_MAX: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Client numbers reserved for each incarnation of a process.
const CLIENTS_PER_LIFE: u32 = 64;

/// The client processes and the store they use.
pub(super) struct ClientProcesses {
    pub(super) target: Target,
    pub(super) unexpected: Unexpected,
    evidence: PathBuf,
    seed: u64,
    members: Vec<(Member, Option<Running>)>,
    /// Number of processes started so far.
    lives: u32,
    /// Sum of the counts of ended processes.
    past: Counts,
    order: Order,
}

impl ClientProcesses {
    /// Starts all clients, and waits until they have opened the store.
    pub(super) async fn start(target: Target, evidence: PathBuf, seed: u64) -> Result<Self> {
        let members =
            target.participants.clients().into_iter().map(|member| (member, None)).collect();
        let mut clients = Self {
            target,
            evidence,
            seed,
            members,
            lives: 0,
            past: Counts::default(),
            order: Order::Work,
            unexpected: Unexpected::default(),
        };
        clients.complete().await?;
        clients.all_open().await?;
        Ok(clients)
    }

    async fn all_open(&mut self) -> Result<()> {
        let open = async {
            loop {
                self.notice()?;
                if self.members.iter().all(|(_, it)| it.as_ref().is_some_and(Running::is_open)) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(START_MAX, open).await {
            Ok(opened) => opened,
            Err(_) => bail!("the clients could not open the store within {START_MAX:?}"),
        }
    }

    /// Starts the clients that are not running.
    pub(super) async fn complete(&mut self) -> Result<()> {
        for at in 0..self.members.len() {
            if self.members[at].1.is_none() {
                let member = self.members[at].0;
                self.members[at].1 = Some(self.spawn(member).await?);
            }
        }
        Ok(())
    }

    async fn spawn(&mut self, member: Member) -> Result<Running> {
        let life = self.lives;
        self.lives += 1;
        let spec = Spec {
            url: self.target.client_url.clone(),
            queue: self.target.queue.clone(),
            roles: self.target.participants.roles_of(member),
            name: format!("{member}.{life}"),
            evidence: self.evidence.clone(),
            client: life * CLIENTS_PER_LIFE,
            seed: self.seed,
            retention_ms: self.target.retention_ms,
            limits: self.target.participants.limits,
            flows: self.target.participants.flows,
        };
        let mut running = Running::start(&spec, self.unexpected.clone()).await?;
        if self.order != Order::Work {
            running.order(self.order).await?;
        }
        Ok(running)
    }

    /// Executes an action of the schedule.
    pub(super) async fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Weather(weather) => self.target.weather(weather),
            Action::Kill(Member::Server) => self.target.kill_server().await?,
            Action::Start(Member::Server) => self.target.start_server().await?,
            Action::Stall(Member::Server) => {
                signal_process(self.target.server_pid(), Signal::STOP)?;
            }
            Action::Resume(Member::Server) => {
                signal_process(self.target.server_pid(), Signal::CONT)?;
            }
            Action::Kill(Member::Store) => self.target.kill_store().await?,
            Action::Start(Member::Store) => self.target.start_store().await?,
            Action::Kill(member) => {
                if let Some(running) = self.slot(member).take() {
                    self.bury(running.kill().await?);
                }
            }
            Action::Start(member) => {
                if self.slot(member).is_none() {
                    *self.slot(member) = Some(self.spawn(member).await?);
                }
            }
            Action::Stall(member) => self.signal(member, Signal::STOP)?,
            Action::Resume(member) => self.signal(member, Signal::CONT)?,
        }
        self.notice()
    }

    fn slot(&mut self, member: Member) -> &mut Option<Running> {
        let slot = self.members.iter_mut().find(|(it, _)| *it == member);
        &mut slot.expect("the schedule names only participants").1
    }

    fn signal(&mut self, member: Member, signal: Signal) -> Result<()> {
        match self.slot(member) {
            Some(running) => running.signal(signal),
            None => Ok(()),
        }
    }

    /// Records processes that ended without being killed.
    pub(super) fn notice(&mut self) -> Result<()> {
        for at in 0..self.members.len() {
            let (member, slot) = &mut self.members[at];
            let Some(running) = slot else { continue };
            if let Some(status) = running.ended()? {
                let (member, counts) = (*member, running.counts());
                if !status.success() {
                    let log = self.evidence.display();
                    let what = format!("{member} ended by itself: {status}; its log is in {log}");
                    self.unexpected.add(what);
                }
                *slot = None;
                self.bury(counts);
            }
        }
        Ok(())
    }

    fn bury(&mut self, counts: Counts) {
        self.past.acknowledged += counts.acknowledged;
        self.past.ended += counts.ended;
    }

    /// The counts of all processes, ended ones included.
    pub(super) fn counts(&self) -> Counts {
        let running = self.members.iter().filter_map(|(_, running)| running.as_ref());
        running.map(Running::counts).fold(self.past, |sum, it| Counts {
            acknowledged: sum.acknowledged + it.acknowledged,
            ended: sum.ended + it.ended,
            left: it.left.or(sum.left),
        })
    }

    /// Ends all faults: restores the network, the store and the server, resumes stalled processes and restarts
    /// killed ones.
    pub(super) async fn recover(&mut self) -> Result<()> {
        self.target.weather(Weather::Clear);
        self.target.start_store().await?;
        if self.target.participants.server {
            match self.target.server_pid() {
                Some(pid) => signal_process(Some(pid), Signal::CONT)?,
                None => self.target.start_server().await?,
            }
        }
        self.notice()?;
        for (_, running) in &self.members {
            running.as_ref().map_or(Ok(()), |it| it.signal(Signal::CONT))?;
        }
        self.complete().await
    }

    /// Sends an order to all processes, including those started later.
    pub(super) async fn order(&mut self, order: Order) -> Result<()> {
        self.order = order;
        for (_, running) in &mut self.members {
            if let Some(running) = running {
                running.order(order).await?;
            }
        }
        Ok(())
    }

    /// Waits until the processes selected by `who` have ended. Kills those that have not after `max`, and
    /// records that as a finding.
    pub(super) async fn gone(&mut self, who: fn(Member) -> bool, max: Duration) -> Result<()> {
        let gone = async {
            loop {
                self.notice()?;
                if self.members.iter().all(|(it, running)| !who(*it) || running.is_none()) {
                    return Ok::<_, anyhow::Error>(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if let Ok(gone) = tokio::time::timeout(max, gone).await {
            return gone;
        }
        for at in 0..self.members.len() {
            let (member, slot) = &mut self.members[at];
            let member = *member;
            if let Some(running) = slot.take_if(|_| who(member)) {
                self.unexpected.add(format!("{member} did not end within {max:?} of the order"));
                let counts = running.kill().await?;
                self.bury(counts);
            }
        }
        Ok(())
    }
}
