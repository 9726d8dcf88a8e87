"""What a person reads when S3 refuses: each refusal its own code, with what to do about it."""

from __future__ import annotations

from .report import Failure
from .s3_xml import inner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .s3 import S3
    from .web import Answer

WITHOUT_BODY = {
    404: "NoSuchKey",
    403: "AccessDenied",
    412: "PreconditionFailed",
    503: "SlowDown",
    301: "PermanentRedirect",
}


def refusal(answer: Answer, bucket: str, key: str, s3: S3) -> Failure:
    """The Failure of an answer that is no success."""
    said = inner(answer.text, "Code") or WITHOUT_BODY.get(answer.status, str(answer.status))
    words = inner(answer.text, "Message")
    code, what, next = WORDS.get(said, UNKNOWN)
    place = {"bucket": bucket, "key": key, "region": s3.region, "endpoint": s3.endpoint or "AWS"}
    why = "%s answers %s%s (status %d)." % (place["endpoint"], said, words and ": " + words.rstrip("."), answer.status)
    return Failure(code, what % place, why, next % place)


UNKNOWN = ("s3.refused", "S3 refuses s3://%(bucket)s/%(key)s.", "Look at the store's own words.")
WORDS = {
    "NoSuchBucket": (
        "s3.no_bucket",
        "There is no bucket %(bucket)s at %(endpoint)s.",
        "Check its name and the endpoint (AWS_ENDPOINT_URL). No bucket is ever created by a job.",
    ),
    "NoSuchKey": ("s3.no_key", "There is no object s3://%(bucket)s/%(key)s.", "Check the key; list what is there."),
    "AccessDenied": (
        "s3.denied",
        "The keys do not allow access to s3://%(bucket)s/%(key)s.",
        "Ask the bucket's owner for the right to list and read it (and to write it for results), or use other keys.",
    ),
}
