"""enroot's credentials on the cluster: read them for `tao doctor`, and write NGC_KEY there.

enroot fetches private images on the nodes, also for Pyxis. It reads only its credentials file, and
not NGC_KEY in a job's environment. The key is sent through stdin; no argv, log or output holds it.
"""

from __future__ import annotations

import re
import shlex
import sys

from tao_sdk.backends.image_name import HUB_LOGIN, NGC
from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm.cluster import site
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import CredentialError, Refused, TaoError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Ssh

FILE = ".config/enroot/.credentials"  # below the user's home, in netrc's form
REGISTRIES = (NGC, "authn.nvidia.com")
CODE = "slurm.enroot_credentials"
INSTALL = (
    f"{shlex.quote(sys.executable or 'python3')} -m tao_sdk.backends.slurm.images.enroot_login"
)


def list_registries_script() -> str:
    """A script that prints the registries in the credentials file, one a line."""
    return load_script("enroot_registries")


def add_credentials_script() -> str:
    """A script that adds the lines on its stdin to the credentials file."""
    return join_parts(
        assign_variables({"registries": "|".join(map(re.escape, REGISTRIES))}),
        load_script("enroot_credentials"),
    )


def name_of(registry: str) -> str:
    """The registry's name in the credentials file; "" is Docker Hub."""
    return registry or HUB_LOGIN


def missing_login_finding(registry: str = NGC) -> Finding:
    """A warning: enroot has no credentials for the registry."""
    name = name_of(registry)
    write_it = f"Add to ~/{FILE} there, with mode 0600: machine {name} login USER password KEY"
    return Finding(
        Severity.WARNING,
        CODE,
        f"Private images of {name} cannot be fetched: enroot has no "
        "credentials for it on the cluster.",
        f"~/{FILE} there does not name it. enroot does not read NGC_KEY in a job's environment.",
        "" if registry == NGC else write_it,
        INSTALL if registry == NGC else "",
    )


def credential_lines(key: str) -> str:
    """The lines for add_credentials_script. The user name is literally $oauthtoken.

    Raises CredentialError for a key with a blank.
    """
    if not re.fullmatch(r"\S+", key):
        raise CredentialError(
            "NGC_KEY has a blank in it.", "enroot could not read it.", "Export it as NGC shows it."
        )
    return "".join(f"machine {name} login $oauthtoken password {key}\n" for name in REGISTRIES)


def install_credentials(ssh: Ssh, key: str) -> None:
    """Write the key into the credentials file on the cluster. Raises Refused if that fails."""
    answer = ssh.run(add_credentials_script(), credential_lines(key).encode())
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
        install_credentials(Ssh(site.read_login(settings)), key)
    except TaoError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"enroot has credentials for {', '.join(REGISTRIES)} now: ~/{FILE} on the cluster.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
