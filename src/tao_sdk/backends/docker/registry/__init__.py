"""Images from a registry: find a job's image, and pull it in a process of its own."""
