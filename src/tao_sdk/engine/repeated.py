"""Repeated: a submit that is sent again with its idempotency key, because its reply was lost.

It starts nothing: the answer is the job of the first submit. A refused submit leaves no job, so its
key is free again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import UsageError
from tao_sdk.model.fields import plain_value
from tao_sdk.model.spec import checked

if TYPE_CHECKING:
    from tao_sdk.engine.prepare import Request
    from tao_sdk.model.idempotency import SubmitKey


def key_of(request: Request) -> SubmitKey | None:
    """The request's key, with a digest of the request; None for a request without a key."""
    if request.idempotency_key is None:
        return None
    from tao_sdk.model.idempotency import SubmitKey

    return SubmitKey(request.idempotency_key, digest_of(request))


def digest_of(request: Request) -> str:
    """Return a hash of the request, without its environment, which may hold secrets, and without
    the contents of files.
    """
    asked_for = {
        "spec": replace(checked(request.spec), env_vars={}).to_json(),
        "platform": request.platform,
        "options": plain_value(dict(request.options)),
        "parent": request.parent,
    }
    text = json.dumps(asked_for, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def job_of_key(engine: Engine, key: SubmitKey | None) -> str | None:
    """The id of the job that an earlier submit with this key started; None if there is none.

    Raises UsageError if that submit asked for something else.
    """
    earlier = engine.store.submitted_with(key.text) if key else None
    if key is None or earlier is None:
        return None
    job_id, request = earlier
    if request != key.request:
        raise UsageError(
            f"The idempotency key {key.text!r} is that of {job_id}, which is another job.",
            "Its command, settings or platform differ.",
            "Use a new key for a new job. The job of this key:",
            f"tao status {job_id}",
        )
    return job_id
