"""Signature version 4 of one request to S3. Pure. Bodies are not signed: they have their own
checksums.
"""

from __future__ import annotations

import time
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.s3_credentials import Keys

EMPTY = sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
BLOCK = 64
INNER, OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def hmac(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA256. Python's own module would load twice as much code as this file has."""
    if len(key) > BLOCK:
        key = sha256(key).digest()
    key += bytes(BLOCK - len(key))
    return sha256(key.translate(OUTER) + sha256(key.translate(INNER) + data).digest()).digest()


class Signer:
    """Signs for one region and service. The key of a day is computed once."""

    def __init__(self, region: str, service: str = "s3") -> None:
        self.region, self.service = region, service
        self.made_for = ("", "")
        self.key = b""

    def sign(
        self, keys: Keys, method: str, host: str, target: str, headers: dict[str, str], now: float
    ) -> dict[str, str]:
        """The headers with the signature added. `target`: the encoded path and sorted query."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        path, _, query = target.partition("?")
        signed = {
            "host": host,
            **{name: value for name, value in headers.items() if name.startswith("x-amz-")},
        }
        signed["x-amz-date"] = stamp
        digest = signed.setdefault(
            "x-amz-content-sha256", EMPTY if method in ("GET", "HEAD", "DELETE") else UNSIGNED
        )
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        listed = ";".join(names)
        lines = "".join([f"{name}:{' '.join(signed[name].split())}\n" for name in names])
        request = "\n".join((method, path, query, lines, listed, digest))
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{sha256(request.encode('utf-8')).hexdigest()}"
        signature = hmac(self.day_key(keys.secret, stamp[:8]), text.encode()).hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={listed}, "
            f"Signature={signature}"
        )
        return {**headers, **signed}

    def day_key(self, secret: str, day: str) -> bytes:
        if self.made_for != (secret, day):
            key = b"AWS4" + secret.encode()
            for part in (day, self.region, self.service, "aws4_request"):
                key = hmac(key, part.encode())
            self.key, self.made_for = key, (secret, day)
        return self.key
