// The workloads of the peer benchmark for drivers written in JavaScript: the same as in bench/harness (Rust)
// and harness.py. It knows no queue; a driver hands `drive` a function that opens one.
//
// A queue is an object with:
//   version, settings      what the report says about it
//   bulk, bulkCallers      jobs per call of enqueueMany, and such calls at a time
//   enqueue(payload)       stores a job; resolves when the store has acknowledged it
//   enqueueMany(payloads)  stores many by the fastest path there is
//   work(start)            starts the queue's own worker; its handler does nothing but call start(payload.n)
//   left()                 how many jobs the store still holds as not completed

const IDLE_EVERY_MS = 20;
const REST_MS = 500;
const BATCH = 100;
const PRODUCERS = 4;
const IN_FLIGHT = 1_000;
const LOOK_EVERY_MS = 2;
const TAIL_MS = 8_000;
const PATIENCE_MS = 20_000;
/** Numbers from here on are not counted: the job that shows that a worker is awake. */
const UNCOUNTED = 2 ** 51;

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const payload = (n) => ({
  n,
  to: "ada@example.org",
  template: "welcome",
  subject: "Welcome aboard, and what to do first",
  link: "https://example.org/confirm?token=c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00",
});

const payloads = (from, upto) => Array.from({ length: upto - from }, (_, i) => payload(from + i));

/** Reports of handlers: starts of jobs, and their latency since the enqueue call. */
class Seen {
  started = 0;
  awake = false;
  called = new Map();
  latencies = [];
  waiting = [];

  constructor(timed) {
    this.timed = timed;
    this.start = (n) => {
      if (n >= UNCOUNTED) {
        this.awake = true;
        return;
      }
      this.started += 1;
      if (this.timed) {
        this.latencies.push(now() - this.called.get(n));
        this.called.delete(n);
        if (this.called.size <= IN_FLIGHT - BATCH) this.waiting.shift()?.();
      }
    };
  }

  call(n) {
    this.called.set(n, now());
  }

  /** Waits until a batch more may be in flight. */
  async room() {
    const deadline = now() + PATIENCE_MS;
    while (this.called.size > IN_FLIGHT - BATCH) {
      if (now() > deadline) throw new Error("no job was started for too long");
      await Promise.race([new Promise((resolve) => this.waiting.push(resolve)), sleep(100)]);
    }
  }
}

/** A stopwatch that also counts processor time. */
class Watch {
  began = now();
  cpu = process.cpuUsage();

  stop(jobs, others = 0, latencies = []) {
    const used = process.cpuUsage(this.cpu);
    const cpu_s = (used.user + used.system) / 1e6;
    return { jobs, others, seconds: (now() - this.began) / 1e3, cpu_s, latencies };
  }
}

/** W1: single enqueues by the given number of callers until the time is up. */
async function singles(queue, order, callers) {
  await queue.enqueue(payload(UNCOUNTED));
  let next = 0;
  const latencies = [];
  const watch = new Watch();
  const until = watch.began + order.seconds * 1e3;
  const caller = async () => {
    for (let began = now(); began < until; began = now()) {
      await queue.enqueue(payload(next++));
      latencies.push(now() - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return watch.stop(latencies.length, 0, latencies);
}

/** Stores the given number of jobs, or as many as the time allows; returns their number. */
async function fill(queue, jobs, seconds) {
  const until = now() + seconds * 1e3;
  let next = 0;
  let stored = 0;
  const caller = async () => {
    while (now() < until && next < jobs) {
      const from = next;
      const upto = Math.min((next += queue.bulk), jobs);
      await queue.enqueueMany(payloads(from, upto));
      stored += upto - from;
    }
  };
  await Promise.all(Array.from({ length: queue.bulkCallers }, caller));
  return stored;
}

/** W2: many jobs by the fastest path. */
async function bulk(queue, order) {
  await queue.enqueueMany([payload(UNCOUNTED)]);
  const watch = new Watch();
  return watch.stop(await fill(queue, order.jobs, order.seconds));
}

/** W3 and W5: a worker starts on a filled store; timed until the store counts all jobs as completed. */
async function drain(queue, order) {
  const stored = await fill(queue, order.jobs + order.others, order.fill_seconds);
  const jobs = Math.min(order.jobs, stored);
  const others = stored - jobs;
  const seen = new Seen(false);
  const watch = new Watch();
  const until = watch.began + order.seconds * 1e3;
  await queue.work(seen.start);
  while (seen.started < jobs && now() < until) await sleep(LOOK_EVERY_MS);
  let left = await queue.left();
  while (left > others && now() < until) {
    await sleep(LOOK_EVERY_MS);
    left = await queue.left();
  }
  return watch.stop(Math.max(stored - left, 0), others);
}

/** W4: single jobs on an idle queue. */
async function idle(queue, order) {
  const seen = new Seen(true);
  await awake(queue, seen);
  await sleep(REST_MS);
  const watch = new Watch();
  const until = watch.began + order.seconds * 1e3;
  let called = 0;
  while (called < order.jobs && now() < until) {
    await sleep(Math.max(watch.began + called * IDLE_EVERY_MS - now(), 0));
    seen.call(called);
    await queue.enqueue(payload(called));
    called += 1;
  }
  await allStarted(seen, called);
  return watch.stop(called, 0, seen.latencies);
}

/** W6: producers and a worker at the same time, until the time is up and every job is completed. */
async function sustained(queue, order) {
  const seen = new Seen(true);
  await awake(queue, seen);
  let next = 0;
  const watch = new Watch();
  const until = watch.began + order.seconds * 1e3;
  const producer = async () => {
    while (now() < until) {
      await seen.room();
      const from = next;
      next += BATCH;
      for (let n = from; n < next; n++) seen.call(n);
      await queue.enqueueMany(payloads(from, from + BATCH));
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, producer));
  // The time goes on until every job is completed. A queue that starts jobs faster than it completes them has
  // a long tail; after a while, what it has completed is what counts.
  const deadline = now() + TAIL_MS;
  let left = await queue.left();
  while (left > 0 && now() < deadline) {
    await sleep(LOOK_EVERY_MS);
    left = await queue.left();
  }
  return watch.stop(Math.max(next - left, 0), 0, seen.latencies);
}

/** Starts a worker and waits until it has run a job. */
async function awake(queue, seen) {
  await queue.work(seen.start);
  await queue.enqueue(payload(UNCOUNTED));
  const deadline = now() + PATIENCE_MS;
  while (!seen.awake) {
    if (now() > deadline) throw new Error("the worker did not take its first job");
    await sleep(LOOK_EVERY_MS);
  }
}

async function allStarted(seen, jobs) {
  const deadline = now() + PATIENCE_MS;
  while (seen.started < jobs) {
    if (now() > deadline) throw new Error(`${jobs - seen.started} of ${jobs} jobs were not started`);
    await sleep(LOOK_EVERY_MS);
  }
}

function percentile(sorted, percent) {
  return sorted[Math.max(Math.ceil((sorted.length * percent) / 100) - 1, 0)];
}

const WORKLOADS = {
  W1seq: (queue, order) => singles(queue, order, 1),
  W1c64: (queue, order) => singles(queue, order, 64),
  W2: bulk,
  W3: drain,
  W4: idle,
  W5: drain,
  W6: sustained,
};

/** The main of a driver: measures what the only argument orders and prints one line of JSON. */
export async function drive(open) {
  try {
    const order = JSON.parse(process.argv[2]);
    const queue = await open(order.url);
    const { latencies, ...measured } = await WORKLOADS[order.workload](queue, order);
    if (measured.jobs === 0) throw new Error("not a single job went through");
    latencies.sort((a, b) => a - b);
    const answer = {
      ...measured,
      p50_ms: percentile(latencies, 50),
      p99_ms: percentile(latencies, 99),
      rss_mb: process.resourceUsage().maxRSS / 1024,
      version: queue.version,
      settings: queue.settings,
    };
    process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
