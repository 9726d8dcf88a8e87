"""The command `python -m bench`: runs the figure groups, shows the table, and writes the page when
asked, from what was measured now and what full runs before have kept.

A group that fails is told, and the others go on; the exit code is 1 then. A missed goal is shown
and is no failure of the command: on a machine that is busy with other things one may be missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import (
    automl,
    docker,
    entrypoint,
    kubernetes,
    logs,
    many_jobs,
    progress,
    s3,
    start,
    store,
    table,
)
from bench.figure import Figure
from bench.machine import load, this_machine
from bench.measurement import KEPT, Measurement, keep, kept
from bench.page import page
from bench.rivals import Rivals
from bench.scale import FULL, QUICK, Scale

GROUPS: Mapping[str, Callable[[Scale, Rivals], Iterator[Figure]]] = {
    "start": start.figures,
    "entrypoint": entrypoint.figures,
    "logs": logs.figures,
    "progress": progress.figures,
    "store": store.figures,
    "docker": docker.figures,
    "kubernetes": kubernetes.figures,
    "many": many_jobs.figures,
    "s3": s3.figures,
    "automl": automl.figures,
}


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, end)
    full = not (given.quick or given.alone)
    measurements: list[Measurement] = []
    failed: list[str] = []
    for group in given.only or GROUPS:
        try:
            measurement = measured(group, QUICK if given.quick else FULL, given.alone)
        except Exception:  # noqa: BLE001  the other groups are worth having
            traceback.print_exc()
            failed.append(group)
            continue
        measurements.append(measurement)
        if full:
            keep(measurement, KEPT)
    show(measurements, as_json=given.json)
    if given.write:
        write(given.write, measurements, with_kept=full)
    if failed:
        sys.exit(f"bench: these groups failed, see above: {', '.join(failed)}")


def end(signum: int, _frame: object) -> None:
    """Ended from outside: what stands in memory and the servers go, too."""
    sys.exit(128 + signum)


def measured(group: str, scale: Scale, alone: bool) -> Measurement:
    print(f"measuring {group} ...", file=sys.stderr, flush=True)
    machine, rivals = this_machine(), Rivals(alone=alone)
    figures = list(GROUPS[group](scale, rivals))
    return Measurement(group, machine, load(), figures, rivals.missing, rivals.failed)


def show(measurements: Sequence[Measurement], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(table.document(measurements), indent=2))
        return
    for each in measurements:
        print(
            f"{each.group}: {each.machine.moment}, {each.machine}, load {each.machine.load} to "
            f"{each.load_after}\n\n{table.markdown(each.figures)}"
        )


def write(path: Path, measurements: Sequence[Measurement], *, with_kept: bool) -> None:
    """The page of these, and of the last measurement of every other group."""
    known = kept(GROUPS, KEPT) if with_kept else {}
    known |= {each.group: each for each in measurements}
    shown = [known[group] for group in GROUPS if group in known]
    path.write_text(page(shown, list(GROUPS)), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        "python -m bench", description="Measure every figure of docs/performance.md."
    )
    words.add_argument(
        "--only", action="append", choices=GROUPS, help="this group of figures; may be given again"
    )
    words.add_argument("--json", action="store_true", help="print JSON in place of the table")
    words.add_argument(
        "--write", type=Path, metavar="FILE", help="write the page with the table to FILE, too"
    )
    words.add_argument(
        "--quick",
        action="store_true",
        help="few rounds of little: to see that it works, not how fast it is",
    )
    words.add_argument("--alone", action="store_true", help="compare with no other package")
    return words


if __name__ == "__main__":
    main()
