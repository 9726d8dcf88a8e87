"""The pods of an attempt: their logs, and how they are ended."""
