"""A model and an action as a job: which values its spec gets, and where they come from."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tao_sdk import Client
from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status
from tao_sdk.script_runner import build_entrypoint
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.errors import ActionNotFound, BankError
from tao_sdk.skills.model_job import ModelChoices, ModelJob, prepare_model_job
from tao_sdk.skills.names import load_named
from tao_sdk.skills.skill_files import skill_files

from .conftest import MakeBank

PATH = "tao-train-toy/references/skill_info.yaml"
TOY = """\
name: toy
network_arch: toynet
container_image: tao_toolkit.toy
data_format: coco
gpu_spec_key: train.num_gpus
spec_shorthand_keys: {num_epochs: train.num_epochs}
key_defaults: {train.seed: 7}
spec_templates: {train: template.yaml}
data_sources:
  train:
    data.train[0].images: {source: train_datasets, path: images.tar.gz}
    data.train[0].labels: {source: train_datasets, path: '{train_dataset_annotation}'}
    data.eval: {source: eval_dataset, path: '', list: true}
    data.by_format: {source: train_datasets, path_from_format: {odvg: [b.json, c.json], '*': a.json}}
actions:
  train:
    mode: config
    command: cat {config_path}
    config_format: json
    inputs:
      data.train[0].images: {type: file}
      data.train[0].labels: {type: file, optional: true}
      data.eval[0]: {type: folder}
    outputs: {results_dir: {type: folder}}
    upload_excludes: [inputs/]
  evaluate:
    mode: config
    command: cat {config_path}
    inputs: {evaluate.checkpoint: {type: file}}
spec_params: {evaluate: {evaluate.checkpoint: parent_model}}
"""
TEMPLATE = "train: {num_epochs: 80, num_gpus: 1, gpu_ids: [0]}\ndata: {train: []}\n"
DATA = {"train": "s3://b/coco/", "eval": "s3://b/val"}

Prepare = Callable[..., ModelJob]


@pytest.fixture
def prepare(make_bank: MakeBank, settings: Settings) -> Prepare:
    def prepare_toy(action: str = "train", text: str = TOY, **wanted: Any) -> ModelJob:
        bank = make_bank({PATH: text, "tao-train-toy/references/template.yaml": TEMPLATE})
        return prepare_model_job(
            bank, load_named(bank, "toy"), action, ModelChoices(**wanted), settings
        )

    return prepare_toy


def specs(job: ModelJob) -> dict[str, Any]:
    assert job.spec.specs is not None
    return dict(job.spec.specs)


def test_a_job_has_the_image_command_and_declarations_of_its_action(prepare: Prepare) -> None:
    spec = prepare(data=DATA).spec
    assert (spec.image, spec.command) == ("registry.example/toy:1", "cat {config_path}")
    assert (spec.mode, spec.config_format, spec.gpu_count) == ("config", "json", 1)
    assert spec.inputs["data.train[0].labels"] == {"type": "file", "optional": True}
    assert spec.outputs == {"results_dir": {"type": "folder"}}
    assert spec.upload_excludes == ("inputs/",)


def test_the_spec_is_the_template_the_defaults_the_data_and_what_is_set(prepare: Prepare) -> None:
    job = prepare(data=DATA, values={"num_epochs": 12, "train.optim.lr": 0.1})
    assert specs(job) == {
        "train": {"num_epochs": 12, "num_gpus": 1, "gpu_ids": [0], "seed": 7, "optim": {"lr": 0.1}},
        "data": {
            "train": [{"images": "s3://b/coco/images.tar.gz"}],
            "eval": ["s3://b/val"],
            "by_format": "s3://b/coco/a.json",
        },
        "results_dir": "",
    }


def test_what_a_template_leaves_open_needs_a_value_and_is_not_fetched(
    make_bank: MakeBank, settings: Settings
) -> None:
    template = (
        "data: {train: [{images: '???', labels: '???'}]}\ntrain: {lr: '???', num_epochs: 80}\n"
    )
    bank = make_bank({PATH: TOY, "tao-train-toy/references/template.yaml": template})
    skill = load_named(bank, "toy")
    with pytest.raises(SpecError, match=r"needs a value for data\.train\[0\]\.images"):
        prepare_model_job(bank, skill, "train", ModelChoices({"eval": "s3://b/val"}), settings)
    with pytest.raises(SpecError, match=r"needs a value for data\.eval\[0\]"):
        wanted = ModelChoices({"train": "s3://b/coco"}, {"data.eval": ["???"]})
        prepare_model_job(bank, skill, "train", wanted, settings)
    job = prepare_model_job(bank, skill, "train", ModelChoices(DATA), settings)
    assert specs(job)["data"]["train"] == [{"images": "s3://b/coco/images.tar.gz"}]
    assert "lr" not in specs(job)["train"]
    assert "specs.train.lr" not in job.origins


def test_anchors_and_short_numbers_of_a_template_are_values(
    make_bank: MakeBank, settings: Settings
) -> None:
    template = "train: &base {lr: 1e-5, num_gpus: 1}\nlater: {<<: *base, lr: 2}\nagain: *base\n"
    bank = make_bank({PATH: TOY, "tao-train-toy/references/template.yaml": template})
    job = prepare_model_job(bank, load_named(bank, "toy"), "train", ModelChoices(DATA), settings)
    found = specs(job)
    assert (found["train"]["lr"], found["train"]["seed"]) == (1e-5, 7)
    assert found["later"] == {"lr": 2, "num_gpus": 1}
    assert found["again"] == {"lr": 1e-5, "num_gpus": 1}  # its own, not the one that was changed


def test_an_empty_further_item_of_a_templates_list_is_no_dataset(
    make_bank: MakeBank, settings: Settings
) -> None:
    template = "data: {train: [{images: '', labels: ''}, {images: '', labels: ''}]}\n"
    bank = make_bank({PATH: TOY, "tao-train-toy/references/template.yaml": template})
    job = prepare_model_job(bank, load_named(bank, "toy"), "train", ModelChoices(DATA), settings)
    assert specs(job)["data"]["train"] == [{"images": "s3://b/coco/images.tar.gz", "labels": ""}]


OPTIONS = """\
name: toy
container_image: tao_toolkit.toy
actions:
  generate:
    mode: args
    command: generate.py
    args:
      root: --dataset-root {root}
      out: --output-dir {results_dir}
      name: --name {name}
      gpus: --num-gpus {num_gpus}
      safe: --safe/--no-safe {safe}
    defaults: {safe: true, num_gpus: 1}
    inputs: {root: {type: folder}, safe: {type: bool}}
    outputs: {results_dir: {type: folder}, summary: {type: file, relative_path: summary.json}}
gpu_spec_key: num_gpus
"""


@pytest.mark.parametrize(("safe", "word"), [(None, " --safe"), (False, " --no-safe"), ("", "")])
def test_arguments_that_are_options_stand_as_options_in_the_command(
    prepare: Prepare, safe: Any, word: str
) -> None:
    values = {"root": "/data/in"} | ({} if safe is None else {"safe": safe})
    spec = prepare("generate", OPTIONS, values=values).spec
    assert spec.command == (
        "generate.py --dataset-root={root} --output-dir={results_dir} --name={name} "
        f"--num-gpus={{num_gpus}}{word}"
    )
    assert spec.args == {"root": "/data/in", "results_dir": "", "name": "", "num_gpus": 1}


def test_an_output_without_an_option_is_not_given_to_the_command(prepare: Prepare) -> None:
    values = {"root": "/data/in"}
    assert list(prepare("generate", OPTIONS, values=values).spec.outputs) == ["results_dir"]
    bare = "actions: {a: {mode: args, command: b, outputs: {summary: {type: file}}}}\n"
    assert list(prepare("a", f"container_image: any:1\n{bare}").spec.outputs) == ["summary"]


def test_an_option_of_gpus_follows_those_of_the_job(prepare: Prepare) -> None:
    values = {"root": "/data/in"}
    args = prepare("generate", OPTIONS, values=values, gpu_count=4).spec.args
    assert args is not None
    assert args["num_gpus"] == 4
    with pytest.raises(SpecError, match="num_gpus is set to 2, and the job asks for 4"):
        prepare("generate", OPTIONS, values={**values, "num_gpus": 2}, gpu_count=4)


def test_a_switch_that_is_neither_on_nor_off_is_refused(prepare: Prepare) -> None:
    with pytest.raises(SpecError, match="must be true or false"):
        prepare("generate", OPTIONS, values={"root": "/data/in", "safe": "maybe"})


def test_each_value_says_where_it_came_from(prepare: Prepare) -> None:
    origins = prepare(data=DATA, values={"num_epochs": 12}).origins
    assert origins["specs.train.num_epochs"] == "set"
    assert origins["specs.data.train[0].images"] == "data"
    assert origins["specs.train.seed"].startswith("key_defaults of ")
    assert "tao_toolkit.toy in " in origins["image"]
    assert origins["command"].endswith(PATH)


def test_the_image_that_is_given_wins(prepare: Prepare) -> None:
    assert prepare(data=DATA, image="mine:1").spec.image == "mine:1"


def test_the_annotation_and_the_format_choose_files(prepare: Prepare) -> None:
    data = {**DATA, "train_annotation": "train.json", "format": "odvg"}
    found = specs(prepare(data=data))["data"]
    assert found["train"][0]["labels"] == "s3://b/coco/train.json"
    assert found["by_format"] == "s3://b/coco/b.json"


def test_of_several_files_of_a_format_the_first_that_is_there_is_taken(
    prepare: Prepare, tmp_path: Path
) -> None:
    (tmp_path / "c.json").touch()
    data = {**DATA, "train": str(tmp_path), "format": "odvg"}
    job = prepare(data=data)
    assert specs(job)["data"]["by_format"] == str(tmp_path / "c.json")
    assert not job.warnings
    for train, words in (
        ("s3://b/coco", "was not looked at for b.json, c.json"),
        (str(tmp_path), "none"),
    ):
        (tmp_path / "c.json").unlink(missing_ok=True)
        unseen = prepare(data={**data, "train": train})
        assert specs(unseen)["data"]["by_format"] == f"{train}/b.json"
        assert words in unseen.warnings[0]


def test_an_optional_file_that_is_not_there_is_left_out(prepare: Prepare, tmp_path: Path) -> None:
    text = TOY.replace("path: '', list: true}", "path: p.txt, optional: true}")
    text = text.replace("data.eval[0]: {type: folder}", "data.eval: {type: file, optional: true}")
    data = {**DATA, "eval": str(tmp_path)}
    assert "eval" not in specs(prepare(text=text, data=data))["data"]
    (tmp_path / "p.txt").touch()
    assert specs(prepare(text=text, data=data))["data"]["eval"] == str(tmp_path / "p.txt")


def test_several_datasets_become_a_list_where_the_action_takes_several(prepare: Prepare) -> None:
    text = TOY.replace("path: '', list: true", "path: '', multiple_sources: true")
    data = {**DATA, "eval": ["s3://b/one", "s3://b/two/"]}
    assert specs(prepare(text=text, data=data))["data"]["eval"] == ["s3://b/one", "s3://b/two"]
    with pytest.raises(SpecError, match="takes one dataset as eval, not 2"):
        prepare(data=data)


def test_every_dataset_of_a_list_is_fetched(prepare: Prepare) -> None:
    sources = (
        "    data.train: {source: train_datasets, multiple_sources: true, "
        "mapping: {images: {path: i}, labels: {path: l}}}\n"
    )
    head, _, rest = TOY.partition("    data.train[0].images: {source")
    text = head + sources + rest.partition("\n")[2].partition("\n")[2]
    text = re.sub("    data.by_format.*\n", "", text).replace(
        "data.train[0].images: {type: file}",
        "data.train[0].images: {type: file, selective: "
        "{annotation: 'data.train[0].labels', format: json, keys: [video]}}",
    )
    data = {"train": ["s3://b/one", "s3://b/two"], "eval": "s3://b/val"}
    spec = prepare(text=text, data=data).spec
    keys = [f"data.train[{number}].{name}" for number in (0, 1) for name in ("images", "labels")]
    assert sorted(spec.inputs) == ["data.eval[0]", *keys]
    assert spec.inputs[keys[2]]["selective"]["annotation"] == keys[3]
    with pytest.raises(SpecError, match=r"needs a value for data\.train\[1\]\.images"):
        prepare(text=text, data=DATA, values={"data.train[1].labels": "s3://b/l"})


def test_mapped_files_of_each_dataset_become_a_mapping(prepare: Prepare) -> None:
    source = (
        "{source: eval_dataset, mapping: {dir: {path: i.tar}, names: {path: n, optional: true}}}"
    )
    text = TOY.replace("{source: eval_dataset, path: '', list: true}", source)
    assert specs(prepare(text=text, data=DATA))["data"]["eval"] == [{"dir": "s3://b/val/i.tar"}]


def test_the_spec_follows_the_gpus_and_nodes_of_the_job(prepare: Prepare) -> None:
    job = prepare(data=DATA, gpu_count=4, num_nodes=2)
    train = specs(job)["train"]
    assert (train["num_gpus"], train["gpu_ids"], train["num_nodes"]) == (4, [0, 1, 2, 3], 2)
    assert (job.spec.gpu_count, job.spec.num_nodes) == (4, 2)


def test_a_job_without_gpus_says_so_in_its_spec(prepare: Prepare) -> None:
    train = specs(prepare(data=DATA, gpu_count=0))["train"]
    assert (train["num_gpus"], train["gpu_ids"]) == (0, [])


def test_the_job_follows_the_gpus_of_the_spec_where_only_they_are_set(prepare: Prepare) -> None:
    assert prepare(data=DATA, values={"train.num_gpus": 2}).spec.gpu_count == 2


@pytest.mark.parametrize("values", [{"train.num_gpus": 2}, {"train.gpu_ids": [0, 1]}])
def test_gpus_that_contradict_each_other_are_an_error(
    prepare: Prepare, values: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match=r"is set to .*, and the job asks for 4"):
        prepare(data=DATA, values=values, gpu_count=4)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"data": {"eval": "s3://b/v"}}, "data.train[0].images is images.tar.gz of data train."),
        (
            {
                "data": DATA,
                "text": TOY.replace("labels: {type: file, optional: true}", "labels: file"),
            },
            "whose name you give as data train_annotation.",
        ),
        ({"data": {**DATA, "tests": "s3://x"}}, "reads no dataset 'tests'"),
        ({"data": {**DATA, "train": "aws://b/x"}}, "Write s3://b/x"),
        ({"data": {**DATA, "train": " "}}, "data train is empty"),
        ({"data": DATA, "values": {"num_epoch": 1}}, "Did you mean num_epochs (train.num_epochs)?"),
        ({"data": DATA, "values": {"train..x": 1}}, "is no key of a spec"),
        ({"data": DATA, "values": {"data.train[9].x": 1}}, "what is above it in the spec"),
        ({"data": DATA, "values": {"train.num_epochs.x": 1}}, "what is above it in the spec"),
        ({"action": "evaluate"}, "evaluate.checkpoint is a checkpoint of an earlier job."),
    ],
)
def test_what_cannot_be_a_job_says_what_to_give(
    prepare: Prepare, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as told:
        prepare(**wanted)
    assert words in str(told.value)


def test_an_unknown_action_and_an_unknown_image_are_told(prepare: Prepare) -> None:
    with pytest.raises(ActionNotFound, match="Did you mean train"):
        prepare("trian", data=DATA)
    with pytest.raises(
        Exception, match=r"no such image key: tao_toolkit.none\. .*versions.yaml has"
    ):
        prepare(text=TOY.replace("tao_toolkit.toy", "tao_toolkit.none"), data=DATA)


def test_a_skill_that_needs_no_container_has_no_image(prepare: Prepare) -> None:
    job = prepare(text=TOY.replace("tao_toolkit.toy", "null"), data=DATA)
    assert (job.spec.image, job.origins["image"][:14]) == ("", "none is named ")


def test_no_image_is_taken_from_another_bank(make_bank: MakeBank, settings: Settings) -> None:
    bank = make_bank({PATH: TOY.replace("tao_toolkit.toy", "tao_toolkit.pyt")})
    (bank.root / "versions.yaml").unlink()
    (bank.skills / "tao-train-toy/references/template.yaml").write_text(TEMPLATE)
    with pytest.raises(BankError, match="has no versions.yaml"):
        prepare_model_job(bank, load_named(bank, "toy"), "train", ModelChoices(DATA), settings)


def test_preparing_a_job_leaves_the_skill_as_it_is(make_bank: MakeBank, settings: Settings) -> None:
    text = TOY.replace("{train.seed: 7}", "{data.train: [{a: 1}]}").replace(
        "spec_templates: {train: template.yaml}\n", ""
    )
    bank = make_bank({PATH: text})
    skill = load_named(bank, "toy")
    first = prepare_model_job(bank, skill, "train", ModelChoices(DATA), settings)
    assert prepare_model_job(bank, skill, "train", ModelChoices(DATA), settings) == first
    assert skill.key_defaults == {"data.train": [{"a": 1}]}


def test_arguments_stand_behind_the_command(settings: Settings) -> None:
    bank = Bank(PACKAGED, "this package")
    skill = load_named(bank, "tao-analyze-gaps-vlm-bcq")
    wanted = ModelChoices(values={"predictions-json": "s3://b/p.json"}, image="tool:1")
    spec = prepare_model_job(bank, skill, "vlm_bcq", wanted, settings).spec
    assert spec.command == (
        "gap_analysis vlm_bcq results_dir={results_dir} predictions_json={predictions_json} "
        "videos_dir={videos_dir}"
    )
    assert spec.args == {"predictions_json": "s3://b/p.json", "videos_dir": "", "results_dir": ""}
    assert spec.inputs["videos_dir"] == {"type": "folder", "optional": True}


def test_names_of_classes_and_files_of_the_web_are_values(prepare: Prepare) -> None:
    params = (
        "spec_params:\n"
        "  train:\n"
        "    data.class: StereoDataset\n"
        "    model.weights: {link: 'https://x/w.pth', destination_path: /ptm/w.pth}\n"
        "    model.other: {link: 'https://x/v.pth', destination_path: /ptm/v.pth}\n"
        "    encryption_key: key\n"
    )
    inputs = "    inputs:\n      model.weights: {type: file, optional: true}\n"
    text = TOY.replace("spec_params: {evaluate: {evaluate.checkpoint: parent_model}}\n", params)
    found = specs(prepare(text=text.replace("    inputs:\n", inputs, 1), data=DATA))
    assert found["data"]["class"] == "StereoDataset"
    assert found["model"] == {"weights": "https://x/w.pth"}
    assert "encryption_key" not in found


def test_a_config_file_of_an_args_action_is_one_more_argument(settings: Settings) -> None:
    bank = Bank(PACKAGED, "this package")
    skill = load_named(bank, "tao-generate-image-grounding")
    values = {"input-jsonl": "s3://b/a.jsonl", "image-root": "s3://b/images"}
    job = prepare_model_job(
        bank, skill, "generate", ModelChoices(values=values, image="t:1"), settings
    )
    assert job.spec.args is not None
    assert job.spec.args["config_path"] == ""
    assert job.spec.inputs["config_path"] == {"type": "file", "optional": True}


def test_a_key_that_is_input_and_output_is_an_output(prepare: Prepare) -> None:
    text = TOY.replace(
        "inputs: {evaluate.checkpoint: {type: file}}",
        "inputs: {evaluate.engine: {type: file}}\n    outputs: {evaluate.engine: {type: file}}",
    )
    spec = prepare("evaluate", text=text).spec
    assert (spec.inputs, spec.outputs) == ({}, {"evaluate.engine": {"type": "file"}})


@pytest.mark.parametrize(
    "name", ["dino", "clip-deploy", "sparse4d", "cosmos-rl", "visual-changenet"]
)
def test_every_action_of_a_packaged_model_makes_a_job_that_can_be_packed(
    name: str, settings: Settings
) -> None:
    bank = Bank(PACKAGED, "this package")
    skill = load_named(bank, name)
    for action in skill.actions.values():
        values = {
            key: ["a"] if declared.type == "list" else "s3://bucket/file"
            for key, declared in action.inputs.items()
            if not declared.optional and key not in action.outputs
        }
        wanted = ModelChoices(values=values, image="any:1", gpu_count=2)
        spec = prepare_model_job(bank, skill, action.name, wanted, settings).spec
        packed = build_entrypoint(
            command=spec.command,
            specs=spec.specs,
            inputs=spec.inputs,
            outputs=spec.outputs,
            config_format=spec.config_format or "yaml",
        )
        assert packed["command"]


@pytest.mark.slow
def test_a_prepared_job_runs_with_its_data_and_results(
    make_bank: MakeBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    around = Settings(
        {
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        }
    )
    data = tmp_path / "coco"
    data.mkdir()
    with tarfile.open(data / "images.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("images/1.jpg"))
    text = TOY.replace("images.tar.gz}", "images.tar.gz, runtime: extracted_folder}")
    bank = make_bank({PATH: text, "tao-train-toy/references/template.yaml": TEMPLATE})
    wanted = ModelChoices({"train": str(data), "eval": str(data)}, {"num_epochs": 3}, gpu_count=0)
    job = prepare_model_job(bank, load_named(bank, "toy"), "train", wanted, around)
    with Client(settings=around) as client:
        job_id = client.submit(job.spec, "local").job.id
        ended = client.wait_all([job_id])
        log = client.get_job_logs(job_id)
    assert [each.status for each in ended] == [Status.COMPLETE]
    assert '"num_epochs": 3' in log
    assert re.search(r'"images": "[^"]*/images"', log)  # the folder, not the archive


def test_files_of_a_skill_travel_with_the_job(make_bank: MakeBank, settings: Settings) -> None:
    text = TOY + "files: {toy.py: ../program/toy.py}\n"
    files = {
        PATH: text,
        "tao-train-toy/references/template.yaml": TEMPLATE,
        "tao-train-toy/program/toy.py": "print(1)\n",
    }
    bank = make_bank(files)
    wanted = ModelChoices(data=DATA)
    job = prepare_model_job(bank, load_named(bank, "toy"), "train", wanted, settings)
    assert job.spec.files == {"toy.py": b"print(1)\n"}


@pytest.mark.parametrize("path", ["../../../../secret", "/etc/passwd", "nowhere.py"])
def test_a_file_of_a_skill_that_is_not_in_the_bank_is_refused(
    make_bank: MakeBank, settings: Settings, path: str
) -> None:
    bank = make_bank({PATH: TOY + f"files: {{toy.py: {path}}}\n"})
    (bank.root.parent / "secret").write_text("secret")
    with pytest.raises(SpecError, match="leads out|cannot be read"):
        skill_files(bank, load_named(bank, "toy"))


def test_a_skill_says_how_many_gpus_its_jobs_have(prepare: Prepare) -> None:
    text = TOY + "resource_defaults: {gpu_count: 4}\n"
    assert prepare(text=text, data=DATA).spec.gpu_count == 4
    assert prepare(text=text, data=DATA, gpu_count=2).spec.gpu_count == 2
