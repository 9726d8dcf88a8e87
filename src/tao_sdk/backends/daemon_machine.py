"""The machine of a Docker daemon: the ssh command that runs a program there.

It is read also where the package is not installed (preflight/docker_access.py).
"""

from __future__ import annotations

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
BY_SSH = "ssh://"


def ssh_words(url: str) -> list[str]:
    """The words of the ssh command to the machine of ssh://USER@HOST:PORT, before the words of a
    program; empty for a daemon that is reached in another way.
    """
    if not url.startswith(BY_SSH):
        return []
    target, _, port = url[len(BY_SSH) :].partition("/")[0].partition(":")
    return [*SSH, *(("-p", port) if port else ()), "--", target]
