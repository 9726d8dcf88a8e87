"""Logger names: those of the SDK's logs that the command shows in a way of their own."""

from __future__ import annotations

WAITS = "tao_sdk.waits"  # waits for another machine, at level INFO
