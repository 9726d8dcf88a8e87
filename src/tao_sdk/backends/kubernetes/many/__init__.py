"""What keeps a look at many jobs to a handful of requests."""
