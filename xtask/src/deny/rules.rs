//! Reads the parts of deny.toml that are checked here. The rest is for cargo-deny.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Rules {
    pub(super) licenses: Licenses,
    pub(super) bans: Bans,
    pub(super) sources: Sources,
}

#[derive(Deserialize)]
pub(super) struct Licenses {
    pub(super) allow: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Bans {
    pub(super) skip: Vec<Skip>,
}

/// A version that is allowed in addition to another one.
#[derive(Deserialize)]
pub(super) struct Skip {
    /// `name@version`.
    #[serde(rename = "crate")]
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sources {
    pub(super) allow_registry: Vec<String>,
}

impl Rules {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    #[cfg(test)]
    pub(super) fn of(licenses: &[&str], skip: &[&str], registries: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        let skip = skip.iter().map(|name| Skip { name: (*name).to_owned() }).collect();
        Self {
            licenses: Licenses { allow: owned(licenses) },
            bans: Bans { skip },
            sources: Sources { allow_registry: owned(registries) },
        }
    }
}
