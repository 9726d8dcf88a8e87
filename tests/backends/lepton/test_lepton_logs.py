"""Logs by time: every line once and in order, however the pages fall."""

from __future__ import annotations

import shlex

import pytest

from support.lepton.rest_server import Fault, RestServer
from support.shellcheck import complaints_of_text
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.lepton import logs
from tao_sdk.backends.lepton.job.start_script import start_script
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec

pytestmark = pytest.mark.slow


def run(client: Client, command: str, **more: object) -> str:
    spec = JobSpec(image="stand-in", command=command, **{"gpu_count": 0, **more})  # pyright: ignore[reportArgumentType]
    return client.submit(spec, "lepton").job.id


def test_lines_of_one_time_pass_once_and_in_order_through_short_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector reads many lines at once, and they have one time."""
    monkeypatch.setattr(logs, "PAGE", 7)
    job = run(client, "seq 1 200; printf '\\n\\nlast'")
    client.wait(job, timeout=300)
    written = "".join(f"{number}\n" for number in range(1, 201)) + "\n\nlast"
    assert b"".join(client.follow_logs(job)).decode() == written
    assert client.get_job_logs(job, tail=2) == "\nlast"
    assert client.get_job_logs(job, tail=30) == "".join(
        line for line in written.splitlines(keepends=True)[-30:]
    )


def test_a_log_is_whole_when_its_job_is_seen_to_have_ended_however_late_lines_come(
    client: Client, server: RestServer
) -> None:
    server.workspace.times.log_lag = 3.0
    job = run(client, "echo begun; sleep 0.5; echo last; exit 4")
    assert client.wait(job, timeout=300).status == "Error"
    assert client.get_job(job, look=False).exit_code == 4
    assert client.get_job_logs(job) == "begun\nlast\n"


def test_a_busy_log_server_costs_time_and_no_line(client: Client, server: RestServer) -> None:
    job = run(client, "seq 1 5")
    client.wait(job, timeout=300)
    ref = client.engine.ref_of(client.get_job(job))
    assert ref is not None
    server.faults.append(Fault("GET", "/logs", 429, 2, {"Retry-After": "1"}))
    chunks = client.engine.backend_of(client.get_job(job)).logs(ref, LogRequest())
    assert b"".join(chunk.data for chunk in chunks) == b"1\n2\n3\n4\n5\n"


MEETS = """
import os, socket
rank, nodes = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(address)
    print("rank 0 hears", server.accept()[0].recv(20).decode())
else:
    while True:
        try:
            line = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    line.sendall(f"rank {rank} of {nodes}".encode())
    print("rank", rank, "has spoken")
"""


def test_two_nodes_find_each_other_and_each_has_its_log(client: Client) -> None:
    job = run(client, f"python3 -c {shlex.quote(MEETS)}", gpu_count=8, num_nodes=2)
    assert client.wait(job, timeout=300).status == "Complete"
    assert client.get_job_logs(job, rank=0) == "rank 0 hears rank 1 of 2\n"
    assert client.get_job_logs(job, rank=1) == "rank 1 has spoken\n"


def test_a_job_without_room_says_so_until_it_has_room(client: Client, server: RestServer) -> None:
    for node in server.workspace.groups[0].nodes:
        node.held = 8
    job = run(client, "true", gpu_count=8)
    until(lambda: "waits in the workspace's queue" in client.get_job(job).message)
    server.workspace.reset()
    assert client.wait(job, timeout=300).status == "Complete"


@pytest.mark.parametrize("limit", [None, 60.0])
def test_shellcheck_has_nothing_to_say_of_the_start_script(limit: float | None) -> None:
    script = start_script(limit, 8, "@tao-end job 1")
    assert complaints_of_text(script, "bash") == []
