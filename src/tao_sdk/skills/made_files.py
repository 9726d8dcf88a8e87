"""Files that an action makes: their names, for keys of the spec that take one by the skill's
spec_params.

The job puts each into its results under that name, so a further job finds it by its ending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tao_sdk.skills.skill import Action, Mode, Output, Skill

# The word for a key in spec_params -> the name of the file that the action writes there.
FILE_NAMES: Mapping[str, str] = {
    "create_onnx_file": "model.onnx",
    "create_onnx_file_2d": "model_2d.onnx",
    "create_engine_file": "model.engine",
    "create_cal_cache": "cal.bin",
    "create_pth_file": "model.pth",
    "create_inference_result_file_mal": "inference.json",
    "create_inference_result_file_pose": "results.txt",
    "create_inference_result_file_reid": "inference.json",
    "create_evaluate_cmc_plot_reid": "cmc_curve.png",
    "create_evaluate_matches_plot_reid": "sampled_matches.png",
}


def made_files(skill: Skill, action: Action) -> dict[str, str]:
    """The keys of the action's spec, and the name of the file that it makes for each."""
    if action.mode is not Mode.CONFIG:
        return {}
    return {
        key: FILE_NAMES[param]
        for key, param in skill.spec_params.get(action.name, {}).items()
        if isinstance(param, str) and param in FILE_NAMES
    }


def with_made_files(skill: Skill, action: Action) -> Action:
    """The action with these files among its outputs. A file that it does not declare may stay away,
    such as the cache of a calibration that is not asked for.
    """
    undeclared = {
        key: Output(key, "file", optional=True)
        for key in made_files(skill, action)
        if key not in action.outputs
    }
    if not undeclared:
        return action
    return replace(action, outputs={**action.outputs, **undeclared})
