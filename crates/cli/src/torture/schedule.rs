//! Generates the faults of a run from the seed, the length and the participants alone, independent of anything that
//! happens during the run. The same seed therefore means the same faults.

use super::participants::{Member, Network, Participants};
use super::proxy::Weather;
use super::{LEASE_MS, happens};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use windlass_core::random::{Random as _, Seeded};

/// Time before the first fault, so that all clients can start.
const FIRST_MS: u64 = 700;
/// Time from the start of one fault to the start of the next.
const GAP_MS: std::ops::Range<u64> = 100..800;
/// Time until a killed process is restarted.
const DOWN_MS: std::ops::Range<u64> = 20..700;
/// Duration of a stall: always longer than a lease.
const STALL_MS: std::ops::Range<u64> = LEASE_MS + 300..LEASE_MS + 2_000;
/// Duration of a network fault.
const WEATHER_MS: std::ops::Range<u64> = 200..1_800;
/// Delay of each chunk while the network is slow.
const SLOW_MS: std::ops::Range<u64> = 10..300;
/// Minimum time between two faults of the same client.
const REST_CLIENT_MS: u64 = 500;
/// Minimum time between two faults of a store, server or owner: it must be available long enough for tests.
const REST_STORE_MS: u64 = 1_000;
/// Share of kills among process faults, per mille; the others are stalls, which take longer.
const KILLS_PER_MILLE: u64 = 700;
/// The same share where one process owns the store: with more stalls, it would be stopped most of the time.
const KILLS_OF_OWNER_PER_MILLE: u64 = 880;

/// One action of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// SIGKILL.
    Kill(Member),
    /// Restart after a kill.
    Start(Member),
    /// SIGSTOP.
    Stall(Member),
    /// SIGCONT.
    Resume(Member),
    /// A change of the network's behaviour.
    Weather(Weather),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(member) => write!(f, "SIGKILL {member}"),
            Self::Start(member) => write!(f, "start {member}"),
            Self::Stall(member) => write!(f, "SIGSTOP {member}"),
            Self::Resume(member) => write!(f, "SIGCONT {member}"),
            Self::Weather(weather) => write!(f, "network: {weather}"),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Action {
    /// Whether it causes a fault, as opposed to ending one.
    pub(super) fn is_fault(self) -> bool {
        !matches!(self, Self::Start(_) | Self::Resume(_) | Self::Weather(Weather::Clear))
    }
}

/// An action with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    /// Milliseconds from the start of the run.
    pub(super) at_ms: u64,
    /// The action.
    pub(super) action: Action,
}

/// The schedule of a run, sorted by time.
pub(super) fn schedule(seed: u64, run_ms: u64, participants: Participants) -> Vec<Step> {
    let mut writer = Writer {
        random: Seeded::new(seed),
        run_ms,
        busy: HashMap::new(),
        network_busy: 0,
        steps: Vec::new(),
    };
    let mut at_ms = FIRST_MS;
    while at_ms < run_ms {
        writer.fault(at_ms, participants);
        at_ms += writer.within(GAP_MS);
    }
    writer.steps.sort_by_key(|step| step.at_ms);
    writer.steps
}

struct Writer {
    random: Seeded,
    run_ms: u64,
    /// The time until which each process gets no further fault.
    busy: HashMap<Member, u64>,
    network_busy: u64,
    steps: Vec<Step>,
}

impl Writer {
    fn within(&self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.random.below(range.end - range.start)
    }

    /// Adds a fault that starts at `at_ms`, unless its victim has not recovered from the last one. The same
    /// number of random values is drawn either way, so that a short run is a prefix of a longer one.
    fn fault(&mut self, at_ms: u64, participants: Participants) {
        let victim = self.victim(participants);
        let weather = self.weather(participants);
        let kills = if participants.owner { KILLS_OF_OWNER_PER_MILLE } else { KILLS_PER_MILLE };
        let is_kill = happens(&self.random, kills);
        let (down, stall) = (self.within(DOWN_MS), self.within(STALL_MS));
        let lasting = self.within(WEATHER_MS);
        // The first fault kills the database if the run started one, so that even a short run includes it.
        let is_first_of_store = participants.store && self.steps.is_empty();
        let victim = if is_first_of_store { Member::Store } else { victim };
        let is_kill = is_kill || victim == Member::Store;
        let is_weather = happens(&self.random, 400)
            && participants.network != Network::None
            && !is_first_of_store;
        if is_weather {
            let clear = Action::Weather(Weather::Clear);
            if self.network_busy <= at_ms && at_ms + lasting < self.run_ms {
                self.network_busy = at_ms + lasting;
                self.add(at_ms, Action::Weather(weather), lasting, clear);
            }
            return;
        }
        let (begin, lasting, end) = match is_kill {
            true => (Action::Kill(victim), down, Action::Start(victim)),
            false => (Action::Stall(victim), stall, Action::Resume(victim)),
        };
        let busy = self.busy.get(&victim).copied().unwrap_or_default();
        if busy <= at_ms && at_ms + lasting < self.run_ms {
            let is_client = matches!(victim, Member::Client(..));
            let rest = if is_client { REST_CLIENT_MS } else { REST_STORE_MS };
            self.busy.insert(victim, at_ms + lasting + rest);
            self.add(at_ms, begin, lasting, end);
        }
    }

    fn add(&mut self, at_ms: u64, begin: Action, lasting: u64, end: Action) {
        self.steps.push(Step { at_ms, action: begin });
        self.steps.push(Step { at_ms: at_ms + lasting, action: end });
    }

    /// Picks a process, mostly workers, because they hold leases that can be lost.
    fn victim(&self, participants: Participants) -> Member {
        let (drawn, among) = (self.random.below(100), self.random.next_u64());
        if participants.server && drawn < 25 {
            return Member::Server;
        }
        if participants.store && drawn < 25 {
            return Member::Store;
        }
        let all = participants.clients();
        let wanted = all.iter().filter(|it| it.makes_work() == (drawn >= 85));
        let wanted: Vec<Member> = wanted.copied().collect();
        let from = if wanted.is_empty() { &all } else { &wanted };
        from[(among % from.len() as u64) as usize]
    }

    fn weather(&self, participants: Participants) -> Weather {
        let (drawn, ms) = (self.random.below(5), self.within(SLOW_MS));
        match drawn {
            0 => Weather::Slow { ms },
            1 => Weather::Resets,
            2 => Weather::Cut,
            3 if participants.network == Network::Http => Weather::Repeats,
            _ => Weather::LostReplies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNED: Participants = Participants {
        owner: true,
        server: false,
        store: false,
        network: Network::None,
        operators: 1,
        limits: false,
        flows: false,
    };
    const SERVED: Participants =
        Participants { owner: false, server: true, network: Network::Http, ..OWNED };
    const STARTED: Participants =
        Participants { owner: false, store: true, network: Network::Bytes, ..OWNED };

    #[test]
    fn the_same_seed_means_the_same_faults_and_another_one_others() {
        assert_eq!(schedule(7, 60_000, SERVED), schedule(7, 60_000, SERVED));
        assert_ne!(schedule(7, 60_000, SERVED), schedule(8, 60_000, SERVED));
    }

    #[test]
    fn stopped_processes_get_no_faults_and_all_processes_run_at_the_end() {
        let casts = |seed| [SERVED, OWNED, STARTED].map(|participants| (seed, participants));
        for (seed, participants) in (0..50).flat_map(casts) {
            let mut down = std::collections::HashSet::new();
            for Step { at_ms, action } in schedule(seed, 30_000, participants) {
                assert!(at_ms < 30_000);
                match action {
                    Action::Kill(it) | Action::Stall(it) => assert!(down.insert(it), "{it}"),
                    Action::Start(it) | Action::Resume(it) => assert!(down.remove(&it), "{it}"),
                    Action::Weather(_) => assert_ne!(participants.network, Network::None),
                }
            }
            assert!(down.is_empty(), "{down:?}");
        }
    }

    #[test]
    fn a_minute_has_every_fault_that_the_cast_allows() {
        let all: Vec<String> =
            schedule(1, 60_000, SERVED).iter().map(|step| step.action.to_string()).collect();
        let wanted = [
            "SIGKILL worker",
            "SIGKILL rogue",
            "SIGKILL forgetful",
            "SIGKILL producer",
            "SIGKILL operator",
            "SIGKILL server",
            "SIGSTOP worker",
            "SIGSTOP server",
            "network: slow",
            "network: lost replies",
            "network: resets",
            "network: cut",
            "network: repeated requests",
        ];
        for wanted in wanted {
            assert!(all.iter().any(|action| action.starts_with(wanted)), "{wanted} in {all:?}");
        }
        let kills = schedule(1, 60_000, OWNED).iter().filter(|it| it.action.is_fault()).count();
        assert!(kills > 8, "{kills}");
    }

    #[test]
    fn a_database_of_our_own_is_killed_first_and_again_and_never_merely_stalled() {
        for seed in 0..50 {
            let steps = schedule(seed, 60_000, STARTED);
            assert_eq!(steps[0].action, Action::Kill(Member::Store));
            let kills = steps.iter().filter(|it| it.action == Action::Kill(Member::Store)).count();
            assert!(kills >= 4, "seed {seed}: {kills}");
            assert!(steps.iter().all(|it| it.action != Action::Stall(Member::Store)));
        }
    }
}
