"""A submit that is sent again with its idempotency key: one job, whoever repeats it and when."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tao_sdk import JobSpec
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, TaoError, UsageError
from tao_sdk.platforms.local import LocalSDK

SPEC = JobSpec(command="echo once", gpu_count=0)


def test_a_submit_that_is_sent_again_with_its_key_starts_no_second_job(client: Client) -> None:
    first = client.submit(SPEC, "local", idempotency_key="one")
    again = client.submit(SPEC, "local", idempotency_key="one")
    assert (again.job.id, again.repeated, first.repeated) == (first.job.id, True, False)
    assert client.wait(first.job.id, timeout=60).status == "Complete"
    ended = client.submit(SPEC, "local", idempotency_key="one").job
    assert (ended.id, ended.status) == (first.job.id, "Complete")
    assert [job.id for job in client.list_jobs()] == [first.job.id]


def test_another_key_and_no_key_start_jobs_of_their_own(client: Client) -> None:
    keys = ["one", "two", None, None]
    jobs = {client.submit(SPEC, "local", idempotency_key=key).job.id for key in keys}
    assert len(jobs) == 4
    client.wait_all(list(jobs), timeout=60)


def test_create_job_takes_the_key_as_well(client: Client) -> None:
    with LocalSDK(settings=client.settings) as sdk:
        ids = [
            sdk.create_job(command="echo once", gpu_count=0, idempotency_key="one").id
            for _ in range(2)
        ]
        sdk.wait(ids[0], timeout=60)
    assert ids[0] == ids[1]


def test_the_key_of_another_job_is_refused_with_that_job(client: Client) -> None:
    first = client.submit(SPEC, "local", idempotency_key="one").job
    other = replace(SPEC, command="echo twice")
    with pytest.raises(UsageError, match="another job") as error:
        client.submit(other, "local", idempotency_key="one")
    assert error.value.command == f"tao status {first.id}"
    assert len(client.list_jobs()) == 1
    client.wait(first.id, timeout=60)


def test_many_at_once_with_one_key_are_one_job(client: Client) -> None:
    def submitted(_: int) -> str:
        with Client(settings=client.settings) as own:
            return own.submit(SPEC, "local", idempotency_key="one").job.id

    with ThreadPoolExecutor(4) as threads:
        ids = set(threads.map(submitted, range(8)))
    assert ids == {job.id for job in client.list_jobs()}
    assert len(ids) == 1
    client.wait(ids.pop(), timeout=60)


def test_a_refused_submit_leaves_its_key_free(client: Client) -> None:
    missing = replace(SPEC, inputs={"data": "no-such-file"})
    for _ in range(2):
        with pytest.raises(Refused):
            client.submit(missing, "local", idempotency_key="one")
    job = client.submit(SPEC, "local", idempotency_key="one").job
    client.wait(job.id, timeout=60)


def test_a_job_that_was_removed_takes_its_key_with_it(client: Client) -> None:
    first = client.submit(SPEC, "local", idempotency_key="one").job
    client.wait(first.id, timeout=60)
    client.remove(first.id)
    second = client.submit(SPEC, "local", idempotency_key="one").job
    assert second.id != first.id
    client.wait(second.id, timeout=60)


@pytest.mark.parametrize("key", ["", "  ", "x" * 256, "two\nlines", 7])
def test_what_is_no_key_is_refused(client: Client, key: str) -> None:
    with pytest.raises(TaoError, match="idempotency key"):
        client.submit(SPEC, "local", idempotency_key=key)
    assert client.list_jobs() == []


def test_secrets_are_no_part_of_what_is_compared(client: Client) -> None:
    """A token may be a new one when the submit is repeated."""
    keys = {
        client.submit(
            replace(SPEC, env_vars={"MY_TOKEN": token}), "local", idempotency_key="one"
        ).job.id
        for token in ("first-secret", "second-secret")
    }
    assert len(keys) == 1
    client.wait(keys.pop(), timeout=60)
