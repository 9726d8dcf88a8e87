"""A job as a supervised process group of this machine: no container, no daemon."""
