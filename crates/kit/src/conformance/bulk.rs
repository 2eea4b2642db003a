//! Handing over many jobs at once.
