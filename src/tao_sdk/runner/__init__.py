"""The program inside the job: fetch inputs, write the spec, run the command, keep the outputs, and
report events.

It needs only python3 (3.8 or later), and imports only `net` of tao_sdk. `payload` packs the modules
that a job can need into the job's command, so each module must work without those that it does not
import.
"""
