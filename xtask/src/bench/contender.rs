//! The contenders: Windlass and its peers, each with its store and its driver. Knows no workload.

use anyhow::{Result, bail};

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// A separate database on the PostgreSQL server of the run.
    Postgres,
    /// Redis with `appendfsync always`: synced before it answers.
    RedisAlways,
    /// Redis with `appendfsync everysec`: a crash loses up to a second.
    RedisEverysec,
    /// Beanstalkd, whose log is synced at every write.
    Beanstalkd,
    /// A directory.
    Directory,
}

/// The driver program of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// The driver of Windlass: `bench/ours`.
    Ours,
    /// `bench/peers/NAME/driver.mjs`.
    Node(&'static str),
    /// `bench/peers/NAME/driver.py`.
    Python(&'static str),
    /// The package NAME-driver in `bench/peers-rust`.
    Rust(&'static str),
}

/// Groups of contenders that are compared with each other, by kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Contenders on PostgreSQL, compared with Windlass on the same server.
    Postgres,
    /// Contenders on Redis that syncs before it answers.
    RedisAlways,
    /// Contenders on Redis that syncs every second: a crash of the machine loses about a second, for all of them alike.
    RedisEverysec,
    /// Contenders with their own store, compared with Windlass in a directory.
    Own,
}

impl Family {
    pub(super) const ALL: [Self; 4] =
        [Self::Postgres, Self::RedisAlways, Self::RedisEverysec, Self::Own];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "On PostgreSQL",
            Self::RedisAlways => "On Redis, synced at every write",
            Self::RedisEverysec => "On Redis, synced every second",
            Self::Own => "With a store of their own",
        }
    }
}

/// One row of the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// Name in `--only` and in progress messages.
    pub(super) name: &'static str,
    /// Title in the report.
    pub(super) title: &'static str,
    pub(super) store: StoreKind,
    pub(super) driver: Driver,
    /// Durability of an acknowledged job.
    pub(super) durability: &'static str,
}

const COMMITTED: &str = "fsync on, synchronous_commit on";

/// All contenders.
const ALL: &[Contender] = &[
    Contender {
        name: "windlass-postgres",
        title: "Windlass, postgres://",
        store: StoreKind::Postgres,
        driver: Driver::Ours,
        durability: "fsync on; enqueues and completions commit synchronously, claims do not",
    },
    on_postgres("graphile-worker", "Graphile Worker (Node)", Driver::Node("graphile-worker")),
    on_postgres("graphile_worker-rs", "graphile_worker (Rust)", Driver::Rust("graphile_worker")),
    on_postgres("pg-boss", "pg-boss (Node)", Driver::Node("pg-boss")),
    on_postgres("apalis-postgres", "apalis-postgres (Rust)", Driver::Rust("apalis-postgres")),
    on_postgres("awa", "awa (Rust)", Driver::Rust("awa")),
    on_postgres("bullmq-postgres", "BullMQ on PostgreSQL (Node)", Driver::Node("bullmq")),
    on_postgres("procrastinate", "Procrastinate (Python)", Driver::Python("procrastinate")),
    Contender {
        name: "windlass-local",
        title: "Windlass, file:",
        store: StoreKind::Directory,
        driver: Driver::Ours,
        durability: "synced before an enqueue or a completion is acknowledged",
    },
    Contender {
        name: "apalis-sqlite",
        title: "apalis-sqlite (Rust)",
        store: StoreKind::Directory,
        driver: Driver::Rust("apalis-sqlite"),
        durability: "WAL, synchronous FULL",
    },
    Contender {
        name: "beanstalkd",
        title: "beanstalkd",
        store: StoreKind::Beanstalkd,
        driver: Driver::Rust("beanstalkd"),
        durability: "binlog, fsync at every write (-f 0)",
    },
    on_redis("windlass-redis", "Windlass, redis://, AOF always", Driver::Ours),
    on_redis("bullmq-redis", "BullMQ, AOF always (Node)", Driver::Node("bullmq")),
    every_second("windlass-redis-everysec", "Windlass, redis://, AOF everysec", Driver::Ours),
    every_second("bullmq-redis-everysec", "BullMQ, AOF everysec (Node)", Driver::Node("bullmq")),
];

const fn on_redis(name: &'static str, title: &'static str, driver: Driver) -> Contender {
    Contender {
        name,
        title,
        store: StoreKind::RedisAlways,
        driver,
        durability: "appendfsync always",
    }
}

const fn every_second(name: &'static str, title: &'static str, driver: Driver) -> Contender {
    Contender {
        name,
        title,
        store: StoreKind::RedisEverysec,
        driver,
        durability: "appendfsync everysec: a crash of the machine loses about a second",
    }
}

const fn on_postgres(name: &'static str, title: &'static str, driver: Driver) -> Contender {
    Contender { name, title, store: StoreKind::Postgres, driver, durability: COMMITTED }
}

impl Contender {
    /// The peers whose names start with one of `only`, all peers if it is empty; and Windlass.
    pub(super) fn select(only: &[String]) -> Result<Vec<Self>> {
        for name in only {
            if name.is_empty() || !ALL.iter().any(|it| !it.is_ours() && it.name.starts_with(name)) {
                let peers = ALL.iter().filter(|it| !it.is_ours()).map(|it| it.name);
                bail!(
                    "unknown peer {name:?}; the known ones: {}",
                    peers.collect::<Vec<_>>().join(", ")
                );
            }
        }
        let is_named =
            |it: &Self| only.is_empty() || only.iter().any(|name| it.name.starts_with(name));
        let peers: Vec<Self> =
            ALL.iter().copied().filter(|it| !it.is_ours() && is_named(it)).collect();
        let is_wanted = |it: &Self| peers.iter().any(|peer| peer.family() == it.family());
        let ours = ALL.iter().copied().filter(|it| it.is_ours() && is_wanted(it));
        Ok(ours.chain(peers.clone()).collect())
    }

    /// Finds a contender by the name in the results.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.name == name)
    }

    pub(super) fn is_ours(&self) -> bool {
        self.driver == Driver::Ours
    }

    pub(super) const fn family(&self) -> Family {
        match self.store {
            StoreKind::Postgres => Family::Postgres,
            StoreKind::RedisAlways => Family::RedisAlways,
            StoreKind::RedisEverysec => Family::RedisEverysec,
            StoreKind::Beanstalkd | StoreKind::Directory => Family::Own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        Contender::select(&only).unwrap().iter().map(|it| it.name).collect()
    }

    #[test]
    fn peers_come_with_ours_of_the_same_family() {
        assert_eq!(names(&["beanstalkd"]), ["windlass-local", "beanstalkd"]);
        assert_eq!(names(&["pg-boss"]), ["windlass-postgres", "pg-boss"]);
        let everysec = ["windlass-redis-everysec", "bullmq-redis-everysec"];
        assert_eq!(names(&["bullmq-redis-everysec"]), everysec);
        assert_eq!(names(&[]).len(), ALL.len());
    }

    #[test]
    fn an_unknown_peer_is_refused_with_the_known_ones() {
        let error = Contender::select(&["river".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("river") && error.contains("pg-boss"), "{error}");
        assert!(Contender::select(&["windlass".to_owned()]).is_err());
    }
}
