"""One attempt on this machine: its folder, GPUs and inputs, what is seen of it, its end."""
