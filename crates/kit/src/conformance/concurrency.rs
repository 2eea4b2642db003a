//! Many threads at once.
