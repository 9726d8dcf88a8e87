"""The program inside the job: fetch inputs, write the spec, run the command, keep the outputs, tell
what happened.

It needs python3 (3.8 or later) and nothing else; of this package it imports `net` alone. `payload`
packs the modules that a job can need into the job's command, so each must stand without the others
that it does not import.
"""
