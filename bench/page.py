"""Page: docs/performance.md, made whole from the last measurement of each group. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from bench import table
from bench.contenders import PUBLISHED, TORCHX
from bench.figure import Figure
from bench.measurement import Measurement
from bench.race import BEATEN
from bench.rounds import PATIENCE_SECONDS

COMMAND = "python -m bench --write docs/performance.md"

PAGE = """\
# Performance

Every figure that this project claims, measured against the alternatives. This page is written by

<!-- not run here: it takes minutes, and what it writes would be another page -->
```sh
{command}
```

and `make bench` prints the same table for your machine. A figure is a ratio where it can be: the seconds of one machine
say little about those of another, and what disturbs a run disturbs both sides of a ratio.

Each group of figures is measured by itself, and the page has the last measurement of each: `--only GROUP` measures one again
when the machine is quiet. The load is how many programs wanted a core on average over a minute; where it is more than the
number of cores, the seconds are longer than they need be.

{moments}

{table}
{notes}*measured*, *against* and *result* are the middle of all rounds, with the range of their middle half in brackets.
A result in × is *measured* over *against*, taken round by round. *goal* is what the result should be, where there is a goal
(`bench/goals.py`); one that is missed says so.

## What each figure means

{meanings}

## How it is measured

- The contenders of a figure run in turn, in each round beginning with another one. A first round, that fills caches and compiles
  modules, does not count.
- {published} and {torchx} are installed from the package index into environments of their own below
  `.cache/bench`, with the Python that runs the bench. One that cannot be installed is told and its rows are left out.
  {published} has everything installed that its entrypoint installs at its start.
- A rival that fails, or takes more than {patience} seconds, is left out of that figure, and the page says so. One whose first
  two S3 transfers take more than {beaten} times as long as the fastest rival's runs no more of them.
- Both entrypoints come from the same call of `build_entrypoint`. Their start is measured to the moment when the user's
  command writes into a named pipe.
- The job whose entrypoint's bytes are shown has no `resume_training_checkpoint_path`. With an empty one, the program that finds
  and fetches the newest checkpoint is packed too: at most 57,344 bytes (56 KiB). One that copies paths of its container has at
  most 50,176 (49 KiB).
- A log is printed by a real job of the local platform and read after its end, through a pipe. Each reading is checked to be
  whole. {published} reads logs from its container engines and clusters only, so it has no row.
- The Docker figures are of a real daemon that the bench starts with images made on this machine; the raw container beside ours
  is made and started over the same API, in the same network. The jobs whose status is asked for are those of a program that
  only answers like a daemon: so many real containers would not fit.
- The Kubernetes figures are of the tests' cluster, all of whose programs run on the same machine. The bare requests are those of one
  of our submits, repeated by a plain HTTP client; the bare pod is that of our Job with the command alone. The pods of the many jobs run
  on nodes that are simulated. kubectl is part of the program that is all servers, too: its start takes some 40 ms longer than
  that of a kubectl of its own. Requests are counted in the API server's audit log.
- Progress is read in chunks of 256 KiB by the reader that a look uses, every epoch reported once; the time is the processor's,
  without the writing down of what was read.
- A search is measured on functions that are made like trainings (`bench/automl_functions.py`), with the same seeds in every run;
  Optuna's samplers stand beside it as they come. Of a learning curve, four workers of equal speed use up the epochs. On a
  `mild` one early ranks hold; on a `misleading` one high rates lead early and end worse.
- The store and sqlite3 use the same file, the same journal and the same `synchronous`, in one process.
"""


MOMENT_HEADINGS = ("group", "measured at", "load before", "load after", "machine")


def page(measurements: Sequence[Measurement], groups: Sequence[str]) -> str:
    """`groups` are all that there are: the page says which of them were not measured."""
    figures = [figure for measurement in measurements for figure in measurement.figures]
    return PAGE.format(
        command=COMMAND,
        moments=moments(measurements),
        table=table.markdown(figures),
        notes="".join(f"{note}\n\n" for note in notes(measurements, groups)),
        meanings="\n".join(meaning(figure) for figure in figures),
        published=PUBLISHED.title,
        torchx=TORCHX.title,
        patience=PATIENCE_SECONDS,
        beaten=BEATEN,
    )


def moments(measurements: Sequence[Measurement]) -> str:
    lines = [MOMENT_HEADINGS, ("---",) * len(MOMENT_HEADINGS), *map(moment, measurements)]
    return "\n".join(map(table.cells, lines))


def moment(measurement: Measurement) -> Sequence[str]:
    machine = measurement.machine
    loads = (str(machine.load), str(measurement.load_after))
    return (measurement.group, machine.moment, *loads, str(machine))


def notes(measurements: Sequence[Measurement], groups: Sequence[str]) -> Iterator[str]:
    """What is not on the page, and why."""
    measured = {measurement.group for measurement in measurements}
    if absent := [group for group in groups if group not in measured]:
        yield f"Not measured: {', '.join(absent)}."
    for title in sorted({title for each in measurements for title in each.missing}):
        yield f"Not compared, because it could not be installed: {title}."
    for failure in (failure for each in measurements for failure in each.failed):
        yield f"Left out, because it failed: {one_line(failure)}."


def one_line(failure: str) -> str:
    """Its beginning: what a rival complained of may be long."""
    return textwrap.shorten(failure, 200, placeholder=" ...")


def meaning(figure: Figure) -> str:
    against = f" Against {figure.against_what}." if figure.against_what else ""
    return f"- **{figure.title}**: {figure.meaning}{against}"
