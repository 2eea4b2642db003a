//! `/audit`: the audit log.

use super::failure::Failure;
use super::format::{Clock, Time};
use super::links;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use windlass_services::{AuditQuery, AuditRow};

/// Entries per page.
const ROWS_MAX: u32 = 100;

/// A row of the table.
struct Row {
    at: Time,
    who: String,
    key: Option<String>,
    action: String,
    targets: String,
    more: u64,
    refused: u64,
    before: String,
    after: String,
}

impl Row {
    fn new(row: AuditRow, clock: Clock) -> Self {
        let action = row.action;
        let (before, after) = (action.before.as_ref(), action.after.as_ref());
        Self {
            at: clock.ago(row.at),
            more: action.count.saturating_sub(action.targets.len() as u64),
            who: action.who,
            key: action.key,
            action: action.action,
            before: changed(before, after),
            after: changed(after, before),
            targets: action.targets.join("\n"),
            refused: action.refused,
        }
    }
}

/// The fields of `side` that differ from `other`, one per line.
fn changed(side: Option<&Value>, other: Option<&Value>) -> String {
    let line = |(field, value): (&String, &Value)| {
        let same = other.and_then(|other| other.get(field)).unwrap_or(&Value::Null) == value;
        (!same).then(|| format!("{field}: {value}"))
    };
    match side {
        None => String::new(),
        Some(Value::Object(fields)) => {
            fields.iter().filter_map(line).collect::<Vec<_>>().join("\n")
        }
        Some(value) => value.to_string(),
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Content {
    rows: Vec<Row>,
    next: Option<String>,
    who: String,
    action: String,
    target: String,
}

/// `GET /audit`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let param = |name: &str| visit.param(name).map(str::to_owned);
    let mut query = AuditQuery::default();
    (query.who, query.action, query.target) = (param("who"), param("action"), param("target"));
    query.after = param("after");
    query.limit = ROWS_MAX;
    let page = app.in_time(app.audit.read(&query), 0).await?;
    let (now, page) = (page.now, page.value);
    let clock = visit.clock(now);
    let after = page.next;
    let filters = [
        ("who", query.who.as_deref()),
        ("action", query.action.as_deref()),
        ("target", query.target.as_deref()),
        ("after", after.as_deref()),
    ];
    let content = Content {
        rows: page.rows.into_iter().map(|row| Row::new(row, clock)).collect(),
        next: after.is_some().then(|| links::with("/audit", &filters)),
        who: query.who.clone().unwrap_or_default(),
        action: query.action.clone().unwrap_or_default(),
        target: query.target.clone().unwrap_or_default(),
    };
    Ok(Page::new(&visit, Section::Audit, "Audit", now).respond(&content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_changed_is_shown() {
        let before = json!({"paused": false, "retention": {"dead_ms": 1}, "max_depth": null});
        let after = json!({"paused": true, "retention": {"dead_ms": 1}, "max_depth": null});
        assert_eq!(changed(Some(&before), Some(&after)), "paused: false");
        assert_eq!(changed(Some(&after), Some(&before)), "paused: true");
        // Without an earlier value, all fields except nulls.
        assert_eq!(changed(Some(&after), None), "paused: true\nretention: {\"dead_ms\":1}");
        assert_eq!(changed(None, Some(&after)), "");
        assert_eq!(changed(Some(&json!("idle")), None), "\"idle\"");
    }
}
