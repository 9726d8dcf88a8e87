"""Hooks: on_complete, on_error and on_epoch_milestone.

A Python callable runs in this process and is claimed in the store before it fires: at most once,
whoever polls. A command or webhook is stored as due together with the change that caused it. It is
delivered at least once, also after a restart, with an event id by which a receiver can recognize a
repeat.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import queue
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any

from tao_sdk.engine.engine import Engine
from tao_sdk.model.clock import utc_now
from tao_sdk.model.job import Event, Job
from tao_sdk.model.secrets import Redactor, is_secret_name, secrets_of, shown_target
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock
from tao_sdk.store import NewEvent

log = logging.getLogger("tao_sdk.hooks")
DUE, FAILED, DONE = "hook-due", "hook-failed", "hook-done"
HOOK_OF = {Status.COMPLETE: "on_complete", Status.ERROR: "on_error"}
DELIVERY_SECONDS = 60.0
LAST_WORDS = 500  # bytes of a failing command's output that are stored
# seconds from a failed delivery to the next; after the last, the hook is given up
WAITS = (5.0, 30.0, 180.0, 900.0)
Callback = Callable[..., Any]

MILESTONE = 10  # epochs between two milestones, as the documents have it


@dataclass
class Callbacks:
    """The Python callables of the jobs that this process submitted or attached hooks to."""

    milestone: int = MILESTONE
    of_job: dict[str, Mapping[str, Callback]] = field(
        default_factory=dict[str, Mapping[str, Callback]]
    )
    # job -> the last event that was read for epochs
    _read: dict[str, int] = field(default_factory=dict[str, int])
    # Whoever polls may fire, one at a time for a job, so that its callbacks come in order. A
    # callback may poll itself.
    _turns: defaultdict[str, threading.RLock] = field(
        default_factory=lambda: defaultdict(threading.RLock)
    )

    def want_epochs(self, job_id: str) -> bool:
        return "on_epoch_milestone" in self.of_job.get(job_id, {})

    def fire(self, engine: Engine, job: Job) -> None:
        """Call the callbacks that the job's events call for and that nobody has claimed yet, in
        order. After the job's end its callbacks are dropped.
        """
        with self._turns[job.id]:
            if callback := self.of_job.get(job.id, {}).get("on_epoch_milestone"):
                self._fire_epochs(engine, job, callback)
            if job.status.terminal:
                self._fire_end(engine, job)

    def _fire_end(self, engine: Engine, job: Job) -> None:
        callback = self.of_job.pop(job.id, {}).get(HOOK_OF.get(job.status, ""))
        if callback and engine.store.claim(job.id, HOOK_OF[job.status], "callback"):
            call(HOOK_OF[job.status], callback, job)

    def _fire_epochs(self, engine: Engine, job: Job, callback: Callback) -> None:
        for event in engine.store.events(job.id, self._read.get(job.id, 0)):
            epoch = event.data.get("epoch") if event.kind == "progress" else None
            is_milestone = bool(epoch) and epoch % self.milestone == 0
            mine = is_milestone and engine.store.claim(
                job.id, "on_epoch_milestone", f"callback-{epoch}"
            )
            self._read[job.id] = event.seq
            if mine:
                now = engine.store.get(job.id)  # the event may be newer than `job`
                call("on_epoch_milestone", callback, now, epoch, now.progress.epochs)


def call(hook: str, callback: Callback, job: Job, *facts: Any) -> None:
    """Call the caller's callback and log its error: an error in it must not fail whoever looks at
    the job.
    """
    try:
        callback(job, *facts)
    except Exception:
        log.exception("the %s of %s raised an error", hook, job.id)


def split(hooks: Mapping[str, Any]) -> tuple[dict[str, Callback], dict[str, Any]]:
    """Return (Python callables, commands and webhooks). Only the second can be stored."""
    callables = {name: hook for name, hook in hooks.items() if callable(hook)}
    return callables, {name: hook for name, hook in hooks.items() if name not in callables}


def due(job: Job) -> list[NewEvent]:
    """The deliveries that the job's end makes due."""
    hook = HOOK_OF.get(job.status, "")
    target = job.spec.get("hooks", {}).get(hook)
    if not target:
        return []
    return [NewEvent(job.id, DUE, data={"hook": hook, "target": shown_target(target)})]


def wants_epochs(job: Job) -> bool:
    return "on_epoch_milestone" in job.spec.get("hooks", {})


def milestones_due(job: Job, epochs: Iterable[int]) -> list[NewEvent]:
    """The deliveries that these milestones make due."""
    target = job.spec.get("hooks", {}).get("on_epoch_milestone")
    if not target:
        return []
    data = {"hook": "on_epoch_milestone", "target": shown_target(target)}
    return [NewEvent(job.id, DUE, data={**data, "epoch": epoch}) for epoch in epochs]


def undelivered(engine: Engine) -> list[str]:
    """The ids of jobs with due commands or webhooks that were neither delivered nor given up."""
    return engine.store.jobs_with_undelivered(DUE, DONE)


def deliver(engine: Engine, job_id: str) -> None:
    """Deliver the hooks of a job that are due and not delivered yet. A later call retries a failed
    delivery.
    """
    events = engine.store.events(job_id)
    done = {event.data["of"] for event in events if event.kind == DONE}
    for event in events:
        if event.kind == DUE and event.seq not in done:
            failures = [
                one.time for one in events if one.kind == FAILED and one.data["of"] == event.seq
            ]
            if is_time(failures, utc_now()):
                _deliver(engine, event, failed_tries=len(failures))


def is_time(failures: Sequence[datetime], now: datetime) -> bool:
    """True if a hook that failed at these times is to be retried now.

    A failure ahead of now does not delay it: the clock was set back.
    """
    if not failures:
        return True
    wait = WAITS[min(len(failures), len(WAITS)) - 1]
    return not 0 <= (now - failures[-1]).total_seconds() < wait


def _deliver(engine: Engine, event: Event, failed_tries: int) -> None:
    job = engine.store.get(event.job_id)
    # Not the event's target: people see that one, so its secrets are left out.
    target = job.spec["hooks"][event.data["hook"]]
    try:
        message = {
            "event_id": f"{engine.store.store_id}-{event.seq}",
            **event.data,
            **epoch_in_log(job, event),
            "job": job.to_json(),
        }
        _send(target, message, engine.settings.environ)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        secrets = (value for name, value in engine.settings.environ.items() if is_secret_name(name))
        redact = Redactor.of_values([*secrets, *secrets_of(target)])
        words = redact(str(error))  # a failing command may print what it was given
        hook, follows = event.data["hook"], what_follows(failed_tries)
        trouble = trouble_line(words)
        log.warning("the hook %s of %s failed, %s: %s", hook, job.id, follows, trouble)
        facts = {"of": event.seq, "hook": hook, "follows": follows, "trouble": trouble}
        failed = NewEvent(job.id, FAILED, raw=words, data=facts)
        given_up = NewEvent(job.id, DONE, raw="given up", data={"of": event.seq, "hook": hook})
        engine.store.record([failed] if failed_tries < len(WAITS) else [failed, given_up])
    else:
        done = {"of": event.seq, "hook": event.data["hook"]}
        engine.store.record([NewEvent(job.id, DONE, data=done)])


def what_follows(failed_tries: int) -> str:
    """Say what happens after one more failed delivery."""
    if failed_tries >= len(WAITS):
        return "and is given up"
    return f"tried again in {format_clock(WAITS[failed_tries])}"


def trouble_line(words: str) -> str:
    """Shorten a command's output to `exit code 1: ` and its last line. Another error stays as
    it is.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if len(lines) < 2:
        return "".join(lines)
    return f"{lines[0].partition(': ')[0]}: {lines[-1]}"


def epoch_in_log(job: Job, event: Event) -> dict[str, int]:
    """The number that the job's log gives the epoch of a milestone; {} for another hook."""
    epoch = event.data.get("epoch")
    return {} if epoch is None else {"log_epoch": job.progress.shown_epoch(epoch)}


def _send(target: Any, message: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Send the message: to a webhook as JSON by POST, to a command on stdin with its id in
    TAO_EVENT_ID.
    """
    body = json.dumps(message).encode()
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return _post(target, body)
    command = (
        ["/bin/sh", "-c", target] if isinstance(target, str) else [str(word) for word in target]
    )
    environment = {
        **environ,
        "TAO_EVENT_ID": message["event_id"],
        "TAO_JOB_ID": message["job"]["id"],
    }
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment
        )
        try:
            process.communicate(body, DELIVERY_SECONDS)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            raise OSError(
                f"exit code {process.returncode}: {_last_words(said) or 'it printed nothing'}"
            )


def _last_words(said: IO[bytes]) -> str:
    """The end of a command's output. It is printed nowhere else: a watcher does not own its
    terminal.
    """
    said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_WORDS))
    return said.read().decode("utf-8", "replace").strip()


def _post(address: str, body: bytes) -> None:
    """POST the message. Raises OSError if no success is answered within DELIVERY_SECONDS, however
    slowly the answer comes.
    """
    answered: queue.SimpleQueue[OSError | ValueError | None] = queue.SimpleQueue()

    def post() -> None:
        try:
            _post_now(address, body)
        except (OSError, ValueError) as error:
            answered.put(error)
        else:
            answered.put(None)

    threading.Thread(target=post, name="tao-webhook", daemon=True).start()
    try:
        error = answered.get(timeout=DELIVERY_SECONDS)
    except queue.Empty:
        raise OSError(f"no whole answer within {DELIVERY_SECONDS:.0f} s") from None
    if error is not None:
        raise error


def _post_now(address: str, body: bytes) -> None:
    """POST the message. A redirect is a failure: the server that answers must not choose who gets
    the message.
    """
    import http.client
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(
            self,
            req: Any,
            fp: Any,
            code: int,
            msg: str,
            headers: Any,
            newurl: str,
        ) -> None:
            return

    place, headers = without_login(address)
    request = urllib.request.Request(place, body, {"Content-Type": "application/json", **headers})
    try:
        urllib.request.build_opener(NoRedirect).open(request, timeout=DELIVERY_SECONDS).close()
    except http.client.HTTPException as error:
        raise OSError(f"the server does not speak HTTP: {error!r}") from error


def without_login(address: str) -> tuple[str, dict[str, str]]:
    """Return (the address without its `user:password@`, the header with that login). Raises
    ValueError.
    """
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    login, at, place = parts.netloc.rpartition("@")
    if not at:
        return address, {}
    encoded = base64.b64encode(unquote(login).encode()).decode()
    return parts._replace(netloc=place).geturl(), {"Authorization": f"Basic {encoded}"}
