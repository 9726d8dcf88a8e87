"""The workspace: where it is, and what it has."""
