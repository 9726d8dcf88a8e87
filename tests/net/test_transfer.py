"""Fetching under faults: whatever breaks, no damaged or mixed file is ever seen under its name."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers import link_here, s3_here
from support.servers.endpoint_here import called
from tao_sdk.net import s3_source, transfer
from tao_sdk.net.failure import Failure
from tao_sdk.net.journal import PART
from tao_sdk.net.source import Source
from tao_sdk.net.transfer import fetch

SOURCE = Path(transfer.__file__).parents[2]
MIB = 1 << 20


@pytest.fixture
def minio():
    return s3_here.minio()


@pytest.fixture
def link(minio) -> Iterator[link_here.Link]:
    with link_here.Link(minio.address) as link:
        yield link


class Told:
    def __init__(self):
        self.bytes = self.files = 0

    def __call__(self, size, files):
        self.bytes += size
        self.files += files


def fetched(s3, address, folder, tell=None, **options):
    found = s3_source.look(address, "", s3.web)
    fetch(found.sources, str(folder), tell or Told(), **{"patience": 60.0, **options})
    return found


def seen(folder: Path) -> dict[str, bytes]:
    """The files that a command would see."""
    paths = [
        path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".tao-part")
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def stored(server, sizes: dict[str, int]) -> tuple[str, dict[str, bytes]]:
    """A bucket with objects of random content below data/."""
    s3, bucket = server.s3(), server.bucket()
    contents = {name: os.urandom(size) for name, size in sizes.items()}
    for name, content in contents.items():
        s3.put(bucket, f"data/{name}", content)
    return bucket, contents


def test_a_file_that_a_slow_disk_is_long_in_making_holds_up_no_other(minio, tmp_path, monkeypatch):
    bucket, contents = stored(minio, {"quick": 50_000, "slow": 50_000})
    others_went_on = []
    open_now = os.open

    def slow_open(path, *more, **named):
        if Path(path).name.startswith(".slow."):
            until = time.monotonic() + 120
            while not (tmp_path / "quick").exists() and time.monotonic() < until:
                time.sleep(0.01)
            others_went_on.append((tmp_path / "quick").exists())
        return open_now(path, *more, **named)

    monkeypatch.setattr(os, "open", slow_open)
    fetched(minio.s3(), f"s3://{bucket}/data/", tmp_path)
    assert others_went_on == [True]
    assert seen(tmp_path) == contents


def test_a_runner_that_is_killed_at_any_time_goes_on_and_shows_only_whole_files(minio, tmp_path):
    bucket, contents = stored(
        minio, {"large": 24 * MIB, **{f"small/{number:02}": 50_000 for number in range(30)}}
    )
    folder = tmp_path / "in"
    argv = [
        sys.executable,
        "-ISc",
        Path(__file__).with_name("fetching.py").read_text(),
        str(SOURCE),
    ]
    kills = 0
    pick = random.Random(7)
    while True:
        if kills >= 50:
            subprocess.run([*argv, f"s3://{bucket}/data", str(folder)], env=minio.env(), check=True)
            break
        child = subprocess.Popen([*argv, f"s3://{bucket}/data", str(folder)], env=minio.env())
        time.sleep(pick.uniform(0.05, 0.35))
        child.kill()
        if child.wait() == 0:  # it was quicker: begin anew
            subprocess.run(["rm", "-rf", folder, f"{folder}.tao-journal"], check=True)
            continue
        kills += 1
        assert all(content == contents[name] for name, content in seen(folder).items())
    assert seen(folder) == contents
    assert list(folder.rglob("*.tao-part")) == []


def test_what_is_complete_is_not_fetched_again(minio, link, tmp_path):
    bucket, contents = stored(minio, {"large": 40 * MIB, "small": 10, "empty": 0})
    link.faults(busy=1, match="data/large", methods="GET")
    told, others = Told(), set(threading.enumerate())
    with pytest.raises(Failure):
        fetched(
            minio.s3(link.url, TAO_RETRY_SECONDS="0.5"),
            f"s3://{bucket}/data",
            tmp_path / "in",
            told,
        )
    assert seen(tmp_path / "in").keys() <= {"small", "empty"}
    for each in set(threading.enumerate()) - others:
        each.join()  # a try of theirs may still be on its way
    link.faults(methods="GET", match="data/large")
    fetched(minio.s3(link.url), f"s3://{bucket}/data", tmp_path / "in")
    assert link.counts["GET"] <= 1 + 5 + 1  # the list, the parts, and small if it was stopped
    link.faults()
    told = Told()
    fetched(minio.s3(link.url), f"s3://{bucket}/data", tmp_path / "in", told)
    assert link.counts == {"HEAD": 1, "GET": 1}  # it looks, and fetches nothing
    assert (told.bytes, told.files) == (40 * MIB + 10, 3)
    assert seen(tmp_path / "in") == contents


def test_a_part_that_a_crash_of_the_machine_spoilt_is_fetched_again(minio, link, tmp_path):
    bucket, contents = stored(minio, {"large": 24 * MIB})
    fetched(minio.s3(), f"s3://{bucket}/data", tmp_path / "in")
    journal = tmp_path / "in.tao-journal"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(boot, "another-start") + "part torn")
    with (tmp_path / "in" / "large").open("r+b") as file:
        found = os.fstat(file.fileno())
        file.seek(20 * MIB)
        file.write(bytes(4096))
    os.utime(tmp_path / "in" / "large", ns=(found.st_atime_ns, found.st_mtime_ns))
    fetched(minio.s3(), f"s3://{bucket}/data", tmp_path / "in")
    assert seen(tmp_path / "in") == contents


def test_a_source_that_changed_since_the_last_attempt_is_fetched_anew(minio, tmp_path):
    bucket, _ = stored(minio, {"one": 9 * MIB, "two": 5})
    fetched(minio.s3(), f"s3://{bucket}/data", tmp_path / "in")
    (tmp_path / "in" / ".one.0123456789ab.tao-part").write_bytes(
        b"what a killed one had of an older version"
    )
    new = os.urandom(9 * MIB)
    minio.s3().put(bucket, "data/one", new)
    fetched(minio.s3(), f"s3://{bucket}/data", tmp_path / "in")
    assert seen(tmp_path / "in")["one"] == new
    assert list((tmp_path / "in").rglob("*.tao-part")) == []


@pytest.mark.parametrize(
    "faults",
    [
        {"cut": 2, "cut_at": 100_000},
        {"reset": 2, "cut_at": 100_000},
        {"reset": 3, "cut_at": 0},
        {"busy": 2},
        {"busy_seconds": 2},
        {"busy": 3, "retry_after": "1"},
        {"flip": 4, "cut_at": 1000, "last": 8},  # no file arrives damaged three times
        {"rate": 20e6, "latency_ms": 20},
    ],
    ids=str,
)
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_whatever_the_network_does_the_bytes_are_those_of_the_source(minio, tmp_path, faults, tls):
    bucket, contents = stored(
        minio, {"large": 20 * MIB, **{f"small{number}": 300_000 for number in range(6)}}
    )
    with link_here.Link(minio.address, tls=tls) as link:
        link.faults(methods="GET", match="data/", **faults)
        told = Told()
        fetched(minio.s3(link.url), f"s3://{bucket}/data", tmp_path / "in", told)
    assert seen(tmp_path / "in") == contents
    assert (told.bytes, told.files) == (sum(map(len, contents.values())), len(contents))


def test_the_checksum_of_a_large_file_is_taken_while_its_parts_arrive(tmp_path):
    """Not by reading it again once it is there, while the command waits."""
    content, reached = os.urandom(PART) + os.urandom(PART) + b"the end", []

    class InParts(Source):
        def read(self, start, stop):
            if start:
                reached.append(job.readings[0].hashing.at)
            yield memoryview(content)[start:stop]

        def proof(self):
            return "md5", hashlib.md5(content).hexdigest()

    job = transfer.Fetch([InParts("x", len(content), "1")], str(tmp_path), 1, 1)
    job.run(Told())
    assert reached == [PART, 2 * PART]
    assert (tmp_path / "x").read_bytes() == content


@pytest.mark.slow
def test_parts_that_arrive_in_any_order_have_the_checksum_of_the_whole(tmp_path):
    content = os.urandom(5 * PART + 11)
    late, last = threading.Event(), threading.Event()

    class Late(Source):
        """Its first part comes when all the others are there; it is damaged at first."""

        def read(self, start, stop):
            last.set() if stop == self.size else None
            if not start:
                last.wait(120)
            good = start or late.is_set()
            late.set() if not start else None
            yield memoryview(content if good else bytes(len(content)))[start:stop]

        def proof(self):
            return "sha256", hashlib.sha256(content).hexdigest()

    transfer.fetch([Late("x", len(content), "1")], str(tmp_path), Told())
    assert (tmp_path / "x").read_bytes() == content


def test_what_one_look_told_of_an_object_is_not_asked_again_when_it_is_there(minio, link, tmp_path):
    bucket, contents = stored(minio, {"large": 9 * MIB})
    link.faults()
    fetched(minio.s3(link.url), f"s3://{bucket}/data/large", tmp_path / "in")
    assert seen(tmp_path / "in") == contents
    assert link.counts == {"HEAD": 1, "GET": 2}


def test_a_source_that_always_arrives_damaged_is_told_and_never_seen(minio, link, tmp_path):
    bucket, _ = stored(minio, {"large": 9 * MIB, "small": 2000})
    link.faults(flip=1, cut_at=1000, methods="GET", match="data/")
    with pytest.raises(Failure) as failure:
        fetched(minio.s3(link.url), f"s3://{bucket}/data", tmp_path / "in")
    assert failure.value.code == "fetch.damaged"
    assert seen(tmp_path / "in") == {}


def test_a_source_replaced_in_mid_download_is_read_again_and_not_mixed(minio, link, tmp_path):
    bucket, _ = stored(minio, {"large": 40 * MIB, "other": 100})
    new = os.urandom(32 * MIB)
    with called(lambda: minio.s3().put(bucket, "data/large", new)) as hook:
        link.faults(methods="GET", match="data/large", hook=hook.url, hook_at=3)
        fetched(minio.s3(link.url), f"s3://{bucket}/data", tmp_path / "in", threads=2)
    assert seen(tmp_path / "in")["large"] == new
    assert list((tmp_path / "in").rglob("*.tao-part")) == []


@pytest.mark.network
def test_a_server_that_is_away_for_a_while_is_waited_for(tmp_path):
    server = s3_here.Server(s3_here.minio_command, ready="/minio/health/cluster").start()
    try:
        bucket, contents = stored(
            server, {"large": 24 * MIB, **{f"small{number}": 1000 for number in range(20)}}
        )
        with link_here.Link(server.address) as link:
            link.faults(rate=10e6)
            threading.Timer(0.5, server.stop).start()
            back = threading.Timer(2.5, server.start)
            back.start()
            fetched(server.s3(link.url), f"s3://{bucket}/data", tmp_path / "in", threads=2)
            back.join()
    finally:
        server.end()
    assert seen(tmp_path / "in") == contents


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("a small disk needs root: a tmpfs is mounted")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_inputs_that_do_not_fit_are_told_before_the_first_byte(minio, link, small_disk):
    bucket, _ = stored(minio, {"large": 30 * MIB, "more": 9 * MIB})
    link.faults()
    with pytest.raises(Failure) as failure:
        fetched(minio.s3(link.url), f"s3://{bucket}/data", small_disk / "in")
    assert failure.value.code == "disk.full"
    assert "40.9 MB" in failure.value.what
    assert link.counts == {"HEAD": 1, "GET": 1}


def test_a_disk_that_others_fill_meanwhile_is_told_and_nothing_half_is_seen(
    minio, link, small_disk
):
    bucket, _ = stored(minio, {"large": 16 * MIB})

    def fill():
        with (small_disk / "filler").open("wb") as file:
            try:
                file.write(bytes(64 * MIB))
            except OSError:
                return

    with called(fill) as hook:
        link.faults(methods="GET", match="data/large", hook=hook.url, hook_at=2)
        with pytest.raises(Failure) as failure:
            fetched(minio.s3(link.url), f"s3://{bucket}/data", small_disk / "in", threads=1)
    assert failure.value.code == "disk.full"
    assert seen(small_disk / "in") == {}


@pytest.mark.parametrize("path", ["../evil", "a/../../evil", "..", "a/.."])
def test_a_key_that_leads_out_of_the_folder_is_refused(path, tmp_path):
    with pytest.raises(Failure) as failure:
        fetch([Source(path, 1, "v")], str(tmp_path / "in"), Told())
    assert failure.value.code == "fetch.path"


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a//b", "a/b"), ("./a", "a")])
def test_keys_that_are_one_path_in_a_file_system_are_told(paths, tmp_path):
    with pytest.raises(Failure) as failure:
        fetch([Source(path, 1, "v") for path in paths], str(tmp_path / "in"), Told())
    assert failure.value.code == "fetch.clash"


WITHOUT_MD5 = """
import sys
sys.modules["_md5"] = None  # Python's own, which a FIPS build leaves out
import hashlib
hashlib.sha256 = hashlib.__get_builtin_constructor("sha256")  # which one has, unlike this OpenSSL when set so
sys.path.insert(0, sys.argv[1])
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_put import Piece, has_arrived
from tao_sdk.net.source import Source
from tao_sdk.net.transfer import fetch

class Ten(Source):
    def read(self, start, stop):
        yield memoryview(b"0123456789")[start:stop]

    def proof(self):
        return "etag", sys.argv[3]

try:
    hashlib.new("md5")
except ValueError:
    fetch([Ten("x", 10, "1")], sys.argv[2], print)
    assert has_arrived({"etag": sys.argv[3]}, "", Piece(-1, b"0123456789", 0, 10))
    with open(sys.argv[2] + "/x") as file:
        print(file.read())
"""
FOR_SECURITY = (
    "[algorithms]\ndefault_properties = fips=yes\n[providers]\ndefault = "
    "active\n[active]\nactivate = 1\n"
)
FOR_ANYTHING = "[algorithms]\n[providers]\nbase = active\n[active]\nactivate = 1\n"


@pytest.mark.parametrize(
    "forbidden", [FOR_SECURITY, FOR_ANYTHING], ids=["for security", "for anything"]
)
def test_where_md5_is_forbidden_an_object_that_has_no_other_checksum_is_fetched_and_sent(
    tmp_path, forbidden
):
    (tmp_path / "openssl.cnf").write_text(
        "openssl_conf = start\n[start]\nalg_section = algorithms\nproviders = "
        f"providers\n{forbidden}"
    )
    etag = "781e5e245d69b566979b86e28d23f2c7"  # the MD5 of 0123456789
    argv = [sys.executable, "-ISc", WITHOUT_MD5, str(SOURCE), str(tmp_path / "in"), etag]
    env = {**os.environ, "OPENSSL_CONF": str(tmp_path / "openssl.cnf")}
    ran = subprocess.run(argv, env=env, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout.split()[-1:]) == (0, ["0123456789"]), ran.stderr


def test_a_path_of_very_many_folders_is_refused_and_shown_short():
    with pytest.raises(Failure, match=r"fetch\.path") as told:
        transfer.check_paths([Source("a/" * 3000 + "b", 4, "x")])
    assert len(told.value.what) < 300
    assert "more than" in told.value.why
