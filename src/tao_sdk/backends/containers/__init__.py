"""Containers of a Docker daemon, however it is reached. Shared by all backends that use one."""
