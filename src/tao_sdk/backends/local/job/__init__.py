"""One attempt on this machine: its folder, its GPUs and inputs, looks at it, and its end."""
