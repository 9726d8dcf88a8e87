"""The store: jobs, their attempts and events, in one SQLite file and the private folder
beside it.
"""

from tao_sdk.store.keyring import Keyring
from tao_sdk.store.location import open_store, store_path
from tao_sdk.store.log_copies import LogCopies
from tao_sdk.store.records import NewEvent
from tao_sdk.store.store import Store

__all__ = ["Keyring", "LogCopies", "NewEvent", "Store", "open_store", "store_path"]
