//! Rank: in which order ready jobs are claimed.
