"""Logger names: those of the SDK's logs that the command shows in a way of their own."""

from __future__ import annotations

WAITS = "tao_sdk.waits"  # what is waited for at another machine, at level INFO
