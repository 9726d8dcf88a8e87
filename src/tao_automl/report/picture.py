"""A search as a picture: an SVG with the best so far, each parameter against the metric, and the
front of several goals. Pure; it follows light and dark, and has no script.

Panels stand two beside each other. Not here: the frame and the grid of a picture, which training
curves have as well (tao_sdk/model/svg_parts.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tao_automl.report.summary import best_text, head_line, short_key
from tao_automl.report.view import SearchView, TrialView
from tao_automl.space.parameter import Choice, Parameter, Range, canonical
from tao_sdk.model.curve import Scale, Series, format_number, value_range
from tao_sdk.model.svg_parts import (
    BOTTOM,
    LEFT,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    RIGHT,
    TOP,
    Ticks,
    count_ticks,
    draw_axis,
    draw_grid,
    svg_document,
    svg_text,
    value_ticks,
)

SEARCH_MARK = "<!-- tao automl -->"  # tells our picture from a file of somebody else
BESIDE = 2  # panels in a row
LARGEST = 1e30  # a larger value has diverged, and would press everything else flat
MOST_DOTS = 2000  # of one panel
LONGEST_WORD = 12  # characters below an axis
MOST_CHOICES = 8  # that have a place of their own
HEAD = 34  # pixels above the first row
UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One plot: dots, the line through some of them, and what stands at its axes."""

    title: str
    across: str  # what goes to the right
    dots: Sequence[tuple[float, float, TrialView]]
    line: Sequence[Point] = ()
    ticks: Ticks = ()
    span: Point = (0.0, 1.0)


def search_svg(view: SearchView) -> str:
    """The picture of a search, as a whole SVG document."""
    panels = list(panels_of(view))
    rows = -(-len(panels) // BESIDE)
    width, height = PANEL_WIDTH * BESIDE, HEAD + PANEL_HEIGHT * max(rows, 1)
    body = [f'<text class="title" x="20" y="28">{svg_text(head_line(view))}</text>']
    for place, panel in enumerate(panels):
        left, top = PANEL_WIDTH * (place % BESIDE), HEAD + PANEL_HEIGHT * (place // BESIDE)
        body.append(f'<g transform="translate({left} {top})">')
        body.extend(draw_panel(view, panel))
        body.append("</g>")
    if not panels:
        body.append(f'<text x="20" y="{height / 2:g}">No trial has a result yet.</text>')
    return svg_document(width, height, label_of(view), body, SEARCH_MARK)


def label_of(view: SearchView) -> str:
    best = best_text(view, view.best) if view.best else "no result yet"
    return f"Search {view.id} after {len(view.trials)} trials: {best}"


def panels_of(view: SearchView) -> Iterator[Panel]:
    """Those that have something to show."""
    shown = [trial for trial in view.trials if is_drawn(trial)][-MOST_DOTS:]
    if not shown:
        return
    yield over_trials(view, shown)
    timed = [trial for trial in shown if trial.ended is not None]
    if len(timed) > 1:
        yield over_time(view, timed)
    if len(view.goals) > 1:
        yield front_panel(view, shown)
    order = [*view.importance, *view.space.keys]
    for parameter in sorted(view.space.parameters, key=lambda one: order.index(one.key)):
        having = [trial for trial in shown if parameter.key in trial.params]
        if having:
            yield parameter_panel(view, parameter, having)


def is_drawn(trial: TrialView) -> bool:
    return trial.value is not None and abs(trial.value) < LARGEST


def value_of(trial: TrialView) -> float:
    return trial.value or 0.0


def best_so_far(view: SearchView, places: Sequence[tuple[float, TrialView]]) -> list[Point]:
    """The steps of the best value, in the order of the places. Only a trial that was trained as
    long as any before it can be the best.
    """
    steps: list[Point] = []
    best, longest = math.inf, -1
    for place, trial in sorted(places, key=lambda pair: pair[0]):
        epochs = trial.epoch or 0
        loss = view.goal.loss(value_of(trial))
        if epochs > longest or (epochs == longest and loss < best):
            best, longest = loss, epochs
            if steps:
                steps.append((place, steps[-1][1]))
            steps.append((place, value_of(trial)))
    if places and steps:
        steps.append((max(place for place, _ in places), steps[-1][1]))
    return steps


def over_trials(view: SearchView, shown: Sequence[TrialView]) -> Panel:
    places = [(float(trial.number), trial) for trial in shown]
    last = max(len(view.trials), 2)
    return Panel(
        f"best {view.goal.metric} so far",
        "trial",
        [(place, value_of(trial), trial) for place, trial in places],
        best_so_far(view, places),
        count_ticks(1, last),
        (1.0, float(last)),
    )


def over_time(view: SearchView, timed: Sequence[TrialView]) -> Panel:
    seconds = max(trial.ended or 0.0 for trial in timed) or 1.0
    unit, name = next((size, name) for size, name in UNITS if seconds >= size or size == 1.0)
    places = [((trial.ended or 0.0) / unit, trial) for trial in timed]
    end = seconds / unit
    ticks = [(tick, format_number(tick)) for tick in value_ticks(0.0, end)]
    dots = [(place, value_of(trial), trial) for place, trial in places]
    title = f"best {view.goal.metric} over time"
    return Panel(title, name, dots, best_so_far(view, places), ticks, (0.0, end))


def front_panel(view: SearchView, shown: Sequence[TrialView]) -> Panel:
    """The second goal to the right, the first one up; the front as steps between its trials."""
    other = view.goals[1].metric
    having = [trial for trial in shown if abs(trial.values.get(other, math.inf)) < LARGEST]
    dots = [(trial.values[other], value_of(trial), trial) for trial in having]
    members = {trial.number for trial in view.front}
    line = sorted((across, up) for across, up, trial in dots if trial.number in members)
    low, high = value_range([Series(other, tuple((0, across) for across, _, _ in dots))])
    ticks = [(tick, format_number(tick)) for tick in value_ticks(low, high)]
    title = f"{view.goal.metric} and {other}"
    return Panel(title, other, dots, line, ticks, (low, high))


def parameter_panel(view: SearchView, parameter: Parameter, having: Sequence[TrialView]) -> Panel:
    title = short_key(view, parameter.key)
    if parameter.key in view.importance:
        title += f", {round(100 * view.importance[parameter.key])} %"
    if isinstance(parameter, Range):
        return range_panel(title, parameter, having)
    return choice_panel(title, parameter, having)


def range_panel(title: str, found: Range, having: Sequence[TrialView]) -> Panel:
    """A number, on a log scale where it is searched so. Its ticks are at round values."""
    place = math.log10 if found.is_log else float
    low, high = place(found.low), place(found.high)
    room = 0.03 * (high - low) or 1.0
    dots = [
        (place(trial.params[found.key]), value_of(trial), trial)
        for trial in having
        if found.low <= trial.params[found.key] <= found.high
    ]
    if found.is_log:
        ticks = [(power, format_number(10.0**power)) for power in decades(low, high)]
    else:
        ticks = [(tick, format_number(tick)) for tick in value_ticks(low, high)]
    return Panel(title, found.key, dots, (), ticks, (low - room, high + room))


def decades(low: float, high: float) -> list[int]:
    """The powers of ten between two, at most six of them."""
    powers = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
    return powers[:: -(-len(powers) // 6) or 1]


def choice_panel(title: str, parameter: Parameter, having: Sequence[TrialView]) -> Panel:
    """Choices beside each other in their order; those beyond the first few share a place."""
    words = choice_words(parameter, having)
    shown = words[:MOST_CHOICES]
    rest = len(words) > MOST_CHOICES
    places = {word: min(number, MOST_CHOICES) for number, word in enumerate(words)}
    dots = [
        (float(places[canonical(trial.params[parameter.key])]), value_of(trial), trial)
        for trial in having
    ]
    ticks = [(float(number), short_word(word)) for number, word in enumerate(shown)]
    if rest:
        ticks.append((float(MOST_CHOICES), "others"))
    return Panel(title, parameter.key, dots, (), ticks, (-0.5, len(ticks) - 0.5))


def choice_words(parameter: Parameter, having: Sequence[TrialView]) -> list[str]:
    """The values as JSON: the options in their order, else what was tried, the commonest first."""
    if isinstance(parameter, Choice):
        return [canonical(option) for option in parameter.options]
    tried = [canonical(trial.params[parameter.key]) for trial in having]
    return sorted(set(tried), key=lambda word: (-tried.count(word), word))


def short_word(word: str) -> str:
    plain = word.strip('"')
    return plain if len(plain) <= LONGEST_WORD else f"{plain[: LONGEST_WORD - 1]}…"


def draw_panel(view: SearchView, panel: Panel) -> Iterator[str]:
    values = tuple((0, up) for _, up, _ in panel.dots)
    low, high = value_range([Series(view.goal.metric, values)])
    across = Scale(*panel.span, LEFT, PANEL_WIDTH - RIGHT)
    up = Scale(low, high, PANEL_HEIGHT - BOTTOM, TOP)
    yield f'<text class="title" x="20" y="30">{svg_text(panel.title)}</text>'
    yield from draw_grid(value_ticks(low, high), across, up)
    yield from draw_axis(panel.ticks, across, up, panel.across)
    if len(panel.line) > 1:
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in panel.line)
        yield f'<path class="line a" d="M{path}"/>'
    best = view.best.number if view.best else 0
    for x, y, trial in sorted(panel.dots, key=lambda dot: dot[2].number == best):
        yield draw_dot(view, trial, (across(x), up(y)), trial.number == best)


def draw_dot(view: SearchView, trial: TrialView, place: Point, is_best: bool) -> str:
    """One trial; the best one larger. What it was is shown where the pointer rests."""
    colour, size = ("fb", "5.5") if is_best else ("fa", "3.2")
    words = f"trial {trial.number}: {view.goal.metric} {format_number(value_of(trial))}"
    return (
        f'<circle class="ring {colour}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{size}">'
        f"<title>{svg_text(words)}</title></circle>"
    )
