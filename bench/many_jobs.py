"""Many jobs: what a watcher costs while nothing happens, and what it takes to start and to end many
jobs of this machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import many_starts
from bench.figure import Figure, per_item, ratio, spread
from bench.folder import scratch
from bench.rivals import Rivals
from bench.rounds import seconds_of
from bench.scale import Scale
from tao_sdk.client import Client
from tao_sdk.engine.listening import whole_pause
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

SLEEPER = JobSpec(command="exec sleep 3600", gpu_count=0)


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:  # noqa: ARG001  none has a watcher
    with scratch() as folder, local_client(folder) as client:
        yield from plans(client, scale)
        yield from many_starts.figures(client, scale, folder)
        yield from cancels(client, scale)
        yield idle_watcher(client, scale)


@contextmanager
def local_client(folder: Path) -> Generator[Client]:
    """A client whose jobs are all ended when the block is left."""
    state = {"TAO_SDK_STATE_DIR": str(folder / "state"), "TAO_RESULTS_ROOT": str(folder / "runs")}
    with Client(settings=Settings({**os.environ, **state})) as client:
        try:
            yield client
        finally:
            client.cancel_jobs([job.id for job in client.store.live()], grace=0)


def plans(client: Client, scale: Scale) -> Iterator[Figure]:
    client.plan(SLEEPER, "local")
    seconds = [seconds_of(lambda: client.plan(SLEEPER, "local")) for _ in range(scale.looks)]
    meaning = "A local job is planned by a client that has planned one before."
    yield per_item("many.plan", "plan a job", meaning, seconds)


def submit_many(client: Client, number: int) -> list[str]:
    return [client.submit(SLEEPER, "local").job.id for _ in range(number)]


def cancels(client: Client, scale: Scale) -> Iterator[Figure]:
    """Of `many_jobs` in one go, against one job's."""
    client.cancel_jobs([job.id for job in client.store.live()], grace=0)
    many: list[float] = []
    one: list[float] = []
    for _ in range(max(2, scale.rounds // 5)):
        ids, single = submit_many(client, scale.many_jobs), submit_many(client, 1)
        one.append(seconds_of(lambda ended=single: client.cancel_jobs(ended)))
        many.append(seconds_of(lambda ended=ids: client.cancel_jobs(ended)))
    yield ratio(
        "many.cancel",
        f"cancel {scale.many_jobs} jobs in one go",
        "As tao cancel --parent JOB does it, until the end of each has been seen and stored.",
        many,
        one,
        "the cancel of one job",
    )


def idle_watcher(client: Client, scale: Scale) -> Figure:
    submit_many(client, scale.watched_jobs)
    time.sleep(2.0)
    watcher = Watcher(client.engine)
    look_at_all(watcher)
    used = processor_seconds(watcher, scale.watched_seconds)
    before = time.process_time()
    look_at_all(Watcher(client.engine))
    whole_look = time.process_time() - before
    pause = whole_pause(scale.watched_jobs)
    return Figure(
        "many.watcher",
        f"watch {scale.watched_jobs:,} idle jobs",
        f"Of a core, for {scale.watched_seconds:.0f} s: local jobs run and print nothing. The share "
        "of the rare looks at all jobs is included.",
        spread([used], "seconds"),
        spread([used / scale.watched_seconds + whole_look / pause], "times"),
    )


def look_at_all(watcher: Watcher) -> None:
    """A watcher's first look."""
    for endpoint in watcher.engine.store.live_endpoints():
        watcher._attend(endpoint)  # pyright: ignore[reportPrivateUsage]


def processor_seconds(watcher: Watcher, seconds: float) -> float:
    ending = threading.Timer(seconds, watcher.stop.set)
    ending.start()
    before = time.process_time()
    watcher.run()
    return time.process_time() - before
