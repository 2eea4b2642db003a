//! Outcomes: what becomes of a job its worker reports on.
