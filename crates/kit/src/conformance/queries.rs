//! Stats, listing and paging.
