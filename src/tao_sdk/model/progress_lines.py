"""Lines of progress: read epochs, metrics and the time left from one line of a status.json or a
log.

Understood: TAO's status.json; Keras, Lightning and tqdm bars, mmengine, fairseq, nanoGPT, xgboost,
Hugging Face dictionaries, tables (model/progress_table.py), and what people print themselves
(`epoch 3/20 loss 0.093`, `step 100 loss 1.23`, `Test accuracy: 93.1%`). Not here: what follows from
it (model/progress_reader.py).

A log has many lines that differ only in their digits. The first of them is searched (`Shape`). The
others are read by position (`LineReader`), which takes a tenth of the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, cast

from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.line_shape import (
    NOT_FINITE,
    NUMBER,
    TEXT_LIMIT,
    Number,
    Shape,
    Sighting,
    plain_name,
    plain_text,
    read_number,
    read_seconds,
)
from tao_sdk.model.metric_names import (
    names_evaluation,
    names_held_out,
    names_metric,
    names_no_metric,
)
from tao_sdk.model.progress_table import Table, pair_shape, read_header, row_shape

MOST_EPOCHS = 9_999_999  # a larger number is a time stamp
MOST_STEPS = 999_999_999_999
MOST_SHAPES = 4096  # in memory at once
LONGEST_NAME = 200  # characters of a metric's name
LOOK_BACK = 160  # characters before a number that show its meaning
LONGEST_SHAPE = 1024  # bytes of a line; the shape of a longer one is not stored

_WORTH_A_LOOK = (
    b"poch", b"loss", b"acc", b"kpi", b"map", b"iou", b"auc", b"auroc", b"dice", b"f0",
    b"precision", b"recall", b"score", b"error", b"mae", b"mse", b"wer", b"cer", b"ppl",
    b"perplexity", b"nll", b"bleu", b"rouge", b"psnr", b"ssim", b"fid", b"reward", b"top",
    b"file \"",
)  # fmt: skip
_EPOCH = lazy_compile(
    r"(?<![A-Za-z_-])epochs?\b(?:\s?\((?:train|val|test)\))?['\"]?"
    r"[ \t]{0,4}[:=#]?[ \t]{0,4}['\"]?[\[(]?[ \t]{0,4}"
    r"(?P<epoch>\d{1,7})(?P<fraction>\.\d{1,12})?(?![\d.]*\d)[ \t]{0,4}"
    r"(?:(?:/|of\b)[ \t]{0,4}(?P<epochs>\d{1,7}))?"
    r"(?P<bar>:[ \t]{1,8}\d{1,3}%\|)?",
    re.IGNORECASE,
)
_PLURAL = lazy_compile(r"epochs", re.IGNORECASE)
_IN_PASSING = lazy_compile(
    r"(?:at|until|from|best|per|every|each|after|before|last|since|to|by)[ \t:]+(?:the )?$",
    re.IGNORECASE,
)
_TOTAL = lazy_compile(
    r"(?:\b(?:max|num|n|total)[_ -]epochs?|(?<![\w])epochs)['\"]?[ \t]{0,4}[:=][ \t]{0,4}"
    r"(?P<epochs>\d{1,7})(?![\d.]*\d)",
    re.IGNORECASE,
)
_STEP = lazy_compile(
    r"(?<![A-Za-z0-9_./-])(?:(?:global|train|training)[ _])?(?:steps?|iters?|iterations?)\b"
    r"(?:\(train\))?['\"]?[ \t]{0,12}[:=#]?[ \t]{0,12}['\"]?[\[(]?[ \t]{0,12}"
    r"(?P<step>\d{1,12})(?!,?\d|\.\d|[A-Za-z%])"
    r"(?:[ \t]{0,4}(?:/|of\b)[ \t]{0,12}(?P<steps>\d{1,12}))?",
    re.IGNORECASE,
)
_BAR_STEP = lazy_compile(
    r"\d%\|[^|]{0,200}\|[ \t]{0,12}(?P<step>\d{1,12})/(?P<steps>\d{1,12})[ \t]\["
)
_BRACKET_STEP = lazy_compile(r"^\[(?P<step>\d{1,12})\]\t")  # of xgboost and LightGBM
_NO_STEP_OF_TRAINING = lazy_compile(
    r"(?:max|total|warm-?up|save|saving|log|logging|num|accumulation|every|per|each|eval\w*|val|"
    r"valid\w*|test|testing|predict\w*|sanity\w*)[ \t:_-]{1,4}"
    r"(?:checking[ \t:]{1,4})?(?:dataloader[ \t]\d{1,3}:[ \t]{1,4})?\d{0,3}$",
    re.IGNORECASE,
)
_METRIC = lazy_compile(
    r"(?:(?<![\w./@-])(?P<part>train|training|val|valid|validation|test|eval)[ \t])?"
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w./@-]{0,60})['\"]?"
    r"(?:(?P<sign>[ \t]{0,4}[:=][ \t]{0,4})|[ \t]{1,4})['\"]?"
    rf"(?P<value>{NUMBER}|{NOT_FINITE})(?:/(?P<of>\d{{1,12}})\b)?(?P<percent>[ \t]?%)?",
    re.IGNORECASE,
)
# `Accuracy of the network on the 10000 test images: 55 %`
_ACCURACY_OF = lazy_compile(
    r"(?P<name>accuracy) of the (?:network|model)(?: on the (?:\d{1,9} )?(?P<part>train|test|"
    rf"validation|val)[a-z ]{{0,20}})?[ \t]?:[ \t]?(?P<value>{NUMBER})[ \t]?(?P<percent>%)",
    re.IGNORECASE,
)
# Words before a value that is old, a goal, or of another model.
_NOT_OF_NOW = lazy_compile(
    r"(?:best|target|goal|previous|prev|old|expected|baseline|max|min)[ \t_]{1,4}(?:the )?$"
    r"|\b(?:loading|loaded|restoring|restored|resuming|resumed)\b",
    re.IGNORECASE,
)
# Text after a number that is a version, a date, a time, a size, or a part of a file's name.
_NO_VALUE = lazy_compile(
    r"\.?\d|\.[A-Za-z]|[A-Za-z_]|-\d|:\d|[\w.=-]{0,80}\.[A-Za-z]"
    r"|[ \t](?:[kKMGT]i?B|bytes|files|ms|seconds|s)\b"
)
_IN_FILE_NAME = lazy_compile(r"(?:[\w=-][\w.=-]{0,80})?\.[A-Za-z]")
# Text after a whole number that is a value: `loss 2, ...`, `loss 2 accuracy 1`, or nothing.
_AFTER_VALUE = lazy_compile(
    r"[ \t]*(?:$|[,;|)\]}])"
    r"|[ \t]+[A-Za-z][\w./@-]{0,60}['\"]?(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t]{1,4})[-+]?\.?\d"
)
_NAMES_OF_COUNTS = frozenset({"top", "error", "err"})  # `top 5`, `error 404`
_ETA = lazy_compile(
    r"\beta['\"]?[ \t]{0,4}[:=]?[ \t]{0,4}(?P<eta>(?:\d+ days?, )?\d+:\d\d(?::\d\d)?)",
    re.IGNORECASE,
)
# torchvision's `Epoch: [0]  [  10/1000]  eta: 0:15:00  loss: ...` tells the time left of the epoch.
_ETA_OF_EPOCH = lazy_compile(r"\d\][ \t]+eta:")
_PART_OF_EPOCH = lazy_compile(
    r"(?<![\d./])(?P<done>\d{1,12})[ \t]*/[ \t]*(?P<total>\d{1,12})(?![\d./])"
)
# tqdm's and Lightning's `50%|███  |`, Keras's `10/100 [==>...]` and `10/100 ━━━`
_BAR = lazy_compile(r"\d%\|[^|]*\||\d/\d{1,12}[ \t]+(?:\[[=>.]+\]|[━╸╺]+)")
_HEAD = lazy_compile(r"\W*epoch\W*\d+\W*", re.IGNORECASE)
_STEP_WORD = lazy_compile(r"\b(?:step|iter|iteration)\b", re.IGNORECASE)
# Words that may stand before the metrics of an evaluation: `INFO:root:Final test results: ...`
_LEADING_WORDS = frozenset({
    "", "info", "root", "main", "rank", "final", "overall", "test", "testing", "val", "valid",
    "validation", "eval", "evaluation", "set", "dataset", "data", "results", "result", "metrics",
    "on", "the", "model", "average", "avg", "mean", "t", "z",
})  # fmt: skip
_BETWEEN_METRICS = lazy_compile(
    r"(?:[ \t]\(\d{1,3}(?:\.\d{1,10})?[ \t]?%\))?[\s,;|)}\]%.'\"│┃]*(?:and[ \t])?"
)
_IN_PATH = lazy_compile(r"[A-Za-z.]/|/[A-Za-z.]")
_JSON_START = lazy_compile(r"\{\s*[\"}]")
# Python's traceback: a frame's place, its source below it, and the exception with its message,
# which may name anything. `MeanError: 0.2` is no exception.
_FRAME, _SOURCE_INDENT = b'  File "', b"    "
_EXCEPTION = lazy_compile(r"(?:\w+\.)*\w*[a-z](?:Error|Exception): +(?![-+.\d])")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_decode = json.JSONDecoder().raw_decode  # a third of the time of json.loads
_LOW_ZEROS = _ZEROS.lower()  # the same, with letters in lower case


class Record:
    """The shape of a line that may be one of a status.json."""

    def read(self, line: str, count_known: bool) -> Sighting | None:
        record = _json_object(line)
        if record is not None:
            return _read_record(record, count_known)
        shape = shape_of_text(plain_text(line))
        if not shape:
            return None
        return shape.read(line, count_known)


class LineReader:
    """Reads lines. If lines differ only in their digits, only the first is searched."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape | Record | None] = {}
        self._table: Table | None = None
        self._in_frame = False  # of a traceback: lines of its source follow
        self.header = b""  # the line that began the table; b"" for none

    @property
    def context(self) -> list[bytes]:
        """The earlier lines that decide the meaning of the next ones."""
        return [line for line in (self.header, _FRAME if self._in_frame else b"") if line]

    def read(self, line: bytes, count_known: bool = True) -> Sighting | None:
        """Read `line`; None if it says nothing. Before any epoch or step is known, a metric counts
        only beside one, or if it can be nothing else.
        """
        if (self._in_frame or line.startswith(_FRAME)) and self._is_of_frame(line):
            return None
        key = line.translate(_ZEROS)
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._learn_shape(key, line)
        if not shape:
            return None
        return shape.read(text_of(line), count_known)

    def _is_of_frame(self, line: bytes) -> bool:
        """True for the place of a traceback's frame, and for the lines of source below it."""
        begins = line.startswith(_FRAME)
        self._in_frame = begins or line.startswith(_SOURCE_INDENT)
        return self._in_frame

    def may_say_something(self, text: bytes) -> bool:
        """Like the function of this name. Inside a table it is always True: rows have no such
        words.
        """
        return self._table is not None or may_say_something(text)

    def _learn_shape(self, key: bytes, line: bytes) -> Shape | Record | None:
        has_words = may_say_something(line)
        shape = shape_of(line) if has_words else None
        if shape is None and has_words and self._begin_table(line):
            return None
        if shape is None and self._table:
            shape = _shape_of_row(self._table, text_of(line))
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
        if len(key) <= LONGEST_SHAPE:
            self._shapes[key] = shape
        return shape

    def _begin_table(self, line: bytes) -> bool:
        """True for the header of a table. The shapes of another table's rows are dropped."""
        text = text_of(line)
        if len(line) > LONGEST_SHAPE or text.startswith("@tao "):
            return False
        table = read_header(plain_text(text))
        if table is None:
            return False
        if table != self._table:
            self._shapes.clear()
        self._table, self.header = table, line
        return True


class ProgressLines:
    """Finds the lines that only say how far the training is."""

    def __init__(self) -> None:
        self._reader = LineReader()

    def has(self, line: bytes) -> bool:
        """True for an epoch or a step with its numbers, a head such as `Epoch 3`, and a bar."""
        text = plain_text(text_of(line))
        if _BAR.search(text) or _HEAD.fullmatch(text):
            return True
        if not may_say_something(line):
            return False
        sighting = self._reader.read(line)
        if sighting is None:
            return False
        if sighting.epoch is not None:
            return bool(sighting.metrics or sighting.epochs)
        return sighting.step is not None


def may_say_something(text: bytes) -> bool:
    """False if the text surely says nothing. It is quick, so that a log of many gigabytes costs
    little. Digits do not matter: `f1` is as good as `f2`.
    """
    lowered = text.translate(_LOW_ZEROS)
    return any(word in lowered for word in _WORTH_A_LOOK)


def start_that_counts(line: bytes) -> bytes:
    """The part of an unfinished line to keep until its end comes: all of a record, else as much as
    is ever read of a line.
    """
    if _JSON_START.match(text_of(line[:LONGEST_SHAPE])):
        return line
    return line[: 4 * TEXT_LIMIT]


def text_of(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def shape_of(line: bytes) -> Shape | Record | None:
    """Find the shape of a line. None for a line that says nothing, whatever its digits are."""
    text = text_of(line)
    if text.startswith("@tao ") or _EXCEPTION.match(text):
        return None
    if _JSON_START.match(text):
        return Record()
    shape = shape_of_text(plain_text(text), is_indented=line[:1] in (b" ", b"\t"))
    return _noting_plainness(shape, text)


def _shape_of_row(table: Table, text: str) -> Shape | None:
    return _noting_plainness(row_shape(table, plain_text(text)), text)


def _noting_plainness(shape: Shape | None, text: str) -> Shape | None:
    if not shape:
        return None
    return replace(shape, is_plain=plain_text(text) == text)


def _json_object(text: str) -> Mapping[str, Any] | None:
    try:
        record, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text):
        return None
    return cast(Mapping[str, Any], record)


def _read_record(record: Mapping[str, Any], count_known: bool) -> Sighting | None:
    """Read one line of TAO's status.json: epoch, max_epoch, eta, and numbers at the top, in
    `graphical` and in `kpi`. Or one of another trainer, which may count steps.
    """
    number = record.get("epoch")
    epoch = _whole_number(number, least=0, most=MOST_EPOCHS)
    step = _record_step(record) if epoch is None else None
    is_sure = count_known or epoch is not None or step is not None
    metrics = _record_metrics(record, is_sure)
    if epoch is None and not metrics:
        return None
    whole = isinstance(number, int)
    return Sighting(
        epoch,
        _whole_number(record.get("max_epoch"), least=1, most=MOST_EPOCHS),
        metrics,
        read_seconds(record["eta"]) if "eta" in record else None,
        epoch is not None and not whole,
        whole and epoch == 0,
        step,
    )


def _record_step(record: Mapping[str, Any]) -> int | None:
    for name in ("step", "global_step", "iter", "iteration"):
        step = _whole_number(record.get(name), least=0, most=MOST_STEPS)
        if step is not None:
            return step
    return None


def _whole_number(value: Any, least: int, most: int) -> int | None:
    """The number of the epoch or step that has begun; None for a value that can be neither."""
    number = read_number(value)
    if number is None or not least <= number <= most:
        return None
    return ceil(number)


def _record_metrics(record: Mapping[str, Any], is_sure: bool) -> dict[str, float]:
    """The numbers of a record. If the record may be about anything, only numbers with a metric's
    name.
    """
    metrics: dict[str, float] = {}
    is_status = is_sure or "kpi" in record or "graphical" in record
    for group in (record, record.get("graphical"), record.get("kpi")):
        if isinstance(group, dict):
            _add_numbers(metrics, cast("dict[str, Any]", group), is_status)
    return metrics


def _add_numbers(metrics: dict[str, float], group: Mapping[str, Any], is_status: bool) -> None:
    for name, value in group.items():
        number = read_number(value)
        own_name = name[:LONGEST_NAME]
        if number is None or names_no_metric(own_name):
            continue
        if is_status or names_metric(own_name):
            metrics[plain_name(own_name)] = number


def shape_of_text(text: str, is_indented: bool = False) -> Shape | None:
    """Find the numbers of a line; None for a line that says nothing."""
    matches = list(_metric_matches(text))
    names_epochs = "poch" in text or "POCH" in text
    epoch = _epoch_in(text, said_with_metrics=bool(matches)) if names_epochs else None
    total = _TOTAL.search(text) if names_epochs else None
    if not (epoch or total or matches):
        return pair_shape(text)
    eta = None if _ETA_OF_EPOCH.search(text) else _group_span(_ETA.search(text), "eta")
    shape = Shape((), total=_group_span(total, "epochs"), eta=eta)
    if epoch:
        return _shape_at_epoch(shape, epoch)
    return _shape_at_step(shape, text, matches, is_indented)


def _shape_at_epoch(shape: Shape, epoch: re.Match[str]) -> Shape:
    """The shape of a line that names its epoch. In such a line, a whole number is a value, too."""
    matches = _metric_matches(epoch.string, beside_epoch=True)
    part = _PART_OF_EPOCH.search(epoch.string, epoch.end())
    return replace(
        shape,
        numbers=tuple(map(_number_at, matches)),
        part_done=_group_span(part, "done"),
        part_total=_group_span(part, "total"),
        epoch=_group_span(epoch, "epoch"),
        epochs=_group_span(epoch, "epochs"),
        fraction=_group_span(epoch, "fraction"),
        bar=epoch["bar"] is not None,
    )


def _shape_at_step(
    shape: Shape, text: str, matches: Sequence[re.Match[str]], is_indented: bool
) -> Shape:
    """The shape of a line that names a step, or no count at all."""
    step = _step_in(text) if matches else None
    names_step = step is not None or _STEP_WORD.search(text) is not None
    return replace(
        shape,
        numbers=tuple(map(_number_at, matches)),
        step=_group_span(step, "step"),
        steps=_group_span(step, "steps"),
        is_sure=names_step or _is_evaluation(text, matches, is_indented),
    )


def _group_span(match: re.Match[str] | None, group: str) -> slice | None:
    """The place of the group in the line; None if the line does not have it."""
    if match is None or match.groupdict().get(group) is None:
        return None
    return slice(*match.span(group))


def _epoch_in(text: str, said_with_metrics: bool) -> re.Match[str] | None:
    """Find the epoch that the line is about. An epoch in passing (`until epoch 30`) or in the name
    of a file does not count.
    """
    for match in _EPOCH.finditer(text):
        if _PLURAL.match(text, match.start()) or _IN_FILE_NAME.match(text, match.end()):
            continue
        if match["epochs"] or said_with_metrics or not _IN_PASSING.search(text, 0, match.start()):
            return match
    return None


def _step_in(text: str) -> re.Match[str] | None:
    """Find the step of the training that the line is about."""
    for pattern in (_STEP, _BAR_STEP, _BRACKET_STEP):
        for match in pattern.finditer(text):
            if _is_training_step(match):
                return match
    return None


def _is_training_step(match: re.Match[str]) -> bool:
    begin = match.start()
    if _NO_STEP_OF_TRAINING.search(match.string, max(begin - LOOK_BACK, 0), begin):
        return False
    return _IN_FILE_NAME.match(match.string, match.end()) is None


def _metric_matches(text: str, beside_epoch: bool = False) -> Iterator[re.Match[str]]:
    """Yield the metrics of a line. `beside_epoch`: the line names the epoch that it is about."""
    for match in _METRIC.finditer(text):
        if names_metric(match["name"]) and _is_value(match, beside_epoch):
            yield match
    if "of the" in text:
        yield from _ACCURACY_OF.finditer(text)


def _number_at(match: re.Match[str]) -> Number:
    part = f"{match['part'].lower()}_" if match["part"] else ""
    has_digits = any(map(str.isdigit, match["name"]))
    return Number(
        "" if has_digits else part + plain_name(match["name"]),
        part,
        slice(*match.span("name")),
        slice(*match.span("value")),
        _group_span(match, "of"),
    )


def _is_value(match: re.Match[str], beside_epoch: bool) -> bool:
    """True for `accuracy 0.5` and `accuracy: 5`. `accuracy 5` is prose unless it is beside an
    epoch.
    """
    if _NO_VALUE.match(match.string, match.end()):
        return False
    begin = match.start()
    if _NOT_OF_NOW.search(match.string, max(begin - LOOK_BACK, 0), begin):
        return False
    if not match["value"].lstrip("+-").isdigit():
        return True
    if match["name"].lower() in _NAMES_OF_COUNTS:
        return False
    if match["sign"] or match["percent"]:
        return True
    return beside_epoch and _AFTER_VALUE.match(match.string, match.end()) is not None


def _is_evaluation(text: str, matches: Sequence[re.Match[str]], is_indented: bool) -> bool:
    """True for a line of nothing but metrics that are surely an evaluation's."""
    if not matches or not all(map(_is_fraction, matches)):
        return False
    lead = text[: matches[0].start()]
    if not _leads_to_metrics(lead) or not _are_joined(text, matches):
        return False
    held_out = names_held_out(lead)
    if is_indented and not held_out:
        held_out_names = [match["part"] or names_held_out(match["name"]) for match in matches]
        return all(held_out_names)
    return all(
        names_evaluation(match["name"], held_out or match["part"] is not None) for match in matches
    )


def _is_fraction(match: re.Match[str]) -> bool:
    """False for a whole number, which may be a setting."""
    if match["percent"] or _group_span(match, "of"):
        return True
    return not match["value"].lstrip("+-").isdigit()


def _leads_to_metrics(lead: str) -> bool:
    """True for a text such as `2026-11-21 10:00:00,123 - INFO - Final test results: `."""
    words = re.split(r"[^a-z]+", lead.lower())
    return not _IN_PATH.search(lead) and _LEADING_WORDS.issuperset(words)


def _are_joined(text: str, matches: Sequence[re.Match[str]]) -> bool:
    """True if there is only punctuation between the metrics and after the last."""
    begins = [match.start() for match in matches[1:]] + [len(text)]
    for match, begin in zip(matches, begins, strict=True):
        if not _BETWEEN_METRICS.fullmatch(text, match.end(), begin):
            return False
    return True
