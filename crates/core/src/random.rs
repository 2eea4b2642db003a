//! Randomness for jitter, ids and lease tokens. Injected, so that a seed reproduces a run.

use crate::sync::lock;
use rand::Rng as _;
use std::sync::Mutex;

/// A source of uniformly distributed numbers.
///
/// An engine that issues lease tokens needs an unguessable source ([`SystemRandom`]); tests use a [`Seeded`]
/// one.
pub trait Random: Send + Sync {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// A number in `0..bound`, or 0 when `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        // The high half of a 128-bit product: the bias is negligible for jitter.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The next 128 random bits.
    fn next_u128(&self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}

impl<R: Random + ?Sized> Random for std::sync::Arc<R> {
    fn next_u64(&self) -> u64 {
        (**self).next_u64()
    }
}

/// A reproducible sequence (SplitMix64). Not for tokens that must be unguessable.
#[derive(Debug)]
pub struct Seeded(Mutex<u64>);

impl Seeded {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for Seeded {
    fn next_u64(&self) -> u64 {
        let mut state = lock(&self.0);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Unguessable numbers: the thread's cryptographic generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        rand::rng().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_its_sequence() {
        let (one, two) = (Seeded::new(7), Seeded::new(7));
        let first: Vec<u64> = (0..10).map(|_| one.next_u64()).collect();
        assert_eq!(first, (0..10).map(|_| two.next_u64()).collect::<Vec<_>>());
        assert_ne!(first[0], first[1]);
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let random = Seeded::new(1);
        let seen: Vec<u64> = (0..1_000).map(|_| random.below(3)).collect();
        assert!(seen.contains(&0) && seen.contains(&2) && seen.iter().all(|n| *n < 3));
        assert_eq!(random.below(0), 0);
    }
}
