"""Lines of progress: what one line of a status.json or of a log says about epochs, metrics and the time left.

Understood: TAO's status.json; Keras, Lightning and tqdm bars, mmengine, fairseq, Hugging Face dictionaries, and what
people print themselves (`epoch 3/20  loss 0.093`). Not here: what follows from it (model/progress.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

MOST_EPOCHS = 9_999_999  # a larger number is a time stamp
TEXT_LIMIT = 4096  # characters of a log line that are looked at

_WORTH_A_LOOK = (
    b"poch", b"loss", b"acc", b"kpi", b"map", b"iou", b"auc", b"auroc", b"dice", b"f1", b"precision", b"recall", b"score",
    b"error", b"mae", b"mse", b"wer", b"cer", b"ppl", b"perplexity", b"nll", b"bleu", b"rouge", b"psnr", b"ssim", b"fid",
    b"reward", b"top",
)  # fmt: skip
_METRIC_WORDS = frozenset({
    "loss", "nll", "acc", "accuracy", "auc", "auroc", "map", "ap", "ar", "iou", "miou", "dice", "f", "precision", "recall",
    "psnr", "ssim", "wer", "cer", "perplexity", "ppl", "bleu", "rouge", "error", "err", "mae", "mse", "rmse", "score",
    "reward", "top", "fid",
})  # fmt: skip
_NOT_METRICS = frozenset({
    "lr", "rate", "time", "eta", "iter", "iters", "iteration", "step", "steps", "epoch", "epochs", "seconds", "date",
    "memory", "mem", "size", "gpu", "gpus", "weight", "weights", "coef", "threshold", "version",
})  # fmt: skip

_NUMBER = r"[-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
_EPOCH = re.compile(
    r"(?<![A-Za-z_-])epochs?\b(?:\s?\((?:train|val|test)\))?['\"]?[ \t]{0,4}[:=#]?[ \t]{0,4}[\[(]?[ \t]{0,4}"
    r"(?P<epoch>\d{1,7})(?P<part>\.\d{1,12})?(?![\d.]*\d)[ \t]{0,4}(?:(?:/|of\b)[ \t]{0,4}(?P<epochs>\d{1,7}))?"
    r"(?P<bar>:[ \t]{1,8}\d{1,3}%\|)?",
    re.IGNORECASE,
)
_PLURAL = re.compile(r"epochs", re.IGNORECASE)
_IN_PASSING = re.compile(
    r"(?:at|until|from|best|per|every|each|after|before|last|since|to|by)[ \t:]+(?:the )?$", re.IGNORECASE
)
_TOTAL = re.compile(
    r"(?:\b(?:max|num|n|total)[_ -]epochs?|(?<![\w])epochs)['\"]?[ \t]{0,4}[:=][ \t]{0,4}"
    r"(?P<epochs>\d{1,7})(?![\d.]*\d)",
    re.IGNORECASE,
)
_METRIC = re.compile(
    r"(?:(?<![\w./@-])(?P<part>train|training|val|valid|validation|test|eval)[ \t])?"
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w./@-]{0,60})['\"]?"
    r"(?:(?P<sign>[ \t]{0,4}[:=][ \t]{0,4})|[ \t]{1,4})"
    rf"(?P<value>{_NUMBER}|[-+]?(?:nan|inf(?:inity)?)\b)(?:/(?P<of>\d{{1,12}})\b)?",
    re.IGNORECASE,
)
_ETA = re.compile(r"\beta['\"]?[ \t]{0,4}[:=]?[ \t]{0,4}(?P<eta>(?:\d+ days?, )?\d+:\d\d(?::\d\d)?)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_STEP = re.compile(r"\b(?:step|iter|iteration)\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Sighting:
    """What one line says. Numbers are as the job counts them."""

    epoch: int | None = None
    epochs: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    eta_seconds: float | None = None
    completed: bool = False  # `epoch` is how many are over (a fraction was told), not the number of one
    counts_from_zero: bool = False  # this line shows that the job does

    def names_epoch_of(self, other: Sighting) -> bool:
        return (self.epoch, self.completed) == (other.epoch, other.completed)

    def after(self, before: Sighting) -> Sighting:
        return Sighting(
            epoch=before.epoch,
            epochs=self.epochs or before.epochs,
            metrics={**before.metrics, **self.metrics},
            eta_seconds=self.eta_seconds if self.eta_seconds is not None else before.eta_seconds,
            completed=before.completed,
            counts_from_zero=self.counts_from_zero or before.counts_from_zero,
        )


def may_say_something(text: bytes) -> bool:
    """A quick look, so that a log of many gigabytes costs little."""
    lowered = text.lower()
    return any(word in lowered for word in _WORTH_A_LOOK)


def read_line(line: str, epoch_known: bool = True) -> Sighting | None:
    """What `line` says, or None. Before any epoch is known a metric counts only beside an epoch or a step."""
    text = line.strip()
    if text.startswith("@tao "):
        return None
    if text.startswith("{") and (record := _json_object(text)) is not None:
        return _read_record(record)
    return _read_text(_COLOUR.sub("", text[:TEXT_LIMIT]), epoch_known)


def _json_object(text: str) -> Mapping[str, Any] | None:
    try:
        return cast(Mapping[str, Any], json.loads(text))
    except (ValueError, RecursionError):
        return None


def _read_record(record: Mapping[str, Any]) -> Sighting | None:
    """One line of TAO's status.json: epoch, max_epoch, eta, and numbers at the top, in `graphical` and in `kpi`."""
    number = _number(record.get("epoch"))
    total = _number(record.get("max_epoch"))
    whole = isinstance(record.get("epoch"), int)
    epoch = int(number) if number is not None and 0 <= number <= MOST_EPOCHS else None
    seen = Sighting(
        epoch=epoch,
        epochs=int(total) if total is not None and 1 <= total <= MOST_EPOCHS else None,
        metrics=dict(_record_metrics(record)),
        eta_seconds=_seconds(record.get("eta")),
        completed=not whole,
        counts_from_zero=whole and epoch == 0,
    )
    return None if seen.epoch is None and not seen.metrics else seen


def _record_metrics(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for group in (record, record.get("graphical"), record.get("kpi")):
        if isinstance(group, Mapping):
            for name, value in cast(Mapping[str, Any], group).items():
                number = _number(value)
                if number is not None and not _words(name) & _NOT_METRICS:
                    yield _plain_name(name), number


def _read_text(text: str, epoch_known: bool) -> Sighting | None:
    metrics = dict(_text_metrics(text))
    names_epochs = "poch" in text or "POCH" in text
    match = _epoch_in(text, said_with_metrics=bool(metrics)) if names_epochs else None
    total = _TOTAL.search(text) if names_epochs else None
    eta = _ETA.search(text)
    if not (match or total or metrics):
        return None
    if not match and not epoch_known and not _STEP.search(text):
        return Sighting(epochs=_count(total)) if total else None
    fraction = match is not None and match["part"] is not None
    epoch = int(match["epoch"]) if match else None
    return Sighting(
        epoch=epoch,
        epochs=_count(match) or _count(total),
        metrics=metrics,
        eta_seconds=_seconds(eta["eta"]) if eta else None,
        completed=fraction,
        counts_from_zero=match is not None and not fraction and (epoch == 0 or match["bar"] is not None),
    )


def _epoch_in(text: str, said_with_metrics: bool) -> re.Match[str] | None:
    """Where the line names the epoch it is about; one mentioned in passing (`until epoch 30`) is not."""
    for match in _EPOCH.finditer(text):
        if _PLURAL.match(text, match.start()):
            continue
        if match["epochs"] or said_with_metrics or not _IN_PASSING.search(text, 0, match.start()):
            return match
    return None


def _count(match: re.Match[str] | None) -> int | None:
    return int(match["epochs"] or 0) or None if match else None


def _text_metrics(text: str) -> Iterator[tuple[str, float]]:
    for match in _METRIC.finditer(text):
        if not _is_metric(match["name"]):
            continue
        if not match["sign"] and match["value"].lstrip("+-").isdigit():
            continue  # `accuracy 5` is prose, `accuracy 0.5` and `accuracy: 5` are not
        part = f"{match['part'].lower()}_" if match["part"] else ""
        yield part + _plain_name(match["name"]), float(match["value"]) / (float(match["of"] or 1) or 1)


@lru_cache(maxsize=1024)
def _is_metric(name: str) -> bool:
    words = _words(name)
    return not words & _NOT_METRICS and any(word in _METRIC_WORDS or word.endswith("loss") for word in words)


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z]+", name.lower())) - {""}


def _plain_name(name: str) -> str:
    """`Loss` is `loss`; `mAP`, `IoU` and `WER` stay."""
    name = name.strip()
    return name.lower() if name[1:].islower() else name


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _seconds(value: Any) -> float | None:
    """Seconds of `0:04:24`, `1 day, 2:00:00`, `0:06` or a number."""
    match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        number = _number(value)
        return number if number is not None and 0 <= number < float("inf") else None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
