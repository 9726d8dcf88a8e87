"""Outputs: where the results go, kept while the command runs and at its end, and found again by a
further attempt.
"""
