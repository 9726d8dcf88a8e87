"""A cache that users share: what another user has put there is never taken for what
a source holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.net.failure import Failure
from tao_sdk.runner.inputs.cache import Cache
from tao_sdk.runner.inputs.entry import Entry
from tao_sdk.runner.inputs.lock import Lock
from tao_sdk.script_runner import build_entrypoint

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
MALLORY, ANN = 65533, 65534


def as_user(user: int, *argv: object) -> subprocess.CompletedProcess[bytes]:
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *map(str, argv)]
    return subprocess.run(words, capture_output=True, check=False)


def given(path: Path, user: int) -> None:
    """The folder and all that is in it, as if that user had made it."""
    for each in (path, *path.rglob("*")):
        os.chown(each, user, user, follow_symlinks=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def mount(place):
    folder = place / "mount"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def run(jobs, web, mount, place):
    """Run a job of a user that wants /x; what it did."""
    web.files["/x"] = b"weights"
    (place / "results").mkdir()
    (place / "results").chmod(0o1777)

    def one(user=0, **env):
        text = build_entrypoint(
            command="cat {config_path}",
            specs={"x": f"{web.url}/x"},
            inputs=["x"],
            config_format="json",
            mount_path=str(mount),
        )["command"]
        shell = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "bash", "-c")
        job = f"job-{user}-{len(list((place / 'results').iterdir()))}"
        more = {
            "TAO_RESULTS_ROOT": str(place / "results"),
            "TMPDIR": "/tmp",
            "PATH": "/usr/bin:/bin",
        }
        return jobs.run_text(text, shell=shell, env={**more, "TAO_JOB_ID": job, **env})

    return one


def entry_of(ran) -> Path:
    assert ran.code == 0, ran.raw
    return Path(json.loads(ran.out)["x"])


def test_an_entry_that_another_user_planted_is_not_taken(run, mount):
    planted = entry_of(run())
    planted.write_bytes(b"a program")
    given(planted.parent, MALLORY)
    ran = run()
    assert entry_of(ran).read_bytes() == b"weights" and entry_of(ran) != planted
    assert entry_of(ran).is_relative_to(mount) and planted.read_bytes() == b"a program"
    assert entry_of(run()) == entry_of(ran)  # which is the cache of the next job


def test_what_root_fetched_everybody_reads_and_what_others_fetched_only_they(run):
    of_root = entry_of(run())
    assert entry_of(run(ANN)) == of_root
    given(of_root.parent, ANN)
    assert entry_of(run(ANN)) == of_root
    assert entry_of(run(MALLORY)) != of_root and entry_of(run()) != of_root


def test_what_root_has_not_fetched_yet_others_fetch_to_a_place_of_their_own(run):
    of_root = entry_of(run())
    of_root.unlink()
    found = entry_of(run(ANN))
    assert (
        found.parent == of_root.parent.with_name(f"{of_root.parent.name}-u{ANN}")
        and found.read_bytes() == b"weights"
    )


def test_a_cache_folder_that_is_a_link_to_another_users_is_not_used(run, mount, place):
    theirs = place / "theirs"
    theirs.mkdir()
    theirs.chmod(0o1777)
    given(theirs, MALLORY)
    (mount / "tao-cache").symlink_to(theirs)
    assert entry_of(run()).parent.parent == mount / "tao-cache-u0"


def test_a_cache_folder_that_another_user_made_is_not_used_as_he_could_rename_what_lies_in_it(
    run, mount
):
    (mount / "tao-cache").mkdir()
    (mount / "tao-cache").chmod(0o1777)
    given(mount / "tao-cache", MALLORY)
    found = entry_of(run(ANN))
    assert found.parent.parent == mount / f"tao-cache-u{ANN}" and found.read_bytes() == b"weights"
    assert as_user(MALLORY, "mv", found.parent, mount / "away").returncode


def test_a_link_in_the_place_of_an_entrys_folder_is_not_followed(run, mount, place):
    first = entry_of(run()).parent
    first.rename(place / "theirs")
    (place / "theirs" / "x").write_bytes(b"a program")
    first.symlink_to(place / "theirs")
    given(first, MALLORY)
    assert entry_of(run()).read_bytes() == b"weights"


@pytest.mark.parametrize("planted", ["the folder", "both folders"])
def test_names_that_others_took_first_cost_the_cache_and_never_the_job(run, mount, planted):
    first = entry_of(run())
    given(first.parent, MALLORY)
    names = [first.parent]
    if planted == "both folders":
        second = first.parent.with_name(first.parent.name + "-u0")
        second.mkdir()
        second.chmod(0o777)
        given(second, MALLORY)
        names.append(second)
    ran = run()
    assert entry_of(ran).parent not in names and entry_of(ran).read_bytes() == b"weights"
    assert ran.warnings == ["input.cache_open"] * (planted == "both folders")


def test_a_mount_in_which_everybody_renames_is_no_cache(run, mount):
    mount.chmod(0o777)
    ran = run()
    assert entry_of(ran).read_bytes() == b"weights" and not entry_of(ran).is_relative_to(mount)
    assert ran.warnings == ["input.cache_open"]


def test_a_mount_that_another_user_made_where_everybody_makes_folders_is_no_cache(
    run, mount, place
):
    place.chmod(0o1777)
    given(mount, MALLORY)
    ran = run()
    assert not entry_of(ran).is_relative_to(mount) and ran.warnings == ["input.cache_open"]


def test_what_a_job_with_an_open_umask_caches_others_cannot_write_to(run, jobs, web, mount, place):
    web.files["/x"] = b"weights"
    before = os.umask(0)
    try:
        entry = entry_of(run(ANN))
        own = next((place / "results").glob(f"job-{ANN}-*")) / ".tao"
    finally:
        os.umask(before)
    for path in (entry.parent, *entry.parent.rglob("*"), own, *own.rglob("*")):
        assert path.is_symlink() or not path.stat().st_mode & 0o022, path


@pytest.mark.slow
def test_an_entry_elsewhere_that_another_user_planted_is_not_taken(place):
    def make(part):
        Path(part, "made").write_bytes(b"weights")
        return str(Path(part, "made"))

    entry = Entry(str(place / "x"))
    entry.ensure_version("1", make, lambda: None)
    given(Path(entry.side), MALLORY)
    assert not entry.has_version("1")
    with pytest.raises(Failure) as failure:
        entry.ensure_version("1", make, lambda: None)
    assert failure.value.code == "input.unwritable" and entry.side in failure.value.why
    given(Path(entry.side), 0)
    assert entry.has_version("1")
    given(place / "x", MALLORY)
    assert not entry.has_version("1")


def test_what_lies_in_a_hidden_folder_that_others_can_write_to_is_thrown_away(place):
    """As an earlier release made it under an open umask."""

    def make(part):
        Path(part, "made").write_bytes(b"weights")
        return str(Path(part, "made"))

    entry = Entry(str(place / "x"))
    Path(entry.side, "part").mkdir(parents=True)
    Path(entry.side).chmod(0o777)
    Path(entry.mark).write_text("1")
    Path(entry.side, "part", "planted").write_bytes(b"a program")
    assert not entry.has_version("1")
    entry.ensure_version("1", make, lambda: None)
    assert entry.has_version("1") and Path(entry.path).read_bytes() == b"weights"
    assert not Path(entry.side).stat().st_mode & 0o022


@pytest.mark.parametrize(
    "planted", ["a pipe", "a link", "bytes that are no text", "no number", "a folder"]
)
def test_odd_things_where_a_mark_or_a_lock_would_be_are_neither_waited_for_nor_believed(
    place, planted
):
    def make(part):
        Path(part, "made").write_bytes(b"weights")
        return str(Path(part, "made"))

    entry = Entry(str(place / "x"))
    side = Path(entry.side)
    side.mkdir()
    for name in ("made-of", "lock.7"):
        path = side / name
        if planted == "a pipe":
            os.mkfifo(path)
        elif planted == "a link":
            path.symlink_to("/etc/passwd")
        elif planted == "a folder":
            path.mkdir()
        else:
            path.write_bytes(b"\xff\xfe" if "bytes" in planted else b"a b 9\xc2\xb2 d")
            os.utime(path, (1, 1))
    (side / "lock.\u00b2").touch()
    if planted == "a folder":
        (side / "made-of").rmdir()
    entry.ensure_version("1", make, lambda: None)
    assert entry.has_version("1") and Path(entry.path).read_bytes() == b"weights"


def test_giving_back_a_lock_with_a_large_number_takes_no_time(place):
    (place / "lock.99999999").write_text("")
    os.utime(place / "lock.99999999", (1, 1))
    lock = Lock(str(place))
    assert lock.acquire(lambda: False, lambda: None)
    lock.release()
    assert not list(place.glob("lock.*"))


def test_root_whom_a_mount_takes_for_nobody_uses_what_he_made_there(mount, monkeypatch):
    """As a server does that squashes root: all that he makes is another user's."""
    from tao_sdk.runner import private

    monkeypatch.setattr(private, "owner_there", lambda _: ANN)
    folder = mount / "tao-cache" / "x-1"
    folder.mkdir(parents=True)
    given(mount / "tao-cache", ANN)
    assert Cache(str(mount)).entry_folder("x-1", lambda _: False) == str(folder)
