"""Before a job is submitted its inputs on hubs, in NGC and on the web are looked at from here."""

from __future__ import annotations

import pytest

from support.servers.hub_server import HubServer
from support.servers.ngc_server import NgcServer
from support.servers.web_server import WebServer
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec


@pytest.fixture
def servers():
    made = HubServer(), NgcServer(), WebServer()
    hub, ngc, web = made
    hub.add("org/name", {"x": b"x", "sub/y": b""})
    hub.add("org/gated", {"x": b"x"}, gated=True)
    ngc.add("acme/net", {"1": {"x": b"x"}})
    ngc.keys["nvapi-acme"] = "acme"
    web.files["/x"] = b"x"
    yield made
    for each in made:
        each.close()


@pytest.fixture
def client(tmp_path, servers):
    hub, ngc, _ = servers
    own = {"HF_ENDPOINT": hub.url, "NGC_CLI_API_URL": ngc.url, "NGC_KEY": "nvapi-acme"}
    environ = {"TAO_SDK_STATE_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with Client(settings=Settings({**environ, **own})) as client:
        yield client


def reading(uri):
    return JobSpec(command="cat {config_path}", gpu_count=0, specs={"x": uri}, inputs=["x"])


HUB = [
    "hf_model://org/name",
    "hf_model://org/name/x",
    "hf_model://org/name/sub",
    "hf_model://org/name/sub/y",
]


@pytest.mark.slow
@pytest.mark.parametrize("uri", [*HUB, "ngc://acme/net:1", "ngc://acme/net", "WEB/x"])
def test_nothing_is_said_of_inputs_that_are_there(client, servers, uri):
    found = client.plan(reading(uri.replace("WEB", servers[2].url)), "local").findings
    assert not [each for each in found if "input" in each.what]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("hf_model://org/gated", "hub.gated"),
        ("hf_model://org/nothing", "hub.private"),
        ("hf_model://org/name@v9", "hub.revision"),
        ("hf_model://org/name/none", "input.nothing"),
        ("ngc://acme/none:1", "input.nothing"),
        ("ngc://acme/net:9", "input.nothing"),
        ("WEB/none", "input.nothing"),
    ],
)
def test_a_job_that_cannot_have_its_input_is_not_submitted(client, servers, uri, code):
    with pytest.raises(Refused) as error:
        client.submit(reading(uri.replace("WEB", servers[2].url)), "local")
    assert error.value.code == code
    assert client.list_jobs() == []


def test_an_address_that_nobody_declared_is_looked_at_too(client):
    spec = JobSpec(
        command="cat {config_path}", gpu_count=0, specs={"a": [{"b": "hf_model://org/gated"}]}
    )
    with pytest.raises(Refused) as error:
        client.submit(spec, "local")
    assert error.value.code == "hub.gated" and "a[0].b" in str(error.value)


@pytest.mark.slow
def test_a_hub_that_only_the_job_may_reach_is_a_warning(client, servers):
    servers[0].close()
    found = client.plan(reading("hf_model://org/name"), "local").findings
    assert [each.severity for each in found if each.code.startswith("web.")] == [Severity.WARNING]
