//! What a network can be like.

use std::fmt;

/// What happens to bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::torture) enum Weather {
    /// Nothing.
    Clear,
    /// Each chunk is held up.
    Slow {
        /// For so long.
        ms: u64,
    },
    /// Some answers are thrown away, after the request has reached the store, and the connection with
    /// them.
    LostReplies,
    /// Some connections are reset.
    Resets,
    /// Nothing gets through; it arrives late, when the weather changes.
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
