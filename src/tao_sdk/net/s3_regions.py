"""Regions of AWS, whose endpoints have them in their names."""

from __future__ import annotations

from tao_sdk.net.s3_xml import inner
from tao_sdk.net.web import resolved
from tao_sdk.net.wire import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.web import Answer
    from tao_sdk.net.wire import Origin

AWS = (".amazonaws.com", ".amazonaws.com.cn")
GLOBAL = "s3.amazonaws.com"  # AWS's endpoint that names no region


def region_named(answer: Answer) -> str:
    """The region in the endpoint of AWS that a redirect of AWS leads to; "" for anybody else's."""
    if not on_aws(split(answer.url)[0]):
        return ""
    named = inner(answer.text, "Endpoint") or split(resolved(answer.url, answer.headers.get("location", "")))[0][1]
    return region_of(named.lower())


def on_aws(origin: Origin) -> bool:
    return origin[1].endswith(AWS)


def region_of(host: str) -> str:
    """eu-west-3 of bucket.s3.eu-west-3.amazonaws.com; "" where there is none, or it is not AWS's."""
    suffix = next((each for each in AWS if host.endswith(each)), "")
    label = host[: -len(suffix)].rpartition(".")[2] if suffix else ""
    region = label[len("s3-") :] if label.startswith("s3-") else label
    return region if region.count("-") >= 2 and region.replace("-", "").isalnum() else ""


def regional(endpoint: str, region: str) -> str:
    """An endpoint of AWS for another region; what is not AWS's stays."""
    origin, _ = split(endpoint)
    host = origin[1]
    if not on_aws(origin):
        return endpoint
    here = region_of(host)
    if not here:
        return endpoint.replace(GLOBAL, f"s3.{region}.amazonaws.com", 1) if host == GLOBAL else endpoint
    return endpoint.replace(here, region, 1)
