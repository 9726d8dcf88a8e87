"""Real S3 servers for the tests: versitygw, MinIO with TLS and users, moto for breadth; one of each
for the session.

Here: the servers, and a client of the tests' own that fills and looks at buckets. Not here: what
the tests do with them.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support import marks
from support.servers import authority_here, go_programs
from support.servers.ports import free_port
from tao_sdk.net.s3 import S3
from tao_sdk.net.web import Web

ACCESS, SECRET = "test-access-key", "test-secret-key-0123"
START_SECONDS = 90.0


@dataclass
class Server:
    """A server that can be stopped and started again on the same port with the same data."""

    start_at: Callable[[Path, int], list[str]]
    scheme: str = "http"
    ready: str = "/"
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tao-tests-s3-")))
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Server:
        marks.need("network")
        with (self.folder / "log").open("ab") as log:
            environ = {
                **os.environ,
                "MINIO_ROOT_USER": ACCESS,
                "MINIO_ROOT_PASSWORD": SECRET,
                "MINIO_BROWSER": "off",
            }
            environ |= {"MINIO_DOMAIN": "s3.test.local", "HOME": str(self.folder)}
            self.process = subprocess.Popen(
                self.start_at(self.folder, self.port),
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            assert time.monotonic() < end and self.process.poll() is None, (
                self.folder / "log"
            ).read_text()[-2000:]
            time.sleep(0.02)
        return self

    def answers(self) -> bool:
        import ssl

        context = ssl.create_default_context(cafile=str(authority_here.authority().bundle))
        try:
            urllib.request.urlopen(self.url + self.ready, timeout=5, context=context).close()
        except urllib.error.HTTPError as error:
            return error.code < 500
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def env(self, url: str = "", **more: str) -> dict[str, str]:
        """What a job or a client needs to know to come here, by way of `url` where one is given."""
        known = {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        return {
            **known,
            "AWS_CA_BUNDLE": str(authority_here.authority().bundle),
            "TAO_RETRY_SECONDS": "60",
            **more,
        }

    def s3(self, url: str = "", **more: str) -> S3:
        return S3(Web(self.env(url, **more)))

    def bucket(self, name: str = "") -> str:
        """A new one, or the one of that name, which may be there already."""
        name = name or f"b-{uuid.uuid4().hex[:12]}"
        answer = self.s3().ask("PUT", name, "")
        assert answer.status in (200, 409), answer.text
        return name


def versitygw_command(folder: Path, port: int) -> list[str]:
    for name in ("data", "versions", "iam"):
        (folder / name).mkdir(exist_ok=True)
    return [
        str(go_programs.program("versitygw")), "--port", f"127.0.0.1:{port}", "--access", ACCESS,
        "--secret", SECRET,
        "--quiet", "--health", "/healthz", "--keep-alive", "--iam-dir", str(folder / "iam"),
        "posix", "--versioning-dir", str(folder / "versions"), str(folder / "data"),
    ]  # fmt: skip


def minio_command(folder: Path, port: int, tls: bool = False) -> list[str]:
    secure = (
        ["--certs-dir", str(authority_here.authority().folder)]
        if tls
        else ["--certs-dir", str(folder / "none")]
    )
    address = f"127.0.0.1:{port}"
    return [
        str(go_programs.program("minio")),
        "server",
        "--quiet",
        *secure,
        "--address",
        address,
        str(folder / "data"),
    ]


def minio_tls_command(folder: Path, port: int) -> list[str]:
    return minio_command(folder, port, tls=True)


def moto_command(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


def started(server: Server) -> Server:
    atexit.register(server.end)
    return server.start()


def of_the_session(start: Callable[[], Server]) -> Callable[[], Server]:
    """Started at the first call, for the tests that may use it."""
    once = functools.cache(start)

    def server() -> Server:
        marks.need("network")
        return once()

    return server


@of_the_session
def versitygw() -> Server:
    return started(Server(versitygw_command, ready="/healthz"))


@of_the_session
def minio() -> Server:
    return started(Server(minio_command, ready="/minio/health/cluster"))


@of_the_session
def minio_tls() -> Server:
    return started(Server(minio_tls_command, scheme="https", ready="/minio/health/cluster"))


@of_the_session
def moto() -> Server:
    return started(Server(moto_command))


SERVERS = {"versitygw": versitygw, "minio": minio, "minio-tls": minio_tls}
