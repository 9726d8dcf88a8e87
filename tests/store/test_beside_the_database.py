"""What lies beside the database: large values, secrets, and copies of logs."""

from __future__ import annotations

import copy
import gzip
import json
import os
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.store_jobs import add, row
from tao_sdk.model.errors import StoreError
from tao_sdk.model.plan import Attempt
from tao_sdk.store import Keyring, LogCopies, Store, log_copies, log_segments
from tao_sdk.store.payload_files import LARGEST_IN_A_ROW, Document, PayloadFiles, split

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ATTEMPT = Attempt("digits-a1", 1, "local", "host-1", "store")
SECOND = Attempt("digits-a1", 2, "local", "host-1", "store")


def payloads(store: Store) -> list[Path]:
    folder = store.directory / "payloads"
    return list(folder.iterdir()) if folder.is_dir() else []


# Large values


def test_a_large_value_is_a_file_and_a_small_one_is_not(store: Store) -> None:
    small, large = "x" * (LARGEST_IN_A_ROW - 2), "x" * (LARGEST_IN_A_ROW - 1)  # with its two quotes
    add(store, "digits-a1", spec={"packed": small})
    assert payloads(store) == []
    add(
        store,
        "digits-a2",
        spec={"packed": large},
        options={"native": large},
        plan={"request": large},
    )
    assert len(payloads(store)) == 1, "the same value is kept once"
    job = store.get("digits-a2")
    assert (
        job.spec["packed"]
        == job.options["native"]
        == store.attempt(job.id).plan["request"]
        == large
    )


def test_a_large_value_is_read_only_when_it_is_asked_for(store: Store) -> None:
    job = add(store, "digits-a1", spec={"command": "true", "packed": "x" * 100_000})
    payloads(store)[0].unlink()
    assert store.get(job.id).spec["command"] == "true"
    assert "hooks" not in job.spec and job.spec.get("hooks", {}) == {}
    assert sorted(job.spec) == ["command", "packed"] and len(job.spec) == 2
    with pytest.raises(StoreError, match="cannot be used"):
        job.spec["packed"]


def test_a_damaged_file_is_told(store: Store) -> None:
    job = add(store, "digits-a1", spec={"packed": "x" * 100_000})
    payloads(store)[0].write_text("y" * 100_000)
    with pytest.raises(StoreError, match="damaged"):
        job.spec["packed"]


def test_a_file_stays_until_the_last_job_that_needs_it_is_removed(store: Store) -> None:
    for job_id in ("digits-a1", "digits-a2"):
        add(store, job_id, spec={"packed": "x" * 100_000})
    store.remove("digits-a1")
    assert store.get("digits-a2").spec["packed"] == "x" * 100_000
    store.remove("digits-a2")
    assert payloads(store) == []


@pytest.mark.slow
@settings(max_examples=100)
@given(st.dictionaries(st.text(st.characters()), JSON, max_size=4))
def test_any_object_comes_back_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    files = PayloadFiles(tmp_path_factory.getbasetemp() / "any")
    text, _ = split(value, files)
    document = Document(text, files)
    assert document == value and value == document
    assert json.loads(json.dumps(dict(document))) == value
    assert copy.deepcopy(document) == value
    assert Document(split({"again": document}, files)[0], files) == {"again": value}


def test_what_is_no_json_is_refused(store: Store) -> None:
    with pytest.raises(TypeError, match="bytes cannot be stored"):
        add(store, "digits-a1", spec={"packed": b"bytes"})
    assert store.list() == [] and store.events() == []


# Secrets


def test_secrets_come_back_until_they_are_forgotten(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "secrets")
    values = {"NGC_KEY": "a 'quoted'\nvalue \udcff é", "HF_TOKEN": ""}
    keyring.save("digits-a1", values)
    keyring.save("digits-a2", {"NGC_KEY": "another"})
    assert keyring.load("digits-a1") == values
    keyring.forget("digits-a1")
    keyring.forget("digits-a1")
    assert keyring.load("digits-a1") == {}
    assert keyring.load("digits-a2") == {"NGC_KEY": "another"}


def test_no_secret_is_in_the_database(store: Store, path: Path) -> None:
    store.keyring.save("digits-a1", {"NGC_KEY": "secret-value"})
    add(store, "digits-a1", spec={"env_vars": {"NGC_KEY": {"secret": "NGC_KEY"}}})
    for file in path.parent.glob("jobs.db*"):
        assert file.is_dir() or b"secret-value" not in file.read_bytes()


def test_a_removed_job_has_no_secrets_and_no_log_left(store: Store) -> None:
    add(store, "digits-a1")
    store.keyring.save("digits-a1", {"NGC_KEY": "secret-value"})
    store.log_copies.append(ATTEMPT, b"log")
    store.remove("digits-a1")
    assert store.keyring.load("digits-a1") == {}
    assert store.log_copies.read(ATTEMPT) == b""


# Copies of logs


def whole(copies: LogCopies, attempt: Attempt = ATTEMPT, limit: int = 7) -> bytes:
    data = b""
    while piece := copies.read(attempt, len(data), limit):
        data += piece
    assert len(data) == copies.size(attempt)
    return data


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 40))
def test_a_log_below_the_cap_is_kept_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int
) -> None:
    copies = LogCopies(tmp_path_factory.mktemp("logs"), cap=400)
    for piece in pieces:
        copies.append(ATTEMPT, piece)
    assert whole(copies, limit=limit) == b"".join(pieces)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(401, 3000), st.integers(15, 500))
def test_a_log_above_the_cap_keeps_its_start_and_its_end(
    tmp_path_factory: pytest.TempPathFactory, size: int, step: int
) -> None:
    copies = LogCopies(tmp_path_factory.mktemp("logs"), cap=400)
    log = bytes(n % 251 for n in range(size))
    for start in range(0, size, step):
        copies.append(ATTEMPT, log[start : start + step])
    kept = whole(copies)
    start, _, rest = kept.partition(b"\n[tao: ")
    missing, _, end = rest.partition(b" bytes of the log are not kept here]\n")
    assert start == log[:100] and log.endswith(end)
    assert 200 < len(end) <= 300
    assert len(start) + int(missing) + len(end) == size
    assert sum(file.stat().st_size for file in (copies.directory / "digits-a1").iterdir()) <= 400


def test_every_attempt_and_rank_has_a_copy_of_its_own(tmp_path: Path) -> None:
    copies = LogCopies(tmp_path / "logs")
    copies.append(ATTEMPT, b"first")
    copies.append(SECOND, b"second")
    copies.append(SECOND, b"rank 1", rank=1)
    assert [whole(copies, attempt) for attempt in (ATTEMPT, SECOND)] == [b"first", b"second"]
    assert copies.read(SECOND, rank=1) == b"rank 1"
    assert copies.size(SECOND, rank=2) == 0


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 3000), st.integers(15, 500), st.integers(1, 40), st.integers(1, 150))
def test_a_compressed_copy_is_read_as_the_plain_one_was(
    tmp_path_factory: pytest.TempPathFactory, size: int, step: int, limit: int, block: int
) -> None:
    copies = LogCopies(tmp_path_factory.mktemp("logs"), cap=400)
    log = bytes(n % 251 for n in range(size))
    for start in range(0, size, step):
        copies.append(ATTEMPT, log[start : start + step])
    plain = whole(copies, limit=limit)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_segments, "BLOCK", block)
        patched.setattr(log_copies, "SMALL", 0)
        copies.compress(ATTEMPT.job_id)
        assert whole(copies, limit=limit) == plain
    files = list(copies.directory.rglob("*.0.*"))
    assert all(file.suffix == ".gz" for file in files)
    assert b"".join(gzip.decompress(file.read_bytes()) for file in sorted(files)[:1]) == log[:100]


def test_a_compressed_copy_takes_a_fraction_and_grows_on_where_more_comes(tmp_path: Path) -> None:
    copies = LogCopies(tmp_path / "logs")
    log = b"".join(
        b"epoch %d: loss 0.%06d lr 1e-4\n" % (n, n * 7919 % 1000003) for n in range(200_000)
    )
    copies.append(ATTEMPT, log)
    copies.compress(ATTEMPT.job_id)
    [file] = (copies.directory / "digits-a1").iterdir()
    assert file.stat().st_size < len(log) / 3
    assert file.stat().st_mode & 0o777 == 0o600
    tracemalloc.start()
    assert copies.read(ATTEMPT, 5_000_000, 1000) == log[5_000_000:5_001_000]
    assert copies.size(ATTEMPT) == len(log)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * 1024 * 1024
    copies.append(ATTEMPT, b"more")
    assert whole(copies, limit=1024 * 1024) == log + b"more"


@pytest.mark.parametrize("killed_at", ["fsync", "replace", "unlink"])
def test_a_compression_that_was_cut_short_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    copies = LogCopies(tmp_path / "logs")
    log = b"a line\n" * 10_000
    copies.append(ATTEMPT, log)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*((os, "fsync") if killed_at == "fsync" else (Path, killed_at)), killed)
        with pytest.raises(KeyboardInterrupt):
            copies.compress(ATTEMPT.job_id)
    copies.append(ATTEMPT, b"more\n")
    assert whole(copies, limit=100_000) == log + b"more\n"
    copies.compress(ATTEMPT.job_id)
    assert whole(copies, limit=100_000) == log + b"more\n"
    assert [file.name for file in (copies.directory / "digits-a1").iterdir()] == ["1.0.0.gz"]


def test_a_damaged_compressed_copy_is_an_error_and_no_wrong_log(tmp_path: Path) -> None:
    copies = LogCopies(tmp_path / "logs")
    copies.append(ATTEMPT, b"a line\n" * 10_000)
    copies.compress(ATTEMPT.job_id)
    [file] = (copies.directory / "digits-a1").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        copies.read(ATTEMPT)


def test_a_long_log_is_read_in_flat_memory(tmp_path: Path) -> None:
    copies = LogCopies(tmp_path / "logs")
    for _ in range(8):
        copies.append(ATTEMPT, os.urandom(1024 * 1024))
    assert len(copies.read(ATTEMPT, 5_000_000, 1000)) == 1000
    assert copies.size(ATTEMPT) == 8 * 1024 * 1024


def test_a_document_is_a_mapping_for_whoever_reads_it(store: Store) -> None:
    job = add(store, "digits-a1", spec={"env_vars": {"A": "b"}}, options={})
    assert (
        isinstance(job.spec, Mapping)
        and {**job.spec} == {"env_vars": {"A": "b"}}
        and dict(job.options) == {}
    )
    assert store.add(job_like(job, "digits-a2"), row(store, "digits-a2")).spec == job.spec, (
        "as it was read it can be added"
    )


def job_like(job: Any, job_id: str) -> Any:
    from dataclasses import replace

    return replace(job, id=job_id)
