"""The watcher: it acts once whoever else watches, and nothing that hangs or fails holds it up."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.engine import hooks, retry
from tao_sdk.engine.lease import of_watch
from tao_sdk.engine.listening import whole_pause
from tao_sdk.engine.look import look
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import StoreError, Unreachable
from tao_sdk.model.job import AttemptRow, Event, Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt
from tao_sdk.model.progress import Progress
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture
def callers_own() -> dict[str, str]:
    return {"HOOK_TOKEN": "correct-horse"}


@pytest.fixture(autouse=True)
def nothing_goes_on(client: Client) -> Iterator[None]:
    yield
    for job in client.list_jobs(look=False):
        client.cancel_job(job.id, grace=0)


def run(client: Client, command: str, **more: Any) -> str:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job.id


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        server.got.append(body)
        self.send_response(500 if len(server.got) <= server.fails else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.fails = [], 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def url(receiver: Any) -> str:
    return f"http://127.0.0.1:{receiver.server_port}/hook"


def watch(client: Client, seconds: float = 30) -> None:
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    client.watch(stop)
    timer.cancel()
    assert not stop.is_set(), "the watcher did not come to an end"


def test_the_message_of_a_milestone_has_the_epochs_number_in_the_log() -> None:
    from_zero = LogReading(Progress(epoch=12, counts_from_zero=True))
    job = Job(id="x-1111111111", name="x", platform="local", reading=from_zero)
    milestone = Event(1, job.id, "hook-due", utc_now(), data={"epoch": 10})
    assert hooks.epoch_in_log(job, milestone) == {"log_epoch": 9}
    assert hooks.epoch_in_log(job, replace(milestone, data={})) == {}


@pytest.mark.slow
def test_a_webhook_gets_every_milestone_and_the_end_with_ids_of_their_own(
    client: Client, receiver: Any
) -> None:
    epochs = "for e in $(seq 1 21); do echo epoch $e/21 loss 0.$e; done"
    job = run(
        client, epochs, hooks={"on_epoch_milestone": url(receiver), "on_complete": url(receiver)}
    )
    watch(client)
    assert [(got["hook"], got.get("epoch")) for got in receiver.got] == [
        ("on_epoch_milestone", 10),
        ("on_epoch_milestone", 20),
        ("on_complete", None),
    ]
    assert [got.get("log_epoch") for got in receiver.got] == [10, 20, None]
    assert len({got["event_id"] for got in receiver.got}) == 3
    assert {got["job"]["id"] for got in receiver.got} == {job}


@pytest.mark.slow
def test_a_webhook_that_fails_is_told_again_with_the_same_id(
    client: Client, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAITS", (0.0,))
    receiver.fails = 1
    job = run(client, "exit 1", hooks={"on_error": url(receiver)})
    client.wait(job, timeout=300)
    watch(client)
    watch(client)
    assert [got["hook"] for got in receiver.got] == ["on_error", "on_error"]
    assert len({got["event_id"] for got in receiver.got}) == 1


@pytest.mark.slow
def test_a_receiver_that_never_answers_is_given_up_and_its_failure_written_down(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAITS", (0.0,) * 4)
    job = run(client, "true", hooks={"on_complete": "http://127.0.0.1:9/nobody"})
    client.wait(job, timeout=300)
    for _ in range(7):
        watch(client)
    kinds = [event.kind for event in client.events(job)]
    assert kinds.count("hook-failed") == 5
    assert kinds.count("hook-done") == 1


@pytest.mark.slow
def test_a_webhook_whose_answer_comes_drop_by_drop_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "DELIVERY_SECONDS", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 204 Fine\r\nX: ")
                while not over.wait(0.1):
                    connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(OSError, match="no whole answer"):
            hooks._post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}")
        over.set()


@pytest.mark.slow
def test_a_webhook_that_sends_the_message_elsewhere_has_failed_and_nothing_is_sent_there(
    receiver: Any,
) -> None:
    class Elsewhere(Receiver):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", url(receiver))
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(OSError, match="307"):
            hooks._post(f"http://127.0.0.1:{server.server_port}/", b"{}")
    assert receiver.got == []


def test_the_login_in_a_webhooks_address_is_a_header_and_part_of_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []
    headers: dict[str, str] = {}
    resolve = socket.getaddrinfo

    def noted(host: Any, *rest: Any, **more: Any) -> Any:
        looked_up.append(host)
        return resolve(host, *rest, **more)

    class Greeter(Receiver):
        def do_POST(self) -> None:
            headers.update(self.headers)
            self.send_response(204)
            self.end_headers()

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    with HTTPServer(("127.0.0.1", 0), Greeter) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        hooks._post(f"http://me:s%40cret@127.0.0.1:{server.server_port}/", b"{}")
    assert set(looked_up) == {"127.0.0.1"}
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert "s%40cret" not in headers["Host"]


def test_a_failed_hook_is_tried_again_after_a_time_however_often_is_looked(client: Client) -> None:
    job = run(client, "true", hooks={"on_complete": "exit 1"})
    client.wait(job, timeout=300)
    for _ in range(7):
        Watcher(client.engine).deliver()
    assert [event.kind for event in client.events(job)].count("hook-failed") == 1


@pytest.mark.parametrize("failed", range(1, 7))
def test_the_tries_of_a_hook_lie_ever_further_apart(failed: int) -> None:
    now = utc_now()
    failures = [now - timedelta(hours=1)] * (failed - 1)
    waits = [
        seconds
        for seconds in range(1000)
        if hooks.is_time([*failures, now], now + timedelta(seconds=seconds))
    ]
    assert waits[0] == (5, 30, 180, 900, 900, 900)[failed - 1]
    assert hooks.is_time([*failures, now + timedelta(seconds=9)], now), "the clock was set back"


@pytest.mark.slow
def test_a_callback_that_hangs_or_raises_holds_up_no_other_job(client: Client) -> None:
    hangs, fired = threading.Event(), threading.Event()

    def hang(job: object) -> None:
        hangs.wait(300)

    def fail(job: object) -> None:
        fired.set()
        raise RuntimeError("a bug in the caller's hook")

    run(client, "true", hooks={"on_complete": hang})
    second = run(client, "sleep 1", hooks={"on_complete": fail})
    until(lambda: client.get_job(second, look=False).status is Status.COMPLETE)
    hangs.set()
    assert fired.wait(300)


def test_callbacks_come_in_order_however_many_poll(client: Client) -> None:
    seen: list[object] = []

    def slow_at_first(job: object, epoch: int, total: object) -> None:
        time.sleep(0.3 if epoch == 10 else 0)
        seen.append(epoch)

    epochs = "for e in $(seq 1 30); do echo epoch $e/30; done"
    job = run(
        client,
        epochs,
        hooks={"on_epoch_milestone": slow_at_first, "on_complete": lambda job: seen.append("end")},
    )
    pollers = [threading.Thread(target=client.wait, args=(job, 30)) for _ in range(4)]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join()
    assert seen == [10, 20, 30, "end"]


@pytest.mark.slow
def test_a_callback_that_has_begun_is_finished_before_the_client_closes(client: Client) -> None:
    begun, finished = threading.Event(), threading.Event()

    def slow(job: object) -> None:
        begun.set()
        time.sleep(0.5)
        finished.set()

    with Client(settings=client.settings) as second:
        run(second, "true", hooks={"on_complete": slow})
        assert begun.wait(300)
    assert finished.is_set()


def test_a_milestone_is_not_missed_between_two_looks(client: Client) -> None:
    seen: list[int] = []
    job = run(
        client,
        "for e in 9 11 19 20 21; do echo Epoch $e/30; done",
        hooks={"on_epoch_milestone": lambda job, epoch, total: seen.append(epoch)},
    )
    client.wait(job, timeout=300)
    until(lambda: seen)
    assert seen == [20], "10 was never printed, 20 was, though not as the last line"


class Sometimes:
    """The real backend, which answers only when `reachable`."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.reachable = backend, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def observe(self, refs: Any) -> Any:
        if self.reachable:
            return self.backend.observe(refs)
        return {
            ref: Observation(Phase.UNREACHABLE, "", reason="connection refused") for ref in refs
        }


def test_a_backend_that_cannot_be_asked_changes_no_status(client: Client) -> None:
    job = run(client, "sleep 30")
    until(lambda: client.get_job(job).status is Status.RUNNING)
    endpoint = client.store.attempt(job).attempt.endpoint
    sometimes = Sometimes(client.engine.backend("local", endpoint))
    client.engine._backends["local", endpoint] = sometimes  # pyright: ignore
    sometimes.reachable = False
    for _ in range(4):
        [seen] = client.list_jobs()
        assert (seen.status, seen.message) == (Status.RUNNING, "not seen now: connection refused")
    sometimes.reachable = True
    assert look(client.engine, [client.store.get(job)])[0].job.status is Status.RUNNING


@pytest.mark.slow
def test_an_endpoint_that_is_not_here_is_not_asked_for_at_every_turn(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = Attempt("far-0123456789", 1, "another", "there", client.store.store_id)
    client.store.add(Job(attempt.job_id, "far", "another"), AttemptRow(attempt, {}))
    run(client, "sleep 1")
    stop = threading.Event()
    threading.Timer(2, stop.set).start()
    with caplog.at_level(logging.WARNING):
        client.watch(stop)
    client.store.remove(attempt.job_id)
    assert len(caplog.records) == 1


@pytest.mark.slow
def test_jobs_that_live_elsewhere_are_named_once_however_long_it_is_watched(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [f"far-{n}123456789" for n in range(7)]
    for job in ids:
        attempt = Attempt(job, 1, "local", "another machine", client.store.store_id)
        client.store.add(Job(job, "far", "local"), AttemptRow(attempt, {}))
    watcher = Watcher(client.engine, poll_seconds=0.01)
    threading.Timer(2, watcher.stop.set).start()
    looks = list[float]()
    while not watcher.stop.wait(0.05):
        watcher.pass_once()
        looks += [pace.next_look for pace in watcher._paces.values()]  # pyright: ignore[reportPrivateUsage]
    for job in ids:
        client.store.remove(job)
    assert len(set(looks)) > 2
    [said] = [each.getMessage() for each in caplog.records]
    named = [job for job in ids if job in said]
    assert len(named) == 5
    assert said.startswith("watching goes on without far-")
    assert " and 2 more: This job lives on another machine, " in said


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "longest"), [(None, 10.0), (3.0, 30.0), (90.0, 90.0)])
def test_looks_become_rarer_to_a_bound_that_goes_with_what_is_polite_there(
    client: Client, asked: float | None, longest: float
) -> None:
    """Polite on the local platform is a second; nobody looks more often while nothing changes than
    while something does.
    """
    job = run(client, "sleep 60")
    watcher = Watcher(client.engine, poll_seconds=asked)
    watcher.pass_once()
    watcher._finish_work()  # pyright: ignore
    [pace] = watcher._paces.values()  # pyright: ignore
    assert (pace.shortest, pace.longest) == (asked or 1.0, longest), job


class NoLogOf:
    """The real backend, which cannot be asked for the log of one job."""

    def __init__(self, backend: Any, job: str) -> None:
        self.backend, self.job = backend, job

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def logs(self, ref: Any, request: Any) -> Any:
        if ref.attempt.job_id == self.job:
            raise Unreachable("connection refused")
        return self.backend.logs(ref, request)


@pytest.mark.slow
def test_a_job_that_cannot_be_tried_again_holds_up_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.0)
    fails_once = "[ $TAO_ATTEMPT = 2 ] || { kill -9 $PPID; sleep 0.1; }"
    good = run(client, fails_once, retries=1)
    bad = run(client, fails_once, retries=1)
    assert [job.id for job in client.store.live()] == [bad, good], "the bad one comes first"
    endpoint = client.store.attempt(bad).attempt.endpoint
    client.engine._backends["local", endpoint] = NoLogOf(
        client.engine.backend("local", endpoint), bad
    )  # pyright: ignore
    stop = threading.Event()
    watcher = threading.Thread(target=client.watch, args=(stop,))
    watcher.start()
    client.wait(good, timeout=300)
    stop.set()
    watcher.join()
    assert (client.get_job(good).status, client.get_job(good).attempt) == (Status.COMPLETE, 2)


@pytest.mark.slow
def test_a_watcher_that_leaves_gives_the_watch_back(client: Client) -> None:
    job = run(client, "true")
    watch(client)
    assert (
        client.store.lease_holder(of_watch(("local", client.store.attempt(job).attempt.endpoint)))
        is None
    )


@pytest.mark.slow
def test_a_receiver_that_does_not_speak_http_holds_up_no_other(
    client: Client, receiver: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def answer() -> None:
            connection, _ = odd.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        threading.Thread(target=answer, daemon=True).start()
        first = run(
            client, "true", hooks={"on_complete": f"http://127.0.0.1:{odd.getsockname()[1]}/hook"}
        )
        second = run(client, "true", hooks={"on_complete": url(receiver)})
        client.wait_all([first, second], timeout=300)
        Watcher(client.engine).deliver()
    assert [got["job"]["id"] for got in receiver.got] == [second]
    assert [event.kind for event in client.events(first)].count("hook-failed") == 1


@pytest.mark.slow
def test_a_job_that_is_removed_while_its_hook_is_told_keeps_none_from_being_told(
    client: Client, receiver: Any
) -> None:
    class Removing(list[Any]):
        def append(self, body: Any) -> None:
            super().append(body)
            if body["job"]["id"] == first:
                client.store.remove(first)

    receiver.got = Removing()
    first = run(client, "true", hooks={"on_complete": url(receiver)})
    client.wait(first, timeout=300)
    second = run(client, "true", hooks={"on_complete": url(receiver)})
    client.wait(second, timeout=300)
    Watcher(client.engine).deliver()
    assert [got["job"]["id"] for got in receiver.got] == [first, second]


def test_a_callback_that_fails_or_is_of_a_removed_job_keeps_none_from_being_told(
    client: Client,
) -> None:
    told: list[str] = []
    jobs = [run(client, "true"), run(client, "true")]
    client.wait_all(jobs, timeout=300)
    of_job = {
        "gone-0123456789": {},
        jobs[0]: {"on_complete": lambda job: 1 / 0},
        jobs[1]: {"on_complete": told.append},
    }
    watcher = Watcher(client.engine, hooks.Callbacks(of_job=of_job))  # pyright: ignore
    watcher.fire_callbacks()
    assert [job.id for job in told] == [jobs[1]]  # pyright: ignore
    assert watcher.callbacks.of_job == {}


@pytest.mark.slow
def test_a_job_submitted_to_a_watcher_that_is_about_to_leave_is_watched(
    client: Client, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAITS", (0.0,))
    fired = threading.Event()

    class Late(list[Any]):
        def append(self, body: Any) -> None:
            super().append(body)
            if len(self) == 2:  # the last delivery before the watcher leaves
                client.submit(
                    JobSpec(
                        command="true", gpu_count=0, hooks={"on_complete": lambda job: fired.set()}
                    ),
                    "local",
                )

    receiver.got, receiver.fails = Late(), 1
    run(client, "true", hooks={"on_complete": url(receiver), "on_error": lambda job: None})
    assert fired.wait(120)


@pytest.mark.slow
def test_a_store_that_cannot_be_read_for_a_while_does_not_end_the_watch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = run(client, "sleep 1")
    live, failures = client.store.live, [StoreError("the disk is full")] * 4

    def sometimes(platform: str | None = None) -> list[Job]:
        if failures:
            raise failures.pop()
        return live(platform)

    monkeypatch.setattr(client.store, "live", sometimes)
    watch(client)
    assert client.get_job(job, look=False).status is Status.COMPLETE


@pytest.mark.slow
def test_what_a_hook_prints_is_kept_from_the_watchers_terminal_and_told_when_it_fails(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    job = run(
        client,
        "true",
        hooks={"on_complete": "seq 100000; echo $HOOK_TOKEN: no such channel >&2; exit 3"},
    )
    watch(client)
    failures = [event.raw for event in client.events(job) if event.kind == "hook-failed"]
    assert failures
    assert failures[0].startswith("exit code 3: ")
    assert failures[0].endswith("***: no such channel")
    assert len(failures[0]) < 600
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_endpoint_that_another_process_watches_is_left_to_it(client: Client) -> None:
    job = run(client, "true")
    endpoint = client.store.attempt(job).attempt.endpoint
    assert client.store.acquire(of_watch(("local", endpoint)), "elsewhere|boot|1|1|token", 600)
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    client.watch(stop)
    assert client.get_job(job, look=False).status is Status.PENDING
    assert client.get_job(job).status is Status.COMPLETE


def test_an_error_in_a_callback_is_logged_and_not_the_error_of_whoever_looks(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    job = run(client, "true", hooks={"on_complete": lambda job: 1 / 0})
    assert client.wait(job, timeout=300).status is Status.COMPLETE
    until(lambda: "tao_sdk.hooks" in [each.name for each in caplog.records])  # by the watcher
    (record,) = (each for each in caplog.records if each.name == "tao_sdk.hooks")
    assert record.getMessage() == f"the on_complete of {job} raised an error"
    assert "ZeroDivisionError" in str(record.exc_info)


@pytest.mark.slow
def test_an_idle_watcher_asks_the_store_once_a_turn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(client, "sleep 300")
    watcher, turns, questions = Watcher(client.engine), list[float](), list[float]()
    pass_once, live_endpoints = watcher.pass_once, client.store.live_endpoints

    def counted_turn() -> None:
        turns.append(time.monotonic())
        pass_once()
        if len(turns) == 10:
            watcher.stop.set()

    def counted_question() -> Any:
        questions.append(time.monotonic())
        return live_endpoints()

    monkeypatch.setattr(watcher, "pass_once", counted_turn)
    monkeypatch.setattr(client.store, "live_endpoints", counted_question)
    watcher.run()
    assert (len(turns), len(questions)) == (10, 10)


class CountsLooks:
    """The real backend, with the number of attempts that it was asked about."""

    def __init__(self, backend: Any) -> None:
        self._backend, self.looks = backend, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def observe(self, refs: Any) -> Any:
        self.looks += len(refs)
        return self._backend.observe(refs)


def test_a_watcher_looks_at_no_job_while_nothing_happens(client: Client) -> None:
    jobs = [run(client, "sleep 300") for _ in range(3)]
    until(lambda: all(client.get_job(job).status is Status.RUNNING for job in jobs))
    [endpoint] = client.store.live_endpoints()
    backend = CountsLooks(client.engine.backend(*endpoint))
    client.engine._backends[endpoint] = backend  # pyright: ignore
    watcher = Watcher(client.engine)

    def looks_of_a_turn() -> int:
        before = backend.looks
        if pace := watcher._paces.get(endpoint):  # pyright: ignore
            pace.next_look = 0.0
        watcher._attend(endpoint)  # pyright: ignore
        return backend.looks - before

    assert looks_of_a_turn() == 3
    until(lambda: looks_of_a_turn() == 0)  # the log's first size is news once
    assert [looks_of_a_turn() for _ in range(10)] == [0] * 10


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 60), (240, 60), (1000, 250), (10**6, 600)])
def test_the_more_jobs_there_are_the_rarer_are_looks_at_all_of_them(
    jobs: int, seconds: float
) -> None:
    assert whole_pause(jobs) == seconds
