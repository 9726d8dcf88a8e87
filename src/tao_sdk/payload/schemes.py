"""Schemes: which addresses a job can read and write, and what to do about the others. Decided before submit."""

from __future__ import annotations

from tao_sdk.model.errors import SpecError
from tao_sdk.runner.local import path_of
from tao_sdk.runner.scheme import MODULES, scheme

# Not built yet. One line goes when its module comes.
PLANNED = {
    "s3": "Mount the data into the job and name its path.",
    "hf_model": "Download the model first, mount it into the job and name its path.",
    "hf_dataset": "Download the data set first, mount it into the job and name its path.",
    "ngc": "Download it first, mount it into the job and name its path.",
    "http": "Download it first, mount it into the job and name its path.",
    "https": "Download it first, mount it into the job and name its path.",
}
MISTAKEN = {
    "aws": "Write s3://bucket/key.",
    "hf": "Write hf_model://org/name or hf_dataset://org/name.",
    "gs": "Use a bucket with an S3 endpoint, or a mounted path.",
    "azure": "Mount the container into the job and name the path.",
}
STAGED_ANYWHERE = frozenset({"hf_model", "hf_dataset", "ngc"})  # no program reads these by itself


def check(uri: str, place: str) -> None:
    """Raise SpecError, naming the scheme, for an address this version cannot deal with."""
    name = scheme(uri)
    if name in PLANNED:
        raise SpecError(f"{place} is {shown(uri)}: {name}:// is not built yet.", next=PLANNED[name])
    if name in MISTAKEN:
        raise SpecError(f"{place} is {shown(uri)}: {name}:// is not a scheme of a job.", next=MISTAKEN[name])
    if name not in MODULES:
        raise SpecError(
            f"{place} is {shown(uri)}: {name}:// is unknown.", next="Write an absolute path, or file:///path."
        )
    if name and not path_of(uri).startswith("/"):
        raise SpecError(
            f"{place} is {shown(uri)}: a path has to follow {name}://.",
            next=f"Write {name}:///absolute/path, with three slashes.",
        )
    if "\0" in uri:
        raise SpecError(f"{place} holds a NUL character.", "No path can.")


def shown(uri: str) -> str:
    """The address without what may be secret in it: a user's name and password, a signed query."""
    head, mark, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    return f"{head}{mark}{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}" if mark else uri
