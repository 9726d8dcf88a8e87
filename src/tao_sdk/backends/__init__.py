"""Backends: one folder per place that can run jobs.

`contract.py` says what each backend must do. `by_name.py` finds a backend by name.
"""
