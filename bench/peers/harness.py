"""The workloads of the peer benchmark for drivers written in Python: the same as in bench/harness (Rust) and
harness.mjs. It knows no queue; a driver hands `drive` a coroutine function that opens one.

A queue is an object with:
  version, settings       what the report says about it
  bulk, bulk_callers      jobs per call of enqueue_many, and such calls at a time
  enqueue(payload)        stores a job; returns when the store has acknowledged it
  enqueue_many(payloads)  stores many by the fastest path there is
  work(start)             starts the queue's own worker; its handler does nothing but call start(payload["n"])
  left()                  how many jobs the store still holds as not completed
"""

import asyncio
import json
import math
import os
import resource
import sys
import time
import traceback

IDLE_EVERY_S = 0.020
REST_S = 0.5
BATCH = 100
PRODUCERS = 4
IN_FLIGHT = 1_000
LOOK_EVERY_S = 0.002
TAIL_S = 8
PATIENCE_S = 20
# Numbers from here on are not counted: the job that shows that a worker is awake.
UNCOUNTED = 2**51

now = time.perf_counter


def payload(n):
    return {
        "n": n,
        "to": "ada@example.org",
        "template": "welcome",
        "subject": "Welcome aboard, and what to do first",
        "link": "https://example.org/confirm?token=c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00",
    }


def payloads(start, end):
    return [payload(n) for n in range(start, end)]


class Seen:
    """Reports of handlers: starts of jobs, and their latency since the enqueue call."""

    def __init__(self, timed):
        self.timed = timed
        self.started = 0
        self.awake = False
        self.called = {}
        self.latencies = []

    def start(self, n):
        if n >= UNCOUNTED:
            self.awake = True
            return
        self.started += 1
        if self.timed:
            self.latencies.append((now() - self.called.pop(n)) * 1e3)

    def call(self, n):
        self.called[n] = now()

    async def room(self):
        """Waits until a batch more may be in flight."""
        deadline = now() + PATIENCE_S
        while len(self.called) > IN_FLIGHT - BATCH:
            if now() > deadline:
                raise TimeoutError("no job was started for too long")
            await asyncio.sleep(LOOK_EVERY_S)


class Watch:
    """A stopwatch that also counts processor time."""

    def __init__(self):
        self.began = now()
        self.cpu = time.process_time()

    def stop(self, jobs, others=0, latencies=()):
        return {
            "jobs": jobs,
            "others": others,
            "seconds": now() - self.began,
            "cpu_s": time.process_time() - self.cpu,
        }, sorted(latencies)


async def singles(queue, order, callers):
    """W1: single enqueues by the given number of callers until the time is up."""
    await queue.enqueue(payload(UNCOUNTED))
    latencies = []
    numbers = iter(range(UNCOUNTED))
    watch = Watch()
    until = watch.began + order["seconds"]

    async def caller():
        while (began := now()) < until:
            await queue.enqueue(payload(next(numbers)))
            latencies.append((now() - began) * 1e3)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return watch.stop(len(latencies), 0, latencies)


async def fill(queue, jobs, seconds):
    """Stores the given number of jobs, or as many as the time allows; returns their number."""
    until = now() + seconds
    starts = iter(range(0, jobs, queue.bulk))
    stored = 0

    async def caller():
        nonlocal stored
        while now() < until and (start := next(starts, None)) is not None:
            end = min(start + queue.bulk, jobs)
            await queue.enqueue_many(payloads(start, end))
            stored += end - start

    await asyncio.gather(*(caller() for _ in range(queue.bulk_callers)))
    return stored


async def bulk(queue, order):
    """W2: many jobs by the fastest path."""
    await queue.enqueue_many([payload(UNCOUNTED)])
    watch = Watch()
    return watch.stop(await fill(queue, order["jobs"], order["seconds"]))


async def drain(queue, order):
    """W3 and W5: a worker starts on a filled store; timed until the store counts all jobs as completed."""
    stored = await fill(queue, order["jobs"] + order["others"], order["fill_seconds"])
    jobs = min(order["jobs"], stored)
    others = stored - jobs
    seen = Seen(False)
    watch = Watch()
    until = watch.began + order["seconds"]
    await queue.work(seen.start)
    while seen.started < jobs and now() < until:
        await asyncio.sleep(LOOK_EVERY_S)
    left = await queue.left()
    while left > others and now() < until:
        await asyncio.sleep(LOOK_EVERY_S)
        left = await queue.left()
    return watch.stop(max(stored - left, 0), others)


async def idle(queue, order):
    """W4: single jobs on an idle queue."""
    seen = Seen(True)
    await awake(queue, seen)
    await asyncio.sleep(REST_S)
    watch = Watch()
    until = watch.began + order["seconds"]
    called = 0
    while called < order["jobs"] and now() < until:
        await asyncio.sleep(max(watch.began + called * IDLE_EVERY_S - now(), 0))
        seen.call(called)
        await queue.enqueue(payload(called))
        called += 1
    await all_started(seen, called)
    return watch.stop(called, 0, seen.latencies)


async def sustained(queue, order):
    """W6: producers and a worker at the same time, until the time is up and every job is completed."""
    seen = Seen(True)
    await awake(queue, seen)
    jobs = 0
    watch = Watch()
    until = watch.began + order["seconds"]

    async def producer():
        nonlocal jobs
        while now() < until:
            await seen.room()
            start, jobs = jobs, jobs + BATCH
            for n in range(start, start + BATCH):
                seen.call(n)
            await queue.enqueue_many(payloads(start, start + BATCH))

    await asyncio.gather(*(producer() for _ in range(PRODUCERS)))
    # The time goes on until every job is completed. A queue that starts jobs faster than it completes them has
    # a long tail; after a while, what it has completed is what counts.
    deadline = now() + TAIL_S
    left = await queue.left()
    while left > 0 and now() < deadline:
        await asyncio.sleep(LOOK_EVERY_S)
        left = await queue.left()
    return watch.stop(max(jobs - left, 0), 0, seen.latencies)


async def awake(queue, seen):
    """Starts a worker and waits until it has run a job."""
    await queue.work(seen.start)
    await queue.enqueue(payload(UNCOUNTED))
    deadline = now() + PATIENCE_S
    while not seen.awake:
        if now() > deadline:
            raise TimeoutError("the worker did not take its first job")
        await asyncio.sleep(LOOK_EVERY_S)


async def all_started(seen, jobs):
    deadline = now() + PATIENCE_S
    while seen.started < jobs:
        if now() > deadline:
            raise TimeoutError(f"{jobs - seen.started} of {jobs} jobs were not started")
        await asyncio.sleep(LOOK_EVERY_S)


def percentile(ordered, percent):
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)] if ordered else None


WORKLOADS = {
    "W1seq": lambda queue, order: singles(queue, order, 1),
    "W1c64": lambda queue, order: singles(queue, order, 64),
    "W2": bulk,
    "W3": drain,
    "W4": idle,
    "W5": drain,
    "W6": sustained,
}


async def answer(open_queue):
    order = json.loads(sys.argv[1])
    queue = await open_queue(order["url"])
    measured, latencies = await WORKLOADS[order["workload"]](queue, order)
    if measured["jobs"] == 0:
        raise RuntimeError("not a single job went through")
    return {
        **measured,
        "p50_ms": percentile(latencies, 50),
        "p99_ms": percentile(latencies, 99),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": queue.version,
        "settings": queue.settings,
    }


def drive(open_queue):
    """The main of a driver: measures what the only argument orders and prints one line of JSON."""

    async def main():
        try:
            print(json.dumps(await answer(open_queue)), flush=True)
            os._exit(0)  # Workers have no end of their own.
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    asyncio.run(main())
