"""First job file: a file to begin with. It runs as it is and explains its keys. Not here: what the
keys mean (job_file.py).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from tao_sdk.backends.by_name import BUILT_IN, platform_name
from tao_sdk.client.call_checks import needs_image
from tao_sdk.client.job_file import default_name
from tao_sdk.model.errors import UsageError
from tao_sdk.model.printable import printable
from tao_sdk.model.settings import Settings

IMAGE = "python:3.12-slim"  # small, and has the Python that a job with specs needs

TEMPLATE = """\
# What to run, and where. Run it: tao run {file}
# Each key is a flag of `tao run` too, which wins over this file: tao run {file} --time-limit 1h

name: {name}
platform: {platform}              # {platforms}; also --platform
{image}

# Shell text. {{config_path}} is replaced by the path of a file that holds the specs below.
command: |
  cat {{config_path}}
  for epoch in 1 2 3; do echo "epoch $epoch/3 loss 0.$((9 - epoch))"; done
  date > "$TAO_RESULTS_DIR/result.txt"

# The settings of the program, nested as it reads them. One of them for one run: --set train.lr=0.1
specs:
  train:
    epochs: 3
    lr: 0.01
config_format: yaml          # of the file at {{config_path}}: toml, yaml or json

gpu_count: 0                 # GPUs per node; 0 for none, -1 for all
time_limit: 10m              # the job is ended after that: 90s, 45m, 4h, 2d
# num_nodes: 1               # machines
# cpus: 4                    # CPU cores per node
# memory: 8g                 # per node

# files:                     # path in the job: path here, relative to this file
#   train.py: ./train.py
# env_vars:                  # environment of the command
#   OMP_NUM_THREADS: 1
# secrets: [MY_TOKEN]        # names of variables here whose values are secret
# labels: {{team: vision}}     # to find the job by: tao ls --label team=vision
# retries: 2                 # how often a failure of the infrastructure is tried again
# options:                   # by platform: what only that one has; tao run --platform slurm --help
#   slurm: {{partition: gpu}}
"""

IMAGE_LINE = (
    "image: {image}              # the container's image; tao images lists keys that stand for some"
)
NO_IMAGE = "# image: python:3.12-slim    # the container's image; local jobs need none"


def write_job_file(job_file: Path, name: str | None, image: str | None, platform: str) -> str:
    """Write the file, and return its platform. Raises UsageError if its name is no YAML file's, if
    the file exists, or if it cannot be written.
    """
    if job_file.suffix not in (".yaml", ".yml"):
        meant = shlex.join(["tao", "init", f"{job_file}.yaml"])
        raise UsageError(f"{str(job_file)!r} does not end in .yaml.", "", "To write one:", meant)
    platform = platform_name(platform)
    text = job_text(job_file, name, image, platform)
    try:
        job_file.parent.mkdir(parents=True, exist_ok=True)
        with job_file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{job_file} is there already.", "", "Name another file:", "tao init other.yaml"
        ) from None
    except OSError as error:
        what = f"cannot write {job_file}: {error.strerror}."
        raise UsageError(what, "", "Name a file in a folder that you may write to.") from None
    return platform


def job_text(job_file: Path, name: str | None, image: str | None, platform: str) -> str:
    """The job file's text. Typed values are quoted as JSON, which YAML reads as the same text."""
    if not image and needs_image(platform, Settings.load()):
        image = IMAGE
    return TEMPLATE.format(
        file=shlex.quote(printable(str(job_file))),
        name=json.dumps(name or default_name(job_file)),
        platform=platform,
        platforms=one_of(BUILT_IN),
        image=IMAGE_LINE.format(image=json.dumps(image)) if image else NO_IMAGE,
    )


def one_of(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
