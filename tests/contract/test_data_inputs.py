"""Inputs from hubs, NGC and the web on every backend, with a cache on a mount; the tokens are
nowhere in the open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.places import Place
from support.servers.archives import FILES, tarred
from support.servers.hub_server import HubServer
from support.servers.ngc_server import NgcServer
from support.servers.trees import tree
from support.servers.web_server import Reply, Request, WebServer
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# on SLURM results lie in a shared file system, and data is staged there first
pytestmark = pytest.mark.parametrize("place", ["local", "docker", "kubernetes"], indirect=True)

TOKEN, KEY = "hf_nobody_may_see_this", "nvapi-nobody-may-see-this"


@pytest.fixture
def servers(place: Place) -> Iterator[tuple[HubServer, NgcServer, WebServer]]:
    made = HubServer(place.host), NgcServer(host=place.host), WebServer(host=place.host)
    yield made
    for each in made:
        each.close()


def test_a_job_reads_all_that_its_spec_names_and_the_next_finds_it_in_the_cache(
    place: Place, tmp_path: Path, servers: tuple[HubServer, NgcServer, WebServer]
) -> None:
    hub, ngc, web = servers
    hub.add("acme/gated", FILES, gated=True, members={"ann"})
    hub.users[TOKEN] = "ann"
    ngc.add("acme/vision/net", {"1.0": FILES})
    ngc.keys[KEY] = "acme"
    web.files["/images.tar.gz"] = tarred(tmp_path / "images.tar.gz", FILES).read_bytes()
    specs = {
        "hub": "hf_model://acme/gated",
        "ngc": "ngc://acme/vision/net:1.0",
        "web": f"{web.url}/images.tar.gz",
    }
    spec = JobSpec(
        command="cat {config_path}",
        gpu_count=0,
        specs=specs,
        inputs={"web": {"type": "folder"}},  # the others are fetched wherever they stand
        config_format="json",
        mount_path=f"{tmp_path}/mount",
        env_vars={"HF_ENDPOINT": hub.url, "NGC_CLI_API_URL": ngc.url},
    )
    (tmp_path / "mount").mkdir()
    asked: list[int] = []
    found: list[dict[str, str]] = []
    with place.client(HF_TOKEN=TOKEN, NGC_KEY=KEY) as client:
        for _ in range(2):
            job = client.submit(spec, place.platform, place.network).job
            ended = client.wait(job.id)
            log = client.get_job_logs(job.id)
            assert ended.status is Status.COMPLETE, log
            kept = log + str(client.get_job(job.id).to_json())
            assert TOKEN not in kept and KEY not in kept
            found.append(json.loads(log))
            asked.append(sum(len(each.store.seen) for each in (hub, ngc)) + len(web.seen))
    assert found[0] == found[1]
    assert [tree(found[0][name]) for name in specs] == [FILES] * 3
    assert (
        asked[1] - asked[0] == 2
    )  # a look at the archive before the submit and one in the job; nothing was read again


def test_a_repository_that_has_become_gated_is_explained_with_the_page_to_ask_at(
    place: Place, servers: tuple[HubServer, NgcServer, WebServer]
) -> None:
    hub, *_ = servers
    repository = hub.add("acme/gated", FILES, gated=True, members={"ann"})
    hub.users[TOKEN] = "ann"
    spec = JobSpec(
        command="cat {config_path}",
        gpu_count=0,
        specs={"model": "hf_model://acme/gated"},
        env_vars={"HF_ENDPOINT": hub.url},
    )
    answer = hub.answer

    def shut_behind_the_first(request: Request) -> Reply:
        reply = answer(request)
        if "/resolve/" in request.path:
            repository.members.clear()
        return reply

    hub.http.RequestHandlerClass.answer = staticmethod(shut_behind_the_first)  # type: ignore[attr-defined]
    with place.client(HF_TOKEN=TOKEN) as client:
        job = client.submit(spec, place.platform, place.network).job
        assert client.wait(job.id).status is Status.ERROR
        found = client.diagnose(job.id)
        assert found is not None and found.rule == "hub_gated"
        assert f"{hub.url}/acme/gated" in found.cause and "HF_TOKEN" in found.suggestion
