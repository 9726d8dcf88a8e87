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
    def of(cls, said: Mapping[str, Any]) -> Pulled:
        return cls(**said["progress"]) if "progress" in said else cls()

    def text(self, image: str, quiet: float = 0.0) -> str:
        """`quiet`: seconds in which nothing was heard of it."""
        parts = [f"{self.layers} of {self.known} layers"] if self.known else []
        if self.total:
            parts.append(f"{format_size(self.bytes)} of {format_size(self.total)}")
        if 0 < self.bytes < self.total and self.seconds > 1:
            parts.append(
                f"ETA {format_clock((self.total - self.bytes) * self.seconds / self.bytes)}"
            )
        if quiet > SILENCE:
            parts.append(f"nothing heard of it for {format_clock(quiet)}")
        return f"pulling {image}" + (f": {', '.join(parts)}" if parts else "")


@dataclass
class Layers:
    """The layers of an image, as the daemon's lines tell of them."""

    began: float = field(default_factory=time.monotonic)
    state: dict[str, str] = field(default_factory=dict[str, str])
    here: dict[str, int] = field(default_factory=dict[str, int])
    size: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, line: Mapping[str, Any]) -> None:
        layer, word = str(line.get("id", "")), str(line.get("status", ""))
        if (
            not layer
            or word.startswith("Pulling from")
            or (layer not in self.state and len(self.state) >= MOST_LAYERS)
        ):
            return
        self.state[layer] = word
        told: Any = line.get("progressDetail")
        detail = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        here, size = detail.get("current"), detail.get("total")
        if (
            word == "Downloading"
            and isinstance(here, int)
            and isinstance(size, int)
            and 0 <= here <= size
        ):
            self.here[layer], self.size[layer] = here, size
        elif word in FETCHED:
            self.here[layer] = self.size.get(layer, 0)

    def pulled(self) -> Pulled:
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
        tell(path, {"progress": vars(Pulled())})
        threading.Thread(
            target=end_when_unwanted, args=(path.with_suffix(WANTED),), daemon=True
        ).start()
        try:
            pull(Daemon(Address(*message["address"])), message["image"], message["login"], path)
        except TaoError as error:
            tell(path, {"error": f"{str(error)[:LONGEST_ERROR]} {message['failure']}".strip()})
        # The end of this process: if nobody is told, the next client begins the pull anew.
        except Exception as error:  # noqa: BLE001
            tell(
                path,
                {"error": f"it ended unforeseen: {type(error).__name__}: {error}"[:LONGEST_ERROR]},
            )
        else:
            tell(path, {"done": True})


def end_when_unwanted(wishes: Path) -> None:
    """The daemon gives up a pull whose last reader has gone."""
    while any(wishes.iterdir()):
        time.sleep(TOLD_EVERY)
    os._exit(0)


def pull(daemon: Daemon, image: str, login: Mapping[str, str], path: Path) -> None:
    name, tag = parted(image)
    layers, told = Layers(), 0.0
    for line in daemon.read_lines(
        "POST", "/images/create", login_header(login), fromImage=name, tag=tag
    ):
        if "error" in line:
            raise TaoError(str(line["error"]))
        layers.take(line)
        if time.monotonic() - told > TOLD_EVERY:
            tell(path, {"progress": vars(layers.pulled())})
            told = time.monotonic()


def parted(image: str) -> tuple[str, str]:
    """(name, tag): a digest stays with the name, a port is no tag, no tag means latest."""
    if "@" in image:
        return image, ""
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def tell(path: Path, said: Mapping[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(said))
    new.replace(path)
