"""Files of a pod: none can be seen once it has ended, and before that only its own command does."""

from __future__ import annotations

from tao_sdk.backends.contract import Files, FileStat
from tao_sdk.model.errors import PathNotFound, Unreachable

ADVICE = "Set TAO_RESULTS_ROOT=s3://bucket/prefix, and tao results shows and fetches them."


class PodFiles:
    """Says of each path why it cannot be seen from here."""

    def stat(self, path: str) -> FileStat:
        raise unseen(path)

    def list(self, path: str) -> list[FileStat]:
        raise unseen(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:  # noqa: ARG002
        raise unseen(path)

    def below(self, folder: str) -> Files:  # noqa: ARG002
        return self


def unseen(path: str) -> PathNotFound | Unreachable:
    if path.startswith("pvc://"):
        return Unreachable(f"{path} cannot be read from here yet.", "It is on a claim.", ADVICE)
    return PathNotFound(f"{path} was in a pod, whose files go with it.", "", ADVICE)
