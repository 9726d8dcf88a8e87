"""Simulated nodes: `simulated_nodes.py SERVER PKI ADDRESS PORT FILE` is the kubelet of many nodes at
once, which run no container.

FILE holds the nodes as JSON, {name: {gpus, labels, silent}}, and is read again when it changes. A
node registers, says that it lives, plays the life of each pod that is bound to it, and serves its
logs, all in the words of a real kubelet. A silent node does none of it: to the cluster it is lost.

What a pod does is in its annotations, all of them optional:

    simulated/seconds    how long it runs (0.5)
    simulated/exit-code  of its container (0)
    simulated/reason     of the container's end, such as OOMKilled (Completed or Error)
    simulated/waiting    why its container never starts, such as ImagePullBackOff
    simulated/evicted    the node's words when it puts the pod out, in place of an end
    simulated/message    more words about `waiting` or the end
    simulated/log        what it prints when it starts (its command)
    simulated/end-seconds  how long it runs on after it was told to end (0)
    simulated/end-code   its exit code then (143)
"""

from __future__ import annotations

import http.server
import json
import socketserver
import ssl
import sys
import threading
import time
import traceback
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from support.kubernetes.kube_api import Api, ApiError
from support.kubernetes.kube_files import NODE_LOST_SECONDS

PREFIX = "simulated/"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SIGN_OF_LIFE_SECONDS = NODE_LOST_SECONDS / 4
LARGE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
LAST_WORDS = 2048  # bytes of a failed container's log that its status keeps
BEGINNING_OF_TIME = datetime.min.replace(tzinfo=timezone.utc)
# Why a log is refused while a container waits, in the kubelet's words.
WAITING_WORDS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
POD_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")

Pod = dict[str, Any]


def timestamp() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def fine_timestamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class Nodes:
    """The nodes of the file, and what the cluster knows of them."""

    def __init__(self, api: Api, address: str, port: int, file: Path) -> None:
        self.api, self.address, self.port, self.file = api, address, port, file
        self.wanted: dict[str, dict[str, Any]] = {}
        self.registered: set[str] = set()
        self.ready: set[str] = set()  # those that the cluster takes for ready

    def keep(self) -> None:
        """Register what is new, and give signs of life."""
        next_signs = 0.0
        while True:
            self.read_wanted()
            self.registered &= self.wanted.keys()  # a node that was taken out may come again
            for name in self.wanted.keys() - self.registered:
                self.register(name)
            gives_signs = time.monotonic() >= next_signs
            if gives_signs:
                next_signs = time.monotonic() + SIGN_OF_LIFE_SECONDS
                self.ready &= self.taken_for_ready()
            self.follow_silence()
            if gives_signs:
                for name in self.ready:
                    self.renew_lease(name)
            time.sleep(0.2)

    def read_wanted(self) -> None:
        """Do as the file says from now on, and leave a copy beside it as the answer."""
        text = self.file.read_text()
        self.wanted = json.loads(text)
        self.file.with_suffix(".followed").write_text(text)

    def taken_for_ready(self) -> set[str]:
        """The cluster gives up a node whose sign of life comes late, as on a machine with much
        to do. Such a node has to say again that it is ready.
        """
        nodes = self.api.get("/api/v1/nodes")["items"]
        return {node["metadata"]["name"] for node in nodes if is_ready(node)}

    def follow_silence(self) -> None:
        """A node that is there again says so; of one that is silent the cluster finds out."""
        speaking = set(filter(self.speaks_for, self.registered))
        for name in speaking - self.ready:
            self.renew_lease(name)
            self.api.patch(f"/api/v1/nodes/{name}/status", {"status": self.status(name)})
        self.ready = speaking

    def speaks_for(self, name: str) -> bool:
        return name in self.wanted and not self.wanted[name].get("silent")

    def register(self, name: str) -> None:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            **self.wanted[name].get("labels", {}),
        }
        try:
            self.api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        except ApiError as refused:
            if refused.status != 409:  # it is there already
                raise
        self.registered.add(name)

    def status(self, name: str) -> dict[str, Any]:
        gpus = self.wanted[name].get("gpus", 0)
        resources = {**LARGE, "nvidia.com/gpu": str(gpus)} if gpus else LARGE
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        times = {"lastHeartbeatTime": timestamp(), "lastTransitionTime": timestamp()}
        return {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "conditions": [{**ready, **times}],
        }

    def renew_lease(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": NODE_LOST_SECONDS,
            "renewTime": fine_timestamp(datetime.now(timezone.utc)),
        }
        try:
            self.api.patch(f"{LEASES}/{name}", {"spec": spec})
        except ApiError as missing:
            if missing.status != 404:
                raise
            self.api.create(LEASES, {"metadata": {"name": name}, "spec": spec})


class Life:
    """One pod's: it runs in a thread of its own, from when it is bound until it is gone."""

    def __init__(self, api: Api, nodes: Nodes, pod: Pod) -> None:
        self.api, self.nodes, self.pod = api, nodes, pod
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{self.name}"
        self.told_to_end, self.over = threading.Event(), threading.Event()
        self.grace = 0.0
        self.began = datetime.now(timezone.utc)
        self.began_text = timestamp()

    def says(self, name: str, default: str = "") -> str:
        return (self.pod["metadata"].get("annotations") or {}).get(PREFIX + name, default)

    def play(self) -> None:
        """From begin to end. The cluster may remove the pod at any time, and nothing is left to
        say.
        """
        try:
            self.play_until_told()
            self.told_to_end.wait()
            self.leave()
        except ApiError as gone:
            if gone.status not in (404, 409):
                raise
        finally:
            self.over.set()

    def play_until_told(self) -> None:
        if waiting := self.says("waiting"):
            state = {"waiting": {"reason": waiting, "message": self.says("message")}}
            return self.report("Pending", state)
        self.report("Running", {"running": {"startedAt": self.began_text}})
        if not self.told_to_end.wait(float(self.says("seconds", "0.5"))):
            return self.report_end(int(self.says("exit-code", "0")))
        time.sleep(min(self.grace, float(self.says("end-seconds", "0"))))
        return self.report_end(int(self.says("end-code", "143")))

    def report_end(self, code: int) -> None:
        if evicted := self.says("evicted"):
            return self.report_eviction(evicted)
        usual = "Error" if code else "Completed"
        end = {
            "exitCode": code,
            "reason": self.says("reason", usual),
            "message": self.last_words() if code else "",
            "startedAt": self.began_text,
            "finishedAt": timestamp(),
        }
        self.report("Failed" if code else "Succeeded", {"terminated": end})
        self.over.set()

    def report_eviction(self, words: str) -> None:
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": words,
            "lastTransitionTime": timestamp(),
        }
        end = {"exitCode": 137, "reason": "Error", "startedAt": self.began_text}
        more = {"reason": "Evicted", "message": words}
        self.report("Failed", {"terminated": {**end, "finishedAt": timestamp()}}, disruption, more)
        self.over.set()

    def last_words(self) -> str:
        if message := self.says("message"):
            return message
        policy = self.pod["spec"]["containers"][0].get("terminationMessagePolicy")
        if policy != "FallbackToLogsOnError":
            return ""
        return self.text()[-LAST_WORDS:]

    def report(
        self,
        phase: str,
        state: dict[str, Any],
        disruption: dict[str, Any] | None = None,
        more: dict[str, str] | None = None,
    ) -> None:
        """The pod's status, unless its node has fallen silent."""
        runs = phase == "Running"
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "restartCount": 0,
                "ready": runs,
                "started": runs,
                "state": state,
            }
            for container in self.pod["spec"]["containers"]
        ]
        status = {
            "phase": phase,
            "startTime": self.began_text,
            "hostIP": self.nodes.address,
            "containerStatuses": containers,
            "conditions": [*conditions(runs), *([disruption] if disruption else [])],
            **(more or {}),
        }
        self.speak(lambda: self.api.patch(f"{self.path}/status", self.with_uid(status)))

    def with_uid(self, status: dict[str, Any]) -> dict[str, Any]:
        """The server refuses it for another pod of this name."""
        return {"metadata": {"uid": self.uid}, "status": status}

    def leave(self) -> None:
        """The last word of a kubelet on a pod that was deleted: it is gone."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        self.speak(lambda: self.api.delete(self.path, options))

    def speak(self, say: Any) -> None:
        if self.nodes.speaks_for(self.pod["spec"]["nodeName"]):
            say()

    def end(self, grace: float) -> None:
        self.grace = grace
        self.told_to_end.set()

    # Its log

    def text(self) -> str:
        command = " ".join(self.pod["spec"]["containers"][0].get("command") or [])
        return self.says("log", f"{command}\n")

    def log_lines(self, query: dict[str, str]) -> Iterator[bytes]:
        """The lines that a request asks for; each was printed a microsecond after the one before."""
        since = BEGINNING_OF_TIME
        if "sinceTime" in query:
            since = datetime.fromisoformat(query["sinceTime"].replace("Z", "+00:00"))
        lines = self.text().encode().splitlines(keepends=True)
        if "tailLines" in query:
            lines = lines[max(0, len(lines) - int(query["tailLines"])) :]
        for number, line in enumerate(lines):
            at = self.began + timedelta(microseconds=number)
            if at < since:
                continue
            with_time = query.get("timestamps") == "true"
            yield f"{fine_timestamp(at)} ".encode() + line if with_time else line


def conditions(running: bool) -> list[dict[str, str]]:
    def value(kind: str) -> str:
        return "True" if running or kind == "PodScheduled" else "False"

    return [
        {"type": kind, "status": value(kind), "lastTransitionTime": timestamp()}
        for kind in POD_CONDITIONS
    ]


class Pods:
    """The lives of all pods that are bound to the nodes."""

    def __init__(self, api: Api, nodes: Nodes) -> None:
        self.api, self.nodes = api, nodes
        self.lives: dict[str, Life] = {}

    def keep(self) -> None:
        while True:
            for kind, pod in self.api.follow("/api/v1/pods"):
                if kind != "RESTART" and pod["spec"].get("nodeName") in self.nodes.wanted:
                    self.take(kind, pod)

    def take(self, kind: str, pod: Pod) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            if life := self.lives.pop(uid, None):
                life.end(0)
            return
        if uid not in self.lives and pod["status"].get("phase", "Pending") == "Pending":
            self.lives[uid] = Life(self.api, self.nodes, pod)
            threading.Thread(target=self.lives[uid].play, daemon=True).start()
        if pod["metadata"].get("deletionTimestamp") and uid in self.lives:
            self.lives[uid].end(pod["metadata"].get("deletionGracePeriodSeconds") or 0)

    def named(self, namespace: str, name: str) -> Life | None:
        for life in list(self.lives.values()):
            metadata = life.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return life
        return None


class LogServer(http.server.BaseHTTPRequestHandler):
    """GET /containerLogs/<namespace>/<pod>/<container>, as the API server asks a kubelet."""

    pods: Pods

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        _, kind, namespace, name, *_ = [*path.split("/"), "", "", ""]
        life = self.pods.named(namespace, name)
        if kind != "containerLogs" or life is None:
            return self.send_error(404)
        if waiting := life.says("waiting"):
            return self.refuse(name, waiting)
        self.send_response(200)
        self.end_headers()
        wanted = dict(urllib.parse.parse_qsl(query))
        with suppress(OSError):  # the reader has left
            self.wfile.writelines(life.log_lines(wanted))
            self.wfile.flush()
            if wanted.get("follow") == "true":
                life.over.wait()

    def refuse(self, pod: str, waiting: str) -> None:
        container = self.path.partition("?")[0].rpartition("/")[2]
        why = WAITING_WORDS.get(waiting, waiting)
        body = f'container "{container}" in pod "{pod}" is waiting to start: {why}'.encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        del format, arguments


class LogPort(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Without a look-up of the host's name, which nobody on the machine answers."""
        socketserver.TCPServer.server_bind(self)


def keep_on(keep: Any) -> None:
    """Again and again, as the server may be away for a while."""
    while True:
        try:
            keep()
        except (OSError, ApiError, ValueError):
            traceback.print_exc()
            time.sleep(0.5)


def main(server: str, pki: str, address: str, port: str, file: str) -> None:
    api = Api(server, Path(pki), "admin")
    nodes = Nodes(api, address, int(port), Path(file))
    pods = LogServer.pods = Pods(api, nodes)
    for keep in (nodes.keep, pods.keep):
        threading.Thread(target=keep_on, args=(keep,), daemon=True).start()
    logs = LogPort((address, int(port)), LogServer)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{pki}/kubelet.crt", f"{pki}/kubelet.key")
    logs.socket = tls.wrap_socket(logs.socket, server_side=True, do_handshake_on_connect=False)
    logs.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
