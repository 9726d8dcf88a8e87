"""One attempt of a job on this machine: its folder, its supervisor, its GPUs and its end."""
