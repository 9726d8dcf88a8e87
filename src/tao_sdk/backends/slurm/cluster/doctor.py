"""Doctor: what would stop a new user of a cluster, in the document's words, with the fix for each.

One script on the login node collects everything. It also runs a job of a few seconds on a node.
Reading the answer is pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone

from tao_sdk.backends.image_name import NGC
from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm.cluster import site, survey
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.cluster.survey import Sections
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images import containers, enroot_login, image_plan
from tao_sdk.backends.slurm.job.checks import is_strange
from tao_sdk.backends.slurm.job.partitions import (
    CLUSTER_DEFAULT,
    possible_accounts,
    split_names,
)
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import CredentialError, TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.units import format_duration
from tao_sdk.transports.ssh import DENIED, Ssh

OK, WARNING, ERROR = Severity.OK, Severity.WARNING, Severity.ERROR
# The first version whose sbatch has --kill-on-invalid-dep for every user, and whose squeue has the
# fields that parse.py reads.
OLDEST = (20, 11)
NODE_SECONDS = 30  # timeout for the job on a node, in scripts/doctor.sh
GiB = 2**30
AGAIN = "tao doctor slurm"
MOST_NAMES = 5  # the most converted images to name
NO_FOLDER = "Set SLURM_BASE_RESULTS_DIR to a folder of yours on the cluster's shared file system."
LITTLE_SPACE = 20 * GiB  # enough for a handful of checkpoints


def examine_cluster(ssh: Ssh, settings: Settings) -> list[Finding]:
    """The platform document's preflight, and other checks for a first job.

    A failure becomes a finding and is not raised.
    """
    try:
        here, missing = site.read_site(settings), []
    except CredentialError as error:
        here, missing = Site(base=""), [no_base(error)]
    try:
        answer = ssh.run(doctor_script(here), seconds=120.0)
    except (Unreachable, CredentialError) as error:
        return [*missing, no_login(ssh, error)]
    greeting = Finding(
        OK, "slurm.ssh", f"{ssh.login.user_at(answer.host)} answers without a password."
    )
    return [greeting, *missing, *cluster_findings(survey.split_sections(answer.text), here)]


def no_base(error: CredentialError) -> Finding:
    return Finding(ERROR, "slurm.no_base", error.what, error.why, error.next, error.command)


def no_login(ssh: Ssh, error: TaoError) -> Finding:
    """The finding for a failed login.

    It has the platform document's words if a host was reached and refused the login.
    """
    if error.code != DENIED:
        return Finding.of_error(error)
    target = ssh.login.user_at(ssh.login.hosts[0])
    what = f"MISSING: passwordless SSH to {target} not working."
    return Finding(
        ERROR, error.code, what, f"{error.what} {error.why}".strip(), error.next, error.command
    )


# Asking


def doctor_script(here: Site) -> str:
    """The survey's script and the doctor's own.

    Checks of the base directory are left out if none is set.
    """
    values = {"images": "", "account": here.account, "partition": ""}
    if here.base:
        values["images"] = image_plan.images_folder(here, here.base)
    if " " not in here.partition:
        values["partition"] = here.partition
    own = (load_script("doctor"), "section logins", enroot_login.list_registries_script())
    return join_parts(survey.survey_script(here), assign_variables(values), *own)


# Reading the answer


def cluster_findings(seen: Sections, here: Site) -> Iterator[Finding]:
    yield from command_findings(seen)
    try:
        facts = survey.read_facts(seen, here, datetime.now(timezone.utc))
    except TaoError as error:
        yield Finding.of_error(error)
        return
    yield from controller_findings(seen, facts)
    yield from partition_findings(facts)
    yield from gpu_findings(facts)
    yield from account_findings(facts)
    yield from image_findings(seen, facts)
    if here.base:
        yield from base_findings(seen, here)
        yield from space_findings(seen, here)


def command_findings(seen: Sections) -> Iterator[Finding]:
    """An error if a command over ssh does not find some of SLURM's programs."""
    missing = seen["missing"].split()
    if not missing:
        return
    yield Finding(
        ERROR,
        "slurm.commands",
        f"MISSING: {', '.join(missing)} not found on the login node.",
        "PATH of a command over ssh has no folder with them.",
        "Log in and find them, then add their folder to PATH in ~/.bashrc there, above any "
        "test for interactivity.",
    )


def version_finding(facts: SlurmFacts) -> Finding:
    what = f"SLURM {facts.version} of the cluster {facts.cluster}."
    numbers = tuple(int(part) for part in re.findall(r"\d+", facts.version)[:2])
    if not numbers or numbers >= OLDEST:
        return Finding(OK, "slurm.version", what)
    too_old = f"{what} 20.11 is the oldest that can be expected to work."
    return Finding(WARNING, "slurm.old", too_old, "", "Ask the site for a newer one.")


def controller_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    """Findings about the version, a controller that is down, and missing accounting."""
    yield version_finding(facts)
    ping = seen["ping"].strip()
    if "is DOWN" in ping and "is UP" not in ping:
        yield Finding(ERROR, "slurm.controller", "The controller is down.", ping, command=AGAIN)
    if not facts.accounting:
        what = (
            "The cluster keeps no accounting: the end of a job is known for some minutes after "
            "it, then by its own record."
        )
        why = "AccountingStorageType names no slurmdbd."
        fix = "Nothing is needed for jobs to run; only the site can change it."
        yield Finding(WARNING, "slurm.no_accounting", what, why, fix)


def partition_findings(facts: SlurmFacts) -> Iterator[Finding]:
    """One finding for each partition that SLURM_PARTITION names, else for the default."""
    unknown = [name for name in partition_names(facts) if name not in facts.partitions]
    if unknown:
        what = f"The cluster has no partition {', '.join(unknown)}."
        evidence = f"SLURM_PARTITION names it; there are {', '.join(sorted(facts.partitions))}."
        yield Finding(ERROR, "slurm.partition", what, evidence, *other_partition(facts))
    for partition in site_partitions(facts):
        yield partition_finding(partition, facts)


def site_partitions(facts: SlurmFacts) -> list[Partition]:
    """The partitions that SLURM_PARTITION names, else the default."""
    known = facts.partitions
    partitions = [known[name] for name in partition_names(facts) if name in known]
    if not partitions and facts.default_partition:
        return [facts.default_partition]
    return partitions


def partition_names(facts: SlurmFacts) -> list[str]:
    setting = facts.site.partition
    if setting == CLUSTER_DEFAULT:
        return []
    return split_names(setting)


def partition_finding(partition: Partition, facts: SlurmFacts) -> Finding:
    what = describe_partition(partition)
    accounts = possible_accounts(facts.site.account, facts)
    if not facts.takes_accounts(partition, accounts):
        why = f"Its jobs may not be of {', '.join(accounts)}: they would never start."
        return Finding(WARNING, "slurm.partition", what, why, *other_partition(facts))
    if not partition.up:
        why = "It starts no jobs now: its state is not UP."
        return Finding(WARNING, "slurm.partition", what, why, "Wait, or set SLURM_PARTITION.")
    return Finding(OK, "slurm.partition", what)


def describe_partition(partition: Partition) -> str:
    longest = format_duration(partition.max_time) if partition.max_time else "any time"
    return (
        f"Partition {partition.name}: {partition.nodes} nodes of {partition.gpus} GPUs "
        f"and {partition.cpus} CPUs, {longest}."
    )


def other_partition(facts: SlurmFacts) -> tuple[str, str]:
    """Return (advice, command) to get a partition that starts jobs of this user."""
    best = min(usable_partitions(facts), key=partition_rank, default=None)
    if best is None:
        return "Ask the site which partition and account are yours.", ""
    return "", f"export SLURM_PARTITION={shlex.quote(best.name)}"


def usable_partitions(facts: SlurmFacts) -> list[Partition]:
    """The partitions that start jobs of this user now."""
    payers = possible_accounts(facts.site.account, facts)
    up = [partition for partition in facts.partitions.values() if partition.up]
    return [partition for partition in up if facts.takes_accounts(partition, payers)]


def partition_rank(partition: Partition) -> tuple[bool, bool, str]:
    """A sort key for advice: the default partition first, then those with GPUs, then by name."""
    return not partition.default, not partition.gpus, partition.name


def gpu_findings(facts: SlurmFacts) -> Iterator[Finding]:
    if not any(partition.gpus for partition in facts.partitions.values()):
        what = "No partition of the cluster shows GPUs."
        yield Finding(
            WARNING,
            "slurm.gpus",
            what,
            "sinfo lists no gpu under GRES.",
            "Ask the site how GPUs are asked for.",
        )


def account_findings(facts: SlurmFacts) -> Iterator[Finding]:
    account, yours = facts.site.account, ", ".join(facts.accounts)
    if is_strange(account, facts):
        yield Finding(
            ERROR,
            "slurm.account",
            f"You cannot charge the account {account}.",
            f"SLURM_ACCOUNT names it; yours are {yours}.",
            command=f"export SLURM_ACCOUNT={shlex.quote(facts.accounts[0])}",
        )
    elif account:
        what = f"Jobs are charged to the account {account}{describe_limit(account, facts)}."
        yield Finding(OK, "slurm.account", what)
    elif facts.accounts:
        what = f"SLURM_ACCOUNT is not set: the cluster chooses among {yours}."
        yield Finding(OK, "slurm.account", what)


def describe_limit(account: str, facts: SlurmFacts) -> str:
    """`, and may last 4h`; "" if the account has no time limit."""
    longest = facts.longest_time(account, "")
    if not longest:
        return ""
    return f", and may last {format_duration(longest)}"


def image_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    wrong = list(containers.runtime_findings(SlurmOptions(), facts))
    yield from wrong
    if wrong:
        return
    chosen = containers.choose_runtime(SlurmOptions(), facts)
    kinds = {
        containers.PYXIS: "Pyxis: srun has --container-image.",
        containers.NONE: "Commands run on the nodes themselves.",
    }
    yield Finding(OK, "slurm.images", f"Images run with {kinds.get(chosen, chosen + '.')}")
    if chosen in (containers.PYXIS, containers.ENROOT):
        yield login_finding(seen)
    yield from conversion_findings(seen, facts)


def login_finding(seen: Sections) -> Finding:
    """Report whether enroot on the login node can log in at NGC."""
    if NGC in seen["logins"].split():
        return Finding(OK, enroot_login.CODE, f"enroot has credentials for {NGC}.")
    return enroot_login.missing_login_finding()


def conversion_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    """Report the images that earlier jobs have converted. The section has lines `BYTES NAME`."""
    converted = seen.get("images", "").splitlines()
    if converted:
        yield Finding(OK, "slurm.converted", describe_images(converted))
    elif "images" in seen and facts.site.sqsh:
        what = "No image is converted yet: the first job of each waits for that."
        yield Finding(OK, "slurm.converted", what)


def describe_images(lines: list[str]) -> str:
    sizes_and_names = [line.split(" ", 1) for line in lines]
    size = sum(int(size) for size, _ in sizes_and_names) / GiB
    names = sorted(name for _, name in sizes_and_names)
    if len(names) > MOST_NAMES:
        names[MOST_NAMES:] = ["..."]
    return f"Converted images: {len(lines)} ({size:.1f} GiB): {', '.join(names)}."


def base_findings(seen: Sections, here: Site) -> Iterator[Finding]:
    """Report whether the base directory is writable, and whether the nodes see it."""
    writable = seen["writable"].strip()
    if writable == "yes":
        yield node_finding(seen["node"].strip(), here)
    else:
        what = f"MISSING: {here.base} cannot be written to on the login node."
        yield Finding(ERROR, "slurm.base", what, writable, NO_FOLDER)


def node_finding(text: str, here: Site) -> Finding:
    """Report whether a node sees the base directory.

    `text`: the output of the job on a node; its last line is `visible from NODE` if it does.
    """
    last = text.splitlines()[-1] if text else f"no answer within {NODE_SECONDS} s"
    if re.search(r"^visible from ", text, re.MULTILINE):
        return Finding(OK, "slurm.base", f"{here.base} can be written to, and is {last}.")
    if re.search(r"^invisible from ", text, re.MULTILINE):
        what = f"{here.base} is not there on the nodes: a job could not read what is staged for it."
        return Finding(ERROR, "slurm.base", what, last, NO_FOLDER)
    what = f"{here.base} can be written to; whether a node sees it is not known, none was free."
    return Finding(WARNING, "slurm.base", what, last, command=AGAIN)


def space_findings(seen: Sections, here: Site) -> Iterator[Finding]:
    """Report the space left: by the user's quota or on the file system, whichever is less."""
    limits = (quota_left(seen["quota"]), disk_free(seen["space"]))
    known = [limit for limit in limits if limit is not None]
    if not known:
        return
    room = min(known)
    what = f"{room / GiB:.0f} GiB are left to you at {here.base}."
    if room >= LITTLE_SPACE:
        yield Finding(OK, "slurm.space", what)
        return
    fix = (
        f"Remove old results below {here.base}/results, or set "
        "SLURM_BASE_RESULTS_DIR to another folder."
    )
    yield Finding(WARNING, "slurm.space", what, "", fix)


def quota_left(text: str) -> int | None:
    """Bytes left in the quota, or None without a limit.

    `text`: the last line of lfs or quota, `PLACE USED QUOTA LIMIT ...` in KiB.
    """
    cells = text.replace("*", "").split()
    if len(cells) < 4 or not all(cell.isdigit() for cell in cells[1:4]):
        return None
    used, soft, hard = map(int, cells[1:4])
    most = hard or soft
    if not most:
        return None
    return max(0, most - used) * 1024


def disk_free(text: str) -> int | None:
    """Bytes free on the file system, or None if df's line does not say."""
    cells = text.split()
    if len(cells) < 4 or not cells[3].isdigit():
        return None
    return int(cells[3]) * 1024
