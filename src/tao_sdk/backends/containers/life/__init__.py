"""The life of a job in a container: how one daemon starts it, looks at it and ends it."""
