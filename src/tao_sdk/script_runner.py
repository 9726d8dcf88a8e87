"""`build_entrypoint`, where the documents import it from. The runner itself is `tao_sdk.runner`."""

from tao_sdk.payload.entrypoint import Entrypoint, build_entrypoint

__all__ = ["Entrypoint", "build_entrypoint"]
