"""One folder per place that can run jobs; `contract.py` says what each must do, `registry.py` finds
them by name.
"""
