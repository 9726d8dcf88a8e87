"""The process that pulls one image, and what it writes down of it for everybody who waits."""

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

TOLD_EVERY = 0.2  # seconds
LONGEST_ERROR = 2000  # characters of a registry's words
MOST_LAYERS = 1000  # of an image; Docker itself makes no more than 127
SILENCE = 30.0  # seconds without a word after which that is told
WANTED = ".wanted"  # the folder with a file for each job that waits for a pull
FINISHED = ("Pull complete", "Already exists")
FETCHED = ("Download complete", "Verifying Checksum", "Extracting", *FINISHED)


@dataclass
class Pulled:
    """How far a pull is: layers in place of layers known, bytes here of bytes known, seconds since
    it began.
    """

    layers: int = 0
    known: int = 0
    bytes: int = 0
    total: int = 0
    seconds: float = 0.0

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> Pulled:
        """The progress that a pull's file tells; none for one that has told nothing yet."""
        return cls(**report.get("progress", {}))

    def describe(self, image: str, quiet: float = 0.0) -> str:
        """`pulling x: 1 of 2 layers, ETA 0:30`. `quiet`: seconds in which nothing was heard."""
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
        """By its speed so far; at least one byte has to be here."""
        return (self.total - self.bytes) * self.seconds / self.bytes


@dataclass
class Layers:
    """The layers of an image, as the daemon's lines tell of them."""

    began: float = field(default_factory=time.monotonic)
    state: dict[str, str] = field(default_factory=dict[str, str])
    here: dict[str, int] = field(default_factory=dict[str, int])
    size: dict[str, int] = field(default_factory=dict[str, int])

    def add_line(self, line: Mapping[str, Any]) -> None:
        """Note what a line of the daemon tells of a layer."""
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
        """Note `{"current": bytes, "total": bytes}`; anything else is left out."""
        if not isinstance(told, dict):
            return
        detail = cast("dict[str, Any]", told)
        here, size = detail.get("current"), detail.get("total")
        if isinstance(here, int) and isinstance(size, int) and 0 <= here <= size:
            self.here[layer], self.size[layer] = here, size

    def sum_up(self) -> Pulled:
        """How far the pull of all layers is."""
        done = sum(word in FINISHED for word in self.state.values())
        here, size = sum(self.here.values()), sum(self.size.values())
        return Pulled(done, len(self.state), here, size, time.monotonic() - self.began)


def main() -> None:
    """Reads what to pull from standard input; nothing secret is an argument or a file."""
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
        # The end of this process: if nobody is told, the next client begins the pull anew.
        except Exception as error:  # noqa: BLE001
            words = f"it ended unforeseen: {type(error).__name__}: {error}"
            write_report(path, {"error": words[:LONGEST_ERROR]})
        else:
            write_report(path, {"done": True})


def end_when_unwanted(wishes: Path) -> None:
    """The daemon gives up a pull whose last reader has gone."""
    while any(wishes.iterdir()):
        time.sleep(TOLD_EVERY)
    os._exit(0)


def pull_image(daemon: Daemon, image: str, login: Mapping[str, str], path: Path) -> None:
    """Pull the image, and write down how far it is. Raises TaoError in the daemon's words."""
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
    """(name, tag): a digest stays with the name, a port is no tag, no tag means latest."""
    if "@" in image:
        return image, ""
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return name, tag


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Put the report in the place of the one before, whole."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report))
    new.replace(path)
