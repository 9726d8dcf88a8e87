"""One attempt: its names, the job that is created for it, its start and its end."""
