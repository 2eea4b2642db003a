//! The bounds of the layer. All of them have names and defaults; none can be zero.

use windlass_core::{Error, Result, limits};

/// Maximum number of items per merged call: bounds how long the first one waits for the last.
pub const CALL_ITEMS_MAX: usize = 1_000;
/// Maximum number of bytes per merged call.
pub const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default number of merged calls of one verb in flight.
///
/// Two, so that the next call is already at the store when the previous one finishes. Measured with the
/// `callers` example: on the local engine the difference is small compared with the drift of the disk. With
/// 64 callers, two runs of paired rounds gave 0.90 and 0.98 times the plain engine for one call, 1.06 and
/// 1.05 for two, 1.08 and 1.15 for four, with overlapping quartiles. In memory, where merging saves nothing,
/// more calls in flight only cost: 0.90, 0.75 and 0.64.
pub const IN_FLIGHT_DEFAULT: usize = 2;
/// Default maximum number of items waiting or in flight.
pub const HELD_ITEMS_DEFAULT: usize = 10_000;
/// Default maximum number of bytes waiting or in flight.
pub const HELD_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

// A merged call must be within the limits of engines.
const _: () = assert!(CALL_ITEMS_MAX <= limits::ENQUEUE_BATCH_MAX);
const _: () = assert!(CALL_ITEMS_MAX <= limits::BATCH_MAX);

/// Bounds of the layer. The defaults suit all Windlass engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub(super) in_flight_max: usize,
    pub(super) held_items_max: usize,
    pub(super) held_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            in_flight_max: IN_FLIGHT_DEFAULT,
            held_items_max: HELD_ITEMS_DEFAULT,
            held_bytes_max: HELD_BYTES_DEFAULT,
        }
    }
}

impl Options {
    /// Maximum number of merged calls of one verb in flight; further calls are collected meanwhile.
    #[must_use]
    pub const fn in_flight_max(mut self, calls: usize) -> Self {
        self.in_flight_max = calls;
        self
    }

    /// Maximum number of items waiting or in flight; further callers wait for capacity.
    #[must_use]
    pub const fn held_items_max(mut self, items: usize) -> Self {
        self.held_items_max = items;
        self
    }

    /// Maximum number of bytes waiting or in flight; further callers wait for capacity. A single larger
    /// request is admitted when nothing else is held.
    #[must_use]
    pub const fn held_bytes_max(mut self, bytes: usize) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// Checks that every bound is valid.
    pub fn check(&self) -> Result<()> {
        let bounds = [
            ("in_flight_max", self.in_flight_max),
            ("held_items_max", self.held_items_max),
            ("held_bytes_max", self.held_bytes_max),
        ];
        for (field, bound) in bounds {
            if bound == 0 || u32::try_from(bound).is_err() {
                let expected = format!("it must be between 1 and {}", u32::MAX);
                return Err(Error::invalid(field, bound, expected));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_nothing_is_refused_by_name() {
        Options::default().check().unwrap();
        let error = Options::default().in_flight_max(0).check().unwrap_err();
        assert_eq!(error.field(), Some("in_flight_max"));
        let error = Options::default().held_bytes_max(0).check().unwrap_err();
        assert_eq!(error.field(), Some("held_bytes_max"));
    }
}
