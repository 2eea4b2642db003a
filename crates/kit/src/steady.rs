//! Randomness for comparing engines that use different amounts of it.

use windlass_core::random::{Random, Seeded};

/// Tokens are drawn from a sequence and differ from each other; jitter is always the same. Two engines that draw a
/// different number of tokens so still compute the same times.
#[derive(Debug)]
pub struct SteadyRandom {
    tokens: Seeded,
}

impl Default for SteadyRandom {
    fn default() -> Self {
        Self { tokens: Seeded::new(7) }
    }
}

impl Random for SteadyRandom {
    fn next_u64(&self) -> u64 {
        u64::MAX / 3
    }

    fn next_u128(&self) -> u128 {
        self.tokens.next_u128()
    }
}
