"""Lines of progress: what one line of a status.json or of a log says about epochs, metrics and the
time left.

Understood: TAO's status.json; Keras, Lightning and tqdm bars, mmengine, fairseq, Hugging Face
dictionaries, and what people print themselves (`epoch 3/20  loss 0.093`). Not here: what follows
from it (model/progress.py).

A log has many lines that differ in their digits only. What such lines say is searched for once, in
the first of them (`Shape`); the others are read by position (`LineReader`), which takes a tenth of
the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

MOST_EPOCHS = 9_999_999  # a larger number is a time stamp
TEXT_LIMIT = 4096  # characters of a log line that are looked at
MOST_SHAPES = 4096  # kept at once
LONGEST_NAME = 200  # characters of a metric's name
LONGEST_SHAPE = 1024  # bytes of a line whose shape is kept

_WORTH_A_LOOK = (
    b"poch", b"loss", b"acc", b"kpi", b"map", b"iou", b"auc", b"auroc", b"dice", b"f0",
    b"precision", b"recall", b"score", b"error", b"mae", b"mse", b"wer", b"cer", b"ppl",
    b"perplexity", b"nll", b"bleu", b"rouge", b"psnr", b"ssim", b"fid", b"reward", b"top",
)  # fmt: skip
_METRIC_WORDS = frozenset({
    "loss", "nll", "acc", "accuracy", "auc", "auroc", "map", "ap", "ar", "iou", "miou", "dice",
    "f", "precision", "recall", "psnr", "ssim", "wer", "cer", "perplexity", "ppl", "bleu",
    "rouge", "error", "err", "mae", "mse", "rmse", "score", "reward", "top", "fid",
})  # fmt: skip
_NOT_METRICS = frozenset({
    "lr", "rate", "time", "eta", "iter", "iters", "iteration", "step", "steps", "epoch", "epochs",
    "seconds", "date", "memory", "mem", "size", "gpu", "gpus", "weight", "weights", "coef",
    "threshold", "version",
})  # fmt: skip

_NUMBER = r"[-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
_EPOCH = re.compile(
    r"(?<![A-Za-z_-])epochs?\b(?:\s?\((?:train|val|test)\))?['\"]?"
    r"[ \t]{0,4}[:=#]?[ \t]{0,4}[\[(]?[ \t]{0,4}"
    r"(?P<epoch>\d{1,7})(?P<part>\.\d{1,12})?(?![\d.]*\d)[ \t]{0,4}"
    r"(?:(?:/|of\b)[ \t]{0,4}(?P<epochs>\d{1,7}))?"
    r"(?P<bar>:[ \t]{1,8}\d{1,3}%\|)?",
    re.IGNORECASE,
)
_PLURAL = re.compile(r"epochs", re.IGNORECASE)
_IN_PASSING = re.compile(
    r"(?:at|until|from|best|per|every|each|after|before|last|since|to|by)[ \t:]+(?:the )?$",
    re.IGNORECASE,
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
# What follows a whole number that is a value: `loss 2, ...`, `loss 2 accuracy 1`, or nothing.
_AFTER_VALUE = re.compile(
    r"[ \t]*(?:$|[,;|)\]}])"
    r"|[ \t]+[A-Za-z][\w./@-]{0,60}['\"]?(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t]{1,4})[-+]?\.?\d"
)
_NAMES_OF_COUNTS = frozenset({"top", "error", "err"})  # `top 5`, `error 404`
_ETA = re.compile(
    r"\beta['\"]?[ \t]{0,4}[:=]?[ \t]{0,4}(?P<eta>(?:\d+ days?, )?\d+:\d\d(?::\d\d)?)",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_STEP = re.compile(r"\b(?:step|iter|iteration)\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_JSON_START = re.compile(r"\{\s*[\"}]")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_decode = json.JSONDecoder().raw_decode  # a third of the time of json.loads
_LOW_ZEROS = _ZEROS.lower()  # the same, with letters in lower case


@dataclass(slots=True)
class Sighting:
    """What one line says. Numbers are as the job counts them."""

    epoch: int | None = None
    epochs: int | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    eta_seconds: float | None = None
    # `epoch` is how many are over (a fraction was told), not the number of one
    completed: bool = False
    counts_from_zero: bool = False  # this line shows that the job does


class Number(NamedTuple):
    """Where a metric stands in a line. `name` is "" where it has digits: then it is read, too."""

    name: str
    part: str
    name_span: slice
    value: slice
    of: slice | None


@dataclass(frozen=True, slots=True)
class Shape:
    """Where in a line of text each number stands, and what it means; the same for every line with
    other digits.
    """

    numbers: tuple[Number, ...]
    epoch: slice | None
    epochs: slice | None
    total: slice | None
    eta: slice | None
    fraction: bool  # the epoch has decimal places
    bar: bool  # a percentage follows the epoch
    step: bool  # a step is named
    is_plain: bool = False  # `plain` would change nothing in such a line

    def read(self, line: str, epoch_known: bool) -> Sighting | None:
        text = line if self.is_plain else plain_text(line)
        if self.epoch:
            epoch = int(text[self.epoch])
            from_zero = not self.fraction and (epoch == 0 or self.bar)
        elif epoch_known or self.step:
            epoch, from_zero = None, False
        else:
            return self._only_total(text)
        return Sighting(
            epoch,
            self._read_epochs(text),
            self._read_metrics(text),
            _read_seconds(text[self.eta]) if self.eta else None,
            self.fraction,
            from_zero,
        )

    def _only_total(self, text: str) -> Sighting | None:
        """The number of epochs alone; None where the line does not tell it."""
        return Sighting(epochs=_read_count(text, self.total)) if self.total else None

    def _read_epochs(self, text: str) -> int | None:
        """How many epochs the line tells beside the epoch, else in words of its own."""
        if self.epochs and (epochs := int(text[self.epochs])):
            return epochs
        return _read_count(text, self.total) if self.total else None

    def _read_metrics(self, text: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, part, name_span, span, of in self.numbers:
            value = float(text[span])
            known_name = name or part + _plain_name(text[name_span])
            metrics[known_name] = value / (float(text[of]) or 1) if of else value
        return metrics


class Record:
    """The shape of a line that may be one of a status.json."""

    def read(self, line: str, epoch_known: bool) -> Sighting | None:
        record = _json_object(line)
        if record is not None:
            return _read_record(record)
        shape = shape_of_text(plain_text(line))
        return shape.read(line, epoch_known) if shape else None


class LineReader:
    """Reads lines; of those that differ in their digits only the first alone is searched."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape | Record | None] = {}

    def read(self, line: bytes, epoch_known: bool = True) -> Sighting | None:
        """What `line` says, or None. Before any epoch is known a metric counts only beside an epoch
        or a step.
        """
        key = line.translate(_ZEROS)
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._learn_shape(key, line)
        return shape.read(text_of(line), epoch_known) if shape else None

    def _learn_shape(self, key: bytes, line: bytes) -> Shape | Record | None:
        shape = shape_of(line) if may_say_something(line) else None
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
        if len(key) <= LONGEST_SHAPE:
            self._shapes[key] = shape
        return shape


def may_say_something(text: bytes) -> bool:
    """A quick look, so that a log of many gigabytes costs little. The same for any digits: `f1` is
    as good as `f2`.
    """
    lowered = text.translate(_LOW_ZEROS)
    return any(word in lowered for word in _WORTH_A_LOOK)


def start_that_counts(line: bytes) -> bytes:
    """As much of an unfinished line as has to be kept until its end comes: of text no more is
    looked at.
    """
    return line if _JSON_START.match(text_of(line[:LONGEST_SHAPE])) else line[: 4 * TEXT_LIMIT]


def text_of(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def plain_text(text: str) -> str:
    """The first TEXT_LIMIT characters of a line, without its colours."""
    start = text[:TEXT_LIMIT]
    return _COLOUR.sub("", start) if "\x1b" in start else start


def shape_of(line: bytes) -> Shape | Record | None:
    """None for a line that says nothing, whatever its digits are."""
    text = text_of(line)
    if text.startswith("@tao "):
        return None
    if _JSON_START.match(text):
        return Record()
    shape = shape_of_text(plain_text(text))
    return replace(shape, is_plain=plain_text(text) == text) if shape else None


def _json_object(text: str) -> Mapping[str, Any] | None:
    try:
        record, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text):
        return None
    return cast(Mapping[str, Any], record)


def _read_record(record: Mapping[str, Any]) -> Sighting | None:
    """One line of TAO's status.json: epoch, max_epoch, eta, and numbers at the top, in `graphical`
    and in `kpi`.
    """
    number = record.get("epoch")
    whole = isinstance(number, int)
    epoch = _whole_number(number, least=0)
    metrics = _record_metrics(record)
    if epoch is None and not metrics:
        return None
    return Sighting(
        epoch,
        _whole_number(record.get("max_epoch"), least=1),
        metrics,
        _read_seconds(record["eta"]) if "eta" in record else None,
        not whole,
        whole and epoch == 0,
    )


def _whole_number(value: Any, least: int) -> int | None:
    """The number, less its decimal places; None for what can be no epoch."""
    number = _read_number(value)
    if number is None or not least <= number <= MOST_EPOCHS:
        return None
    return int(number)


def _record_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for group in (record, record.get("graphical"), record.get("kpi")):
        if isinstance(group, dict):
            _add_numbers(metrics, cast("dict[str, Any]", group))
    return metrics


def _add_numbers(metrics: dict[str, float], group: Mapping[str, Any]) -> None:
    for name, value in group.items():
        number = _read_number(value)
        if number is not None and (plain_name := _record_name(name[:LONGEST_NAME])):
            metrics[plain_name] = number


def shape_of_text(text: str) -> Shape | None:
    numbers = tuple(_text_metrics(text))
    names_epochs = "poch" in text or "POCH" in text
    match = _epoch_in(text, said_with_metrics=bool(numbers)) if names_epochs else None
    total = _TOTAL.search(text) if names_epochs else None
    if match:
        numbers = tuple(_text_metrics(text, beside_epoch=True))
    if not (match or total or numbers):
        return None
    return Shape(
        numbers=numbers,
        epoch=_group_span(match, "epoch"),
        epochs=_group_span(match, "epochs"),
        total=_group_span(total, "epochs"),
        eta=_group_span(_ETA.search(text), "eta"),
        fraction=match is not None and match["part"] is not None,
        bar=match is not None and match["bar"] is not None,
        step=_STEP.search(text) is not None,
    )


def _group_span(match: re.Match[str] | None, group: str) -> slice | None:
    """Where the group stands in the line; None where the line does not have it."""
    if match is None or match[group] is None:
        return None
    return slice(*match.span(group))


def _epoch_in(text: str, said_with_metrics: bool) -> re.Match[str] | None:
    """Where the line names the epoch it is about; one mentioned in passing (`until epoch 30`) is
    not.
    """
    for match in _EPOCH.finditer(text):
        if _PLURAL.match(text, match.start()):
            continue
        if match["epochs"] or said_with_metrics or not _IN_PASSING.search(text, 0, match.start()):
            return match
    return None


def _read_count(text: str, span: slice | None) -> int | None:
    return int(text[span]) or None if span else None


def _text_metrics(text: str, beside_epoch: bool = False) -> Iterator[Number]:
    """The metrics of a line; `beside_epoch` where it names the epoch that it is about."""
    for match in _METRIC.finditer(text):
        if not _is_metric(match["name"]) or not _is_value(match, beside_epoch):
            continue
        part = f"{match['part'].lower()}_" if match["part"] else ""
        name = "" if any(map(str.isdigit, match["name"])) else part + _plain_name(match["name"])
        yield Number(
            name,
            part,
            slice(*match.span("name")),
            slice(*match.span("value")),
            _group_span(match, "of"),
        )


def _is_value(match: re.Match[str], beside_epoch: bool) -> bool:
    """True for `accuracy 0.5` and `accuracy: 5`. `accuracy 5` is prose but beside an epoch."""
    if match["sign"] or not match["value"].lstrip("+-").isdigit():
        return True
    if not beside_epoch or match["name"].lower() in _NAMES_OF_COUNTS:
        return False
    return _AFTER_VALUE.match(match.string, match.end()) is not None


@lru_cache(maxsize=1024)
def _is_metric(name: str) -> bool:
    words = _name_words(name)
    return not words & _NOT_METRICS and any(
        word in _METRIC_WORDS or word.endswith("loss") for word in words
    )


@lru_cache(maxsize=1024)
def _record_name(name: str) -> str:
    """What a number of a record is called; "" for one that is no metric."""
    return "" if _name_words(name) & _NOT_METRICS else _plain_name(name)


def _name_words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z]+", name.lower())) - {""}


def _plain_name(name: str) -> str:
    """`Loss` is `loss`; `mAP`, `IoU` and `WER` stay."""
    name = name.strip()
    return name.lower() if name[1:].islower() else name


def _read_number(value: Any) -> float | None:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _read_seconds(value: Any) -> float | None:
    """Seconds of `0:04:24`, `1 day, 2:00:00`, `0:06` or a number."""
    if isinstance(value, str) and (match := _CLOCK.fullmatch(value.strip())):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    number = _read_number(value)
    if number is None or not 0 <= number < float("inf"):
        return None
    return number
