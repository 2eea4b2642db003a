//! The services that keep a store in order, and their fenced leadership.
