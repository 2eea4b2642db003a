//! The names of Redis keys. All keys of a store share a hash tag, so that they are in one slot of a cluster.
//!
//! Names of queues and kinds contain no spaces, so a space separates them from what follows.

use windlass_core::JobId;
use windlass_core::model::{Name, PartName, State};
use windlass_executor::{LaneKey, UniqueSlot};

/// Keys of a store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn of(name: &str) -> Self {
        Self { prefix: format!("windlass:{{{name}}}:") }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key that exists once per store. [`docs/guides/redis.md`] lists them.
    pub(crate) fn one(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn of_two(&self, name: &str, of: &str) -> Vec<u8> {
        format!("{}{name}:{of}", self.prefix).into_bytes()
    }

    /// An index of a lane.
    pub(crate) fn lane(&self, name: &str, lane: &LaneKey) -> Vec<u8> {
        self.of_two(name, &lane_text(lane))
    }

    /// The jobs of a lane in a state, in the order of listings; ready jobs have [`ready`](Self::ready) instead.
    pub(crate) fn state(&self, state: State, own: bool, lane: &LaneKey) -> Vec<u8> {
        let name = state.as_str();
        match own {
            true => self.lane(&format!("{name}+own"), lane),
            false => self.lane(name, lane),
        }
    }

    /// Running jobs of a lane.
    pub(crate) fn running(&self, lane: &LaneKey) -> Vec<u8> {
        self.state(State::Running, false, lane)
    }

    /// All jobs of a lane, by id.
    pub(crate) fn all(&self, lane: &LaneKey) -> Vec<u8> {
        self.lane("all", lane)
    }

    /// Ready jobs of a lane, in the order of claims.
    pub(crate) fn ready(&self, lane: &LaneKey) -> Vec<u8> {
        self.lane("ready", lane)
    }

    /// Kinds of a queue that may have ready jobs.
    pub(crate) fn open(&self, queue: &str) -> Vec<u8> {
        self.of_two("open", queue)
    }

    /// Leases of a session.
    pub(crate) fn held(&self, session: &str) -> Vec<u8> {
        self.of_two("held", session)
    }

    /// The line for an ordering key.
    pub(crate) fn line(&self, queue: &str, key: &str) -> Vec<u8> {
        self.of_two("line", &format!("{queue} {key}"))
    }

    /// The latest turns of the tenants of a fair queue.
    pub(crate) fn turns(&self, queue: &str) -> Vec<u8> {
        self.of_two("turn", queue)
    }

    /// The lines of a group: counts by lane.
    pub(crate) fn group(&self, group: &str) -> Vec<u8> {
        self.of_two("group", group)
    }

    /// Running jobs of a group, by lane.
    pub(crate) fn group_running(&self, group: &str) -> Vec<u8> {
        self.of_two("group_running", group)
    }

    /// The line of a group in a lane.
    pub(crate) fn group_line(&self, lane: &LaneKey, group: &str) -> Vec<u8> {
        self.of_two("group_line", &format!("{} {group}", lane_text(lane)))
    }

    /// Lines of groups in a queue, by the time at which they open.
    pub(crate) fn openings(&self, queue: &str) -> Vec<u8> {
        self.of_two("opening", queue)
    }

    /// Meters of a group; those of limits over all jobs have the group "".
    pub(crate) fn meters(&self, group: &str) -> Vec<u8> {
        self.of_two("meter", group)
    }

    /// Waiting jobs of a queue that limits their waiting, by the time they were due.
    pub(crate) fn aging(&self, queue: &str) -> Vec<u8> {
        self.of_two("aging", queue)
    }

    /// Dependencies of a job, by position.
    pub(crate) fn inputs(&self, id: JobId) -> Vec<u8> {
        self.of_two("input", &id.to_string())
    }

    /// Open dependencies on a job.
    pub(crate) fn edges(&self, id: JobId) -> Vec<u8> {
        self.of_two("edge", &id.to_string())
    }

    /// Removed jobs of an hour.
    pub(crate) fn removed(&self, hour_ms: i64) -> Vec<u8> {
        self.of_two("removed", &hour_ms.to_string())
    }

    /// The events of a queue. An id is the start of the stream, and the number of the event after it, from 0.
    pub(crate) fn events(&self, queue: &str) -> Vec<u8> {
        self.of_two("event", queue)
    }

    /// Entries of a log.
    pub(crate) fn log(&self, log: &str) -> Vec<u8> {
        self.of_two("log", log)
    }
}

/// A lane as text.
pub(crate) fn lane_text((queue, kind): &LaneKey) -> String {
    format!("{queue} {kind}")
}

/// The lane of a text.
pub(crate) fn lane_of(text: &str) -> Option<LaneKey> {
    let (queue, kind) = text.split_once(' ')?;
    Some((Name::from(queue), Name::from(kind)))
}

/// The field of a part.
pub(crate) fn part(id: JobId, name: PartName) -> Vec<u8> {
    [id.as_bytes().as_slice(), &[part_letter(name)]].concat()
}

/// The letter of a part.
pub(crate) const fn part_letter(name: PartName) -> u8 {
    match name {
        PartName::Payload => b'p',
        PartName::Checkpoint => b'c',
        PartName::Blob => b'b',
        PartName::Metadata => b'm',
    }
}

/// The field of a unique key.
pub(crate) fn slot(slot: &UniqueSlot) -> Vec<u8> {
    format!("{} {} {}", slot.queue, slot.kind, slot.key).into_bytes()
}

/// The field of an ordering key.
pub(crate) fn key_field(queue: &str, key: &str) -> Vec<u8> {
    format!("{queue} {key}").into_bytes()
}
