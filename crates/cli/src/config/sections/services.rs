//! `[services]`: what keeps the store in order, how often and how much at once.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::ops::RangeInclusive;
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_services::{
    INTERVAL_MS, LEAD_TTL_MS, PROMPT_INTERVAL_MS, SAMPLE_INTERVAL_MS, ServiceOptions,
};

/// Items of one step.
const BATCH: RangeInclusive<u64> = 1..=MAINTAIN_BUDGET_MAX as u64;

/// The settings of all services: `upkeep` works through jobs, `paced` looks from time to time.
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
                    "How many jobs one step touches; a run takes as many steps as there is work."
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
            concat!("Whether this process offers to: ", $does, ".")
        )
    };
    (@interval $service:ident, $range:expr) => {
        field!(
            concat!(stringify!($service), ".interval"),
            Kind::time($range),
            Live,
            services.options.$service.interval_ms,
            "The longest time between two looks."
        )
    };
}

pub(super) const SECTION: Section = Section {
    name: "services",
    doc: "What keeps the store in order. Among all processes on a store one does the work at a time.",
    fields: services! {
        own {
        field!(
            "enabled",
            Kind::FLAG,
            Live,
            services.enabled,
            "Whether this process offers any of them; somebody must, or delayed jobs never become due."
        ),
        field!(
            "leadership",
            Kind::FLAG,
            Live,
            services.options.leadership,
            "Whether only one process at a time works. Without it all do: safe, but a waste."
        ),
        field!(
            "lead_ttl",
            Kind::time(LEAD_TTL_MS),
            Live,
            services.options.lead_ttl_ms,
            "How long the services rest when the process that ran them was killed."
        ),
        }
        upkeep {
            promote: PROMPT_INTERVAL_MS, "let due jobs in";
            reclaim: PROMPT_INTERVAL_MS, "take back what lost workers held";
            expire: INTERVAL_MS, "end what waited longer than it may";
            retain: INTERVAL_MS, "remove what is past its retention";
            compact: INTERVAL_MS, "give space back";
        }
        paced {
            trim: INTERVAL_MS, "keep dead letters within the bytes of their queue";
            breaker: PROMPT_INTERVAL_MS, "hold kinds back that keep failing";
            schedule: PROMPT_INTERVAL_MS, "fire schedules";
            sample: SAMPLE_INTERVAL_MS, "measure queues";
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
    /// What is to run here.
    pub(crate) fn hosted(&self) -> Option<&ServiceOptions> {
        self.enabled.then_some(&self.options)
    }
}
