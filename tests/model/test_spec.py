from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import settings_of
from tao_sdk.model.secrets import (
    Redactor,
    Secret,
    SecretRef,
    is_secret_name,
    shown_target,
    split_secrets,
)
from tao_sdk.model.spec import JobSpec, dns_label, is_job_id, mint_id, read_spec, stored_spec
from tao_sdk.model.units import format_duration, parse_duration, parse_size
from tao_sdk.platforms.local import LocalSDK


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"comand": "true"}, "unknown key 'comand'. Did you mean command?"),
        ({"command": ""}, "command is missing"),
        (
            {"command": "true", "gpu_count": "four"},
            "gpu_count is 'four'; it must be a whole number of -1 or more.",
        ),
        ({"command": "true", "gpu_count": 1.5}, "gpu_count is 1.5"),
        ({"command": "true", "gpu_count": True}, "gpu_count is True"),
        (
            {"command": "true", "num_nodes": 0},
            "num_nodes is 0; it must be a whole number of 1 or more.",
        ),
        (
            {"command": "true", "time_limit": "soon"},
            "time_limit is 'soon'; it must be a duration such as 90s",
        ),
        ({"command": "true", "time_limit": 0}, "time_limit is 0"),
        ({"command": "true", "memory": "lots"}, "memory is 'lots'; it must be a size such as 512m"),
        (
            {"command": "true", "mode": "yaml"},
            "mode is 'yaml'; it must be one of config, args, passthrough.",
        ),
        (
            {"command": "true", "labels": ["a"]},
            "labels is a list; it must be a mapping of names to texts.",
        ),
        ({"command": "true", "env_vars": {"A B": "1"}}, "env_vars has the name 'A B'"),
        ({"command": "true", "env_vars": {"A": "\0"}}, "contains a NUL byte"),
        (
            {"command": "true", "env_vars": {"A": "\ud800"}},
            "env_vars['A'] is neither text nor bytes",
        ),
        (
            {"command": "true", "env_vars": {"A": Secret("\ud800")}},
            "env_vars['A'] is neither text nor bytes",
        ),
        ({"command": "echo \udcff"}, "command contains bytes that are not UTF-8"),
        ({"command": "true", "name": "\udcff"}, "name contains bytes that are not UTF-8"),
        (
            {"command": "true", "labels": {"\udcff": "x"}},
            "labels contains bytes that are not UTF-8",
        ),
        ({"command": "true", "specs": {}, "args": {}}, "both specs and args are given"),
        ({"command": "true", "hooks": {"on_compleet": "x"}}, "Did you mean on_complete?"),
        (
            {"command": "true", "hooks": {"on_error": {"a": "b"}}},
            "hooks.on_error is {'a': 'b'}; it must be a command",
        ),
        (
            {"command": "true", "hooks": {"on_error": "htp://x"}},
            "it must be a command, a list of its words, or the address",
        ),
        ({"command": "true", "hooks": {"on_error": []}}, "hooks.on_error is []"),
        ({"command": "true", "hooks": {"on_error": ["echo", 1]}}, "hooks.on_error is ['echo', 1]"),
        ({"command": "true", "hooks": {"on_error": "a\0b"}}, "hooks.on_error is"),
        ({"command": "true", "hooks": {"on_error": " "}}, "hooks.on_error is ' '"),
        ({"command": "true", "cpus": float("inf")}, "cpus is inf"),
        (
            {"command": "true", "env_vars": {"A": "x" * 200_000}},
            "env_vars['A'] has 200,002 bytes; Linux starts no program with",
        ),
        (
            {"command": "true", "env_vars": {"A_KEY": Secret("a\0b")}},
            "env_vars['A_KEY'] contains a NUL byte",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_is_allowed(
    values: dict[str, object], words: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        read_spec(values)


def test_a_variable_without_a_value_is_left_out() -> None:
    assert read_spec({"command": "true", "env_vars": {"A": None, "B": ""}}).env_vars == {"B": ""}


def test_a_stored_spec_reads_back_without_its_secrets() -> None:
    spec = read_spec(
        {
            "command": "true",
            "env_vars": {"A": 1, "KEY": Secret("x")},
            "time_limit": "90m",
            "labels": {"a": True},
        }
    )
    kept = JobSpec(
        command="true",
        env_vars=split_secrets(spec.env_vars)[0],
        time_limit=spec.time_limit,
        labels=spec.labels,
    )
    back = stored_spec(kept.to_json())
    assert back == kept
    assert back.env_vars == {"A": "1", "KEY": SecretRef("KEY")}


@given(st.text(max_size=60))
def test_an_id_is_a_dns_label_of_at_most_28_characters_whatever_the_name(name: str) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job_id := mint_id(name))
    assert is_job_id(job_id) and not is_job_id(f"{job_id}/log")
    assert len(job_id) <= 28
    assert job_id.startswith(dns_label(name))


@pytest.mark.parametrize(
    ("name", "label"), [("Ünïcode 模型 2", "unicode-2"), ("模型", "job"), ("ﬁne", "fine")]
)
def test_an_accented_letter_in_a_name_counts_as_the_letter(name: str, label: str) -> None:
    assert dns_label(name) == label


@given(st.one_of(st.integers(1, 10**7).map(lambda number: number * 1000), st.integers(1, 10**9)))
def test_a_duration_reads_back_from_how_it_is_written(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


def test_a_duration_is_written_as_people_write_it() -> None:
    texts = ["0s", "0.5s", "90s", "45m", "4h", "2d"]
    assert [format_duration(parse_duration(text)) for text in texts] == texts


def test_durations_and_sizes_as_people_write_them() -> None:
    assert parse_duration("1-12:00:00") == timedelta(hours=36)
    assert parse_duration("1h30m") == timedelta(minutes=90)
    assert parse_size("8g") == parse_size("8GiB") == 8 * 1024**3


def test_a_clock_without_seconds_has_days_before_it() -> None:
    assert parse_duration("1-12:30") == timedelta(hours=36, minutes=30)
    assert parse_duration("0:30:00") == timedelta(minutes=30)
    with pytest.raises(ValueError):
        parse_duration("30:00")


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("memory", "32", "Without a unit it is bytes. Write 32g, or 32m."),
        ("shm_size", 8, "Without a unit it is bytes. Write 8g, or 8m."),
        ("time_limit", 10, "It has no unit. Write 10m for minutes, or 10h for hours."),
        ("time_limit", "30:00", "Write 30:00:00 for hours and minutes, or 0:30:00 for minutes"),
    ],
)
def test_a_number_whose_unit_is_not_clear_is_refused_with_what_to_write(
    field: str, value: object, advice: str
) -> None:
    with pytest.raises(SpecError) as told:
        read_spec({"command": "true", field: value})
    assert told.value.what.startswith(f"{field} is {value!r}; it must be a ")
    assert told.value.next.startswith(advice)


@pytest.mark.parametrize("documented", [JobSpec, LocalSDK.create_job, DockerOptions])
def test_the_help_of_a_program_says_what_each_field_means(documented: Any) -> None:
    record = documented if documented is DockerOptions else JobSpec
    lines = (documented.__doc__ or "").splitlines()
    for name, field in settings_of(record).items():
        assert any(line.startswith(f"{name} (") for line in lines)
        assert field.metadata["help"] in documented.__doc__
    if record is JobSpec:
        assert "gpu_count (a whole number of -1 or more; 1 if not given): GPUs per node" in (
            documented.__doc__
        )


def test_a_size_in_bytes_is_one() -> None:
    assert read_spec({"command": "true", "memory": 34359738368}).memory == "34359738368"


def test_no_form_of_a_secret_shows_its_value() -> None:
    assert (
        "hunter22"
        not in repr(Secret("hunter22")) + str(Secret("hunter22")) + f"{Secret('hunter22')}"
    )


def test_a_name_is_secret_by_its_words_but_for_the_few_that_are_known_not_to_be() -> None:
    assert all(map(is_secret_name, ("NGC_KEY", "hf_token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY")))
    assert not any(
        map(is_secret_name, ("SSH_KEY_PATH", "TOKENIZERS_PARALLELISM", "PATH", "S3_BUCKET_NAME"))
    )


def test_a_variable_that_holds_a_secret_among_others_is_secret_too() -> None:
    plain, values = split_secrets(
        {"URL": "https://me:hunter22@host", "GIT_TOKEN": "hunter22", "N": "1"}
    )
    assert plain == {"URL": SecretRef("URL"), "GIT_TOKEN": SecretRef("GIT_TOKEN"), "N": "1"}
    assert values == {"URL": "https://me:hunter22@host", "GIT_TOKEN": "hunter22"}


def test_the_longest_secret_is_replaced_first() -> None:
    assert Redactor.of_values(["abcdef", "abcdefgh"])("x abcdefgh y") == "x *** y"
    assert Redactor.of_values(["abcdef\r\n"])("x abcdef y") == "x *** y"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://host/hook", "https://host/hook"),
        ("https://host/hook?token=abc&room=1", "https://host/hook?token=***&room=***"),
        ("https://host/hook?abc", "https://host/hook?***"),
        ("https://me:p@w@host/hook", "https://***@host/hook"),
        ("HTTPS://host/a?b=c d=e#f", "HTTPS://host/a?b=***"),
        (
            "curl -d @- 'https://host/hook?token=abc' && echo a?b=c",
            "curl -d @- 'https://host/hook?token=***' && echo a?b=c",
        ),
        (["curl", "https://host/?k=v"], ["curl", "https://host/?k=***"]),
    ],
)
def test_a_hooks_target_is_shown_without_logins_and_the_values_of_a_query(
    target: object, shown: object
) -> None:
    assert shown_target(target) == shown
