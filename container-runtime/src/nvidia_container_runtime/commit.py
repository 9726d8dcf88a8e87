"""The commit that this was built from; the build step writes the real one."""

COMMIT = "unknown"
