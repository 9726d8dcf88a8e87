"""Pull: the process that pulls one image, and its report for everybody who waits."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import TaoError
from tao_sdk.model.units import format_clock, format_size
from tao_sdk.transports.dockerd import Address, Daemon, login_header

TOLD_EVERY = 0.2  # seconds between two reports
LONGEST_ERROR = 2000  # characters of a registry's words
MOST_LAYERS = 1000  # per image; Docker itself makes at most 127
SILENCE = 30.0  # seconds without progress after which people are told
WANTED = ".wanted"  # the folder with a file for each job that waits for a pull
FINISHED = ("Pull complete", "Already exists")
FETCHED = ("Download complete", "Verifying Checksum", "Extracting", *FINISHED)


@dataclass
class Pulled:
    """The progress of a pull: `layers` done of `known`, `bytes` of `total`, seconds since start."""

    layers: int = 0
    known: int = 0
    bytes: int = 0
    total: int = 0
    seconds: float = 0.0

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> Pulled:
        """The progress in a pull's report; zero if the report has none yet."""
        return cls(**report.get("progress", {}))

    def describe(self, image: str, quiet: float = 0.0) -> str:
        """`pulling x: 1 of 2 layers, ETA 0:30`. `quiet`: seconds without a new report."""
        parts: list[str] = []
        if self.known:
            parts.append(f"{self.layers} of {self.known} layers")
        if self.total:
            parts.append(f"{format_size(self.bytes)} of {format_size(self.total)}")
        if 0 < self.bytes < self.total and self.seconds > 1:
            parts.append(f"ETA {format_clock(self.seconds_left)}")
        if quiet > SILENCE:
            parts.append(f"nothing heard of it for {format_clock(quiet)}")
        if not parts:
            return f"pulling {image}"
        return f"pulling {image}: {', '.join(parts)}"

    @property
    def seconds_left(self) -> float:
        """The seconds left at the average speed so far. Needs at least one byte."""
        return (self.total - self.bytes) * self.seconds / self.bytes


@dataclass
class Layers:
    """The layers of an image, by the daemon's progress lines."""

    began: float = field(default_factory=time.monotonic)
    state: dict[str, str] = field(default_factory=dict[str, str])
    here: dict[str, int] = field(default_factory=dict[str, int])
    size: dict[str, int] = field(default_factory=dict[str, int])

    def add_line(self, line: Mapping[str, Any]) -> None:
        """Note the state of a layer from one of the daemon's lines."""
        layer, word = str(line.get("id", "")), str(line.get("status", ""))
        if not layer or word.startswith("Pulling from"):
            return
        if layer not in self.state and len(self.state) >= MOST_LAYERS:
            return
        self.state[layer] = word
        if word == "Downloading":
            self.add_bytes(layer, line.get("progressDetail"))
        elif word in FETCHED:
            self.here[layer] = self.size.get(layer, 0)

    def add_bytes(self, layer: str, told: Any) -> None:
        """Note `{"current": bytes, "total": bytes}`; ignore anything else."""
        if not isinstance(told, dict):
            return
        detail = cast("dict[str, Any]", told)
        here, size = detail.get("current"), detail.get("total")
        if isinstance(here, int) and isinstance(size, int) and 0 <= here <= size:
            self.here[layer], self.size[layer] = here, size

    def sum_up(self) -> Pulled:
        """The progress of all layers together."""
        done = sum(word in FINISHED for word in self.state.values())
        here, size = sum(self.here.values()), sum(self.size.values())
        return Pulled(done, len(self.state), here, size, time.monotonic() - self.began)


def main() -> None:
    """Read the request from standard input and pull. No secret is an argument or in a file."""
    message = json.loads(sys.stdin.buffer.read())
    path = Path(message["pull"])
    with path.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        write_report(path, {"progress": vars(Pulled())})
        wishes = path.with_suffix(WANTED)
        threading.Thread(target=end_when_unwanted, args=(wishes,), daemon=True).start()
        daemon = Daemon(Address(*message["address"]))
        try:
            pull_image(daemon, message["image"], message["login"], path)
        except TaoError as error:
            words = f"{str(error)[:LONGEST_ERROR]} {message['failure']}"
            write_report(path, {"error": words.strip()})
        # This process ends here. Without a report, the next client would start the pull again.
        except Exception as error:  # noqa: BLE001
            words = f"it ended unforeseen: {type(error).__name__}: {error}"
            write_report(path, {"error": words[:LONGEST_ERROR]})
        else:
            write_report(path, {"done": True})


def end_when_unwanted(wishes: Path) -> None:
    """End this process once no job waits. The daemon stops a pull whose last reader is gone."""
    while any(wishes.iterdir()):
        time.sleep(TOLD_EVERY)
    os._exit(0)


def pull_image(daemon: Daemon, image: str, login: Mapping[str, str], path: Path) -> None:
    """Pull the image, and report the progress. Raises TaoError in the daemon's words."""
    name, tag = split_image_name(image)
    layers, told = Layers(), 0.0
    headers = login_header(login)
    for line in daemon.read_lines("POST", "/images/create", headers, fromImage=name, tag=tag):
        if "error" in line:
            raise TaoError(str(line["error"]))
        layers.add_line(line)
        if time.monotonic() - told > TOLD_EVERY:
            write_report(path, {"progress": vars(layers.sum_up())})
            told = time.monotonic()


def split_image_name(image: str) -> tuple[str, str]:
    """Return (name, tag). A digest stays with the name, a port is no tag, no tag means latest."""
    if "@" in image:
        return image, ""
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return name, tag


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Replace the report atomically."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report))
    new.replace(path)
