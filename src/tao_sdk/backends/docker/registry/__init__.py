"""Images from a registry: the one that a job needs, and the process that pulls it."""
