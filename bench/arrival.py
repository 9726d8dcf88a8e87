"""Arrival: when a command has begun, seen by what it writes into a named pipe."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

from bench.entrypoint import TRAINING
from tao_sdk.model.spec import JobSpec

PATIENCE_SECONDS = 60


def arriving_job(image: str, fifo: Path) -> JobSpec:
    """A job with a spec and an output, whose command writes into the pipe. It mounts its folder."""
    return JobSpec(
        name="bench",
        image=image,
        command=f"echo > {fifo}; cat {{config_path}}",
        specs=TRAINING["specs"],  # pyright: ignore[reportArgumentType]
        outputs=TRAINING["outputs"],  # pyright: ignore[reportArgumentType]
        mounts=[f"{fifo.parent}:{fifo.parent}"],
        gpu_count=0,
    )


def arrival(fifo: Path, start: Callable[[], object]) -> float:
    """Seconds from the call to the moment when somebody writes into the pipe."""
    pipe = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        begun = time.perf_counter()
        start()
        wait_for_data(pipe)
        seconds = time.perf_counter() - begun
        read_to_end(pipe)
        return seconds
    finally:
        os.close(pipe)


def wait_for_data(pipe: int) -> None:
    if not select.select([pipe], [], [], PATIENCE_SECONDS)[0]:
        raise TimeoutError("The command never began.")


def read_to_end(pipe: int) -> None:
    """Until its writer has closed it. The next arrival would take an open writer for its own."""
    while os.read(pipe, 1024):
        wait_for_data(pipe)
