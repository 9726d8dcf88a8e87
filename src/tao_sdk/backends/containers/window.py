"""Windows: helper containers that show files of the daemon's machine or of an image.

They are not jobs. A window has a path mounted read-only. A created window is enough to stat and to
read; only listing starts it.
"""

from __future__ import annotations

import base64
import io
import json
import posixpath
import re
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tao_sdk.backends.contract import FileStat
from tao_sdk.model.errors import TaoError
from tao_sdk.transports.dockerd import Daemon, DaemonError

LABEL = "tao-sdk-window"  # its value is the time at which the window was created
STALE = 600.0  # seconds after which the windows of a killed client are removed
PLACE = "/look"  # in the window
EMPTY = "tao-window"  # an empty image, made if the daemon has no other, and removed again
IS_DIR, IS_LINK = 1 << 31, 1 << 27  # bits of Go's file mode, which the API uses
LINKS = 20  # the most links to follow
SMALLEST_SHELL = 100_000  # bytes; a smaller image holds no shell
SEVERAL = 500_000  # the most bytes of names below the first level in one listing


@dataclass(frozen=True)
class Window:
    """One container to look through.

    `source`: the path of the daemon's machine that is mounted at PLACE; "" to see only the image.
    `image`: the image of the container, if known.
    """

    daemon: Daemon
    container: str
    source: str
    image: str = ""

    def path_inside(self, path: str) -> str | None:
        """The path in the window of a path on the daemon's machine; None if it is not mounted."""
        if not self.source:
            return path
        if posixpath.commonpath([path, self.source]) != self.source:
            return None
        return posixpath.normpath(posixpath.join(PLACE, posixpath.relpath(path, self.source)))

    def stat_path(self, path: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return (the target of a path in the window, the daemon's stat of it). Follows links.

        None if nothing is there.
        """
        for _ in range(LINKS):
            seen = self.stat_once(path)
            if seen is None:
                return None
            if not seen["mode"] & IS_LINK:
                return path, seen
            path = seen["linkTarget"]
        return None

    def stat_once(self, path: str) -> Mapping[str, Any] | None:
        try:
            answer = self.daemon.request(
                "HEAD", f"/containers/{self.container}/archive", params={"path": path}, timeout=60
            )
        except DaemonError as error:
            if error.status in (400, 404) or self.is_below_a_file(path):
                return None
            raise
        return json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))

    def is_below_a_file(self, path: str) -> bool:
        above = posixpath.dirname(path)
        if path == above:
            return False
        seen = self.stat_path(above)
        return seen is not None and not seen[1]["mode"] & IS_DIR

    def close(self) -> None:
        with suppress(TaoError):
            self.daemon.ask("DELETE", f"/containers/{self.container}", force=1, v=1)
        remove_if_empty(self.daemon, self.image)


def file_stat(path: str, seen: Mapping[str, Any]) -> FileStat:
    is_dir = bool(seen["mode"] & IS_DIR)
    return FileStat(path, is_dir, 0 if is_dir else seen["size"], epoch_seconds(seen["mtime"]))


def epoch_seconds(moment: str) -> float:
    """The seconds since the epoch of a time such as 2026-11-21T08:34:25.985067994Z.

    The time may have an offset. The result is exact to a microsecond.
    """
    text = re.sub(r"(\.\d{6})\d+", r"\1", moment).replace("Z", "+00:00")
    with suppress(ValueError):
        return datetime.fromisoformat(text).timestamp()
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text)).timestamp()


def open_window(
    daemon: Daemon, image: str, source: str = "", volume: str = "", lists: str = PLACE
) -> Window:
    """Create a window on `source`, or on `volume`. If started, it lists the folder `lists`.

    Raises DaemonError with status 400 if `source` is not on the daemon's machine.
    """
    mount = {"Type": "volume", "Source": volume} if volume else {"Type": "bind", "Source": source}
    body: dict[str, Any] = {
        "Image": image,
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [LIST, "list", lists],
        "User": "0:0",
        "NetworkDisabled": True,
        "Labels": window_labels(),
        "HostConfig": {
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            "Mounts": [{**mount, "Target": PLACE, "ReadOnly": True}] if source else [],
        },
    }
    return Window(daemon, daemon.ask("POST", "/containers/create", body)["Id"], source, image)


def window_labels() -> dict[str, str]:
    """The labels of a window. They serve to find and remove the windows of a killed client."""
    return {"tao-toolkit": "true", LABEL: f"{time.time():.0f}"}


def list_volumes(daemon: Daemon) -> dict[str, str]:
    """The daemon's volumes: name -> folder on its machine."""
    there: list[dict[str, str]] = daemon.get("/volumes")["Volumes"] or []
    return {each["Name"]: each["Mountpoint"] for each in there if each["Mountpoint"]}


def list_images(daemon: Daemon) -> list[str]:
    """The images to make windows of, in order of preference.

    First the images of our jobs, because these have a shell. If the daemon has no image, an empty
    one is made.
    """
    filters = {"label": ["tao-sdk-job-id"]}
    our_containers = daemon.ask("GET", "/containers/json", all=1, filters=filters)
    images = sorted(daemon.get("/images/json"), key=shell_likelihood)
    known = [EMPTY if is_empty(image) else image["Id"] for image in images]
    used = [container["ImageID"] for container in our_containers]
    ours = [image for image in used if image in known]  # an image can be removed under a container
    return list(dict.fromkeys([*ours, *known])) or [empty_image(daemon)]


def shell_likelihood(image: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """A sort key: images that likely hold a shell come first (not empty, named, young)."""
    return image["Size"] < SMALLEST_SHELL, not image.get("RepoTags"), -image["Created"]


def empty_image(daemon: Daemon) -> str:
    nothing = io.BytesIO()
    tarfile.open(fileobj=nothing, mode="w").close()
    where = {"fromSrc": "-", "repo": EMPTY}
    daemon.request("POST", "/images/create", params=where, data=nothing.getvalue(), timeout=60)
    return EMPTY


def is_empty(image: Mapping[str, Any]) -> bool:
    """True for a listed image that was made by `empty_image`."""
    return f"{EMPTY}:latest" in (image.get("RepoTags") or ())


def remove_if_empty(daemon: Daemon, image: str) -> None:
    """Remove the empty image once its window is closed.

    The daemon keeps the image while another window uses it.
    """
    if image == EMPTY:
        with suppress(TaoError):
            daemon.ask("DELETE", f"/images/{EMPTY}")


def sweep_windows(daemon: Daemon) -> None:
    """Remove the windows that are older than STALE: nobody uses them any more."""
    for each in daemon.ask("GET", "/containers/json", all=1, filters={"label": [LABEL]}):
        made = str(each["Labels"][LABEL])
        if made.isdigit() and float(made) < time.time() - STALE:
            Window(daemon, each["Id"], "").close()


# The script with which a window lists a folder, its argument. It writes to /names every name of the
# first level, and the deeper names if they are not too many. It follows links. Works with GNU's
# programs and busybox's.
LIST = f"""
export LC_ALL=C
command -v find >/dev/null && command -v stat >/dev/null && command -v xargs >/dev/null || exit 9
find -L "$1" -mindepth 1 -maxdepth 1 -print0 > /first
find -L "$1" -mindepth 2 -print0 | head -c {SEVERAL} > /deeper
{{
    xargs -0 -r stat -L -c '%f %s %Y %n' < /first
    if [ "$(wc -c < /deeper)" -lt {SEVERAL} ]; then
        echo whole
        xargs -0 -r stat -L -c '%f %s %Y %n' < /deeper
    fi
}} > /names 2>/dev/null
exit 0
"""
NAME = re.compile(r"([0-9a-f]+) (\d+) (\d+) (/.*)")


def parse_names(text: str, inside: str, path: str) -> tuple[list[FileStat], bool]:
    """Return (the entries in LIST's output, whether they are complete).

    `inside` is the listed folder in the window. The entries get paths below `path`.
    """
    rows: list[FileStat] = []
    whole = False
    for line in text.splitlines():
        if row := NAME.fullmatch(line):
            is_dir = int(row[1], 16) & 0o170000 == 0o040000
            rows.append(
                FileStat(
                    posixpath.join(path, posixpath.relpath(row[4], inside)),
                    is_dir,
                    0 if is_dir else int(row[2]),
                    float(row[3]),
                )
            )
        elif line == "whole":
            whole = True
    return rows, whole


def names_of(member: tarfile.TarInfo, path: str) -> FileStat | None:
    """The entry for a member of a tar of the folder `path`; None for the folder itself."""
    below = member.name.partition("/")[2].rstrip("/")
    if not below:
        return None
    size = 0 if member.isdir() else member.size
    return FileStat(posixpath.join(path, below), member.isdir(), size, float(member.mtime))
