"""Plans of AutoMLRunner: a JSON file that says what to search, carried out by
`python -m tao_automl.runner PLAN --platform P`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_automl.runner import AutoMLRunner
from tao_sdk.model.errors import TaoError, UsageError

if TYPE_CHECKING:
    from tao_sdk.client import PlatformSDK

Json = Mapping[str, Any]
PLATFORMS = ("docker", "kubernetes", "slurm", "brev", "lepton", "local")
ABOUT = "Carry out a plan of AutoML on a platform, and print its result as JSON."


def run_automl_plan(plan: Json, platform: str) -> dict[str, Any]:
    """Carry out a plan, print its result as JSON, and return it. Raises UsageError for a plan that
    is not ready.
    """
    refuse_unready(plan)
    params: Json = plan["steps"][0]["params"]
    more: dict[str, Any] = dict(params.get("platform_kwargs") or {})
    sdk = sdk_of(platform, params.get("sdk_kwargs") or {})
    with sdk:
        runner = AutoMLRunner(sdk, params["skill_dir"], params.get("action") or "train")
        result = runner.run(
            train_dataset_uri=params.get("train_dataset_uri") or "",
            eval_dataset_uri=params.get("eval_dataset_uri") or "",
            base_checkpoint=params.get("base_checkpoint") or "",
            workspace_id=params.get("workspace_id"),
            image=params.get("image"),
            automl_settings=plan.get("automl_settings"),
            automl_hyperparameters=plan.get("automl_hyperparameters"),
            custom_param_ranges=plan.get("custom_param_ranges"),
            workspace_path=plan.get("automl_workspace_path") or "./automl_workspace",
            spec_overrides=params.get("spec_overrides"),
            execution=params.get("execution"),
            **more,
        )
    print(json.dumps(result, indent=2, default=str))
    return result


def refuse_unready(plan: Json) -> None:
    if not plan.get("ready"):
        issues = plan.get("blocking_issues") or ["it does not say why"]
        raise UsageError("The plan is not ready.", "; ".join(map(str, issues)))
    steps: list[Json] = plan.get("steps") or [{}]
    params: Json = steps[0].get("params") or {}
    if not params.get("skill_dir"):
        raise UsageError(
            "The plan names no skill.", "", "Set steps[0].params.skill_dir to the skill's folder."
        )


def sdk_of(platform: str, keywords: Mapping[str, Any]) -> PlatformSDK:
    """The SDK of a platform."""
    module = importlib.import_module(f"tao_sdk.platforms.{platform}")
    return getattr(module, f"{platform.capitalize()}SDK")(**keywords)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 0 where a trial succeeded, 1 where none did, 2 for a mistake."""
    parser = argparse.ArgumentParser("python -m tao_automl.runner", description=ABOUT)
    parser.add_argument("plan", help="the plan, a JSON file")
    parser.add_argument("--platform", required=True, choices=PLATFORMS, help="where the jobs run")
    found = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        plan = json.loads(Path(found.plan).read_text(encoding="utf-8"))
        result = run_automl_plan(plan, found.platform)
    except (TaoError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if result["best"]["rec_id"] is not None else 1
