"""A small model of a skill bank, with a schema for AutoML: its program reads a spec and prints
epochs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PROGRAM = """
import os, sys, yaml
spec = yaml.safe_load(open(sys.argv[2]))
if sys.argv[1] == "evaluate":
    assert os.path.exists(spec["evaluate"]["checkpoint"])
    print("Final accuracy = 0.875")
    sys.exit()
train = spec["train"]
if train["optim"]["lr"] > 0.5:
    sys.exit("the loss exploded")
last = train["num_epochs"]
folder = os.path.join(spec["results_dir"], "train")
os.makedirs(folder, exist_ok=True)
for epoch in range(1, last + 1):
    print(f"epoch {epoch}/{last} accuracy {train['optim']['lr'] + epoch / 100:.4f} size {train['batch_size']}", flush=True)
    open(os.path.join(folder, f"model_epoch_{epoch:03}.pth"), "w").write("x")
"""
INFO = """
name: toy
network_arch: toynet
container_image: registry.example/toy:1
automl_enabled: true
metrics: {{monitoring_metric: accuracy}}
spec_shorthand_keys: {{batch_size: train.batch_size}}
spec_templates: {{train: spec_template_train.yaml}}
spec_params:
  evaluate: {{evaluate.checkpoint: parent_model}}
actions:
  train:
    mode: config
    command: {python} {program} train {{config_path}}
    config_format: yaml
    inputs: {{}}
    outputs: {{results_dir: {{type: folder}}}}
  evaluate:
    mode: config
    command: {python} {program} evaluate {{config_path}}
    config_format: yaml
    inputs: {{evaluate.checkpoint: {{type: file}}}}
    outputs: {{results_dir: {{type: folder}}}}
"""
TEMPLATE = "train: {num_epochs: 2, batch_size: 8, optim: {lr: 0.1}}\n"
SCHEMA = {
    "type": "object",
    "properties": {
        "results_dir": {"type": "string"},
        "train": {
            "type": "object",
            "properties": {
                "num_epochs": {"type": "int", "minimum": 1},
                "batch_size": {"type": "int", "minimum": 1, "maximum": 64},
                "optim": {
                    "type": "object",
                    "properties": {
                        "lr": {
                            "type": "float", "minimum": 0.01, "maximum": 0.4, "default": 0.1,
                            "automl_enabled": True,
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip


def write_skill(root: Path) -> Path:
    """The folder of the skill `toy`, in a bank at `root`."""
    folder = root / "skills" / "toy"
    (folder / "references").mkdir(parents=True)
    (folder / "schemas").mkdir()
    program = root / "toy.py"
    program.write_text(PROGRAM)
    info = INFO.format(python=sys.executable, program=program)
    (folder / "references" / "skill_info.yaml").write_text(info)
    (folder / "references" / "spec_template_train.yaml").write_text(TEMPLATE)
    (folder / "schemas" / "train.schema.json").write_text(json.dumps(SCHEMA))
    return folder
