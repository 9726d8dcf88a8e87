"""Files of a cluster, as its login node sees them: one exec for each look."""

from __future__ import annotations

import re
import shlex

from tao_sdk.backends.contract import FileStat
from tao_sdk.model.errors import PathNotFound, Unreachable, UsageError
from tao_sdk.transports.ssh import Answer, Ssh

GONE = re.compile(r"No such file or directory|Not a directory")
FOUND = "%y\\t%s\\t%T@\\t%p\\0"  # kind, size, time, path, as find prints them


class SlurmFiles:
    """Takes plain paths, lustre:// and slurm:// addresses; follows links."""

    def __init__(self, ssh: Ssh) -> None:
        self.ssh = ssh

    def stat(self, path: str) -> FileStat:
        found = self.found(path, "-maxdepth 0")
        return found[0]

    def list(self, path: str) -> list[FileStat]:
        """What lies in a folder, by name; of a file, itself."""
        itself, *within = self.found(path, "-maxdepth 1")
        return sorted(within, key=lambda each: each.path) if itself.is_dir else [itself]

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        least = f" | head -c {limit}" if limit is not None else ""
        name = shlex.quote(place(path))
        return self.asked(
            path, f"[ -r {name} ] || {{ head -c 0 {name}; exit 1; }}\ntail -c +{offset + 1} {name}{least}"
        ).out

    def below(self, folder: str) -> SlurmFiles:  # noqa: ARG002  its links lead where the cluster lets the same user look
        return self

    def found(self, path: str, depth: str) -> list[FileStat]:
        name = place(path)
        answer = self.asked(path, f"find -L {shlex.quote(name)} {depth} -printf '{FOUND}'", partly=True)
        rows = [row.split("\t", 3) for row in answer.out.decode("utf-8", "surrogateescape").split("\0") if row]
        if not rows:
            raise missing(path)
        return [file_stat(row) for row in rows]

    def asked(self, path: str, script: str, partly: bool = False) -> Answer:
        """`partly`: output is an answer although the command failed for a part of it."""
        answer = self.ssh.run(f"export LC_ALL=C\n{script}", seconds=120)
        if answer.rc and not (partly and answer.out):
            if GONE.search(answer.words):
                raise missing(path)
            raise Unreachable(f"{path} cannot be looked at: {answer.words or answer.rc}")
        return answer


def missing(path: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {path} on the cluster.", "", "Check the path.")


def place(path: str) -> str:
    plain = re.sub(r"^(lustre|slurm)://", "", path)
    if not plain.startswith("/") or "\0" in plain:
        raise UsageError(f"{path!r} is no path of the cluster.", "", "Write an absolute path, or lustre:///path.")
    return plain


def file_stat(row: list[str]) -> FileStat:
    kind, size, time, path = row
    is_dir = kind == "d"
    return FileStat(path, is_dir, 0 if is_dir else int(size), float(time))
