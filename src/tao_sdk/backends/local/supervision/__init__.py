"""The supervisor: starts a job, passes signals on, ends it in time and records how it ended."""
