"""What a job needs of the cluster, and where its files lie there. Pure."""
