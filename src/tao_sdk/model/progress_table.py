"""ProgressTable: the tables that trainers print: a header of names, then a row of numbers for each
epoch or step.

    | epoch | loss | accuracy |        epoch,loss,acc        epoch     train_loss  valid_loss
    | 1     | 0.52 | 0.83     |        1,0.52,0.83           0         0.52        0.61

Not here: lines that name what their numbers are (model/progress_lines.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.line_shape import NOT_FINITE, NUMBER, Number, Shape, plain_name
from tao_sdk.model.metric_names import names_evaluation, names_metric, names_no_metric

MOST_COLUMNS = 64
LONGEST_CELL = 40  # characters of a column's name

_EPOCH_NAMES = frozenset({"epoch", "epochs"})
_STEP_NAMES = frozenset({"step", "steps", "global_step", "iter", "iters", "iteration"})
_BARS = lazy_compile(r"[^|│┃║]+")
_COMMAS = lazy_compile(r"[^,;]+")
_WIDE_GAPS = lazy_compile(r"[^\s]+(?: [^\s]+)*")  # one blank belongs to a name
_GAPS = lazy_compile(r"\S+")
# The patterns of the cells of a header, and of the rows below it.
_SEPARATIONS = ((_BARS, _BARS), (_COMMAS, _COMMAS), (_WIDE_GAPS, _GAPS), (_GAPS, _GAPS))
_BRACKETS = lazy_compile(r"[ \t]*[(\[][^)\]]*[)\]]")
_COUNT = lazy_compile(r"(?P<count>\d{1,12})(?:/(?P<of>\d{1,12}))?")
_FRACTION = lazy_compile(rf"(?P<value>{NUMBER}|{NOT_FINITE})[ \t]?%?", re.IGNORECASE)


class Cell(NamedTuple):
    """A cell of a line: its text, and the text's start in the line."""

    text: str
    begin: int


@dataclass(frozen=True)
class Table:
    """A header: how its rows are cut into cells, and the content of each column."""

    cell: re.Pattern[str]
    width: int
    count_column: int
    counts_steps: bool
    metrics: Mapping[int, str]  # column -> name


def read_header(text: str) -> Table | None:
    """The table that begins with this line; None for any other line."""
    for header_cell, row_cell in _SEPARATIONS:
        names = [_column_name(cell.text) for cell in cut_cells(text, header_cell)]
        if table := _table_of(names, header_cell, row_cell):
            return table
    return None


def _table_of(
    names: Sequence[str], header_cell: re.Pattern[str], row_cell: re.Pattern[str]
) -> Table | None:
    counts = [at for at, name in enumerate(names) if name in _EPOCH_NAMES | _STEP_NAMES]
    if not counts or not 1 < len(names) <= MOST_COLUMNS or not all(map(_is_name, names)):
        return None
    if row_cell is _GAPS and counts[0] != 0:
        return None
    metrics = {at: name for at, name in enumerate(names) if names_metric(name)}
    if header_cell is _GAPS and not _are_all_known(names, metrics):  # may be a sentence
        return None
    epochs = [at for at in counts if names[at] in _EPOCH_NAMES]
    count = (epochs or counts)[0]
    if not metrics:
        return None
    return Table(row_cell, len(names), count, not epochs, metrics)


def _are_all_known(names: Sequence[str], metrics: Mapping[int, str]) -> bool:
    return all(at in metrics or names_no_metric(name) for at, name in enumerate(names))


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_CELL and name[:1].isalpha()


def _column_name(text: str) -> str:
    """`Val Loss` is `val_loss`; `Acc (%)` is `acc`."""
    return "_".join(map(plain_name, _BRACKETS.sub("", text).split()))


def cut_cells(text: str, pattern: re.Pattern[str]) -> list[Cell]:
    """Return the non-empty cells of a line."""
    cells = [Cell(match[0], match.start()) for match in pattern.finditer(text)]
    shown = [Cell(cell.text.strip(), _begin_of(cell)) for cell in cells]
    return [cell for cell in shown if cell.text]


def _begin_of(cell: Cell) -> int:
    return cell.begin + len(cell.text) - len(cell.text.lstrip())


def row_shape(table: Table, text: str) -> Shape | None:
    """Find the numbers of a row. None for a line that is no row of the table."""
    cells = cut_cells(text, table.cell)
    if not _has_width(cells, table):
        return None
    count = _COUNT.fullmatch(cells[table.count_column].text)
    numbers = tuple(_row_numbers(table, cells))
    if count is None or not numbers:
        return None
    begin = cells[table.count_column].begin
    number, total = _span_from(begin, count, "count"), _span_from(begin, count, "of")
    if table.counts_steps:
        return Shape(numbers, step=number, steps=total, is_sure=True)
    return Shape(numbers, epoch=number, epochs=total)


def _has_width(cells: Sequence[Cell], table: Table) -> bool:
    """True if there are as many cells as in the header. A progress bar may follow, behind a
    colon.
    """
    if len(cells) > table.width:
        return cells[table.width - 1].text.endswith(":")
    return len(cells) == table.width


def _row_numbers(table: Table, cells: Sequence[Cell]) -> list[Number]:
    """Find the metrics of a row. A whole number may be a count, and is left out."""
    numbers: list[Number] = []
    for column, name in table.metrics.items():
        span = fraction_span(cells[column])
        if span is not None:
            numbers.append(Number(name, "", span, span, None))
    return numbers


def fraction_span(cell: Cell) -> slice | None:
    """The place of the number in a cell; None if there is none, or it is a whole number."""
    match = _FRACTION.fullmatch(cell.text)
    if match is None or match["value"].lstrip("+-").isdigit():
        return None
    return _span_from(cell.begin, match, "value")


def _span_from(begin: int, match: re.Match[str], group: str) -> slice | None:
    if match[group] is None:
        return None
    return slice(begin + match.start(group), begin + match.end(group))


def pair_shape(text: str) -> Shape | None:
    """`│ test_acc │ 0.93 │` or `test_acc    0.93`: a metric of an evaluation and its value."""
    for pattern in (_BARS, _WIDE_GAPS):
        cells = cut_cells(text, pattern)
        if len(cells) == 2 and (number := _pair_number(*cells)):
            return Shape((number,), is_sure=True)
    return None


def _pair_number(named: Cell, valued: Cell) -> Number | None:
    name, value = _column_name(named.text), fraction_span(valued)
    if value is None or not names_evaluation(name, held_out=False):
        return None
    name_span = slice(named.begin, named.begin + len(named.text))
    has_digits = any(map(str.isdigit, name))
    return Number("" if has_digits else name, "", name_span, value, None)
