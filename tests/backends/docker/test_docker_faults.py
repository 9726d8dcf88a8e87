"""What becomes of jobs when their daemon restarts, dies, is replaced, or has no room; nothing is
lost or started twice.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

DIES = "--live-restore=false"  # containers end with their daemon
PATIENT = "--shutdown-timeout=240"  # a daemon that gives up leaves mounts that nobody can remove


def opened(surroundings: dict[str, str], there: Daemon, watch: bool = False) -> Client:
    environ = {**surroundings, "DOCKER_HOST": there.host, "DOCKER_NETWORK": "none"}
    return Client(settings=Settings(environ), watch=watch)


def submit(client: Client, command: str, **more: Any) -> Job:
    return client.submit(JobSpec(image=BUSYBOX, command=command, gpu_count=0, **more), "docker").job


def begun(client: Client, job: Job) -> None:
    dockerd_here.until(lambda: "begun" in client.get_job_logs(job.id))
    until(client, job, Status.RUNNING)


def until(client: Client, job: Job, status: Status, words: str = "") -> None:
    def so() -> bool:
        seen = client.get_job(job.id)
        return seen.status is status and words in seen.message

    dockerd_here.until(so, words=lambda: str(client.get_job(job.id)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_with_live_restore_a_job_outlives_its_daemon(
    surroundings: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(
            client, "echo begun; while [ ! -e /end ]; do sleep 0.1; done; echo over; exit 7"
        )
        begun(client, job)
        there.stop(how)
        until(client, job, Status.RUNNING, "not seen now")
        there.start()
        until(client, job, Status.RUNNING, "running")
        there.docker("exec", f"tao-job-{job.id}", "touch", "/end")
        client.wait(job.id, timeout=300)
        assert (client.get_job(job.id).exit_code, client.get_job_logs(job.id)) == (
            7,
            "begun\nover\n",
        )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_without_live_restore_a_job_ends_with_its_daemon_and_is_tried_again(
    surroundings: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    with (
        dockerd_here.apart(tmp_path / "data", DIES, PATIENT) as there,
        opened(surroundings, there, watch=True) as client,
    ):
        lost = submit(client, "echo begun; sleep 300")
        tried = submit(
            client, 'echo "begun $TAO_ATTEMPT"; [ "$TAO_ATTEMPT" = 2 ] || sleep 300', retries=1
        )
        for job in (lost, tried):
            begun(client, job)
        there.stop(how)
        if how is signal.SIGTERM:
            there.leave_no_mounts()
        there.start()
        assert client.wait(lost.id, timeout=300).status is Status.ERROR
        found = client.diagnose(lost.id)
        assert found is not None
        assert (found.rule, found.retryable) == ("docker.stopped_outside", True)
        assert client.get_job_logs(lost.id) == "begun\n"
        assert client.wait(tried.id, timeout=300).status is Status.COMPLETE
        assert client.get_job(tried.id).attempt == 2


def test_who_waits_goes_on_waiting_while_the_daemon_is_gone(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with (
        dockerd_here.apart(tmp_path / "data") as there,
        opened(surroundings, there, watch=True) as client,
    ):
        job = submit(client, "echo begun; while [ ! -e /end ]; do sleep 0.1; done")
        begun(client, job)
        seen: list[Status] = []
        waiting = threading.Thread(
            target=lambda: seen.append(client.wait(job.id, timeout=300).status), daemon=True
        )
        waiting.start()
        there.stop(signal.SIGKILL)
        dockerd_here.until(lambda: "not seen now" in client.get_job(job.id, look=False).message)
        there.start()
        there.docker("exec", f"tao-job-{job.id}", "touch", "/end")
        waiting.join(120)
        assert seen == [Status.COMPLETE]


def test_a_cancel_of_a_daemon_that_is_gone_is_carried_out_when_it_is_there_again(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(client, "echo begun; sleep 600")
        begun(client, job)
        there.stop(signal.SIGKILL)
        with pytest.raises(Unreachable):
            client.cancel_job(job.id)
        there.start()
        assert client.wait(job.id, timeout=300).status is Status.CANCELED


def test_a_job_of_the_daemon_that_was_there_before_is_not_called_removed(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(client, "echo begun; sleep 600")
        begun(client, job)
        there.stop()
        other = Daemon(tmp_path / "other", there.folder, "--bridge=none")
        other.start()
        try:
            until(client, job, Status.RUNNING, "Another Docker daemon")
            time.sleep(2.5)  # two looks more
            until(client, job, Status.RUNNING, "Another Docker daemon")
            with pytest.raises(Unreachable, match="Another Docker daemon"):
                client.cancel_job(job.id)
        finally:
            other.stop()
            other.leave_no_mounts()
        there.start()
        assert client.wait(job.id, timeout=300).status is Status.CANCELED


def test_the_rest_of_an_ended_job_waits_for_its_own_daemon_and_its_log_is_here(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job, lost = submit(client, "echo kept"), submit(client, "echo begun; sleep 300")
        client.wait(job.id, timeout=300)
        begun(client, lost)
        unconfirmed(client, lost)
        there.stop()
        other = Daemon(tmp_path / "other", there.folder, "--bridge=none")
        other.start()
        try:
            assert client.get_job_logs(job.id) == "kept\n"  # by our copy
            for act in (
                lambda: client.gc(older_than=timedelta(0)),
                lambda: client.remove(job.id),
                lambda: client.cancel_job(lost.id),
            ):
                with pytest.raises(Unreachable, match="Another Docker daemon"):
                    act()
        finally:
            other.stop()
            other.leave_no_mounts()
        there.start()
        assert client.get_job_logs(job.id) == "kept\n"
        assert client.gc(older_than=timedelta(0)) == [job.id]
        assert client.cancel_job(lost.id, grace=0) is True
        assert there.docker("ps", "-q").stdout == ""


def unconfirmed(client: Client, job: Job) -> None:
    """As a client leaves it that is killed after the start of the container and before it has
    written that down.
    """
    with closing(sqlite3.connect(client.store.path)) as db, db:
        db.execute("UPDATE attempts SET ref = NULL WHERE job_id = ?", (job.id,))


def test_a_job_whose_daemon_was_replaced_for_good_is_settled_by_who_knows_that(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(client, "echo begun; sleep 300")
        begun(client, job)
        there.docker("rm", "-f", f"tao-job-{job.id}")
        there.stop()
        other = Daemon(tmp_path / "other", there.folder, "--bridge=none")
        other.start()
        settle = f"tao rm --force {job.id}"
        try:
            until(client, job, Status.RUNNING, settle)
            refused = tao(surroundings, there, "cancel", job.id)
            assert (refused.returncode, settle in refused.stderr) == (4, True)
            assert tao(surroundings, there, "rm", job.id).returncode == 2
            assert job.id in [each.id for each in client.list_jobs()]
            forgotten = tao(surroundings, there, "rm", "--force", job.id)
            assert (
                "its platform could not be asked, what it has of the job stays" in forgotten.stdout
            )
            assert (forgotten.returncode, client.list_jobs()) == (0, [])
        finally:
            other.stop()
            other.leave_no_mounts()


def tao(
    surroundings: dict[str, str], there: Daemon, *words: str
) -> subprocess.CompletedProcess[str]:
    environ = {**surroundings, "DOCKER_HOST": there.host}
    argv = [sys.executable, "-m", "tao_sdk.cli.main", *words]
    return subprocess.run(argv, env=environ, capture_output=True, text=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB for a daemon's data."""
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], capture_output=True)  # the daemon may have


def fill(disk: Path) -> Path:
    with (disk / "filler").open("wb", buffering=0) as out:
        try:
            while out.write(b"\0" * 4096):
                pass
        except OSError:
            return disk / "filler"
    raise AssertionError("a disk without an end")


def test_a_daemon_without_room_refuses_in_words_and_works_once_it_has_some(
    surroundings: dict[str, str], small: Path
) -> None:
    with dockerd_here.apart(small) as there, opened(surroundings, there) as client:
        running = submit(client, "echo begun; while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 3")
        begun(client, running)
        filler = fill(there.data)
        with pytest.raises(Refused) as refused:
            submit(client, "true")
        assert (refused.value.code, "docker image prune" in str(refused.value)) == (
            "docker.no_space",
            True,
        )
        assert [job.id for job in client.list_jobs()] == [running.id]
        assert there.docker("ps", "-aq").stdout.count("\n") == 1
        filler.unlink()
        there.docker("exec", f"tao-job-{running.id}", "touch", "/tmp/end")
        assert client.wait(submit(client, "echo works").id, timeout=300).status is Status.COMPLETE
        client.wait(running.id, timeout=300)
        assert client.get_job(running.id).exit_code == 3


def test_a_job_that_fills_the_daemons_disk_is_told_so_although_its_own_words_found_no_room(
    surroundings: dict[str, str], small: Path
) -> None:
    with dockerd_here.apart(small) as there, opened(surroundings, there) as client:
        job = submit(client, "dd if=/dev/zero of=/big bs=4k")
        assert client.wait(job.id, timeout=300).status is Status.ERROR
        found = client.diagnose(job.id)
        assert found is not None
        assert found.rule in ("docker.no_space", "disk_full")


def test_an_end_that_the_daemon_had_no_room_to_note_is_found_when_it_has_some_again(
    surroundings: dict[str, str], small: Path
) -> None:
    with dockerd_here.apart(small) as there:
        with opened(surroundings, there) as client:
            jobs = [
                submit(client, "trap 'exit 3' TERM; echo begun; while :; do sleep 0.1; done")
                for _ in range(3)
            ]
            for job in jobs:
                begun(client, job)
        lost = f"tao-job-{jobs[0].id}"
        filler = fill(there.data)
        os.kill(there.inspect(lost)["State"]["Pid"], signal.SIGTERM)
        dockerd_here.until(lambda: there.inspect(lost)["State"]["Status"] == "exited")
        filler.unlink()
        listed = there.docker("ps", "--format", "{{.Names}} {{.State}}").stdout.split("\n")
        assert f"{lost} running" in listed
        with opened(surroundings, there) as client:
            until(client, jobs[0], Status.ERROR)
            assert client.get_job(jobs[0].id).exit_code == 3
            assert [client.get_job(job.id).status for job in jobs[1:]] == [Status.RUNNING] * 2
            for job in jobs[1:]:
                client.cancel_job(job.id, grace=0)


def test_a_log_that_the_daemon_cannot_read_to_its_end_says_so_and_its_job_can_be_removed(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    """As a full disk or a power cut leaves it: half an entry. The daemon says so, or ends before
    it, as it comes.
    """
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(client, "echo begun; exit 3")
        client.wait(job.id, timeout=300)
        container = there.inspect(f"tao-job-{job.id}")["Id"]
        with (there.data / "containers" / container / "local-logs" / "container.log").open(
            "ab"
        ) as log:
            log.write(b"\0\0\0\x05torn to pieces")
        read: list[str] = []

        def is_told(**part: Any) -> bool:
            read.append("".join(each.decode() for each in client.follow_logs(job.id, **part)))
            return "Error grabbing logs: " in read[-1]

        dockerd_here.until(is_told)
        assert read[-1].count("Error grabbing logs") == 1
        dockerd_here.until(lambda: is_told(tail=5, follow=False))
        assert client.diagnose(job.id) is not None
        assert client.gc(older_than=timedelta(0)) == [job.id]
        assert there.docker("ps", "-aq").stdout == ""


def test_a_network_that_the_daemon_cannot_make_is_refused_in_its_own_words(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    pool = ["--default-address-pool", "base=10.213.77.0/24,size=24"]
    with dockerd_here.apart(tmp_path / "data", *pool) as there:
        there.docker("network", "create", "takes-the-only-addresses")
        settings = Settings({**surroundings, "DOCKER_HOST": there.host})
        with Client(settings=settings) as client, pytest.raises(Refused, match="address pool"):
            submit(client, "true")
        there.docker("network", "rm", "takes-the-only-addresses")


def test_a_container_that_the_daemon_cannot_remove_is_told_with_a_remedy_and_its_job_can_be_forgotten(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        job = submit(client, "touch /kept")
        client.wait(job.id, timeout=300)
        kept = Path(there.inspect(f"tao-job-{job.id}")["GraphDriver"]["Data"]["UpperDir"]) / "kept"
        if subprocess.run(["chattr", "+i", str(kept)], capture_output=True).returncode:
            pytest.skip("the disk of the tests knows no files that cannot be removed")
        try:
            for words in (["gc", "--older-than", "0s"], ["rm", job.id]):
                told = tao(surroundings, there, *words)
                assert (
                    told.returncode,
                    "failed to remove" in told.stderr,
                    "next:" in told.stderr,
                ) == (4, True, True)
            assert tao(surroundings, there, "rm", "--force", job.id).returncode == 0
            assert client.list_jobs() == []
        finally:
            subprocess.run(["chattr", "-i", str(kept)], check=True)


@pytest.mark.parametrize(
    "ahead", [-3600, 3600], ids=["the client's clock is late", "the client's clock is early"]
)
def test_a_failure_is_explained_at_once_although_the_daemon_has_another_time(
    client: Client, here: Daemon, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    job = submit(client, "echo begun; sleep 300")
    begun(client, job)
    here.docker("kill", f"tao-job-{job.id}")
    now = time.time
    explained: list[str] = []
    asking = threading.Thread(target=lambda: explained.append(found(client, job).rule), daemon=True)
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: now() + ahead)
        asking.start()
        asking.join(120)
    assert explained == ["docker.stopped_outside"]


def found(client: Client, job: Job) -> Diagnosis:
    client.wait(job.id, timeout=300)
    why = client.diagnose(job.id)
    assert why is not None
    return why
