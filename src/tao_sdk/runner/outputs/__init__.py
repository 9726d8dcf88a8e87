"""Outputs: place the results, keep them while the command runs and at its end, and find them again
in a further attempt.
"""
