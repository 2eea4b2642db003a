//! Time series of queues, for charts.

use crate::app::App;
use crate::body::Query;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use crate::series::points;
use axum::extract::State;
use windlass_core::time::{DAY_MS, HOUR_MS};
use windlass_core::{Error, Result, Timestamp, check_name};
use windlass_services::{Resolution, SampleQuery, Samples};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Maximum number of points in one answer.
const POINTS_MAX: u64 = 1_500;
/// Target number of points without an explicit step.
const POINTS_DEFAULT: u64 = 300;

/// Get time series of queues
///
/// Minutes of the last week and hours of the last 90 days. The current minute is included once it
/// is complete.
#[utoipa::path(
    get, path = paths::SERIES, tag = tag::SETTINGS, operation_id = "series",
    params(wire::SeriesQuery),
    responses(
        (status = 200, body = wire::Series, description = "The points, 1,500 at most."),
    ),
)]
pub(super) async fn show(State(app): State<App>, Query(query): Query<wire::SeriesQuery>) -> Reply {
    if let Some(queue) = &query.queue {
        check_name("queue", queue)?;
    }
    let health = app.call(app.engine.health()).await?;
    let range = Range::of(&query, health.now)?;
    let mut samples = SampleQuery::new(range.resolution, range.from, range.to);
    samples.queue = query.queue.as_ref().map(ToString::to_string);
    let reader = Samples::new(app.engine.clone());
    let read = app.in_time(async { reader.read(&samples).await }, 0).await?;
    let points = points(&read, range.from, range.step_ms);
    Ok(stamped(health.map(|_| wire::Series { step_ms: range.step_ms, points })))
}

/// The samples to read, and the step to aggregate them by.
#[derive(Debug, PartialEq)]
struct Range {
    from: Timestamp,
    to: Timestamp,
    step_ms: u64,
    resolution: Resolution,
}

impl Range {
    fn of(query: &wire::SeriesQuery, now: Timestamp) -> Result<Self> {
        let to = query.to.unwrap_or(now).min(now.plus(DAY_MS));
        let from = query.from.unwrap_or(to.minus(HOUR_MS));
        if from >= to {
            return Err(Error::invalid(
                "from",
                from,
                format!("it must be before to, which is {to}"),
            ));
        }
        let by_minute = now.since(from) <= Resolution::Minute.kept_ms();
        let resolution = if by_minute { Resolution::Minute } else { Resolution::Hour };
        let (length_ms, span_ms) = (resolution.length_ms(), to.since(from));
        let step_ms = match query.step_ms {
            Some(step_ms) => step_ms,
            None => span_ms.div_ceil(POINTS_DEFAULT).div_ceil(length_ms).max(1) * length_ms,
        };
        if step_ms == 0 || step_ms % length_ms != 0 {
            let expected = match resolution {
                Resolution::Minute => "use whole minutes, in milliseconds",
                _ => "use whole hours, in milliseconds: minutes are kept for one week",
            };
            return Err(Error::invalid("step_ms", step_ms, expected));
        }
        if span_ms / step_ms > POINTS_MAX {
            let expected =
                format!("the answer would exceed {POINTS_MAX} points; use a longer step");
            return Err(Error::invalid("step_ms", step_ms, expected));
        }
        // Align points with samples, or the first point would be incomplete.
        Ok(Self { from: resolution.start(from), to, step_ms, resolution })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::time::MINUTE_MS;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_030_000);

    fn range(change: fn(&mut wire::SeriesQuery)) -> Result<Range> {
        let mut query = wire::SeriesQuery::default();
        change(&mut query);
        Range::of(&query, NOW)
    }

    #[test]
    fn a_question_without_bounds_is_the_last_hour_by_minutes() {
        let hour = range(|_| ()).unwrap();
        assert_eq!((hour.step_ms, hour.resolution), (MINUTE_MS, Resolution::Minute));
        assert_eq!(hour.from.as_millis(), NOW.minus(HOUR_MS).as_millis() - 30_000);
    }

    #[test]
    fn a_reply_has_a_limited_number_of_points() {
        let week = range(|query| query.from = Some(NOW.minus(7 * DAY_MS))).unwrap();
        assert_eq!((week.step_ms, week.resolution), (34 * MINUTE_MS, Resolution::Minute));
        let quarter = range(|query| query.from = Some(NOW.minus(89 * DAY_MS))).unwrap();
        assert_eq!((quarter.step_ms, quarter.resolution), (8 * HOUR_MS, Resolution::Hour));
        let refused = |change| range(change).unwrap_err().field().unwrap().to_owned();
        let fine = |query: &mut wire::SeriesQuery| {
            (query.from, query.step_ms) = (Some(NOW.minus(2 * DAY_MS)), Some(MINUTE_MS));
        };
        assert_eq!(refused(fine), "step_ms");
        assert_eq!(refused(|query| query.step_ms = Some(1_000)), "step_ms");
        assert_eq!(refused(|query| query.step_ms = Some(0)), "step_ms");
        assert_eq!(refused(|query| query.from = Some(NOW)), "from");
    }
}
