//! `windlass kinds register`, `unregister` and `show`: the registered rules of a kind.

use crate::job_args;
use crate::output::{print, print_json};
use crate::store::Common;
use crate::values;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use windlass::Client;
use windlass_core::check_name;
use windlass_core::model::{CheckRule, KindRules, PriorityRule};
use windlass_core::policy::{Backoff, BreakerPolicy};
use windlass_server::documents;
use windlass_services::Kinds;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass kinds register send_email --schema @send_email.schema.json --payload-max 4K
  windlass kinds register resize --backoff 10s..10m~5s --priority-min 0 --priority-max 100
  windlass kinds register charge_card --sensitive --breaker --breaker-errors 50
  windlass kinds register send_email --check-kind verify_email --check-sample 2.5% --check-after 1h")]
pub(super) struct Register {
    /// Name of the kind
    kind: String,
    /// JSON Schema that payloads must match: JSON, `-` for stdin, `@FILE` for a file
    #[arg(long, value_name = "JSON|-|@FILE")]
    schema: Option<String>,
    /// Maximum size of a payload, e.g. 4K
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    payload_max: Option<u64>,
    /// Default maximum number of attempts, for jobs that do not set their own
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Default timeout of an attempt, for jobs that do not set their own
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    timeout: Option<u64>,
    /// Default maximum wait before a due job expires, for jobs that do not set their own
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    max_wait: Option<u64>,
    /// Default delay after a failure, for jobs that do not set their own: 10s, 10s..1h (doubling) or 10s..1h~5s
    /// (with jitter)
    #[arg(long, value_name = "TIME[..TIME][~TIME]", value_parser = values::backoff)]
    backoff: Option<Backoff>,
    /// Default priority, for jobs that leave it at 0
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Lowest number allowed as priority, the most urgent
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority_min: Option<i32>,
    /// Highest number allowed as priority
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority_max: Option<i32>,
    /// Require the name of the kind as a confirmation to replay its jobs
    #[arg(long)]
    sensitive: bool,
    /// Enable the circuit breaker: hold jobs back while most of them fail
    #[arg(long)]
    breaker: bool,
    /// Error rate in percent above which the breaker opens
    #[arg(long, value_name = "PERCENT", requires = "breaker", default_value_t = 80)]
    breaker_errors: u8,
    /// Time window over which outcomes are counted
    #[arg(long, value_name = "TIME", requires = "breaker", value_parser = values::duration_ms)]
    breaker_window: Option<u64>,
    /// Minimum number of outcomes in the window before the breaker can open
    #[arg(long, value_name = "N", requires = "breaker", default_value_t = 20)]
    breaker_samples: u64,
    /// Interval between probe jobs while the breaker is open
    #[arg(long, value_name = "TIME", requires = "breaker", value_parser = values::duration_ms)]
    breaker_probe: Option<u64>,
    /// Check completed jobs with jobs of this kind, which get the payload and the result
    #[arg(long, value_name = "KIND")]
    check_kind: Option<String>,
    /// Queue of the checks [default: that of the checked job]
    #[arg(long, value_name = "QUEUE", requires = "check_kind")]
    check_queue: Option<String>,
    /// Share of the completed jobs to check, in percent with up to one decimal
    #[arg(long, value_name = "PERCENT", requires = "check_kind", value_parser = values::per_mille, default_value = "1%")]
    check_sample: u32,
    /// Time between the completion of a job and its check
    #[arg(long, value_name = "TIME", requires = "check_kind", value_parser = values::duration_ms, default_value = "0s")]
    check_after: u64,
}

impl Register {
    pub(super) async fn run(self, common: &Common) -> Result<ExitCode> {
        let rules = self.rules()?;
        if let Some(schema) = &rules.schema {
            windlass_server::check_schema(schema)?;
        }
        let client = common.open_or_create().await?;
        Kinds::new(client.engine().clone()).put(&self.kind, &rules).await?;
        print_rules(&client, common, &self.kind).await
    }

    fn rules(&self) -> Result<KindRules> {
        let mut rules = KindRules::default();
        if let Some(text) = &self.schema {
            let bytes = job_args::payload(text, false).context("--schema")?;
            rules.schema = Some(String::from_utf8(bytes)?);
        }
        rules.payload_bytes_max = self.payload_max;
        rules.max_attempts = self.max_attempts;
        (rules.timeout_ms, rules.max_wait_ms) = (self.timeout, self.max_wait);
        rules.backoff = self.backoff;
        let any = PriorityRule::default();
        let priority = PriorityRule {
            min: self.priority_min.unwrap_or(any.min),
            max: self.priority_max.unwrap_or(any.max),
            default: self.priority.unwrap_or(any.default),
        };
        rules.priority = (priority != any).then_some(priority);
        rules.sensitive = self.sensitive;
        if self.breaker {
            let usual = BreakerPolicy::new();
            let policy = usual
                .error_rate_percent(self.breaker_errors)
                .window(Duration::from_millis(self.breaker_window.unwrap_or(usual.window_ms)))
                .min_samples(self.breaker_samples)
                .probe_every(Duration::from_millis(
                    self.breaker_probe.unwrap_or(usual.probe_every_ms),
                ));
            rules.breaker = Some(policy);
        }
        if let Some(kind) = &self.check_kind {
            let mut rule = CheckRule::new(kind.as_str());
            rule.queue = self.check_queue.as_deref().map(Into::into);
            rules.check = Some(rule.per_mille(self.check_sample).after_ms(self.check_after));
        }
        Ok(rules)
    }
}

pub(super) async fn forget(common: &Common, kind: &str) -> Result<ExitCode> {
    let client = common.open().await?;
    if !Kinds::new(client.engine().clone()).remove(kind).await? {
        bail!("kind {kind:?} is not registered; see `windlass kinds` for registered kinds");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn show(common: &Common, kind: &str) -> Result<ExitCode> {
    print_rules(&common.open().await?, common, kind).await
}

/// Prints the registered rules of a kind and the state of its breaker.
async fn print_rules(client: &Client, common: &Common, kind: &str) -> Result<ExitCode> {
    check_name("kind", kind)?;
    let shown = documents::kind(client.engine(), kind.into()).await?.value;
    let Some(rules) = &shown.rules else {
        bail!("kind {kind} is not registered; register it with `windlass kinds register {kind}`");
    };
    if common.json {
        print_json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (rules, breaker) = (serde_json::to_value(rules)?, shown.breaker);
    let mut text = format!("{kind}\n");
    for (name, value) in rules.as_object().into_iter().flatten() {
        let value = match value {
            Value::Object(_) if name == "schema" => serde_json::to_string_pretty(value)?,
            value => value.to_string(),
        };
        text.push_str(&format!("  {name}: {}\n", value.replace('\n', "\n  ")));
    }
    if let Some(breaker) = breaker {
        let state = serde_json::to_value(breaker.state)?;
        text.push_str(&format!("  breaker state: {}\n", state.as_str().unwrap_or_default()));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
