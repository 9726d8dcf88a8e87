"""Opening a client on a job store that a person names."""

from __future__ import annotations

from pathlib import Path

from tao_sdk.client.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.store import published
from tao_sdk.store.location import require_store


def open_client(state_file: str | None, *, watch: bool = False, begins: bool = True) -> Client:
    """The client of that store, or of the user's own. Raises NoStore if there is none, unless the
    caller `begins` a store.
    """
    settings = Settings.load()
    if state_file and not begins:
        require_store(state_file, settings.state_dir)
    return Client(state_file, settings=settings, watch=watch)


def published_store(settings: Settings) -> Path | None:
    """The store of the published SDK (version 7) in the home directory, if there is one."""
    theirs = settings.home / ".tao_sdk" / published.DEFAULT
    if not published.is_published(theirs):
        return None
    return theirs
