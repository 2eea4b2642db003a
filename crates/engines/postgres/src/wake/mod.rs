//! Waking waiting workers and readers of events: `notify` sends and receives notifications between processes, `readers` are
//! the readers of this process, `wait` waits for claimable jobs.

pub(crate) mod notify;
mod readers;
mod wait;
