"""The files packed with the job, such as a trainer or a config. They are written, before anything
else starts, to the paths that the job file gives them.
"""

from __future__ import annotations

import os

from tao_sdk.net import atomic
from tao_sdk.net.failure import Failure


def write_files(paths: list[str], blobs: list[bytes]) -> int:
    """Write each file; relative paths are below the current folder. A script (#!) is executable.
    Return the number of bytes. Raises Failure.
    """
    for path, blob in zip(paths, blobs):
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            atomic.write(path, blob, 0o700 if blob.startswith(b"#!") else 0o600, atomic.no_sync)
        except OSError as error:
            raise Failure(
                "file.unwritable",
                f"The job's file {path} cannot be written.",
                f"{error.filename or path}: {error.strerror}.",
                "Give it a relative path, or a path that this job's user may write.",
            ) from error
    return sum(map(len, blobs))
