"""Handing jobs over to a real cluster: once, in one round trip, and into safe folders only."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.cluster.cluster_here import Cluster, until
from support.cluster.slurm_jobs import (
    backend_of,
    folder,
    job,
    known_client,
    slurm_id,
    submit,
    surroundings,
    until_ended,
)
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, SpecError, Unreachable
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    yield from known_client(cluster, tmp_path)


# Handing over


@pytest.mark.usefixtures("patient_ssh")
def test_a_submit_is_one_round_trip_when_the_cluster_is_known_and_at_most_three_when_nothing_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Over a line of 50 ms."""
    before = (cluster.connections(), cluster.round_trips())
    surround = surroundings(
        cluster, tmp_path, XDG_RUNTIME_DIR=str(tmp_path), SLURM_HOSTNAME=cluster.open_far()
    )
    with Client(settings=Settings(surround)) as client:
        submit(client, "true")
        cold = cluster.connections() - before[0] + cluster.round_trips() - before[1]
        submit(client, "true")
        warm = cluster.connections() - before[0] + cluster.round_trips() - before[1] - cold
    with Client(settings=Settings(surround)) as again:
        submit(again, "true")
    later = cluster.connections() - before[0] + cluster.round_trips() - before[1] - cold - warm
    assert cold <= 3
    assert (warm, later) == (1, 1)


def test_what_is_staged_lies_where_the_document_says_and_its_owner_alone_can_read_it(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 30", env_vars={"API_KEY": "s3cret-value"}, specs=None)
    own = folder(cluster, made)
    for name in ("sbatch/job_{}.sbatch", "specs/{}.json", "env/{}.json", "meta/{}.json"):
        assert (own / name.format(made.id)).stat().st_mode & 0o077 == 0
    folders = [own, *(path for path in own.rglob("*") if path.is_dir() and not path.is_symlink())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    holders = [
        path for path in own.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()
    ]
    assert [path.name for path in holders] == ["env.sh"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    details = client.get_job(made.id).backend_details
    assert details["backend_type"] == "slurm"
    assert details["slurm_metadata"] == {
        "slurm_job_id": slurm_id(client, made),
        "job_dir": details["job_dir"],
    }
    shown = cluster.ask("scontrol", "show", "job", slurm_id(client, made)).stdout
    assert "s3cret-value" not in shown
    client.cancel_job(made.id)
    assert not [
        path for path in own.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()
    ]


def test_the_secrets_go_with_the_command_that_needed_them(cluster: Cluster, client: Client) -> None:
    made = submit(client, "test ${#API_KEY} = 12", env_vars={"API_KEY": "s3cret-value"})
    until(lambda: list(folder(cluster, made).glob("attempts/1/exit")))
    assert not list(folder(cluster, made).glob("attempts/1/env.sh"))
    assert until_ended(client, made).exit_code == 0


def test_the_logs_lie_where_the_document_says_for_a_reader_without_the_sdk(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "echo out; echo err >&2")
    until_ended(client, made)
    logs = folder(cluster, made) / "slurm-logs" / f"{made.id}.1-{slurm_id(client, made)}"
    assert ((logs / "main.out").read_text(), (logs / "main.err").read_text()) == ("out\n", "err\n")


def test_the_same_attempt_handed_over_by_many_at_once_is_one_slurm_job(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    with ThreadPoolExecutor(6) as threads:
        refs = list(threads.map(lambda _: backend.submit(planned, {}), range(6)))
    assert len({ref.native_id for ref in refs}) == 1
    assert cluster.jobs() == [refs[0].native_id]


class Kept(Exception):
    """What would have been sent: script, input."""


@pytest.mark.parametrize("end", ["arrives", "breaks off"])
def test_a_submit_that_lasted_too_long_leaves_the_job_to_the_one_that_has_overtaken_it(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    planned = client.plan(
        job("sleep 60", files={"large": random.Random(1).randbytes(1_000_000)}), "slurm"
    ).plan
    backend = backend_of(client)

    def keep(script: str, given: bytes, _seconds: float) -> None:
        raise Kept(script, given)

    with monkeypatch.context() as patch, pytest.raises(Kept) as kept:
        patch.setattr(backend.ssh, "run", keep)
        backend.submit(planned, {})
    script, given = kept.value.args
    slow = cluster.start_login(script)
    assert slow.stdin is not None
    slow.stdin.write(given[: len(given) // 2])
    slow.stdin.flush()
    folder = cluster.path(planned.request.job_dir)
    until(lambda: any((folder / "attempts" / "1").glob("*")))
    os.utime(folder / "attempts" / "1.lock", (0, 0))
    ref = backend.submit(planned, {})
    said, _ = slow.communicate(given[len(given) // 2 :] if end == "arrives" else b"", timeout=300)
    assert said.startswith(b"DOUBT")
    assert cluster.jobs() == [ref.native_id]
    assert (folder / "attempts" / "1" / "slurm_id").read_text().strip() == ref.native_id
    assert backend.find(planned.attempt, planned) == ref


@pytest.mark.parametrize("lost", ["slurm_id", "all"])
def test_a_job_whose_id_was_never_written_down_is_found_by_its_name(
    cluster: Cluster, client: Client, lost: str
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    first = backend.submit(planned, {})
    attempt = cluster.path(planned.request.job_dir) / "attempts" / "1"
    (attempt / "slurm_id").unlink()
    attempt.with_name("1.lock").unlink()
    if lost == "all":
        attempt.rename(attempt.with_name("gone"))
    assert backend.find(planned.attempt) == first
    if lost != "all":
        assert backend.submit(planned, {}) == first
    assert cluster.jobs() == [first.native_id]


def test_nothing_is_found_only_when_the_accounting_and_the_file_system_have_answered_too(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("true"), "slurm").plan
    backend = backend_of(client)
    with cluster.without_accounting(), pytest.raises(Unreachable, match="could not say"):
        backend.find(planned.attempt, planned)
    cluster.login(f"mkdir -p {planned.request.job_dir} && chmod 0 {planned.request.job_dir}")
    with pytest.raises(Unreachable, match="Permission denied"):
        backend.find(planned.attempt, planned)
    cluster.login(f"rmdir {planned.request.job_dir}")
    assert backend.find(planned.attempt, planned) is None


def test_a_job_is_found_below_the_base_directory_that_it_was_handed_over_to_whatever_that_is_now(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over = SlurmBackend.submit

    def lost(self: SlurmBackend, *given: Any) -> None:
        handed_over(self, *given)
        raise Unreachable("the reply was lost")

    monkeypatch.setattr(SlurmBackend, "submit", lost)
    with Client(settings=Settings(surroundings(cluster, tmp_path))) as client:
        made = submit(client, "echo here")
        assert client.store.attempt(made.id).ref is None
    monkeypatch.undo()
    other = f"{cluster.surroundings()['SLURM_BASE_RESULTS_DIR']}/other"
    with Client(
        settings=Settings(surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR=other))
    ) as later:
        assert until_ended(later, made).status is Status.COMPLETE
        assert later.get_job_logs(made.id) == "here\n"
        assert (
            folder(cluster, made) / "attempts" / "1" / "slurm_id"
        ).read_text().strip() == slurm_id(later, made)
    assert not cluster.path(f"{other}/jobs").exists()


@pytest.mark.parametrize(
    ("size", "left"), [(100, 0), (100, 0.5), (200_000, 0), (200_000, 0.5), (200_000, 0.999)]
)
def test_what_arrives_cut_short_starts_nothing(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch, size: int, left: float
) -> None:
    """A small job is all script; of a large one the archive is cut, which comes
    after its script.
    """
    ssh: Any = backend_of(client).ssh
    whole = ssh._call_ssh

    def cut(argv: Sequence[str], seconds: float, given: bytes = b"", *more: Any) -> object:
        script = 0 if size < 1000 else given.find(b"\x1f\x8b")
        return whole(argv, seconds, given[: script + int(left * (len(given) - script))], *more)

    monkeypatch.setattr(ssh, "_call_ssh", cut)
    planned = client.plan(job(f"true {random.Random(1).randbytes(size).hex()}"), "slurm").plan
    with pytest.raises(Unreachable, match="did not arrive whole" if left and size > 1000 else "."):
        backend_of(client).submit(planned, {})
    monkeypatch.undo()
    assert backend_of(client).find(planned.attempt) is None
    assert not cluster.path(planned.request.job_dir).exists()


@pytest.mark.usefixtures("patient_ssh")
def test_a_path_that_is_not_on_the_cluster_submits_nothing_and_is_named(
    cluster: Cluster, client: Client
) -> None:
    before = cluster.round_trips()
    with pytest.raises(
        Refused, match="The input /data is not on the cluster: /lustre/fsw/taouser/no such 'file'"
    ) as told:
        submit(client, "true", inputs={"/data": "lustre:///lustre/fsw/taouser/no such 'file'"})
    assert cluster.round_trips() - before == 1
    assert "Nothing was submitted" in told.value.why
    assert cluster.jobs() == []
    assert client.list_jobs() == []


def test_what_sbatch_refuses_is_shown_in_its_words_with_the_remedy_and_leaves_nothing(
    cluster: Cluster, client: Client
) -> None:
    jobs = cluster.path(cluster.surroundings()["SLURM_BASE_RESULTS_DIR"]) / "jobs"
    before = set(jobs.iterdir()) if jobs.exists() else set()
    with pytest.raises(Refused, match="Requested node configuration is not available") as told:
        submit(client, "true", memory="9000g")
    assert "--memory" in told.value.next
    assert client.list_jobs() == []
    assert set(jobs.iterdir()) == before


def test_a_job_with_more_cpus_than_a_node_has_submits_nothing(
    cluster: Cluster, client: Client
) -> None:
    with pytest.raises(SpecError, match="cpus is 129, which is per node") as refused:
        submit(client, "true", cpus=129)
    assert "The largest node of grizzly has 128 CPUs." in refused.value.why
    assert cluster.jobs() == []


def test_a_base_directory_that_cannot_be_made_is_told(cluster: Cluster, tmp_path: Path) -> None:
    elsewhere = Settings(surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR="/proc/none"))
    with Client(settings=elsewhere) as client, pytest.raises(Refused, match="could not be made"):
        submit(client, "true")


def test_a_job_of_another_store_is_neither_found_nor_replaced(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    backend.submit(planned, {})
    stranger = replace(planned, attempt=replace(planned.attempt, store_id="another"))
    assert backend.find(stranger.attempt) is None
    with pytest.raises(Refused, match="another store"):
        backend.submit(stranger, {})
    assert len(cluster.jobs()) == 1


def test_login_nodes_that_refuse_or_hang_are_passed_over(cluster: Cluster, tmp_path: Path) -> None:
    hosts = f"deadlogin,{cluster.open_hung()},login2"
    here = surroundings(cluster, tmp_path, SLURM_HOSTNAME=hosts, SLURM_SSH_CONNECT_SECONDS="1")
    with Client(settings=Settings(here)) as client:
        made = submit(client, "true")
        assert until_ended(client, made).status is Status.COMPLETE


def test_a_submit_to_a_cluster_whose_only_login_host_refuses_leaves_no_job(
    cluster: Cluster, client: Client
) -> None:
    """Its facts are remembered, so nothing but the submit itself notices."""
    with cluster.login_node_down(), pytest.raises(Unreachable, match="Connection refused"):
        submit(client, "echo never")
    assert client.list_jobs(look=False) == []
    assert not list(client.settings.state_dir.rglob("*.secrets"))
    assert cluster.jobs() == []


@pytest.mark.parametrize(
    ("folder", "owner", "mode", "words"),
    [
        ("", 0, 0o777, "anybody may write to it"),
        ("", 61002, 0o755, "it belongs to another user"),
        ("/jobs", 61002, 0o777, "it belongs to another user"),
        ("/jobs", 61001, 0o777, "anybody may write to it"),
        ("/jobs", 61001, 0o2770, "its group may write to it"),
    ],
)
def test_a_folder_in_which_others_could_plant_what_a_job_runs_is_not_used(
    cluster: Cluster, tmp_path: Path, folder: str, owner: int, mode: int, words: str
) -> None:
    base = f"{cluster.surroundings()['SLURM_BASE_RESULTS_DIR']}/unsafe"
    shutil.rmtree(cluster.path(base), ignore_errors=True)
    cluster.login(f"mkdir -p {base}/jobs && chmod 755 {base} {base}/jobs")
    bad = cluster.path(base + folder)
    os.chown(bad, owner, owner)
    bad.chmod(mode)
    here = surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR=base)
    with Client(settings=Settings(here)) as client, pytest.raises(Refused, match=words) as refused:
        submit(client, "echo never")
    assert f"{base}{folder}" in refused.value.what
    assert refused.value.code == "slurm.unsafe_folder"
    assert cluster.jobs() == []
    assert list(cluster.path(base).joinpath("jobs").iterdir()) == []


def test_what_is_known_of_a_cluster_is_looked_at_again_when_a_job_would_not_fit_in_it(
    cluster: Cluster, client: Client
) -> None:
    kept = next((client.settings.state_dir / "slurm").glob("*.facts.json"))
    kept.write_text(kept.read_text().replace("PartitionName=long", "PartitionName=gone"))
    with pytest.raises(SpecError, match="no partition 'long'"):
        submit(
            client, "true", {"partition": "long"}
        )  # what was seen a moment ago is not looked at again
    record = json.loads(kept.read_text())
    kept.write_text(json.dumps({**record, "time": record["time"] - 60}))
    assert submit(client, "true", {"partition": "long"}).status is Status.PENDING
    assert "PartitionName=long" in kept.read_text()
