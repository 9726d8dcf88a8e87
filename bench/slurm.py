"""SLURM: connections, round trips and seconds of what a client does on a real cluster, near and
far.

`python -m bench.slurm` starts the tests' cluster, so it needs root; `--write FILE` writes the page.
Connections and round trips are counted in the log of the login node's sshd, so they are what
happened, whoever says what.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contenders import PUBLISHED, Environment, ours
from bench.machine import this_machine
from bench.rivals import Rivals

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
CLIENT = Path(__file__).with_name("slurm_client.py")
MILLISECONDS = {"login1": 0, "farlogin": 50}  # there and back
TITLES = {
    "plain": "one plain command over the shared connection",
    "sbatch": "one plain `sbatch` over it",
    "submit": "submit",
    "status": "status of a job",
    "many": "status of 1,000 jobs",
    "logs": "log of a job",
    "cancel": "cancel a queued job",
    "submits 200": "200 submits in a row",
    "submits 3": "3 submits in a row",
}


TIMES = {
    "plain": 15,
    "sbatch": 15,
    "submit": 15,
}  # what is compared closely is done this often by us: the middle one counts


@dataclass(frozen=True)
class Row:
    """What one call took."""

    who: str
    what: str
    milliseconds: int
    connections: int
    round_trips: int
    seconds: float
    answer: str

    def cells(self) -> list[str]:
        return [
            self.what, f"{self.milliseconds} ms", self.who, str(self.connections),
            str(self.round_trips),
            f"{self.seconds:.{3 if self.seconds < 1 else 2}f} s", self.answer,
        ]  # fmt: skip


class Told:
    """A client in a process of its own."""

    def __init__(
        self, who: str, environment: Environment, environ: Mapping[str, str], image: str
    ) -> None:
        variables = {**environment.variables(), **environ}
        variables["PATH"] = f"{environ['PATH']}:{variables['PATH']}"
        argv = [environment.python, str(CLIENT), who, image]
        self.who = who
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True
        )

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def rows(rivals: Rivals, only_few: bool) -> Iterator[Row]:
    from support.cluster import cluster_here, cluster_images

    cluster = cluster_here.cluster()
    cluster_images.place(cluster)
    cluster.open_far()
    published = rivals.environment(PUBLISHED)
    for host in MILLISECONDS:
        with tempfile.TemporaryDirectory() as home:
            environ = {
                **cluster.surroundings(), "SLURM_HOSTNAME": host, "HOME": home,
                "TAO_SDK_STATE_DIR": f"{home}/state",
                "XDG_RUNTIME_DIR": home,
            }  # fmt: skip
            yield from told(
                cluster, Told("ours", ours(), environ, cluster_images.BUSYBOX), host, few=only_few
            )
            if published:
                theirs = Told("published", published, environ, cluster_images.BUSYBOX)
                yield from told(cluster, theirs, host, few=True)


def told(cluster: Any, client: Told, host: str, few: bool) -> Iterator[Row]:
    """The first submit, which learns what the cluster is, and the connection, do not count. Nodes
    are taken: nothing starts.
    """
    client.ask("submit")
    mine = client.who == "ours"
    fill(cluster)
    for line in ["plain", "sbatch", "submit"] if mine else ["submit"]:
        yield middle(
            [counted(cluster, client, line, host) for _ in range(TIMES[line] if mine else 1)]
        )
    for line in ["status", "logs"]:
        yield counted(cluster, client, line, host)
    if mine:
        cluster.clear()
        client.ask(f"know {many(cluster)}")
        client.ask("many")
        yield counted(cluster, client, "many", host)
        cluster.clear()
    filled = fill(cluster)
    client.ask("submit")
    yield counted(cluster, client, "cancel", host)
    cluster.ask("scancel", "--full", filled)
    yield counted(cluster, client, "submits 3" if few else "submits 200", host)
    client.end()
    cluster.clear()


def middle(found: Sequence[Row]) -> Row:
    return sorted(found, key=lambda row: row.seconds)[len(found) // 2]


def fill(cluster: Any) -> str:
    """The SLURM id of a job that takes the whole partition, once it does."""
    filled: str = cluster.login(
        "sbatch --parsable --exclusive -N2 -p polar -o /dev/null --wrap 'sleep 600'"
    ).stdout.strip()
    while cluster.ask("squeue", "-h", "-o", "%T", "-j", filled).stdout.strip() == "PENDING":
        time.sleep(0.1)
    return filled


def many(cluster: Any) -> Path:
    """A file with the ids of 1,000 jobs that SLURM holds, named as ours are."""
    hold = (
        "sbatch --parsable --hold -o /dev/null --job-name=$(printf 'many-%010d.1' $i) --wrap true"
    )
    made = cluster.login(f"for i in $(seq 1000); do {hold}; done", seconds=300)
    path: Path = cluster.folder / "many"
    path.write_text(made.stdout)
    return path


def counted(cluster: Any, client: Told, line: str, host: str) -> Row:
    before = cluster.connections(), cluster.round_trips()
    said = client.ask(line)
    connections, round_trips = cluster.connections() - before[0], cluster.round_trips() - before[1]
    answer = "" if line in ("plain", "sbatch") or said["answer"] is None else str(said["answer"])
    who = "this SDK" if client.who == "ours" else PUBLISHED.title
    return Row(
        who, TITLES[line], MILLISECONDS[host], connections, round_trips, said["seconds"], answer
    )


def table(found: Sequence[Row]) -> str:
    head = [
        "what",
        "line, there and back",
        "client",
        "connections",
        "round trips",
        "time",
        "answer",
    ]
    lines = [head, ["---"] * len(head), *(row.cells() for row in found)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


PAGE = """\
# Performance on SLURM

Connections, round trips and seconds of what a client does, on a real SLURM cluster on one machine, near and behind a line of
50 ms. Written by

<!-- not run here: it takes minutes, and what it writes would be another page -->
```sh
python -m bench.slurm --write docs/slurm-performance.md
```

Measured on {machine}.

{table}

Connections and round trips are counted in the log of the login node's sshd. The image is a file;
{published} tries to convert it all the same, at each submit. The first submit of each does not count. It
runs in an environment of its own, as it is published. The partition is taken meanwhile, so that nothing starts. Of a plain
command, a plain `sbatch` of an empty script and a submit of this SDK, the middle one of {times} counts.
"""


def main() -> None:
    words = argparse.ArgumentParser("python -m bench.slurm", description=__doc__)
    words.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE, too")
    words.add_argument("--quick", action="store_true", help="3 submits in a row in place of 200")
    words.add_argument("--alone", action="store_true", help="compare with no other package")
    given = words.parse_args()
    found: list[Row] = []
    for row in rows(Rivals(alone=given.alone), given.quick):
        print(" | ".join(row.cells()), file=sys.stderr, flush=True)
        found.append(row)
    print(table(found))
    if given.write:
        page = PAGE.format(
            machine=this_machine(),
            table=table(found),
            published=PUBLISHED.title,
            times=TIMES["submit"],
        )
        given.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
