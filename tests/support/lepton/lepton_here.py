"""The stand-in workspace of a test session: started once, found by the processes that tests start."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.lepton.rest_server import RestServer
from support.lepton.workspace import Refusal, Workspace

VARIABLE = "TAO_TEST_LEPTON_URL"  # for the processes that a test starts


@functools.cache
def server() -> RestServer:
    """The server of this process. Skips the test where a replica cannot have its namespaces."""
    if os.geteuid() != 0:
        pytest.skip("only root makes the namespaces of a replica")
    folder = Path(tempfile.mkdtemp(prefix="tao-lepton-"))
    made = RestServer(Workspace(folder))
    os.environ[VARIABLE] = made.url
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(made.close)
    return made


def url() -> str:
    """The workspace's address, also in a process that a test has started."""
    return os.environ.get(VARIABLE) or server().url


def surroundings() -> dict[str, str]:
    """The environment of a caller."""
    return {
        "LEPTON_WORKSPACE_ID": "tests",
        "LEPTON_AUTH_TOKEN": "token-of-tests",
        "LEPTON_WORKSPACE_URL": url(),
    }


def lose_nodes_named_in(folder: Path) -> None:
    """From now on, a job loses its node once a file in the folder has its name."""
    if VARIABLE in os.environ and not server.cache_info().currsize:
        return  # the process that has the server watches
    workspace = server().workspace

    def watch() -> None:
        while folder.exists():
            for named in folder.glob("*"):
                named.unlink()
                with suppress(Refusal):  # its test has removed the job meanwhile
                    workspace.fail_node_of(named.name)
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
