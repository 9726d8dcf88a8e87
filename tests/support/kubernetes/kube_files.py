"""Where a cluster of the tests is, what kind it is, and the texts of its files.

Here: names, addresses, command lines and configurations, all pure. Not here: what runs them
(kube_here.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SERVICE_NETWORK, POD_NETWORK = "10.96.0.0/16", "10.244.0.0/16"
API_SERVICE, DNS_SERVICE = "10.96.0.1", "10.96.0.10"
API_PORT, REGISTRY_PORT, SIMULATION_PORT = 6443, 80, 10260
ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
ETCD = f"http://127.0.0.1:{ETCD_PORT}"
CONTAINERD = "/run/containerd/containerd.sock"  # on the machine, whose /run is its own
NODE = "real-node"  # the one with a real kubelet
NODE_LOST_SECONDS = 20  # without a sign of life; long, as a busy computer delays the signs
EVICTION_SECONDS = 2  # from then until the pods of a lost node are deleted
REQUEST_RATE = ("--kube-api-qps=300", "--kube-api-burst=600")  # so that many Jobs start in time
PAUSE, BUSYBOX, PYTHON = "tests.local/pause:1", "tests.local/busybox:1", "tests.local/python:1"
# Go collects garbage a fourth as often: memory for processor. With one thread at a time it does not
# look for work on another processor whenever a timer fires.
GO_SETTINGS = {"GOGC": "400", "GOMAXPROCS": "1"}
# What jobs need of the controllers. Each of the others, some thirty, wakes up now and then.
CONTROLLERS = (
    *("job", "ttl-after-finished", "garbage-collector", "namespace", "resourcequota"),
    *("serviceaccount", "serviceaccount-token", "root-ca-certificate-publisher"),
    *("node-lifecycle", "taint-eviction", "pod-garbage-collector", "podgroup-protection"),
    *("endpointslice", "disruption", "clusterrole-aggregation"),
    *("persistentvolume-binder", "persistentvolume-protection", "persistentvolumeclaim-protection"),
)
# The user of each part, as its certificate says it.
PARTS = {
    "admin": "/O=system:masters/CN=admin",
    "kube-apiserver-to-kubelet": "/O=system:masters/CN=kube-apiserver-to-kubelet",
    "front-proxy": "/CN=front-proxy",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
}


@dataclass(frozen=True)
class Place:
    """Where a cluster is: the number that no other has, and what follows from it."""

    folder: Path
    number: int

    @property
    def address(self) -> str:
        """The machine's, which is the node's and the API server's."""
        return f"10.214.{self.number}.2"

    @property
    def here(self) -> str:
        """Where pods reach this computer, such as a server that a test starts."""
        return f"10.214.{self.number}.1"

    @property
    def link(self) -> str:
        """This computer's end of the line to the machine."""
        return f"tao-kube-{self.number}"

    @property
    def control_group(self) -> str:
        return f"tao-tests-kubernetes-{self.number}"

    @property
    def server(self) -> str:
        return f"https://{self.address}:{API_PORT}"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def kubeconfig(self) -> Path:
        """Of a user who may do everything."""
        return self.folder / "admin.kubeconfig"


@dataclass(frozen=True)
class Shape:
    """What kind of cluster it is. Levels: `api` (etcd and the API server), `control` (with the
    controllers and the scheduler: Jobs get pods, and simulated nodes can run them) and `all` (with
    a real node that runs containers).
    """

    level: str = "all"
    gpus: int = 8  # of the real node
    log_max_size: str = "10Mi"  # Kubernetes' own default; a container's log is rotated there
    feature_gates: dict[str, bool] = field(default_factory=dict[str, bool])
    more_apis: tuple[str, ...] = ()  # such as scheduling.k8s.io/v1alpha2=true
    is_oldest: bool = False  # its API server is of the oldest release that we support; level `api`

    @property
    def runs_controllers(self) -> bool:
        return self.level in ("control", "all")

    @property
    def runs_containers(self) -> bool:
        return self.level == "all"

    @property
    def gates(self) -> list[str]:
        if not self.feature_gates:
            return []
        words = (f"{name}={str(on).lower()}" for name, on in self.feature_gates.items())
        return [f"--feature-gates={','.join(words)}"]


def server_names(place: Place) -> str:
    """Every name by which a test may call the API server, a proxy before it on loopback too."""
    names = ["localhost", "kubernetes"]
    names += [
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    addresses = ["127.0.0.1", place.address, place.here, API_SERVICE]
    return ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{each}" for each in addresses)])


# Command lines


def etcd(place: Place) -> list[str]:
    return ["etcd", str(place.folder / "etcd"), str(ETCD_PORT), str(ETCD_PEER_PORT)]


def api_server(place: Place, shape: Shape) -> list[str]:
    pki = place.pki
    return [
        "kube-apiserver",
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={place.address}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kube-apiserver-to-kubelet.crt",
        f"--kubelet-client-key={pki}/kube-apiserver-to-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--default-not-ready-toleration-seconds={EVICTION_SECONDS}",
        f"--default-unreachable-toleration-seconds={EVICTION_SECONDS}",
        f"--audit-policy-file={place.folder}/audit-policy.json",
        f"--audit-log-path={audit_log(place)}",
        "--allow-privileged=true",
        "--shutdown-delay-duration=0s",
        *([f"--runtime-config={','.join(shape.more_apis)}"] if shape.more_apis else []),
        *shape.gates,
    ]


def controller_manager(place: Place, shape: Shape) -> list[str]:
    pki = place.pki
    return [
        "kube-controller-manager",
        *as_user(place, "kube-controller-manager"),
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--use-service-account-credentials",
        f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
        "--leader-elect=false",
        *REQUEST_RATE,
        "--bind-address=127.0.0.1",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={NODE_LOST_SECONDS}s",
        *shape.gates,
    ]


def scheduler(place: Place, shape: Shape) -> list[str]:
    return [
        "kube-scheduler",
        *as_user(place, "kube-scheduler"),
        "--leader-elect=false",
        *REQUEST_RATE,
        "--bind-address=127.0.0.1",
        *shape.gates,
    ]


def kubelet(place: Place) -> list[str]:
    return [
        "kubelet",
        f"--config={place.folder}/kubelet.json",
        f"--kubeconfig={kubeconfig(place, 'kubelet')}",
        f"--hostname-override={NODE}",
        f"--node-ip={place.address}",
        "--node-labels=gpu-type=pretended",
    ]


def kube_proxy(place: Place) -> list[str]:
    return ["kube-proxy", f"--config={place.folder}/kube-proxy.json", f"--hostname-override={NODE}"]


def as_user(place: Place, name: str) -> list[str]:
    own = kubeconfig(place, name)
    flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [f"--{flag}={own}" for flag in flags]


def kubeconfig(place: Place, name: str) -> Path:
    return place.folder / f"{name}.kubeconfig"


def audit_log(place: Place) -> Path:
    return place.folder / "log" / "audit.json"


# Configurations. Those of Kubernetes are JSON, which is YAML as well.


def configurations(place: Place, shape: Shape) -> dict[str, str]:
    """Path below the cluster's folder -> text."""
    return {
        "audit-policy.json": json.dumps(audit_policy()),
        "kubelet.json": json.dumps(kubelet_configuration(place, shape)),
        "kube-proxy.json": json.dumps(proxy_configuration(place)),
        "cni/10-bridge.conflist": json.dumps(pod_network(place)),
        "containerd.toml": containerd_configuration(place),
        "hosts": hosts(),
        "resolv.conf": f"nameserver {DNS_SERVICE}\n",
        **trusted_registries(place),
    }


def audit_policy() -> dict[str, Any]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }


def kubelet_configuration(place: Place, shape: Shape) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{place.pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{place.pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{place.pki}/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.control_group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{place.folder}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "containerLogMaxSize": shape.log_max_size,
        "containerLogMonitorInterval": "3s",
        # A full disk of this computer is none of the cluster's business: no image is removed, and
        # no pod is evicted.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "shutdownGracePeriod": "0s",
        "makeIPTablesUtilChains": False,
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "5m",  # of a status that has not changed
        "nodeLeaseDurationSeconds": NODE_LOST_SECONDS,
        "featureGates": shape.feature_gates,
    }


def proxy_configuration(place: Place) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig(place, "kube-proxy"))},
        "mode": "iptables",
        "clusterCIDR": POD_NETWORK,
        "conntrack": {"maxPerCore": 0, "min": 0},  # they are settings of this computer
    }


def pod_network(place: Place) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": f"{place.folder}/pod-addresses",
        "ranges": [[{"subnet": POD_NETWORK}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def pods_leave_as_the_node() -> list[str]:
    """The rule by which pods reach this computer, once for all pods: the bridge plugin's `ipMasq`
    starts a dozen programs for each.
    """
    rule = f"-s {POD_NETWORK} ! -d {POD_NETWORK} -j MASQUERADE"
    return ["iptables", "-t", "nat", "-A", "POSTROUTING", *rule.split()]


def containerd_configuration(place: Place) -> str:
    """`restrict_oom_score_adj` is for root without CAP_SYS_RESOURCE, as in a container."""
    return f"""\
version = 2
root = "{place.folder}/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{place.folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{place.folder}/registries"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def hosts() -> str:
    """Names on the machine. nvcr.io is the tests' registry."""
    return "127.0.0.1 localhost nvcr.io\n"


def trusted_registries(place: Place) -> dict[str, str]:
    """By its address and as nvcr.io: the tests' registry speaks plain HTTP."""
    return {
        f"registries/{name}/hosts.toml": f'[host."http://{name}"]\n'
        for name in (place.address, "nvcr.io")
    }
