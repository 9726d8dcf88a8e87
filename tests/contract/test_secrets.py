"""A secret reaches the command and nothing else: not argv, not the store, not a file that others
read, not an error.
"""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from support.places import Place, processes_of
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.errors import TaoError
from tao_sdk.model.fields import settings_of
from tao_sdk.model.secrets import Secret
from tao_sdk.model.spec import JobSpec

VALUE = "s3cr3t-Wert-$(id)-'\"-ü"


def files_with(folder: Path, text: str) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


def arguments_of_everything() -> bytes:
    found = b""
    for process in Path("/proc").iterdir():
        try:
            found += (process / "cmdline").read_bytes() if process.name.isdigit() else b""
        except OSError:
            continue
    return found


def test_a_secret_reaches_the_command_and_is_nowhere_in_the_open(
    client: Client, place: Place, tmp_path: Path
) -> None:
    """By its name, because it is listed, or because it is wrapped."""
    given = {"API_KEY": VALUE, "MARKED": VALUE, "WRAPPED": Secret(VALUE)}
    seen = tmp_path / "seen"
    command = (
        'for each in "$API_KEY" "$MARKED" "$WRAPPED"; do printf %s "$each" | '
        f"sha256sum; done > {seen}; sleep 300"
    )
    spec = JobSpec(command=command, gpu_count=0, env_vars=given, secrets=("MARKED",))
    job = client.submit(spec, place.platform).job
    until(lambda: seen.exists() and seen.read_text().count("\n") == len(given))
    assert {line.split()[0] for line in seen.read_text().splitlines()} == {
        hashlib.sha256(VALUE.encode()).hexdigest()
    }
    assert VALUE.encode() not in arguments_of_everything()
    assert place.running(job.id) > 0
    in_the_open = [
        path for path in files_with(place.state, VALUE) if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert not in_the_open
    assert not [path for path in files_with(place.state, VALUE) if path.name.startswith("jobs.db")]
    assert VALUE not in repr(client.get_job(job.id)) + str(client.get_job(job.id).to_json())
    client.cancel_job(job.id, grace=0)
    assert not files_with(place.state, VALUE), "it stays behind after the job's end"


FIELDS = {
    "command": {"command": f"echo {VALUE}"},
    "specs": {"command": "true {config_path}", "specs": {"model": {"key": VALUE}}},
    "args": {"command": "true", "args": {"token": VALUE}},
    "labels": {"command": "true", "labels": {"who": VALUE}},
    "files": {"command": "true", "files": {"a.txt": VALUE.encode()}},
    "name": {"command": "true", "name": VALUE},
    "image": {"command": "true", "image": VALUE},
    "mounts": {"command": "true", "mounts": [VALUE]},
    "upload_excludes": {"command": "true", "upload_excludes": (VALUE,)},
    "mount_path": {"command": "true", "mount_path": f"/{VALUE}"},
    "hooks": {"command": "true", "hooks": {"on_error": ["/bin/echo", VALUE]}},
    "native": {"command": "true", "native": {"list": [{"of": VALUE}]}},
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_known_secret_in_any_other_field_is_refused_without_showing_it(
    place: Place, field: str
) -> None:
    with place.client(NGC_KEY=VALUE) as client:
        with pytest.raises(TaoError) as refused:
            client.submit(JobSpec(gpu_count=0, **FIELDS[field]), place.platform)  # pyright: ignore[reportArgumentType]
        assert f"{field} contains the value of NGC_KEY" in str(refused.value)
        assert VALUE not in str(refused.value) + repr(refused.value)
        assert client.list_jobs() == []
    assert not files_with(place.state, VALUE)


def test_a_known_secret_in_an_option_is_refused_without_showing_it(place: Place) -> None:
    with place.client(NGC_KEY=VALUE) as client:
        option = next(iter(settings_of(client.options_class(place.platform))))
        with pytest.raises(TaoError) as refused:
            client.submit(JobSpec(command="true", gpu_count=0), place.platform, {option: VALUE})
        assert option in str(refused.value)
        assert VALUE not in str(refused.value) + repr(refused.value)
        assert client.list_jobs() == []


def test_an_error_that_quotes_a_value_does_not_show_the_secret_in_it(place: Place) -> None:
    with place.client(NGC_KEY="plain-secret-value") as client:
        spec = JobSpec(
            command="true {config_path}", specs={"model.plain-secret-value": 1}, gpu_count=0
        )
        with pytest.raises(TaoError) as refused:
            client.submit(spec, place.platform)
    assert "plain-secret-value" not in str(refused.value) + repr(refused.value) + str(
        refused.value.to_json()
    )


def test_why_a_job_failed_does_not_show_the_secret_that_it_printed(
    client: Client, place: Place
) -> None:
    spec = JobSpec(
        command="echo the key is $MY_KEY; exit 1", gpu_count=0, env_vars={"MY_KEY": VALUE}
    )
    job = client.submit(spec, place.platform).job
    client.wait(job.id, timeout=300)
    why = client.diagnose(job.id)
    assert why is not None
    assert "the key is ***" in why.evidence
    assert not [path for path in files_with(place.state, VALUE) if path.name.startswith("jobs.db")]


def test_the_callers_own_secrets_do_not_enter_the_job(place: Place, tmp_path: Path) -> None:
    with place.client(MY_PASSWORD=VALUE, MONGOSECRET=VALUE, PLAIN="visible") as client:
        seen = tmp_path / "env"
        job = client.submit(JobSpec(command=f"env > {seen}", gpu_count=0), place.platform).job
        client.wait(job.id, timeout=300)
    assert VALUE not in seen.read_text()
    assert f"TAO_JOB_ID={job.id}" in seen.read_text()


def test_processes_are_told_apart_by_their_job() -> None:
    assert processes_of("nothing-0000000000") == 0
