"""The facts about a daemon and this machine, and the doctor's checks."""
