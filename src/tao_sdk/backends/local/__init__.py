"""The local backend: a job is a supervised process group. No container, no daemon."""
