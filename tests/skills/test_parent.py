"""What a job of a model takes over from an earlier job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tao_sdk import Client, JobSpec
from tao_sdk.backends.contract import FileStat
from tao_sdk.client import Results
from tao_sdk.model.errors import PathNotFound, SpecError
from tao_sdk.model.progress import Progress
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.made_files import FILE_NAMES
from tao_sdk.skills.model_job import ModelChoices, prepare_model_job
from tao_sdk.skills.names import load_named, summaries
from tao_sdk.skills.parent import (
    endings,
    parent_keys,
    values_from_parent,
    values_from_results,
    values_of_checkpoint,
)
from tao_sdk.skills.skill import Action, Skill

from .conftest import MakeBank

BANK = Bank(PACKAGED, "this package")
COPY = (
    """import json, sys; values = json.load(open(sys.argv[1]))[sys.argv[2]]; """
    """text = open(values[sys.argv[3]]).read() + ' ' + sys.argv[2]; """
    """open(values[sys.argv[4]], 'w').write(text) if sys.argv[4:] else print(text)"""
)
CHAIN = f"""\
name: chain
network_arch: chain
container_image: tao_toolkit.toy
actions:
  train:
    mode: passthrough
    command: mkdir "$TAO_RESULTS_DIR/train"; printf train > "$TAO_RESULTS_DIR/train/model_epoch_001.pth"
  export: &copy
    mode: config
    config_format: json
    command: python3 -c "{COPY}" {{config_path}} export checkpoint onnx_file
    inputs: {{export.checkpoint: {{type: file}}}}
    outputs: {{export.onnx_file: {{type: file}}}}
  gen_trt_engine:
    <<: *copy
    command: python3 -c "{COPY}" {{config_path}} gen_trt_engine onnx_file trt_engine
    inputs: {{gen_trt_engine.onnx_file: {{type: file}}}}
    outputs: {{results_dir: {{type: folder}}}}
  evaluate:
    <<: *copy
    command: python3 -c "{COPY}" {{config_path}} evaluate trt_engine
    inputs: {{evaluate.trt_engine: {{type: file}}}}
    outputs: {{}}
spec_params:
  export: {{export.checkpoint: parent_model, export.onnx_file: create_onnx_file}}
  gen_trt_engine:
    gen_trt_engine.onnx_file: parent_model
    gen_trt_engine.trt_engine: create_engine_file
    gen_trt_engine.cal_cache_file: create_cal_cache
  evaluate: {{evaluate.trt_engine: parent_model}}
"""
TRAIN = (
    'mkdir "$TAO_RESULTS_DIR/train"; for i in 1 2 3; do '
    'echo $i > "$TAO_RESULTS_DIR/train/model_epoch_00$i.pth"; '
    'echo "epoch $i/3 accuracy 0.$((5 - i))"; done'
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    around = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TAO_SDK_STATE_DIR": str(home / "state")}
    with Client(settings=Settings(around)) as client:
        yield client


@pytest.fixture(scope="module")
def run_here(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A job of this command, when it has ended; its id."""
    results = tmp_path_factory.mktemp("results")

    def run(command: str) -> str:
        spec = JobSpec(command=command, gpu_count=0, env_vars={"TAO_RESULTS_ROOT": str(results)})
        job_id = client.submit(spec, "local").job.id
        client.wait_all([job_id])
        return job_id

    return run


@pytest.fixture(scope="module")
def trained(run_here: Callable[[str], str]) -> str:
    return run_here(TRAIN)


def taken(client: Client, parent: str, action: str, checkpoint: str = "") -> dict[str, str]:
    skill = load_named(BANK, "dino")
    values = values_from_parent(client, skill, skill.action(action), parent, checkpoint)
    return {key: Path(value).name for key, value in values.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [
        ("", "model_epoch_001.pth"),
        ("best", "model_epoch_001.pth"),
        ("latest", "model_epoch_003.pth"),
        ("epoch:2", "model_epoch_002.pth"),
        ("train/model_epoch_002.pth", "model_epoch_002.pth"),
        ("s3://bucket/other.pth", "other.pth"),
    ],
)
def test_the_checkpoint_of_a_training_is_evaluated(
    client: Client, trained: str, checkpoint: str, name: str
) -> None:
    assert taken(client, trained, "evaluate", checkpoint) == {"evaluate.checkpoint": name}


@pytest.mark.slow
def test_a_training_is_resumed_from_the_newest_checkpoint(client: Client, trained: str) -> None:
    key = "train.resume_training_checkpoint_path"
    assert taken(client, trained, "train") == {key: "model_epoch_003.pth"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [
        ("epoch:x", "has no number"),
        ("epoch:", "has no number"),
        ("epoch:٣", "has no number"),
        ("step:7", "no checkpoints of step 7"),
        ("bset", "names none"),
        ("../other/model.pth", "leads out of the parent's results"),
    ],
)
def test_a_checkpoint_that_is_none_says_how_to_name_one(
    client: Client, trained: str, checkpoint: str, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        taken(client, trained, "evaluate", checkpoint)


@pytest.mark.slow
def test_an_epoch_without_a_checkpoint_names_those_that_there_are(
    client: Client, trained: str
) -> None:
    with pytest.raises(PathNotFound, match="model_epoch_003.pth"):
        taken(client, trained, "evaluate", "epoch:9")


@pytest.mark.slow
def test_a_parent_that_is_not_complete_is_refused(
    client: Client, run_here: Callable[[str], str]
) -> None:
    failed = run_here(f"{TRAIN}; exit 3")
    with pytest.raises(SpecError, match="is Error, not Complete"):
        taken(client, failed, "evaluate")


@pytest.mark.slow
def test_an_exported_model_is_found_by_its_kind(
    client: Client, trained: str, run_here: Callable[[str], str]
) -> None:
    exported = run_here('echo x > "$TAO_RESULTS_DIR/model.onnx"; echo y > "$TAO_RESULTS_DIR/a.pth"')
    deploy = load_named(BANK, "dino-deploy")
    action = deploy.action("gen_trt_engine")
    values = values_from_parent(client, deploy, action, exported)
    assert Path(values["gen_trt_engine.onnx_file"]).name == "model.onnx"
    with pytest.raises(SpecError, match="no files that end with .onnx"):
        values_from_parent(client, deploy, action, trained)


@pytest.mark.slow
def test_a_chain_from_train_to_the_engines_evaluate_needs_its_parents_alone(
    client: Client, make_bank: MakeBank, tmp_path: Path
) -> None:
    bank = make_bank({"chain/references/skill_info.yaml": CHAIN})
    surroundings = {"TAO_RESULTS_ROOT": str(tmp_path / "results")}
    parent = ""
    for action in ("train", "export", "gen_trt_engine", "evaluate"):
        job = client.prepare(
            "chain", action, parent=parent, skill_bank=bank.root, gpu_count=0, env_vars=surroundings
        )
        parent = client.submit(job.spec, "local").job.id
        (ended,) = client.wait_all([parent])
        log = client.get_job_logs(parent)
        assert ended.status is Status.COMPLETE, log
        assert "never written" not in log
    assert "train export gen_trt_engine evaluate" in log


@pytest.mark.slow
def test_every_file_that_a_packaged_action_makes_has_a_name() -> None:
    """So that none is written under the last word of its key, without an ending."""
    for each in summaries(BANK):
        if each.kind != "model":
            continue
        for params in load_named(BANK, each.entry.name).spec_params.values():
            words = {word for word in params.values() if isinstance(word, str)}
            assert {word for word in words if word.startswith("create_")} <= set(FILE_NAMES)


@pytest.mark.slow
def test_the_checkpoint_stands_in_the_spec_of_the_next_job(
    client: Client, trained: str, settings: Settings
) -> None:
    skill = load_named(BANK, "dino")
    values = {
        "dataset.test_data_sources.image_dir": "/data/images",
        "dataset.test_data_sources.json_file": "/data/labels.json",
    }
    found = values_from_parent(client, skill, skill.action("evaluate"), trained, "epoch:2")
    wanted = ModelChoices(values=values, from_parent=found)
    job = prepare_model_job(BANK, skill, "evaluate", wanted, settings)
    assert job.spec.specs is not None
    assert job.spec.specs["evaluate"]["checkpoint"].endswith("/train/model_epoch_002.pth")
    assert job.origins["specs.evaluate.checkpoint"] == "parent"
    assert client.get_job(trained).status is Status.COMPLETE


@pytest.mark.slow
def test_a_parent_without_a_checkpoint_leads_to_another_parent(
    client: Client, run_here: Callable[[str], str]
) -> None:
    with pytest.raises(SpecError, match="left no complete checkpoint") as told:
        taken(client, run_here("true"), "evaluate")
    assert "Name another parent" in told.value.next


# The packaged actions that take a trained checkpoint or a TensorRT engine.
TWO_KEYS = [
    f"{model} {action}"
    for model in (
        *("centerpose", "deformable-detr", "depth-anything-v2", "ocrnet", "oneformer"),
        *("optical-inspection", "pointpillars"),
    )
    for action in ("evaluate", "inference")
    if (model, action) != ("pointpillars", "evaluate")
]


def named_action(name: str) -> tuple[Skill, Action]:
    model, action = name.split()
    skill = load_named(BANK, model)
    return skill, skill.action(action)


def left(*names: str) -> Results:
    """The results of a job with these files, of which the last is its best checkpoint."""
    files = tuple(FileStat(f"/results/{name}", False, 7, 1.0) for name in names)
    best = files[-1].path if files else None
    return Results("/results", files, best, best, Progress(), None, settled=2.0)


def keys_of_both(skill: Skill, action: Action) -> tuple[str, str]:
    """(the key of a trained checkpoint, that of an engine)"""
    checkpoint, engine = sorted(parent_keys(skill, action), key=endings)
    return checkpoint, engine


@pytest.mark.slow
def test_no_packaged_action_with_two_keys_is_forgotten() -> None:
    models = [each.entry.name for each in summaries(BANK) if each.kind == "model"]
    found = [
        f"{skill.network_arch} {action.name}"
        for skill in (load_named(BANK, name) for name in models)
        for action in skill.actions.values()
        if len({endings(key) for key in parent_keys(skill, action)}) > 1
    ]
    assert sorted(found) == sorted(
        f"{named_action(name)[0].network_arch} {name.split()[1]}" for name in TWO_KEYS
    )


@pytest.mark.parametrize("name", TWO_KEYS)
def test_a_parent_fills_the_key_that_its_files_are_for(name: str) -> None:
    skill, action = named_action(name)
    checkpoint, engine = keys_of_both(skill, action)
    for file, key in (("train/model.pth", checkpoint), ("model.engine", engine)):
        found = values_from_results(left(file), skill, action, "parent")
        assert found == {key: f"/results/{file}"}
    both = values_from_results(left("model.engine", "model.pth"), skill, action, "parent")
    assert set(both) == {checkpoint, engine}
    with pytest.raises(SpecError, match="left no"):
        values_from_results(left(), skill, action, "parent")


@pytest.mark.parametrize("name", TWO_KEYS)
def test_a_path_goes_to_the_key_that_takes_such_a_file(name: str) -> None:
    skill, action = named_action(name)
    checkpoint, engine = keys_of_both(skill, action)
    for path, key in (("/m/model.pth", checkpoint), ("s3://b/model.engine", engine)):
        assert values_of_checkpoint(skill, action, path) == {key: path}
        assert values_from_results(left("model.pth"), skill, action, "parent", path) == {key: path}


def test_a_checkpoint_is_named_by_its_step() -> None:
    skill = load_named(BANK, "dino")
    results = left("train/iter_900.pth", "train/iter_1800.pth")
    found = values_from_results(results, skill, skill.action("evaluate"), "parent", "step:900")
    assert found == {"evaluate.checkpoint": "/results/train/iter_900.pth"}


def test_a_training_that_starts_from_a_model_of_its_parent_is_not_resumed_as_well() -> None:
    skill, action = named_action("nvpanoptix3d train")
    found = values_from_results(left("train/model.pth"), skill, action, "parent")
    assert found == {"train.checkpoint_2d": "/results/train/model.pth"}
    assert values_of_checkpoint(skill, action, "/m/2d.pth") == {"train.checkpoint_2d": "/m/2d.pth"}
    assert "set train.resume_training_checkpoint_path" in " ".join(skill.notes)


def test_a_file_that_no_key_takes_is_refused_with_those_that_one_does() -> None:
    deploy = load_named(BANK, "dino-deploy")
    with pytest.raises(SpecError, match=r"model\.pth.*no file for") as told:
        values_of_checkpoint(deploy, deploy.action("gen_trt_engine"), "/m/model.pth")
    assert "gen_trt_engine.onnx_file takes .onnx" in told.value.next
