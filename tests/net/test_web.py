"""HTTP as the runner speaks it: odd servers and odd names."""

from __future__ import annotations

import pytest

from support.servers.fixed_answers import FixedAnswers
from tao_sdk.net.failure import Failure
from tao_sdk.net.web import Web


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
            b"chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\ntrailer: x\r\n\r\n"
        ),
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ],
)
def test_bodies_of_every_kind_are_read(answer):
    assert Web({}).ask("GET", FixedAnswers(answer).url).body == b"hello"


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhe", b""],
)
def test_what_is_no_http_or_no_whole_answer_is_told(answer):
    with pytest.raises(Failure) as failure:
        Web({"TAO_RETRY_SECONDS": "0.001"}).ask("GET", FixedAnswers(answer).url)  # it is asked once
    assert failure.value.code == "web.broken"


@pytest.mark.parametrize(
    "host", [".s3.example.com", "a" * 64 + ".example.com", "a..b", "\udcff.example.com"]
)
@pytest.mark.parametrize(
    "proxy, code", [("", "web.dns"), ("http://" + "p" * 64 + ".example.com", "web.proxy")]
)
def test_a_name_that_no_host_can_have_is_told_as_one_that_nobody_knows(host, proxy, code):
    with pytest.raises(Failure) as failure:
        Web({"https_proxy": proxy, "TAO_RETRY_SECONDS": "0.1"}).ask("GET", f"https://{host}/")
    assert failure.value.code == code
    assert failure.value.why == "invalid host name or port."
