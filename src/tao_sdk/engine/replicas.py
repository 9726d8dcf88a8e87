"""Replicas: the ranks of a job's newest attempt, as its place shows them."""

from __future__ import annotations

from collections.abc import Sequence

from tao_sdk.backends.contract import TellsReplicas
from tao_sdk.engine.engine import Engine
from tao_sdk.model.job import Job
from tao_sdk.model.replica import Replica


def replicas(engine: Engine, job: Job) -> list[Replica]:
    """Return one replica for each rank; one for the whole job if its backend does not tell them
    apart.

    Raises Unreachable.
    """
    redact = engine.redactor(job)
    told = [replica.redacted(redact) for replica in replicas_there(engine, job)]
    return told or [whole_job(job)]


def replicas_there(engine: Engine, job: Job) -> Sequence[Replica]:
    ref = engine.ref_of(job)
    if ref is None:
        return ()
    backend = engine.backend_of(job)
    return backend.replicas(ref) if isinstance(backend, TellsReplicas) else ()


def whole_job(job: Job) -> Replica:
    """The job as its own only replica, and its platform as the node."""
    return Replica(rank=0, name=job.id, node=job.platform, phase=job.status.value)
