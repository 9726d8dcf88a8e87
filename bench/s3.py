"""S3: how long a transfer takes over a line with latency and a limited rate, beside the best of the
other clients.

The server is MinIO, built from the tests' pinned sources, its data in memory where that is
possible; the line is the tests' compiled proxy, whose own ceiling is a figure here. Every transfer
is a program of its own (s3_programs.py, or the rival's own command), timed from its start to its
end, and what it brought is counted.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import BOTO3, OBSTORE, PUBLISHED, S5CMD, Environment, ours
from bench.figure import Figure, Spread, growth, ratio, spread
from bench.folder import ROOT
from bench.race import OURS, Race, race
from bench.rivals import Rivals
from bench.rounds import ContenderFailed, output_of, seconds_of
from bench.scale import Scale

LATENCY, RATE = "15ms", 90e6
SMALL = 256 * 1024
MEMORY = Path("/dev/shm")
WAYS = {"down": "download", "up": "upload"}
CLIENTS = {"s5cmd": S5CMD, "obstore": OBSTORE, "boto3": BOTO3}


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    """Nothing without rivals: seconds alone say nothing."""
    if rivals.alone:
        return
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for scheme in ("http", "https"):
            with standing(Path(folder), scheme, scale) as site:
                yield from figures_of(site, scale, rivals)


def figures_of(site: Site, scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    from bench import s3_jobs

    if site.scheme == "http":
        yield ceiling()
    else:
        yield from first_byte(site, rivals, scale)
    for way in WAYS:
        for kind in ("large", "small"):
            yield from transfers(site, way, kind, rivals, scale)
    yield from s3_jobs.figures(site, rivals, scale)
    if site.scheme == "https":
        yield from memories(site, scale)


def clients_of(rivals: Rivals) -> dict[str, Environment]:
    """Those that can be had."""
    return {name: found for name, each in CLIENTS.items() if (found := rivals.environment(each))}


@dataclass(frozen=True)
class Site:
    """A server with a line in front of it, and the files of the bench beside it."""

    scheme: str
    server: Any
    link: Any
    bucket: str
    folder: Path
    megabytes: int
    files: int

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.link.address}"

    def environ(self, place: Environment) -> dict[str, str]:
        known = self.server.env(self.url)
        secure = {"SSL_CERT_FILE": known["AWS_CA_BUNDLE"], "AWS_CA_BUNDLE": known["AWS_CA_BUNDLE"]}
        keys = {
            name: known[name]
            for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        }
        return place.variables(
            **keys, AWS_REGION="us-east-1", **(secure if self.scheme == "https" else {})
        )

    def words(self, kind: str) -> str:
        return (
            f"{self.megabytes} MB in one object"
            if kind == "large"
            else f"{self.files:,} objects of 256 KiB"
        )

    def size(self, kind: str) -> int:
        return self.megabytes << 20 if kind == "large" else self.files * SMALL


@contextmanager
def standing(folder: Path, scheme: str, scale: Scale) -> Generator[Site]:
    """Server, line, and a bucket that holds what is to be downloaded."""
    sys.path.append(str(ROOT / "tests"))
    from support.servers import link_here, s3_here

    command = s3_here.minio_tls_command if scheme == "https" else s3_here.minio_command
    data = Path(tempfile.mkdtemp(dir=folder))
    server = s3_here.Server(
        command, scheme=scheme, ready="/minio/health/cluster", folder=data
    ).start()
    try:
        with link_here.Link(
            server.address, "-raw", "-latency", LATENCY, "-rate", str(RATE)
        ) as link:
            site = Site(
                scheme, server, link, server.bucket(), folder, scale.s3_megabytes, scale.s3_files
            )
            for kind in ("large", "small", "tiny"):
                fill(site, kind)
            yield site
    finally:
        server.end()


def fill(site: Site, kind: str) -> None:
    place = site.folder / kind
    if not place.exists():
        place.mkdir()
        count, size = {
            "large": (1, site.megabytes << 20),
            "small": (site.files, SMALL),
            "tiny": (1, 1),
        }[kind]
        for number in range(count):
            (place / f"{number:05}").write_bytes(
                os.urandom(min(size, 1 << 20)) * max(1, size >> 20)
            )
    s3 = site.server.s3()
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda path: s3.put(site.bucket, f"{kind}/{path.name}", str(path)), place.iterdir()
            )
        )


def transfers(site: Site, way: str, kind: str, rivals: Rivals, scale: Scale) -> Iterator[Figure]:
    key = f"s3.{way}.{kind}.{site.scheme}"
    title = f"S3 {WAYS[way]}, {site.words(kind)}, {site.scheme}"
    clients = clients_of(rivals)
    contenders = {
        name: program(site, way, kind, name, place)
        for name, place in {OURS: ours(), **clients}.items()
    }
    found = race(contenders, scale.s3_rounds, rivals.leave_out_of(title))
    if found is None:
        return
    meaning = (
        f"From the program's start to its end, over {LATENCY} and {RATE / 1e6:.0f} MB/s a "
        f"connection; against the best of {', '.join(clients)}."
    )
    yield ratio(key, title, meaning, found.ours, found.theirs, found.best)
    yield from published_transfer(site, way, kind, rivals, found)


def published_transfer(
    site: Site, way: str, kind: str, rivals: Rivals, found: Race
) -> Iterator[Figure]:
    """One round over http: it takes up to a minute and a half."""
    place = rivals.environment(PUBLISHED)
    if place is None or site.scheme != "http":
        return
    title = f"S3 {WAYS[way]}, {site.words(kind)}, {site.scheme}, published"
    try:
        theirs = seconds_of(program(site, way, kind, "published", place))
    except ContenderFailed as failure:
        rivals.leave_out_of(title)(PUBLISHED.title, failure)
        return
    meaning = (
        "The same transfer by the functions that the published runner calls in a job; one round. "
        f"The best of the others takes {median(found.theirs) / theirs:.2f}× of its time."
    )
    key = f"s3.{way}.{kind}.{site.scheme}.published"
    yield ratio(key, title, meaning, [median(found.ours)], [theirs], PUBLISHED.title)


def program(site: Site, way: str, kind: str, who: str, place: Environment) -> Callable[[], float]:
    """One transfer of that contender, timed; what it brought has to be all there is."""

    def run() -> float:
        target = Path(tempfile.mkdtemp(dir=site.folder)) / "out"
        prefix = kind if way == "down" else f"{who}-{target.parent.name}"
        command = argv(site, way, kind, who, place, prefix, target)
        uploaded = 0
        try:
            seconds = seconds_of(lambda: output_of(command, environ_of(site, who, place)))
        finally:
            if way == "up":
                uploaded = removed(site, prefix)
            downloaded = weight(target)
            shutil.rmtree(target.parent)
        brought = downloaded + uploaded
        if brought != site.size(kind):
            raise ContenderFailed(f"it brought {brought} of {site.size(kind)} bytes {way}")
        return seconds

    return run


def environ_of(site: Site, who: str, place: Environment) -> dict[str, str]:
    path = f"{ROOT}:{ROOT / 'src'}" if who == OURS else str(ROOT)
    return {**site.environ(place), "PYTHONPATH": path}


def argv(
    site: Site, way: str, kind: str, who: str, place: Environment, prefix: str, target: Path
) -> list[str]:
    near = str(target if way == "down" else site.folder / kind)
    if who == "s5cmd":
        far = f"s3://{site.bucket}/{prefix}/"
        pair = [f"{far}*", f"{near}/"] if way == "down" else [f"{near}/", far]
        return [place.script("s5cmd"), "--endpoint-url", site.url, "cp", *pair]
    return [place.python, "-m", "bench.s3_programs", who, way, site.bucket, prefix, near]


def weight(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def removed(site: Site, prefix: str) -> int:
    """The bytes that were uploaded, removed again: the memory of a machine has an end."""
    s3 = site.server.s3()
    entries = list(s3.list(site.bucket, f"{prefix}/"))
    for each in entries:
        s3.ask("DELETE", site.bucket, each.key)
    return sum(each.size for each in entries)


def first_byte(site: Site, rivals: Rivals, scale: Scale) -> Iterator[Figure]:
    """One byte: all that comes before the first, the client's own start among it."""
    title = "S3, first byte, https"
    contenders = {
        name: tiny(site, name, place)
        for name, place in {OURS: ours(), **clients_of(rivals)}.items()
    }
    found = race(contenders, scale.s3_rounds, rivals.leave_out_of(title))
    if found is None:
        return
    meaning = (
        "A download of one byte: the program's start, its connection and its "
        "questions before the first byte."
    )
    yield ratio("s3.first_byte", title, meaning, found.ours, found.theirs, found.best)


def tiny(site: Site, who: str, place: Environment) -> Callable[[], float]:
    target = Path(tempfile.mkdtemp(dir=site.folder))
    command = argv(site, "down", "tiny", who, place, "tiny", target)

    def run() -> float:
        shutil.rmtree(target, ignore_errors=True)
        return seconds_of(lambda: output_of(command, environ_of(site, who, place)))

    return run


def memories(site: Site, scale: Scale) -> Iterator[Figure]:
    """The most memory of a transfer of one large object, more than that of one byte."""
    large = site.folder / "huge"
    large.mkdir()
    with (large / "huge").open("wb") as file:
        file.truncate(scale.s3_memory_megabytes << 20)
    meaning = (
        f"The most memory that one object of {scale.s3_memory_megabytes:,} MB takes over https, "
        "more than one byte takes."
    )
    for way in ("up", "down"):
        near = large if way == "up" else site.folder / "huge-down"
        peaks = [
            peak(site, way, "huge", near),
            peak(site, way, "tiny", site.folder / ("tiny" if way == "up" else "tiny-down")),
        ]
        yield growth(
            f"s3.{way}.memory", f"S3 {WAYS[way]}, memory", meaning, peaks[:1], peaks[1:], "one byte"
        )
    shutil.rmtree(large)
    shutil.rmtree(site.folder / "huge-down")


def peak(site: Site, way: str, prefix: str, near: Path) -> int:
    """Bytes, as the program sees them at its end. It goes without the line: only its memory is
    wanted.
    """
    environ = {**environ_of(site, OURS, ours()), "AWS_ENDPOINT_URL": site.server.url}
    command = [ours().python, "-m", "bench.s3_programs", OURS, way, site.bucket, prefix, str(near)]
    return int(output_of(command, environ)) * 1024


def ceiling() -> Figure:
    """What the line itself passes on, eight connections at once, so that nobody takes it for a
    client's limit.
    """
    from support.servers import link_here

    block = bytes(1 << 20)
    source = socket.create_server(("127.0.0.1", 0))

    def flood(peer: socket.socket) -> None:
        with peer:
            for _ in range(64):
                peer.sendall(block)

    def give() -> None:
        while True:
            try:
                peer = source.accept()[0]
            except OSError:
                return
            threading.Thread(target=flood, args=(peer,), daemon=True).start()

    threading.Thread(target=give, daemon=True).start()
    address = f"127.0.0.1:{source.getsockname()[1]}"
    with link_here.Link(address, "-raw", "-latency", LATENCY, "-rate", str(RATE)) as link:

        def take(_: int) -> int:
            taken, buffer = 0, bytearray(1 << 20)
            with socket.create_connection(("127.0.0.1", link.port)) as line:
                while count := line.recv_into(buffer):
                    taken += count
            return taken

        started = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            total = sum(pool.map(take, range(8)))
        rate = total / (time.perf_counter() - started)
    source.close()
    meaning = (
        "Bytes a second that the line passes on eight connections of "
        f"{RATE / 1e6:.0f} MB/s, to idle readers."
    )
    found: Spread = spread([rate], "bytes")
    return Figure("s3.line", "S3, the line's own ceiling, a second", meaning, found, found)
