"""What is packed for inputs: the modules of their schemes and options, and no others."""

from __future__ import annotations

import pytest

from tao_sdk.payload import pack, program
from tao_sdk.payload.entrypoint import empty_document
from tao_sdk.payload.source import imports
from tao_sdk.runner.document import Input
from tao_sdk.script_runner import build_entrypoint

ADDRESSES = [
    "s3://b/k",
    "hf_model://o/n",
    "hf_dataset://o/n",
    "ngc://o/n:1",
    "http://h/x",
    "https://h/x",
]
OPTIONAL = {
    f"runner.inputs.{name}" for name in ("unpacking", "archive", "annotation")
}  # only some jobs need them


def modules(uri, **options):
    document = empty_document("true", None, None)
    document["inputs"] = [Input(key="k", uri=uri, kind="", target="", options=options)]
    return set(program.modules(pack.optional_modules(document)))


@pytest.mark.parametrize("uri", [*ADDRESSES, "/data/x.tar"])
def test_a_scheme_is_packed_with_everything_that_it_imports(uri):
    packed = modules(uri, extract="no") if uri != "/data/x.tar" else modules(uri)
    for module in packed - set(
        program.modules(pack.optional_modules(empty_document("true", None, None)))
    ):
        missing = (imports(module).at_once | imports(module).later) - packed - OPTIONAL
        if uri == "/data/x.tar":
            missing -= {"net.transfer", "net.web"}  # nothing is fetched
        assert not missing, module


@pytest.mark.parametrize("uri", ["/data/x", "file:///data/x", "lustre:///data/x"])
def test_nothing_that_fetches_is_packed_for_local_inputs(uri):
    assert not modules(uri) & {
        "runner.inputs.staging",
        "net.transfer",
        "net.web",
        "runner.inputs.archive",
    }


def test_archives_and_annotations_are_packed_where_an_input_needs_them():
    assert "runner.inputs.archive" not in modules("s3://b/folder/")
    assert "runner.inputs.archive" not in modules("s3://b/x.tar.gz", extract="no")
    assert "runner.inputs.archive" in modules("s3://b/x.TAR.GZ")
    assert "runner.inputs.archive" in modules("s3://b/folder/", extract="yes")
    assert "runner.inputs.archive" in modules(
        "https://h/download?id=7"
    )  # the server says what it is called
    assert "runner.inputs.annotation" in modules(
        "s3://b/f/", selective={"annotation": "a", "format": "", "keys": ["video"]}
    )
    assert "runner.inputs.annotation" not in modules("s3://b/f/")


@pytest.mark.parametrize("uri", ADDRESSES)
def test_a_job_that_fetches_and_sends_is_at_most_88_kilobytes(uri):
    specs = {"a": uri, "results_dir": "", "resume_training_checkpoint_path": ""}
    wanted = {"specs": specs, "inputs": ["a"], "outputs": ["results_dir"], "config_format": "yaml"}
    assert len(build_entrypoint(command="train -e {config_path}", **wanted)["command"]) <= 88 * 1024


def test_a_job_that_fetches_by_every_scheme_and_sends_is_at_most_88_kilobytes():
    specs = {f"a{number}": uri for number, uri in enumerate([*ADDRESSES, "https://h/x.tar.gz"])}
    wanted = {"inputs": list(specs), "outputs": ["out"], "config_format": "yaml"}
    specs |= {"out": "", "resume_training_checkpoint_path": ""}
    assert (
        len(build_entrypoint(command="train -e {config_path}", specs=specs, **wanted)["command"])
        <= 88 * 1024
    )


def test_nothing_that_writes_to_a_bucket_is_packed_for_a_job_without_outputs():
    assert not modules("s3://b/k") & {
        *(f"runner.outputs.{name}" for name in ("bucket", "remote", "sending")),
    }
