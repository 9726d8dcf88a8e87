"""Writes the model skills of the packaged skill bank from tools/model_skills.json, and from
own_data_sources below.

Run it as `python tools/write_model_skills.py`; a test holds the files equal to what it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FACTS = ROOT / "tools" / "model_skills.json"
SKILLS = ROOT / "src" / "tao_sdk" / "skill_bank" / "skills"
MANIFEST = "schemas.manifest.json"
HEAD = "# Written by tools/write_model_skills.py from tools/model_skills.json. Change it there.\n"
DEPLOY = " (deploy)"
UNKNOWN_COMMAND = "(a longer script; not a fact)"
DATA_SKILLS = ("tao-analyze-", "tao-generate-")
MODEL_PREFIXES = ("tao-train-", "tao-finetune-")
# The keys in the order in which people read them. Templates are left out: this bank has none.
ORDER = (
    *("network_arch", "aliases", "container_image", "data_format", "gpu_spec_key", "node_spec_key"),
    *("automl_enabled", "required_credentials", "runtime_requirements"),
    *("spec_shorthand_keys", "key_defaults"),
    *("data_sources", "spec_params"),
)

# The last word of an input's key -> what the input is, where no dataset has it.
OWN_DESCRIPTIONS = {
    "data_info_path": "the folder data_info in the results of the model's action dataset_convert",
    "mp4_urls": "the pattern of the videos' paths in the container, such as /data/video/*.mp4",
}
OWN_NOTES = {
    "tao-train-nvpanoptix3d": [
        "A parent, or a checkpoint, of train is train.checkpoint_2d, with which the 3D stage "
        "starts. To resume a training, set train.resume_training_checkpoint_path."
    ],
}
# What the documents say of the machine: of all actions, and of training.
OWN_NEEDS = {
    "tao-finetune-cosmos-reason": (
        {"gpu_archs": ["sm_80", "sm_90", "sm_100", "sm_120"]},
        {"train": {"min_gpu_count": 4, "min_gpu_memory_gb": 80}},
    )
}

Facts = Mapping[str, Any]
Sources = dict[str, dict[str, Any]]  # the data sources of one action, by key


# Data sources of our own, for models whose facts have none: as the same keys of rtdetr, clip and
# foundation-stereo have them, or the dataset itself where an action takes one folder. What is no
# part of a dataset has a description instead (OWN_DESCRIPTIONS).


def own_data_sources() -> dict[str, dict[str, Sources]]:
    """By skill and action."""
    clip = {"evaluate": captioned("dataset.val.datasets", "eval_dataset")}
    pointpillars = {
        "evaluate": folder("dataset.data_path", "eval_dataset"),
        "inference": folder("dataset.data_path", "inference_dataset"),
    }
    return {
        "tao-finetune-clip (deploy)": clip,
        "tao-train-action-recognition": {
            "train": folder("dataset.train_dataset_dir", "train_datasets")
            | folder("dataset.val_dataset_dir", "eval_dataset"),
            "evaluate": folder("evaluate.test_dataset_dir", "eval_dataset"),
            "inference": folder("inference.inference_dataset_dir", "inference_dataset"),
        },
        "tao-train-bevfusion": bevfusion(),
        "tao-train-centerpose": centerpose()
        | {
            "train": folder("dataset.train_data", "train_datasets")
            | folder("dataset.val_data", "eval_dataset"),
            "gen_trt_engine": calibration(),
        },
        "tao-train-centerpose (deploy)": centerpose(),
        "tao-train-deformable-detr": {
            name: coco()[name] for name in ("train", "quantize", "evaluate", "inference")
        }
        | {"gen_trt_engine": calibration()},
        "tao-train-deformable-detr (deploy)": {
            name: coco()[name] for name in ("evaluate", "inference")
        },
        "tao-train-depth-anything-v2": depth(),
        "tao-train-depth-anything-v2 (deploy)": {
            name: depth()[name] for name in ("evaluate", "inference")
        },
        "tao-train-dino": coco(),
        "tao-train-pointpillars (deploy)": pointpillars,
    }


def coco() -> dict[str, Sources]:
    """Detectors on images.tar.gz and annotations.json. Training takes a list of such datasets."""
    train = coco_list("train", "train_datasets") | coco_list("val", "eval_dataset")
    return {
        "train": train,
        "distill": train,
        "quantize": train | coco_pair("quant_calibration", "train_datasets"),
        "evaluate": coco_pair("test", "eval_dataset"),
        "inference": {
            "dataset.infer_data_sources.image_dir": {
                **images("inference_dataset"),
                "list": True,
            },
            "dataset.infer_data_sources.classmap": {
                "source": "inference_dataset",
                "path": "label_map.txt",
            },
        },
    }


def coco_list(name: str, source: str) -> Sources:
    files = {"image_dir": {"path": "images.tar.gz"}, "json_file": {"path": "annotations.json"}}
    key = f"dataset.{name}_data_sources"
    return {key: {"source": source, "multiple_sources": True, "mapping": files}}


def coco_pair(name: str, source: str) -> Sources:
    return {
        f"dataset.{name}_data_sources.image_dir": images(source),
        f"dataset.{name}_data_sources.json_file": {"source": source, "path": "annotations.json"},
    }


def captioned(key: str, source: str) -> Sources:
    files = {"image_dir": {"path": "images.tar.gz"}, "caption_dir": {"path": "captions.tar.gz"}}
    return {key: {"source": source, "multiple_sources": True, "mapping": files}}


def centerpose() -> dict[str, Sources]:
    return {
        "evaluate": folder("dataset.test_data", "eval_dataset"),
        "inference": folder("dataset.inference_data", "inference_dataset"),
    }


def bevfusion() -> dict[str, Sources]:
    """One folder for all, in which the user names the annotation files (train_annotation)."""
    eval_files = annotation("dataset.test_dataset.ann_file", "eval_dataset")
    return {
        "dataset_convert": folder("root_dir", "train_datasets"),
        "train": folder("dataset.root_dir", "train_datasets")
        | annotation("dataset.train_dataset.ann_file", "train_datasets", "train_dataset")
        | annotation("dataset.val_dataset.ann_file", "eval_dataset")
        | eval_files,
        "evaluate": folder("dataset.root_dir", "eval_dataset") | eval_files,
        "inference": folder("dataset.root_dir", "inference_dataset")
        | annotation("dataset.test_dataset.ann_file", "inference_dataset"),
    }


def depth() -> dict[str, Sources]:
    train = depth_file("train", "train_datasets") | depth_file("val", "eval_dataset")
    return {
        "train": train,
        "quantize": train,
        "evaluate": depth_file("test", "eval_dataset"),
        "inference": depth_file("infer", "inference_dataset"),
    }


def depth_file(name: str, source: str) -> Sources:
    key = f"dataset.{name}_dataset.data_sources[0].data_file"
    return {key: {"source": source, "path": "annotations.txt"}}


def calibration() -> Sources:
    key = "gen_trt_engine.tensorrt.calibration.cal_image_dir"
    return {key: {**images("calibration_dataset"), "list": True}}


def images(source: str) -> dict[str, Any]:
    return {"source": source, "path": "images.tar.gz", "runtime": "extracted_folder"}


def folder(key: str, source: str) -> Sources:
    """The dataset itself."""
    return {key: {"source": source, "path": ""}}


def annotation(key: str, source: str, name: str = "") -> Sources:
    return {key: {"source": source, "path": f"{{{name or source}_annotation}}"}}


# The files


def bank_files() -> Iterator[tuple[Path, str]]:
    """Every file of the model skills, below the folder of skills, with its text."""
    facts = known_models()
    for name, about in facts.items():
        yield skill_path(name), HEAD + yaml_text(skill_info(name, about))
    manifest = {"schema_version": 1, "models": dict(manifest_entries(facts))}
    yield Path("models") / MANIFEST, json.dumps(manifest, indent=1) + "\n"


def known_models() -> dict[str, Facts]:
    """The facts by skill, with data sources of our own where they have none."""
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    for name, sources in own_data_sources().items():
        theirs = facts[name].get("data_sources", {})
        facts[name]["data_sources"] = {**sources, **theirs}
    for name, (general, actions) in OWN_NEEDS.items():
        facts[name]["runtime_requirements"] = {"gpu_host": general}
        for action, needs in actions.items():
            facts[name]["actions"][action]["runtime_requirements"] = {"gpu_host": needs}
    return facts


def skill_path(name: str) -> Path:
    """Where the file of a skill is; that of a deploy skill lies beside its model's."""
    folder = name.removesuffix(DEPLOY)
    file = "skill_info.yaml"
    if name.endswith(DEPLOY):
        file = f"tao-deploy-{model_name(folder)}.skill_info.yaml"
    return Path(group_of(folder)) / folder / "references" / file


def group_of(folder: str) -> str:
    return "data" if folder.startswith(DATA_SKILLS) else "models"


def model_name(folder: str) -> str:
    """`dino` of tao-train-dino."""
    for prefix in MODEL_PREFIXES:
        folder = folder.removeprefix(prefix)
    return folder


def skill_info(name: str, about: Facts) -> dict[str, Any]:
    """The content of a skill_info.yaml."""
    folder = name.removesuffix(DEPLOY)
    own_name = f"{model_name(folder)}-deploy" if name.endswith(DEPLOY) else folder
    info: dict[str, Any] = {"name": own_name}
    if group_of(folder) == "data":
        info["type"] = "data"
    info |= {key: about[key] for key in ORDER if key in about}
    info["actions"] = {
        action: action_info(facts)
        for action, facts in about["actions"].items()
        if facts["command"] != UNKNOWN_COMMAND
    }
    if notes := [*missing_actions(about), *OWN_NOTES.get(name, ())]:
        info["notes"] = notes
    return info


def missing_actions(about: Facts) -> Iterator[str]:
    for action, facts in about["actions"].items():
        if facts["command"] == UNKNOWN_COMMAND:
            yield f"The action {action} is not in this bank: its command is a longer script."


def action_info(facts: Facts) -> dict[str, Any]:
    """An action with its short forms written out. A key that is an input and an output is the
    output.
    """
    info = {key: facts[key] for key in ("mode", "container_image", "command") if key in facts}
    others = ("args", "defaults", "config_format", "runtime_requirements")
    info |= {key: facts[key] for key in others if key in facts}
    inputs = {key: about for key, about in facts["inputs"].items() if key not in facts["outputs"]}
    info["inputs"] = {
        key: declaration(about) | own_description(key) for key, about in inputs.items()
    }
    info["outputs"] = {key: declaration(about) for key, about in facts["outputs"].items()}
    info["upload_excludes"] = ["inputs/"]
    return info


def own_description(key: str) -> dict[str, str]:
    description = OWN_DESCRIPTIONS.get(key.rpartition(".")[2])
    return {"description": description} if description else {}


def declaration(about: str | Facts) -> dict[str, Any]:
    """`file?` is an optional file."""
    if not isinstance(about, str):
        return dict(about)
    if about.endswith("?"):
        return {"type": about.removesuffix("?"), "optional": True}
    return {"type": about}


def manifest_entries(facts: Facts) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a list of models shows, without reading a file for each."""
    for name, about in facts.items():
        if not name.endswith(DEPLOY) and group_of(name) == "models":
            actions = list(skill_info(name, about)["actions"])
            yield (
                name,
                {
                    "network_arch": about.get("network_arch", ""),
                    "automl_enabled": about.get("automl_enabled", False),
                    "actions": actions,
                },
            )


def yaml_text(value: object) -> str:
    """Block YAML, each key in a line of its own, nothing shared by aliases."""
    return yaml.dump(value, Dumper=PlainDumper, sort_keys=False, width=100)


class PlainDumper(yaml.SafeDumper):
    """YAML in which a value that stands twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  PyYAML calls it
        return True


def write_files() -> None:
    for path, text in bank_files():
        target = SKILLS / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_files()
