"""Compressed bytes as text that any shell, JSON or Kubernetes leaves as it is."""

from __future__ import annotations

import zlib
from base64 import b64encode

WIDTH = 4000  # characters of a line; a terminal takes 4095


def compressed(data: bytes) -> str:
    """Lines of letters, digits and +/=."""
    packer = zlib.compressobj(9, memLevel=7)
    text = b64encode(packer.compress(data) + packer.flush()).decode()
    return "\n".join(text[at : at + WIDTH] for at in range(0, len(text), WIDTH))
