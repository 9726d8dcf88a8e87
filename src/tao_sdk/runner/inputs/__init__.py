"""Inputs: each one in place before the command starts, fetched and unpacked where it has to be."""
