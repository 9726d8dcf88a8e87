"""The command `python -m bench`: runs the figure groups, shows the table, and writes the page when
asked.

A missed goal is shown and is no failure of the command: on a machine that is busy with other things
one may be missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import docker, entrypoint, logs, many_jobs, progress, s3, start, store, table
from bench.figure import Figure
from bench.machine import load, this_machine
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
    "many": many_jobs.figures,
    "s3": s3.figures,
}


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    machine, rivals = this_machine(), Rivals(alone=given.alone)
    figures = measured(given.only or list(GROUPS), QUICK if given.quick else FULL, rivals)
    load_after = load()
    if given.json:
        print(json.dumps(table.document(figures, machine, load_after, rivals.missing), indent=2))
    else:
        print(
            f"{machine.moment}, {machine}, load {machine.load} to "
            f"{load_after}\n\n{table.markdown(figures)}"
        )
    if given.write:
        given.write.write_text(page(figures, machine, load_after, rivals.missing), encoding="utf-8")


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


def measured(groups: Sequence[str], scale: Scale, rivals: Rivals) -> list[Figure]:
    figures: list[Figure] = []
    for name in groups:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        figures += GROUPS[name](scale, rivals)
    return figures


if __name__ == "__main__":
    main()
