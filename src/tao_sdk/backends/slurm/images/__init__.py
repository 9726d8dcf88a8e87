"""Images on a cluster: their runtime, their preparation, and the login to their registry."""
