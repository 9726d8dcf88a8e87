"""What a job needs of a container: its body, its mounts, and what would stop it. Pure."""
