"""A job's container: its body, its mounts, and the checks before it starts. Pure."""
