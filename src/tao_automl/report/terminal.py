"""A search in the terminal: the best so far over its trials, in braille. Pure."""

from __future__ import annotations

from tao_automl.report.picture import best_so_far, is_drawn
from tao_automl.report.view import SearchView
from tao_sdk.model.curve import Series
from tao_sdk.model.curve_plot import panel_text
from tao_sdk.model.printable import printable

LEAST_WIDTH = 24  # characters


def search_plot(view: SearchView, width: int = 80, height: int = 6) -> list[str]:
    """Lines of at most `width` characters; none before two trials have a result."""
    places = [(float(trial.number), trial) for trial in view.trials if is_drawn(trial)]
    if len(places) < 2 or width < LEAST_WIDTH:
        return []
    points = tuple((round(place), value) for place, value in best_so_far(view, places))
    series = Series(f"best {printable(view.goal.metric)}", points)
    return panel_text(series, "trial", width, height)
