"""The curve of a training as a file: beside the results on this machine, or in a copy of them.

Not here: how it is drawn (model/curve_svg.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tao_sdk.backends.below import Below
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress

CURVE = "curve.svg"
LEAST_EPOCHS = 2  # needed for a curve


def write_curve(results: Path, svg: str, *, renew: bool = False) -> Path:
    """Write the curve beside the training's results. With `renew`, in a copy of the results,
    replace an older one. Raises OSError, LeadsOut.
    """
    below = Below(str(results), follow=renew)
    if renew:
        with below.creating(CURVE, f".{CURVE}.{os.getpid()}.part") as file:
            file.write(svg.encode())
    else:
        below.create(CURVE, svg.encode())
    return results / CURVE


def leave_curve(job: Job, progress: Progress) -> Path | None:
    """Write the curve beside the results if they lie on this machine. None if there is no curve.

    A file of that name is the job's own, or an earlier curve, and stays.
    """
    folder = Path(job.results_dir)
    if not job.results_dir or len(progress.history) < LEAST_EPOCHS:
        return None
    from tao_sdk.model.curve_svg import curve_svg  # few looks end a job

    with suppress(OSError):  # a folder of another machine, or of somebody else
        if folder.is_dir():
            return written_or_there(folder, curve_svg(progress))
    return None


def written_or_there(folder: Path, svg: str) -> Path | None:
    with suppress(OSError):
        return write_curve(folder, svg)
    there = folder / CURVE
    return there if there.is_file() and not there.is_symlink() else None
