"""A job's stdout and stderr, two files on the cluster, are read as one log: no byte lost, no event
of the runner broken.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.slurm import logs
from tao_sdk.engine.rank_logs import without_events
from tao_sdk.runner import report
from tao_sdk.transports.ssh import Answer

TEXTS = {1: st.text("AB\n\r", min_size=1, max_size=8), 2: st.text("ab\n\r", min_size=1, max_size=8)}
TOLD, LOOKED = (0, "event"), (0, "look")
HAPPENED = st.lists(
    st.one_of(
        st.just(TOLD),
        st.just(LOOKED),
        st.tuples(st.just(1), TEXTS[1]),
        st.tuples(st.just(2), TEXTS[2]),
    ),
    max_size=15,
)


class Shell:
    """A login node without the way to it."""

    def run(self, script: str) -> Answer:
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr, "here")


def seen(folder: Path, happened: list[tuple[int, str]]) -> Iterator[bytes]:
    """What a reader gets who looks now and then while the runner writes both files, and once at the
    end.
    """
    runner, cursor = report.Report(), ""
    runner.one_stream = False
    reader = logs.LogReader(Shell(), str(folder), str(folder), lambda: True)  # pyright: ignore[reportArgumentType]
    for stream, text in [*happened, TOLD, LOOKED]:
        if stream:
            runner.relay_bytes(stream, text.encode())
        elif (stream, text) == TOLD:
            runner.tell_event("stage", stage="outputs")
        else:
            for chunk in reader.read(LogRequest(cursor=cursor)):
                cursor = chunk.cursor
                yield chunk.data


@pytest.mark.slow
@pytest.mark.parametrize("block", [200, logs.BLOCK])
@settings(max_examples=60)
@given(HAPPENED)
def test_both_files_are_one_log_whose_events_are_whole_however_it_is_read(
    block: int, happened: list[tuple[int, str]]
) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name)

        def write(fd: int, data: bytes) -> bool:
            with (folder / f"main.{'out' if fd == 1 else 'err'}").open("ab") as file:
                file.write(data)
            return True

        patched.setattr(report, "write_all", write)
        patched.setattr(logs, "BLOCK", block)
        got = b"".join(
            data for _, data in without_events((0, data) for data in seen(folder, happened))
        ).decode()
    for stream, letters in ((1, "AB"), (2, "ab")):
        written = "".join(text for number, text in happened if number == stream)
        assert [each for each in got if each in letters] == [
            each for each in written if each in letters
        ]
    assert len(got) == sum(len(text) for stream, text in happened if stream)
