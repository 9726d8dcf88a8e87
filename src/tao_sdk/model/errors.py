"""Errors a person can act on: what happened, why, and what to do next; a program tests the code.

Here: the classes shared by all parts. Not here: a backend's own errors, which subclass these in its
folder.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence

from tao_sdk.model.reasons import Reason

ENDS = (".", "!", "?", ":", "…")


def join_sentences(*parts: str) -> str:
    """Join the non-empty parts into one line. All but the last end with a full stop or ENDS."""
    texts = [part for part in parts if part]
    ended = [part if part.endswith(ENDS) else f"{part}." for part in texts[:-1]]
    return " ".join([*ended, *texts[-1:]])


def advice_with(command: str, words: str) -> str:
    """Put the command at the end of the words: `Run:` and `tao ls` make `Run: tao ls`."""
    if words.endswith(command):
        return words
    return f"{words} {command}".strip()


class TaoError(Exception):
    """The base of every error this package raises on purpose.

    `what` is one sentence; `why` and `next` may be empty. `code` is stable and names the kind of
    failure. `command` is a shell line that mends it and can be run as it stands; `next` ends with
    it.
    """

    code = "error"
    # the backend's own words, unchanged: its rules read them, never the sentences around them
    backend_words = ""
    # the backend's task, as `pulling IMAGE`: shown before its words, read by no rule
    backend_task = ""
    # the reason of a job that ends with this error
    reason_code = Reason.REFUSED
    field = ""  # of the job, if the error is about one: a reader of files adds its place

    def __init__(self, what: str, why: str = "", next: str = "", command: str = "") -> None:
        self.what = what
        self.why = why
        self.next = advice_with(command, next)
        self.command = command
        super().__init__(self.what, self.why, self.next)

    def __str__(self) -> str:
        return join_sentences(self.what, self.why, self.next)

    def redacted(self, redact: Callable[[str], str]) -> TaoError:
        """Pass the error's texts through `redact`, because a quoted value may hold a secret.
        Returns the same error.
        """
        self.what, self.why, self.next = redact(self.what), redact(self.why), redact(self.next)
        self.command = redact(self.command)
        self.args = (self.what, self.why, self.next)
        self.backend_words = redact(self.backend_words)
        return self

    def to_json(self) -> dict[str, str]:
        """The error object of `--json`: code, message, cause; next is a command or empty, hint says
        in words what to do.
        """
        hint = "" if self.command == self.next else self.next
        return {
            "code": self.code,
            "message": self.what,
            "cause": self.why,
            "next": self.command,
            "hint": hint,
        }

    def add_advice(self, words: str, command: str = "") -> None:
        """Add more advice. The first command stays the one that mends the error."""
        self.next = join_sentences(self.next, advice_with(command, words))
        self.command = self.command or command


class TaoWarning(UserWarning):
    """A warning about a submitted job: the text of one finding."""


class SpecError(TaoError, ValueError):
    """A job that cannot be submitted as it is written. The text names the field, the value, and
    what is allowed.
    """

    code = "spec.invalid"


class UsageError(TaoError, ValueError):
    """A command or a call that cannot be understood."""

    code = "usage"


class SeveralJobs(UsageError):
    """A word that means several jobs. The text shows the first of their `ids`."""

    MOST_SHOWN = 5
    word = ""
    ids: Sequence[str] = ()

    @classmethod
    def of(cls, word: str, ids: Sequence[str], advice: str = "Name one by its id.") -> SeveralJobs:
        """The error for a word and the ids of the jobs that it means."""
        rest = ["..."] if len(ids) > cls.MOST_SHOWN else []
        shown = ", ".join([*ids[: cls.MOST_SHOWN], *rest])
        why = f"They are {shown}."
        error = cls(f"{word!r} can mean several jobs.", why, advice)
        error.word, error.ids = word, ids
        return error


class CredentialError(TaoError):
    """A credential that is needed now is missing; the text names the variable."""

    code = "credential.missing"


class LoginUnusable(CredentialError):
    """The login to a place cannot be used as it is set here, so the place was not asked."""


class JobNotFound(TaoError, KeyError):
    """No job of that id in the store."""

    code = "job.not_found"

    __str__ = TaoError.__str__


class PathNotFound(TaoError, FileNotFoundError):
    """The backend looked and there is nothing at that path."""

    code = "path.not_found"

    __str__ = TaoError.__str__


class NoLog(PathNotFound):
    """The backend has no log of a job to show, now or later; the text says why."""

    code = "log.none"


class Refused(TaoError):
    """The checks before submit, or the backend itself, refused the job; nothing was started."""

    code = "job.refused"


class Unreachable(TaoError):
    """The backend could not be asked. Nothing is known about what it has; retrying is safe."""

    code = "backend.unreachable"
    nothing_sent = False  # True: no connection came about, so nothing can have begun


class ControllerSilent(Refused):
    """The login to a cluster worked, but the service that runs its jobs did not answer."""


class MissingExtra(TaoError, ImportError):
    """A library that this backend needs is not installed; the text is the command
    that installs it.
    """

    code = "extra.missing"

    __str__ = TaoError.__str__


def install_command(extra: str) -> str:
    """The command that installs what one platform needs into the Python that runs this."""
    python = shlex.quote(sys.executable or "python3")
    return f"{python} -m pip install 'nvidia-tao-sdk[{extra}]>=8'"


class WaitTimeout(TaoError, TimeoutError):
    """The timeout of a wait has passed; the job goes on."""

    code = "wait.timeout"

    __str__ = TaoError.__str__


class StoreError(TaoError):
    """The job store could not be opened or trusted."""

    code = "store.unusable"


class KeyInUse(StoreError):
    """Another job was stored with the same idempotency key a moment before."""

    code = "store.key_in_use"


class NoStore(StoreError):
    """There is no job store at the path that the caller named."""

    code = "store.missing"
