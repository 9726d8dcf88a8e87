"""Store settings: the S3 settings that a job gets, checked before submit.

A bucket becomes part of an address, keys and region part of a header. A value that can be in
neither is reported here, by the name of its variable, instead of in the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from tao_sdk.model.errors import CredentialError, SpecError
from tao_sdk.net.address import shown
from tao_sdk.payload.schemes import BUCKET, UNPRINTABLE, bucket_words

REGION = re.compile(r"[\w.-]+", re.ASCII)


def check_store(env: Mapping[str, str], name_of: Callable[[str], str]) -> None:
    """Raise CredentialError or SpecError for settings that no store can have. `name_of`: the
    caller's name for a variable.
    """
    for variable, check in CHECKS.items():
        if value := env.get(variable):
            check(name_of(variable), value)


def check_key(name: str, value: str) -> None:
    """Raise CredentialError for a key that no header can hold."""
    if value.isascii() and not UNPRINTABLE.search(value):
        return
    raise CredentialError(
        f"{name} contains a newline or another character that no key has.",
        "It could not stand in the header of a request.",
        f"Set {name} again, without the line end that was copied with it.",
    )


def check_region(name: str, value: str) -> None:
    if not REGION.fullmatch(value):
        raise SpecError(
            f"{name} is {value!r}, which is no region.", "", "Write a name such as us-east-1."
        )


def check_bucket_name(name: str, value: str) -> None:
    if not BUCKET.fullmatch(value):
        what, advice = bucket_words()
        raise SpecError(f"{name}: {what % {'bucket': repr(value)}}", next=advice)


def check_endpoint(name: str, value: str) -> None:
    if why := why_no_endpoint(value):
        raise SpecError(
            f"{name} is {shown(value)!r}, which is no address of a store.",
            why,
            "Write http://host:port or https://host.",
        )


def why_no_endpoint(value: str) -> str:
    """A sentence that says why no store can have this address; "" if one can."""
    if UNPRINTABLE.search(value) or " " in value:
        return "It has a blank or a control character in it."
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    if parts.scheme.lower() not in ("http", "https"):
        return "It does not start with http:// or https://."
    if port == 0:
        return "It names no port."
    if not parts.hostname:
        return "It names no host."
    return ""


CHECKS: Mapping[str, Callable[[str, str], None]] = {
    **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), check_key),
    **dict.fromkeys(("ACCESS_KEY", "SECRET_KEY"), check_key),
    **dict.fromkeys(("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"), check_endpoint),
    **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_REGION"), check_region),
    "S3_BUCKET_NAME": check_bucket_name,
}
