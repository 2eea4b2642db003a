//! Dead jobs and their replay.
