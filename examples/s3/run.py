"""Digits with its data and its results in a bucket, on a store that is started for it: python
examples/s3/run.py
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUCKET = "tao-example"
START_SECONDS = 30.0


@contextmanager
def store() -> Generator[dict[str, str]]:
    """A store with one empty bucket, and what has to be exported to use it."""
    program, port = versitygw(), free_port()
    folder = Path(tempfile.mkdtemp(prefix="tao-example-s3-"))
    (folder / BUCKET).mkdir()  # a bucket is a folder to this store
    keys = {"ACCESS_KEY": secrets.token_hex(10), "SECRET_KEY": secrets.token_hex(16)}
    argv = [
        program,
        "--port",
        f"127.0.0.1:{port}",
        "--quiet",
        "--health",
        "/healthz",
        "posix",
        str(folder),
    ]
    named = {"ROOT_ACCESS_KEY": keys["ACCESS_KEY"], "ROOT_SECRET_KEY": keys["SECRET_KEY"]}
    server = subprocess.Popen(argv, env={**os.environ, **named}, stdout=subprocess.DEVNULL)
    try:
        await_answer(f"http://127.0.0.1:{port}/healthz")
        yield {**keys, "S3_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def versitygw() -> str:
    """The server: an installed one, else the one that the tests build."""
    installed = shutil.which("versitygw")
    if installed is None:
        if shutil.which("go") is None:
            sys.exit("This starts the store versitygw, which is built with Go: put versitygw or go on PATH, "
                     "or use a store of your own, as the README beside this says.")  # fmt: skip
        sys.path.append(str(ROOT / "tests"))
        from support.servers.go_programs import CACHE, program

        if not (CACHE / "versitygw").exists():
            print("Building the store versitygw, once: this takes a few minutes.", flush=True)

        installed = str(program("versitygw"))
    return installed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_answer(url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def main() -> None:
    tao = [sys.executable, "-m", "tao_sdk.cli.main"]
    with store() as exported:
        # the training's numpy is beside this python
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environ = {**os.environ, **exported, "PATH": path}

        def run(*words: str) -> str:
            print("$ tao", *words, flush=True)
            return subprocess.run([*tao, *words], env=environ, check=True, text=True).stdout

        def said(*words: str) -> str:
            return subprocess.run(
                [*tao, *words], env=environ, check=True, text=True, capture_output=True
            ).stdout

        run("run", str(HERE / "data.yaml"))
        label = f"shown={secrets.token_hex(4)}"
        run("run", str(HERE / "job.yaml"), "--label", label)
        [job] = (each["id"] for each in json.loads(said("ls", "--label", label, "--json")))
        run("results", job)
        run("files", f"s3://{BUCKET}/results/{job}/results_dir")
        run("results", job, "--fetch", "runs/from-the-bucket")


if __name__ == "__main__":
    main()
