//! Measures the disk usage of a store: against the file system of a directory, or against a configured limit.
//! It must not know how the server reacts.

use crate::connect::Url;
use anyhow::{Result, bail};
use rustix::fs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use windlass_core::Error;
use windlass_local::Space;
use windlass_postgres::PostgresEngine;
use windlass_server::{DiskProbe, DiskUse};

/// Measures the disk usage of one store.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    limit_bytes: Option<u64>,
    /// The PostgreSQL engine, once it is open.
    postgres: Arc<OnceLock<PostgresEngine>>,
    /// The free-space check of a directory, once it is open.
    local: Arc<OnceLock<Space>>,
}

impl Disk {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, postgres: Arc::default(), local: Arc::default() }
    }

    /// Sets the engine, once it is open.
    pub(crate) fn found(&self, engine: PostgresEngine) {
        // The store is opened once; a second value would be the same store.
        let _ = self.postgres.set(engine);
    }

    /// Sets the free-space check of the directory, once it is open.
    pub(crate) fn found_directory(&self, space: Space) {
        // The store is opened once.
        let _ = self.local.set(space);
    }

    /// The probe for this store; `None` if its disk is not measured.
    pub(crate) fn probe(&self, store: &Url) -> Result<Option<DiskProbe>> {
        match (store, self.limit_bytes) {
            (Url::File(dir), limit) => {
                let (dir, space) = (dir.clone(), self.local.clone());
                let probe = DiskProbe::new(move || of_directory(dir.clone(), limit));
                Ok(Some(probe.shortage(move || space.get()?.shortage())))
            }
            (Url::Postgres(_), Some(limit_bytes)) => {
                let engine = self.postgres.clone();
                Ok(Some(DiskProbe::new(move || of_database(engine.clone(), limit_bytes))))
            }
            (_, None) => Ok(None),
            (other, Some(_)) => {
                bail!(
                    "--disk-limit applies to file: and postgres:// stores only, and {other} has no disk"
                )
            }
        }
    }
}

/// With a limit, measures the files of the store; without one, the whole file system.
async fn of_directory(dir: PathBuf, limit: Option<u64>) -> windlass_core::Result<DiskUse> {
    let read = tokio::task::spawn_blocking(move || match limit {
        Some(limit_bytes) => Ok(DiskUse { used_bytes: size(&dir)?, limit_bytes }),
        None => file_system(&dir),
    });
    let unread = |error: &dyn std::fmt::Display| Error::Unavailable {
        store: "the directory of the store".to_owned(),
        reason: error.to_string(),
    };
    read.await.map_err(|error| unread(&error))?.map_err(|error| unread(&error))
}

/// The total size of the files in a directory, without subdirectories: a store has none.
fn size(dir: &Path) -> std::io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(dir)? {
        // A file that was deleted meanwhile counts as 0 bytes.
        let metadata = entry?.metadata().ok().filter(fs::Metadata::is_file);
        sum = sum.saturating_add(metadata.map_or(0, |it| it.len()));
    }
    Ok(sum)
}

/// Usage of the file system. Blocks reserved for root are not part of the limit, because the server cannot use
/// them.
fn file_system(dir: &Path) -> std::io::Result<DiskUse> {
    let seen = statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(seen.f_frsize);
    let used = seen.f_blocks.saturating_sub(seen.f_bfree);
    Ok(DiskUse { used_bytes: bytes(used), limit_bytes: bytes(used.saturating_add(seen.f_bavail)) })
}

async fn of_database(
    engine: Arc<OnceLock<PostgresEngine>>,
    limit_bytes: u64,
) -> windlass_core::Result<DiskUse> {
    let away = || Error::Unavailable {
        store: "postgres".to_owned(),
        reason: "it is not open yet".to_owned(),
    };
    let used_bytes = engine.get().ok_or_else(away)?.database_bytes().await?;
    Ok(DiskUse { used_bytes, limit_bytes })
}
