"""A model by its name: in a job file, as flags and from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tao_sdk import Client, JobSpec
from tao_sdk.client.document import DocumentError
from tao_sdk.client.job_file import JobFile, read_job_file
from tao_sdk.client.job_request import JobRequest, TypedJob, read_request
from tao_sdk.client.mistakes import each_of
from tao_sdk.client.model_request import ModelRequest, model_mistakes
from tao_sdk.client.typed_values import read_datasets
from tao_sdk.model.errors import JobNotFound, SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK

DIGITS = "model: digits\naction: train\n"
SEGFORMER = "model: segformer\naction: train\n"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    around = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    with Client(settings=Settings({**around, "TAO_SDK_STATE_DIR": str(tmp_path / "state")})) as one:
        yield one


Read = Callable[..., JobFile]


@pytest.fixture
def read(client: Client, tmp_path: Path) -> Read:
    def read_text(text: str, changes: Any = None, set_values: Any = ()) -> JobFile:
        (tmp_path / "job.yaml").write_text(text)
        return read_job_file("job.yaml", changes, set_values=set_values, client=client)

    return read_text


def specs(job: JobSpec) -> dict[str, Any]:
    assert job.specs is not None
    return dict(job.specs)


def test_a_job_file_names_a_model_and_keeps_its_own_fields(read: Read) -> None:
    text = DIGITS + "set: {num_epochs: 3, train: {seed: 9}}\nlabels: {a: b}\ngpu_count: 2\n"
    job = read(text)
    assert (job.spec.command, job.spec.mode) == (
        "python3 digits.py train -e {config_path}",
        "config",
    )
    assert specs(job.spec)["train"]["num_epochs"] == 3
    assert specs(job.spec)["train"]["seed"] == 9
    assert (job.spec.gpu_count, job.spec.labels, job.spec.name) == (2, {"a": "b"}, "digits-train")
    assert sorted(job.spec.files) == ["digits.npz", "digits.py"]


def test_what_is_typed_wins_over_the_job_file(read: Read) -> None:
    text = DIGITS + "set: {num_epochs: 3}\nimage: of/file:1\n"
    job = read(text, {"image": "of/flag:1", "name": "mine"}, ["train.num_epochs=5"])
    assert specs(job.spec)["train"]["num_epochs"] == 5
    assert (job.spec.image, job.spec.name) == ("of/flag:1", "mine")


def test_files_of_the_job_are_added_to_the_models(read: Read, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("more")
    job = read(DIGITS + "files: {more.txt: more.txt}\n")
    assert sorted(job.spec.files) == ["digits.npz", "digits.py", "more.txt"]


def test_datasets_start_in_the_folder_of_the_job_file(read: Read, tmp_path: Path) -> None:
    job = read(SEGFORMER + "data: {train: segments}\n")
    uses = [value for value in map(str, leaves(specs(job.spec))) if "segments" in value]
    assert uses and all(value.startswith(f"{tmp_path}/segments") for value in uses)
    with pytest.raises(
        DocumentError, match=r"job\.yaml:3:15: data train is a path of this machine"
    ):
        job.spec_for("docker")


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    else:
        yield value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: digitz\naction: train\n", "1:8: The skill bank has no skill 'digitz'"),
        ("model: digits\naction: trian\n", "2:9: tao-train-digits has no action 'trian'"),
        ("model: digits\n", "1:8: action is missing"),
        ("action: train\n", "1:9: action is given, and no model"),
        ("command: x\nparent: a\n", "2:9: parent is given, and no model"),
        (DIGITS + "command: x\n", "3:10: command cannot stand beside model"),
        (DIGITS + "specs: {a: 1}\n", "3:8: specs cannot stand beside model"),
        (DIGITS + "outputs: [out]\n", "3:10: outputs cannot stand beside model"),
        (DIGITS + "set: {num_epochs: many}\n", "3:19: train.num_epochs is 'many'"),
        (DIGITS + "set: {num_epochs: 0}\n", "3:19: train.num_epochs is 0, below 1"),
        (DIGITS + "set:\n  train: {seeed: 3}\n", "4:18: train.seeed is no key of this spec"),
        (DIGITS + "set: {num_epoch: 3}\n", "3:18: set: tao-train-digits has no key 'num_epoch'"),
        (DIGITS + "set: [a]\n", "3:7: set is"),
        (DIGITS + "data: {train: s3://b/x}\n", "3:15: tao-train-digits train reads no dataset"),
        (SEGFORMER + "data: {train: aws://b/x}\n", "3:15: data train: aws:// is no address here"),
        (SEGFORMER + "data: {train: 3}\n", "3:7: data is"),
        (DIGITS + "parent: nobody-1\n", "3:9: no such job: 'nobody-1'"),
        (DIGITS + "checkpoint: best\n", "3:13: checkpoint 'best' is one of a parent"),
        (DIGITS + "skill_bank: nowhere\n", "3:13: There is no skill bank"),
        ("model: digits\naction: evaluate\n", "1:8: tao-train-digits evaluate needs a value"),
        (DIGITS + "parnet: x\n", "3:1: unknown key 'parnet'"),
        (
            SEGFORMER + "gpu_count: 2\nset: {train.num_gpus: 4}\n",
            "4:23: train.num_gpus is set to 4",
        ),
    ],
)
def test_a_mistake_of_a_model_has_its_place(read: Read, text: str, told: str) -> None:
    with pytest.raises(DocumentError) as error:
        read(text)
    assert f"job.yaml:{told}" in str(error.value)


def test_all_mistakes_of_fields_are_told_at_once(read: Read) -> None:
    with pytest.raises(DocumentError) as error:
        read(DIGITS + "command: x\ngpu_cont: 1\ngpu_count: many\n")
    assert len(each_of(error.value)) == 3


def typed(client: Client, *set_values: str, file: str | None = None, **model: Any) -> JobRequest:
    return read_request(TypedJob(file, set_values=set_values, model=model), client)


def test_flags_alone_make_the_job_of_a_model(client: Client) -> None:
    request = typed(client, "num_epochs=4", model="digits", action="train")
    assert specs(request.spec)["train"]["num_epochs"] == 4
    assert request.spec.gpu_count == 0
    assert request.origins["specs.train.num_epochs"] == "set"
    assert request.origins["specs.train.seed"].startswith("template ")
    assert request.origins["gpu_count"].startswith("resource_defaults of ")


def test_a_dataset_that_is_typed_twice_is_a_list(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found = read_datasets(["train=s3://b/one", "train=two", "eval=s3://b/val", "format=coco"])
    train = ["s3://b/one", str(tmp_path / "two")]
    assert found == {"train": train, "eval": "s3://b/val", "format": "coco"}


def test_a_mistake_that_was_typed_is_not_told_as_one_of_the_file(read: Read) -> None:
    with pytest.raises(SpecError) as error:
        read(DIGITS + "set: {seed: 3}\n", set_values=["num_epochs=many"])
    assert "job.yaml" not in str(error.value)


def test_a_mistake_of_a_flag_has_no_place(client: Client) -> None:
    with pytest.raises(JobNotFound):
        typed(client, model="digits", action="train", parent="nobody-1")


def test_a_checkpoint_by_its_address_needs_no_parent(client: Client) -> None:
    request = typed(client, model="digits", action="evaluate", checkpoint="s3://b/x.ckpt")
    assert specs(request.spec)["evaluate"]["checkpoint"] == "s3://b/x.ckpt"


def test_prepare_gives_the_job_without_running_it(client: Client) -> None:
    job = client.prepare("digits", "train", values={"num_epochs": 2}, gpu_count=1, name="mine")
    assert (job.spec.name, job.spec.gpu_count) == ("mine", 1)
    assert specs(job.spec)["train"]["num_epochs"] == 2
    assert job.origins["name"] == "given"
    assert client.list_jobs() == []
    with pytest.raises(SpecError, match="unknown key 'gpu_cuont'"):
        client.prepare("digits", "train", gpu_cuont=1)


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSDK]:
    monkeypatch.chdir(tmp_path)
    around = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    settings = Settings({**around, "TAO_SDK_STATE_DIR": str(tmp_path / "state")})
    with LocalSDK(settings=settings) as one:
        yield one


@pytest.mark.parametrize("flag", ["parent", "checkpoint"])
def test_a_parent_of_a_plain_command_is_told_how_its_checkpoint_comes_in(flag: str) -> None:
    (mistake,) = model_mistakes(ModelRequest(**{flag: "best"}), {})
    assert "tao results JOB --epoch best" in mistake.next
    assert "--inputs NAME=PATH" in mistake.next


def test_create_job_without_a_model_names_what_is_missing(sdk: LocalSDK) -> None:
    with pytest.raises(SpecError, match="action is given, and no model"):
        sdk.create_job(action="train")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tao_sdk.model.errors.TaoWarning")
def test_a_chain_needs_no_path_typed(sdk: LocalSDK) -> None:
    trained = sdk.create_job(model="digits", action="train", values={"num_epochs": 2})
    with pytest.raises(SpecError, match="not Complete"):
        sdk.create_job(model="digits", action="evaluate", parent=trained.id)
    assert sdk.wait(trained.id).status.value == "Complete"
    tested = sdk.create_job(
        model="digits", action="evaluate", parent=trained.id, checkpoint="epoch:2"
    )
    assert sdk.wait(tested.id).status.value == "Complete"
    assert "epoch 2: accuracy 0.9" in sdk.get_job_logs(tested.id)
    assert sdk.get_job(tested.id).parent == trained.id
    path = sdk.resolve_spec_param(tested.id, "parent_model", network_arch="digits")
    assert path == sdk.get_model_results_path(trained.id)
    assert sdk.resolve_spec_param(tested.id, "output_dir") == tested.results_dir
    assert sdk.resolve_spec_param(trained.id, "parent_model") is None
    assert sdk.resolve_spec_param(trained.id, "key") is None
