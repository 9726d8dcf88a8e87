"""Mounts: host paths and volumes in the container, in every form that people write. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from tao_sdk.model.fields import FieldError
from tao_sdk.model.finding import Finding, Severity

SOURCE = ("source", "host_path", "from", "from_path", "src")
TARGET = ("target", "container_path", "mount_path", "path", "destination", "dst", "bind")
MODES = {"": False, "rw": False, "ro": True, "z": False, "Z": False}
EXAMPLE = "Write src:dst, src:dst:ro, {source: src, target: dst}, or {src: {bind: dst, mode: ro}}."


class Mount(NamedTuple):
    """One mount in the container.

    `source` is the name of a volume if `volume` is set, else an absolute path of the host.
    """

    source: str
    target: str
    read_only: bool = False
    volume: bool = False

    def request(self) -> dict[str, Any]:
        """The mount as Docker's API takes it in `Mounts`.

        A bind in this form refuses a missing source. The older form (`Binds`) makes a folder.
        """
        kind = "volume" if self.volume else "bind"
        return {
            "Type": kind,
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": self.read_only,
        }

    def covers(self, path: str) -> bool:
        """True if a path of the container lies in this mount."""
        return posixpath.commonpath([path, self.target]) == self.target

    def on_host(self, path: str, volumes: Mapping[str, str]) -> str:
        """The host's path for a container's path in this mount; "" if it is not known.

        `volumes`: the name of a volume -> its folder on the host.
        """
        source = volumes.get(self.source, "") if self.volume else self.source
        return (
            posixpath.normpath(posixpath.join(source, posixpath.relpath(path, self.target)))
            if source
            else ""
        )


def mount_of(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The innermost mount that holds a path of the container, or None."""
    return max(
        (each for each in mounts if each.covers(path)),
        key=lambda each: len(each.target),
        default=None,
    )


def cache_finding(path: str, targets: Iterable[str]) -> list[Finding]:
    """A warning if the cache of fetched inputs (mount_path) lies on no mount of the job."""
    normal = posixpath.normpath(path)
    if any(
        posixpath.commonpath([normal, posixpath.normpath(each)]) == posixpath.normpath(each)
        for each in targets
    ):
        return []
    what = (
        f"mount_path {path} lies on no mount of the job: what is fetched "
        "there is gone with the container."
    )
    fix = f"Mount a folder there: mounts: [<folder>:{normal}]"
    return [
        Finding(Severity.WARNING, "mount_path.no_mount", what, "No other job would find it.", fix)
    ]


def unmounted_finding(found: Sequence[tuple[str, str]]) -> list[Finding]:
    """One warning for all paths of a spec that no input declares and no mount holds.

    `found`: their (key, path) pairs.
    """
    if not found:
        return []
    (key, path), *others = found
    more = f", and {len(others)} more such values" if others else ""
    what = f"{key} is {path}, which nobody declares and no mount holds{more}."
    why = "A path of this machine is not in the container, unless the image has it."
    fix = (
        f"Mount it: mounts: [{path}:{path}:ro]; declare {key} in inputs, or as "
        "type text if the image has it."
    )
    return [Finding(Severity.WARNING, "spec.not_mounted", what, why, fix)]


def read_mounts(given: Any, cwd: str, home: str) -> list[Mount]:
    """Read all mounts of a job. Raises SpecError that names an invalid mount or a repeated target.

    Relative sources start at `cwd`; `~` is `home`.
    """
    found = [mount(one, cwd, home) for one in split_mounts(given)]
    refuse_repeated([each.target for each in found])
    return found


def refuse_repeated(targets: Sequence[str]) -> None:
    """Raise FieldError for a target that two mounts have."""
    for target in targets:
        if targets.count(target) > 1:
            raise FieldError(
                "mounts",
                f"mounts has {target} twice.",
                "A place can hold one thing.",
                "Leave one out.",
            )


def split_mounts(given: Any) -> Iterator[Any]:
    """The mounts one by one."""
    if given is None:
        return
    if isinstance(given, Mapping):
        mapping = cast("Mapping[str, Any]", given)
        if any(name in mapping for name in SOURCE):
            yield mapping
        else:
            yield from mapping.items()
    elif isinstance(given, str):
        yield given
    elif isinstance(given, (list, tuple)):
        for one in cast("list[Any]", given):
            yield from split_mounts(one)
    else:
        raise invalid_mount(given)


def mount(given: Any, cwd: str, home: str) -> Mount:
    if isinstance(given, str):
        return mount_from_text(given, cwd, home)
    if isinstance(given, tuple):
        source, how = cast("tuple[str, Any]", given)
        if isinstance(how, str):
            return mount_from_text(f"{source}:{how}", cwd, home)
        if not isinstance(how, Mapping):
            raise invalid_mount({source: how})
        return mount_from_mapping({"source": source, **cast("Mapping[str, Any]", how)}, cwd, home)
    return mount_from_mapping(given, cwd, home)


def mount_from_text(text: str, cwd: str, home: str) -> Mount:
    source, _, rest = text.removeprefix("file://").partition(":")
    target, _, mode = rest.partition(":")
    flags = mode.split(",")
    if any(flag not in MODES for flag in flags):
        raise invalid_mount(text)
    return checked_mount(
        text, source, target or source, any(MODES[flag] for flag in flags), cwd, home
    )


def mount_from_mapping(given: Mapping[str, Any], cwd: str, home: str) -> Mount:
    source = next((str(given[name]) for name in SOURCE if name in given), "")
    target = next((str(given[name]) for name in TARGET if name in given), source)
    mode = str(given.get("mode", ""))
    unknown = set(given) - {*SOURCE, *TARGET, "mode", "read_only", "readonly", "type"}
    if unknown or mode not in MODES:
        raise invalid_mount(dict(given))
    return checked_mount(
        given,
        source,
        target,
        bool(given.get("read_only", given.get("readonly", MODES[mode]))),
        cwd,
        home,
    )


def checked_mount(
    given: Any, source: str, target: str, read_only: bool, cwd: str, home: str
) -> Mount:
    if not source or not target.startswith("/"):
        raise invalid_mount(given)
    volume = not source.startswith(("/", ".", "~")) and "/" not in source
    if source.startswith("~"):
        source = home + source[1:]
    path = (
        source
        if volume
        else posixpath.normpath(posixpath.join(cwd, source.removeprefix("file://")))
    )
    return Mount(path, posixpath.normpath(target), read_only, volume)


def invalid_mount(given: Any) -> FieldError:
    return FieldError(
        "mounts",
        f"mounts has {given!r}.",
        "It names no source, or no absolute place in the job.",
        EXAMPLE,
    )


def within(path: str, root: str) -> bool:
    """True if a path lies in a folder, or is the folder."""
    path, root = posixpath.normpath(path), posixpath.normpath(root)
    return posixpath.commonpath([path, root]) == root
