"""The stand-in workspace: its jobs and how they live, its node group, secrets and volumes.

Never kinder than the real one, as far as that is known: a second create makes a second job, lists and logs
lag, an ended job is archived, and nothing tells an exit code.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.lepton.replica import Mounted, Replica, random_suffix

Json = dict[str, Any]

NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
SPEC_FIELDS = {
    "resource_shape", "affinity", "container", "shared_memory_size", "completions", "parallelism",
    "max_failure_retry", "max_job_failure_retry", "envs", "mounts", "image_pull_secrets",
    "ttl_seconds_after_finished", "intra_job_communication", "metrics", "log", "queue_config",
    "stopped", "reservation_config", "time_schedule", "segment_config", "user_security_context",
}  # fmt: skip
NOT_TO_SET = {
    "LEPTON_WORKSPACE_ID", "LEPTON_DEPLOYMENT_NAME", "LEPTON_JOB_NAME",
    "LEPTON_RESOURCE_ACCELERATOR_TYPE", "LEPTON_WORKSPACE_ORIGIN_URL",
}  # fmt: skip
SYSTEM_FOLDERS = ("/etc", "/usr", "/opt", "/var", "/bin", "/sbin", "/lib", "/proc", "/sys", "/dev")
ENDED = ("Completed", "Failed", "Stopped")
MODES = ("alive_only", "archive_only", "alive_and_archive")
LOOPBACKS = "127.0.{job}.{worker}"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Refusal(Exception):
    """The answer to a request that is not granted."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


@dataclass
class Times:
    """How long things take, in seconds. The real ones are not known, and longer."""

    list_lag: float = 0.1  # until a list has a job that was created
    log_lag: float = 0.1  # until a line that was written is shown
    start: float = 0.05  # for an image to be pulled
    stop: float = 0.3  # from a stop to its SIGTERM
    stop_grace: float = 10.0  # between SIGTERM and SIGKILL


@dataclass
class Shape:
    name: str
    gpus: int = 0
    cpu: float = 1
    memory_mb: int = 4096
    listable_in: tuple[str, ...] = ("job", "deployment")


@dataclass
class Node:
    """A node whose GPUs exist in name only. `held` are those that somebody else uses."""

    name: str
    gpus: int = 8
    held: int = 0
    unschedulable: bool = False


@dataclass
class Group:
    id: str
    nodes: list[Node]
    shapes: list[Shape]
    volumes: dict[str, Path] = field(default_factory=dict)  # name -> the folder that stands for it
    may_use: dict[str, str] = field(
        default_factory=dict
    )  # volume -> the path that the caller may use


class Job:
    """One job, and the thread in which it lives."""

    def __init__(self, workspace: Workspace, metadata: Json, spec: Json) -> None:
        self.workspace, self.spec = workspace, spec
        self.id = f"{metadata['name']}-{random_suffix(4)}"
        self.created = time.time()
        self.metadata = {
            **metadata,
            "id": self.id,
            "created_at": int(self.created * 1000),
            "created_by": "somebody@example.com",
        }
        self.number = len(workspace.jobs) + 1
        self.state = "Queueing"
        self.completed: int | None = None
        self.replicas: list[Replica] = []
        self.node_events: list[Json] = []
        self.wants_end = threading.Event()
        self.is_deleted = False
        self.hides_as = ""  # a state that is told in place of the true one
        self.group = workspace.group_of(spec)
        self.thread = threading.Thread(target=self.live, daemon=True)

    @property
    def size(self) -> int:
        return self.spec["completions"]

    @property
    def shape(self) -> Shape:
        return next(one for one in self.group.shapes if one.name == self.spec["resource_shape"])

    def live(self) -> None:
        self.state = self.lives()
        self.completed = int(time.time())
        self.workspace.free(self)

    def lives(self) -> str:
        """Run to the end, and return the state at the end."""
        while not self.workspace.place(self):
            if self.wants_end.wait(0.02):
                return "Stopped"
        self.state = "Starting"
        if self.wants_end.wait(self.workspace.times.start):
            return "Stopped"
        for replica in self.replicas:
            self.begin(replica)
            self.state = "Running"
        while True:
            codes = [replica.exit_code for replica in self.replicas]
            if self.wants_end.is_set():
                self.state = "Stopping"
                time.sleep(self.workspace.times.stop)
                self.end_replicas()
                return "Stopped"
            if any(codes):
                self.end_replicas()
                return "Failed"
            if None not in codes:
                for replica in self.replicas:
                    replica.finish()
                return "Completed"
            time.sleep(0.02)

    def begin(self, replica: Replica) -> None:
        index = self.replicas.index(replica)
        subdomain = f"{self.id}-job-svc"
        hosts = {
            f"worker-{worker}.{subdomain}": LOOPBACKS.format(
                job=self.number % 250 + 1, worker=worker + 1
            )
            for worker in range(self.size if self.spec.get("intra_job_communication") else 0)
        }
        own = {
            "PATH": PATH,
            "HOME": "/root",
            "LEPTON_JOB_NAME": self.id,
            "LEPTON_WORKER_ID": replica.id,
            "LEPTON_JOB_WORKER_INDEX": str(index),
            "LEPTON_JOB_TOTAL_WORKERS": str(self.size),
            "LEPTON_JOB_WORKER_PREFIX": "worker",
            "LEPTON_JOB_WORKER_HOSTNAME_PREFIX": "worker",
            "LEPTON_SUBDOMAIN": subdomain,
            "LEPTON_JOB_SERVICE_PREFIX": self.id,
            "LEPTON_JOB_FAILURE_COUNT": "0",
            "LEPTON_RESOURCE_ACCELERATOR_NUM": str(self.shape.gpus),
            "LEPTON_RESOURCE_ACCELERATOR_TYPE": "STAND-IN" if self.shape.gpus else "",
            "LEPTON_WORKSPACE_ID": self.workspace.id,
            "LEPTON_VIRTUAL_ENV": "/opt/lepton/venv",
        }
        environ = {**self.workspace.environ_of(self.spec), **own}
        replica.begin(self.spec["container"]["command"], environ, hosts, self.mounted())

    def mounted(self) -> list[Mounted]:
        return [
            Mounted(
                self.group.volumes[each["from"].partition(":")[2]] / each["path"].strip("/"),
                each["mount_path"],
            )
            for each in self.spec.get("mounts", [])
        ]

    def end_replicas(self) -> None:
        grace = self.workspace.times.stop_grace
        ends = [threading.Thread(target=each.end, args=(grace,)) for each in self.replicas]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()

    @property
    def is_archived(self) -> bool:
        ttl = self.spec.get("ttl_seconds_after_finished", 600)
        return self.completed is not None and time.time() - self.completed > ttl

    def told_state(self) -> str:
        if self.is_deleted:
            return "Deleting"
        if self.is_archived:
            return "Archived"
        return self.hides_as or self.state

    def status(self) -> Json:
        codes = [replica.exit_code for replica in self.replicas]
        live = sum(replica.process is not None for replica in self.replicas) - sum(
            code is not None for code in codes
        )
        return {
            "job_name": self.id,
            "state": self.told_state(),
            "ready": live,
            "active": live,
            "failed": sum(bool(code) for code in codes),
            "succeeded": codes.count(0),
            "creation_time": int(self.created),
            "completion_time": self.completed,
            "job_history": [],
        }

    def to_json(self) -> Json:
        return {"metadata": self.metadata, "spec": self.spec, "status": self.status()}


class Workspace:
    """Safe to use from several threads."""

    def __init__(self, folder: Path, id: str = "tests", times: Times | None = None) -> None:
        self.folder, self.id, self.times = folder, id, times or Times()
        self.token = f"token-of-{id}"
        self.jobs: dict[str, Job] = {}
        self.secrets: dict[str, Json] = {}
        self.pull_secrets: dict[str, Json] = {}
        self.groups = [standard_group(folder)]
        self.lock = threading.RLock()

    # Jobs

    def create(self, body: Json) -> Json:
        metadata, spec = self.checked(body)
        with self.lock:
            job = Job(self, metadata, spec)
            self.jobs[job.id] = job
        job.thread.start()
        return job.to_json()

    def checked(self, body: Json) -> tuple[Json, Json]:
        metadata, spec = body.get("metadata") or {}, dict(body.get("spec") or {})
        name = str(metadata.get("name") or "")
        if not NAME.fullmatch(name) or len(name) > 36 or name.endswith("by-lepton"):
            raise Refusal(400, f"invalid job name {name!r}")
        for key, value in (metadata.get("labels") or {}).items():
            if len(key) > 63 or len(value) > 63 or not LABEL_VALUE.fullmatch(value):
                raise Refusal(400, f"invalid label {key}={value}")
        unknown = set(spec) - SPEC_FIELDS
        if unknown:
            raise Refusal(400, f"unknown field {min(unknown)}")
        spec.setdefault("completions", 1)
        self.check_shape(spec)
        self.check_environment(spec)
        self.check_mounts(spec)
        return dict(metadata), spec

    def check_shape(self, spec: Json) -> None:
        group = self.group_of(spec)
        if spec.get("resource_shape") not in [shape.name for shape in group.shapes]:
            raise Refusal(400, f"resource shape {spec.get('resource_shape')!r} not found")

    def check_environment(self, spec: Json) -> None:
        for each in spec.get("envs", []):
            if each["name"] in NOT_TO_SET:
                raise Refusal(400, f"environment variable {each['name']} is reserved")
            reference = (each.get("value_from") or {}).get("secret_name_ref")
            if reference and reference not in self.secrets:
                raise Refusal(400, f"secret {reference} not found")
        for name in spec.get("image_pull_secrets", []):
            if name not in self.pull_secrets:
                raise Refusal(400, f"image pull secret {name} not found")

    def check_mounts(self, spec: Json) -> None:
        group = self.group_of(spec)
        for each in spec.get("mounts", []):
            volume = str(each.get("from", "")).partition(":")[2]
            if volume not in group.volumes:
                raise Refusal(400, f"volume {volume!r} not found")
            target = str(each.get("mount_path"))
            if target == "/" or target.startswith(SYSTEM_FOLDERS):
                raise Refusal(400, f"mount path {target} is reserved")
            if not each["path"].startswith(group.may_use.get(volume, "/")):
                raise Refusal(403, f"no permission for {each['path']} of {volume}")

    def group_of(self, spec: Json) -> Group:
        wanted = (spec.get("affinity") or {}).get("allowed_dedicated_node_groups") or []
        found = [group for group in self.groups if group.id in wanted]
        if not found:
            raise Refusal(400, f"node group {wanted} not found")
        return found[0]

    def environ_of(self, spec: Json) -> dict[str, str]:
        return {
            each["name"]: self.secrets[each["value_from"]["secret_name_ref"]]["value"]
            if "value_from" in each
            else each["value"]
            for each in spec.get("envs", [])
        }

    def place(self, job: Job) -> bool:
        """Give every replica of a job a node, or none (gang scheduling)."""
        with self.lock:
            nodes = self.nodes_for(job)
            if len(nodes) < job.size:
                return False
            for index, node in enumerate(nodes):
                replica = Replica(job.id, index, self.folder / "replicas", self.times.log_lag)
                replica.node = node.name
                job.replicas.append(replica)
            return True

    def nodes_for(self, job: Job) -> list[Node]:
        free = {node.name: self.free_gpus(job.group, node) for node in job.group.nodes}
        found: list[Node] = []
        for _ in range(job.size):
            node = next((one for one in job.group.nodes if free[one.name] >= job.shape.gpus), None)
            if node is None:
                break
            free[node.name] -= job.shape.gpus
            found.append(node)
        return found

    def free_gpus(self, group: Group, node: Node) -> int:
        used = sum(
            job.shape.gpus
            for job in self.jobs.values()
            if job.group is group and job.completed is None
            for replica in job.replicas
            if replica.node == node.name
        )
        return -1 if node.unschedulable else node.gpus - node.held - used

    def free(self, job: Job) -> None:
        if job.is_deleted:
            with self.lock:
                self.jobs.pop(job.id, None)

    def list_jobs(
        self, mode: str, selector: str, part: str, page: int, page_size: int
    ) -> list[Json]:
        if mode not in MODES:
            raise Refusal(400, f"invalid job_query_mode {mode}")
        with self.lock:
            jobs = list(self.jobs.values())
        shown = [
            job
            for job in jobs
            if time.time() - job.created >= self.times.list_lag
            and is_in_mode(job, mode)
            and part in job.metadata["name"]
            and is_selected(job.metadata.get("labels") or {}, selector)
        ]
        return [job.to_json() for job in shown[(page - 1) * page_size : page * page_size]]

    def job(self, id: str, mode: str = "alive_and_archive") -> Job:
        job = self.jobs.get(id)
        if job is None or not is_in_mode(job, mode):
            raise Refusal(404, f"job {id} not found")
        return job

    def patch(self, id: str, body: Json) -> Json:
        stopped = (body.get("spec") or {}).get("stopped")
        if stopped is not True:
            raise Refusal(400, "this stand-in only stops")
        job = self.job(id)
        job.wants_end.set()
        return job.to_json()

    def delete(self, id: str) -> None:
        """Asynchronous: the job is ended first. Its logs go with it."""
        job = self.job(id)
        with self.lock:
            job.is_deleted = True
            job.wants_end.set()
            if job.completed is not None:
                self.jobs.pop(id, None)

    def fail_node_of(self, job_id: str) -> None:
        """The node of a job's first replica is lost."""
        job = self.job(job_id)
        lost = job.replicas[0]
        job.node_events.append(
            {"node_event_name": "NodeNotReady", "message": f"node {lost.node} is not ready"}
        )
        lost.lose()

    def reset(self) -> None:
        """Undo what a test has set. Its jobs are its own to end."""
        self.times = Times()
        for group in self.groups:
            group.may_use.clear()
            for node in group.nodes:
                node.held, node.unschedulable = 0, False

    def close(self) -> None:
        for job in list(self.jobs.values()):
            for replica in job.replicas:
                replica.end(0)
            job.wants_end.set()


def is_in_mode(job: Job, mode: str) -> bool:
    return {
        "alive_only": not job.is_archived,
        "archive_only": job.is_archived,
        "alive_and_archive": True,
    }[mode]


def is_selected(labels: Mapping[str, str], selector: str) -> bool:
    """A label selector of equalities."""
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    return all(labels.get(key) == value for key, value in wanted.items())


def standard_group(folder: Path) -> Group:
    """Two nodes of eight GPUs, shapes for CPU jobs and for 1, 2, 4 and 8 GPUs, two volumes."""
    cpus = [Shape(f"cpu.{size}", cpu=cores) for size, cores in CPU_SIZES.items()]
    gpus = [
        Shape(f"gpu.{count}xh100", count, 12 * count, 200_000 * count) for count in (1, 2, 4, 8)
    ]
    volumes = {name: folder / "volumes" / name for name in ("scratch", "lustre")}
    for volume in volumes.values():
        volume.mkdir(parents=True, exist_ok=True)
    nodes = [Node("node-a"), Node("node-b")]
    return Group("group-tests", nodes, [*cpus, *gpus], volumes)


CPU_SIZES: Mapping[str, float] = {"small": 1, "medium": 2, "large": 4}


def shapes_json(groups: Sequence[Group], wanted: Sequence[str], purpose: str) -> list[Json]:
    return [
        {
            "metadata": {"id": shape.name, "name": shape.name},
            "spec": {
                "name": shape.name,
                "cpu": shape.cpu,
                "memory_in_mb": shape.memory_mb,
                "accelerator_num": shape.gpus,
                "accelerator_type": "NVIDIA-H100" if shape.gpus else "",
                "node_group_id": group.id,
                "listable_in": list(shape.listable_in),
            },
        }
        for group in groups
        if not wanted or group.id in wanted
        for shape in group.shapes
        if not purpose or purpose in shape.listable_in
    ]


def group_json(group: Group) -> Json:
    volumes = [{"from": "nfs", "name": name, "size_in_gb": 100} for name in group.volumes]
    return {
        "metadata": {"id": group.id, "name": group.id},
        "spec": {
            "volumes": volumes,
            "gpu_product": "NVIDIA-H100",
            "desired_nodes": len(group.nodes),
        },
        "status": {"ready_nodes": len(group.nodes), "quota_enabled": False},
    }


def node_json(workspace: Workspace, group: Group, node: Node) -> Json:
    used = node.gpus - max(workspace.free_gpus(group, node), 0)
    gpu = {"product": "NVIDIA-H100", "allocated": used, "total": node.gpus}
    return {
        "metadata": {"id": node.name, "name": node.name},
        "spec": {
            "dedicated_node_group": group.id,
            "resource": {"gpu": gpu},
            "unschedulable": node.unschedulable,
        },
        "status": {"status": ["Ready"], "workloads": []},
    }
