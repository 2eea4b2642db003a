//! Waking waiting workers: `notify` sends and receives notifications between processes, `wait` waits for claimable jobs.

pub(crate) mod notify;
mod wait;
