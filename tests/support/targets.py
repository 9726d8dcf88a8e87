"""What each parser must do with any bytes from elsewhere: come to a value, or to its own one error.

One function for each parser; an exception that gets through it is a finding. `make fuzz` has
atheris search for findings, and the tests run each on the inputs in SEEDS and on a little noise.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.hostile_commands import run_hostile_command
from tao_sdk.backends.outcome import json_object, parse_manifest
from tao_sdk.backends.slurm import look, parse
from tao_sdk.backends.slurm.job.record import read_record, with_record
from tao_sdk.client.job_file import read_job_file
from tao_sdk.model.errors import SpecError
from tao_sdk.model.progress import Progress
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.net import hub_source, ngc_source, s3_credentials, s3_xml
from tao_sdk.net.failure import Failure
from tao_sdk.runner.events import EventFilter
from tao_sdk.runner.inputs import archive

DEEP = b"[" * 100_000


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def progress(data: bytes) -> None:
    """A log means the same at once and in pieces."""
    whole, pieces = ProgressReader(), ProgressReader()
    whole.feed(data)
    for piece in in_pieces(data, 7):
        pieces.feed(piece)
    assert pieces.progress == whole.progress
    for reader in (whole, pieces):
        assert Progress.from_json(reader.progress.to_json()).epoch == reader.progress.epoch >= 0


def events(data: bytes) -> None:
    """Every byte is the command's or an event's, however the stream is cut."""
    whole, pieces = EventFilter(), EventFilter()
    out, found = whole.feed(data)
    out += whole.close()
    parts = [pieces.feed(piece) for piece in in_pieces(data, 3)]
    assert b"".join(part for part, _ in parts) + pieces.close() == out
    assert [event for _, some in parts for event in some] == found


def sacct(data: bytes) -> None:
    """What squeue, sacct and an attempt's own files may hold."""
    text = data.decode("utf-8", "replace")
    look.read_sections(data)
    look.group_remains(data)
    seen = parse.read_answers(
        {"squeue": (0, text, ""), "sacct": (0, text, text), "now": (0, text, "")}
    )
    left = read_record(text, text, text, 1)
    for job in [*(seen.queue or {}), *(seen.accounting or {}), "1"]:
        with_record(parse.build_observation(job, "digits-0123456789.1", seen), left)


def s3_xml_answer(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for name in ("Contents", "Upload", "CommonPrefixes"):
        for element in s3_xml.elements(text, name):
            s3_xml.inner(element, "Key")
    s3_xml.inner(text, "Code")


def archives(data: bytes) -> None:
    """An archive is unpacked below its folder or refused, and nothing appears beside the folder."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("x.tar", "x.tar.gz", "x.zip"):
            path = Path(place, name)
            path.write_bytes(data)
            before = set(Path(place).iterdir())
            with contextlib.suppress(Failure):
                archive.unpack_archive(str(path), f"{place}/into-{name}", {})
            assert set(Path(place).iterdir()) - before <= {Path(place, f"into-{name}")}


def hub_json(data: bytes) -> None:
    answer: Any = SimpleNamespace(body=data, url="https://hub.invalid/x", headers={}, status=200)
    for read in (hub_source.read_json, ngc_source.read_json):
        with contextlib.suppress(Failure):
            read(answer)
    hub_source.next_page(data.decode("latin-1"))


def credentials(data: bytes) -> None:
    """What a credential endpoint answers: keys of text, or s3.credentials."""
    answer: Any = SimpleNamespace(
        text=data.decode("utf-8", "replace"), url="http://127.0.0.1/k", status=200
    )
    try:
        keys = s3_credentials.from_json(answer, "The endpoint gives no keys")
    except Failure as failure:
        assert failure.code == "s3.credentials"
    else:
        assert isinstance(keys.access + keys.secret + keys.token, str)


def job_file(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        for name in ("job.yaml", "job.json"):
            path = Path(place, name)
            path.write_bytes(data)
            with contextlib.suppress(SpecError):
                read_job_file(path)


def manifest(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    json_object(text)
    parse_manifest(text, 1)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "progress": progress, "events": events, "sacct": sacct, "s3_xml": s3_xml_answer,
    "archives": archives,
    "hub_json": hub_json, "job_file": job_file, "manifest": manifest,
    "commands": run_hostile_command, "credentials": credentials,
}  # fmt: skip


def packed(kind: str) -> bytes:
    """A small archive with a file, a folder and a link."""
    import io
    import tarfile
    import zipfile

    data = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(data, "w") as zipped:
            zipped.writestr("a/b.txt", "words")
        return data.getvalue()
    with tarfile.open(fileobj=data, mode=f"w:{kind}") as tar:
        for name, of in (
            ("a", tarfile.DIRTYPE),
            ("a/b", tarfile.REGTYPE),
            ("a/c", tarfile.SYMTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = of, "b", 0o755
            tar.addfile(entry)
    return data.getvalue()


SEEDS: dict[str, list[bytes]] = {
    "commands": [bytes(range(start, start + 24)) for start in (0, 60, 120)],
    "progress": [
        b"epoch 14/20  loss 0.093  accuracy 0.957\n",
        b'{"epoch": 3, "max_epoch": 20, "kpi": {"loss": 1e400}}\n' + DEEP + b"\n",
        b"Epoch 99999999999999999999999999/3: loss nan lr=1e-5\repoch 2\r",
    ],
    "events": [
        (
            b'@tao {"event": "stage", "time": 1, "stage": "command"}\nwords '
            b'@tao {\n@tao {"event": 5}\n'
        ),
        b'@tao {"event": "x", "time": 1' + b"0" * 400 + b"}\n@tao " + DEEP[:9000] + b"\n",
    ],
    "sacct": [
        b"=== squeue 0 5 0\n1|RUN\n=== sacct 0 3 0\nabc\n",
        b"7|FAILED|NonZeroExitCode|2026-11-21T14:20:00|2026-11-21T14:21:00|m1|digits-0123456789.1\n",
        b"7|7|FAILED|99999999999999999999:9|None|Unknown|Unknown|m1|digits-0123456789.1|0:0\n",
        b'{"attempt":1,"exit_code":1e999,"time_limit":true}',
        b'{"status": ' + DEEP,
    ],
    "s3_xml": [
        b"<ListBucketResult><Contents><Key>a&#x41;&amp;&#1114112;&#xZ;&#99999999999;b</Key></Contents></ListBucketResult>",
        b"<Error><Code>NoSuchKey</Code><Message>&lt;&unknown;</Message></Error>",
    ],
    "archives": [packed(""), packed("gz"), packed("zip")],
    "hub_json": [b'[{"type": "file", "path": "a"}]', b'<https://h/next?cursor=1>; rel="next"',
         DEEP],
    "job_file": [
        b"command: echo hi\ngpu_count: 1\noptions: {local: {}}\n",
        b"a: &a [1, *a]\n<<: {b: !!python/object:x {}}\n",
        b'{"command": "x", "specs": {"a": 1e400, "b": [' + b"[" * 5000,
        b"command: 0x" + b"f" * 5000,
    ],
    "credentials": [
        b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": 5, "Expiration": "2026-01-31T"}',
        b'{"AccessKeyId": [1], "SecretAccessKey": {}, "Expiration": 1e400}',
        DEEP,
    ],
    "manifest": [b'{"attempt": 1, "whole": true, "exit_code": 0}', DEEP,
         b'{"attempt": 1' + b"0" * 5000 + b"}"],
}  # fmt: skip
