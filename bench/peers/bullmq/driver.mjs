// The driver of BullMQ, on Redis or on PostgreSQL, whichever the URL names.

import { readFileSync } from "node:fs";
import * as bullmq from "bullmq";
import { drive } from "../harness.mjs";

const QUEUE = "mail";
const CONNECTIONS = 20;
const CONCURRENCY = 100;
const BULK = 1_000;
const BULK_CALLERS = 2;

const { version } = JSON.parse(readFileSync(new URL("node_modules/bullmq/package.json", import.meta.url)));

/** The classes for the store, and how to reach it. */
function on(url) {
  if (url.startsWith("postgres:")) {
    const { Queue, Worker } = bullmq.withBackend(bullmq.createPostgresBackend);
    const connection = { connectionString: url, max: CONNECTIONS, migrate: true };
    return { Queue, Worker, connection, store: `PostgreSQL backend, ${CONNECTIONS} connections` };
  }
  const { hostname: host, port } = new URL(url);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  return { Queue: bullmq.Queue, Worker: bullmq.Worker, connection, store: "Redis backend" };
}

await drive(async (url) => {
  const { Queue, Worker, connection, store } = on(url);
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });
  queue.on("error", console.error);
  await queue.waitUntilReady();
  return {
    version,
    settings:
      `${store}, concurrency ${CONCURRENCY}, removeOnComplete; bulk: ${BULK_CALLERS} callers of addBulk with ${BULK}; ` +
      `Node ${process.version}`,
    bulk: BULK,
    bulkCallers: BULK_CALLERS,
    enqueue: (payload) => queue.add("mail", payload),
    enqueueMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: "mail", data }))),
    work: async (start) => {
      const worker = new Worker(QUEUE, async (job) => start(job.data.n), { connection, concurrency: CONCURRENCY });
      worker.on("error", console.error);
    },
    left: async () => {
      const counts = await queue.getJobCounts("waiting", "active", "delayed", "prioritized", "failed");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
  };
});
