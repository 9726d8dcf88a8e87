"""Doctor: checks for what a new user of Kubernetes trips over, worded as in the documents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.cluster import nodes, pull_login, rights
from tao_sdk.backends.kubernetes.cluster.survey import pull_secret_advice
from tao_sdk.backends.kubernetes.job.checks import OPERATOR
from tao_sdk.backends.kubernetes.job.manifests import NGC
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError, install_command
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.settings import Settings
from tao_sdk.transports.kube import Kube, KubeError

GPU = "nvidia.com/gpu"
OLDEST = (1, 28)
SKIP = "TAO_K8S_SKIP_NODE_RUNTIME_CHECK"
NO_CONFIG = "MISSING: no kubeconfig at {place} and not running in a pod."
NO_EXTRA = "MISSING: kubernetes extra not installed. Run:"
NO_RUNTIME = "MISSING: TAO Kubernetes GPU node runtime is not ready."
NO_GPU = "WARN: no nvidia.com/gpu allocatable on this cluster."
MOST_APART = timedelta(seconds=60)  # between two clocks; certificate and token logins allow it
DNS_SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
DNS_LABEL = "k8s-app=kube-dns"  # of any server for the cluster's DNS (CoreDNS has it too)


def examine(kube: Kube, settings: Settings, namespace: str) -> list[Finding]:
    """The findings of the launch preflight. An unreachable or refusing cluster is a finding too."""
    findings = list(extra_findings())
    try:
        return [*findings, *cluster_findings(kube, settings, namespace)]
    except KubeError as refused:
        what = f"MISSING: the cluster refuses: {refused.what}"
        return [*findings, error(refused.code, what, "", "Ask who runs the cluster.")]
    except TaoError as unreachable:
        return [*findings, Finding.of_error(unreachable, f"MISSING: {unreachable.what}")]


def without_cluster(trouble: TaoError, settings: Settings) -> list[Finding]:
    """The findings when there is no cluster to query. `trouble`: why there is none."""
    return [*extra_findings(), no_cluster(trouble, settings.get("KUBECONFIG") or "~/.kube/config")]


def no_cluster(trouble: TaoError, place: str) -> Finding:
    """The error for a missing cluster. `place`: the path of the kubeconfig that was tried."""
    if trouble.code == "kubernetes.no_login":
        return Finding.of_error(trouble, NO_CONFIG.format(place=place))
    return Finding.of_error(trouble, f"MISSING: {trouble.what}")


def extra_findings() -> Iterator[Finding]:
    if find_spec("kubernetes") is None:
        yield Finding(
            Severity.ERROR, "extra.missing", NO_EXTRA, "", command=install_command("kubernetes")
        )


def cluster_findings(kube: Kube, settings: Settings, namespace: str) -> Iterator[Finding]:
    yield from version_findings(kube)
    yield from gpu_findings(kube, settings)
    rules = rights.own_rules(kube, namespace)
    yield from rights.missing_rights(kube, namespace, rights.ALL, rules)
    yield from quota_findings(kube, namespace)
    yield from dns_findings(kube)
    yield from clock_findings(kube)
    yield from pull_findings(settings, namespace)


def version_findings(kube: Kube) -> Iterator[Finding]:
    version = kube.ask("GET", "/version")
    name = str(version.get("gitVersion") or "")
    what = f"Kubernetes {name} answers at {kube.cluster.server}."
    numbers = tuple(int(part) for part in name.lstrip("v").split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        yield warning("kubernetes.old", what, "Jobs on several nodes need 1.28 or later.")
        return
    yield Finding(Severity.OK, "kubernetes.cluster", what)


def gpu_findings(kube: Kube, settings: Settings) -> Iterator[Finding]:
    try:
        known = nodes.list_nodes(kube)
    except KubeError as refused:
        if refused.status != 403:
            raise
        what = "Whether the cluster has GPUs cannot be seen: your role may not list nodes."
        yield warning("kubernetes.nodes_unseen", what, refused.what)
        return
    count = sum(int(node.allocatable.get(GPU, 0)) for node in known)
    if count:
        yield Finding(Severity.OK, "kubernetes.gpus", f"{len(known)} nodes have {count} {GPU}.")
        return
    yield warning("kubernetes.gpus", NO_GPU, f"{len(known)} nodes were looked at.", OPERATOR)
    if settings.get(SKIP) != "1":
        fix = f"For managed nodes that are ready set {SKIP}=1."
        yield warning("kubernetes.node_runtime", NO_RUNTIME, "No node offers a GPU.", fix)


def quota_findings(kube: Kube, namespace: str) -> Iterator[Finding]:
    """The use of the namespace's quotas, if the role may see them."""
    try:
        quotas = look.items(kube, look.core_path(namespace, "resourcequotas"))
    except KubeError:
        return
    for quota in quotas:
        status = parse.part(quota, "status")
        hard, used = parse.part(status, "hard"), parse.part(status, "used")
        told = ", ".join(
            f"{name} {used.get(name, 0)} of {most}" for name, most in sorted(hard.items())
        )
        what = f"The quota {quota['metadata']['name']} of namespace {namespace}: {told}."
        yield Finding(Severity.OK, "kubernetes.quota", what)


def dns_findings(kube: Kube) -> Iterator[Finding]:
    """A warning if no DNS server of the cluster is ready: ranks find rank 0 by its name."""
    try:
        slices = look.items(kube, DNS_SLICES, labelSelector=DNS_LABEL)
    except KubeError:  # a role of one namespace may not see it
        return
    servers = [each for one in slices for each in one.get("endpoints") or () if is_ready(each)]
    if servers:
        yield Finding(Severity.OK, "kubernetes.dns", f"{len(servers)} servers answer for DNS.")
        return
    what = f"No server for the cluster's DNS is ready ({DNS_LABEL} in kube-system)."
    why = "Ranks of a job on several nodes find rank 0 by its name."
    fix = "kubectl -n kube-system get pods -l k8s-app=kube-dns"
    yield Finding(Severity.WARNING, "kubernetes.dns", what, why, "See what they wait for:", fix)


def is_ready(endpoint: parse.Object) -> bool:
    """True unless the endpoint says not ready. A missing condition counts as true, as
    discovery.k8s.io/v1 defines it.
    """
    return parse.part(endpoint, "conditions").get("ready") is not False


def clock_findings(kube: Kube) -> Iterator[Finding]:
    theirs = kube.server_time()
    if theirs is None:
        return
    apart = utc_now() - theirs
    if abs(apart) <= MOST_APART:
        return
    way = "ahead of" if apart > timedelta() else "behind"
    what = f"This machine's clock is {int(abs(apart).total_seconds())} s {way} the cluster's."
    why = "Logins may be refused, and times of jobs are wrong."
    fix = "timedatectl set-ntp true"
    yield Finding(Severity.WARNING, "kubernetes.clock", what, why, "Set it by the network:", fix)


def pull_findings(settings: Settings, namespace: str) -> Iterator[Finding]:
    """A warning if jobs with a private NGC image get no pull secret."""
    if pull_login.find_password(NGC, settings):
        what = f"A job of an image of {NGC} gets a pull secret, made of your login."
        yield Finding(Severity.OK, "kubernetes.pull_login", what)
        return
    what = f"Private images of {NGC} cannot be pulled by your login: NGC_KEY is not set."
    fix = pull_secret_advice(NGC, namespace)
    yield warning("kubernetes.pull_login", what, "", fix)
