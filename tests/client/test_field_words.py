"""Advice for Python callers names keywords, not the flags of the command."""

from __future__ import annotations

import pytest

from tao_sdk.backends.by_name import backend_class
from tao_sdk.client.field_words import FieldWords
from tao_sdk.engine.rules import RULES


def words(platform: str) -> FieldWords:
    return FieldWords(backend_class(platform).Options)


@pytest.mark.parametrize(
    ("advice", "told"),
    [
        ("ask for more memory (--memory 64g).", 'ask for more memory (memory="64g").'),
        ("Give it more (--time-limit).", "Give it more (time_limit)."),
        ("Without a GPU: --gpus 0", "Without a GPU: gpu_count=0"),
        ("with --retries 3; then", "with retries=3; then"),
        ("again with tao run --env A_B=1, and", 'again with env_vars={"A_B": "1"}, and'),
        ("Send it: --files lib/a.py, or", 'Send it: files={"lib/a.py": Path("lib/a.py")}, or'),
        ("under a name: --inputs NAME=PATH.", 'under a name: inputs={"NAME": "PATH"}.'),
        ("other nodes (--exclude NODE)", 'other nodes (exclude="NODE")'),
        ("nvidia-ctk --runtime=docker; kubectl --docker-server=a.b", ""),
        ("the mounts (-o remount,size=16g /dev/shm)", ""),
    ],
)
def test_a_flag_is_told_as_the_keyword_of_create_job(advice: str, told: str) -> None:
    assert words("slurm").in_fields(advice) == (told or advice)


def test_no_rule_leaves_a_flag_of_a_jobs_field() -> None:
    own = words("local")
    for rule in RULES:
        for advice in (rule.next, *rule.next_without.values()):
            told = own.in_fields(advice)
            assert not [flag for flag in own.kinds if f"{flag} " in told], rule.code
