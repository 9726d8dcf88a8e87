"""Near images: the daemon's images with a name similar to one that is not available."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, cast

from tao_sdk.model.errors import TaoError
from tao_sdk.transports.dockerd import Daemon

MOST_SEARCHED = 1000  # images of the daemon
MOST_NAMED = 3
LIKENESS = 0.8  # the least similarity of two names, from 0 to 1
DEFAULT_TAG = ":latest"


def near_images(daemon: Daemon, name: str) -> tuple[str, ...]:
    """Up to three names of images, the nearest first; none if the daemon cannot be asked."""
    try:
        images = daemon.get("/images/json")
    except TaoError:
        return ()
    known_names = list(image_names(images))
    alike = get_close_matches(name, known_names, cutoff=LIKENESS)
    own_name = name_alone(name)
    elsewhere = [known for known in known_names if name_alone(known) == own_name]
    return tuple(dict.fromkeys([*alike, *elsewhere]))[:MOST_NAMED]


def name_alone(image: str) -> str:
    """`pytorch` of `nvcr.io/nvidia/pytorch:24.01-py3`."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def image_names(images: Any) -> Iterator[str]:
    """The names in the daemon's answer, as people type them: without `:latest`."""
    if not isinstance(images, list):
        return
    for image in cast("list[Any]", images)[:MOST_SEARCHED]:
        tags: Any = cast("dict[str, Any]", image).get("RepoTags") or ()
        for tag in tags:
            yield str(tag).removesuffix(DEFAULT_TAG)
