"""Redirects: where they lead, and what is not carried there."""

from __future__ import annotations

import urllib.request

import pytest

from support.servers.fixed_answers import FixedAnswers
from support.servers.web_server import Reply, WebServer
from tao_sdk.net.failure import Failure
from tao_sdk.net.redirects import is_local_address, resolve_location
from tao_sdk.net.web import Web


def test_an_authorization_is_not_carried_to_another_host():
    there = FixedAnswers(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    here = FixedAnswers(
        b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n",
        f"HTTP/1.1 302 Found\r\nlocation: {there.url}/x\r\ncontent-length: 0\r\n\r\n".encode(),
    )
    answer = Web({}).ask("GET", here.url + "/y", {"authorization": "Bearer secret", "accept": "x"})
    assert (answer.status, answer.body) == (200, b"ok")
    assert "Bearer secret" in here.asked[1]
    assert "Bearer" not in there.asked[0] and "accept: x" in there.asked[0]


def test_redirects_without_an_end_are_told():
    here = FixedAnswers(
        *[b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n"] * 40
    )
    with pytest.raises(Failure) as failure:
        Web({"TAO_RETRY_SECONDS": "0.1"}).ask("GET", here.url)
    assert "redirects" in failure.value.why


def test_a_redirect_is_resolved_against_what_was_asked():
    assert resolve_location("http://h/a/b?c", "d") == "http://h/a/d"
    assert resolve_location("http://h/a/b", "//g/x") == "http://g/x"
    assert resolve_location("http://h:81/a/b?c", "/d?e") == "http://h:81/d?e"
    assert (
        resolve_location("http://[::1]:8080/a", "d?to=http://g")
        == "http://[::1]:8080/d?to=http://g"
    )


@pytest.mark.parametrize("start", ["/a/b", "/a/b?q=1/2", "?q=1/2"])
def test_a_redirect_may_name_a_query_alone_and_leads_where_it_leads_others(start):
    def answer(request):
        led = request.query == "c=1/2"
        return Reply(200, request.path.encode()) if led else Reply(302, b"", {"location": "?c=1/2"})

    server = WebServer()
    server.odd.update(dict.fromkeys(["/", "/a/", "/a/b"], answer))
    with urllib.request.urlopen(server.url + start) as others:
        assert Web({}).ask("GET", server.url + start).body == others.read()
    server.close()


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.1", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:7f00:1", True),
        ("::FFFF:a9fe:a9fe", True),
        ("::ffff:127.0.0.1", True),
        ("fe80::1", True),
        ("::ffff:808:808", False),
        ("2001:db8::1", False),
        ("8.8.8.8", False),
        ("host.example", False),
    ],
)
def test_this_machine_is_known_in_every_way_to_write_its_address(address, here):
    assert is_local_address(address) is here
