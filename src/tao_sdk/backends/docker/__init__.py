"""Jobs as containers of a Docker daemon."""
