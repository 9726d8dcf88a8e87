"""Commands whose answers are looked at: docker, kubectl, ssh, nvidia-smi. None changes anything."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.model.printable import printable

SECONDS = 60.0  # the time limit of a command
MOST_WORDS = 300  # characters of what a command says, in a finding


@dataclass(frozen=True)
class Answer:
    """The output of a command. `code` is None if it could not be started or did not end."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def words(self) -> str:
        """The last line of the command's output, for a finding."""
        lines = (self.err.strip() or self.out.strip()).splitlines() or [""]
        return printable(lines[-1])[:MOST_WORDS]


def ask(words: Sequence[str], environ: Mapping[str, str], seconds: float = SECONDS) -> Answer:
    """Run a command to its end, without a terminal."""
    try:
        ran = subprocess.run(
            [*words],
            env={**environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"{words[0]} did not answer within {seconds:g} seconds.")
    except FileNotFoundError:
        return Answer(None, "", f"{words[0]} is not installed.")
    except OSError as error:
        return Answer(None, "", f"{words[0]}: {error.strerror}.")
    return Answer(ran.returncode, decode(ran.stdout), decode(ran.stderr))


def decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
