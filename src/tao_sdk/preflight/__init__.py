"""Preflight: the checks before a job is launched, and their findings.

It needs nothing but Python 3.8: `tao doctor JOB_FILE` and a script of the skill bank share it.
"""
