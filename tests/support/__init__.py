"""What tests share: the real servers and clusters they run against, and what they need to look
behind the SDK.

servers/   S3, hubs, web and ssh servers, links between machines, archives
dockerd/   a Docker daemon of the tests' own, its registries and recorders
cluster/   a SLURM cluster of the tests' own
Here       what the tests of one folder share, and what more than one folder needs
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[
    1
]  # on PYTHONPATH, it lets a process that a test starts import `support`
