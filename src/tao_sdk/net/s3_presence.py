"""Check that an address in a bucket exists, without listing everything below it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.web import Web


def require_data(uri: str, web: Web) -> None:
    """Raise the Failure of s3_source.look if there is nothing. It does not list a whole folder."""
    from tao_sdk.net.s3 import S3
    from tao_sdk.net.s3_source import find_object, nothing_there

    bucket, key = parts(uri)
    s3, names_folder, key = S3(web), key.endswith("/"), key.rstrip("/")
    if not names_folder and find_object(s3, bucket, key):
        return
    entries = s3.list(bucket, below(key))
    if all(entry.key.endswith("/") for entry in entries):
        is_an_object = names_folder and bool(find_object(s3, bucket, key))
        raise nothing_there(uri, bucket, is_an_object)


def parts(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def below(key: str) -> str:
    return key.rstrip("/") + "/" if key.rstrip("/") else ""
