"""Image names: the documented forms of a reference, and the same image as each program wants it to
be written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tao_sdk.model.errors import SpecError

FORMS = "/path/to/image.sqsh, registry#image:tag, docker://registry#image:tag or registry/image:tag"
NGC = "nvcr.io"
HUB = ""  # Docker Hub has no name in a reference

COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
NAME = re.compile(
    rf"(?P<path>{COMPONENT}(?:/{COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?")


@dataclass(frozen=True)
class ImageName:
    """An image of a registry, or, with `file` set, a file on the cluster."""

    registry: str = HUB
    path: str = ""
    tag: str = ""
    digest: str = ""
    file: str = ""

    @property
    def version(self) -> str:
        """What follows the name: the digest alone where there is one, since enroot takes no tag
        beside it; else the tag.
        """
        return f"@{self.digest}" if self.digest else f":{self.tag or 'latest'}"

    @property
    def floats(self) -> bool:
        """Whether the registry is expected to have another image under this name tomorrow."""
        return not self.file and not self.digest and self.tag in ("", "latest")

    @property
    def for_enroot(self) -> str:
        """Also Pyxis' form: the registry, if any, is set off by a #."""
        return self.file or f"{self.registry}#{self.path}{self.version}".removeprefix("#")

    @property
    def for_docker(self) -> str:
        return self.file or f"{self.registry}/{self.path}{self.version}".removeprefix("/")

    @property
    def for_file(self) -> str:
        """A file name that no other image has: no reference holds a + or =, which stand for / and :
        in it.
        """
        return self.for_docker.replace("/", "+").replace(":", "=")


def read(image: str) -> ImageName:
    """Raises SpecError for what is none of the four documented forms."""
    text = image.strip()
    if text.startswith(("/", "lustre:///")):
        return ImageName(file=read_file(text.removeprefix("lustre://")))
    text = text.removeprefix("docker://")
    registry, hash_sign, rest = text.rpartition("#")
    if not hash_sign:
        first, slash, tail = text.partition("/")
        is_registry = slash and ("." in first or ":" in first or first == "localhost")
        registry, rest = (first, tail) if is_registry else (HUB, text)
    parts = NAME.fullmatch(rest)
    if parts is None or (registry and not REGISTRY.fullmatch(registry)):
        raise SpecError(
            f"{image!r} is not the name of an image.", "", f"On SLURM it is one of: {FORMS}."
        )
    registry = HUB if registry in ("docker.io", "index.docker.io") else registry
    return ImageName(registry, parts["path"], parts["tag"] or "", parts["digest"] or "")


def read_file(path: str) -> str:
    if any(ord(character) < 32 for character in path):
        raise SpecError(
            f"invalid image path: {path!r}", "It has a control character.", "Rename the file."
        )
    return path
