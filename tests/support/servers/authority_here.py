"""A certificate authority of the tests' own: nobody's trust store knows it, so whoever trusts it
was told to.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The last are where pods of the tests' Kubernetes clusters find this computer.
ADDRESSES = ["127.0.0.1", "172.17.0.1", *(f"10.214.{number}.1" for number in range(16))]
HOSTS = ["localhost", "*.localhost", "*.s3.test.local", "s3.test.local"]
NAMES = ",".join([*(f"DNS:{name}" for name in HOSTS), *(f"IP:{each}" for each in ADDRESSES)])
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


@dataclass(frozen=True)
class Authority:
    """`bundle` is what a client has to trust; `cert` and `key` are a server's."""

    folder: Path

    @property
    def bundle(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def cert(self) -> Path:
        return self.folder / "public.crt"

    @property
    def key(self) -> Path:
        return self.folder / "private.key"


@functools.cache
def authority() -> Authority:
    folder = Path(tempfile.mkdtemp(prefix="tao-tests-ca-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    openssl(
        folder,
        "req",
        "-x509",
        *KEY,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=tests",
    )
    openssl(
        folder, "req", *KEY, "-keyout", "private.key", "-out", "request", "-subj", "/CN=localhost"
    )
    (folder / "names").write_text(f"subjectAltName={NAMES}")
    words = (
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out "
        "public.crt -days 2 -extfile names"
    )
    openssl(folder, *words.split())
    return Authority(folder)


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
