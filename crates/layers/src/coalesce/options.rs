//! The bounds of the layer. All of them have names and defaults; none can be zero.

use windlass_core::{Error, Result, limits};

/// Items in one merged call: bounds how long the first of them waits for the last.
pub const CALL_ITEMS_MAX: usize = 1_000;
/// Bytes in one merged call.
pub const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Merged calls of one verb on their way at a time, unless set otherwise.
///
/// Two, so that the next call is at the store when the one before it is done. The `callers` example
/// measures it, and on the local engine the difference is small beside the disk's drift: with 64 callers,
/// two runs of paired rounds gave 0.90 and 0.98 times the plain engine for one, 1.06 and 1.05 for two,
/// 1.08 and 1.15 for four, with overlapping quartiles. In memory, where merging saves nothing, more calls
/// on their way only cost: 0.90, 0.75 and 0.64.
pub const IN_FLIGHT_DEFAULT: usize = 2;
/// Items that may wait or be on their way, unless set otherwise.
pub const HELD_ITEMS_DEFAULT: usize = 10_000;
/// Bytes that may wait or be on their way, unless set otherwise.
pub const HELD_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

// A merged call must be one that engines accept.
const _: () = assert!(CALL_ITEMS_MAX <= limits::ENQUEUE_BATCH_MAX);
const _: () = assert!(CALL_ITEMS_MAX <= limits::BATCH_MAX);

/// How much the layer holds and sends. The defaults suit every engine of ours.
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
    /// So many merged calls of one verb on their way at a time; more calls gather meanwhile.
    #[must_use]
    pub const fn in_flight_max(mut self, calls: usize) -> Self {
        self.in_flight_max = calls;
        self
    }

    /// So many items waiting or on their way; callers beyond that wait for room.
    #[must_use]
    pub const fn held_items_max(mut self, items: usize) -> Self {
        self.held_items_max = items;
        self
    }

    /// So many bytes waiting or on their way; callers beyond that wait for room. A single request
    /// that is bigger than this gets in when nothing else is held.
    #[must_use]
    pub const fn held_bytes_max(mut self, bytes: usize) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// Whether every bound can be kept.
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
