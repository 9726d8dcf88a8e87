"""From a JobSpec to the container that will be created, and what would stop it. Pure."""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tao_sdk.backends.docker import parse
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.mounts import Mount, cache_finding, mount_of, read_mounts
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.secrets import SecretRef, split_secrets
from tao_sdk.model.spec import JobSpec, remote_root
from tao_sdk.model.units import parse_size

DEFAULT_NETWORK = "tao_default"
BUILT_IN_NETWORKS = ("bridge", "host", "none")
RESULTS = "/results"
KEPT = "runs"  # below the folder where the job was submitted; the volume of a remote daemon is tao-runs
KEPT_VOLUME = "tao-runs"
SURROUNDINGS = (
    "cwd",
    "home",
    "uid",
    "gid",
    "network",
    "pull",
    "ssh_path",
)  # of the caller; a further attempt keeps them
GRACE = 10  # seconds between SIGTERM and SIGKILL unless the caller says otherwise
FOLDER = ".tao-job"  # in the container: what is delivered before it starts
MAX_ARGUMENT = 96 * 1024  # bytes; Linux takes 128 KiB
# Keeps the log's bytes as they are, which json-file does not; never rotated, as json-file is not unless told to.
LOG = {"Type": "local", "Config": {"max-size": "1000g", "max-file": "1", "compress": "false"}}
NOT_BEGUN = 125  # the exit code of what could not begin
NOT_WHOLE = "tao: the environment did not arrive whole"
# The environment comes through standard input: so it is on no disk, neither before the start nor after a crash.
TAKE_IN = f"""_tao_newline='
'
while IFS= read -r _tao_line && [ "$_tao_line" != whole ]; do eval "$_tao_line"; done
[ "$_tao_line" = whole ] || {{ echo "{NOT_WHOLE}" >&2; exit {NOT_BEGUN}; }}
unset _tao_line _tao_newline"""

Variables = dict[str, "str | SecretRef"]


def plan(spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt) -> Plan:
    """Everything that submit will do."""
    mounts = all_mounts(spec, options, facts)
    user = container_user(options, facts, mounts)
    inside = environment(spec, attempt, mounts, user, facts)
    shown = {name: value for name, value in inside.items() if is_shown(name) and isinstance(value, str)}
    delivered = {name: value for name, value in inside.items() if name not in shown}
    long = len(spec.command.encode()) > MAX_ARGUMENT
    gpus = chosen_gpus(spec, options, facts)
    root = results_root(spec, mounts)
    results = results_dir(spec, facts, mounts, attempt, root)
    body: dict[str, Any] = {
        "Image": spec.image,
        "Cmd": ["/bin/sh", "-c", start_script(spec, bool(delivered), long), "tao", *([] if long else [spec.command])],
        "Env": [f"{name}={value}" for name, value in sorted({**shown, **gpu_variables(spec, facts)}.items())],
        "Labels": labels(spec, attempt, gpus, results),
        "StopSignal": "SIGTERM",
        **({"OpenStdin": True, "StdinOnce": True} if delivered else {}),
        **({"User": user} if user else {}),
        "HostConfig": host_config(spec, options, facts, mounts, gpus),
    }
    request = {
        "name": container_name(attempt),
        "container": {**patched(body, spec.native), **unchangeable(body, spec.native)},
        "environment": {k: {"secret": v.name} if isinstance(v, SecretRef) else v for k, v in sorted(delivered.items())},
        "command": spec.command if long else "",
        "daemon": parse.identity(facts.info) if facts.info else "",
        "pull": options.pull or facts.pull,
        "folders": kept_folders(facts, mounts),
        "make_network": network_name(spec, options, facts) == DEFAULT_NETWORK,
        "surroundings": {name: getattr(facts, name) for name in SURROUNDINGS},
        **({"cache": spec.mount_path} if spec.mount_path else {}),
    }
    return Plan(
        attempt=attempt,
        request=request,
        secrets=tuple(sorted({value.name for value in inside.values() if isinstance(value, SecretRef)})),
        results_dir=results,
        notes=tuple(notes(spec, facts, root)),
        release_when_over=facts.auto_remove,
        backend_details={
            "backend_type": "local-docker",
            "num_gpu": spec.gpu_count,
            "container": container_name(attempt),
            **({} if facts.local or not results.startswith("/") else {"results_at": attempt.endpoint}),
        },
    )


def container_name(attempt: Attempt) -> str:
    return f"tao-job-{attempt.job_id}"


def start_script(spec: JobSpec, environment: bool, long: bool) -> str:
    """What /bin/sh does before the command: takes in the environment, and hands over to bash where there is one."""
    lines = [TAKE_IN] if environment else []
    lines.append(f"set -- /{FOLDER}/command" if long else 'set -- -c "$1"')
    lines.append('if command -v bash >/dev/null; then set -- bash "$@"; else set -- /bin/sh "$@"; fi')
    if spec.time_limit is not None:
        limit = f"timeout -k {GRACE} {math.ceil(spec.time_limit.total_seconds())}"
        lines.append(f'if command -v timeout >/dev/null; then set -- {limit} "$@"; fi')
    return "\n".join([*lines, 'exec "$@" </dev/null'])


def statements(values: Mapping[str, str]) -> str:
    """What TAKE_IN reads: one statement a line, and a last line that says that it is whole."""
    quoted = {name: shlex.quote(value).replace("\n", "'\"$_tao_newline\"'") for name, value in values.items()}
    return "".join(f"export {name}={value}\n" for name, value in quoted.items()) + "whole\n"


def is_shown(name: str) -> bool:
    """What `docker inspect` may show: what the GPU runtime reads before the container starts, and our own names."""
    return name.startswith("NVIDIA_") or name in ("TAO_JOB_ID", "TAO_ATTEMPT", "TINI_KILL_PROCESS_GROUP")


def environment(spec: JobSpec, attempt: Attempt, mounts: list[Mount], user: str, facts: DockerFacts) -> Variables:
    """Ours, then what the job asks for, then what nobody may change."""
    asked, _ = split_secrets(spec.env_vars, spec.secrets)
    root = results_root(spec, mounts)
    mapped = user == f"{facts.uid}:{facts.gid}" and facts.uid != 0
    return {
        **single_node(max(spec.gpu_count, 0)),
        "TAO_GRACE": str(GRACE),
        **({"HOME": "/tmp"} if mapped else {}),
        **asked,
        **({"TAO_RESULTS_ROOT": root, "TAO_RESULTS_DIR": f"{root}/{attempt.job_id}"} if root else {}),
        "TAO_JOB_ID": attempt.job_id,
        "TAO_ATTEMPT": str(attempt.number),
        "TINI_KILL_PROCESS_GROUP": "1",
    }


def gpu_variables(spec: JobSpec, facts: DockerFacts) -> dict[str, str]:
    if spec.gpu_count == 0:
        return {"NVIDIA_VISIBLE_DEVICES": "void"}
    if facts.tegra:
        return {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    return {}


def chosen_gpus(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> list[int]:
    """By id where the free ones can be seen, so that two jobs do not get the same; [] leaves the choice to Docker."""
    if options.gpu_ids:
        return list(options.gpu_ids)
    if spec.gpu_count <= 0:
        return []
    free = [index for index in facts.gpus if index not in facts.held]
    return free[: spec.gpu_count] if len(free) >= spec.gpu_count else []


def labels(spec: JobSpec, attempt: Attempt, gpus: list[int], results: str) -> dict[str, str]:
    own = {
        "tao-toolkit": "true",
        "tao-sdk-backend": "local-docker",
        "tao-sdk-job-id": attempt.job_id,
        "tao-sdk-attempt": str(attempt.number),
        "tao-sdk-store": attempt.store_id,
        "tao-sdk-results": results if results.startswith("/") else "",
        "tao-sdk-gpus": ",".join(map(str, gpus)),
        "tao-sdk-time-limit": f"{spec.time_limit.total_seconds():g}" if spec.time_limit else "",
    }
    return {**spec.labels, **{name: value for name, value in own.items() if value}}


def host_config(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, mounts: list[Mount], gpus: list[int]
) -> dict[str, Any]:
    size = f",size={parse_size(spec.shm_size)}" if spec.shm_size else ""
    config: dict[str, Any] = {
        "Init": True,
        "NetworkMode": network_name(spec, options, facts),
        "Mounts": [each.request() for each in mounts],
        "Tmpfs": {"/dev/shm": f"rw,nosuid,nodev,exec,mode=1777{size}"},
        "LogConfig": LOG,
    }
    if spec.memory:
        config |= {"Memory": parse_size(spec.memory), "MemorySwap": parse_size(spec.memory)}
    if spec.cpus:
        config["NanoCpus"] = int(spec.cpus * 1e9)
    if (spec.gpu_count or options.gpu_ids) and facts.tegra:
        config["Runtime"] = "nvidia"
    elif spec.gpu_count or options.gpu_ids:
        config["DeviceRequests"] = [device_request(spec.gpu_count, gpus)]
    return config


def device_request(count: int, ids: list[int]) -> dict[str, Any]:
    which = {"DeviceIDs": [str(each) for each in ids]} if ids else {"Count": count}
    return {"Driver": "", **which, "Capabilities": [["gpu"]], "Options": {}}


def network_name(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> str:
    patch: Mapping[str, Any] = spec.native.get("HostConfig") or {}
    return patch.get("NetworkMode") or options.network or facts.network or DEFAULT_NETWORK


def all_mounts(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> list[Mount]:
    mounts = read_mounts(spec.mounts, facts.cwd, facts.home)
    if options.ssh_key:
        mounts.append(Mount(facts.ssh_path, "/root/.ssh", read_only=True))
    if spec.keep_results and not results_place(spec, mounts):
        kept = Mount(posixpath.join(facts.cwd, KEPT), RESULTS)
        mounts.append(kept if facts.local else Mount(KEPT_VOLUME, RESULTS, volume=True))
    return mounts


def results_place(spec: JobSpec, mounts: list[Mount]) -> bool:
    """Whether the job names a place for its results: a root, a mount at /results, a bucket."""
    named = spec.env_vars.get("TAO_RESULTS_ROOT") or spec.env_vars.get("S3_BUCKET_NAME")
    return bool(named) or any(each.target == RESULTS for each in mounts)


def results_root(spec: JobSpec, mounts: list[Mount]) -> str:
    asked = spec.env_vars.get("TAO_RESULTS_ROOT")
    if isinstance(asked, str) and asked:
        return "" if remote_root(spec) else posixpath.normpath(asked)
    return RESULTS if any(each.target == RESULTS and not each.read_only for each in mounts) else ""


def results_dir(spec: JobSpec, facts: DockerFacts, mounts: list[Mount], attempt: Attempt, root: str) -> str:
    """Where the results are, as the daemon's machine sees them; inside the container where it does not."""
    if remote_root(spec):
        return f"{remote_root(spec)}/{attempt.job_id}"
    bucket = spec.env_vars.get("S3_BUCKET_NAME")
    if not root and isinstance(bucket, str) and bucket:
        return f"s3://{bucket}/results/{attempt.job_id}"
    inside = f"{root or RESULTS}/{attempt.job_id}"
    under = mount_of(mounts, inside)
    return (under.on_host(inside, facts.volumes) if under else "") or inside


def container_user(options: DockerOptions, facts: DockerFacts, mounts: list[Mount]) -> str:
    """Who the command runs as: a plain user's own results are to be his; else whom the image says."""
    if options.user:
        return "" if options.user == "image" else options.user
    own = any(each.target == RESULTS and not each.volume and not each.read_only for each in mounts)
    return f"{facts.uid}:{facts.gid}" if facts.local and facts.uid and own else ""


def kept_folders(facts: DockerFacts, mounts: list[Mount]) -> list[str]:
    """The folder that we bind at /results without being told: it is made when it is not there."""
    own = posixpath.join(facts.cwd, KEPT)
    return [own] if facts.local and any(each.source == own and each.target == RESULTS for each in mounts) else []


def patched(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`native` laid over the request, mapping by mapping."""
    merged = dict(body)
    for name, value in patch.items():
        under = merged.get(name)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[name] = patched(cast("Mapping[str, Any]", under), cast("Mapping[str, Any]", value))
        else:
            merged[name] = value
    return merged


def unchangeable(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What `native` cannot touch: the labels by which we find jobs, and a terminal, which would show what we type."""
    typing = {name: body.get(name, False) for name in ("Tty", "OpenStdin", "StdinOnce")}
    return {"Labels": {**(patch.get("Labels") or {}), **body["Labels"]}, **typing}


def notes(spec: JobSpec, facts: DockerFacts, root: str) -> Iterator[str]:
    if spec.outputs and not root and not results_place(spec, []):
        yield "The results will lie in the container and be lost with it: mount a folder at /results to keep them."
    if not facts.local and spec.mounts:
        yield "The daemon is on another machine: mounts name its paths."
    if not facts.local and root:
        yield "The results will lie on the daemon's machine: tao results shows them, and with --fetch brings them here."


def check(plan: Plan, facts: DockerFacts) -> list[Finding]:
    """What would stop the job (errors), and what it should know (warnings)."""
    return [
        *image_findings(plan, facts),
        *path_findings(plan, facts),
        *cache_findings(plan),
        *input_findings(facts),
        *network_findings(plan, facts),
        *gpu_findings(plan, facts),
    ]


def image_findings(plan: Plan, facts: DockerFacts) -> Iterator[Finding]:
    image = plan.request["container"]["Image"]
    if image and facts.image is None and plan.request["pull"] == "never":
        yield error("image.missing", f"The daemon has no image {image}.", "pull is never.", f"docker pull {image}")
    elif image and facts.image is None:
        yield Finding(Severity.OK, "image.pulled", f"{image} is not there yet: it is pulled before the job starts.")


def path_findings(plan: Plan, facts: DockerFacts) -> Iterator[Finding]:
    for path, why in facts.missing.items():
        if path not in plan.request["folders"]:
            yield error("mount.missing", f"{path} is mounted and is not there.", why, "Correct the path, or make it.")


def cache_findings(plan: Plan) -> list[Finding]:
    mounts: list[dict[str, Any]] = plan.request["container"]["HostConfig"].get("Mounts") or []
    cache = plan.request.get("cache")
    return cache_finding(cache, [each["Target"] for each in mounts]) if cache else []


def input_findings(facts: DockerFacts) -> Iterator[Finding]:
    """The document: a path on the host is not necessarily in the container."""
    for each in facts.inputs:
        where = f"{each.path} is {each.place} on the daemon's machine." if each.place else "It lies in no mount."
        if each.there is False:
            what = f"The input {each.key} will not be there: {each.path}"
            fix = (
                "Correct the path." if each.place else f"Mount it: mounts: [<folder>:{posixpath.dirname(each.path)}:ro]"
            )
            yield error("input.missing", what, where + ("" if each.place else " The image does not have it."), fix)
        elif each.there is None:
            what = f"The input {each.key} may not be there: {each.path}"
            yield warning("input.not_mounted", what, f"{where} The image, which is not here yet, must have it.",
                          f"Mount it: mounts: [<folder>:{posixpath.dirname(each.path)}:ro]")  # fmt: skip


def network_findings(plan: Plan, facts: DockerFacts) -> Iterator[Finding]:
    name = plan.request["container"]["HostConfig"]["NetworkMode"]
    known = (*facts.networks, *BUILT_IN_NETWORKS)
    if not plan.request["make_network"] and name not in known and not name.startswith("container:"):
        fix = f"docker network create {name}"
        yield error("network.missing", f"There is no docker network {name}.", "network " + name + " not found", fix)


def gpu_findings(plan: Plan, facts: DockerFacts) -> Iterator[Finding]:
    """GPUs that are not there stop the job, GPUs that others use do not. Nothing is known where none can be seen."""
    asked: list[dict[str, Any]] = plan.request["container"]["HostConfig"].get("DeviceRequests") or []
    ids = [int(each) for request in asked for each in request.get("DeviceIDs", ())]
    count = max((request.get("Count", 0) for request in asked), default=0)
    wanted = list(facts.gpus) if count < 0 else ids or list(facts.gpus[:count])
    there = ", ".join(map(str, facts.gpus))
    if facts.gpus and (count > len(facts.gpus) or set(ids) - set(facts.gpus)):
        what = "The job asks for GPUs that this machine does not have."
        yield error("gpu.missing", what, f"It has: {there}.", f"Ask for at most --gpus {len(facts.gpus)}.")
    elif held := [f"GPU {index}: {facts.held[index]}" for index in wanted if index in facts.held]:
        what = "GPUs that the job will get are in use by other containers."
        yield warning("gpu.busy", what, ", ".join(held), "docker ps")


def error(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.ERROR, code, what, evidence, fix)


def warning(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.WARNING, code, what, evidence, fix)
