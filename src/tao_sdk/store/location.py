"""Location: where the store is. A store is never used just because it lies in the current
directory.
"""

from __future__ import annotations

from pathlib import Path

from tao_sdk.model.errors import NoStore
from tao_sdk.store import published
from tao_sdk.store.private_files import refuse_replaceable
from tao_sdk.store.store import Store


def store_path(state_file: str | Path | None, state_dir: Path) -> Path:
    """The database's path: X.db for a state file X.json or X.db, `jobs.db` in the state directory
    if no file is named.

    X.v8.db if X.db is a database of the published SDK: that is left as it is, and `Store.open`
    takes its jobs over.
    """
    path = Path(state_file).expanduser().absolute() if state_file else state_dir / published.OURS
    if path.suffix == ".json":
        path = path.with_suffix(".db")
    ours = published.beside(path)
    return ours if ours.exists() or published.is_published(path) else path


def require_store(state_file: str | Path, state_dir: Path) -> None:
    """Raise NoStore if there is no job store at the named path: a typo would begin a new,
    empty one.
    """
    path = store_path(state_file, state_dir)
    source = published.source_of(path)
    if is_missing(path) and (source is None or is_missing(source)):
        raise NoStore(
            f"There is no job store {path}.",
            "",
            "Check the spelling of --state-file. Only tao run begins a new store.",
        )


def is_missing(path: Path) -> bool:
    """True if nothing is at that path. False if nobody may look there: opening it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def open_store(state_file: str | Path | None, state_dir: Path) -> Store:
    # backends keep files of theirs there, also with another state file
    refuse_replaceable(state_dir.absolute())
    return Store.open(store_path(state_file, state_dir))
