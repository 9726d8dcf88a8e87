"""Files of a job: none can be seen from outside the workspace, except through a bucket."""

from __future__ import annotations

from typing import NoReturn

from tao_sdk.backends.contract import Files
from tao_sdk.model.errors import PathNotFound


class JobFiles:
    """Raises PathNotFound for every path, with what makes results visible."""

    def stat(self, path: str) -> NoReturn:
        raise self._unseen(path)

    def list(self, path: str) -> NoReturn:
        raise self._unseen(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> NoReturn:  # noqa: ARG002
        raise self._unseen(path)

    def below(self, folder: str) -> Files:  # noqa: ARG002
        return self

    def _unseen(self, path: str) -> PathNotFound:
        return PathNotFound(
            f"{path} is in a job or on a volume of the workspace, which nobody outside can read.",
            "",
            "Set TAO_RESULTS_ROOT=s3://bucket/prefix, and tao results shows and fetches them; or "
            "run a job that mounts the volume.",
        )
