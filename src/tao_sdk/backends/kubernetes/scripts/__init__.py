"""Scripts: the shell text that runs in a job's container. Pure."""
