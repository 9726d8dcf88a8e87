"""Debian packages and repositories of our own, small, and signed as real ones are."""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.servers import debian

PROGRAMS = {"dpkg-deb": "dpkg", "dpkg-scanpackages": "dpkg-dev", "gpg": "gnupg"}


class Signer:
    """A key of its own. The home's path has to be short: gpg makes a socket in it."""

    def __init__(self, home: Path) -> None:
        debian.need("packages", PROGRAMS)
        self.home = home
        home.mkdir(mode=0o700)
        self.gpg("--quick-generate-key", "tests", "ed25519", "sign", "never")

    def gpg(self, *words: str) -> bytes:
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--passphrase", "", *words]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    def armored_key(self) -> bytes:
        return self.gpg("--armor", "--export")

    def end(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=True)


def make_package(
    folder: Path, name: str, version: str = "1.0", files: Mapping[str, str] | None = None,
    tree: Path | None = None, after: str = "",
) -> Path:  # fmt: skip
    """A .deb in the folder. `files`: path -> text of a program; `tree`: a folder that it holds;
    `after`: what it does when it is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    built = tree or folder / f"{name}.tree"
    for path, text in (files or {}).items():
        write_program(built / path.lstrip("/"), text)
    (built / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: tests\nDescription: for tests\n"
    (built / "DEBIAN/control").write_text(control)
    if after:
        write_program(built / "DEBIAN/postinst", f"#!/bin/sh\nset -e\n{after}\n")
    path = folder / f"{name}_{version}_all.deb"
    words = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(built), str(path)]
    subprocess.run(words, check=True, capture_output=True)
    subprocess.run(["rm", "-r", str(built)], check=True)
    return path


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make_repository(folder: Path, signer: Signer) -> None:
    """The lists of a flat repository of the packages that lie in the folder."""
    scanned = subprocess.run(
        ["dpkg-scanpackages", "--multiversion", "."], cwd=folder, check=True, capture_output=True
    ).stdout
    (folder / "Packages").write_bytes(scanned)
    listed = f" {hashlib.sha256(scanned).hexdigest()} {len(scanned)} Packages\n"
    (folder / "Release").write_text(f"Architectures: all amd64 arm64\nSHA256:\n{listed}")
    signer.gpg(
        "--yes", "--clearsign", "--output", str(folder / "InRelease"), str(folder / "Release")
    )


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Generator[str]:
    """The address of a server of this folder, on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
