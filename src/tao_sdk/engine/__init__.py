"""The life of a job: submit, watch, retry, logs, progress, diagnose, hooks. Knows verbs, never a
backend's name.
"""
