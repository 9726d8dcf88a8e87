"""Start: how long a program takes before it does anything, for `import tao_sdk`, `tao --help` and
the list of a skill bank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.contenders import PUBLISHED, TORCHX, Environment, ours
from bench.figure import Figure, ratio
from bench.rivals import Rivals
from bench.rounds import command_seconds, interleaved
from bench.scale import Scale

BANK = Path(__file__).parents[1] / "src" / "tao_sdk" / "skill_bank"
BARE, IMPORT = ("-c", "pass"), ("-c", "import tao_sdk")


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    yield from imports(scale, rivals)
    yield from helps(scale, rivals)
    yield from lists(scale, rivals)


def imports(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    """Each package over the Python of its own environment."""
    contenders = {"ours": timed(ours(), BARE), "our import": timed(ours(), IMPORT)}
    published = rivals.environment(PUBLISHED)
    if published:
        contenders |= {"theirs": timed(published, BARE), "their import": timed(published, IMPORT)}
    leave_out = rivals.leave_out_of("`import tao_sdk`", needed=("ours", "our import"))
    found = interleaved(contenders, scale.rounds, leave_out)
    meaning = "What a program waits for the package alone."
    yield ratio(
        "start.import",
        "`import tao_sdk`",
        meaning,
        found["our import"],
        found["ours"],
        "`python -c pass`",
    )
    if {"theirs", "their import"} <= set(found):
        title = f"`import tao_sdk` of {PUBLISHED.title}"
        yield ratio(
            "start.import.published",
            title,
            meaning,
            found["their import"],
            found["theirs"],
            "`python -c pass`",
        )


def helps(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    torchx = rivals.environment(TORCHX)
    if torchx is None:
        return
    found = interleaved(
        {
            "tao": lambda: command_seconds([ours().script("tao"), "--help"], ours().variables()),
            "torchx": lambda: command_seconds(
                [torchx.script("torchx"), "--help"], torchx.variables()
            ),
        },
        scale.rounds,
        rivals.leave_out_of("`tao --help`", needed=("tao",)),
    )
    if "torchx" not in found:
        return
    meaning = "The least that any use of the command costs."
    yield ratio(
        "start.help",
        "`tao --help`",
        meaning,
        found["tao"],
        found["torchx"],
        f"`torchx --help` ({TORCHX.title})",
    )


def lists(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    """The bank of the package: 66 skills, each with a file of its own."""
    words = [ours().script("tao"), "skills", "ls", "--skill-bank", str(BANK)]
    found = interleaved(
        {
            "bare": timed(ours(), BARE),
            "list": lambda: command_seconds(words, ours().variables()),
        },
        scale.rounds,
        rivals.leave_out_of("`tao skills ls`", needed=("bare", "list")),
    )
    yield ratio(
        "start.skills",
        "`tao skills ls`",
        "The files of all skills of the package's bank are read.",
        found["list"],
        found["bare"],
        "`python -c pass`",
    )


def timed(environment: Environment, arguments: Sequence[str]) -> Callable[[], float]:
    return lambda: command_seconds([environment.python, *arguments], environment.variables())
