"""What a new user of a cluster would trip over, each with the document's words and the command that
mends it.

One script on the login node asks all of it, and a node, by a job of a few seconds; what follows
from the answer is pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone

from tao_sdk.backends.image_name import NGC
from tao_sdk.backends.slurm.cluster import site, survey
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.cluster.survey import Sections
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images import containers, enroot_login, image_plan
from tao_sdk.backends.slurm.job.partitions import CLUSTER_DEFAULT, possible_accounts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.shell import joined, script, variables
from tao_sdk.model.errors import CredentialError, TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.units import format_duration
from tao_sdk.transports.ssh import DENIED, Ssh

OK, WARNING, ERROR = Severity.OK, Severity.WARNING, Severity.ERROR
OLDEST = (
    20,
    11,
    # the first with --kill-on-invalid-dep in sbatch for every user, and squeue's fields as we read
    # them
)
NODE_SECONDS = 30  # how long the job on a node is waited for, in scripts/doctor.sh
GiB = 2**30
AGAIN = "tao doctor slurm"
LITTLE = 20 * GiB  # a handful of checkpoints


def examine(ssh: Ssh, settings: Settings) -> list[Finding]:
    """The platform document's preflight, and what else would end a first job. What goes wrong is a
    finding, not an error.
    """
    try:
        here, missing = site.site(settings), []
    except CredentialError as error:
        here, missing = Site(base=""), [no_base(error)]
    try:
        answer = ssh.run(questions(here), seconds=120.0)
    except (Unreachable, CredentialError) as error:
        return [*missing, no_login(ssh, error)]
    greeting = Finding(
        OK, "slurm.ssh", f"{ssh.login.name(answer.host)} answers without a password."
    )
    return [greeting, *missing, *findings(survey.sections(answer.text), here)]


def no_base(error: CredentialError) -> Finding:
    return Finding(ERROR, "slurm.no_base", error.what, error.why, error.next, error.command)


def no_login(ssh: Ssh, error: TaoError) -> Finding:
    """In the platform document's words where a host was reached and refused the login."""
    if error.code != DENIED:
        return Finding.of_error(error)
    target = ssh.login.name(ssh.login.hosts[0])
    what = f"MISSING: passwordless SSH to {target} not working."
    return Finding(
        ERROR, error.code, what, f"{error.what} {error.why}".strip(), error.next, error.command
    )


# Asking


def questions(here: Site) -> str:
    """The survey's, and the doctor's own. What concerns the base directory is asked where one is
    set.
    """
    values = {
        "images": image_plan.folder(here, here.base) if here.base else "",
        "account": here.account,
        "partition": here.partition if " " not in here.partition else "",
    }
    own = (script("doctor"), "section logins", enroot_login.listing())
    return joined(survey.questions(here), variables(values), *own)


# Telling


def findings(seen: Sections, here: Site) -> Iterator[Finding]:
    yield from command_findings(seen)
    try:
        facts = survey.read(seen, here, datetime.now(timezone.utc))
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
    missing = seen["missing"].split()
    if missing:
        what = f"MISSING: {', '.join(missing)} not found on the login node."
        fix = (
            "Log in and find them, then add their folder to PATH in ~/.bashrc there, above any "
            "test for interactivity."
        )
        yield Finding(
            ERROR,
            "slurm.commands",
            what,
            "PATH of a command over ssh has no folder with them.",
            fix,
        )


def controller_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", facts.version)[:2])
    what = f"SLURM {facts.version} of the cluster {facts.cluster}."
    if numbers and numbers < OLDEST:
        yield Finding(
            WARNING,
            "slurm.old",
            f"{what} 20.11 is the oldest that can be expected to work.",
            "",
            "Ask the site.",
        )
    else:
        yield Finding(OK, "slurm.version", what)
    if "is DOWN" in seen["ping"] and "is UP" not in seen["ping"]:
        yield Finding(
            ERROR,
            "slurm.controller",
            "The controller is down.",
            seen["ping"].strip(),
            command=AGAIN,
        )
    if not facts.accounting:
        what = (
            "The cluster keeps no accounting: the end of a job is known for some minutes after "
            "it, then by its own record."
        )
        yield Finding(
            WARNING, "slurm.no_accounting", what, "AccountingStorageType names no slurmdbd.", ""
        )


def partition_findings(facts: SlurmFacts) -> Iterator[Finding]:
    """The ones that are named, else the cluster's default."""
    asked = "" if facts.site.partition == CLUSTER_DEFAULT else facts.site.partition
    named = [name.strip() for name in asked.split(",") if name.strip()]
    if wrong := [name for name in named if name not in facts.partitions]:
        what = f"The cluster has no partition {', '.join(wrong)}."
        evidence = f"SLURM_PARTITION names it; there are {', '.join(sorted(facts.partitions))}."
        yield Finding(ERROR, "slurm.partition", what, evidence, *other_partition(facts))
    known = [facts.partitions[name] for name in named if name in facts.partitions]
    default = [facts.default_partition] if facts.default_partition else []
    for each in known or default:
        yield partition_finding(each, facts)


def partition_finding(each: Partition, facts: SlurmFacts) -> Finding:
    longest = format_duration(each.max_time) if each.max_time else "any time"
    what = (
        f"Partition {each.name}: {each.nodes} nodes of {each.gpus} GPUs "
        f"and {each.cpus} CPUs, {longest}."
    )
    if not facts.takes(each, possible_accounts(facts.site.account, facts)):
        told = (
            f"Its jobs may not be of {facts.site.account or ', '.join(facts.accounts)}: they "
            "would never start."
        )
        return Finding(WARNING, "slurm.partition", what, told, *other_partition(facts))
    if each.up:
        return Finding(OK, "slurm.partition", what)
    return Finding(
        WARNING, "slurm.partition", what, "It starts no jobs now: its state is not UP.", ""
    )


def other_partition(facts: SlurmFacts) -> tuple[str, str]:
    """(what to do in words, the command): the command names a partition that starts jobs of this
    user, the default first.
    """
    payers = possible_accounts(facts.site.account, facts)
    usable = [each for each in facts.partitions.values() if each.up and facts.takes(each, payers)]
    first = min(usable, key=lambda each: (not each.default, not each.gpus, each.name), default=None)
    if first is None:
        return "Ask the site which partition and account are yours.", ""
    return "", f"export SLURM_PARTITION={shlex.quote(first.name)}"


def gpu_findings(facts: SlurmFacts) -> Iterator[Finding]:
    if not any(each.gpus for each in facts.partitions.values()):
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
    if account and facts.accounts and account.lower() not in facts.accounts:
        what = f"You cannot charge the account {account}."
        yield Finding(ERROR, "slurm.account", what, f"SLURM_ACCOUNT names it; yours are {yours}.",
                      command=f"export SLURM_ACCOUNT={shlex.quote(facts.accounts[0])}")  # fmt: skip
    elif account:
        most = facts.longest(account, "")
        lasts = f", and may last {format_duration(most)}" if most else ""
        yield Finding(OK, "slurm.account", f"Jobs are charged to the account {account}{lasts}.")
    elif facts.accounts:
        what = f"SLURM_ACCOUNT is not set: the cluster chooses among {yours}."
        yield Finding(OK, "slurm.account", what)


def image_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    wrong = list(containers.check(SlurmOptions(), facts))
    yield from wrong
    if wrong:
        return
    chosen = containers.runtime(SlurmOptions(), facts)
    kinds = {
        containers.PYXIS: "Pyxis: srun has --container-image.",
        containers.NONE: "Commands run on the nodes themselves.",
    }
    yield Finding(OK, "slurm.images", f"Images run with {kinds.get(chosen, chosen + '.')}")
    if chosen in (containers.PYXIS, containers.ENROOT):
        has = NGC in seen["logins"].split()
        yield (
            Finding(OK, enroot_login.CODE, f"enroot has credentials for {NGC}.")
            if has
            else enroot_login.missing()
        )
    yield from conversion_findings(seen, facts)


def conversion_findings(seen: Sections, facts: SlurmFacts) -> Iterator[Finding]:
    if made := seen.get("images", "").splitlines():
        size = sum(int(line.split(" ", 1)[0]) for line in made) / GiB
        names = ", ".join(sorted(line.split(" ", 1)[1] for line in made)[:5]) + (
            ", ..." if len(made) > 5 else ""
        )
        yield Finding(
            OK, "slurm.converted", f"Converted images: {len(made)} ({size:.1f} GiB): {names}."
        )
    elif "images" in seen and facts.site.sqsh:
        yield Finding(
            OK,
            "slurm.converted",
            "No image is converted yet: the first job of each waits for that.",
        )


def base_findings(seen: Sections, here: Site) -> Iterator[Finding]:
    wrong_place = (
        "Set SLURM_BASE_RESULTS_DIR to a folder of yours on the cluster's shared file system."
    )
    if seen["writable"].strip() != "yes":
        what = f"MISSING: {here.base} cannot be written to on the login node."
        yield Finding(ERROR, "slurm.base", what, seen["writable"].strip(), wrong_place)
        return
    said = seen["node"].strip()
    if re.search(r"^visible from ", said, re.MULTILINE):
        yield Finding(
            OK, "slurm.base", f"{here.base} can be written to, and is {said.splitlines()[-1]}."
        )
    elif re.search(r"^invisible from ", said, re.MULTILINE):
        what = f"{here.base} is not there on the nodes: a job could not read what is staged for it."
        yield Finding(ERROR, "slurm.base", what, said.splitlines()[-1], wrong_place)
    else:
        what = f"{here.base} can be written to; whether a node sees it is not known, none was free."
        said = said.splitlines()[-1] if said else f"no answer within {NODE_SECONDS} s"
        yield Finding(WARNING, "slurm.base", what, said, command=AGAIN)


def space_findings(seen: Sections, here: Site) -> Iterator[Finding]:
    left = [each for each in (quota_left(seen["quota"]), free(seen["space"])) if each is not None]
    if not left:
        return
    least = min(left)
    what = f"{least / GiB:.0f} GiB are left to you at {here.base}."
    fix = (
        f"Remove old results below {here.base}/results, or set "
        "SLURM_BASE_RESULTS_DIR to another folder."
    )
    yield (
        Finding(WARNING, "slurm.space", what, "", fix)
        if least < LITTLE
        else Finding(OK, "slurm.space", what)
    )


def quota_left(text: str) -> int | None:
    """Bytes, by lfs' or quota's last line: `PLACE USED QUOTA LIMIT ...` in KiB; None without a
    limit.
    """
    cells = text.replace("*", "").split()
    if len(cells) < 4 or not all(cell.isdigit() for cell in cells[1:4]):
        return None
    used, soft, hard = map(int, cells[1:4])
    most = hard or soft
    return max(0, most - used) * 1024 if most else None


def free(text: str) -> int | None:
    """Bytes, by df's line."""
    cells = text.split()
    return int(cells[3]) * 1024 if len(cells) >= 4 and cells[3].isdigit() else None
