"""Comparisons: in which settings jobs differ, and which values of a metric they came to. Pure.

Not here: where the jobs come from and where the picture goes (client/compare.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.model.job import Job
from tao_sdk.model.metric_names import is_loss, smaller_is_better, telling_order
from tao_sdk.model.progress import Best, Progress
from tao_sdk.model.ranking import best_value, metrics_of, unknown_metric
from tao_sdk.model.secrets import is_secret_name, shown_target

# Fields of a stored spec that say nothing about the training, or have names of their own below.
_NOT_COMPARED = frozenset({"name", "labels", "command", "packed", "files", "hooks", "secrets"})
_NUMBER = re.compile(r"-\.?\d")
PLAIN_WORD = re.compile(r"word \d+")  # the name of a command's word that is no flag's value
_HIDDEN = "***"
_NUMBERED_KEY = re.compile(r"-*key[_-]?\d+")  # one of several keys; `api_key1` is none
_SECRET_ENDS = ("key", "token", "secret", "password", "passwd")


@dataclass(frozen=True)
class Compared:
    """A job beside others: the settings in which they differ, and the best and last value of their
    metric.
    """

    job: Job
    settings: Mapping[str, Any]
    best: Best | None
    last: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.job.id,
            "name": self.job.name,
            "status": self.job.status.value,
            "settings": dict(self.settings),
            "best_value": self.best.value if self.best else None,
            "best_epoch": (self.best.epoch or None) if self.best else None,
            "best_step": self.best.step if self.best else None,
            "last_value": self.last,
        }


@dataclass(frozen=True)
class Comparison:
    """Jobs side by side. `differ` names the settings that are not the same in all; `metric` is None
    where none was told.
    """

    jobs: tuple[Compared, ...]
    differ: tuple[str, ...]
    metric: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "metric": self.metric,
            "smaller_is_better": smaller_is_better(self.metric) if self.metric else None,
            "differ": list(self.differ),
            "jobs": [job.to_json() for job in self.jobs],
        }


def compare_jobs(jobs: Sequence[Job], metric: str | None = None) -> Comparison:
    """The jobs in their order, by `metric` or by the one that most of them have. Raises UsageError
    for one that none has.
    """
    settings = with_commands([settings_of(job) for job in jobs])
    differ = differing_settings(settings)
    progresses = [job.progress for job in jobs]
    told = metrics_of(progresses)
    if metric and metric not in told:
        raise unknown_metric(metric, jobs)
    chosen = metric or shared_metric(progresses, told)
    compared = [
        Compared(
            job,
            {name: shown_target(own[name]) for name in differ if name in own},
            best_value(progress, chosen) if chosen else None,
            progress.metrics.get(chosen) if chosen else None,
        )
        for job, own, progress in zip(jobs, settings, progresses, strict=True)
    ]
    return Comparison(tuple(compared), differ, chosen)


def shared_metric(progresses: Sequence[Progress], told: Sequence[str]) -> str | None:
    """The metric that most of the jobs have; of several the most telling."""

    def rank(name: str) -> tuple[int, bool, tuple[bool, bool, bool, bool, str]]:
        having = sum(name in progress.metrics for progress in progresses)
        return (-having, is_loss(name), telling_order(name))

    return min(told, key=rank, default=None)


def with_commands(settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings of jobs whose commands are unlike, with all plain words as one `command`.

    Commands are alike that have as many plain words, and the same first one: then each word stands
    by itself.
    """
    commands = [plain_words(own) for own in settings]
    if len({(len(words), *words[:1]) for words in commands}) == 1:
        return list(settings)
    return [
        {"command": " ".join(words), **without_words(own)}
        for words, own in zip(commands, settings, strict=True)
    ]


def plain_words(settings: Mapping[str, Any]) -> list[str]:
    """The words of a command that are no flags, in their order."""
    return [value for name, value in settings.items() if PLAIN_WORD.fullmatch(name)]


def without_words(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if not PLAIN_WORD.fullmatch(name)}


def differing_settings(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names, in the order in which they first come, of what is not the same in all."""
    names = dict.fromkeys(name for own in settings for name in own)
    absent = object()
    return tuple(
        name
        for name in names
        if any(own.get(name, absent) != settings[0].get(name, absent) for own in settings)
    )


def settings_of(job: Job) -> dict[str, Any]:
    """Labels, parts of the command, specs, args and options of a job by flat names; a secret's
    value is hidden.
    """
    spec = {name: value for name, value in job.spec.items() if name not in _NOT_COMPARED}
    found: dict[str, Any] = {f"label {name}": value for name, value in job.labels.items()}
    found.update(command_parts(str(job.spec.get("command") or "")))
    found.update(_flatten_settings(spec))
    found["platform"] = job.platform
    found.update(_flatten_settings(job.options, "option."))
    return {name: _HIDDEN if _is_secret(name) else value for name, value in found.items()}


def _is_secret(name: str) -> bool:
    """True for `env_vars.WANDB_API_KEY` and `--auth-token`. False for settings: `num_keypoints`,
    `max_tokens`, `tokenizer`, `key1`.
    """
    if name.startswith("env_vars."):
        return is_secret_name(name.removeprefix("env_vars."))
    parts = re.split(r"[. ]", name.lower())
    named = [part for part in parts if not _NUMBERED_KEY.fullmatch(part)]
    words = re.split(r"[^a-z]+", " ".join(named))
    return any(
        word.endswith(_SECRET_ENDS) or word.startswith(("secret", "password")) for word in words
    )


def _flatten_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten_settings(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def command_parts(command: str) -> dict[str, str]:
    """`train.py --lr 0.1 seed=3` as `word 1`: train.py, `--lr`: 0.1, `seed`: 3. What is given again
    has both values.
    """
    parts: dict[str, str] = {}
    plain = 0
    words = _split_words(command)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if _is_flag(word) and not equals and words and not _is_flag(words[0]):
            value = words.pop(0)
        elif not equals and not _is_flag(word):
            plain += 1
            name, value = f"word {plain}", word
        parts[name] = f"{parts[name]} {value}" if name in parts else value
    return parts


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.match(word)


def _split_words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote: shell text that is no list of words
        return command.split()
