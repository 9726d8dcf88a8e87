"""Rungs: which trial goes on, and for how long. Pure state machines over a Search.

Each module has `next_step(search) -> Step`, asked again after each step while there is room for
another job, and `epochs_of(...)` where it has rungs. Not here: which values a new trial has
(propose/).
"""
