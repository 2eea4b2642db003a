//! `[services]`: background maintenance of the store, with its intervals and batch sizes.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::ops::RangeInclusive;
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_services::{
    HISTORY_MS, INTERVAL_MS, LEAD_TTL_MS, PROMPT_INTERVAL_MS, SAMPLE_INTERVAL_MS, ServiceOptions,
};

/// Accepted batch sizes of one maintenance step.
const BATCH: RangeInclusive<u64> = 1..=MAINTAIN_BUDGET_MAX as u64;

/// Builds the settings of all services: `upkeep` services process jobs in batches, `paced` ones run at an
/// interval without a batch size.
macro_rules! services {
    (
        own { $($own:expr,)+ }
        upkeep { $($upkeep:ident: $upkeep_range:expr, $upkeep_does:literal;)+ }
        paced { $($paced:ident: $paced_range:expr, $paced_does:literal;)+ }
    ) => {
        &[
            $($own,)+
            $(
                services!(@enabled $upkeep, $upkeep_does),
                services!(@interval $upkeep, $upkeep_range),
                field!(
                    concat!(stringify!($upkeep), ".batch"),
                    Kind::count(BATCH),
                    Live,
                    services.options.$upkeep.batch,
                    "Maximum number of jobs per step; a run takes as many steps as there is work."
                ),
            )+
            $(
                services!(@enabled $paced, $paced_does),
                services!(@interval $paced, $paced_range),
            )+
        ]
    };
    (@enabled $service:ident, $does:literal) => {
        field!(
            concat!(stringify!($service), ".enabled"),
            Kind::FLAG,
            Live,
            services.options.$service.enabled,
            concat!("Let this process ", $does, ".")
        )
    };
    (@interval $service:ident, $range:expr) => {
        field!(
            concat!(stringify!($service), ".interval"),
            Kind::time($range),
            Live,
            services.options.$service.interval,
            "Maximum interval between two runs."
        )
    };
}

pub(super) const SECTION: Section = Section {
    name: "services",
    doc: "Background maintenance of the store. One of the processes that share a store runs it at a time.",
    fields: services! {
        own {
        field!(
            "enabled",
            Kind::FLAG,
            Live,
            services.enabled,
            "Run services in this process. At least one process must, or delayed jobs never become due."
        ),
        field!(
            "leadership",
            Kind::FLAG,
            Live,
            services.options.leadership,
            "Elect one process to run the services. If false, every process runs them: safe, but wasteful."
        ),
        field!(
            "lead_ttl",
            Kind::time(LEAD_TTL_MS),
            Live,
            services.options.lead_ttl,
            "Time until another process takes over the services after the one running them was killed."
        ),
        field!(
            "history",
            Kind::time(HISTORY_MS),
            Live,
            services.options.history,
            "How long the history of removed jobs is kept."
        ),
        }
        upkeep {
            promote: PROMPT_INTERVAL_MS, "make due jobs ready";
            reclaim: PROMPT_INTERVAL_MS, "reclaim the jobs of lost workers";
            expire: INTERVAL_MS, "expire jobs that exceed their maximum wait";
            retain: INTERVAL_MS, "remove jobs past their retention";
            compact: INTERVAL_MS, "free disk space";
        }
        paced {
            trim: INTERVAL_MS, "trim dead letters to the size limit of their queue";
            breaker: PROMPT_INTERVAL_MS, "open the circuit breakers of failing kinds";
            schedule: PROMPT_INTERVAL_MS, "fire schedules";
            bulk: PROMPT_INTERVAL_MS, "continue changes of many jobs";
            sample: SAMPLE_INTERVAL_MS, "sample queue metrics";
        }
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) enabled: bool,
    pub(crate) options: ServiceOptions,
}

impl Default for Services {
    fn default() -> Self {
        Self { enabled: true, options: ServiceOptions::default() }
    }
}

impl Services {
    /// The options of the services that this process runs; `None` if they are disabled.
    pub(crate) fn hosted(&self) -> Option<&ServiceOptions> {
        self.enabled.then_some(&self.options)
    }
}
