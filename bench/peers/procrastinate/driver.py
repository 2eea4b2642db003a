"""The driver of Procrastinate: asynchronous, wake-ups by NOTIFY, finished jobs deleted, psycopg in C."""

import asyncio
import importlib.metadata
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import procrastinate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import drive  # noqa: E402

CONNECTIONS = 20
CONCURRENCY = 40
BULK = 500
BULK_CALLERS = 2

logging.disable(logging.ERROR)


async def open_queue(url):
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONNECTIONS)
    app = procrastinate.App(connector=connector)
    handlers = []

    @app.task(name="mail")
    async def mail(n, **_):
        handlers[0](n)

    await app.open_async()
    await app.schema_manager.apply_schema_async()

    async def work(start):
        handlers.append(start)
        worker = app.run_worker_async(
            concurrency=CONCURRENCY, delete_jobs="successful", install_signal_handlers=False
        )
        asyncio.get_running_loop().create_task(worker)

    async def left():
        count = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        return (await connector.execute_query_one_async(count))["count"]

    return SimpleNamespace(
        version=importlib.metadata.version("procrastinate"),
        settings=(
            f"concurrency {CONCURRENCY}, delete_jobs successful, {CONNECTIONS} connections; "
            f"bulk: {BULK_CALLERS} callers of batch_defer_async with {BULK}; Python {sys.version.split()[0]}"
        ),
        bulk=BULK,
        bulk_callers=BULK_CALLERS,
        enqueue=lambda payload: mail.defer_async(**payload),
        enqueue_many=lambda payloads: mail.batch_defer_async(*payloads),
        work=work,
        left=left,
    )


if __name__ == "__main__":
    drive(open_queue)
