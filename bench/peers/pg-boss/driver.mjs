// The driver of pg-boss: wake-ups by NOTIFY, large batches fetched again at once while they are full.
// (package.json holds rrule-temporal, which only its schedules use, at a version that registries have.)

import { readFileSync } from "node:fs";
import pg from "pg";
import { PgBoss } from "pg-boss";
import { drive } from "../harness.mjs";

const QUEUE = "mail";
const CONNECTIONS = 20;
const BATCH = 500;
const CONCURRENCY = 2;
const BULK = 1_000;
const BULK_CALLERS = 2;

const { version } = JSON.parse(readFileSync(new URL("node_modules/pg-boss/package.json", import.meta.url)));

await drive(async (url) => {
  const boss = new PgBoss({ connectionString: url, max: CONNECTIONS, useListenNotify: true });
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  const looks = new pg.Pool({ connectionString: url, max: 1 });
  return {
    version,
    settings:
      `useListenNotify, batchSize ${BATCH}, localConcurrency ${CONCURRENCY}, burstWhenBatchFull, ` +
      `pollingIntervalSeconds 0.5, ${CONNECTIONS} connections; bulk: ${BULK_CALLERS} callers of insert with ${BULK}; ` +
      `Node ${process.version}`,
    bulk: BULK,
    bulkCallers: BULK_CALLERS,
    enqueue: (payload) => boss.send(QUEUE, payload),
    enqueueMany: (payloads) => boss.insert(QUEUE, payloads.map((data) => ({ data }))),
    work: (start) =>
      boss.work(
        QUEUE,
        {
          batchSize: BATCH,
          localConcurrency: CONCURRENCY,
          burstWhenBatchFull: true,
          pollingIntervalSeconds: 0.5,
          notifyPollingIntervalSeconds: 0.5,
        },
        async (jobs) => jobs.forEach((job) => start(job.data.n)),
      ),
    left: async () => {
      const { rows } = await looks.query("SELECT count(*) FROM pgboss.job WHERE state < 'completed' AND name = $1", [QUEUE]);
      return Number(rows[0].count);
    },
  };
});
