"""Inputs from a Hugging Face hub: its real client downloads the same from the same server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.servers.trees import tree

BIG = os.urandom(9_000_000)  # more than one part, kept in the store
MODEL = {
    "config.json": b'{"a": 1}',
    "weights/model.safetensors": BIG,
    "weights/é ü+%.bin": os.urandom(150_000),
    "notes.txt": b"",
}


@pytest.fixture
def model(hub):
    return hub.add("org/name", MODEL)


def test_a_repository_is_a_folder_of_its_files(paths, model, hub):
    found = paths({"m": "hf_model://org/name"})["m"]
    assert tree(found) == MODEL
    assert Path(found).name == "name"


def test_a_data_set_is_another_repository_of_the_same_name(paths, model, hub):
    hub.add("org/name", {"train.csv": b"a,b\n"}, kind="datasets")
    found = paths({"m": "hf_model://org/name", "d": "hf_dataset://org/name"})
    assert tree(found["d"]) == {"train.csv": b"a,b\n"}
    assert tree(found["m"]) == MODEL


def test_a_repository_without_an_owner_is_found(paths, hub):
    hub.add("gpt2", {"config.json": b"{}"})
    assert tree(paths({"m": "hf_model://gpt2"})["m"]) == {"config.json": b"{}"}


@pytest.mark.parametrize("path", ["weights/model.safetensors", "config.json"])
def test_a_file_of_a_repository_is_a_file(paths, model, path):
    found = paths({"m": f"hf_model://org/name/{path}"})["m"]
    assert Path(found).read_bytes() == MODEL[path]
    assert Path(found).name == Path(path).name


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_of_a_repository_is_a_folder(paths, model, slash):
    found = paths({"m": f"hf_model://org/name/weights{slash}"})["m"]
    assert set(tree(found)) == {"model.safetensors", "é ü+%.bin"}


def test_a_revision_can_be_a_branch_a_tag_or_a_commit(paths, hub):
    repository = hub.add("org/name", {"x": b"one"})
    first = repository.refs["main"]
    repository.commit({"x": b"two"}, "v2", "refs/pr/7")
    repository.commit({"x": b"three"})
    wanted = {"a": first, "b": "v2", "c": "refs%2Fpr%2F7"}
    found = paths(
        {
            **{key: f"hf_model://org/name@{at}" for key, at in wanted.items()},
            "d": "hf_model://org/name",
        }
    )
    assert {key: tree(found[key])["x"] for key in found} == {
        "a": b"one",
        "b": b"two",
        "c": b"two",
        "d": b"three",
    }


def test_a_file_at_a_revision(paths, hub):
    repository = hub.add("org/name", {"sub/x": b"one"})
    first = repository.refs["main"]
    repository.commit({"sub/x": b"two"})
    assert Path(paths({"m": f"hf_model://org/name@{first}/sub/x"})["m"]).read_bytes() == b"one"


def test_all_pages_of_a_large_repository_are_fetched(paths, hub):
    files = {f"shard-{number:04}/data.txt": b"%d" % number for number in range(120)}
    hub.add("org/name", files)
    assert tree(paths({"m": "hf_model://org/name"})["m"]) == files


def test_patterns_choose_files_and_refuse_some(paths, model):
    about = {"m": {"patterns": ["*.json", "weights/", "!*.bin"]}}
    assert set(tree(paths({"m": "hf_model://org/name"}, about)["m"])) == {
        "config.json",
        "weights/model.safetensors",
    }


def test_patterns_that_match_nothing_are_an_error_and_no_empty_folder(refused, model):
    told = refused({"m": "hf_model://org/name"}, {"m": {"patterns": ["*.onnx"]}})
    assert told["code"] == "input.nothing" and "4" in told["why"]


def test_an_address_is_fetched_where_nobody_declared_it_and_one_checkpoint_means_the_file(
    paths, hub
):
    hub.add("org/dino", {"README.md": b"x", "dino.pth": b"weights"})
    hub.add("org/llm", {"config.json": b"{}", "model.safetensors": b"w"})
    found = paths(
        {"model": {"pretrained": "hf_model://org/dino", "llm": ["hf_model://org/llm"]}}, []
    )
    assert found["model"]["pretrained"].endswith("/dino/dino.pth")
    assert tree(found["model"]["llm"][0]) == {"config.json": b"{}", "model.safetensors": b"w"}


def test_a_declared_folder_stays_one_even_with_one_checkpoint_in_it(paths, hub):
    hub.add("org/dino", {"README.md": b"x", "dino.pth": b"weights"})
    found = paths({"m": "hf_model://org/dino"}, {"m": {"type": "folder"}})
    assert set(tree(found["m"])) == {"README.md", "dino.pth"}


def test_a_passthrough_input_lies_at_its_path(jobs, model, tmp_path):
    ran = jobs.run(
        f"cat {tmp_path}/models/x/config.json",
        inputs={f"{tmp_path}/models/x": "hf_model://org/name"},
    )
    assert ran.out == MODEL["config.json"], ran.raw
    assert tree(tmp_path / "models" / "x") == MODEL


def test_a_private_repository_is_read_with_the_token_which_no_other_host_is_told(jobs, paths, hub):
    hub.add("org/secret", {"big": BIG}, private=True, members={"ann"})
    hub.users["hf_token"] = "ann"
    jobs.env["HF_TOKEN"] = "hf_token"
    assert tree(paths({"m": "hf_model://org/secret"})["m"]) == {"big": BIG}
    assert hub.store.seen  # which asserts that it sees no token


def test_links_to_the_store_that_end_are_asked_for_again(paths, hub):
    hub.add("org/name", {"big": BIG})
    hub.uses = 1
    assert tree(paths({"m": "hf_model://org/name"})["m"]) == {"big": BIG}


def test_a_link_to_the_store_is_used_for_all_parts_of_a_file(paths, hub):
    hub.add("org/name", {"big": os.urandom(60_000_000)})
    paths({"m": "hf_model://org/name"})
    assert len(hub.asked("/resolve/")) < len(hub.store.seen)


def test_a_file_that_does_not_fit_its_sha256_never_reaches_the_command(refused, model, hub):
    import hashlib

    hub.store.damaged.add(hashlib.sha256(BIG).hexdigest())
    told = refused({"m": "hf_model://org/name"})
    assert told["code"] == "fetch.damaged" and "model.safetensors" in told["what"]


def test_a_small_file_is_verified_by_its_git_hash(jobs, refused, model, hub, monkeypatch):
    from support.servers import hub_server

    whole = hub_server.ranged
    monkeypatch.setattr(
        hub_server,
        "ranged",
        lambda request, content, headers: whole(request, b"!" + content[1:], headers),
    )
    assert refused({"m": "hf_model://org/name/config.json"})["code"] == "fetch.damaged"


def test_a_gated_repository_is_told_with_the_page_to_ask_at_and_the_variable(jobs, refused, hub):
    hub.add("org/gated", {"x": b"x"}, gated=True, members={"ann"})
    told = refused({"m": "hf_model://org/gated"})
    assert told["code"] == "hub.gated"
    assert (
        f"{hub.url}/org/gated" in told["next"]
        and "HF_TOKEN" in told["next"]
        and "not set" in told["why"]
    )
    hub.users.update(bob_token="bob", ann_token="ann")
    jobs.env["HF_TOKEN"] = "bob_token"
    told = refused({"m": "hf_model://org/gated"})
    assert told["code"] == "hub.gated" and "bob_token" not in str(told)


def test_who_was_let_in_reads_a_gated_repository(jobs, paths, hub):
    hub.add("org/gated", {"x": b"x"}, gated=True, members={"ann"})
    hub.users["ann_token"] = "ann"
    jobs.env["HF_TOKEN"] = "ann_token"
    assert tree(paths({"m": "hf_model://org/gated"})["m"]) == {"x": b"x"}


@pytest.mark.parametrize("token", ["", "bob_token", "of nobody"])
def test_a_private_repository_is_told_as_one_that_may_not_be_there(jobs, refused, hub, token):
    hub.add("org/secret", {"x": b"x"}, private=True, members={"ann"})
    hub.users["bob_token"] = "bob"
    jobs.env["HF_TOKEN"] = token
    told = refused({"m": "hf_model://org/secret"})
    assert (
        told["code"] == "hub.private"
        and "HF_TOKEN" in told["next"]
        and f"{hub.url}/org/secret" in told["next"]
    )


def test_a_login_in_the_address_of_the_hub_is_not_told(jobs, hub, refused):
    jobs.env["HF_ENDPOINT"] = hub.url.replace("://", "://me:pass-word@")
    assert "pass-word" not in str(refused({"m": "hf_model://nobody/nothing"}))


def test_a_revision_and_a_path_that_are_not_there_are_told(refused, model):
    told = refused({"m": "hf_model://org/name@v9"})
    assert told["code"] == "hub.revision" and "v9" in told["what"]
    told = refused({"m": "hf_model://org/name/nowhere/x.bin"})
    assert told["code"] == "input.nothing" and "nowhere/x.bin" in told["what"]


def test_a_repository_that_is_committed_to_while_it_is_fetched_is_not_mixed(jobs, paths, hub):
    before = {f"f{number:03}": b"old %d" % number for number in range(120)}
    repository = hub.add("org/name", before)
    answer = hub.answer

    def commit_after_the_first_page(request):
        if "cursor" in request.query:
            repository.commit(dict.fromkeys(before, b"new"))
        return answer(request)

    hub.http.RequestHandlerClass.answer = staticmethod(commit_after_the_first_page)
    assert tree(paths({"m": "hf_model://org/name"})["m"]) == before
