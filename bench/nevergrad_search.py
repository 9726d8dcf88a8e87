"""Nevergrad's NGOpt on the functions of the bench, as a program: it runs in Nevergrad's own
environment, with the bench on its path, and prints the regret of each function and seed as JSON.

    python -m bench.nevergrad_search SEEDS TRIALS
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from bench.automl_functions import FUNCTIONS, Function

TWO_DECADES = 100  # from this ratio on a range is given as a logarithm, as our spaces have it


def main(seeds: int, trials: int) -> None:
    warnings.simplefilter("ignore")
    found = {
        one.name: [found_regret(one, seed, trials) for seed in range(seeds)] for one in FUNCTIONS
    }
    print(json.dumps(found))


def found_regret(function: Function, seed: int, trials: int) -> float:
    import nevergrad  # pyright: ignore[reportMissingImports]

    kinds = {key: kind_of(nevergrad.p, entry) for key, entry in function.parameters.items()}
    space = nevergrad.p.Dict(**kinds)
    space.random_state.seed(seed)
    optimizer = nevergrad.optimizers.NGOpt(parametrization=space, budget=trials)
    values: list[float] = []
    for _ in range(trials):
        asked = optimizer.ask()
        values.append(function.value(asked.value))
        optimizer.tell(asked, values[-1])
    return min(values) - function.least


def kind_of(kinds: Any, entry: Any) -> Any:
    """A parameter of a `search:` block in Nevergrad's terms."""
    if not isinstance(entry, Mapping):
        return kinds.Choice(list(entry))
    if "choices" in entry:
        return kinds.TransitionChoice(list(entry["choices"]))
    low, high = entry["min"], entry["max"]
    if low > 0 and high / low >= TWO_DECADES * (1 - 1e-9):
        found = kinds.Log(lower=low, upper=high)
    else:
        found = kinds.Scalar(lower=low, upper=high)
    are_whole = isinstance(low, int) and isinstance(high, int)
    return found.set_integer_casting() if are_whole else found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
