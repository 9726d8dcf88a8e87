"""Hooks: on_complete, on_error and on_epoch_milestone.

A Python callable runs in this process and is claimed in the store before it fires: at most once, whoever polls. A
command or webhook is written down as due together with the change that caused it, and delivered at least once, with an
event id by which a receiver can tell a repeat, also after a restart.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.engine.engine import Engine
from tao_sdk.model.job import Event, Job
from tao_sdk.model.status import Status
from tao_sdk.store import NewEvent

DUE, DONE = "hook-due", "hook-done"
HOOK_OF = {Status.COMPLETE: "on_complete", Status.ERROR: "on_error"}
DELIVERY_SECONDS = 60.0
MOST_TRIES = 5  # then the failure is written down and the hook is given up

Callback = Callable[..., Any]


MILESTONE = 10  # epochs between two milestones, as the documents have it


@dataclass
class Callbacks:
    """The Python callables of the jobs that this process submitted or attached hooks to."""

    milestone: int = MILESTONE
    of_job: dict[str, Mapping[str, Callback]] = field(default_factory=dict[str, Mapping[str, Callback]])

    def want_epochs(self, job_id: str) -> bool:
        return "on_epoch_milestone" in self.of_job.get(job_id, {})

    def fire(self, engine: Engine, job: Job) -> None:
        """What the job's events call for and nobody has claimed yet, in order; after its end the job is let go."""
        if self.want_epochs(job.id):
            self._fire_epochs(engine, job)
        if job.status.terminal:
            self._fire_end(engine, job)

    def _fire_end(self, engine: Engine, job: Job) -> None:
        callback = self.of_job.pop(job.id, {}).get(HOOK_OF.get(job.status, ""))
        if callback and engine.store.claim(job.id, HOOK_OF[job.status], "callback"):
            callback(job)

    def _fire_epochs(self, engine: Engine, job: Job) -> None:
        callback = self.of_job[job.id]["on_epoch_milestone"]
        seen = [event.data.get("epoch") for event in engine.store.events(job.id) if event.kind == "progress"]
        for epoch in (epoch for epoch in seen if epoch and epoch % self.milestone == 0):
            if engine.store.claim(job.id, "on_epoch_milestone", f"callback-{epoch}"):
                callback(job, epoch, job.progress.get("epochs"))


def split(hooks: Mapping[str, Any]) -> tuple[dict[str, Callback], dict[str, Any]]:
    """(Python callables, commands and webhooks: those can be stored)."""
    callables = {name: hook for name, hook in hooks.items() if callable(hook)}
    return callables, {name: hook for name, hook in hooks.items() if name not in callables}


def due(job: Job) -> list[NewEvent]:
    """The deliveries that the job's end makes due."""
    hook = HOOK_OF.get(job.status, "")
    target = job.spec.get("hooks", {}).get(hook)
    return [NewEvent(job.id, DUE, data={"hook": hook, "target": target})] if target else []


def wants_epochs(job: Job) -> bool:
    return "on_epoch_milestone" in job.spec.get("hooks", {})


def milestones_due(job: Job, epochs: Iterable[int]) -> list[NewEvent]:
    """The deliveries that these milestones make due."""
    target = job.spec.get("hooks", {}).get("on_epoch_milestone")
    data = {"hook": "on_epoch_milestone", "target": target}
    return [NewEvent(job.id, DUE, data={**data, "epoch": epoch}) for epoch in epochs] if target else []


def deliver(engine: Engine, job_id: str) -> None:
    """Deliver what is due for a job and was not delivered yet. A failing receiver is tried again at the next call."""
    events = engine.store.events(job_id)
    done = {event.data["of"] for event in events if event.kind == DONE}
    for event in events:
        if event.kind == DUE and event.seq not in done:
            _deliver(
                engine, event, tries=sum(1 for e in events if e.kind == "hook-failed" and e.data["of"] == event.seq)
            )


def _deliver(engine: Engine, event: Event, tries: int) -> None:
    job = engine.store.get(event.job_id)
    try:
        message = {"event_id": f"{engine.store.store_id}-{event.seq}", **event.data, "job": job.to_json()}
        _send(event.data["target"], message, engine.settings.environ)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        engine.store.record([NewEvent(job.id, "hook-failed", raw=str(error), data={"of": event.seq})])
        if tries + 1 >= MOST_TRIES:
            engine.store.record([NewEvent(job.id, DONE, raw="given up", data={"of": event.seq})])
    else:
        engine.store.record([NewEvent(job.id, DONE, data={"of": event.seq})])


def _send(target: Any, message: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """A webhook gets the message as JSON by POST; a command gets it on stdin, and its id in TAO_EVENT_ID."""
    body = json.dumps(message).encode()
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        import urllib.request

        request = urllib.request.Request(target, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=DELIVERY_SECONDS).close()
        return
    command = ["/bin/sh", "-c", target] if isinstance(target, str) else [str(word) for word in target]
    environment = {**environ, "TAO_EVENT_ID": message["event_id"], "TAO_JOB_ID": message["job"]["id"]}
    subprocess.run(
        command, input=body, timeout=DELIVERY_SECONDS, check=True, env=environment, stdout=subprocess.DEVNULL
    )
