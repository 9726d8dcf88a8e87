"""The servers of these tests speak as the real ones do: the clients that people use download from
them what we download.
"""

from __future__ import annotations

import os

import pytest

from support.servers.authority_here import authority
from support.servers.ngc_server import NgcServer
from support.servers.trees import tree

FILES = {"config.json": b"{}", "sub/é big.bin": os.urandom(300_000), "empty": b""}


@pytest.fixture
def download(clients, hub, tmp_path, monkeypatch):
    """What huggingface_hub fetches."""
    monkeypatch.chdir(tmp_path)

    def one(call, token=""):
        code = (
            f"from huggingface_hub import snapshot_download as s; s({call}, "
            "local_dir='out', max_workers=2)"
        )
        clients.run(
            code, tmp_path, HF_ENDPOINT=hub.url, HF_TOKEN=token, HF_HUB_DISABLE_TELEMETRY="1"
        )
        return {
            name: data
            for name, data in tree(tmp_path / "out").items()
            if not name.startswith(".cache/")
        }

    return one


def test_huggingface_hub_downloads_a_model_from_our_hub_as_we_do(download, paths, hub):
    files = {**FILES, **{f"many/{number}": b"%d" % number for number in range(60)}}
    hub.add("org/name", files)
    assert download("'org/name'") == tree(paths({"m": "hf_model://org/name"})["m"]) == files
    assert hub.store.seen


def test_huggingface_hub_downloads_a_private_data_set_at_a_revision_as_we_do(
    download, jobs, paths, hub
):
    repository = hub.add("org/name", FILES, kind="datasets", private=True, members={"ann"})
    repository.commit({"other": b"x"})
    repository.refs["v1"] = next(iter(repository.commits))
    hub.users["hf_token"] = "ann"
    jobs.env["HF_TOKEN"] = "hf_token"
    theirs = download("'org/name', repo_type='dataset', revision='v1'", "hf_token")
    assert theirs == tree(paths({"m": "hf_dataset://org/name@v1"})["m"]) == FILES


@pytest.mark.parametrize(
    ("about", "token", "error"),
    [
        ({"gated": True}, "", "GatedRepoError"),
        ({"gated": True}, "bob", "GatedRepoError"),
        ({"private": True}, "", "RepositoryNotFoundError"),
        ({"private": True}, "bob", "RepositoryNotFoundError"),
    ],
)
def test_huggingface_hub_knows_why_our_hub_refuses(clients, hub, tmp_path, about, token, error):
    hub.add("org/name", FILES, **about)
    hub.users["bob"] = "bob"
    code = (
        "from huggingface_hub import hf_hub_download, errors\n"
        "try: hf_hub_download('org/name', 'config.json')\n"
        f"except errors.{error} as it: print(type(it).__name__)"
    )
    env = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **({"HF_TOKEN": token} if token else {}),
    }
    assert clients.run(code, tmp_path, **env).strip() == error


NGC = """
from ngcsdk import Client
client = Client()
client.configure(api_key={key!r}, org_name="acme", team_name={team!r})
client.registry.{kind}.download_version({target!r}, destination="out")
"""


@pytest.fixture
def ngc_tls(jobs):
    """ngcsdk speaks https only."""
    server = NgcServer(authority())
    server.keys = {"nvapi-acme": "acme", "oldkey": "acme"}
    jobs.env.update(
        NGC_CLI_API_URL=server.url,
        NGC_CLI_AUTH_URL=server.login,
        SSL_CERT_FILE=str(authority().bundle),
    )
    yield server
    server.close()


@pytest.mark.parametrize("key", ["nvapi-acme", "oldkey"])
@pytest.mark.parametrize("kind", ["model", "resource"])
def test_ngcsdk_downloads_from_our_ngc_as_we_do(
    clients, jobs, paths, ngc_tls, tmp_path, monkeypatch, key, kind
):
    files = {**FILES, **{f"many/{number}": b"%d" % number for number in range(30)}}
    ngc_tls.add("acme/vision/detector", {"1.0": {"old": b""}, "2.0": files}, kind=kind + "s")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    env = {
        "NGC_CLI_API_URL": ngc_tls.url,
        "NGC_CLI_AUTH_URL": ngc_tls.login,
        "REQUESTS_CA_BUNDLE": jobs.env["SSL_CERT_FILE"],
    }
    clients.run(
        NGC.format(key=key, team="vision", kind=kind, target="acme/vision/detector:2.0"),
        tmp_path,
        **env,
    )
    jobs.env["NGC_KEY"] = key
    ours = paths({"m": "ngc://acme/vision/detector:2.0"})["m"]
    assert tree(next((tmp_path / "out").iterdir())) == tree(ours) == files


def test_ngcsdk_reads_what_is_public_as_a_guest_as_we_do(
    clients, jobs, paths, ngc_tls, tmp_path, monkeypatch
):
    ngc_tls.add("nvidia/tao/backbone", {"1": FILES}, public=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    env = {
        "NGC_CLI_API_URL": ngc_tls.url,
        "NGC_CLI_AUTH_URL": ngc_tls.login,
        "REQUESTS_CA_BUNDLE": jobs.env["SSL_CERT_FILE"],
    }
    code = (
        "from ngcsdk import Client; "
        "Client().registry.model.download_version('nvidia/tao/backbone:1', destination='out')"
    )
    clients.run(code, tmp_path, **env)
    ngc_tls.keys["nvapi-other"] = "other"
    jobs.env["NGC_KEY"] = "nvapi-other"
    assert (
        tree(next((tmp_path / "out").iterdir()))
        == tree(paths({"m": "ngc://nvidia/tao/backbone:1"})["m"])
        == FILES
    )
