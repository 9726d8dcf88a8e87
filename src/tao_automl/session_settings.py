"""Settings of a session: what a search by ask and tell makes of its settings, at its start and when
it is carried on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tao_automl.algorithms import TABLE
from tao_automl.decisions import EndStatus
from tao_automl.near import near_name
from tao_automl.search import extend
from tao_automl.settings import AUTO, SearchSettings, mistake
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.template import keys_in, usual_epochs_key

ASHA_CONCURRENT = 4  # trials at once, where nobody says how many
WANDB_WORDS = ("enabled", "project", "entity", "api_key", "group")


def class_settings(settings: SearchSettings) -> SearchSettings:
    """The settings with the defaults of this class. Raises SettingError for one that needs jobs."""
    if settings.max_gpu_hours:
        what = "max_gpu_hours counts the jobs of a search, and AutoML runs none."
        raise mistake("max_gpu_hours", what, "Use max_wall_time or max_jobs.")
    if settings.algorithm == "asha" and settings.max_concurrent is None:
        return replace(settings, max_concurrent=ASHA_CONCURRENT)
    return settings


def with_epochs_key(search: Search, spec: Mapping[str, Any]) -> Search:
    """The search with the key that its rungs write their epochs to, where nobody has named it."""
    settings = search.settings
    if settings.epochs_key or not TABLE[settings.algorithm].has_rungs:
        return search
    return replace(search, settings=replace(settings, epochs_key=usual_epochs_key(keys_in(spec))))


def carried_on(search: Search, chosen: SearchSettings, space: Space) -> Search:
    """A search that goes on: after an error or a stop, or with other limits than before. Raises
    UsageError for what cannot be changed.
    """
    refuse_changes(search, chosen, space)
    kept = search.settings
    same = {"algorithm": kept.algorithm, "seed": kept.seed, "start": kept.start}
    limits = replace(chosen, **same, epochs_key=chosen.epochs_key or kept.epochs_key)
    if replace(limits, session_id=kept.session_id) != kept:
        return extend(search, limits)
    is_broken = search.ended is not None and search.ended.status is not EndStatus.COMPLETE
    return extend(search) if is_broken else search


def refuse_changes(search: Search, chosen: SearchSettings, space: Space) -> None:
    kept = search.settings
    advice = "Leave it as it was, or start another search with resume=False."
    if chosen.algorithm not in (AUTO, kept.algorithm):
        what = f"algorithm is {chosen.algorithm}; the search was started with {kept.algorithm}."
        raise mistake("algorithm", what, advice)
    if chosen.objectives != kept.objectives:
        before = ", ".join(f"{one.direction} {one.metric}".strip() for one in kept.objectives)
        raise mistake("metric", f"the search was started to {before}.", advice)
    if chosen.seed not in (None, search.seed):
        raise mistake("seed", f"seed is {chosen.seed}; the search has {search.seed}.", advice)
    if set(space.keys) != set(search.space.keys):
        searched = ", ".join(search.space.keys)
        what = f"the search was started with other parameters: {searched}."
        raise mistake("automl_hyperparameters", what, advice)


def checked_wandb(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of Weights & Biases. Raises SettingError for a word that nobody knows."""
    for name in config:
        if name not in WANDB_WORDS:
            what = f"unknown key {name!r} of wandb_config."
            raise mistake("wandb_config", what, near_name(name, WANDB_WORDS))
    return config
