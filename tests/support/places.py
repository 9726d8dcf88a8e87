"""The backends that the contract suite runs on, and what it needs to know of each to look behind
it.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from support.cluster import cluster_files, cluster_here, cluster_images, known_here
from support.dockerd import dockerd_here
from support.kubernetes import kube_files, kube_here
from support.kubernetes.kube_api import ApiError
from support.lepton import lepton_here
from support.servers import link_here
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.engine.prepare import Planned
from tao_sdk.engine.submit import Submission
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

LOOPBACK = "127.0.0.1"
NAMESPACE = "contract"  # of all its jobs on Kubernetes


class PlacedClient(Client):
    """A client whose jobs get what the place needs where the test does not say: an image, the
    test's folder.
    """

    def __init__(self, place: Place, environ: Mapping[str, str], watch: bool = False) -> None:
        self.place = place
        super().__init__(settings=Settings(environ), watch=watch)

    def submit(self, spec: JobSpec, platform: str, *more: Any, **named: Any) -> Submission:
        return super().submit(self.placed(spec), platform, *more, **named)

    def plan(self, spec: JobSpec, platform: str, *more: Any, **named: Any) -> Planned:
        return super().plan(self.placed(spec), platform, *more, **named)

    def placed(self, spec: JobSpec) -> JobSpec:
        return replace(
            spec,
            **{name: value for name, value in self.place.spec.items() if not getattr(spec, name)},
        )


@dataclass(frozen=True)
class Place:
    """One backend under test. `running` counts the processes of a job that really run, without
    asking the SDK.
    """

    platform: str
    state: Path
    running: Callable[[str], int]
    fails_by_infrastructure: str  # a command that the place fails, not the program
    inherits: bool = False  # the job has its caller's environment and paths
    results_here: bool = True  # they lie below the caller's folder
    reads_results: bool = True  # without a bucket
    rotates_logs: bool = False  # a log that grows faster than it is read loses lines
    text_logs: bool = False  # bytes in a log that are no UTF-8 become U+FFFD
    remembers: bool = False  # how a job ended that is there no more
    host: str = LOOPBACK  # where its jobs find a server of this computer
    network: Mapping[str, Any] = field(default_factory=dict[str, Any])  # options for that
    node_command: Callable[[], list[str]] = list  # begins a command that sees the nodes' mounts
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what a job needs here
    surroundings: Mapping[str, str] = field(default_factory=dict[str, str])

    def environ(self) -> dict[str, str]:
        return {**os.environ, **self.surroundings, "TAO_SDK_STATE_DIR": str(self.state)}

    def client(self, watch: bool = False, **environ: str) -> Client:
        """With the surroundings changed as given."""
        return PlacedClient(self, {**self.environ(), **environ}, watch)

    @contextmanager
    def reach(self, url: str) -> Iterator[str]:
        """The address under which jobs find a server of this computer that listens on loopback."""
        if self.host == LOOPBACK:
            yield url
            return
        scheme, _, address = url.partition("://")
        with link_here.Link(address, "-raw", listen=f"{self.host}:0") as line:
            yield f"{scheme}://{line.address}"


def processes_of(job_id: str) -> int:
    return len(pids_of(job_id))


def pids_of(job_id: str) -> list[int]:
    """The live processes whose environment says that they belong to the job. A
    zombie is not live.
    """
    found = [
        pid
        for pid in Path("/proc").iterdir()
        if pid.name.isdigit() and _belongs(pid, job_id) and _lives(pid)
    ]
    return [int(pid.name) for pid in found]


def _belongs(process: Path, job_id: str) -> bool:
    try:
        return f"TAO_JOB_ID={job_id}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_it_runs(client: Client, job: Job, words: bytes = b"") -> None:
    def runs() -> bool:
        if client.get_job(job.id).status is Status.PENDING:
            return False
        return words in b"".join(client.follow_logs(job.id, follow=False))

    until(runs, words=lambda: f"{client.get_job(job.id)} does not run")


def local(folder: Path) -> Place:
    return Place("local", folder / "state", processes_of, "kill -9 $PPID; sleep 0.1", inherits=True)


def docker(folder: Path) -> Place:
    """The job sees the test's folder, and the daemon's socket, by which the place fails: someone
    kills the container.
    """
    host = dockerd_here.host()
    socket = host.removeprefix("unix://")
    kill = (
        "import http.client as h, os, socket as s; c = h.HTTPConnection('d'); c.sock = s.socket(s.AF_UNIX); "
        f"c.sock.connect('{socket}'); c.request('POST', '/containers/' + os.uname().nodename + '/kill'); c.getresponse()"
    )
    spec = {
        "image": dockerd_here.PYTHON,
        "mounts": [f"{folder}:{folder}", f"{socket}:{socket}"],
        "keep_results": True,
    }
    fails = f'python3 -c "{kill}"; sleep 5'
    return Place(
        "docker",
        folder / "state",
        processes_of,
        fails,
        network={"network": "host"},
        spec=spec,
        surroundings={"DOCKER_HOST": host},
    )


def slurm(folder: Path) -> Place:
    """The test's folder is moved to where the cluster's machines see it, and keeps its name for the
    test and the job.

    The place fails when the node of the job does; that SLURM starts such a job again by itself is
    left out.
    """
    there = cluster_here.place()
    begins = not folder.is_symlink()
    if begins:
        own = (
            there.folder
            / "ours"
            / f"{folder.name}-{os.getpid()}-{len(list((there.folder / 'ours').iterdir()))}"
        )
        own.mkdir()
        own.chmod(0o1777)
        folder.rmdir()
        folder.symlink_to(own)
        fail_nodes()
    own = folder.resolve()
    spec = {"image": cluster_images.PYTHON, "mounts": [f"{own}:{folder}"]}
    more = {
        **cluster_here.surroundings(there),
        "SLURM_BASE_RESULTS_DIR": str(own / "base"),
        "SLURM_USE_REQUEUE": "no",
        "SLURM_PARTITION": "grizzly",
    }
    if begins:
        (own / "base").mkdir()
        os.chown(
            own / "base",
            cluster_files.UIDS[cluster_files.USER],
            cluster_files.UIDS[cluster_files.USER],
        )
        known_here.keep(more, folder / "state")
    fails = f"echo $SLURMD_NODENAME > {folder}/fails; sleep 60"
    return Place(
        "slurm",
        folder / "state",
        processes_of,
        fails,
        spec=spec,
        surroundings=more,
        results_here=False,
        remembers=True,
    )


@functools.cache
def fail_nodes() -> None:
    """The session's cluster, with images, and with nodes that fail when the file `fails` of a test
    names them.
    """
    cluster = cluster_here.cluster()
    cluster_images.place(cluster)

    def watch() -> None:
        while cluster.ours.exists():
            for named in cluster.ours.glob("*/fails"):
                if node := named.read_text().strip():
                    named.unlink()
                    cluster.fail_node(node)
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()


def kubernetes(folder: Path) -> Place:
    """The test's folder is mounted from the node, which is this computer. The place fails when
    somebody evicts the pod.
    """
    kubeconfig, failing = folder / "kubeconfig", kube_here.place().folder / "failing"
    if not kubeconfig.exists():
        kube_here.cluster().write_kubeconfig(kubeconfig)
        (folder / "results").mkdir()
        begin_evictions()
    spec = {
        "image": kube_files.PYTHON,
        "mounts": [f"{folder}:{folder}", f"{folder}/results:/results", f"{failing}:{failing}"],
    }
    return Place(
        "kubernetes",
        folder / "state",
        processes_of,
        f"touch {failing}/$HOSTNAME; sleep 60",
        spec=spec,
        surroundings={"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": NAMESPACE},
        results_here=False,
        reads_results=False,
        rotates_logs=True,
        host=kube_here.place().here,
        node_command=lambda: kube_here.cluster().inside(),
    )


@functools.cache
def begin_evictions() -> None:
    """The session's cluster has images, and a namespace whose pods are evicted when the folder
    `failing` names them.
    """
    cluster = kube_here.cluster()
    cluster.has_python_image()
    cluster.make_namespace(NAMESPACE)
    failing = cluster.folder / "failing"
    failing.mkdir()

    def watch() -> None:
        while failing.exists():
            for named in failing.glob("*"):
                named.unlink()
                with suppress(ApiError):  # its test has canceled the pod meanwhile
                    cluster.evict(NAMESPACE, named.name)
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()


def lepton(folder: Path) -> Place:
    """Replicas see the files of this computer. The place fails when the job's node is lost."""
    failing = folder / "failing"
    if not failing.exists():
        failing.mkdir()
        lepton_here.lose_nodes_named_in(failing)
    return Place(
        "lepton",
        folder / "state",
        processes_of,
        f"touch {failing}/$LEPTON_JOB_NAME; sleep 60",
        spec={"image": "stand-in"},
        surroundings=lepton_here.surroundings(),
        text_logs=True,
        results_here=False,
        reads_results=False,
    )


PLACES = {
    "local": local,
    "docker": docker,
    "slurm": slurm,
    "kubernetes": kubernetes,
    "lepton": lepton,
}
