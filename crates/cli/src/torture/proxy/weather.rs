//! The network faults.

use std::fmt;

/// The behaviour of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::torture) enum Weather {
    /// No fault.
    Clear,
    /// Each chunk is delayed.
    Slow {
        /// Delay in milliseconds.
        ms: u64,
    },
    /// Some replies are discarded after the request has reached the store, and their connections are closed.
    LostReplies,
    /// Some connections are reset.
    Resets,
    /// All bytes are held back until the fault ends.
    Cut,
    /// Some requests are sent twice, the second time late.
    Repeats,
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clear => f.write_str("clear"),
            Self::Slow { ms } => write!(f, "slow by {ms} ms"),
            Self::LostReplies => f.write_str("lost replies"),
            Self::Resets => f.write_str("resets"),
            Self::Cut => f.write_str("cut"),
            Self::Repeats => f.write_str("repeated requests"),
        }
    }
}
