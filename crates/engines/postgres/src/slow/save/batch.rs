//! Rows to delete and insert, by column, and the statements that take them as arrays.

use crate::conn::Conn;
use crate::conn::error::Try;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A statement and its parameters.
pub(crate) struct Batch {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<Box<dyn ToSql + Send + Sync>>,
}

impl Batch {
    /// Runs the statement.
    pub(crate) async fn write(&self, conn: &Conn<'_>) -> Try<u64> {
        let params: Vec<&(dyn ToSql + Sync)> =
            self.params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
        conn.execute(self.sql, &params).await
    }
}

/// Declares sets of rows: the columns, and the statement that takes them as arrays in this order. The statements run in
/// the order of the declaration.
macro_rules! row_sets {
    ($all:ident { $($name:ident: $set:ident ($($column:ident: $type:ty),+) $sql:expr;)+ }) => {
        $(
            #[derive(Default)]
            pub(super) struct $set { $($column: Vec<$type>),+ }

            impl $set {
                #[allow(clippy::too_many_arguments, reason = "as many as the row has columns")]
                pub(super) fn push(&mut self, $($column: $type),+) {
                    $(self.$column.push($column);)+
                }

                fn into_batch(self) -> Option<Batch> {
                    let rows = [$(self.$column.len()),+];
                    (rows[0] > 0).then(|| Batch {
                        sql: $sql,
                        params: vec![$(Box::new(self.$column)),+],
                    })
                }
            }
        )+

        /// All rows that a run deletes and inserts.
        #[derive(Default)]
        pub(super) struct $all { $(pub(super) $name: $set),+ }

        impl $all {
            /// The statements that have rows.
            pub(super) fn into_batches(self) -> Vec<Batch> {
                [$(self.$name.into_batch()),+].into_iter().flatten().collect()
            }
        }
    };
}

impl Ready {
    /// The lowest number among them.
    pub(super) fn lowest(&self) -> Option<i64> {
        self.seq.iter().min().copied()
    }
}

row_sets! { Columns {
    // First: its lock waits for transactions that hold locks on rows.
    recorded: Recorded (queue: String) "SELECT {s}.record_leases($1::text[])";
    not_ready: NotReady (lane: i32, rank: i64, seq: i64)
        "DELETE FROM {s}.ready r USING unnest($1::integer[], $2::bigint[], $3::bigint[]) d (lane, rank, seq)
            WHERE r.lane = ANY(ARRAY[d.lane]) AND r.rank = d.rank AND r.seq = d.seq";
    not_scheduled: NotScheduled (run_at: i64, seq: i64)
        "DELETE FROM {s}.scheduled t USING unnest($1::bigint[], $2::bigint[]) d (run_at, seq)
            WHERE t.run_at = ANY(ARRAY[d.run_at]) AND t.seq = d.seq";
    not_aside: NotAside (id: Uuid) "DELETE FROM {s}.aside WHERE id = ANY($1)";
    not_leased: NotLeased (id: Uuid) "DELETE FROM {s}.lease WHERE id = ANY($1)";
    not_finished: NotFinished (id: Uuid)
        "DELETE FROM {s}.finished f USING unnest($1::uuid[]) d (id) WHERE f.id = ANY(ARRAY[d.id])";
    not_in_line: NotInLine (queue: String, key: String, seq: i64)
        "DELETE FROM {s}.key_line t USING unnest($1::text[], $2::text[], $3::bigint[]) d (queue, key, seq)
            WHERE t.queue = ANY(ARRAY[d.queue]) AND t.key = d.key AND t.seq = d.seq";
    not_in_group: NotInGroup (grp: String, lane: i32, priority: i32, run_at: i64, seq: i64)
        "DELETE FROM {s}.group_line t
            USING unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[])
                d (grp, lane, priority, run_at, seq)
            WHERE t.grp = ANY(ARRAY[d.grp]) AND t.lane = d.lane AND t.priority = d.priority
                AND t.run_at = d.run_at AND t.seq = d.seq";
    no_group: NoGroup (grp: String, lane: i32)
        "DELETE FROM {s}.group_lane t USING unnest($1::text[], $2::integer[]) d (grp, lane)
            WHERE t.grp = ANY(ARRAY[d.grp]) AND t.lane = d.lane";
    no_limit: NoLimit (name: String) "DELETE FROM {s}.limit_rule WHERE name = ANY($1)";
    no_deadline: NoDeadline (work: i16, at: i64, id: Uuid)
        "DELETE FROM {s}.deadline t USING unnest($1::smallint[], $2::bigint[], $3::uuid[]) d (work, at, id)
            WHERE t.work = ANY(ARRAY[d.work]) AND t.at = d.at AND t.id = d.id";
    not_aging: NotAging (queue: String, run_at: i64, id: Uuid)
        "DELETE FROM {s}.aging t USING unnest($1::text[], $2::bigint[], $3::uuid[]) d (queue, run_at, id)
            WHERE t.queue = ANY(ARRAY[d.queue]) AND t.run_at = d.run_at AND t.id = d.id";
    no_part: NoPart (id: Uuid, name: i16)
        "DELETE FROM {s}.part t USING unnest($1::uuid[], $2::smallint[]) d (id, name)
            WHERE t.id = ANY(ARRAY[d.id]) AND t.name = d.name";
    key_freed: KeyFreed (queue: String, key: String)
        "DELETE FROM {s}.key_holder t USING unnest($1::text[], $2::text[]) d (queue, key)
            WHERE t.queue = ANY(ARRAY[d.queue]) AND t.key = d.key";
    unique_freed: UniqueFreed (queue: String, kind: String, key: String)
        "DELETE FROM {s}.unique_key t USING unnest($1::text[], $2::text[], $3::text[]) d (queue, kind, key)
            WHERE t.queue = ANY(ARRAY[d.queue]) AND t.kind = d.kind AND t.key = d.key";
    gone: Gone (id: Uuid)
        "WITH l AS (DELETE FROM {s}.life WHERE id = ANY($1)), p AS (DELETE FROM {s}.part WHERE id = ANY($1)),
                e AS (DELETE FROM {s}.edge WHERE dependent = ANY($1))
            DELETE FROM {s}.job j USING unnest($1::uuid[]) d (id) WHERE j.id = ANY(ARRAY[d.id])";
    resolved: Resolved (id: Uuid) "DELETE FROM {s}.unresolved WHERE id = ANY($1)";
    no_session: NoSession (id: String) "DELETE FROM {s}.session WHERE id = ANY($1)";
    no_queue: NoQueue (name: String) "DELETE FROM {s}.queue WHERE name = ANY($1)";
    no_kind: NoKind (name: String) "DELETE FROM {s}.kind WHERE name = ANY($1)";

    job: Jobs (id: Uuid, created_at: i64, run_at: i64, rank: i64, seq: i64, lane: i32, priority: i32,
            state: i16, spec: Option<String>, payload: Option<Vec<u8>>, envelope: Option<String>)
        "INSERT INTO {s}.job (id, created_at, run_at, rank, seq, lane, priority, state, spec, payload, envelope)
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::integer[], $7::integer[], $8::smallint[], $9::text[], $10::bytea[], $11::text[])";
    // The job was moved to another queue.
    other_lane: OtherLane (id: Uuid, lane: i32)
        "UPDATE {s}.job j SET lane = d.lane FROM unnest($1::uuid[], $2::integer[]) d (id, lane)
            WHERE j.id = ANY(ARRAY[d.id])";
    life: Lives (id: Uuid, run_at: i64, rank: i64, seq: i64, ready_at: i64, started_at: Option<i64>,
            finished_at: Option<i64>, changed_at: i64, transitions: i64, priority: i32, attempt: i64, failures: i64,
            crashes: i64, state: i16, flags: i16, tail: Option<String>)
        "INSERT INTO {s}.life AS l (id, run_at, rank, seq, ready_at, started_at, finished_at, changed_at, transitions,
                priority, attempt, failures, crashes, state, flags, tail)
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::integer[], $11::bigint[], $12::bigint[],
                $13::bigint[], $14::smallint[], $15::smallint[], $16::text[])
            ON CONFLICT (id) DO UPDATE SET run_at = excluded.run_at, rank = excluded.rank, seq = excluded.seq,
                ready_at = excluded.ready_at, started_at = excluded.started_at,
                finished_at = excluded.finished_at, changed_at = excluded.changed_at,
                transitions = excluded.transitions, priority = excluded.priority, attempt = excluded.attempt,
                failures = excluded.failures, crashes = excluded.crashes, state = excluded.state,
                flags = excluded.flags, tail = excluded.tail";
    part: Parts (id: Uuid, name: i16, bytes: Option<Vec<u8>>, envelope: Option<String>)
        "INSERT INTO {s}.part (id, name, bytes, envelope)
            SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bytea[], $4::text[])
            ON CONFLICT (id, name) DO UPDATE SET bytes = excluded.bytes, envelope = excluded.envelope";
    ready: Ready (lane: i32, flags: i16, rank: i64, seq: i64, id: Uuid)
        "INSERT INTO {s}.ready (lane, flags, rank, seq, id)
            SELECT * FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[], $5::uuid[])";
    scheduled: Scheduled (run_at: i64, seq: i64, id: Uuid, lane: i32)
        "INSERT INTO {s}.scheduled (run_at, seq, id, lane)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::integer[])";
    aside: Aside (id: Uuid, lane: i32, state: i16)
        "INSERT INTO {s}.aside (id, lane, state)
            SELECT * FROM unnest($1::uuid[], $2::integer[], $3::smallint[])";
    // Plain leases end without the executor; events may have been switched on since the settings were read.
    lease: Leases (id: Uuid, token: Uuid, claim_no: i64, started_at: i64, seq: i64, attempt: i64, lane: i32,
            flags: i16, session: String, grp: Option<String>)
        "INSERT INTO {s}.lease (id, token, claim_no, started_at, seq, attempt, lane, flags, session, grp)
            SELECT id, token, claim_no, started_at, seq, attempt, lane, CASE WHEN lane = ANY(ARRAY(
                    SELECT l.id FROM {s}.lane l JOIN {s}.queue q ON q.name = ANY(ARRAY[l.queue])
                    WHERE l.id = ANY($7::integer[]) AND q.recorded)) THEN 0 ELSE flags END, session, grp
            FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                $7::integer[], $8::smallint[], $9::text[], $10::text[])
                w (id, token, claim_no, started_at, seq, attempt, lane, flags, session, grp)";
    finished: Finished (id: Uuid, at: i64, lane: i32, state: i16, own: bool)
        "INSERT INTO {s}.finished (id, at, lane, state, own)
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::smallint[], $5::boolean[])";
    in_line: InLine (queue: String, key: String, seq: i64, id: Uuid)
        "INSERT INTO {s}.key_line (queue, key, seq, id)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[])";
    in_group: InGroup (grp: String, lane: i32, priority: i32, run_at: i64, seq: i64, id: Uuid, cost: i64, name: String)
        "INSERT INTO {s}.group_line (grp, lane, priority, run_at, seq, id, cost, name)
            SELECT * FROM unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::uuid[],
                $7::bigint[], $8::text[])";
    group: Groups (grp: String, lane: i32, queue: String, waiting: i64, ahead: i64, ahead_cost: i64,
            opens_at: Option<i64>, by_time: bool)
        "INSERT INTO {s}.group_lane (grp, lane, queue, waiting, ahead, ahead_cost, opens_at, by_time)
            SELECT * FROM unnest($1::text[], $2::integer[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                $7::bigint[], $8::boolean[]) ORDER BY 1, 2
            ON CONFLICT (grp, lane) DO UPDATE SET waiting = excluded.waiting, ahead = excluded.ahead,
                ahead_cost = excluded.ahead_cost, opens_at = excluded.opens_at, by_time = excluded.by_time";
    meter: Meters (grp: String, name: String, meter: Option<String>, idle_at: i64)
        "INSERT INTO {s}.meter (grp, name, meter, idle_at)
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) ORDER BY 1, 2
            ON CONFLICT (grp, name) DO UPDATE SET meter = excluded.meter, idle_at = excluded.idle_at";
    edge: Edges (dependent: Uuid, position: i32, upstream: Uuid, open: bool, input: Option<String>)
        "INSERT INTO {s}.edge (dependent, position, upstream, open, input)
            SELECT * FROM unnest($1::uuid[], $2::integer[], $3::uuid[], $4::boolean[], $5::text[])
            ON CONFLICT (dependent, position) DO UPDATE SET open = excluded.open, input = excluded.input";
    unresolved: Unresolved (id: Uuid)
        "INSERT INTO {s}.unresolved (id) SELECT * FROM unnest($1::uuid[]) ON CONFLICT DO NOTHING";
    deadline: Deadlines (work: i16, at: i64, id: Uuid)
        "INSERT INTO {s}.deadline (work, at, id)
            SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) ON CONFLICT DO NOTHING";
    aging: Aging (queue: String, run_at: i64, id: Uuid)
        "INSERT INTO {s}.aging (queue, run_at, id)
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[]) ON CONFLICT DO NOTHING";
    // Without a conflict clause: if another transaction holds the key by now, the run fails and is repeated.
    key_taken: KeyTaken (queue: String, key: String, id: Uuid)
        "INSERT INTO {s}.key_holder (queue, key, id)
            SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]) ORDER BY 1, 2";
    key_moved: KeyMoved (queue: String, key: String, id: Uuid)
        "UPDATE {s}.key_holder t SET id = n.id FROM unnest($1::text[], $2::text[], $3::uuid[]) n (queue, key, id)
            WHERE t.queue = ANY(ARRAY[n.queue]) AND t.key = n.key";
    unique_taken: UniqueTaken (queue: String, kind: String, key: String, id: Uuid, until: Option<i64>)
        "INSERT INTO {s}.unique_key (queue, kind, key, id, until)
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[]) ORDER BY 1, 2, 3";
    unique_moved: UniqueMoved (queue: String, kind: String, key: String, id: Uuid, until: Option<i64>)
        "UPDATE {s}.unique_key t SET id = n.id, until = n.until
            FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[])
                n (queue, kind, key, id, until)
            WHERE t.queue = ANY(ARRAY[n.queue]) AND t.kind = n.kind AND t.key = n.key";
    // Without a conflict clause: if the tenant exists by now, the run fails and is repeated.
    turn_begun: TurnBegun (queue: String, tenant: String, turn: i64)
        "INSERT INTO {s}.turn (queue, tenant, turn)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ORDER BY 1, 2";
    turn_taken: TurnTaken (queue: String, tenant: String, turn: i64)
        "UPDATE {s}.turn t SET turn = n.turn FROM unnest($1::text[], $2::text[], $3::bigint[]) n (queue, tenant, turn)
            WHERE t.queue = ANY(ARRAY[n.queue]) AND t.tenant = n.tenant";
    served: Served (queue: String, turn: i64)
        "INSERT INTO {s}.served (queue, turn) SELECT * FROM unnest($1::text[], $2::bigint[])";
    // The worker's description of itself is written once: verbs do not read it.
    session: Sessions (id: String, worker: String, opened_at: i64, ttl_ms: i64, expires_at: i64, alone: bool,
            remote: bool, info: Option<String>)
        "INSERT INTO {s}.session (id, worker, opened_at, ttl_ms, expires_at, alone, remote, info)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[],
                $7::boolean[], $8::text[])
            ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at";
    queue: Queues (name: String, settings: String, closed: bool, limited: bool, special: bool, metered: bool, gated: bool,
            fair: bool, recorded: bool)
        "INSERT INTO {s}.queue (name, settings, closed, limited, special, metered, gated, fair, recorded)
            SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::boolean[], $6::boolean[],
                $7::boolean[], $8::boolean[], $9::boolean[])
            ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, closed = excluded.closed,
                limited = excluded.limited, special = excluded.special, metered = excluded.metered,
                gated = excluded.gated, fair = excluded.fair, recorded = excluded.recorded";
    kind: Kinds (name: String, settings: String, closed: bool, limited: bool, special: bool, metered: bool)
        "INSERT INTO {s}.kind (name, settings, closed, limited, special, metered)
            SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::boolean[], $6::boolean[])
            ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, closed = excluded.closed,
                limited = excluded.limited, special = excluded.special, metered = excluded.metered";
    limit: Limits (name: String, settings: String, by_group: bool)
        "INSERT INTO {s}.limit_rule (name, settings, by_group)
            SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[])
            ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, by_group = excluded.by_group";
    // Limits by group count these lanes from now on, and so their running jobs.
    grouped: Grouped (queue: Option<String>, kind: Option<String>)
        "UPDATE {s}.lease e SET flags = e.flags & ~({flag_plain} | {flag_plain_alone})::smallint,
                grp = coalesce(j.spec::json ->> 'group', j.spec::json ->> 'tenant', '')
            FROM {s}.job j, {s}.lane l
            WHERE j.id = e.id AND l.id = e.lane AND e.grp IS NULL
                AND (l.queue = ANY($1::text[]) OR l.kind = ANY($2::text[]))";
    reopened: ReopenedLines (queue: Option<String>, kind: Option<String>, at: i64)
        "UPDATE {s}.group_lane g SET opens_at = r.at, by_time = true
            FROM unnest($1::text[], $2::text[], $3::bigint[]) r (queue, kind, at), {s}.lane l
            WHERE l.id = g.lane AND g.waiting > 0 AND (r.queue IS NULL OR r.queue = g.queue)
                AND (r.kind IS NULL OR r.kind = l.kind)";
    // A queue that limits ages from now on: adds its waiting jobs.
    ages_begin: AgesBegin (queue: String)
        "INSERT INTO {s}.aging (queue, run_at, id)
            SELECT l.queue, coalesce(f.run_at, j.run_at), j.id
            FROM {s}.lane l CROSS JOIN LATERAL
                (SELECT id FROM {s}.ready WHERE lane = l.id
                    UNION ALL SELECT id FROM {s}.aside WHERE lane = l.id) w
            JOIN {s}.job j ON j.id = ANY(ARRAY[w.id]) LEFT JOIN {s}.life f ON f.id = ANY(ARRAY[j.id])
            WHERE l.queue = ANY($1) ON CONFLICT DO NOTHING";
    // Voids surveys of old partitions in which jobs were stored or discarded. After the insert, which has locked the partition, and
    // by the current time: the process may have been stalled since it read the clock.
    touched: Touched (id: Uuid, now: Option<i64>, old_ms: i64)
        "SELECT {s}.void_surveys($1::uuid[], $2::bigint[], $3::bigint[])";
    // An ended job was replayed: claims must scan its lane.
    revived: Revived (lane: i32)
        "UPDATE {s}.lane SET idle = false WHERE id IN
            (SELECT id FROM {s}.lane WHERE id = ANY($1) AND idle ORDER BY id FOR UPDATE SKIP LOCKED)";
    ages_end: AgesEnd (queue: String) "DELETE FROM {s}.aging WHERE queue = ANY($1)";
    tally: Tallies (lane: i32, scheduled: i64, blocked: i64, available: i64, running: i64, paused: i64,
            completed: i64, dead: i64, cancelled: i64, expired: i64)
        "INSERT INTO {s}.tally (lane, scheduled, blocked, available, running, paused, completed, dead, cancelled,
                expired)
            SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])";
    events_ended: EventsEnded (queue: String)
        "UPDATE {s}.event_stream SET ended = true WHERE queue = ANY($1) AND NOT ended";
    events_begun: EventsBegun (queue: String, start: i64)
        "INSERT INTO {s}.event_stream (queue, start, dropped, last)
            SELECT w.queue, w.start, w.start, w.start FROM (
                SELECT d.queue, greatest(d.start, (SELECT max(s.last) + 1 FROM {s}.event_stream s WHERE s.queue = d.queue))
                    AS start
                FROM unnest($1::text[], $2::bigint[]) d (queue, start)) w";
    // In the order of the run. The stream may have ended since the settings were read.
    event: Events (stream: String, at: i64, job: Uuid, queue: Option<String>, kind: String, event: String,
            state: Option<i16>, attempt: i64, transition: i64, reason: Option<String>, error: Option<String>)
        "INSERT INTO {s}.event_inbox (stream, at, job, queue, kind, event, state, attempt, transition, reason, error)
            SELECT s.id, w.at, w.job, w.queue, w.kind, w.event, w.state, w.attempt, w.transition, w.reason, w.error
            FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                $8::bigint[], $9::bigint[], $10::text[], $11::text[])
                WITH ORDINALITY w (stream, at, job, queue, kind, event, state, attempt, transition, reason, error, n)
            JOIN {s}.event_stream s ON s.queue = w.stream AND NOT s.ended ORDER BY w.n";
    // Last, because of its lock.
    removed: Removed (at: i64, queue: String, kind: String, tenant: String, outcome: i16, jobs: i64)
        "SELECT {s}.count_removed($1::bigint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[])";
} }
