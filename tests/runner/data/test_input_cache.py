"""mount_path: a cache on a mount, shared by jobs, nodes and ranks at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from support.servers.archives import FILES, tarred
from support.servers.trees import tree
from support.servers.web_server import Reply, etag, ranged
from tao_sdk.net.journal import PART
from tao_sdk.runner.inputs.lock import Lock

BIG = os.urandom(20_000_000)


@pytest.fixture
def mount(tmp_path):
    folder = tmp_path / "mount"
    folder.mkdir()
    return folder


@pytest.fixture
def run(jobs):
    """Run a job of its own, by number, with one input; what its spec says then, and what it did."""

    def one(number, uri, mount, about=None, **env):
        ran = jobs.run(
            "cat {config_path}",
            specs={"x": uri},
            inputs={"x": about or {}},
            config_format="json",
            mount_path=str(mount),
            env={"TAO_JOB_ID": f"job-{number}", **env},
        )
        return ran

    return one


def place(ran):
    assert ran.code == 0, ran.raw
    return Path(json.loads(ran.out)["x"])


def downloads(web):
    """Requests for bytes, without the looks."""
    return [each for each in web.seen if each.headers.get("range") != "bytes=0-0"]


def test_what_one_job_fetched_the_next_finds(run, web, mount):
    web.files["/data/x.bin"] = BIG
    first = place(run(1, f"{web.url}/data/x.bin", mount))
    before = len(downloads(web))
    second = place(run(2, f"{web.url}/data/x.bin", mount))
    assert first == second and first.is_relative_to(mount) and first.name == "x.bin"
    assert first.read_bytes() == BIG and len(downloads(web)) == before


def test_a_server_without_ranges_is_no_reason_to_fetch_twice(run, web, mount):
    web.files["/x"] = BIG
    web.ranges = False
    assert place(run(1, f"{web.url}/x", mount)) == place(run(2, f"{web.url}/x", mount))
    assert len(web.seen) == 3  # two looks, one fetch


def test_a_changed_source_is_fetched_anew_and_what_others_use_is_left_alone(run, web, mount):
    web.files["/x"] = b"old"
    old = place(run(1, f"{web.url}/x", mount))
    web.files["/x"] = b"new"
    new = place(run(2, f"{web.url}/x", mount))
    assert (old.read_bytes(), new.read_bytes()) == (b"old", b"new")


def test_the_same_address_with_other_options_is_another_entry(run, web, mount, tmp_path):
    web.files["/x.tar"] = tarred(tmp_path / "x.tar", FILES).read_bytes()
    unpacked = place(run(1, f"{web.url}/x.tar", mount))
    packed = place(run(2, f"{web.url}/x.tar", mount, {"extract": False}))
    assert tree(unpacked) == FILES and packed.read_bytes() == web.files["/x.tar"]


def test_a_local_archive_is_unpacked_once_for_all(run, mount, tmp_path):
    archive = tarred(tmp_path / "x.tar", FILES)
    first = place(run(1, str(archive), mount))
    inode = first.stat().st_ino
    assert place(run(2, str(archive), mount)).stat().st_ino == inode and tree(first) == FILES


def test_a_container_path_is_a_link_into_the_cache(run, web, mount, tmp_path):
    web.files["/x"] = b"x"
    found = place(run(1, f"{web.url}/x", mount, {"container_path": f"{tmp_path}/in/there"}))
    assert found == tmp_path / "in" / "there" and found.read_bytes() == b"x"
    assert found.resolve().is_relative_to(mount)


def slow(web, content):
    """Answer only after all who will ask have begun."""
    started = threading.Semaphore(0)

    def answer(request):
        if request.headers.get("range") == "bytes=0-0":
            started.release()
        else:
            time.sleep(0.02)
        return ranged(request, content, {"ETag": etag(content)})

    web.odd["/x"] = answer
    return started


@pytest.mark.parametrize("shared", ["cache", "results"])
def test_of_many_who_want_it_at_once_one_fetches_and_the_others_wait(jobs, run, web, mount, shared):
    """Jobs share a cache; the ranks of one job share its results."""
    slow(web, BIG)
    uri = f"{web.url}/x"
    with ThreadPoolExecutor(8) as pool:
        if shared == "cache":
            rans = list(pool.map(lambda number: run(number, uri, mount), range(8)))
        else:
            rans = list(
                pool.map(lambda number: run(1, uri, "", None, TAO_RANK=str(number)), range(8))
            )
    found = {place(ran) for ran in rans}
    assert len(found) == 1 and found.pop().read_bytes() == BIG
    assert sum(len(ran.named("transfer")) > 0 for ran in rans) == 1
    assert len({each.headers["range"] for each in downloads(web)}) == len(
        downloads(web)
    )  # no part twice


def test_the_fetcher_of_this_machine_that_was_killed_is_noticed_at_once(
    jobs, run, web, mount, eventually
):
    gate = threading.Event()

    def hold(request):
        if request.headers.get("range") != "bytes=0-0" and not gate.is_set():
            gate.wait(120)

    web.files["/x"] = BIG
    web.odd["/x"] = hold
    dead = jobs.start(
        "true",
        specs={"x": f"{web.url}/x"},
        inputs=["x"],
        mount_path=str(mount),
        env={"TAO_JOB_ID": "dead"},
    )
    eventually(lambda: downloads(web))
    dead.process.kill()
    dead.process.communicate()
    gate.set()
    began = time.monotonic()
    ran = run(2, f"{web.url}/x", mount)
    assert place(ran).read_bytes() == BIG
    assert not ran.named("waiting") or time.monotonic() - began < 20


def test_a_killed_fetchers_complete_parts_are_not_fetched_again(jobs, run, web, mount, eventually):
    gate = threading.Event()
    content = os.urandom(40_000_000)

    def hold(request):
        if request.headers.get("range", "").startswith("bytes=33554432-"):  # the last part
            gate.wait(120)

    web.files["/x"] = content
    web.odd["/x"] = hold
    dead = jobs.start(
        "true",
        specs={"x": f"{web.url}/x"},
        inputs=["x"],
        mount_path=str(mount),
        env={"TAO_JOB_ID": "dead"},
    )
    eventually(
        lambda: [
            path for path in mount.rglob("*.tao-journal") if path.read_text().count("part ") == 4
        ]
    )
    dead.process.kill()
    dead.process.communicate()
    gate.set()
    before = len(downloads(web))
    assert place(run(2, f"{web.url}/x", mount)).read_bytes() == content
    assert len(downloads(web)) == before + 1


def side_of(mount):
    return next(mount.rglob(".x.tao-part"))


def test_a_fetcher_of_another_machine_counts_as_dead_when_it_no_longer_touches_its_lock(
    run, web, mount
):
    web.files["/x"] = b"x"
    made = place(run(1, f"{web.url}/x", mount))
    side, lock = side_of(mount), side_of(mount) / "lock.3"
    made.unlink()
    (side / "made-of").unlink()
    lock.write_text("another-boot pid:[1] 17 42")
    old = time.time() - 3600
    os.utime(lock, (old, old))
    assert place(run(2, f"{web.url}/x", mount)).read_bytes() == b"x"
    assert not list(side.glob("lock.*"))


def test_a_fetcher_of_another_machine_that_lives_is_waited_for(jobs, web, mount, run, eventually):
    web.files["/x"] = b"x"
    made = place(run(1, f"{web.url}/x", mount))
    side, lock = side_of(mount), side_of(mount) / "lock.3"
    mark = (side / "made-of").read_text()
    hidden = made.rename(side / "hidden")
    (side / "made-of").unlink()
    lock.write_text("another-boot pid:[1] 17 42")
    job = jobs.start(
        "true",
        specs={"x": f"{web.url}/x"},
        inputs=["x"],
        mount_path=str(mount),
        env={"TAO_JOB_ID": "job-2"},
    )
    before = len(downloads(web))
    assert job.process.stderr
    seen = b""
    while b'"waiting"' not in seen:
        seen += os.read(job.process.stderr.fileno(), 4096)
    (side / "made-of").write_text(mark)
    hidden.rename(made)
    assert job.ended().code == 0
    assert len(downloads(web)) == before
    assert lock.exists()  # it is not ours to remove


def test_who_fetches_touches_its_lock_so_that_other_machines_see_it_live(
    jobs, web, mount, eventually
):
    gate = threading.Event()
    web.files["/x"] = BIG
    web.odd["/x"] = lambda request: (
        None if request.headers["range"] == "bytes=0-0" else gate.wait(120) and None
    )
    job = jobs.start("true", specs={"x": f"{web.url}/x"}, inputs=["x"], mount_path=str(mount))
    (lock,) = eventually(lambda: [path for path in mount.rglob("lock.*") if path.read_text()])
    os.utime(lock, (0, 0))
    eventually(lambda: time.time() - lock.stat().st_mtime < 3600)
    gate.set()
    assert job.ended().code == 0
    assert not lock.exists()


UNSEEN = """
import os, sys
from tao_sdk.runner.inputs.lock import Lock
os.setgroups([]), os.setgid(65534), os.setuid(65534)
print(os.path.exists("/proc/" + sys.argv[2]), Lock(sys.argv[1]).is_dead(1))
"""


def test_a_fetcher_that_other_users_may_not_see_on_its_machine_lives_as_long_as_it_touches_its_lock(
    request,
):
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", folder], check=False))
    folder.chmod(0o777)
    hidden = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t proc -o hidepid=invisible proc /proc && exec "$@"',
        "sh",
    ]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount, and Linux 5.8")
    lock = Lock(str(folder))
    assert lock.acquire(lambda: False, lambda: None)

    def seen(pid):
        argv = [*hidden, sys.executable, "-c", UNSEEN, str(folder), str(pid)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()

    assert seen(os.getpid()) == ["False", "False"]
    lock.over.set()
    lock.thread.join()
    os.utime(lock.lock_path(1), (0, 0))
    assert seen(os.getpid()) == ["False", "True"]
    lock.release()


def test_nobody_ever_sees_half_an_entry(jobs, run, web, mount, tmp_path):
    """Jobs are killed at random while they fetch and unpack; whatever has its name in the meantime
    is whole.
    """
    web.files["/x.tar.gz"] = tarred(
        tmp_path / "x.tar.gz", {str(n): os.urandom(30_000) for n in range(300)}
    ).read_bytes()
    for number in range(12):
        job = jobs.start(
            "true",
            specs={"x": f"{web.url}/x.tar.gz"},
            inputs=["x"],
            mount_path=str(mount),
            env={"TAO_JOB_ID": f"job-{number}"},
        )
        stop = time.monotonic() + 0.06 + number * 0.03
        while time.monotonic() < stop:
            for path in mount.glob("tao-cache/*/x"):
                assert len(list(path.iterdir())) == 300
        job.process.kill()
        job.process.communicate()
    assert len(tree(place(run(99, f"{web.url}/x.tar.gz", mount)))) == 300


def test_a_cache_without_room_is_told_and_leaves_nothing_under_the_name(run, web, small_disk):
    web.files["/x"] = os.urandom(130_000_000)
    ran = run(1, f"{web.url}/x", small_disk)
    assert (ran.code, ran.failure["code"]) == (125, "disk.full")
    assert str(small_disk) in ran.failure["why"] + ran.failure["what"]
    assert not list(small_disk.glob("tao-cache/*/x"))


def test_a_cache_whose_disk_fills_up_meanwhile_is_told_and_the_next_job_goes_on(
    run, web, small_disk
):
    web.files["/x"] = os.urandom(70_000_000)

    filled = threading.Event()

    def fill(request):
        """Between the first part and all others: what is there by then leaves room for neither of
        the two.
        """
        wanted = request.headers["range"]
        if wanted.startswith("bytes=8388608-") and not filled.is_set():
            subprocess.run(["fallocate", "-l", "60M", small_disk / "ballast"], check=True)
            filled.set()
        elif not wanted.startswith("bytes=0-"):
            filled.wait(120)

    web.odd["/x"] = fill
    ran = run(1, f"{web.url}/x", small_disk)
    assert (ran.code, ran.failure["code"]) == (125, "disk.full"), ran.raw
    del web.odd["/x"]
    (small_disk / "ballast").unlink()
    assert place(run(2, f"{web.url}/x", small_disk)).read_bytes() == web.files["/x"]


AT_ONCE = 8  # parts of one file


def test_the_half_that_a_broken_job_wrote_is_not_asked_of_the_disk_again(run, web, small_disk):
    web.files["/x"] = os.urandom(70_000_000)
    begun = set()

    def break_at_half(request):
        start = int(request.headers.get("range", "bytes=0-").partition("=")[2].partition("-")[0])
        if start % PART == 0 and request.headers.get("range") != "bytes=0-0":
            begun.add(start)
            reply = ranged(request, web.files["/x"], {"ETag": etag(web.files["/x"])})
            return replace(reply, cut=PART // 2)
        until = time.monotonic() + 120
        while len(begun) < AT_ONCE and start and time.monotonic() < until:
            time.sleep(0.02)
        return Reply(403) if start else None

    web.odd["/x"] = break_at_half
    assert run(1, f"{web.url}/x", small_disk).code == 125
    del web.odd["/x"]
    assert place(run(2, f"{web.url}/x", small_disk)).read_bytes() == web.files["/x"]


def test_a_cache_that_may_not_be_written_is_told_with_its_path(run, web, mount):
    web.files["/x"] = b"x"
    (mount / "tao-cache").write_text("a file")
    ran = run(1, f"{web.url}/x", mount)
    assert ran.failure["code"] in ("input.unwritable", "input.in_the_way") and str(mount) in str(
        ran.failure
    )


def test_no_secret_of_an_address_is_kept_in_the_cache(run, web, mount):
    web.files["/x"] = b"x"
    web.login = "Basic YW5uOmh1bnRlcjI="
    assert (
        place(
            run(1, f"{web.url.replace('//', '//ann:hunter2@')}/x?sig=hunter3", mount)
        ).read_bytes()
        == b"x"
    )
    kept = [str(path) + path.read_text() for path in mount.rglob("*") if path.is_file()]
    assert kept and "hunter" not in "".join(kept)


def test_addresses_that_differ_in_what_they_ask_for_are_never_taken_for_each_other(
    jobs, web, mount
):
    """Same path, same size, same ETag."""
    web.odd["/download"] = lambda request: ranged(request, request.query.encode(), {"ETag": '"1"'})
    specs = {"a": f"{web.url}/download?id=7", "b": f"{web.url}/download?id=8"}
    ran = jobs.run(
        "cat {config_path}",
        specs=specs,
        inputs=["a", "b"],
        config_format="json",
        mount_path=str(mount),
    )
    found = {name: Path(path).read_text() for name, path in json.loads(ran.out).items()}
    assert found == {"a": "id=7", "b": "id=8"}


def test_a_fresh_signature_is_no_reason_to_fetch_again(run, web, mount):
    web.files["/x"] = b"x"
    first = place(run(1, f"{web.url}/x?X-Amz-Date=1&X-Amz-Signature=a&v=1", mount))
    assert place(run(2, f"{web.url}/x?v=1&X-Amz-Signature=b&X-Amz-Date=2", mount)) == first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_users_share_a_cache_and_cannot_remove_each_others_entries(jobs, web):
    """What one has fetched the other reads; each adds entries of his own."""
    from tao_sdk.script_runner import build_entrypoint

    web.files.update({"/x": b"x", "/y": b"y"})
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c")
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o1777)
        text = {
            name: build_entrypoint(
                command="cat {config_path}",
                specs={"x": f"{web.url}/{name}"},
                inputs=["x"],
                config_format="json",
                mount_path=f"{open_folder}/mount",
            )["command"]
            for name in ("x", "y")
        }
        Path(open_folder, "mount").mkdir(mode=0o777)
        jobs.env["TAO_RESULTS_ROOT"] = f"{open_folder}/mine"
        mine = place(jobs.run_text(text["x"]))
        jobs.env.update(
            TAO_RESULTS_ROOT=f"{open_folder}/theirs", TMPDIR=open_folder, PATH="/usr/bin:/bin"
        )
        assert place(jobs.run_text(text["x"], shell=nobody)) == mine
        assert place(jobs.run_text(text["y"], shell=nobody)).read_bytes() == b"y"
        assert subprocess.run(
            [*nobody[:-2], "rm", "-rf", mine.parent], capture_output=True
        ).returncode
        assert mine.read_bytes() == b"x"
