"""Preflight: what is looked at before a job is launched, and what was seen, as findings.

It needs nothing but Python 3.8: `tao doctor JOB_FILE` and a script of the skill bank share it.
"""
