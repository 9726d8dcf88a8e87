"""Page: docs/performance.md, made whole from one run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import table
from bench.contenders import PUBLISHED, TORCHX
from bench.figure import Figure
from bench.machine import Machine

COMMAND = "python -m bench --write docs/performance.md"

PAGE = """\
# Performance

Every figure that this project claims, measured in one run against the alternatives. This page is written by

<!-- not run here: it takes minutes, and what it writes would be another page -->
```sh
{command}
```

and `make bench` prints the same table for your machine. A figure is a ratio where it can be: the seconds of one machine
say little about those of another, and what disturbs a run disturbs both sides of a ratio.

Measured on {moment}: {machine}.
The load, which is how many programs wanted a core on average over a minute, was {load} when it began and {load_after} when it
ended; more than the number of cores means that the seconds are longer than they need be.

{table}
{missing}*measured*, *against* and *result* are the middle of all rounds, with the range of their middle half in brackets.
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
- Both entrypoints come from the same call of `build_entrypoint`. Their start is measured to the moment when the user's
  command writes into a named pipe.
- A log is printed by a real job of the local platform and read after its end, through a pipe. Each reading is checked to be
  whole. {published} reads logs from its container engines and clusters only, so it has no row.
- The Docker figures are of a real daemon that the bench starts with images made on this machine; the raw container beside ours
  is made and started over the same API, in the same network. The jobs whose status is asked for are those of a program that
  only answers like a daemon: so many real containers would not fit.
- Progress is read in chunks of 256 KiB by the reader that a look uses, every epoch reported once; the time is the processor's,
  without the writing down of what was read.
- The store and sqlite3 use the same file, the same journal and the same `synchronous`, in one process.
"""


def page(
    figures: Sequence[Figure], machine: Machine, load_after: float, missing: Mapping[str, str]
) -> str:
    return PAGE.format(
        command=COMMAND,
        moment=machine.moment,
        machine=machine,
        load=machine.load,
        load_after=load_after,
        table=table.markdown(figures),
        missing="".join(
            f"Not compared, because it could not be installed: {title}.\n\n" for title in missing
        ),
        meanings="\n".join(meaning(figure) for figure in figures),
        published=PUBLISHED.title,
        torchx=TORCHX.title,
    )


def meaning(figure: Figure) -> str:
    against = f" Against {figure.against_what}." if figure.against_what else ""
    return f"- **{figure.title}**: {figure.meaning}{against}"
