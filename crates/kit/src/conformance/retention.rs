//! Retention of the finished and expiry of the waiting.
