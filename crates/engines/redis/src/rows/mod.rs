//! The formats of stored values.

pub(crate) mod event;
pub(crate) mod places;
pub(crate) mod record;
pub(crate) mod small;
