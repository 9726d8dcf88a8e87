"""Find the keys for S3, in the environment, web identity, container or instance, and renew them
before they expire.

Without keys, requests are not signed, which works for a public bucket.
"""

from __future__ import annotations

import threading
import time

from tao_sdk.net.failure import Failure
from tao_sdk.net.wire import host_header, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tao_sdk.net.web import Answer, Headers, Web

# The variables with an access key, its secret, and the session token of keys that expire.
NAMES = (
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ("ACCESS_KEY", "SECRET_KEY", ""),
)
EARLY = (
    300.0  # keys are renewed this many seconds before they expire, or at half their life if later
)
SHORT = 2.0  # seconds of retries for a service that may not exist
LATER = 30.0  # seconds until the next try to renew keys
CONTAINER = "http://169.254.170.2"
INSTANCE = "http://169.254.169.254"
NO_KEYS = "What came holds no keys: a login page of the network, perhaps"


class Keys:
    """A key pair. `ends`: the unix time when it expires; 0 for never."""

    def __init__(self, access: str, secret: str, token: str = "", ends: float = 0.0) -> None:
        self.access, self.secret, self.token, self.ends = access, secret, token, ends
        self.due = ends - min(EARLY, max(0.0, ends - time.time()) / 2)

    @property
    def is_old(self) -> bool:
        """True once the keys should be replaced."""
        return bool(self.ends) and self.due < time.time()


class Credentials:
    """The keys from this job's environment, container or machine. Thread-safe."""

    def __init__(self, web: Web, on_aws: bool) -> None:
        self.web, self.env, self.on_aws = web, web.env, on_aws
        self.near: Web | None = None
        self.lock = threading.Lock()
        self.keys: Keys | None = None
        self.asked = False

    def current_keys(self) -> Keys | None:
        """The current keys, renewed if due; None to send requests unsigned."""
        keys = self.keys
        if self.asked and not (keys and keys.is_old):
            return keys
        with self.lock:
            if not self.asked or (self.keys and self.keys.is_old):
                self.keys, self.asked = self.fetch_keys(), True
            return self.keys

    def renew_keys(self, refused: Keys) -> bool:
        """Replace keys that the store refused. True if there are other keys now."""
        if not refused.ends:
            return False
        with self.lock:
            if self.keys is refused:
                self.keys = self.fetch_keys()
            return self.keys is not None and self.keys.access != refused.access

    def fetch_keys(self) -> Keys | None:
        """New keys, or the old ones if there are no new ones now. Raises Failure without either."""
        keys = self.keys
        if keys:
            keys.due = time.time() + LATER
        try:
            return self.find_keys() or keys
        except Failure:
            if not keys:
                raise
            return keys

    def ask_provider(
        self, web: Web, method: str, url: str, headers: Headers, body: bytes = b""
    ) -> Answer:
        """The answer of a service that issues keys. If there are keys already, retries stop after
        SHORT seconds. Redirects are not followed.
        """
        return web.ask(method, url, headers, body, follow=False, patience=SHORT * bool(self.keys))

    def direct_web(self) -> Web:
        """A client without a proxy, for services of this machine: a proxy would see the keys."""
        if self.near is None:
            proxies = [name for name in self.env if name.lower().endswith("_proxy")]
            self.near = type(self.web)(
                {name: value for name, value in self.env.items() if name not in proxies}
            )
            self.near.tell = self.web.tell
        return self.near

    def find_keys(self) -> Keys | None:
        """The keys from the first place that has some, or None."""
        for names in NAMES:
            access, secret, token = [self.env.get(name, "") for name in names]
            if access and secret:
                return Keys(access.strip(), secret.strip(), token.strip())
        if self.env.get("AWS_WEB_IDENTITY_TOKEN_FILE") and self.env.get("AWS_ROLE_ARN"):
            return self.web_identity_keys()
        if self.env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or self.env.get(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI"
        ):
            return self.container_keys()
        named = self.env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        if (named or self.on_aws) and self.env.get(
            "AWS_EC2_METADATA_DISABLED", ""
        ).lower() != "true":
            return self.instance_keys((named or INSTANCE).rstrip("/"))
        return None

    def web_identity_keys(self) -> Keys:
        """The keys that the token service issues for the token in a file. The file is read each
        time, because the token is replaced now and then.
        """
        from tao_sdk.net.percent import query
        from tao_sdk.net.s3_xml import inner

        region = self.env.get("AWS_REGION") or self.env.get("AWS_DEFAULT_REGION") or "us-east-1"
        service = self.env.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self.env["AWS_ROLE_ARN"],
            "RoleSessionName": self.env.get("AWS_ROLE_SESSION_NAME") or f"tao-{time.time():.0f}",
            "WebIdentityToken": read_token(self.env["AWS_WEB_IDENTITY_TOKEN_FILE"]),
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = self.ask_provider(
            self.web, "POST", service.rstrip("/") + "/", headers, query(form).encode()
        )
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        access, secret, token, ends = [inner(answer.text, name) for name in names]
        if answer.status == 200 and access and secret and token:
            return Keys(access, secret, token, unix_time(ends))
        why = NO_KEYS if answer.status == 200 else inner(answer.text, "Message")
        raise no_keys("The token service does not give keys", answer, why)

    def container_keys(self) -> Keys:
        """The keys of the container's role, from the service in its environment variables."""
        relative = self.env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = CONTAINER + relative if relative else self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
        headers: Headers = {}
        if self.env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            headers["authorization"] = read_token(
                self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]
            )
        elif self.env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"):
            headers["authorization"] = self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
        answer = self.ask_provider(self.direct_web(), "GET", url, headers)
        return from_json(answer, "The container's credentials endpoint gives no keys")

    def instance_keys(self, endpoint: str) -> Keys | None:
        """The keys of this machine's role; None if no service offers any."""
        try:
            headers = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
            url = endpoint + "/latest/api/token"
            token = self.direct_web().ask("PUT", url, headers, follow=False, patience=SHORT)
        except Failure:
            return None
        if token.status == 200 and not is_word(token.text):
            return None  # a web page: another server answers there
        headers = {"x-aws-ec2-metadata-token": token.text.strip()} if token.status == 200 else {}
        url = endpoint + "/latest/meta-data/iam/security-credentials/"
        role = self.ask_provider(self.direct_web(), "GET", url, headers)
        if role.status != 200 or not is_word(role.text.split("\n")[0]):
            return None
        answer = self.ask_provider(self.direct_web(), "GET", url + role.text.split()[0], headers)
        return from_json(answer, "The instance's metadata service gives no keys")

    def looked_places(self) -> str:
        """The other places that were searched for keys, for a message."""
        instance = ", and the instance's metadata" if self.on_aws else ""
        return "AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_CREDENTIALS_FULL_URI" + instance


def is_word(text: str) -> bool:
    """True for a text without blanks that can be a token or a role's name, not a web page."""
    return len(text.split()) == 1 and "<" not in text and text.strip().isprintable()


def from_json(answer: Answer, what: str) -> Keys:
    """The keys in an answer. Raises a Failure that begins with `what` if there are none."""
    if answer.status != 200:
        raise no_keys(what, answer, "")
    import json

    try:
        said: dict[str, Any] = json.loads(answer.text)
        words = [said["AccessKeyId"], said["SecretAccessKey"]]
        words += [said.get(name) or "" for name in ("Token", "Expiration")]
        "".join(words)  # a TypeError where one is no text
        access, secret, token, ends = words
        return Keys(access, secret, token, unix_time(ends))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise no_keys(what, answer, NO_KEYS) from error


def unix_time(text: str) -> float:
    """Unix seconds of 2026-01-31T10:20:30Z; 0 for an empty text."""
    from calendar import timegm

    return float(timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else 0.0


def read_token(path: str) -> str:
    """The token in a file. Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            "s3.credentials",
            f"The token file cannot be read: {path}",
            f"{getattr(error, 'strerror', 'It is no UTF-8 text')}.",
            "Name a file that holds a token.",
        ) from error


def no_keys(what: str, answer: Answer, why: str) -> Failure:
    where = host_header(split_url(answer.url)[0])
    return Failure(
        "s3.credentials",
        f"{what}: {where}.",
        f"{why.rstrip('.') or 'It gives no reason'} (status {answer.status}).",
        "Check the role and its token, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    )
