"""Workspace: the folder of a run, with views of its search; the store has the truth.

Here: search.json, trials.csv, and how a search is found again by its folder. Not here: what they
say (views.py, report/).
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_automl.report.csv_table import trials_csv
from tao_automl.stored import StoredSearch
from tao_automl.views import view_of_stored
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.client import Client

SEARCH, TRIALS, RUN = "search.json", "trials.csv", "run_"


def new_run(workspace: Path) -> Path:
    """A new folder `run_<timestamp>` below the workspace, with `_2` where that is there."""
    moment = datetime.now(timezone.utc).strftime("%Y%m%d_%H%M%S")
    number = 1
    while True:
        ending = "" if number == 1 else f"_{number}"
        folder = workspace / f"{RUN}{moment}{ending}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        return folder


def find_run(workspace: Path) -> Path:
    """The folder of a run: the workspace, else the newest run below it. Raises UsageError."""
    if (workspace / SEARCH).is_file():
        return workspace
    runs = [path.parent for path in workspace.glob(f"{RUN}*/{SEARCH}")]
    if not runs:
        what = f"{workspace} has no run: there is no {SEARCH} in it."
        raise UsageError(what, "", "Start one with resume=False.")
    return max(runs, key=lambda folder: ((folder / SEARCH).stat().st_mtime, folder.name))


def read_search(folder: Path) -> dict[str, Any]:
    """What search.json says. Raises UsageError for what is none."""
    try:
        found = json.loads((folder / SEARCH).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / SEARCH} cannot be read: {error}.") from None
    if not isinstance(found, dict) or "id" not in found:
        raise UsageError(f"{folder / SEARCH} names no search.")
    return cast("dict[str, Any]", found)


def read_search_id(workspace: Path) -> tuple[Path, str]:
    """The folder of the run to carry on, and the id of its search."""
    folder = find_run(workspace)
    return folder, read_search(folder)["id"]


def write_views(folder: Path, client: Client, stored: StoredSearch) -> None:
    """Write both files anew, each whole or not at all."""
    view = view_of_stored(client, stored)
    store = str(client.store.database.path)
    write_whole(folder / SEARCH, json.dumps({**view.to_json(), "store": store}, indent=2))
    write_whole(folder / TRIALS, trials_csv(view))


def write_whole(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8", newline="")
    part.replace(path)
