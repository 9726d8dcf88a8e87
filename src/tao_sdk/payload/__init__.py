"""Packing: everything a job does inside its image, as one shell command that needs python3 and
nothing else.
"""
