"""A model by its name on a cluster: a further job finds its parent's checkpoint in the shared folder."""

from __future__ import annotations

from pathlib import Path

from support.cluster.cluster_images import PYTHON
from support.tao_command import run_tao_here

TRAIN = ("--model", "digits", "--action", "train", "--set", "num_epochs=2")
EVALUATE = ("--model", "digits", "--action", "evaluate", "--checkpoint", "epoch:2")


def test_a_model_is_evaluated_from_its_trainings_shared_folder(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    on_the_cluster = ("--platform", "slurm", "--image", PYTHON, "--name", "learn")
    trained = run_tao_here(surroundings, tmp_path, "run", *TRAIN, *on_the_cluster)
    assert trained.code == 0, trained
    evaluate = (*EVALUATE, "--image", PYTHON, "--parent", "learn")
    tested = run_tao_here(surroundings, tmp_path, "run", *evaluate)
    assert tested.code == 0, tested
    assert "slurm" in tested.out and "accuracy 0.9" in tested.out, tested
