//! Limits and bad input: refused by name, neighbours unharmed.
