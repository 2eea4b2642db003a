//! Versioned documents and bounded logs.
