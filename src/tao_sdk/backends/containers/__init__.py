"""Containers behind any Docker daemon, whatever the way to it: shared by the backends that have
one.
"""
