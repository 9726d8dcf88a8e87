"""Helpers that keep a look at many jobs to a handful of requests."""
