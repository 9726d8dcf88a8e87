"""Known claims: the pod that can mount a claim, saved from the last job that mounted it.

There is a small file for each claim of a namespace, and one for each job whose results are on a
claim: two namespaces may have claims of the same name.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import KiB
from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Plan
from tao_sdk.model.prepared_job import lies_in
from tao_sdk.store.private_files import make_folders, write_whole

SCHEME = "pvc://"
MOST_JOBS = 500  # jobs whose claims are remembered
LONGEST = 64 * KiB  # bytes of one file
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
POD_FIELDS = (
    "nodeSelector",
    "tolerations",
    "imagePullSecrets",
    "serviceAccountName",  # it may have pull secrets of its own
    "securityContext",
    "hostNetwork",
)


@dataclass(frozen=True)
class KnownClaim:
    """A claim and the pod that can mount it."""

    namespace: str
    claim: str
    image: str
    pull_registry: str = ""  # the reader makes a Secret with the login to it; "" for no Secret
    pull_policy: str = ""
    pod: Mapping[str, Any] = field(default_factory=dict[str, Any])  # parts of its spec
    security: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of its container


class ClaimUnreadable(Unreachable):
    """The cluster answers, but no pod can read the claim."""


def claim_and_path(address: str) -> tuple[str, str]:
    """Split `pvc://data/runs/a` into (`data`, `runs/a`)."""
    claim, _, path = address.removeprefix(SCHEME).partition("/")
    return claim, path.strip("/")


def claim_address(request: KubernetesRequest, path: str) -> str:
    """The address `pvc://data/runs/a` of a path in the pods; "" if it is on no claim."""
    pod = request.job["spec"]["template"]["spec"]
    mounts = job_container(pod).get("volumeMounts") or ()
    holding = [mount for mount in mounts if lies_in(path, mount["mountPath"])]
    if not holding:
        return ""
    mount = max(holding, key=lambda mount: len(mount["mountPath"]))
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
    claim = str(parse.part(volume, "persistentVolumeClaim").get("claimName") or "")
    if not claim:
        return ""
    below = posixpath.relpath(path, mount["mountPath"])
    return SCHEME + posixpath.normpath(posixpath.join(claim, mount.get("subPath") or "", below))


class KnownClaims:
    """The known claims of this backend, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remember(self, plan: Plan[KubernetesRequest]) -> None:
        """Save every claim that the planned job mounts."""
        for known in claims_of(plan.request):
            self._write_claim(f"claim.{known.namespace}.{known.claim}", known)
            if plan.results_dir.startswith(f"{SCHEME}{known.claim}/"):
                self._write_claim(f"job.{plan.attempt.job_id}", known)
                self._forget_oldest()

    def find(self, address: str, namespace: str) -> KnownClaim | None:
        """The claim with a pod for an address; None if none is known. The pod is that of the job
        whose id is in the path, else that of the last job that mounted the namespace's claim.
        """
        claim, path = claim_and_path(address)
        jobs = [f"job.{name}" for name in reversed(path.split("/")) if NAME.fullmatch(name)]
        for key in (*jobs, f"claim.{namespace}.{claim}"):
            known = self._read_claim(key)
            if known is not None and known.claim == claim:
                return known
        return None

    def _claim_path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _write_claim(self, key: str, known: KnownClaim) -> None:
        make_folders(self.folder)
        write_whole(self._claim_path(key), json.dumps(asdict(known)).encode())

    def _read_claim(self, key: str) -> KnownClaim | None:
        """Read one file; None if it is missing or not one of ours."""
        try:
            with self._claim_path(key).open("rb") as file:
                return KnownClaim(**json.loads(file.read(LONGEST)))
        except (OSError, ValueError, TypeError):
            return None

    def _forget_oldest(self) -> None:
        jobs = sorted(self.folder.glob("job.*.json"), key=lambda path: path.lstat().st_mtime)
        for path in jobs[:-MOST_JOBS]:
            path.unlink(missing_ok=True)


def job_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(each for each in pod["containers"] if each["name"] == names.CONTAINER)


def claims_of(request: KubernetesRequest) -> Iterator[KnownClaim]:
    pod = request.job["spec"]["template"]["spec"]
    container = job_container(pod)
    kept = {name: pod[name] for name in POD_FIELDS if pod.get(name)}
    if request.decisions.pull_registry:
        kept.pop("imagePullSecrets", None)  # that Secret is deleted with its Job
    for volume in pod.get("volumes") or ():
        claim = str(parse.part(volume, "persistentVolumeClaim").get("claimName") or "")
        if NAME.fullmatch(claim):
            yield KnownClaim(
                namespace=request.namespace,
                claim=claim,
                image=container["image"],
                pull_registry=request.decisions.pull_registry,
                pull_policy=container.get("imagePullPolicy", ""),
                pod=kept,
                security=container.get("securityContext") or {},
            )
