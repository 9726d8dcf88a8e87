"""Starting: an attempt's secrets, then its job.

A workspace makes a second job of a second request, so an attempt is looked for before it is
created, and never created again while an answer is in doubt.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from tao_sdk.backends.image_name import NGC
from tao_sdk.backends.job_environment import revealed
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.look import Look, listed
from tao_sdk.backends.lepton.parse import Object
from tao_sdk.backends.lepton.request import LeptonRequest
from tao_sdk.backends.lepton.rules import PULL_SECRETS
from tao_sdk.backends.registry_login import NGC_USER
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.transports.rest import Rest, RestRefusal

LAG_SECONDS = 3.0  # how long a list may lack a job that was created
EXISTS = (400, 409)  # statuses with which a workspace may refuse a second secret of one name


def start_attempt(
    look: Look, plan: Plan[LeptonRequest], secrets: Mapping[str, str], ngc_key: str
) -> Object:
    """Create the attempt's job, or return that which is there. Raises RestRefusal, Unreachable."""
    found = look.created_here(plan.attempt) or look.find(plan.attempt)
    if found is not None:
        return found
    rest, request = look.rest, plan.request
    if request.decisions.pull_secret:
        keep_pull_secret(rest, request.decisions.pull_secret, ngc_key)
    values = secret_values(plan, secrets)
    try:
        create_secrets(rest, values)
        return look.create(plan.attempt, request.job)
    except RestRefusal:
        for name in values:
            with suppress(TaoError):  # the refusal itself says more
                delete_secret(rest, name)
        raise
    except Unreachable as error:
        if values:
            error.nothing_sent = False  # the secrets exist: the next look finds and completes it
        raise


def find_surely(look: Look, attempt: Attempt) -> Object | None:
    """The attempt's job, also if it was created a moment ago: lists lag."""
    found = look.find(attempt)
    if found is not None:
        return found
    time.sleep(LAG_SECONDS)
    return look.find(attempt)


def secret_values(plan: Plan[LeptonRequest], secrets: Mapping[str, str]) -> dict[str, str]:
    """The name of each workspace secret of the attempt -> its value."""
    environment = plan.request.environment
    values = revealed(environment, secrets)
    return {
        secret: values[variable]
        for variable, secret in names.secret_names(plan.attempt, environment).items()
    }


def create_secrets(rest: Rest, values: Mapping[str, str]) -> None:
    """Create the workspace secrets. Those of an earlier try of the attempt are replaced."""
    if not values:
        return
    body = [
        {"name": name, "value": value, "tags": ["tao-sdk"], "visibility": "private"}
        for name, value in values.items()
    ]
    try:
        rest.ask("POST", "/usersecrets", body)
    except RestRefusal as refused:
        if refused.status not in EXISTS:
            raise
        for name in values:
            delete_secret(rest, name)
        rest.ask("POST", "/usersecrets", body)


def delete_secret(rest: Rest, name: str) -> None:
    """Delete a workspace secret, if it is there."""
    try:
        rest.ask("DELETE", f"/usersecrets/{name}")
    except RestRefusal as refused:
        if refused.status != 404:
            raise


def delete_secrets(rest: Rest, attempt: Attempt, count: int | None) -> None:
    """Delete the workspace secrets of an attempt: so many, or those in the list if that is not
    known.
    """
    prefix = names.secret_prefix(attempt)
    if count is None:
        found = [name for name in secret_list(rest) if name.startswith(prefix)]
    else:
        found = [f"{prefix}{number}" for number in range(1, count + 1)]
    for name in found:
        delete_secret(rest, name)


def secret_list(rest: Rest) -> list[str]:
    return [str(one["name"]) for one in listed(rest, rest.ask("GET", "/usersecrets"), "secrets")]


def keep_pull_secret(rest: Rest, name: str, ngc_key: str) -> None:
    """Create the pull secret that is made of NGC_KEY, unless it is there. Its name has the key's
    digest in it, so jobs share it and none overwrites another key's.
    """
    known = listed(rest, rest.ask("GET", PULL_SECRETS), "image_pull_secrets")
    if any(name == one["metadata"].get("name") for one in known):
        return
    spec = {"registry_server": NGC, "username": NGC_USER, "password": ngc_key}
    try:
        rest.ask("POST", PULL_SECRETS, {"metadata": {"name": name}, "spec": spec})
    except RestRefusal as refused:
        if refused.status != 409:  # another client was faster
            raise
