"""Backends: one folder per place that can run jobs.

`contract.py` says what each backend must do. `registry.py` finds a backend by name.
"""
