"""Places where datasets lie, looked at with nothing but python3 and ssh: this machine, a login
node, a bucket, a hub.
"""

from __future__ import annotations

import io
import os
import shlex
import stat
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tao_sdk.model.credentials import job_credentials
from tao_sdk.net.address import MODULES, find, scheme
from tao_sdk.net.failure import Failure
from tao_sdk.preflight.commands import ask
from tao_sdk.preflight.datasets import NotSeen, Seen

if TYPE_CHECKING:
    from tao_sdk.preflight.datasets import Place

PATIENCE = "3"  # seconds that a server which is away is waited for
CLUSTER = ("lustre", "slurm")  # schemes of the paths of a cluster's file system


class ThisMachine:
    """Paths of this machine."""

    def look(self, address: str) -> Seen | None:
        path = find(address)
        try:
            if not os.path.isdir(path):  # noqa: PTH112  os.stat tells more of a failure
                os.stat(path)  # noqa: PTH116
                return Seen(False)
            with os.scandir(path) as entries:
                return Seen(True, next(entries, None) is None)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise NotSeen(f"{error}.", "See that you may read it.") from None

    @contextmanager
    def open(self, address: str) -> Generator[BinaryIO]:
        """Open a plain file. Raises NotSeen for a pipe or a device, without waiting for it."""
        descriptor = os.open(find(address), os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:  # noqa: PTH123  it is open
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotSeen("It is no plain file.", "Name a plain file.")
            yield stream


class OverSsh:
    """Paths of another machine. `login` are the words of the ssh command with its target."""

    def __init__(self, login: Sequence[str], environ: Mapping[str, str]) -> None:
        self.login, self.environ = login, environ

    def look(self, address: str) -> Seen | None:
        path = shlex.quote(find(address))
        script = (
            f'if [ -d {path} ]; then [ -n "$(ls -A {path} | head -n 1)" ] && echo folder '
            f"|| echo empty; elif [ -f {path} ]; then echo file; elif [ -e {path} ]; "
            "then echo other; else echo nothing; fi"
        )
        answer = ask([*self.login, script], self.environ)
        told = answer.out.strip().rpartition("\n")[2]
        if not answer.ok or told not in ("folder", "empty", "file", "other", "nothing"):
            raise NotSeen(f"{self.login[-1]} did not say: {answer.words}", "Check the login.")
        if told == "nothing":
            return None
        return Seen(told in ("folder", "empty"), told == "empty")

    @contextmanager
    def open(self, address: str) -> Generator[BinaryIO]:
        words = [*self.login, f"cat -- {shlex.quote(find(address))}"]
        process = subprocess.Popen(
            words,
            env={**self.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        stream = cast("BinaryIO", process.stdout)
        whole = False
        try:
            yield stream
            whole = not stream.read(1)
        finally:
            stream.close()  # ends a cat that was not read to its end
            code = process.wait()
        if whole and code:
            raise NotSeen("It could not be read to its end.", "See that you may read it.")


class Buckets:
    """Addresses in a bucket, and on hubs and web servers, with the keys of the environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from tao_sdk.net.web import Web

        self.web = Web(
            {
                **environ,
                **job_credentials(environ.get),
                "TAO_RETRY_SECONDS": PATIENCE,
            }
        )

    def look(self, address: str) -> Seen | None:
        from tao_sdk.net.s3_presence import require_data

        kind = scheme(address)
        try:
            if kind == "s3":
                require_data(address, self.web)
                return Seen(self.is_folder(address))
            import_module(f"tao_sdk.net.{MODULES[kind]}").require_data(address, self.web)
        except Failure as failure:
            if failure.code == "input.nothing":
                return None
            raise NotSeen(f"{failure.what} {failure.why}".strip(), failure.next) from None
        except OSError as error:
            raise NotSeen(f"The connection broke: {error}.", "Try again.") from None
        return Seen(True)

    def is_folder(self, address: str) -> bool:
        from tao_sdk.net.s3 import S3
        from tao_sdk.net.s3_presence import parts

        bucket, key = parts(address)
        return not key or key.endswith("/") or S3(self.web).head(bucket, key) is None

    @contextmanager
    def open(self, address: str) -> Generator[BinaryIO]:
        from tao_sdk.net.s3 import S3
        from tao_sdk.net.s3_presence import parts
        from tao_sdk.net.web import Changed

        bucket, key = parts(address)
        s3 = S3(self.web)
        try:
            entry = s3.head(bucket, key)
            if entry is None:
                raise NotSeen("It is gone.", "Try again.")
            views = s3.get(bucket, key, 0, entry.size, entry.version)
            yield io.BufferedReader(Pieces(views))
        except Failure as failure:
            raise NotSeen(failure.what, failure.next) from None
        except Changed:
            raise NotSeen("It was replaced while it was read.", "Try again.") from None


class Pieces(io.RawIOBase):
    """A stream of pieces that come one after the other."""

    def __init__(self, pieces: Iterator[memoryview]) -> None:
        self.pieces, self.left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.left:
            piece = next(self.pieces, None)
            if piece is None:
                return 0
            self.left = memoryview(bytes(piece))
        count = min(len(buffer), len(self.left))
        buffer[:count], self.left = self.left[:count], self.left[count:]
        return count


class Unseen:
    """A place that cannot be looked at from here."""

    def __init__(self, why: str, next: str) -> None:
        self.why, self.next = why, next

    def look(self, address: str) -> Seen | None:  # noqa: ARG002
        raise NotSeen(self.why, self.next)

    @contextmanager
    def open(self, address: str) -> Generator[BinaryIO]:  # noqa: ARG002
        raise NotSeen(self.why, self.next)
        yield  # pragma: no cover


def place_of(address: str, paths: Place, environ: Mapping[str, str]) -> Place:
    """The Place in which to look at an address. `paths` is the Place of the platform's own
    paths.
    """
    kind = scheme(address)
    if kind in ("", "file", *CLUSTER):
        if not is_absolute(address):
            return Unseen("It is a relative path.", "Write the absolute path, or an address.")
        return paths
    if kind not in MODULES:
        known = ", ".join(f"{name}://" for name in MODULES if name)
        return Unseen(f"{kind}:// is not known.", f"Known are: {known}")
    return Buckets(environ)


def is_absolute(address: str) -> bool:
    return bool(scheme(address)) or address.startswith("/")
