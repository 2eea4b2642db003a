//! Sessions and the leases they hold.
