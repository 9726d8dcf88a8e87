"""Images: the one that a job needs, pulled when its policy says so, with the credentials that its
registry wants.

A pull goes on in a process of its own, so that it outlives the client that began it; several jobs
share one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from tao_sdk.backends.containers.life.recent import Recent
from tao_sdk.backends.containers.request import ContainerRequest
from tao_sdk.backends.docker import rules
from tao_sdk.backends.docker.daemon import address, survey
from tao_sdk.backends.docker.daemon.address import is_open
from tao_sdk.backends.docker.daemon.near_images import near_images
from tao_sdk.backends.docker.job.checks import line_findings, near_words
from tao_sdk.backends.docker.registry.pull import LONGEST_ERROR, WANTED, Pulled
from tao_sdk.backends.image_name import NGC, registry_of
from tao_sdk.backends.registry_login import find_login
from tao_sdk.model.errors import CredentialError, Refused, Unreachable
from tao_sdk.model.finding import Finding, refuse_errors, warning
from tao_sdk.model.plan import Attempt
from tao_sdk.model.secrets import is_secret_name
from tao_sdk.model.settings import Settings
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports import process
from tao_sdk.transports.dockerd import Daemon, DaemonError, login_header

HUB = "docker.io"
ASKED_SECONDS = 5.0  # that a registry has to answer before anything is pulled
AT_ONCE = 5.0  # seconds a submit waits: a small image is there by then, and a wrong name is known
SOURCE = Path(__file__).parents[3]
BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split(chr(10)); from "
    "tao_sdk.backends.docker.registry.pull import main; main()"
)


class Images:
    """`folder` holds what each pull says of itself."""

    def __init__(self, daemon: Daemon, settings: Settings, folder: Path) -> None:
        self.daemon, self.settings, self.folder = daemon, settings, folder
        self.recent: Recent[Mapping[str, Any]] = Recent()

    def seen(self, name: str) -> Mapping[str, Any] | None:
        """The image as the daemon has it, now or a moment ago; None where it does not."""
        found = self.recent.get(name) or survey.inspect_image(self.daemon, name)
        return found and self.recent.keep(name, found)

    def user(self, name: str) -> str:
        """Who its commands run as, if it says so."""
        config: Mapping[str, Any] = (self.seen(name) or {}).get("Config") or {}
        return str(config.get("User") or "")

    def was_here(self, request: ContainerRequest) -> bool:
        """True if the image was seen a moment ago, and need not be pulled."""
        return request.pull != "always" and self.recent.get(request.image) is not None

    def get_ready(self, attempt: Attempt, request: ContainerRequest) -> str | None:
        """None once the image is there; else how far the pull is. Raises Refused when it cannot be
        had.
        """
        name, policy = request.image, request.pull
        self.recent.forget(name)
        there = self.seen(name) is not None
        if policy == "never" and not there:
            raise Refused(
                f"The daemon has no image {name}.",
                "pull is never.",
                command=f"docker pull {shlex.quote(name)}",
            )
        if policy == "never" or (policy == "missing" and there):
            return None
        once = f"{attempt.job_id} {attempt.number}" if policy == "always" else ""
        pull = (
            self.folder
            / hashlib.sha256(f"{self.daemon.address.url} {name} {once}".encode()).hexdigest()[:24]
        )
        joins = want(pull, attempt.job_id)
        said = self.says(
            pull
        )  # an earlier pull's end may be long ago; its failure is for those who waited for it
        over = said.get("done") is True or (joins and "error" in said)
        found = self.pulled(pull, name, anew=over and not once)
        if found is None:
            self.forgo(attempt.job_id)
        return found

    def forgo(self, job_id: str) -> None:
        """The job waits for no image any more; a pull that nobody waits for ends."""
        for wish in self.folder.glob(f"*{WANTED}/{job_id}"):
            wish.unlink(missing_ok=True)

    def pulled(self, pull: Path, name: str, anew: bool) -> str | None:
        """As `get_ready`. Who begins the pull waits a little for it; who finds it under
        way does not.
        """
        until = 0.0
        while True:
            said: Mapping[str, Any] = {} if anew else self.says(pull)
            if said.get("error"):
                pull.unlink(missing_ok=True)
                raise self.pull_refused(name, str(said["error"]))
            if said.get("done"):
                return None
            if not is_busy(pull):
                self.begin(pull, name)
                anew, until = False, until or time.monotonic() + AT_ONCE
            if time.monotonic() > until:
                return Pulled.of(said).text(name, quiet_for(pull))
            time.sleep(0.05)

    def pull_refused(self, name: str, words: str) -> Refused:
        """The error for a pull that failed with these words. It names images of the daemon whose
        names are like this one.
        """
        refused = rules.pull_refused(name, words)
        if near_names := near_images(self.daemon, name):
            refused.add_advice(near_words(near_names))
        return refused

    def says(self, pull: Path) -> Mapping[str, Any]:
        return address.read_json(pull)

    def begin(self, pull: Path, name: str) -> None:
        make_folders(self.folder)
        sweep(self.folder)
        pull.unlink(missing_ok=True)
        where = self.daemon.address
        login, failure = self.login(name)
        refuse_errors(
            line_findings(
                where.url if is_open(where) else "",
                [f"the login at {registry_of(name)}"] if login else [],
            )
        )
        message = {
            "pull": str(pull),
            "image": name,
            "address": [where.url, where.certificates, where.verify],
            "login": login,
            "failure": failure,
        }
        argv = [
            sys.executable or "python3",
            "-c",
            BOOT,
            "\n".join([str(SOURCE), *filter(None, sys.path)]),
        ]
        environ = {
            key: value for key, value in self.settings.environ.items() if not is_secret_name(key)
        }
        process.start_apart(argv, json.dumps(message).encode(), environ)
        wait_for_lock(pull)

    def refusal(self, name: str) -> Finding | None:
        """Why its registry would not give us an image, asked without pulling it; None where it
        would, or nobody knows.

        Raises CredentialError where the registry wants the key that is not set.
        """
        login, failure = self.login(name)
        if (
            registry_of(name) == HUB and self.has_mirrors()
        ):  # they are asked in a pull, and not here
            return None
        try:
            path = f"/distribution/{quote(name, safe='/:@')}/json"
            self.daemon.request(
                "GET", path, headers=dict(login_header(login)), timeout=ASKED_SECONDS
            )
        except DaemonError as error:
            refused = self.pull_refused(
                name, f"{error.backend_words[:LONGEST_ERROR]} {failure}".strip()
            )
            if refused.code == rules.UNAUTHORIZED and registry_of(name) == NGC and not login:
                raise no_key(name, refused.what) from error
            return Finding.of_error(refused) if refused.code in rules.OF_REGISTRIES else None
        except Unreachable:  # a daemon that is away says so at the next question
            what = f"{registry_of(name)} has not answered in {ASKED_SECONDS:g} s."
            why = f"{name} has to be pulled from there."
            return warning(
                "image.registry_silent",
                what,
                why,
                "Check the registry's name, and the daemon's network.",
            )
        return None

    def has_mirrors(self) -> bool:
        config: Any = self.daemon.info().get("RegistryConfig")
        return (
            bool(cast("dict[str, Any]", config).get("Mirrors"))
            if isinstance(config, dict)
            else False
        )

    def login(self, name: str) -> tuple[Mapping[str, str], str]:
        """Who we are to the image's registry, as `find_login` tells it."""
        return find_login(registry_of(name), self.settings)


def no_key(name: str, why: str) -> CredentialError:
    what = f"{name} must be pulled from {NGC}, and NGC_KEY is not set."
    return CredentialError(
        what, why, "Export NGC_KEY, or run:", f"docker login {NGC} -u '$oauthtoken'"
    )


def want(pull: Path, job_id: str) -> bool:
    """Whether the job has not waited for this pull before."""
    wish = pull.with_suffix(WANTED) / job_id
    make_folders(wish.parent)
    joins = not wish.exists()
    wish.touch()
    return joins


def quiet_for(pull: Path) -> float:
    """Seconds since the pull has last said how far it is."""
    try:
        return max(0.0, time.time() - pull.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def is_busy(pull: Path) -> bool:
    """Whether a process is at it: it holds the lock as long as it lives."""
    try:
        with pull.with_suffix(".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def wait_for_lock(pull: Path) -> None:
    """Until the process that was started holds the lock or has already said something."""
    until = time.monotonic() + 10
    while not pull.exists() and not is_busy(pull) and time.monotonic() < until:
        time.sleep(0.02)


def sweep(folder: Path) -> None:
    """What pulls of long ago have said goes."""
    for each in folder.iterdir():
        if each.stat().st_mtime > time.time() - 86400 or is_busy(each.with_suffix("")):
            continue
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
