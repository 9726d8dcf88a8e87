"""Image names: the documented forms of a reference, and the form that each program needs.

Here: the forms on a cluster (`read`), and the form for a Docker daemon (`refuse_malformed`). Not
here: which registry needs a login, and how an image is fetched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tao_sdk.model.errors import Refused, SpecError

FORMS = "/path/to/image.sqsh, registry#image:tag, docker://registry#image:tag or registry/image:tag"
NGC = "nvcr.io"
HUB = ""  # Docker Hub has no name in a reference
HUB_NAME = "docker.io"  # its name in references that spell it out
HUB_INDEX = "index.docker.io"  # its older name
HUB_IN_CONFIG = f"https://{HUB_INDEX}/v1/"  # under which `docker login` keeps a login for it
HUB_LOGIN = "auth.docker.io"  # its name in enroot's credentials

COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
NAME = re.compile(
    rf"(?P<path>{COMPONENT}(?:/{COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?")

DOCKER_FORM = "Write registry/name:tag, without https:// or docker:// before it."
# A daemon takes IPv6 hosts and digests of every kind. Enroot does not; `read` makes names for it.
DOCKER_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
DOCKER_TAG = r"(?::[A-Za-z0-9_][\w.-]{0,127})?"
DOCKER_DIGEST = r"(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?"
DOCKER_REFERENCE = re.compile(
    rf"(?:{DOCKER_HOST}/)?{COMPONENT}(?:/{COMPONENT})*{DOCKER_TAG}{DOCKER_DIGEST}",
    re.ASCII,
)


@dataclass(frozen=True)
class ImageName:
    """An image of a registry. If `file` is set, it is a file on the cluster instead."""

    registry: str = HUB
    path: str = ""
    tag: str = ""
    digest: str = ""
    file: str = ""

    @property
    def version(self) -> str:
        """The end of the reference: `@digest` if there is one, else `:tag`.

        Enroot takes no tag next to a digest.
        """
        return f"@{self.digest}" if self.digest else f":{self.tag or 'latest'}"

    @property
    def floats(self) -> bool:
        """True if this name may mean another image tomorrow: no digest, and no tag or `latest`."""
        return not self.file and not self.digest and self.tag in ("", "latest")

    @property
    def for_enroot(self) -> str:
        """The name for enroot and Pyxis: a # separates the registry, if any."""
        return self.file or f"{self.registry}#{self.path}{self.version}".removeprefix("#")

    @property
    def reference(self) -> str:
        """The name for a container engine."""
        return self.file or f"{self.registry}/{self.path}{self.version}".removeprefix("/")

    @property
    def on_machines(self) -> frozenset[str]:
        """The names under which a machine may list the image. It may spell out Docker Hub's."""
        return frozenset({self.reference, f"{HUB_NAME}/{self.reference}"})

    @property
    def for_file(self) -> str:
        """A file name that no other image has: + stands for / and = for :.

        No reference holds a + or =.
        """
        return self.reference.replace("/", "+").replace(":", "=")


def read(image: str) -> ImageName:
    """Read an image name. Raises SpecError if it has none of the four documented forms."""
    text = image.strip()
    if text.startswith(("/", "lustre:///")):
        return ImageName(file=read_file(text.removeprefix("lustre://")))
    text = text.removeprefix("docker://")
    registry, hash_sign, rest = text.rpartition("#")
    if not hash_sign:
        registry, rest = split_registry(text)
    parts = NAME.fullmatch(rest)
    if parts is None or (registry and not REGISTRY.fullmatch(registry)):
        raise SpecError(
            f"{image!r} is not the name of an image.", "", f"On SLURM it is one of: {FORMS}."
        )
    registry = HUB if registry in (HUB_NAME, HUB_INDEX) else registry
    return ImageName(registry, parts["path"], parts["tag"] or "", parts["digest"] or "")


def split_registry(image: str) -> tuple[str, str]:
    """Return (registry, rest) of a name. The registry is HUB if the name has none."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return HUB, image


def read_file(path: str) -> str:
    if any(ord(character) < 32 for character in path):
        raise SpecError(
            f"invalid image path: {path!r}", "It has a control character.", "Rename the file."
        )
    return path


# Names for a Docker daemon


def refuse_malformed(image: str) -> None:
    """Raise Refused for an invalid image name. `registry_of` refuses a colon at the end."""
    if DOCKER_REFERENCE.fullmatch(image.removesuffix(":")):
        return
    lower = image.lower()
    meant = f"Did you mean {lower}?" if DOCKER_REFERENCE.fullmatch(lower) else DOCKER_FORM
    why = (
        "It has lower-case letters, digits and .-_ between slashes, "
        "then perhaps :tag or @sha256:..."
    )
    raise Refused(f"{image!r} is no name of an image.", why, meant)


def registry_of(image: str) -> str:
    """The registry that a Docker daemon asks for the image.

    Raises Refused for an invalid image name.
    """
    import docker.auth
    from docker.errors import InvalidRepository

    if image.endswith(":"):  # a daemon would pull all tags of that name
        raise Refused(
            f"The image {image} has no tag after its colon.",
            "",
            "Write it, or leave the colon out.",
        )
    try:
        return docker.auth.resolve_repository_name(image)[0]
    except InvalidRepository as error:
        raise Refused(f"{image} is no name of an image.", f"{error}.", DOCKER_FORM) from error
