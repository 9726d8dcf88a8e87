"""An OCI runtime shim that gives containers their GPUs."""

VERSION = "1.20.0"
