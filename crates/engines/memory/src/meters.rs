//! What limits remember about starts, by limit and group.

use std::collections::BTreeMap;
use windlass_core::Timestamp;
use windlass_core::model::Name;
use windlass_core::policy::Meter;

/// The meters of all limits.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    meters: BTreeMap<(Name, String), Meter>,
}

impl Meters {
    pub(crate) fn read<T>(&self, limit: &Name, group: &str, read: impl FnOnce(&Meter) -> T) -> T {
        match self.meters.get(&(limit.clone(), group.to_owned())) {
            Some(meter) => read(meter),
            None => read(&Meter::default()),
        }
    }

    pub(crate) fn save(&mut self, limit: &Name, group: &str, meter: &Meter) {
        self.meters.insert((limit.clone(), group.to_owned()), meter.clone());
    }

    /// Removes meters that equal new ones.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.meters.retain(|_, meter| !meter.is_idle(now));
    }
}
