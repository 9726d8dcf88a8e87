"""Propose: which values a new trial has. A sampler is a function of the Search and a random stream,
and remembers nothing.

Not here: how long a trial runs and which one goes on (rungs/). numpy and Optuna are imported when a
sampler that needs them is used.
"""
