"""One attempt: its names, its manifests, and what would stop it."""
