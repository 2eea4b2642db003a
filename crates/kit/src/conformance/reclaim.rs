//! Lost leases and the crash budget.
