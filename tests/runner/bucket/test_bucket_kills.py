"""A runner that is killed while it sends damages nothing in the bucket."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from support.bucket_jobs import child_of, run, start
from support.servers.endpoint_here import called

MANY = (
    "[ -e 1.pth ] || { for i in $(seq 20); do echo $i-$RANDOM > $i.pth; done; head -c 9000000 /dev/urandom > large.pth; }; "
    "while [ ! -e ../stop ]; do date +%N >> status.json; echo said; sleep 0.01; done"
)

KILLS = int(os.environ.get("TAO_SOAK_KILLS") or "16")
POINTS = random.Random(1).sample(range(1, 60), KILLS)  # the request at which a runner is killed


@pytest.mark.parametrize("fresh", [False, True], ids=["on the same machine", "elsewhere"])
def test_a_runner_killed_at_any_moment_of_sending_loses_and_damages_nothing(jobs, line, fresh):
    with called(lambda: kill_as_if_its_machine_were_gone(killed[0])) as hook:
        killed = []
        kill_at_every_point(jobs, line, fresh, hook.url, killed)


def kill_as_if_its_machine_were_gone(job):
    os.killpg(child_of(job.process.pid), signal.SIGSTOP)
    job.process.kill()


def kill_at_every_point(jobs, line, fresh, url, killed):
    for point in POINTS[::2] if fresh else POINTS[1::2]:
        env = {"TAO_JOB_ID": f"job-{point}", "TAO_SYNC_SECONDS": "0.1"}
        folder, below = jobs.root / f"job-{point}", f"results/job-{point}"
        killed[:] = [start(jobs, line, MANY, env)]
        killed[0].until(b"said")
        group = child_of(killed[0].process.pid)
        line.link.faults(hook=url, hook_at=point, methods="PUT POST")
        assert killed[0].ended().code == -signal.SIGKILL
        os.killpg(group, signal.SIGKILL)
        before = line.listed(below)
        made = {path.name: path.read_bytes() for path in (folder / "results_dir").glob("*.pth")}
        there = whole_ones(line, below, made)
        assert {
            Path(path).name
            for path, each in before.items()
            if each["sha256"] and path.endswith(".pth")
        } <= there
        line.link.faults()
        if fresh:
            folder.rename(jobs.folder / f"lost-{point}")
        again = "true" if fresh else "touch ../stop; " + MANY
        assert run(jobs, line, again, {**env, "TAO_ATTEMPT": "2"}).code == 0
        assert whole_ones(line, below, made) >= (there if fresh else set(made))
        after = line.listed(below)
        assert {path for path in before if path.endswith(".pth")} <= set(after)
        assert line.manifest(below)["whole"] is True


def whole_ones(store, below, made):
    """The checkpoints in the bucket; each is the one that was made, to the last byte."""
    names = {
        key.rpartition("/")[2]
        for key in store.keys
        if key.startswith(f"{below}/results_dir/") and key.endswith(".pth")
    }
    for name in names:
        assert store.read(f"{below}/results_dir/{name}") == made[name], name
    return names
