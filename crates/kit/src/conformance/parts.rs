//! The four parts of a job and their envelopes.
