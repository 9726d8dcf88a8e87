"""Progress: what it costs to read how far a training is out of its log, for the two kinds of line
that long logs consist of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from bench.figure import Figure, per_item
from bench.rivals import Rivals
from bench.rounds import interleaved
from bench.scale import Scale
from tao_sdk.model.progress_reader import ProgressReader

CHUNK = 256 * 1024  # bytes of a log that come at once
KINDS: Mapping[str, str] = {
    "step": "a log line of a step",
    "epoch": "a log line of a new epoch",
}


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:  # noqa: ARG001  nobody else reads progress
    logs = {"step": step_lines(scale.progress_lines), "epoch": epoch_lines(scale.progress_lines)}
    found = interleaved({kind: reading(log) for kind, log in logs.items()}, scale.rounds)
    for kind, title in KINDS.items():
        meaning = (
            f"Processor time of reading the progress in {title}, such as "
            f"`{example(logs[kind])}`, as a look does."
        )
        yield per_item(f"progress.{kind}", f"progress, {title}", meaning, found[kind])


def step_lines(count: int) -> bytes:
    """A thousand lines an epoch."""
    lines = (
        f"epoch {n // 1000 + 1}/{count // 1000 + 1}  step {n % 1000:03}  loss {1 / (n + 1):.4f}\n"
        for n in range(count)
    )
    return "".join(lines).encode()


def epoch_lines(count: int) -> bytes:
    return "".join(f"epoch {n}/{count}  loss {1 / n:.4f}\n" for n in range(1, count + 1)).encode()


def example(log: bytes) -> str:
    return log.partition(b"\n")[0].decode()


def reading(log: bytes) -> Callable[[], float]:
    """The processor seconds of one line, with every epoch reported once."""
    lines = log.count(b"\n")

    def measure() -> float:
        reader, epochs = ProgressReader(), set[int]()
        started = time.process_time()
        for at in range(0, len(log), CHUNK):
            epochs.update(entry.epoch for entry in reader.feed_epochs(log[at : at + CHUNK]))
        seconds = time.process_time() - started
        if epochs != set(range(1, reader.progress.epoch + 1)):
            raise RuntimeError("A reader that leaves out epochs is not quick.")
        return seconds / lines

    return measure
