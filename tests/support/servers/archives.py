"""Archives as tests need them: honest ones, and those that nobody should unpack."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

FILES = {"a.txt": b"a", "sub/b.bin": b"\0\1" * 1000, "sub/deep/ü %.txt": b"", "..data/x": b"dots"}


def tarred(
    path: Path, files: dict[str, bytes], add: Callable[[tarfile.TarFile], None] | None = None
) -> Path:
    """A tar, compressed as the name says; `add` adds what is odd."""
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, content in files.items():
            tar.addfile(file(name, len(content)), io.BytesIO(content))
        if add:
            add(tar)
    return path


def file(name: str, size: int = 0, mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode, 1_600_000_000
    return info


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = file(name)
    info.type, info.linkname = kind, target
    return info


def link(name: str, target: str) -> tarfile.TarInfo:
    return special(name, tarfile.SYMTYPE, target)


def zipped(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, target)
    return path


MAKERS = {".tar": tarred, ".tar.gz": tarred, ".tgz": tarred, ".zip": zipped}
