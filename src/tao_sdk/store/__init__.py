"""The store: what we remember of jobs, in one SQLite file and the private folder beside it."""

from tao_sdk.store.keyring import Keyring
from tao_sdk.store.log_copies import LogCopies
from tao_sdk.store.place import EngineStore, open_engine_store, store_path
from tao_sdk.store.records import NewEvent
from tao_sdk.store.store import Store

__all__ = ["EngineStore", "Keyring", "LogCopies", "NewEvent", "Store", "open_engine_store", "store_path"]
