//! Schedules: many schedulers, one fire.
