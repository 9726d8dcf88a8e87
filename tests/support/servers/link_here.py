"""The line in front of a server: slow, or failing on demand (link/main.go tells how)."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from types import TracebackType
from typing import Any

from support.servers import authority_here, go_programs


class Link:
    """A running line. `faults` are set at any time, and count the requests from then on."""

    def __init__(
        self, to: str, *flags: str, listen: str = "127.0.0.1:0", tls: bool = False
    ) -> None:
        ours = authority_here.authority() if tls else None
        secure = ["-cert", str(ours.cert), "-key", str(ours.key)] if ours else []
        argv = [str(go_programs.program("link")), "-to", to, "-listen", listen, *secure, *flags]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port, self.admin = map(int, self.process.stdout.readline().split())
        self.address = f"{listen.partition(':')[0]}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"

    def faults(self, **faults: Any) -> None:
        """None at all without arguments."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}/faults", json.dumps(faults).encode()
        )
        urllib.request.urlopen(request).close()

    @property
    def counts(self) -> dict[str, int]:
        """How many requests of each method passed since `faults`, and how many were answered by the
        line itself.
        """
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/counts") as answer:
            return json.load(answer)

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
