"""S3 inputs of whole jobs: from the entrypoint's start to the first thing that the command does,
its inputs on the disk.

Beside it the whole of each client that brings the same files to the same disk, over the same line
(s3.py). What comes before the first byte and after the last counts: Python's start, the unpacking
of the runner, what makes files count as whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench import s3
from bench.contenders import ours
from bench.entrypoint import FirstInstruction, built
from bench.figure import Figure, ratio
from bench.folder import scratch
from bench.race import OURS, race
from bench.rivals import Rivals
from bench.scale import Scale


def figures(site: s3.Site, rivals: Rivals, scale: Scale) -> Iterator[Figure]:
    """Nothing where there is no client to compare with."""
    for kind in ("large", "small"):
        yield from figure_of(site, kind, rivals, scale)


def figure_of(site: s3.Site, kind: str, rivals: Rivals, scale: Scale) -> Iterator[Figure]:
    title = f"S3 inputs of a job, {site.words(kind)}, {site.scheme}"
    clients = s3.clients_of(rivals)
    with scratch() as folder:
        on_disk = replace(site, folder=folder)
        contenders = {
            name: s3.program(on_disk, "down", kind, name, place) for name, place in clients.items()
        }
        found = race(
            {OURS: job(on_disk, kind), **contenders}, scale.s3_rounds, rivals.leave_out_of(title)
        )
    if found is None:
        return
    meaning = (
        f"From the entrypoint's start to the command's first instruction, over {s3.LATENCY} and "
        f"{s3.RATE / 1e6:.0f} MB/s a connection, to the disk; against the whole of the best of "
        f"{', '.join(clients)}."
    )
    key = f"s3.inputs.{kind}.{site.scheme}"
    yield ratio(key, title, meaning, found.ours, found.theirs, found.best)


def job(site: s3.Site, kind: str) -> Callable[[], float]:
    """A job with that input, timed; what it brought has to be all there is."""
    first = FirstInstruction(site.folder)
    names = {"large": "large/00000", "small": "small/"}
    call = {
        "command": f"echo > {first.fifo}",
        "specs": {"data": f"s3://{site.bucket}/{names[kind]}"},
        "inputs": {"data": {"type": "file" if kind == "large" else "folder"}},
    }
    entrypoint = built(ours(), call)
    results = site.folder / "results"

    def run() -> float:
        try:
            seconds = first.seconds(ours(), entrypoint, site.environ(ours()))
            brought = sum(map(size_of, inputs(results)))
            if brought != site.size(kind):
                raise RuntimeError(
                    f"The job has {brought} of {site.size(kind)} bytes of its input."
                )
            return seconds
        finally:
            shutil.rmtree(results, ignore_errors=True)

    return run


def inputs(results: Path) -> Iterator[Path]:
    """The files that the command can see, without the runner's own beside them."""
    for path in (results / "bench" / ".tao" / "inputs").rglob("*"):
        if path.is_file() and ".tao-part" not in str(path):
            yield path


def size_of(path: Path) -> int:
    return path.stat().st_size
