"""The shell text of this backend, and what Python writes above it."""
