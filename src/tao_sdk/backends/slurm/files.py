"""Files of a cluster, as its login node sees them. Each call takes one exec.

No link leads out of a job's results: the login node resolves a name, opens it, and checks the place
of the open file before it reads a byte. Paths reach a script through its environment, never as part
of its text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tao_sdk.backends.below import LeadsOut
from tao_sdk.backends.contract import FileStat
from tao_sdk.backends.shell import export_variables, join_parts
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import PathNotFound, Unreachable, UsageError
from tao_sdk.transports.ssh import Answer, Ssh

GONE = re.compile(r"No such file or directory|Not a directory|Too many levels of symbolic links")
SECONDS = 60  # timeout on the login node
# exit codes of the scripts; the last is from `timeout`
LEADS_OUT, ENDLESS, TOO_LONG = 45, 46, 124

# A row is "kind size time", a path, and for a link to a folder, that folder's path below the root.
# Each of the three ends with a NUL.
ROW = r"%y %s %T@\0%p\0\0"


class SlurmFiles:
    """Files by plain paths, lustre:// and slurm:// addresses of a person. Follows links."""

    def __init__(self, ssh: Ssh) -> None:
        self.ssh = ssh

    def stat(self, path: str) -> FileStat:
        found = self.find_entries(path, "-maxdepth 0")
        return found[0]

    def list(self, path: str) -> list[FileStat]:
        """List a folder, sorted by path. A file is listed as itself."""
        itself, *within = self.find_entries(path, "-maxdepth 1")
        return sorted(within, key=lambda each: each.path) if itself.is_dir else [itself]

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        return read_file(self.ssh, path, "", offset, limit)

    def below(self, folder: str) -> SlurmResults:
        return SlurmResults(self.ssh, folder)

    def find_entries(self, path: str, depth: str) -> list[FileStat]:
        name = plain_path(path)
        command = f"find -L {shlex.quote(name)} {depth} -printf '{ROW}'"
        return file_stats(path, ask_cluster(self.ssh, path, command, partly=True))


class SlurmResults:
    """Files below a folder that a job writes to. Follows no link out of the folder.

    Takes paths that begin with the folder's path.
    """

    def __init__(self, ssh: Ssh, folder: str) -> None:
        self.ssh, self.folder = ssh, folder.rstrip("/")

    def stat(self, path: str) -> FileStat:
        [seen] = file_stats(path, self._run_script(path, "stat_path"))
        return FileStat(path, seen.is_dir, seen.size, seen.mtime)

    def list(self, path: str) -> list[FileStat]:
        """List a folder, sorted by path. A file is listed as itself.

        A link that leads nowhere, or out of the folder, is listed as the link.
        """
        seen = file_stats(path, self._run_script(path, "list_folder"), least=0)
        if [each.path for each in seen if not each.path.startswith("./")]:
            return [FileStat(path, seen[0].is_dir, seen[0].size, seen[0].mtime)]
        return sorted((self._path_below(path, each) for each in seen), key=lambda each: each.path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        self._refuse_outside(path)
        return read_file(self.ssh, path, plain_path(self.folder), offset, limit)

    def below(self, folder: str) -> SlurmResults:
        return SlurmResults(self.ssh, folder)

    def _path_below(self, path: str, seen: FileStat) -> FileStat:
        leads_to = f"{self.folder}{seen.leads_to}".rstrip("/") if seen.leads_to else ""
        return FileStat(
            f"{path.rstrip('/')}/{seen.path[2:]}", seen.is_dir, seen.size, seen.mtime, leads_to
        )

    def _run_script(self, path: str, name: str) -> Answer:
        self._refuse_outside(path)
        words = {"TAO_ROW": ROW, "TAO_LINKS": load_script("list_links")}
        return ask_cluster(
            self.ssh, path, path_script(path, plain_path(self.folder), name, words), partly=True
        )

    def _refuse_outside(self, path: str) -> None:
        if path.rstrip("/") != self.folder and not path.startswith(f"{self.folder}/"):
            raise LeadsOut.of_path(path)


def read_file(ssh: Ssh, path: str, root: str, offset: int, limit: int | None) -> bytes:
    """Read bytes of a plain file.

    Raises PathNotFound for a folder, a pipe or a device, even if it replaces the file meanwhile.
    """
    words = {"TAO_FROM": str(offset + 1), "TAO_LIMIT": "" if limit is None else str(limit)}
    return ask_cluster(ssh, path, path_script(path, root, "read_file", words)).out


def path_script(path: str, root: str, name: str, words: Mapping[str, str]) -> str:
    """A script that works on a path, with a timeout of SECONDS.

    Without the timeout, a pipe that replaces the file would block the script for ever.
    """
    body = join_parts(load_script("resolve_path"), load_script(name))
    given = export_variables({"TAO_PATH": plain_path(path), "TAO_ROOT": root, **words})
    return f"{given}\ntimeout {SECONDS} /bin/sh -c {shlex.quote(body)}"


def ask_cluster(ssh: Ssh, path: str, text: str, partly: bool = False) -> Answer:
    """Run a script about a path, and return its answer.

    `partly`: accept output even if the command failed for a part of it. Raises LeadsOut,
    PathNotFound, Unreachable.
    """
    answer = ssh.run(f"export LC_ALL=C\n{text}", seconds=SECONDS + 20.0)
    if answer.rc == LEADS_OUT:
        raise LeadsOut.by(path)
    if answer.rc == ENDLESS:
        raise PathNotFound(
            f"{path} is no file: it is a folder, a pipe, a socket or a device.",
            "",
            "Name a plain file.",
        )
    if answer.rc == TOO_LONG:
        raise Unreachable(
            f"{path} cannot be looked at: no answer of the file system within {SECONDS} s.",
            "",
            "Try again later.",
        )
    if answer.rc and not (partly and answer.out):
        if GONE.search(answer.words):
            raise no_such_path(path)
        raise Unreachable(
            f"{path} cannot be looked at: {answer.words or answer.rc}", "", "Try again."
        )
    return answer


def no_such_path(path: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {path} on the cluster.", "", "Check the path.")


def plain_path(path: str) -> str:
    plain = re.sub(r"^(lustre|slurm)://", "", path)
    if not plain.startswith("/") or "\0" in plain:
        raise UsageError(
            f"{path!r} is no path of the cluster.", "", "Write an absolute path, or lustre:///path."
        )
    return plain


def file_stats(path: str, answer: Answer, least: int = 1) -> list[FileStat]:
    """The rows of an answer. Raises PathNotFound if there are fewer than `least`."""
    fields = answer.out.decode("utf-8", "surrogateescape").split("\0")
    rows = [file_stat(fields[at : at + 3]) for at in range(0, len(fields) - 3, 3)]
    if len(rows) < least:
        raise no_such_path(path)
    return rows


def file_stat(row: Sequence[str]) -> FileStat:
    seen, path, leads_to = row
    kind, size, time = seen.split(" ")
    is_dir = kind == "d"
    return FileStat(path, is_dir, 0 if is_dir else int(size), float(time), leads_to)
