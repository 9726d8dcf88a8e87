"""LeptonSDK: not part of this version. Importing it says so."""

from tao_sdk.backends.by_name import not_built

raise not_built("lepton")
