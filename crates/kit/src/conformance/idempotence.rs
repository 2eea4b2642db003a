//! Repeating a claim or a settle whose reply was lost.
