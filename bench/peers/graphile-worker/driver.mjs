// The driver of Graphile Worker: local queue and batched completions, as its page on performance recommends.

import { readFileSync } from "node:fs";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { drive } from "../harness.mjs";

const CONNECTIONS = 20;
const CONCURRENCY = 24;
const LOCAL_QUEUE = 500;
const COMPLETE_DELAY_MS = 0;
const BULK = 1_000;
const BULK_CALLERS = 2;

const { version } = JSON.parse(readFileSync(new URL("node_modules/graphile-worker/package.json", import.meta.url)));
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

await drive(async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  pool.on("error", console.error);
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  return {
    version,
    settings:
      `localQueue.size ${LOCAL_QUEUE}, completeJobBatchDelay ${COMPLETE_DELAY_MS}, concurrentJobs ${CONCURRENCY}, ` +
      `${CONNECTIONS} connections; bulk: ${BULK_CALLERS} callers of addJobs with ${BULK}; Node ${process.version}`,
    bulk: BULK,
    bulkCallers: BULK_CALLERS,
    enqueue: (payload) => utils.addJob("mail", payload),
    enqueueMany: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "mail", payload }))),
    work: (start) =>
      run({
        pgPool: pool,
        taskList: { mail: (payload) => start(payload.n) },
        noHandleSignals: true,
        preset: {
          worker: {
            logger,
            concurrentJobs: CONCURRENCY,
            localQueue: { size: LOCAL_QUEUE },
            completeJobBatchDelay: COMPLETE_DELAY_MS,
            failJobBatchDelay: COMPLETE_DELAY_MS,
          },
        },
      }),
    left: async () => {
      const { rows } = await pool.query("SELECT count(*) FROM graphile_worker._private_jobs");
      return Number(rows[0].count);
    },
  };
});
