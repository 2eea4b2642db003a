//! Ready jobs by priority, with bounded work at any depth.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::rows::entries::at;
use std::collections::BTreeMap;
use windlass_core::engine::LaneStats;
use windlass_executor::priorities::{RANKS_MAX, ROUNDS, Rank, report, share, to_count};

/// The first job of each rank. Skips from rank to rank by the index.
const RANKS: &str = include_str!("../../sql/ranks.sql");
/// Counts the jobs of these ranks, up to a bound.
const COUNT: &str = "SELECT count(r.lane) FROM unnest($1::integer[], $2::bigint[])
        WITH ORDINALITY w (lane, rank, n) LEFT JOIN LATERAL
        (SELECT lane FROM {s}.ready WHERE lane = w.lane AND rank = w.rank LIMIT $3::bigint) r ON true
    GROUP BY w.n ORDER BY w.n";

/// Adds the ready jobs by priority to these lanes' statistics.
pub(crate) async fn add(conn: &Lent, lanes: Vec<(i32, &mut LaneStats)>) -> Try<()> {
    let numbers: Vec<i32> = lanes.iter().map(|(number, _)| *number).collect();
    let mut ranks: BTreeMap<i32, Vec<Rank>> = BTreeMap::new();
    for row in conn.query(RANKS, &[&numbers, &(RANKS_MAX as i64)]).await? {
        let rank = Rank::new(row.get(1), row.get(3), at(row.get(2)));
        ranks.entry(row.get(0)).or_default().push(rank);
    }
    for _ in 0..ROUNDS {
        count(conn, &mut ranks).await?;
    }
    for (number, lane) in lanes {
        report(lane, ranks.get(&number).map_or(&[], Vec::as_slice));
    }
    Ok(())
}

/// Counts the ranks for which the tally is not enough.
async fn count(conn: &Lent, ranks: &mut BTreeMap<i32, Vec<Rank>>) -> Try<()> {
    let open = ranks
        .iter_mut()
        .flat_map(|(lane, ranks)| to_count(ranks).into_iter().map(move |rank| (*lane, rank)));
    let mut open: Vec<(i32, &mut Rank)> = open.collect();
    if open.is_empty() {
        return Ok(());
    }
    let most = share(open.len());
    let (of_lanes, of_ranks): (Vec<i32>, Vec<i64>) =
        open.iter().map(|(lane, rank)| (*lane, rank.rank)).unzip();
    let counted = conn.query(COUNT, &[&of_lanes, &of_ranks, &most.cast_signed()]).await?;
    for ((_, rank), row) in open.iter_mut().zip(counted) {
        rank.count(row.get::<_, i64>(0).cast_unsigned(), most);
    }
    Ok(())
}
