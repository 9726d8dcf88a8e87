"""Inputs: each is in place before the command starts, fetched and unpacked if necessary."""
