"""Images: whether a registry gives one, and whether it fits the machines that are to run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tao_sdk.backends.image_name import HUB, NGC, ImageName
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.units import format_size
from tao_sdk.preflight.datasets import NotSeen
from tao_sdk.preflight.registry import NoImage, RegistryImage, look_at_image

ROOM = 3  # times its size: while it is unpacked, what was fetched lies beside it


@dataclass(frozen=True)
class ImageHost:
    """The machines that are to run an image, as far as they can be seen."""

    archs: tuple[str, ...] = ()  # such as amd64
    free: int | None = None  # bytes where images are kept


def registry_findings(
    name: ImageName, environ: Mapping[str, str], host: ImageHost
) -> tuple[list[Finding], RegistryImage | None]:
    """What is wrong with an image of a registry; if nothing is, what it is. And what the registry
    said, where it gives the image.
    """
    try:
        image = look_at_image(name, environ, next(iter(host.archs), ""))
    except NoImage as refused:
        return [missing_image(name, refused)], None
    except NotSeen as unseen:
        what = f"Whether {name.for_docker} can be pulled could not be seen."
        return [error("image.not_seen", what, unseen.why, unseen.next)], None
    problems = [*fit_findings(name.for_docker, image, host)]
    if any(each.severity is Severity.ERROR for each in problems):
        return problems, image
    what = f"{name.for_docker} can be pulled{described(image)}."
    return [Finding(Severity.OK, "image.there", what), *problems], image


def described(image: RegistryImage) -> str:
    parts = [*image.archs, *([format_size(image.size)] if image.size else [])]
    if image.private:
        parts.append("with a login")
    return f": {', '.join(parts)}" if parts else ""


def missing_image(name: ImageName, refused: NoImage) -> Finding:
    what = f"{name.for_docker} cannot be pulled."
    if not refused.wants_login:
        return error("image.missing", what, refused.words, "Correct the image.")
    if name.registry == NGC:
        advice = "Correct the image, or export NGC_KEY of an account that may have it."
        return error("image.login", what, refused.words, advice)
    at = "" if name.registry == HUB else f" {name.registry}"
    return error(
        "image.login", what, refused.words, "Correct the image, or log in:", f"docker login{at}"
    )


def fit_findings(name: str, image: RegistryImage, host: ImageHost) -> Iterator[Finding]:
    if image.archs and host.archs and not {*image.archs} & {*host.archs}:
        yield error(
            "image.architecture",
            f"{name} is made for {', '.join(image.archs)}; the machine is {', '.join(host.archs)}.",
            "",
            "Name an image for that architecture.",
        )
    yield from disk_findings(name, image.size, host.free)


def disk_findings(name: str, size: int, free: int | None) -> Iterator[Finding]:
    """An error where an image cannot fit, a warning where it may not fit once it is unpacked."""
    if free is None or size * ROOM <= free:
        return
    what = f"{name} is {format_size(size)} to fetch; the disk of images has {format_size(free)}."
    severity = error if size > free else warning
    yield severity(
        "image.disk", what, "Unpacked it is two to three times as large.",
        "Make room, such as with:", "docker system df",
    )  # fmt: skip
