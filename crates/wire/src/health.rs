//! Health of a server and its store.

use serde::{Deserialize, Serialize};

/// The state of a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alive {
    /// Health of its store.
    pub store: StoreHealth,
}

/// Health of a store, as seen by its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoreHealth {
    /// Name of the store, without passwords.
    pub name: String,
    /// Whether the last health check succeeded; checks run every second.
    pub up: bool,
    /// Whether a health check succeeded within the last 30 seconds.
    pub healthy: bool,
    /// Whether it accepts new jobs. False while its disk is full; other operations continue then.
    pub accepts_jobs: bool,
    /// Duration of the current outage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_ms: Option<u64>,
    /// Why it does not answer or refuses new jobs, as reported by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Usage of its disk, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

/// Usage of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disk {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Capacity in bytes.
    pub limit_bytes: u64,
    /// Whether at least 80 % are in use.
    pub filling: bool,
}
