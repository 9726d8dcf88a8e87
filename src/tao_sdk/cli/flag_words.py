"""Flag words: turn advice that names a job's field into the flag that a person types.

The SDK says `gpu_count=0`, as its Python callers write it. The command says `--gpus 0`.
"""

from __future__ import annotations

import re

# a flag with its value, which stays as it is, or a name with a number
FLAG_OR_FIELD = re.compile(r"--[\w-]+[ =]\S+|(?<![\w.'\"(-])([a-z]\w*)=(\d+(?:\.\d+)?)")


def with_flags(advice: str) -> str:
    """The advice with `--gpus 0` for `gpu_count=0`, for each field of a job with a number."""
    return FLAG_OR_FIELD.sub(flag_for, advice)


def flag_for(found: re.Match[str]) -> str:
    from tao_sdk.client.typed_values import typed_flag
    from tao_sdk.model.fields import settings_of
    from tao_sdk.model.spec import JobSpec

    name, value = found.groups()
    if name is None or name not in settings_of(JobSpec):
        return found[0]
    return f"{typed_flag(JobSpec, name)} {value}"
