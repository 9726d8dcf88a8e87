"""Reading a spec once: its inputs, outputs and other data, and the shell text that a backend runs.

Not here: what each declaration may say (declared.py), and how the shell text is made
(entrypoint.py).
"""

from __future__ import annotations

from tao_sdk.model.prepared_job import JobData, PreparedJob
from tao_sdk.model.spec import JobSpec


def pack_spec(spec: JobSpec, packed: str = "") -> PreparedJob:
    """The spec with its data and its shell text. `packed`: the shell text that was made of the spec
    before; "" to make it.

    Raises SpecError for a spec that no job can have.
    """
    if packed:
        from tao_sdk.payload.declared import read_data

        return PreparedJob(spec, packed, read_data(spec))
    if not needs_wrapping(spec):
        return PreparedJob(spec, spec.command, JobData())
    from tao_sdk.payload.entrypoint import packed_job

    command, data = packed_job(spec)
    return PreparedJob(spec, command, data)


def needs_wrapping(spec: JobSpec) -> bool:
    """True if data or a configuration goes with the command."""
    parts = (spec.specs, spec.args, spec.inputs, spec.outputs, spec.files or None, spec.mode)
    return any(part is not None for part in parts)
