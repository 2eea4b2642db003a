//! Whether a server and its store are well.

use serde::{Deserialize, Serialize};

/// A process that lives, and what it knows of its store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alive {
    /// Its store.
    pub store: StoreHealth,
}

/// How a store is doing, as its server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoreHealth {
    /// Which; never with a password.
    pub name: String,
    /// Whether it answered when it was asked last, which is every second.
    pub up: bool,
    /// Whether it answered within the last 30 seconds: what is shorter is a hiccup.
    pub healthy: bool,
    /// Whether it takes new jobs: not while its disk is full, when everything else goes on.
    pub accepts_jobs: bool,
    /// For how long it has not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_ms: Option<u64>,
    /// Why it does not answer, or takes no new jobs, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How full its disk is, where somebody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

/// How full a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disk {
    /// Bytes that are used.
    pub used_bytes: u64,
    /// Bytes that there are.
    pub limit_bytes: u64,
    /// Whether 80 % of them are used.
    pub filling: bool,
}
