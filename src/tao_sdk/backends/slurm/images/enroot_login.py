"""Credentials for enroot: where it keeps them on the cluster, whether they are there, and how
NGC_KEY gets there.

enroot fetches private images on the nodes, for Pyxis too, and reads only this file: NGC_KEY in a
job's environment is nothing to it. The key travels through stdin; it is in no argv, log or output.
"""

from __future__ import annotations

import re
import shlex
import sys

from tao_sdk.backends.image_name import NGC
from tao_sdk.backends.slurm.cluster import site
from tao_sdk.backends.slurm.scripts.shell import joined, script, variables
from tao_sdk.model.errors import CredentialError, Refused, TaoError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Ssh

FILE = ".config/enroot/.credentials"  # below the user's home, of netrc's form
REGISTRIES = (NGC, "authn.nvidia.com")
CODE = "slurm.enroot_credentials"
INSTALL = (
    f"{shlex.quote(sys.executable or 'python3')} -m tao_sdk.backends.slurm.images.enroot_login"
)


def listing() -> str:
    """A script that prints the registries that are named there, one a line."""
    return script("enroot_registries")


def keeping() -> str:
    """A script that adds the lines on its stdin."""
    return joined(
        variables({"registries": "|".join(map(re.escape, REGISTRIES))}),
        script("enroot_credentials"),
    )


def missing() -> Finding:
    return Finding(
        Severity.WARNING,
        CODE,
        f"Private images of {NGC} cannot be fetched: enroot has no "
        "credentials for it on the cluster.",
        f"~/{FILE} there does not name it. NGC_KEY in a job's environment is not read by enroot.",
        command=INSTALL,
    )


def lines(key: str) -> str:
    """What `keeping` reads from stdin. The user's name is literally $oauthtoken."""
    if not re.fullmatch(r"\S+", key):
        raise CredentialError(
            "NGC_KEY has a blank in it.", "enroot could not read it.", "Export it as NGC shows it."
        )
    return "".join(f"machine {name} login $oauthtoken password {key}\n" for name in REGISTRIES)


def install(ssh: Ssh, key: str) -> None:
    """Raises Refused when the file could not be written, in the cluster's words."""
    answer = ssh.run(keeping(), lines(key).encode())
    if answer.rc:
        raise Refused(
            f"~/{FILE} could not be written on the cluster.", answer.words, "Write it by hand."
        )


def main() -> int:
    settings = Settings.load()
    try:
        key = settings.get("NGC_KEY")
        if not key:
            raise CredentialError("NGC_KEY is not set.", "", "Export NGC_KEY, and run this again.")
        install(Ssh(site.login(settings)), key)
    except TaoError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"enroot has credentials for {', '.join(REGISTRIES)} now: ~/{FILE} on the cluster.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
