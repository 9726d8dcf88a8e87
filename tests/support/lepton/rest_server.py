"""The REST API of a stand-in workspace on loopback, with faults that a test asks for."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.lepton.workspace import (
    MODES,
    Group,
    Json,
    Refusal,
    Workspace,
    group_json,
    node_json,
    shapes_json,
)

MOST_LINES, MOST_JOBS = 10_000, 500
FAR_FUTURE = 2**63
LOST_REPLY, LOST_REQUEST, SILENCE = "lost reply", "lost request", "silence"


@dataclass
class Fault:
    """What happens to the next `times` requests of a kind. `what` is an HTTP status, or one of
    LOST_REPLY (the work is done), LOST_REQUEST (it is not) and SILENCE.
    """

    method: str
    path: str  # a pattern of the path below the workspace
    what: int | str
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=lambda: {"message": "a fault of the test"})


@dataclass
class Query:
    """One request: the parts of its path, its parameters and its body."""

    parts: tuple[str, ...]
    params: dict[str, list[str]]
    body: Any

    def text(self, name: str, default: str = "") -> str:
        return self.params.get(name, [default])[0]

    def number(self, name: str, default: int) -> int:
        return int(self.text(name, str(default)))


Answer = Callable[[Workspace, Query], Any]


def list_jobs(workspace: Workspace, query: Query) -> Json:
    size = min(query.number("page_size", MOST_JOBS), MOST_JOBS)
    mode = query.text("job_query_mode", "alive_only")
    page = query.number("page", 1)
    return {
        "jobs": workspace.list_jobs(mode, query.text("query"), query.text("q"), page, size),
    }


def create_job(workspace: Workspace, query: Query) -> Json:
    return workspace.create(query.body)


def get_job(workspace: Workspace, query: Query) -> Json:
    return workspace.job(query.parts[0], mode_of(query)).to_json()


def mode_of(query: Query) -> str:
    mode = query.text("job_query_mode", "alive_only")
    if mode not in MODES:
        raise Refusal(400, f"invalid job_query_mode {mode}")
    return mode


def patch_job(workspace: Workspace, query: Query) -> Json:
    return workspace.patch(query.parts[0], query.body)


def delete_job(workspace: Workspace, query: Query) -> Json:
    workspace.job(query.parts[0], mode_of(query))
    workspace.delete(query.parts[0])
    return {}


def get_replicas(workspace: Workspace, query: Query) -> list[Json]:
    return [each.to_json() for each in workspace.job(query.parts[0], mode_of(query)).replicas]


def get_events(workspace: Workspace, query: Query) -> list[Json]:
    job = workspace.job(query.parts[0])
    return [
        {"type": "Warning", "reason": each["node_event_name"], "message": each["message"]}
        for each in job.node_events
    ]


def get_failure_analysis(workspace: Workspace, query: Query) -> Json:
    job = workspace.job(query.parts[0])
    return {
        "err_class": "ERR_INFRA" if job.node_events else "ERR_UNKNOWN",
        "suggestion": "",
        "job_failure_by_node_event": job.node_events,
    }


def get_logs(workspace: Workspace, query: Query) -> Json:
    """As Loki answers: one stream for each replica, the newest first unless `forward`."""
    job = workspace.job(query.text("job"))
    start, end = query.number("start", 1), query.number("end", FAR_FUTURE)
    if start <= 0 or end <= start:
        raise Refusal(400, "invalid start or end")
    limit, direction = query.number("limit", 100), query.text("direction", "backward")
    if not 0 < limit <= MOST_LINES or direction not in ("forward", "backward"):
        raise Refusal(400, "invalid limit or direction")
    wanted, words = query.text("replica"), query.text("q")
    collects = (job.spec.get("log") or {}).get("enable_collection")
    replicas = [each for each in job.replicas if not wanted or each.id == wanted]
    found = [
        (time_ns, line, replica.id)
        for replica in (replicas if collects else [])
        for time_ns, line in replica.log.page(start, end, limit, direction == "forward", words)
    ]
    found.sort(key=lambda one: one[0], reverse=direction == "backward")
    streams: dict[str, list[list[str]]] = {}
    for time_ns, line, replica_id in found[:limit]:
        streams.setdefault(replica_id, []).append([str(time_ns), line])
    result = [
        {"stream": {"replica": name, "job": job.id}, "values": values}
        for name, values in streams.items()
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": result}}


def get_shapes(workspace: Workspace, query: Query) -> list[Json]:
    groups = query.params.get("node_groups", [])
    return shapes_json(workspace.groups, groups, query.text("purpose"))


def group_at(workspace: Workspace, id: str) -> Group:
    found = next((group for group in workspace.groups if group.id == id), None)
    if found is None:
        raise Refusal(404, f"node group {id} not found")
    return found


def get_groups(workspace: Workspace, query: Query) -> list[Json]:
    return [group_json(group) for group in workspace.groups]


def get_nodes(workspace: Workspace, query: Query) -> list[Json]:
    group = group_at(workspace, query.parts[0])
    return [node_json(workspace, group, node) for node in group.nodes]


def get_permission(workspace: Workspace, query: Query) -> list[Json]:
    group = group_at(workspace, query.text("nodegroup_id"))
    path = group.may_use.get(query.parts[0], "/")
    return [{"path_prefix": path, "allowed_users": [], "nodegroup_id": group.id}]


def get_secrets(workspace: Workspace, query: Query) -> list[Json]:
    return [
        {name: value for name, value in secret.items() if name != "value"}
        for secret in workspace.secrets.values()
    ]


def create_secrets(workspace: Workspace, query: Query) -> Json:
    for secret in query.body:
        if secret["name"] in workspace.secrets:
            raise Refusal(409, f"secret {secret['name']} exists")
    for secret in query.body:
        workspace.secrets[secret["name"]] = dict(secret)
    return {}


def delete_secret(workspace: Workspace, query: Query) -> Json:
    if workspace.secrets.pop(query.parts[0], None) is None:
        raise Refusal(404, f"secret {query.parts[0]} not found")
    return {}


def get_pull_secrets(workspace: Workspace, query: Query) -> list[Json]:
    return [
        {
            "metadata": secret["metadata"],
            "spec": {"registry_server": secret["spec"]["registry_server"]},
        }
        for secret in workspace.pull_secrets.values()
    ]


def create_pull_secret(workspace: Workspace, query: Query) -> Json:
    name = query.body["metadata"]["name"]
    if name in workspace.pull_secrets:
        raise Refusal(409, f"image pull secret {name} exists")
    workspace.pull_secrets[name] = query.body
    return {}


def get_workspace(workspace: Workspace, query: Query) -> Json:
    return {"workspace_name": workspace.id, "state": "normal", "tier": "enterprise"}


def get_tokens(workspace: Workspace, query: Query) -> list[Json]:
    return [{"name": "test", "expires_at": int(time.time()) + 86_400}]


ID = r"([^/]+)"
ROUTES: list[tuple[str, str, Answer]] = [
    ("GET", "/jobs", list_jobs),
    ("POST", "/jobs", create_job),
    ("GET", f"/jobs/{ID}", get_job),
    ("PATCH", f"/jobs/{ID}", patch_job),
    ("DELETE", f"/jobs/{ID}", delete_job),
    ("GET", f"/jobs/{ID}/replicas", get_replicas),
    ("GET", f"/jobs/{ID}/events", get_events),
    ("GET", f"/jobs/{ID}/failure-analysis", get_failure_analysis),
    ("GET", "/logs", get_logs),
    ("GET", "/shapes", get_shapes),
    ("GET", "/dedicated-node-groups", get_groups),
    ("GET", f"/dedicated-node-groups/{ID}/nodes", get_nodes),
    ("GET", f"/storage-permission/{ID}", get_permission),
    ("GET", "/usersecrets", get_secrets),
    ("POST", "/usersecrets", create_secrets),
    ("DELETE", f"/usersecrets/{ID}", delete_secret),
    ("GET", "/imagepullsecrets", get_pull_secrets),
    ("POST", "/imagepullsecrets", create_pull_secret),
    ("GET", "/workspace", get_workspace),
    ("GET", "/tokens", get_tokens),
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RestServer  # type: ignore[assignment]

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(6, 1, 1)  # TCP_NODELAY

    def answer_any(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = url.path.removeprefix(self.server.prefix)
        self.server.asked.append(f"{self.command} {path}")
        fault = self.server.take_fault(self.command, path)
        if fault and fault.what == SILENCE:
            self.server.closing.wait(60)
        if fault and fault.what in (SILENCE, LOST_REQUEST):
            self.close_connection = True
            return
        if fault and isinstance(fault.what, int):
            self.send_json(fault.what, fault.body, fault.headers)
            return
        try:
            status, value, headers = 200, self.value(url.path, path, url.query, body), {}
        except Refusal as refusal:
            status, value, headers = refusal.status, {"message": refusal.message}, refusal.headers
        if fault:
            self.close_connection = True
            return
        self.send_json(status, value, headers)

    def value(self, whole: str, path: str, query: str, body: bytes) -> Any:
        workspace = self.server.workspace
        if self.headers.get("Authorization") != f"Bearer {workspace.token}":
            raise Refusal(401, "invalid token")
        if not whole.startswith(self.server.prefix):
            raise Refusal(404, "no such workspace")
        for method, pattern, answer in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                params = parse_qs(query, keep_blank_values=True)
                return answer(workspace, Query(match.groups(), params, json.loads(body or b"null")))
        raise Refusal(404, f"no route {self.command} {path}")

    def send_json(self, status: int, value: Any, headers: dict[str, str]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {**headers, "Content-Type": "application/json"}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = answer_any  # noqa: N815

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The test says what it needs to."""


class RestServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.workspace = workspace
        self.prefix = f"/api/v2/workspaces/{workspace.id}"
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{self.prefix}"

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.times and fault.method == method and re.fullmatch(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""

    def close(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
        self.workspace.close()
