"""What is known of a daemon and of this machine, and what a doctor asks."""
