"""A real Kubernetes cluster for the tests, on this computer: Kubernetes' own programs, containerd,
one node with pretended GPUs.

Here: its parts, in the order that they need each other, and what a test does to them. Not here:
their files' texts (kube_files.py), how they are built (programs.py), how the cluster is kept apart
from others and from this computer (machine.py). `cluster()` starts one for the whole test session.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from support import marks
from support.kubernetes import kube_files as files
from support.kubernetes import kube_images, programs
from support.kubernetes.authority import Authority
from support.kubernetes.kube_api import Api, ApiError
from support.kubernetes.kube_files import Place, Shape
from support.servers import debian
from support.waiting import until

HOME = Path("/var/lib/tao-tests-kubernetes")  # overlay mounts do not work below every /tmp
AT_ONCE = 16  # clusters on one computer, of all test sessions
VARIABLE = "TAO_TEST_KUBERNETES_CLUSTER"  # its number, for a process that a test starts
START_SECONDS = 180.0
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "openssl": "openssl",
}
# How many programs may watch files at once, of each user of this computer. A cluster has some
# twenty, and several run beside each other; 128, the kernel's own limit, is then too few.
WATCHERS, WATCHERS_WANTED = Path("/proc/sys/fs/inotify/max_user_instances"), 1024
PYTHON_PATH = str(Path(__file__).parents[2])


def cluster() -> Cluster:
    """The test session's cluster; started at the first call."""
    marks.need("kubernetes")
    return started()


@functools.cache
def started() -> Cluster:
    here = start_cluster(Shape())
    os.environ[VARIABLE] = str(here.place.number)
    return here


def simulation() -> Cluster:
    """The test session's cluster whose nodes are simulated; started at the first call."""
    marks.need("kubernetes")
    return started_simulation()


@functools.cache
def started_simulation() -> Cluster:
    return start_cluster(Shape(level="control"))


def place() -> Place:
    """Where the session's cluster is; for a process that a test has started, the one that the test
    named.
    """
    marks.need("kubernetes")
    number = os.environ.get(VARIABLE) or str(cluster().place.number)
    return Place(HOME / number, int(number))


@contextmanager
def shaped(shape: Shape) -> Iterator[Cluster]:
    """A cluster of another kind, beside the session's."""
    marks.need("kubernetes")
    here = start_cluster(shape)
    try:
        yield here
    finally:
        atexit.unregister(here.end)
        here.end()


def start_cluster(shape: Shape) -> Cluster:
    if sys.platform != "linux" or os.geteuid() != 0:
        debian.missing("kubernetes", "the cluster needs root on Linux")
    debian.need("kubernetes", PACKAGES)
    allow_watchers()
    number, lock = take_number()
    here = Cluster(Place(HOME / str(number), number), shape, lock)
    here.remove()
    atexit.register(here.end)
    try:
        here.start()
    except BaseException:
        atexit.unregister(here.end)
        here.end()  # else the next test would wait for a number that this process has
        raise
    return here


def allow_watchers() -> None:
    """Raise the limit where it is lower. Where it may not be changed, it stays."""
    with suppress(OSError):
        if int(WATCHERS.read_text()) < WATCHERS_WANTED:
            WATCHERS.write_text(str(WATCHERS_WANTED))


def take_number() -> tuple[int, IO[str]]:
    """A number that no other cluster has, and the lock that keeps it; waits while all are taken."""
    while True:
        for number in range(AT_ONCE):
            lock = (Path(tempfile.gettempdir()) / f"tao-tests-kubernetes-{number}.lock").open("w")
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return number, lock
            lock.close()
        time.sleep(1)


class Cluster:
    def __init__(self, place: Place, shape: Shape, lock: IO[str]) -> None:
        self.place, self.folder, self.shape, self.lock = place, place.folder, shape, lock
        self.authority = Authority(place.pki)
        self.machine: subprocess.Popen[str] | None = None
        self.first_process = 0  # of the machine
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.simulated: dict[str, dict[str, Any]] = {}
        self.simulation_file = self.folder / "simulated-nodes.json"

    # From nothing to a ready node, and back

    def start(self) -> None:
        """In the order that works: who is asked starts before who asks."""
        self.lay_out()
        self.start_machine()
        self.start_api_server()
        if self.shape.runs_controllers:
            self.start_controllers()
        if self.shape.runs_containers:
            self.start_containerd()
            self.start_node()

    def lay_out(self) -> None:
        (self.folder / "log").mkdir(parents=True)
        for path, text in files.configurations(self.place, self.shape).items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        self.make_certificates()
        self.api = Api(self.place.server, self.place.pki, "admin")

    def make_certificates(self) -> None:
        self.authority.make()
        self.authority.issue("kube-apiserver", "/CN=kube-apiserver", files.server_names(self.place))
        node_names = f"DNS:{files.NODE},IP:{self.place.address}"
        node_subject = f"/O=system:nodes/CN=system:node:{files.NODE}"
        self.authority.issue("kubelet", node_subject, node_names)
        for name, subject in files.PARTS.items():
            self.authority.issue(name, subject)
        for name in (*files.PARTS, "kubelet"):
            user = self.authority.certificate_user(name)
            path = files.kubeconfig(self.place, name)
            self.authority.write_kubeconfig(path, self.place.server, user)

    def start_machine(self) -> None:
        """Namespaces, which end with their first process, and a line to them."""
        apart = "unshare --mount --net --pid --fork --mount-proc --kill-child".split()
        argv = [*apart, sys.executable, str(Path(__file__).with_name("machine.py"))]
        with (self.folder / "log" / "machine.log").open("w") as log:
            self.machine = subprocess.Popen(
                [*argv, str(self.folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        assert self.machine.stdout
        assert self.machine.stdout.readline() == "ready\n", self.words()
        [self.first_process] = children(self.machine.pid)
        self.connect_machine()
        self.make_control_group()

    def connect_machine(self) -> None:
        place = self.place
        link = ["ip", "link", "add", place.link, "type", "veth"]
        run_by_hand(*link, "peer", "name", "eth0", "netns", str(self.first_process))
        run_by_hand("ip", "address", "add", f"{place.here}/24", "dev", place.link)
        run_by_hand("ip", "link", "set", place.link, "up")
        for words in (
            f"address add {place.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {place.here}",
            f"address add {files.DNS_SERVICE}/32 dev lo",
        ):
            run_by_hand(*self.inside("ip", *words.split()))

    def make_control_group(self) -> None:
        """The pods' part of this computer's control groups: of each controller in version 1."""
        for folder in self.control_groups():
            folder.mkdir(exist_ok=True)

    def control_groups(self) -> list[Path]:
        top = Path("/sys/fs/cgroup")
        if (top / "cgroup.controllers").exists():
            return [top / self.place.control_group]
        return [each / self.place.control_group for each in top.iterdir() if each.is_dir()]

    def start_api_server(self) -> None:
        self.run("etcd", *files.etcd(self.place))
        self.start_api_server_alone()

    def start_api_server_alone(self) -> None:
        self.run("kube-apiserver", *files.api_server(self.place, self.shape))
        self.wait_for(self.api_is_ready)

    def api_is_ready(self) -> bool:
        return self.api.read("/readyz") == b"ok"

    def start_controllers(self) -> None:
        self.run("kube-controller-manager", *files.controller_manager(self.place, self.shape))
        self.run("kube-scheduler", *files.scheduler(self.place, self.shape))
        self.wait_for(lambda: self.api.get(f"{namespaced('default')}/serviceaccounts/default"))

    def start_containerd(self) -> None:
        run_by_hand(*self.inside(*files.pods_leave_as_the_node()))
        self.run("containerd", "containerd", "--config", str(self.folder / "containerd.toml"))
        self.wait_for(lambda: self.containerd("version").returncode == 0)
        self.import_image(files.PAUSE)
        self.import_image(files.BUSYBOX)

    def containerd(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = self.inside("ctr", "-a", files.CONTAINERD, "-n", "k8s.io", *words)
        return subprocess.run(argv, capture_output=True, text=True)

    def import_image(self, name: str) -> None:
        imported = self.containerd("images", "import", str(kube_images.archive(name)))
        assert imported.returncode == 0, imported.stderr

    def has_python_image(self) -> None:
        """PYTHON, which is large, is there for the tests that want it."""
        if files.PYTHON not in self.containerd("images", "ls", "-q").stdout.split():
            self.import_image(files.PYTHON)

    def start_node(self) -> None:
        arguments = (files.DNS_SERVICE, self.place.server, str(self.place.pki))
        self.run_python("cluster_dns", *arguments)
        self.start_kubelet()
        self.run("kube-proxy", *files.kube_proxy(self.place))
        self.start_gpu_plugin(self.shape.gpus)

    def start_kubelet(self) -> None:
        self.run("kubelet", *files.kubelet(self.place))

    def start_gpu_plugin(self, gpus: int) -> None:
        self.run("gpu-plugin", "gpu-plugin", str(gpus))
        self.wait_for(lambda: self.node_offers(gpus) and self.is_ready(files.NODE))

    def node_offers(self, gpus: int) -> bool:
        allocatable = self.api.get(f"/api/v1/nodes/{files.NODE}")["status"]["allocatable"]
        return allocatable.get("nvidia.com/gpu", "0") == str(gpus)

    def is_ready(self, node: str) -> bool:
        conditions = self.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
        return ("Ready", "True") in {(each["type"], each["status"]) for each in conditions}

    def end(self) -> None:
        """Nothing of it stays: no process, no mount, no network, no control group, no file."""
        if self.machine is not None:
            self.end_machine(self.machine)
        for process in self.running.values():
            process.wait()
        self.remove()
        self.lock.close()

    def end_machine(self, machine: subprocess.Popen[str]) -> None:
        """`unshare` ends when its namespace is empty."""
        assert machine.stdin and machine.stdout
        machine.stdin.close()
        if self.first_process:
            with suppress(ProcessLookupError):
                os.kill(self.first_process, signal.SIGKILL)
        machine.wait()
        machine.stdout.close()

    def remove(self) -> None:
        """Also what a test session that was killed has left: its processes ended with it."""
        subprocess.run(["ip", "link", "delete", self.place.link], capture_output=True)
        until(self.remove_control_groups)
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_control_groups(self) -> bool:
        for top in self.control_groups():
            for folder in sorted(top.rglob("*/"), reverse=True):
                with suppress(OSError):  # its last process is just ending
                    folder.rmdir()
            with suppress(OSError):
                top.rmdir()
        return not any(top.exists() for top in self.control_groups())

    # Its programs

    def inside(self, *argv: str) -> list[str]:
        """A command on the cluster's machine."""
        target = f"--target={self.first_process}"
        return ["nsenter", target, "--mount", "--net", "--pid", "--wd=/", "--", *argv]

    def run(self, name: str, *argv: str) -> None:
        """Start a part of the cluster, in the foreground, so that we know when it has ended."""
        environ = {**os.environ, "PYTHONPATH": PYTHON_PATH, **files.GO_SETTINGS}
        first = f"{programs.oldest()}:" if self.shape.is_oldest else ""
        environ["PATH"] = f"{first}{programs.programs()}:{os.environ['PATH']}:/usr/sbin:/sbin"
        with (self.folder / "log" / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.inside(*argv),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ,
                start_new_session=True,
            )  # fmt: skip

    def run_python(self, name: str, *arguments: str) -> None:
        """Start a part of our own."""
        self.run(name, sys.executable, "-m", f"support.kubernetes.{name}", *arguments)

    def send_signal(self, name: str, how: signal.Signals) -> None:
        """`nsenter` has started the program: it is the one that is meant."""
        for pid in children(self.running[name].pid):
            os.kill(pid, how)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        self.send_signal(name, how)
        process = self.running.pop(name)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()

    def listens(self, port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.place.address, port)) == 0

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """As `until`, for what the server may refuse or not answer until then."""

        def holds() -> Any:
            assert not self.ended(), self.words()
            try:
                return condition()
            except (OSError, ApiError, KeyError):
                return None

        return until(holds, START_SECONDS, self.words)

    def ended(self) -> list[str]:
        return [name for name, process in self.running.items() if process.poll() is not None]

    def words(self) -> str:
        """What the parts that have ended have said last, or else what all have."""
        logs = sorted((self.folder / "log").glob("*.log"))
        ended = [log for log in logs if log.stem in self.ended()]
        return "\n".join(
            f"{log.stem}: {log.read_text(errors='replace')[-800:]}" for log in ended or logs
        )

    # What a test sees

    def kubectl(self, *words: str, given: str = "", kubeconfig: Path | None = None) -> str:
        """What kubectl prints, as a user who may do everything unless a kubeconfig is given."""
        own = kubeconfig or self.place.kubeconfig
        argv = [str(programs.programs() / "kubectl"), f"--kubeconfig={own}"]
        done = subprocess.run([*argv, *words], input=given, capture_output=True, text=True)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def audit(self) -> list[str]:
        """A line of JSON for each request that the API server has answered."""
        return files.audit_log(self.place).read_text().splitlines()

    def write_kubeconfig(self, path: Path, namespace: str = "default", token: str = "") -> Path:
        """Of the user of a token, or of one who may do everything."""
        user = {"token": token} if token else self.authority.certificate_user("admin")
        return self.authority.write_kubeconfig(path, self.place.server, user, namespace)

    # What a test does to it

    @contextmanager
    def hung(self, name: str = "kube-apiserver") -> Iterator[None]:
        """A part that holds its connections and does not answer."""
        self.send_signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.running[name].send_signal(signal.SIGCONT)  # `nsenter` stops with its program
            self.send_signal(name, signal.SIGCONT)

    @contextmanager
    def offering(self, gpus: int) -> Iterator[None]:
        """So many GPUs of the real node in place of its own."""
        self.stop("gpu-plugin")
        self.start_gpu_plugin(gpus)
        try:
            yield
        finally:
            self.stop("gpu-plugin")
            self.start_gpu_plugin(self.shape.gpus)

    def restart_api_server(self) -> None:
        self.stop("kube-apiserver", signal.SIGKILL)
        self.start_api_server_alone()

    def simulate_nodes(self, nodes: dict[str, dict[str, Any]]) -> None:
        """Simulated nodes of these names, beside those there are: {name: {gpus, labels, silent}}.
        A name that is there already changes.
        """
        self.simulated.update(nodes)
        self.write_simulated()
        if "simulated_nodes" not in self.running:
            where = [self.place.address, str(files.SIMULATION_PORT), str(self.simulation_file)]
            self.run_python("simulated_nodes", self.place.server, str(self.place.pki), *where)
            self.wait_for(lambda: self.listens(files.SIMULATION_PORT))
        self.wait_for(self.follows_simulated)
        for name, node in nodes.items():
            silent = node.get("silent", False)
            self.wait_for(lambda name=name, silent=silent: self.is_ready(name) is not silent)

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Take simulated nodes out of the cluster."""
        for name in names:
            del self.simulated[name]
        self.write_simulated()
        for name in names:
            self.api.delete(f"/api/v1/nodes/{name}")

    def write_simulated(self) -> None:
        partial = self.simulation_file.with_suffix(".part")
        partial.write_text(json.dumps(self.simulated))
        partial.replace(self.simulation_file)

    def silence_node(self, name: str) -> None:
        """A simulated node that does and says nothing any more, when this returns."""
        self.simulated[name]["silent"] = True
        self.write_simulated()
        self.wait_for(self.follows_simulated)

    def follows_simulated(self) -> bool:
        """Whether the simulated nodes do as was written last."""
        answer = self.simulation_file.with_suffix(".followed")
        return answer.exists() and answer.read_text() == self.simulation_file.read_text()

    def make_namespace(self, name: str = "") -> str:
        """A namespace, without a name one that no other test has; its pods can start at once."""
        metadata = {"name": name} if name else {"generateName": "test-"}
        made = self.api.create("/api/v1/namespaces", {"metadata": metadata})
        name = made["metadata"]["name"]
        if self.shape.runs_controllers:
            self.wait_for(lambda: self.api.get(f"{namespaced(name)}/serviceaccounts/default"))
        return name

    def make_user(self, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
        """The token of a service account that may do what the rules of a Role say, and only in its
        namespace.
        """
        core, rbac = namespaced(namespace), namespaced(namespace, "rbac.authorization.k8s.io/v1")
        named = {"metadata": {"name": name}}
        self.api.create(f"{core}/serviceaccounts", named)
        self.api.create(f"{rbac}/roles", {**named, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self.api.create(f"{rbac}/rolebindings", {**named, "roleRef": role, "subjects": [subject]})
        asked = {"spec": {"expirationSeconds": 36000}}
        made = self.api.create(f"{core}/serviceaccounts/{name}/token", asked)
        return made["status"]["token"]

    def evict(self, namespace: str, pod: str) -> None:
        """As who drains a node asks for it."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.api.create(f"{namespaced(namespace)}/pods/{pod}/eviction", eviction)

    def clear_namespace(self, name: str) -> None:
        """What runs in it ends at once. The rest lies there until the cluster ends: to remove a
        namespace, the controllers ask for each kind of object that there can be in it.
        """
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        self.api.delete(f"{namespaced(name, 'batch/v1')}/jobs", at_once)
        self.api.delete(f"{namespaced(name)}/pods", at_once)


def namespaced(namespace: str, group: str = "") -> str:
    """The path of a namespace's objects in an API group such as `batch/v1`."""
    return f"{f'/apis/{group}' if group else '/api/v1'}/namespaces/{namespace}"


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def run_by_hand(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}: {done.stderr[-1000:]}"


def main() -> None:
    """Start a whole cluster, and keep it until Ctrl-C or SIGTERM."""
    here = start_cluster(Shape())
    print(f"export KUBECONFIG={here.place.kubeconfig}", flush=True)
    print(f"{programs.programs() / 'kubectl'} get nodes", flush=True)
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)


if __name__ == "__main__":
    main()
