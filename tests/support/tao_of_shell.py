"""The command `tao` in a shell that a test runs: hands the call over to the server of forked_tao.py,
whose socket is the descriptor of the first argument. Run by itself, with the standard library alone.
"""

import json
import os
import socket
import sys


def call_server(descriptor: int, argv: "list[str]") -> int:
    """The exit code of `tao` with these arguments, run by the server."""
    request = os.memfd_create("request")
    cwd = os.getcwd()  # noqa: PTH109  pathlib takes longer to load than all else here
    os.write(request, json.dumps([argv, cwd, dict(os.environ)]).encode())
    os.lseek(request, 0, os.SEEK_SET)
    reader, writer = os.pipe()
    with socket.socket(fileno=descriptor) as server:
        socket.send_fds(server, [b"run"], [request, 0, 1, 2, writer])
    os.close(writer)
    with os.fdopen(reader) as answer:
        answer.readline()  # the process
        code = os.waitstatus_to_exitcode(int(answer.readline()))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(call_server(int(sys.argv[1]), sys.argv[2:]))
