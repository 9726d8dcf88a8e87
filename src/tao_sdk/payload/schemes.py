"""Schemes: the addresses that a job can read and write, and advice for the others. Decided before
submit.
"""

from __future__ import annotations

import re

from tao_sdk.model.errors import SpecError
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.net.address import MODULES, path_of, scheme, shown

MISTAKEN = {
    "aws": "Write s3://bucket/key.",
    "hf": "Write hf_model://org/name or hf_dataset://org/name.",
    "gs": "Use a bucket with an S3 endpoint, or a mounted path.",
    "azure": "Mount the container into the job and name the path.",
}
MISWRITTEN = lazy_compile(r"(\w+)(?::/(?!/)|//)")  # one slash or the colon is missing
# The platform that can mount it replaces it by a path before it is checked.
CLAIM = "pvc"
CLAIM_ADVICE = (
    "Only a job of the cluster can read it, as an input: --platform kubernetes. Elsewhere fetch it "
    "first: tao results JOB --fetch DIR, with --epoch best for the best checkpoint alone. For "
    "results mount the claim: mounts: [pvc://claim/folder:/results]."
)
STAGED_ANYWHERE = frozenset({"hf_model", "hf_dataset", "ngc"})  # no program reads these by itself
# nor these, but they name a path, under which it can be read as it is
SHARED = frozenset({"lustre", "slurm"})
WRITTEN = frozenset({"", "file", "lustre", "s3"})
# old ones have capitals and underscores
BUCKET = lazy_compile(r"(?!.*\.\.)[A-Za-z0-9][\w.-]{1,61}[A-Za-z0-9]", re.ASCII)
ANY_BUCKET = lazy_compile(r"[A-Za-z0-9][\w.-]{0,254}", re.ASCII)  # older ones have up to 255
# of a web address, without a login
HOST = lazy_compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]?#]+)(?::(?P<port>[0-9]{0,9}))?", re.ASCII)
LAST_PORT = 65535
UNPRINTABLE = lazy_compile(r"[\x00-\x1f\x7f-\x9f]")

# scheme -> how many names have to follow, how the address is written
SHAPES = {
    "s3": (1, "s3://bucket/key"),
    "hf_model": (
        1,
        "hf_model://org/name, hf_model://org/name@revision or hf_model://org/name/path",
    ),
    "hf_dataset": (
        1,
        "hf_dataset://org/name, hf_dataset://org/name@revision or hf_dataset://org/name/path",
    ),
    "ngc": (2, "ngc://org/team/name:version or ngc://org/name:version"),
    "http": (1, "http://host/path"),
    "https": (1, "https://host/path"),
}


def check(uri: str, place: str) -> None:
    """Raise SpecError, naming the scheme, for an address this version cannot deal with."""
    name = scheme(uri)
    if name in MISTAKEN:
        raise SpecError(
            f"{place} is {shown(uri)}: {name}:// is not a scheme of a job.", next=MISTAKEN[name]
        )
    if name == CLAIM:
        raise SpecError(
            f"{place} is {shown(uri)}: that is a claim of a Kubernetes cluster.", next=CLAIM_ADVICE
        )
    if name not in MODULES:
        raise unknown_scheme(uri, name, place)
    if not name:
        refuse_miswritten(uri, place)
    if name in SHAPES:
        refuse_unprintable(uri, place)
        check_shape(uri, name, place)
    elif name and not path_of(uri).startswith("/"):
        raise SpecError(
            f"{place} is {shown(uri)}: a path has to follow {name}://.",
            next=f"Write {name}:///absolute/path, with three slashes.",
        )
    if "\0" in uri:
        raise SpecError(f"{place} holds a NUL character.", "No path can.", "Leave it out.")


def unknown_scheme(uri: str, name: str, place: str) -> SpecError:
    from difflib import get_close_matches

    advice = "Write an absolute path, or file:///path."
    for near in get_close_matches(name, MODULES, n=1):
        advice = f"Did you mean {near}://?"
    return SpecError(f"{place} is {shown(uri)}: {name}:// is unknown.", next=advice)


def refuse_miswritten(path: str, place: str) -> None:
    """Raise SpecError for a path that is nearly an address: s3:/bucket, s3//bucket."""
    mark = MISWRITTEN.match(path)
    if mark and mark[1] in MODULES:
        raise SpecError(
            f"{place} is {shown(path)}, which is no address.", next=f"Did you mean {mark[1]}://?"
        )


def refuse_unprintable(uri: str, place: str) -> None:
    """Raise SpecError for an address with a line end: it could end a line of a request, a log or a
    listing.
    """
    if UNPRINTABLE.search(uri):
        address = UNPRINTABLE.sub("?", shown(uri))
        raise SpecError(
            f"{place} is {address}: it has a newline or another control character.",
            "No address has.",
            "Leave it out.",
        )


def check_shape(uri: str, name: str, place: str) -> None:
    """Raise SpecError for an address of that scheme that is not in its form."""
    least, shape = SHAPES[name]
    names = uri.partition("://")[2].split("/")
    if len(names) < least or not all(names[:least]):
        raise SpecError(
            f"{place} is {shown(uri)}: that is no complete address.", next=f"Write {shape}."
        )
    if name == "s3" and not ANY_BUCKET.fullmatch(names[0]):
        raise no_bucket(uri, place)
    if MODULES[name] == "http_file":
        check_host(uri, names[0], place)
        refuse_web_folder(uri, place)


def refuse_web_folder(uri: str, place: str) -> None:
    """Raise SpecError for a web address that ends in a slash."""
    if uri.partition("?")[0].endswith("/"):
        raise SpecError(
            f"{place} is {shown(uri)}: a slash at the end means a folder.",
            "A web server has no folders: nothing tells which files lie below an address.",
            "Name each file, or an archive (.tar.gz, .zip) of the folder.",
        )


def check_host(uri: str, host: str, place: str) -> None:
    """Raise SpecError for a host that nothing can connect to."""
    found = HOST.fullmatch(re.split("[?#]", host)[0].rpartition("@")[2])
    if not found:
        advice = "Write host, host:port or [IPv6 address]:port, with a port in digits."
        raise SpecError(f"{place} is {shown(uri)}: invalid host or port.", next=advice)
    if found["port"] and not 0 < int(found["port"]) <= LAST_PORT:
        advice = f"Write a port from 1 to {LAST_PORT}."
        raise SpecError(f"{place} is {shown(uri)}: invalid port {found['port']}.", next=advice)


def check_output(uri: str, place: str) -> None:
    """Check an address that is written to. Raises SpecError."""
    check(uri, place)
    if scheme(uri) not in WRITTEN:
        raise SpecError(
            f"{place} is {shown(uri)}: results cannot be written to {scheme(uri)}://.",
            next=(
                "Write an absolute path or s3://bucket/prefix, or leave it "
                "empty to have a place chosen."
            ),
        )


def results_root(root: str) -> str:
    """The folder, or the prefix in a bucket, that results of all jobs lie below. Raises SpecError
    for anything else.
    """
    place = "TAO_RESULTS_ROOT"
    if scheme(root) in SHARED:
        check(root, place)
    else:
        check_output(root, place)
    check_bucket(root, place)
    if is_local_path(root):
        return path_of(root)
    return "s3" + root[len("s3") :]  # the scheme may be in capitals


def check_bucket(uri: str, place: str) -> None:
    """Raise SpecError for results in a bucket that no store can have: its name becomes part of a
    host name.
    """
    bucket = uri.partition("://")[2].partition("/")[0]
    if scheme(uri) == "s3" and not BUCKET.fullmatch(bucket):
        raise no_bucket(uri, place)


def no_bucket(uri: str, place: str) -> SpecError:
    what, advice = bucket_words()
    bucket = uri.partition("://")[2].partition("/")[0]
    told = f"{place} is {shown(uri)}: {what % {'bucket': bucket}}"
    return SpecError(UNPRINTABLE.sub("?", told), next=advice)


def bucket_words() -> tuple[str, str]:
    """(what is wrong, what to do) for the name of a bucket that no store can have."""
    from tao_sdk.net.s3_words import WORDS  # loads what speaks with a store

    return WORDS["bucket_name"]


def is_local_path(uri: str) -> bool:
    """True for a path of the machine itself, which needs no fetch."""
    return MODULES.get(scheme(uri)) == "local"
