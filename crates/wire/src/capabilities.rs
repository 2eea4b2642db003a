//! Capabilities of the server and its engine.

use crate::fault::{capability_name, capability_named};
use crate::intern::intern;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Atomicity, Capability, Durability};
use windlass_core::{Error, Result};

/// The protocol version of this crate.
pub const PROTOCOL: u32 = 1;

/// Capabilities of an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// The protocol version.
    pub protocol: u32,
    /// The engine's name.
    pub engine: String,
    /// `queue` or `store`.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Atomicity))]
    pub atomicity: String,
    /// `volatile`, `relaxed`, `process`, `host` or `replica`.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Durability))]
    pub durability: String,
    /// Maximum bytes of a payload.
    pub payload_bytes_max: usize,
    /// Maximum bytes of one request body; 0 if unknown.
    #[serde(default)]
    pub body_bytes_max: usize,
    /// Optional capabilities of the engine.
    pub has: Vec<String>,
}

const ATOMICITIES: [(Atomicity, &str); 2] =
    [(Atomicity::Queue, "queue"), (Atomicity::Store, "store")];

const DURABILITIES: [(Durability, &str); 5] = [
    (Durability::Volatile, "volatile"),
    (Durability::Relaxed, "relaxed"),
    (Durability::Process, "process"),
    (Durability::Host, "host"),
    (Durability::Replica, "replica"),
];

fn name_of<T: PartialEq>(table: &[(T, &str)], value: T) -> String {
    let name = table.iter().find(|(known, _)| *known == value).map(|(_, name)| *name);
    name.unwrap_or_default().to_owned()
}

fn named<T: Copy>(table: &[(T, &str)], field: &'static str, name: &str) -> Result<T> {
    let value = table.iter().find(|(_, known)| *known == name).map(|(value, _)| *value);
    value.ok_or_else(|| Error::invalid(field, name, "this client is older than the server"))
}

impl From<&engine::Capabilities> for Capabilities {
    fn from(capabilities: &engine::Capabilities) -> Self {
        let has = Capability::ALL.into_iter().filter(|it| capabilities.has(*it));
        Self {
            protocol: PROTOCOL,
            engine: capabilities.engine.to_owned(),
            atomicity: name_of(&ATOMICITIES, capabilities.atomicity),
            durability: name_of(&DURABILITIES, capabilities.durability),
            payload_bytes_max: capabilities.payload_bytes_max,
            body_bytes_max: 0,
            has: has.map(|it| capability_name(it).to_owned()).collect(),
        }
    }
}

impl Capabilities {
    /// Converts to core's capabilities. Ignores capabilities unknown to this version.
    pub fn into_core(self) -> Result<engine::Capabilities> {
        let atomicity = named(&ATOMICITIES, "atomicity", &self.atomicity)?;
        let durability = named(&DURABILITIES, "durability", &self.durability)?;
        let engine = intern(&self.engine, "remote");
        let bare = engine::Capabilities::new(engine, atomicity, durability);
        let known = self.has.iter().filter_map(|name| capability_named(name));
        let mut full = known.fold(bare, engine::Capabilities::with);
        full.payload_bytes_max = self.payload_bytes_max;
        Ok(full)
    }
}
