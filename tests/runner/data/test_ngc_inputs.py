"""Inputs from NGC: its real client downloads the same from the same server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.servers.trees import tree

FILES = {"model.hdf5": os.urandom(9_000_000), "labels/classes é.txt": b"cat\ndog\n", "empty": b""}


@pytest.fixture
def model(ngc):
    return ngc.add("acme/vision/detector", {"1.0": {"old": b"1"}, "2.0": FILES})


def test_the_files_of_a_version_are_a_folder(paths, model):
    about = {"m": {"type": "folder"}}
    assert tree(paths({"m": "ngc://acme/vision/detector:2.0"}, about)["m"]) == FILES
    assert tree(paths({"m": "ngc://acme/vision/detector:1.0"}, about)["m"]) == {"old": b"1"}


def test_without_a_version_it_is_the_latest(paths, model):
    assert tree(paths({"m": "ngc://acme/vision/detector"}, {"m": {"type": "folder"}})["m"]) == FILES


def test_one_checkpoint_means_the_file(paths, model):
    assert paths({"backbone": "ngc://acme/vision/detector:2.0"}, [])["backbone"].endswith(
        "/detector/model.hdf5"
    )


def test_a_file_or_folder_of_a_version(paths, model):
    found = paths(
        {
            "f": "ngc://acme/vision/detector:2.0/model.hdf5",
            "d": "ngc://acme/vision/detector:2.0/labels",
        }
    )
    assert Path(found["f"]).read_bytes() == FILES["model.hdf5"]
    assert tree(found["d"]) == {"classes é.txt": b"cat\ndog\n"}


def test_an_organisation_without_teams_and_a_resource(paths, ngc):
    ngc.add("acme/plain", {"1": {"x": b"model"}})
    ngc.add("acme/notebooks", {"1": {"a.ipynb": b"{}"}}, kind="resources")
    ngc.add("acme/plain", {"1": {"x": b"resource"}}, kind="resources")
    wanted = {
        "a": "ngc://acme/plain:1",
        "b": "ngc://acme/notebooks:1",
        "c": "ngc://acme/resources/plain:1",
    }
    found = paths(wanted)
    assert [tree(found[key]) for key in "abc"] == [
        {"x": b"model"},
        {"a.ipynb": b"{}"},
        {"x": b"resource"},
    ]


def test_all_pages_of_files_are_fetched(paths, ngc):
    files = {f"{number:03}": b"%d" % number for number in range(70)}
    ngc.add("acme/many", {"1": files})
    assert tree(paths({"m": "ngc://acme/many:1"})["m"]) == files


def test_an_older_key_is_changed_for_a_token_and_again_when_that_ends(jobs, paths, ngc):
    ngc.add("acme/vision/many", {"1": {f"{number}": b"x" for number in range(30)}})
    ngc.token_uses = 9
    jobs.env["NGC_KEY"] = "oldkey"
    assert len(tree(paths({"m": "ngc://acme/vision/many:1"})["m"])) == 30
    assert len(ngc.tokens) > 1


@pytest.mark.parametrize("key", ["nvapi-other", "otherkey"])
def test_a_key_of_another_organisation_reads_what_is_public(jobs, paths, ngc, key):
    ngc.add("nvidia/tao/backbone", {"1": FILES}, public=True)
    ngc.add("nvidia/plain", {"1": {"x": b"x"}}, public=True)
    ngc.keys[key] = "other"
    jobs.env["NGC_KEY"] = key
    found = paths(
        {"m": "ngc://nvidia/tao/backbone:1", "n": "ngc://nvidia/plain"},
        {"m": {"type": "folder"}, "n": {}},
    )
    assert (tree(found["m"]), tree(found["n"])) == (FILES, {"x": b"x"})


def test_links_that_end_are_asked_for_again(paths, model, ngc):
    ngc.uses = 1
    assert (
        tree(paths({"m": "ngc://acme/vision/detector:2.0"}, {"m": {"type": "folder"}})["m"])
        == FILES
    )


def test_without_a_key_the_variable_is_named(jobs, refused, model):
    jobs.env["NGC_KEY"] = ""
    told = refused({"m": "ngc://acme/vision/detector:2.0"})
    assert told["code"] == "ngc.key" and "NGC_KEY" in told["what"]


@pytest.mark.parametrize("key", ["nvapi-wrong", "wrong", "nvapi-other"])
def test_a_key_that_may_not_is_told_without_it(jobs, refused, model, ngc, key):
    ngc.keys["nvapi-other"] = "other"
    jobs.env["NGC_KEY"] = key
    told = refused({"m": "ngc://acme/vision/detector:2.0"})
    assert told["code"] in ("ngc.denied", "input.nothing") and "acme" in told["what"] + told["next"]
    assert key not in str(told).replace("NGC_KEY", "")


def test_terms_that_were_not_accepted_are_told_with_the_page(refused, model):
    model.terms = True
    told = refused({"m": "ngc://acme/vision/detector:2.0"})
    assert (
        told["code"] == "ngc.terms" and "https://catalog.ngc.nvidia.com/orgs/acme" in told["next"]
    )


def test_a_name_a_version_and_a_path_that_are_not_there_are_told(refused, model):
    for uri, named in (
        ("ngc://acme/vision/nothing:1", "nothing"),
        ("ngc://acme/vision/detector:9", "9"),
        ("ngc://acme/vision/detector:2.0/nowhere", "nowhere"),
    ):
        told = refused({"m": uri})
        assert told["code"] == "input.nothing" and named in told["what"]
