"""LineShape: the places of the numbers in a line of a log, and the content of one such line
(Sighting).

Not here: how a shape is found in a line (model/progress_lines.py, model/progress_table.py) and what
follows from a sighting (model/progress_reader.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from tao_sdk.model.lazy_pattern import lazy_compile

TEXT_LIMIT = 4096  # characters of a log line that are read

NUMBER = r"[-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)\b"
_CLOCK = lazy_compile(r"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_COLOUR = lazy_compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(slots=True)
class Sighting:
    """The content of one line. Numbers are as the job counts them."""

    epoch: int | None = None
    epochs: int | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    eta_seconds: float | None = None
    # the epoch has decimal places, so it counts the epochs that have begun
    is_fraction: bool = False
    counts_from_zero: bool = False  # this line shows that the job does
    step: int | None = None  # only of a line that names no epoch
    steps: int | None = None
    # the epoch that the line names has not ended: the line names nothing of it, or a part of it
    is_running: bool = False


class Number(NamedTuple):
    """The place of a metric in a line. `name` is "" if the name has digits: then it is read from
    the line, too.
    """

    name: str
    part: str
    name_span: slice
    value: slice
    of: slice | None


@dataclass(frozen=True, slots=True)
class Shape:
    """The place of each number in a line of text, and its meaning; the same for every line with
    other digits.
    """

    numbers: tuple[Number, ...]
    epoch: slice | None = None
    epochs: slice | None = None
    total: slice | None = None
    eta: slice | None = None
    fraction: slice | None = None  # the decimal places of the epoch
    bar: bool = False  # a percentage follows the epoch
    step: slice | None = None
    steps: slice | None = None
    # `10/100`: the part of the line's epoch that is done
    part_done: slice | None = None
    part_total: slice | None = None
    # the metrics count although no epoch is known: a step is named, or they can be nothing else
    is_sure: bool = False
    is_plain: bool = False  # `plain_text` would change nothing in such a line

    def read(self, line: str, count_known: bool) -> Sighting | None:
        """Read the line. `count_known`: the log has named an epoch or a step before."""
        text = line if self.is_plain else plain_text(line)
        if self.epoch:
            epoch = int(text[self.epoch])
            from_zero = not self.fraction and (epoch == 0 or self.bar)
            if self.fraction:
                epoch += ceil(float(text[self.fraction]))
        elif count_known or self.is_sure:
            epoch, from_zero = None, False
        else:
            return self._only_total(text)
        return Sighting(
            epoch,
            self._read_epochs(text),
            self._read_metrics(text),
            read_seconds(text[self.eta]) if self.eta else None,
            self.fraction is not None,
            from_zero,
            int(text[self.step]) if self.step else None,
            _read_count(text, self.steps) if self.steps else None,
            self._names_running_epoch(text),
        )

    def _names_running_epoch(self, text: str) -> bool:
        """True for a head, `Epoch 3/20`, and for a part, `Epoch 3/20 step 10/100 loss 0.5`."""
        if not self.epoch:
            return False
        if not self.numbers:
            return True
        if not (self.part_done and self.part_total):
            return False
        return int(text[self.part_done]) < int(text[self.part_total])

    def _only_total(self, text: str) -> Sighting | None:
        """The number of epochs alone; None if the line does not have it."""
        if not self.total:
            return None
        return Sighting(epochs=_read_count(text, self.total))

    def _read_epochs(self, text: str) -> int | None:
        """The number of epochs: the one beside the epoch, else one under a name of its own."""
        if self.epochs and (epochs := int(text[self.epochs])):
            return epochs
        if not self.total:
            return None
        return _read_count(text, self.total)

    def _read_metrics(self, text: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, part, name_span, span, of in self.numbers:
            value = float(text[span])
            known_name = name or part + plain_name(text[name_span])
            metrics[known_name] = value / (float(text[of]) or 1) if of else value
        return metrics


def _read_count(text: str, span: slice | None) -> int | None:
    """The number at `span`; None for 0, and if there is none."""
    if not span:
        return None
    return int(text[span]) or None


def plain_text(text: str) -> str:
    """The first TEXT_LIMIT characters of a line, without its colours."""
    start = text[:TEXT_LIMIT]
    if "\x1b" in start:
        return _COLOUR.sub("", start)
    return start


def plain_name(name: str) -> str:
    """`loss` for `Loss`; `mAP`, `IoU` and `WER` stay."""
    name = name.strip()
    if name[1:].islower():
        return name.lower()
    return name


def read_number(value: Any) -> float | None:
    """The value as a number; None if it is none."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def read_seconds(value: Any) -> float | None:
    """The seconds in `0:04:24`, `1 day, 2:00:00`, `0:06` or a number; None for anything else."""
    if isinstance(value, str) and (match := _CLOCK.fullmatch(value.strip())):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    number = read_number(value)
    if number is None or not 0 <= number < float("inf"):
        return None
    return number
