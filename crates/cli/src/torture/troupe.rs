//! The processes of a run: started, killed, stalled and told to end. Knows nothing of why.

use super::cast::Member;
use super::client::{Counts, Order, Spec};
use super::process::{Running, Surprises, signal_process};
use super::proxy::Weather;
use super::schedule::Action;
use super::target::Target;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;

/// How long everybody may take to be there.
const START_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Numbers of clients that one life of a process takes at most.
const CLIENTS_PER_LIFE: u32 = 64;

/// Everybody who makes calls, and the store they make them to.
pub(super) struct Troupe {
    pub(super) target: Target,
    pub(super) surprises: Surprises,
    evidence: PathBuf,
    seed: u64,
    members: Vec<(Member, Option<Running>)>,
    /// Processes started so far.
    lives: u32,
    /// What processes counted that are gone.
    past: Counts,
    order: Order,
}

impl Troupe {
    /// Starts everybody, and waits until they have their store open.
    pub(super) async fn start(target: Target, evidence: PathBuf, seed: u64) -> Result<Self> {
        let members = target.cast.clients().into_iter().map(|member| (member, None)).collect();
        let mut troupe = Self {
            target,
            evidence,
            seed,
            members,
            lives: 0,
            past: Counts::default(),
            order: Order::Work,
            surprises: Surprises::default(),
        };
        troupe.complete().await?;
        troupe.all_open().await?;
        Ok(troupe)
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

    /// Starts whoever is not there.
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
            roles: self.target.cast.roles_of(member),
            name: format!("{member}.{life}"),
            evidence: self.evidence.clone(),
            client: life * CLIENTS_PER_LIFE,
            seed: self.seed,
            retention_ms: self.target.retention_ms,
        };
        let mut running = Running::start(&spec, self.surprises.clone()).await?;
        if self.order != Order::Work {
            running.order(self.order).await?;
        }
        Ok(running)
    }

    /// Does what the schedule says.
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
        &mut slot.expect("the schedule knows only members of the cast").1
    }

    fn signal(&mut self, member: Member, signal: Signal) -> Result<()> {
        match self.slot(member) {
            Some(running) => running.signal(signal),
            None => Ok(()),
        }
    }

    /// Notes who ended without being killed.
    pub(super) fn notice(&mut self) -> Result<()> {
        for at in 0..self.members.len() {
            let (member, slot) = &mut self.members[at];
            let Some(running) = slot else { continue };
            if let Some(status) = running.ended()? {
                let (member, counts) = (*member, running.counts());
                if !status.success() {
                    let log = self.evidence.display();
                    let what = format!("{member} ended by itself: {status}; its log is in {log}");
                    self.surprises.add(what);
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

    /// What all processes counted, dead ones included.
    pub(super) fn counts(&self) -> Counts {
        let running = self.members.iter().filter_map(|(_, running)| running.as_ref());
        running.map(Running::counts).fold(self.past, |sum, it| Counts {
            acknowledged: sum.acknowledged + it.acknowledged,
            ended: sum.ended + it.ended,
            left: it.left.or(sum.left),
        })
    }

    /// Mends everything: the network, the store, the server, whoever is down or stands still.
    pub(super) async fn recover(&mut self) -> Result<()> {
        self.target.weather(Weather::Clear);
        self.target.start_store().await?;
        if self.target.cast.server {
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

    /// Gives an order to everybody, those included who come later.
    pub(super) async fn order(&mut self, order: Order) -> Result<()> {
        self.order = order;
        for (_, running) in &mut self.members {
            if let Some(running) = running {
                running.order(order).await?;
            }
        }
        Ok(())
    }

    /// Waits until those are gone whose work is over, and kills whoever stays: that is a finding.
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
                self.surprises.add(format!("{member} did not end within {max:?} of being told to"));
                let counts = running.kill().await?;
                self.bury(counts);
            }
        }
        Ok(())
    }
}
