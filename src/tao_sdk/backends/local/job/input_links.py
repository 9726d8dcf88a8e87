"""Input links: paths outside a job's results at which the job wants its inputs.

The runner makes a link at each path. Here: a register of the live jobs that use each path, so that
no job uses it for another source, and the removal of the links at the job's end.
`<state>/local/.links/` holds a file for each attempt with such paths. Light on purpose: the
supervisor imports it.
"""
# ruff: noqa: PTH103, PTH104, PTH106, PTH108, PTH110, PTH114, PTH115, PTH117, PTH120, PTH121
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import fcntl
import os

from tao_sdk.backends.local.job.folder import Folder, create_file, discard_file, is_taken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

LARGEST = 1 << 20  # the most bytes to read of a file of claims


class Claim:
    """One path that one attempt uses for an input."""

    def __init__(
        self, attempt: str, target: str, leads_to: str, ours: bool, folders: list[str]
    ) -> None:
        self.attempt = attempt  # <job id>.<number>
        self.target = target
        self.leads_to = leads_to  # a path; the start of a path, ending with a slash; an address
        self.ours = ours  # nothing was at `target` before
        self.folders = folders  # folders above `target` that did not exist before, deepest first

    @property
    def job_id(self) -> str:
        return self.attempt.rpartition(".")[0]

    @property
    def is_link(self) -> bool:
        """True if `target` is a link that the job has made."""
        return self.ours and is_link_to(self.target, self.leads_to)

    def remove_link(self) -> None:
        """Remove the link, and the folders that were made for it if they are empty."""
        if self.is_link:
            os.unlink(self.target)
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except OSError:
                return


class Taken(Exception):
    """Another live job uses a path for another source."""

    def __init__(self, target: str, job: str) -> None:
        super().__init__(target, job)
        self.target, self.job = target, job


def claim_names(home: str, attempt: str, links: Mapping[str, str]) -> None:
    """Record that an attempt uses these paths. `links`: target -> its link's source.

    Raises Taken, OSError.
    """
    if not links:
        return
    with Register(home) as register:
        if register.read_claims(attempt) is not None:
            return
        register.sweep_links()
        others = list(register.all_claims())
        claims = [new_claim(attempt, *link, others) for link in links.items()]
        register.put_claims(attempt, claims)


def new_claim(attempt: str, target: str, leads_to: str, others: list[Claim]) -> Claim:
    """Make a claim next to those of other live attempts. Raises Taken.

    If two attempts use a path for the same source, the last one to end cleans up.
    """
    same = [other for other in others if other.target == target]
    for other in same:
        if other.leads_to != leads_to:
            raise Taken(target, other.job_id)
    if same:
        return Claim(attempt, target, leads_to, same[0].ours, same[0].folders)
    return Claim(
        attempt, target, leads_to, not os.path.lexists(target), list(missing_folders(target))
    )


def release_links(home: str, attempt: str) -> None:
    """Remove the links of an attempt that is over."""
    if not os.path.exists(f"{home}/.links/{attempt}"):
        return
    with Register(home) as register:
        register.release_attempt(attempt)


def other_holders(home: str, links: Mapping[str, str]) -> dict[str, str]:
    """Target -> the live job that uses it for another source."""
    register = Register(home)
    return {
        each.target: each.job_id
        for each in register.all_claims()
        if links.get(each.target, each.leads_to) != each.leads_to and register.is_live(each.attempt)
    }


def in_the_way(home: str, links: Mapping[str, str]) -> list[str]:
    """The targets that are occupied by something other than a job's link or the source itself."""
    ours = {each.target for each in Register(home).all_claims() if each.is_link}
    return [
        target
        for target, leads_to in links.items()
        if target not in ours and is_in_the_way(target, leads_to)
    ]


def find_trouble(folder: Folder) -> str:
    """The problem with the input paths of an attempt that is about to start; "" for none."""
    home, attempt = os.path.split(folder.path)
    register = Register(home)
    claims = register.read_claims(attempt)
    if claims is None:
        return unreadable_claims(register.claims_path(attempt))
    blocked = in_the_way(home, {each.target: each.leads_to for each in claims})
    return f"{blocked[0]}: an input is to lie there, and something else does" if blocked else ""


def unreadable_claims(path: str) -> str:
    """The error text if an attempt's file of claims exists and cannot be read; else ""."""
    if not os.path.lexists(path):
        return ""
    return f"{path}: the record of its input links cannot be read"


class Register:
    """The claims of all attempts of one state folder. Locked while it is entered."""

    def __init__(self, home: str) -> None:
        self.home, self.folder = home, f"{home}/.links"
        self.lock = -1

    def __enter__(self) -> Register:
        os.makedirs(self.folder, 0o700, exist_ok=True)
        self.lock = os.open(
            f"{self.folder}/.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.lock)

    def claims_path(self, attempt: str) -> str:
        return f"{self.folder}/{attempt}"

    def put_claims(self, attempt: str, claims: list[Claim]) -> None:
        import json

        fields = [[c.target, c.leads_to, c.ours, c.folders] for c in claims]
        aside = f"{self.folder}/.{attempt}"
        create_file(aside, json.dumps(fields).encode())
        os.rename(aside, self.claims_path(attempt))

    def read_claims(self, attempt: str) -> list[Claim] | None:
        """The claims of one attempt; None if it has no file, or the file cannot be read."""
        import json

        try:
            with open(self.claims_path(attempt), "rb") as file:
                fields: Any = json.loads(file.read(LARGEST))
        except (OSError, ValueError, RecursionError):
            return None
        return claims_of(attempt, fields)

    def claims_of(self, attempt: str) -> list[Claim]:
        """The claims of one attempt. Empty if they cannot be read, so that others can go on."""
        return self.read_claims(attempt) or []

    def all_claims(self) -> Iterator[Claim]:
        for attempt in self.list_attempts():
            yield from self.claims_of(attempt)

    def list_attempts(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_live(self, attempt: str) -> bool:
        """True while an attempt may start or runs. Its supervisor and its command hold a lock."""
        folder = Folder(f"{self.home}/{attempt}")
        if folder.has_file("exit") or not folder.has_file("attempt"):
            return False
        return is_taken(folder.file_path("lock")) or not folder.has_file("supervisor")

    def sweep_links(self) -> None:
        """Remove the links of attempts that ended without doing so."""
        for attempt in self.list_attempts():
            if not self.is_live(attempt):
                self.release_attempt(attempt)

    def release_attempt(self, attempt: str) -> None:
        claims = self.claims_of(attempt)
        discard_file(self.claims_path(attempt))
        shared = {other.target for other in self.all_claims()}
        for each in claims:
            if each.target not in shared:
                each.remove_link()


def claims_of(attempt: str, entries: Any) -> list[Claim] | None:
    """The claims that `put_claims` wrote; None for anything else, such as half a file."""
    if not is_list(entries) or not all(map(is_claim, entries)):
        return None
    return [Claim(attempt, *fields) for fields in entries]


def is_claim(fields: Any) -> bool:
    if not is_list(fields) or [type(field) for field in fields] != [str, str, bool, list]:
        return False
    return all(isinstance(folder, str) for folder in fields[-1])


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_in_the_way(target: str, leads_to: str) -> bool:
    if not os.path.isabs(leads_to):  # an address that is fetched here: the runner checks the rest
        return os.path.islink(target)
    return os.path.lexists(target) and not is_same_file(target, leads_to)


def is_same_file(target: str, path: str) -> bool:
    try:
        return os.path.samefile(target, path)
    except OSError:
        return False


def is_link_to(target: str, leads_to: str) -> bool:
    try:
        path = os.readlink(target)
    except OSError:
        return False
    return path.startswith(leads_to) if leads_to.endswith("/") else path == leads_to


def missing_folders(target: str) -> Iterator[str]:
    """The folders above a path that are not there, deepest first."""
    above = os.path.dirname(target)
    while not os.path.lexists(above):
        yield above
        above = os.path.dirname(above)
