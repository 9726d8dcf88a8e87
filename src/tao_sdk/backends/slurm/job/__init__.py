"""A job's needs on the cluster, and the paths of its files there. Pure."""
