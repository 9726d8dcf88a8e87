"""Targets: put an input at the path that the job requires for it."""

from __future__ import annotations

import os

from tao_sdk.net.atomic import copy_whole
from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Input

COPIED = 64 << 20  # bytes; a larger file becomes a link to its source even in the job's own folder


def put_input(wanted: Input, path: str, work: str) -> str:
    """Put the input at its target path, and return that path. Raises Failure.

    It becomes a link. In `work`, the job's own folder, a file of at most COPIED bytes is copied, so
    that a command that saves to its name does not write to the source.
    """
    target = wanted["target"]
    if target.endswith("/") and not os.path.isdir(path):
        target = os.path.join(target, os.path.basename(path))
    target = os.path.abspath(target)
    try:
        if not leads_to(target, path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            small = os.path.isfile(path) and os.path.getsize(path) <= COPIED
            (copy_whole if small and target.startswith(work) else make_link)(path, target)
    except OSError as error:
        if not leads_to(target, path):  # another rank may have done the same
            raise Failure(
                "input.in_the_way",
                f"The input {wanted['key']} cannot be put at {target}.",
                f"{error.strerror}.",
                "Choose another path.",
            ) from error
    return target


def leads_to(target: str, path: str) -> bool:
    return os.path.exists(target) and os.path.samefile(target, path)


def make_link(path: str, target: str) -> None:
    """Make `target` a link to `path`. It replaces an empty folder of the image or an older link of
    ours, never data.
    """
    new = target
    if os.path.islink(target):
        new += os.urandom(6).hex()
    elif os.path.isdir(target):
        os.rmdir(target)
    os.symlink(path, new)
    os.rename(new, target)
