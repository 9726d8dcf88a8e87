"""What is known of a cluster: by settings, by looking, and by what a doctor asks."""
