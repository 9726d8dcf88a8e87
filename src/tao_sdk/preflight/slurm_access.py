"""Access to a SLURM cluster, by ssh to the first login node in the settings."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

from tao_sdk.backends.daemon_machine import SSH
from tao_sdk.backends.image_name import HUB_LOGIN
from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.model.machines import Gpu, Machines, gres_gpus, image_archs, most_gpus
from tao_sdk.preflight.access import Access, find_image, free_of, smoke_by_package
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.images import file_findings
from tao_sdk.preflight.places import OverSsh, Unseen

ENROOT_FILE = "~/.config/enroot/.credentials"
TOOLS = ("sbatch", "squeue", "scancel")
EACH_TOOL = f"for name in {' '.join(TOOLS)}; do command -v $name > /dev/null && echo $name; done"
LIST_TOOLS = f"sh -c {shlex.quote(EACH_TOOL)}"  # the login shell may be a csh


class SlurmAccess(Access):
    """A SLURM cluster, by ssh to the first login node in the settings."""

    def login(self) -> list[str]:
        environ = self.check.environ
        user = environ.get("SLURM_USER", "")
        host = environ.get("SLURM_HOSTNAME", "").partition(",")[0].strip()
        key = environ.get("SSH_KEY_PATH", "")
        return [*SSH, *(("-i", os.path.expanduser(key)) if key else ()), "--", f"{user}@{host}"]  # noqa: PTH111

    def is_named(self) -> bool:
        return bool(self.check.environ.get("SLURM_USER")) and bool(
            self.check.environ.get("SLURM_HOSTNAME")
        )

    def paths(self) -> Place:
        if not self.is_named():
            return Unseen("The cluster is not named.", "Set SLURM_USER and SLURM_HOSTNAME.")
        return OverSsh(self.login(), self.check.environ)

    def findings(self) -> Iterator[Finding]:
        if not self.is_named():
            yield error(
                "slurm.unnamed",
                "set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover) in your env.",
                "",
                "Ask for the user and the login nodes, such as SLURM_HOSTNAME=login1,login2.",
            )
            return
        login = self.login()
        answer = self.check.ask(*login, "true")
        if not answer.ok:
            yield error(
                "slurm.ssh",
                f"passwordless SSH to {login[-1]} not working.",
                answer.words,
                "Ask for SSH_KEY_PATH, and try: ssh -o BatchMode=yes " + login[-1] + " true",
            )
            return
        yield Finding(Severity.OK, "slurm.ssh", f"{login[-1]} answers without a password.")
        yield from self.tool_findings()
        if self.check.image:
            yield from self.image_findings()
        if self.check.smoke_image:
            yield smoke_by_package("slurm", self.check.smoke_image)

    def tool_findings(self) -> Iterator[Finding]:
        """Check that a command over ssh finds SLURM's programs."""
        login = self.login()
        tools = self.check.ask(*login, LIST_TOOLS)
        missing = [name for name in TOOLS if name not in tools.out.split()]
        if missing:
            yield error(
                "slurm.tools",
                f"{login[-1]} has no {' and no '.join(missing)}.",
                "A command over ssh does not find it.",
                "Name a login node of the cluster in SLURM_HOSTNAME.",
            )

    def free(self) -> int | None:
        """The free bytes on the disk of the base directory."""
        base = self.check.environ.get("SLURM_BASE_RESULTS_DIR", "")
        if not base or not self.is_named():
            return None
        return free_of(self.check.ask(*self.login(), f"df -Pk {shlex.quote(base)}"))

    def image_findings(self) -> Iterator[Finding]:
        """Check a file of the cluster, or an image that enroot fetches on the nodes."""
        arch = self.check.ask(*self.login(), "uname -m").out.strip()
        host = Machines(archs=image_archs([arch]))
        name, findings, image = find_image(self.check, host)
        if name and name.file:
            yield from file_findings(name.file, self.paths())
        yield from findings
        if name and image and image.private:
            yield from self.enroot_findings(name.registry)

    def enroot_findings(self, registry: str) -> Iterator[Finding]:
        """Check enroot's credentials for a private image: enroot fetches it with a file of its
        own.
        """
        host = registry or HUB_LOGIN
        entry = f"machine[[:space:]]+{re.escape(host)}([[:space:]]|$)"
        look = f"grep -q -s -E {shlex.quote(entry)} {ENROOT_FILE}"
        if self.check.ask(*self.login(), look).ok:
            what = f"enroot has credentials for {host} on the cluster."
            yield Finding(Severity.OK, "slurm.enroot_credentials", what)
            return
        yield error(
            "slurm.enroot_credentials",
            f"enroot has no credentials for {host} on the cluster.",
            f"{ENROOT_FILE} there does not name it. enroot does not read NGC_KEY.",
            f"Add there, with mode 0600: machine {host} login USER password KEY",
        )

    def gpus(self) -> list[Gpu]:
        """The GPUs of the largest node that the partitions have. Their memory is not known."""
        if not self.is_named():
            raise NotSeen("The cluster is not named.", "Set SLURM_USER and SLURM_HOSTNAME.")
        partition = self.check.environ.get("SLURM_PARTITION", "")
        words = ["sinfo", "--noheader", "--format=%G"]
        if partition:
            words.append(f"--partition={partition}")
        answer = self.check.ask(*self.login(), shlex.join(words))
        if not answer.ok:
            raise NotSeen(answer.words, "Check SLURM_PARTITION.")
        return most_gpus(gres_gpus(line) for line in answer.out.splitlines())
