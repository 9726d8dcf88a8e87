"""From a JobSpec to the container that will be created. Pure."""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.docker import parse
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.inputs import absolute_inputs
from tao_sdk.backends.mounts import Mount, mount_of, read_mounts
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.model.fields import FieldError
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.secrets import SecretRef, split_secrets
from tao_sdk.model.spec import JobSpec, remote_root
from tao_sdk.model.units import parse_size

DEFAULT_NETWORK = "tao_default"
BUILT_IN_NETWORKS = ("bridge", "host", "none")
RESULTS = "/results"
KEPT = "runs"  # the folder below the one where the job was submitted; each job has its own in it
KEPT_VOLUME = "tao-runs"  # what the volume of a job on a remote daemon begins with
# Of the caller; a further attempt keeps them.
SURROUNDINGS = ("cwd", "home", "uid", "gid", "network", "pull", "ssh_path")
GRACE = 10  # seconds between SIGTERM and SIGKILL unless the caller says otherwise
FOLDER = ".tao-job"  # in the container: what is delivered before it starts
MAX_ARGUMENT = 96 * 1024  # bytes; Linux takes 128 KiB
# Keeps the log's bytes as they are, which json-file does not; never rotated, as json-file is not unless told to.
LOG = {"Type": "local", "Config": {"max-size": "1000g", "max-file": "1", "compress": "false"}}
NOT_BEGUN = 125  # the exit code of what could not begin
NOT_WHOLE = "tao: the environment did not arrive whole"
# Started again from outside, a container would wait for an environment that nobody gives it any more. It says nothing:
# its job may have ended long ago, and its log with it. Where the mark can be made nowhere, it waits.
ONLY_ONCE = f"""_tao_mark=.tao-$TAO_JOB_ID-$TAO_ATTEMPT
if [ -e "/$_tao_mark" ] || [ -e "/tmp/$_tao_mark" ]; then exit {NOT_BEGUN}; fi"""
MARK = """{ echo > "/$_tao_mark"; } 2>/dev/null || { echo > "/tmp/$_tao_mark"; } 2>/dev/null
unset _tao_mark"""
# The environment comes through standard input: so it is on no disk, neither before the start nor after a crash.
TAKE_IN = f"""_tao_newline='
'
while IFS= read -r _tao_line && [ "$_tao_line" != whole ]; do eval "$_tao_line"; done
[ "$_tao_line" = whole ] || {{ echo "{NOT_WHOLE}" >&2; exit {NOT_BEGUN}; }}
unset _tao_line _tao_newline"""
# Of results in a folder that the command's user may not write to, the command itself says more.
MAKE_RESULTS = '[ -z "$TAO_RESULTS_DIR" ] || mkdir -p "$TAO_RESULTS_DIR" 2>/dev/null'

KINDS: Mapping[type, str] = {str: "a text", list: "a list", Mapping: "a mapping"}

Variables = dict[str, "str | SecretRef"]


@dataclass(frozen=True)
class Inside:
    """What a job has in its container."""

    mounts: list[Mount]
    user: str
    gpus: list[int]
    root: str  # below it lie the results of all jobs; "" where there is no such place
    results: str  # the job's own, as seen from outside
    variables: Variables

    @property
    def shown(self) -> dict[str, str]:
        """The variables that `docker inspect` may show."""
        return {name: value for name, value in self.variables.items() if is_shown(name) and isinstance(value, str)}

    @property
    def delivered(self) -> Variables:
        """The others."""
        shown = self.shown
        return {name: value for name, value in sorted(self.variables.items()) if name not in shown}


def plan(spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt) -> Plan:
    """Everything that submit will do."""
    inside = inside_of(spec, options, facts, attempt)
    return Plan(
        attempt=attempt,
        request=request(spec, options, facts, attempt, inside),
        secrets=tuple(sorted({value.name for value in inside.variables.values() if isinstance(value, SecretRef)})),
        results_dir=inside.results,
        notes=tuple(notes(spec, facts, inside.root)),
        release_when_over=facts.auto_remove,
        backend_details={
            "backend_type": "local-docker",
            "num_gpu": spec.gpu_count,
            "container": container_name(attempt),
            **results_at(facts, attempt, inside),
        },
    )


def results_at(facts: DockerFacts, attempt: Attempt, inside: Inside) -> dict[str, str]:
    """Where the results lie, if it is not this machine nor a bucket: from there they have to be fetched."""
    if not inside.results.startswith("/"):
        return {}
    if mount_of(inside.mounts, f"{inside.root or RESULTS}/{attempt.job_id}") is None:
        return {"results_at": f"container {container_name(attempt)}"}
    return {} if facts.local else {"results_at": attempt.endpoint}


def inside_of(spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt) -> Inside:
    mounts = all_mounts(spec, options, facts, attempt.job_id)
    user = container_user(options, facts, mounts, attempt.job_id)
    root = results_root(spec, mounts, attempt.job_id)
    return Inside(
        mounts=mounts,
        user=user,
        gpus=chosen_gpus(spec, options, facts),
        root=root,
        results=results_dir(spec, facts, mounts, attempt, root),
        variables=environment(spec, options, facts, attempt, root, user),
    )


def request(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt, inside: Inside
) -> dict[str, Any]:
    """What submit asks of the daemon, and how."""
    body = container(spec, options, facts, attempt, inside)
    told = {name: {"secret": it.name} if isinstance(it, SecretRef) else it for name, it in inside.delivered.items()}
    return {
        "name": container_name(attempt),
        "container": {**patched(body, spec.native), **unchangeable(body, spec.native)},
        "environment": told,
        "command": spec.command if is_long(spec.command) else "",
        "daemon": parse.identity(facts.info) if facts.info else "",
        "pull": options.pull or facts.pull,
        "folders": kept_folders(facts, inside.mounts, attempt.job_id),
        "opens_results": inside.root in ("", RESULTS) and not any(each.target == RESULTS for each in inside.mounts),
        "make_network": network_name(spec, options, facts) == DEFAULT_NETWORK,
        "surroundings": {name: getattr(facts, name) for name in SURROUNDINGS},
        **({"cache": spec.mount_path} if spec.mount_path else {}),
    }


def container(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt, inside: Inside
) -> dict[str, Any]:
    """The body of the request that creates the container."""
    delivers = bool(inside.delivered)
    command = [] if is_long(spec.command) else [spec.command]
    return {
        "Image": spec.image,
        "Cmd": ["/bin/sh", "-c", start_script(spec, delivers), "tao", *command],
        "Env": [f"{name}={value}" for name, value in sorted({**inside.shown, **gpu_variables(spec, facts)}.items())],
        "Labels": labels(spec, attempt, inside.gpus, inside.results),
        "StopSignal": "SIGTERM",
        **({"OpenStdin": True, "StdinOnce": True} if delivers else {}),
        **({"User": inside.user} if inside.user else {}),
        "HostConfig": host_config(spec, options, facts, inside.mounts, inside.gpus),
    }


def is_long(command: str) -> bool:
    """Whether a command is delivered as a file."""
    return len(command.encode()) > MAX_ARGUMENT


def container_name(attempt: Attempt) -> str:
    return f"tao-job-{attempt.job_id}"


def start_script(spec: JobSpec, environment: bool) -> str:
    """What /bin/sh does before the command: takes in the environment, and hands over to bash where there is one."""
    lines = [ONLY_ONCE, TAKE_IN, MARK, MAKE_RESULTS] if environment else []
    lines.append(f"set -- /{FOLDER}/command" if is_long(spec.command) else 'set -- -c "$1"')
    lines.append('if command -v bash >/dev/null; then set -- bash "$@"; else set -- /bin/sh "$@"; fi')
    if spec.time_limit is not None:
        limit = f"timeout -k {GRACE} {math.ceil(spec.time_limit.total_seconds())}"
        lines.append(f'if command -v timeout >/dev/null; then set -- {limit} "$@"; fi')
    return "\n".join([*lines, 'exec "$@" </dev/null'])


def statements(values: Mapping[str, str]) -> str:
    """What TAKE_IN reads: one statement a line, and a last line that says that it is whole.

    `command`: a shell that keeps a name for itself (bash its UID) says so and goes on, where it would end without it.
    """
    quoted = {name: shlex.quote(value).replace("\n", "'\"$_tao_newline\"'") for name, value in values.items()}
    return "".join(f"command export {name}={value}\n" for name, value in quoted.items()) + "whole\n"


def is_shown(name: str) -> bool:
    """What `docker inspect` may show: what the GPU runtime reads before the container starts, and our own names."""
    return name.startswith("NVIDIA_") or name in ("TAO_JOB_ID", "TAO_ATTEMPT", "TINI_KILL_PROCESS_GROUP")


def environment(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt, root: str, user: str
) -> Variables:
    """Ours, then what the job asks for, then what nobody may change."""
    asked, _ = split_secrets(spec.env_vars, spec.secrets)
    mapped = user == f"{facts.uid}:{facts.gid}" and facts.uid != 0
    return {
        **single_node(gpu_number(spec, options, facts)),
        "TAO_GRACE": str(GRACE),
        **({"HOME": "/tmp"} if mapped else {}),
        **asked,
        **({"TAO_RESULTS_ROOT": root} if root else {}),
        "TAO_RESULTS_DIR": f"{root or RESULTS}/{attempt.job_id}",
        "TAO_JOB_ID": attempt.job_id,
        "TAO_ATTEMPT": str(attempt.number),
        "TINI_KILL_PROCESS_GROUP": "1",
    }


def gpu_number(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> int | None:
    """How many GPUs it gets; None for all of them where nobody here sees how many that are."""
    if options.gpu_ids:
        return len(options.gpu_ids)
    return spec.gpu_count if spec.gpu_count >= 0 else len(facts.gpus) or None


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
    return {**spec.labels, **own}  # the empty ones too: an image made of a job's container has that job's labels


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
        config["NanoCpus"] = max(1, int(spec.cpus * 1e9))  # 0 is no limit
    if (spec.gpu_count or options.gpu_ids) and facts.tegra:
        config["Runtime"] = "nvidia"
    elif spec.gpu_count or options.gpu_ids:
        config["DeviceRequests"] = [device_request(spec.gpu_count, gpus)]
    return config


def device_request(count: int, ids: list[int]) -> dict[str, Any]:
    which = {"DeviceIDs": [str(each) for each in ids]} if ids else {"Count": count}
    return {"Driver": "", **which, "Capabilities": [["gpu"]], "Options": {}}


def network_name(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> str:
    patch = spec.native.get("HostConfig")
    asked = cast("Mapping[str, Any]", patch).get("NetworkMode") if isinstance(patch, Mapping) else ""
    named = asked if isinstance(asked, str) else ""  # anything else is refused with the rest of `native`
    return named or options.network or facts.network or DEFAULT_NETWORK


def all_mounts(spec: JobSpec, options: DockerOptions, facts: DockerFacts, job_id: str) -> list[Mount]:
    mounts = named_mounts(spec, options, facts)
    return [*mounts, kept(facts, job_id)] if keeps_results(spec, mounts) else mounts


def named_mounts(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> list[Mount]:
    """What the job asks for, and the results of other jobs that its inputs name."""
    mounts = read_mounts(spec.mounts, facts.cwd, facts.home)
    if options.ssh_key:
        mounts.append(Mount(facts.ssh_path, "/root/.ssh", read_only=True))
    if keeps_results(spec, mounts):
        mounts += [kept(facts, job_id, read_only=True) for job_id in jobs_named(spec, mounts)]
    return mounts


def keeps_results(spec: JobSpec, mounts: list[Mount]) -> bool:
    """Whether the results get a place of our choice."""
    return bool(spec.keep_results) and not results_place(spec, mounts)


def jobs_named(spec: JobSpec, mounts: list[Mount]) -> list[str]:
    """The jobs whose results are inputs of this one, as far as no mount of its own has them."""
    paths = [path for path in absolute_inputs(spec).values() if path.startswith(f"{RESULTS}/")]
    return sorted({path.split("/")[2] for path in paths if mount_of(mounts, path) is None})


def kept(facts: DockerFacts, job_id: str, read_only: bool = False) -> Mount:
    """Where the results of one job are kept."""
    target = f"{RESULTS}/{job_id}"
    if facts.local:
        return Mount(posixpath.join(facts.cwd, KEPT, job_id), target, read_only)
    return Mount(f"{KEPT_VOLUME}-{job_id}", target, read_only, volume=True)


def results_place(spec: JobSpec, mounts: list[Mount]) -> bool:
    """Whether the job names a place for its results: a root, a mount at /results, a bucket."""
    named = spec.env_vars.get("TAO_RESULTS_ROOT") or spec.env_vars.get("S3_BUCKET_NAME")
    return bool(named) or any(each.target == RESULTS for each in mounts)


def results_root(spec: JobSpec, mounts: list[Mount], job_id: str) -> str:
    asked = spec.env_vars.get("TAO_RESULTS_ROOT")
    if isinstance(asked, str) and asked:
        return "" if remote_root(spec) else posixpath.normpath(asked)
    return RESULTS if any(holds_results(each, job_id) for each in mounts) else ""


def holds_results(mount: Mount, job_id: str) -> bool:
    return mount.target in (RESULTS, f"{RESULTS}/{job_id}") and not mount.read_only


def results_dir(spec: JobSpec, facts: DockerFacts, mounts: list[Mount], attempt: Attempt, root: str) -> str:
    """Where the results are, as the daemon's machine sees them; inside the container where it does not."""
    if remote_root(spec):
        return f"{remote_root(spec)}/{attempt.job_id}"
    bucket = spec.env_vars.get("S3_BUCKET_NAME")
    if not root and isinstance(bucket, str) and bucket:
        return f"s3://{bucket}/results/{attempt.job_id}"
    inside = f"{root or RESULTS}/{attempt.job_id}"
    under = mount_of(mounts, inside)
    return (under.on_host(inside, volumes(facts, mounts)) if under else "") or inside


def volumes(facts: DockerFacts, mounts: list[Mount]) -> dict[str, str]:
    """Name -> folder on the daemon's machine, also of those that the job makes."""
    root = facts.info.get("DockerRootDir", "")
    made = {each.source: f"{root}/volumes/{each.source}/_data" for each in mounts if each.volume and root}
    return {**made, **facts.volumes}


def container_user(options: DockerOptions, facts: DockerFacts, mounts: list[Mount], job_id: str) -> str:
    """Who the command runs as: a plain user's own results are to be his; else whom the image says."""
    if options.user:
        return "" if options.user == "image" else options.user
    own = any(holds_results(each, job_id) and not each.volume for each in mounts)
    return f"{facts.uid}:{facts.gid}" if facts.local and facts.uid and own else ""


def kept_folders(facts: DockerFacts, mounts: list[Mount], job_id: str) -> list[str]:
    """The folder that we bind without being told: it is made when it is not there."""
    own = kept(facts, job_id)
    return [own.source] if facts.local and own in mounts else []


def patched(body: Mapping[str, Any], patch: Mapping[str, Any], where: str = "native") -> dict[str, Any]:
    """`native` laid over the request, mapping by mapping. Raises SpecError for what is of another kind than ours."""
    merged = dict(body)
    for name, value in patch.items():
        under = merged.get(name)
        kind = next((kind for kind in KINDS if isinstance(under, kind)), object)
        if not isinstance(value, kind):
            raise FieldError("native", f"{where}.{name} is {value!r}; it must be {KINDS[kind]}.")
        if isinstance(under, Mapping):
            over = cast("Mapping[str, Any]", value)
            merged[name] = patched(cast("Mapping[str, Any]", under), over, f"{where}.{name}")
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
