"""Packing: everything a job does inside its image, as one shell command that needs python3 and
nothing else.
"""

from tao_sdk.payload.entrypoint import Entrypoint, build_entrypoint

__all__ = ["Entrypoint", "build_entrypoint"]
