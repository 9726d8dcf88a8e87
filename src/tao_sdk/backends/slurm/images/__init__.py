"""Images on a cluster: what runs them, how they get ready, and the log-in to their registry."""
