"""The texts for refusals of S3: each kind has its own code, and advice."""

from __future__ import annotations

from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_answer import is_page, led_to, no_store, redirect_failure
from tao_sdk.net.s3_endpoint import BUCKET_NAME
from tao_sdk.net.s3_xml import inner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.s3_endpoint import Endpoint
    from tao_sdk.net.web import Answer

# Codes for an answer to HEAD, which has no body.
WITHOUT_BODY = {
    301: "PermanentRedirect",
    403: "AccessDenied",
    404: "NoSuchKey",
    412: "PreconditionFailed",
    429: "SlowDown",
    500: "InternalError",
    503: "SlowDown",
}


def refusal(answer: Answer, bucket: str, key: str, store: Endpoint) -> Failure:
    """The Failure for an unsuccessful answer."""
    elsewhere = led_to(answer)
    if elsewhere:
        return redirect_failure(elsewhere, answer, store)
    if is_page(answer):
        return no_store(answer, store)
    said = inner(answer.text, "Code") or WITHOUT_BODY.get(answer.status, "no reason")
    name = NAMES.get(said, "refused")
    if name == "denied" and store.credentials.keys is None:
        name = "no_credentials"
    message = inner(answer.text, "Message").rstrip(".")
    why = (
        f"{store.endpoint or 'AWS'} answers "
        f"{said}{message and ': ' + message} (status {answer.status})."
    )
    what, next = describe_refusal(name, answer, bucket, key, store)
    return Failure("s3." + name, what, why, next)


def describe_refusal(
    name: str, answer: Answer, bucket: str, key: str, store: Endpoint
) -> tuple[str, str]:
    """(what went wrong, what to do) for a refusal, for people."""
    place = {
        "bucket": bucket,
        "object": f"s3://{bucket}/{key}",
        "region": store.regions.get(bucket, store.region),
        "endpoint": store.endpoint or "AWS",
        "looked": store.credentials.looked_places(),
        "skew": f"{abs(store.clock_ahead(answer)) / 60:.0f} min",
    }
    what, next = WORDS[name]
    return what % place, next % place


# our code -> the stores' codes
CODES = {
    "no_bucket": ("NoSuchBucket",),
    "no_key": ("NoSuchKey", "NoSuchVersion"),
    "denied": ("AccessDenied", "AllAccessDisabled", "AccountProblem"),
    "unknown_key": ("InvalidAccessKeyId", "InvalidClientTokenId"),
    "wrong_secret": ("SignatureDoesNotMatch",),
    "clock": ("RequestTimeTooSkewed", "RequestExpired"),
    "expired": (
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidToken",
        "InvalidTokenId",
        "TokenRefreshRequired",
    ),
    "region": (
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "TemporaryRedirect",
        "InvalidRegion",
        "IllegalLocationConstraintException",
    ),
    "busy": (
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "ServiceUnavailable",
        "InternalError",
        "OperationAborted",
        "TooManyRequests",
    ),
    "archived": ("InvalidObjectState",),
    "bucket_name": ("InvalidBucketName",),
    "key_name": ("KeyTooLongError", "XMinioInvalidObjectName"),
    "full": ("QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"),
    "too_large": ("EntityTooLarge",),
    "clash": ("ObjectParentIsFile", "XMinioParentIsObject", "ExistingObjectIsDirectory"),
    "exists": ("PreconditionFailed",),
}
NAMES = {code: name for name, codes in CODES.items() for code in codes}

KEYS = (
    "ACCESS_KEY and SECRET_KEY where the job is submitted (AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the job)"
)

# what, what to do
WORDS = {
    "no_bucket": (
        "There is no bucket %(bucket)s at %(endpoint)s.",
        "Check its name, and the endpoint (S3_ENDPOINT_URL). A job never creates a bucket.",
    ),
    "no_key": (
        "There is no object %(object)s.",
        "Check the key; `tao files s3://%(bucket)s/` lists what is there.",
    ),
    "denied": (
        "The keys give no access to %(object)s.",
        (
            "Ask the bucket's owner for the right to list and read it (for results, to write), "
            "or use other keys."
        ),
    ),
    "no_credentials": (
        "There are no keys for %(object)s, and it is not public.",
        "Set " + KEYS + ". Looked for, too: %(looked)s.",
    ),
    "unknown_key": (
        "%(endpoint)s does not know the access key.",
        "Check " + KEYS + ", and that they belong to this endpoint (S3_ENDPOINT_URL).",
    ),
    "wrong_secret": (
        "The secret key is wrong for this access key.",
        "Check " + KEYS + ": a blank or a cut-off character is enough.",
    ),
    "clock": (
        "The clock of this machine and that of %(endpoint)s differ by %(skew)s.",
        "Set the clock of the machine that runs the job (NTP).",
    ),
    "expired": (
        "The keys for %(endpoint)s have expired.",
        "Get new ones (AWS_SESSION_TOKEN goes with a key pair), or let the job have a role.",
    ),
    "region": (
        "The bucket %(bucket)s is not in the region %(region)s.",
        "Set CLOUD_REGION to the bucket's region.",
    ),
    "busy": (
        "%(endpoint)s was too busy to the end.",
        "Start the job again later: it goes on from what is complete.",
    ),
    "archived": (
        "%(object)s lies in an archive class and cannot be read at once.",
        "Restore it first, or copy it into a class that can be read.",
    ),
    "bucket_name": BUCKET_NAME,
    "key_name": ("The store takes no object of the name %(object)s.", "Rename it."),
    "full": ("The store is full: %(bucket)s.", "Free space in the bucket, or raise its quota."),
    "too_large": ("%(object)s is larger than the store takes.", "Write it in several files."),
    "clash": (
        "%(object)s cannot be stored: another object is where its folder would be, or below it.",
        "Rename one of them; this store keeps objects as files.",
    ),
    "exists": (
        "%(object)s is there already, or is not what it was.",
        "Look who else writes there.",
    ),
    "refused": ("%(endpoint)s refuses %(object)s.", "The store's own words tell why."),
}
