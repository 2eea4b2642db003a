//! Jobs created in the step that settles another.
