"""Images: check that a registry gives one, and that it fits the machines that will run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tao_sdk.backends.image_name import HUB, NGC, ImageName
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.machines import Machines
from tao_sdk.model.units import format_size
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.registry import NoImage, RegistryImage, look_at_image

ROOM = 3  # times its size: while it is unpacked, what was fetched lies beside it


def registry_findings(
    name: ImageName, environ: Mapping[str, str], host: Machines
) -> tuple[list[Finding], RegistryImage | None]:
    """Findings about an image of a registry, and the registry's answer, or None if it does not give
    the image. If nothing is wrong, one finding describes the image.
    """
    try:
        image = look_at_image(name, environ, next(iter(host.archs), ""))
    except NoImage as refused:
        return [missing_image(name, refused)], None
    except NotSeen as unseen:
        what = f"Whether {name.reference} can be pulled could not be seen."
        return [error("image.not_seen", what, unseen.why, unseen.next)], None
    problems = [*fit_findings(name.reference, image, host)]
    if any(each.severity is Severity.ERROR for each in problems):
        return problems, image
    what = f"{name.reference} can be pulled{described(image)}."
    return [Finding(Severity.OK, "image.there", what), *problems], image


def described(image: RegistryImage) -> str:
    parts = [*image.archs, *([format_size(image.size)] if image.size else [])]
    if image.private:
        parts.append("with a login")
    return f": {', '.join(parts)}" if parts else ""


def missing_image(name: ImageName, refused: NoImage) -> Finding:
    what = f"{name.reference} cannot be pulled."
    if not refused.wants_login:
        return error("image.missing", what, refused.words, "Correct the image.")
    if name.registry == NGC:
        advice = "Correct the image, or export NGC_KEY of an account that may have it."
        return error("image.login", what, refused.words, advice)
    at = "" if name.registry == HUB else f" {name.registry}"
    return error(
        "image.login", what, refused.words, "Correct the image, or log in:", f"docker login{at}"
    )


def fit_findings(name: str, image: RegistryImage, host: Machines) -> Iterator[Finding]:
    if image.archs and host.archs and not {*image.archs} & {*host.archs}:
        yield error(
            "image.architecture",
            f"{name} is made for {', '.join(image.archs)}; the machine is {', '.join(host.archs)}.",
            "",
            "Name an image for that architecture.",
        )
    yield from disk_findings(name, image.size, host.free)


def disk_findings(name: str, size: int, free: int | None) -> Iterator[Finding]:
    """An error if an image cannot fit, a warning if it may not fit once it is unpacked."""
    if free is None or size * ROOM <= free:
        return
    what = f"{name} is {format_size(size)} to fetch; the disk of images has {format_size(free)}."
    severity = error if size > free else warning
    yield severity(
        "image.disk", what, "Unpacked it is two to three times as large.",
        "Make room, such as with:", "docker system df",
    )  # fmt: skip


def free_findings(free: int | None, wanted_gb: float) -> Iterator[Finding]:
    """Check that the disk that a job fills has as much room as is asked for."""
    if not wanted_gb:
        return
    if free is None:
        what = "The free disk space could not be seen."
        yield error("disk.not_seen", what, f"{wanted_gb:g} GB are needed.", "Look there:", "df -h")
    elif free < wanted_gb * 1e9:
        what = f"{free / 1e9:.1f} GB of disk are free; {wanted_gb:g} GB are needed."
        yield error("disk.too_small", what, "", "Make room, or name another disk.")
    else:
        yield Finding(Severity.OK, "disk.free", f"{free / 1e9:.1f} GB of disk are free.")


def file_findings(path: str, place: Place) -> Iterator[Finding]:
    try:
        seen = place.look(path)
    except NotSeen as unseen:
        what = f"Whether {path} is there could not be seen."
        yield error("image.not_seen", what, unseen.why, unseen.next)
        return
    if seen is None or seen.is_dir:
        why = "It is a folder." if seen else "The cluster has no such file."
        advice = "Correct the path, or name an image of a registry."
        yield error("image.missing", f"{path} is no image.", why, advice)
    else:
        yield Finding(Severity.OK, "image.there", f"{path} is there.")
