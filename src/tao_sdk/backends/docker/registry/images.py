"""Images: find a job's image, and pull it if the policy says so, with the registry's login.

A pull runs in a process of its own, so that it outlives the client that began it. Several jobs
share one pull.
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
from tao_sdk.backends.docker.daemon.near_images import DEFAULT_TAG, near_images
from tao_sdk.backends.docker.job.checks import line_findings, near_words
from tao_sdk.backends.docker.registry.pull import LONGEST_ERROR, WANTED, Pulled
from tao_sdk.backends.image_name import HUB_NAME, NGC, registry_of
from tao_sdk.backends.registry_login import find_login
from tao_sdk.model.errors import CredentialError, Refused, Unreachable
from tao_sdk.model.finding import Finding, refuse_errors, warning
from tao_sdk.model.plan import Attempt
from tao_sdk.model.secrets import is_secret_name
from tao_sdk.model.settings import Settings
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports import process
from tao_sdk.transports.dockerd import Daemon, DaemonError, login_header

ASKED_SECONDS = 5.0  # timeout of the check at a registry before a pull
AT_ONCE = 5.0  # seconds a submit waits: enough for a small image, and to detect a wrong name
OLD_SECONDS = 86400.0  # age after which a pull's report is removed
SOURCE = Path(__file__).parents[3]
BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split(chr(10)); from "
    "tao_sdk.backends.docker.registry.pull import main; main()"
)


class Images:
    """The images of one daemon. `folder` holds the reports of its pulls."""

    def __init__(self, daemon: Daemon, settings: Settings, folder: Path) -> None:
        self.daemon, self.settings, self.folder = daemon, settings, folder
        self.recent: Recent[Mapping[str, Any]] = Recent()

    def find_image(self, name: str) -> Mapping[str, Any] | None:
        """The daemon's answer about an image, at most a few seconds old; None if it has none."""
        image = self.recent.get(name) or survey.inspect_image(self.daemon, name)
        if not image:
            return None
        return self.recent.keep(name, image)

    def user(self, name: str) -> str:
        """The user of the image's commands; "" if the image names none."""
        config: Mapping[str, Any] = (self.find_image(name) or {}).get("Config") or {}
        return str(config.get("User") or "")

    def was_here(self, request: ContainerRequest) -> bool:
        """True if the image was seen a moment ago, and need not be pulled."""
        return request.pull != "always" and self.recent.get(request.image) is not None

    def get_ready(self, attempt: Attempt, request: ContainerRequest) -> str | None:
        """Pull the image if needed. Returns None once it is there, else the pull's progress.

        Raises Refused if the image cannot be pulled.
        """
        name = request.image
        self.recent.forget(name)
        if not self.needs_pull(request):
            return None
        # With the policy "always", each attempt has a pull of its own.
        once = f"{attempt.job_id} {attempt.number}" if request.pull == "always" else ""
        pull = self.report_path(name, once)
        joins = join_pull(pull, attempt.job_id)
        is_old = not once and is_over(address.read_json(pull), joins)
        progress = self.follow_pull(pull, name, anew=is_old)
        if progress is None:
            self.forgo(attempt.job_id)
        return progress

    def needs_pull(self, request: ContainerRequest) -> bool:
        """True if the policy asks for a pull. Raises Refused if it forbids a necessary pull."""
        is_here = self.find_image(request.image) is not None
        if request.pull == "missing":
            return not is_here
        if request.pull != "never":
            return True
        if is_here:
            return False
        raise Refused(
            f"The daemon has no image {request.image}.",
            "pull is never.",
            command=f"docker pull {shlex.quote(request.image)}",
        )

    def report_path(self, name: str, once: str) -> Path:
        """The path of a pull's report. `once`: the attempt if the pull is for it alone, else ""."""
        key = f"{self.daemon.address.url} {name} {once}"
        return self.folder / hashlib.sha256(key.encode()).hexdigest()[:24]

    def forgo(self, job_id: str) -> None:
        """Note that the job no longer waits for an image. A pull ends if no job waits for it."""
        for wish in self.folder.glob(f"*{WANTED}/{job_id}"):
            wish.unlink(missing_ok=True)

    def follow_pull(self, pull: Path, name: str, anew: bool) -> str | None:
        """Start the pull unless it runs. Returns None once it is done, else its progress.

        A caller that starts the pull waits AT_ONCE seconds for it; later callers do not wait.
        `anew`: ignore the report of an earlier pull. Raises Refused if the pull failed.
        """
        until = 0.0
        while True:
            report: Mapping[str, Any] = {} if anew else address.read_json(pull)
            if report.get("error"):
                pull.unlink(missing_ok=True)
                raise self.pull_refused(name, str(report["error"]))
            if report.get("done"):
                return None
            if not is_busy(pull):
                self.start_pull(pull, name)
                anew, until = False, until or time.monotonic() + AT_ONCE
            if time.monotonic() > until:
                return Pulled.from_report(report).describe(name, quiet_seconds(pull))
            time.sleep(0.05)

    def pull_refused(self, name: str, words: str) -> Refused:
        """The error for a pull that failed with these words.

        It suggests images of the daemon with similar names.
        """
        refused = rules.pull_refused(name, words)
        near_names = near_images(self.daemon, name)
        if name.removesuffix(DEFAULT_TAG) in near_names:
            refused.add_advice("The daemon has it: leave out `pull`.")
        elif near_names:
            refused.add_advice(near_words(near_names))
        return refused

    def start_pull(self, pull: Path, name: str) -> None:
        """Start a process that pulls the image. Raises CredentialError, Refused."""
        make_folders(self.folder)
        remove_old_reports(self.folder)
        pull.unlink(missing_ok=True)
        where = self.daemon.address
        login, failure = self.find_login(name)
        if login and is_open(where):
            refuse_errors(line_findings(where.url, [f"the login at {registry_of(name)}"]))
        message = {
            "pull": str(pull),
            "image": name,
            "address": [where.url, where.certificates, where.verify],
            "login": login,
            "failure": failure,
        }
        import_path = "\n".join([str(SOURCE), *filter(None, sys.path)])
        argv = [sys.executable or "python3", "-c", BOOT, import_path]
        known = self.settings.environ.items()
        environ = {key: value for key, value in known if not is_secret_name(key)}
        process.start_apart(argv, json.dumps(message).encode(), environ)
        wait_for_lock(pull)

    def find_refusal(self, name: str) -> Finding | None:
        """Ask the registry if we may pull an image, without pulling it.

        Returns the reason if it refuses, a warning if it does not answer in time, and None if it
        agrees or the answer is unclear. Raises CredentialError if NGC needs a key and none is set.
        """
        login, failure = self.find_login(name)
        if registry_of(name) == HUB_NAME and self.has_mirrors():
            return None  # a pull asks the mirrors, this check does not
        path = f"/distribution/{quote(name, safe='/:@')}/json"
        headers = dict(login_header(login))
        try:
            self.daemon.request("GET", path, headers=headers, timeout=ASKED_SECONDS)
        except DaemonError as error:
            words = f"{error.backend_words[:LONGEST_ERROR]} {failure}".strip()
            refused = self.pull_refused(name, words)
            if refused.code == rules.UNAUTHORIZED and registry_of(name) == NGC and not login:
                raise no_key(name, refused.what) from error
            if refused.code not in rules.OF_REGISTRIES:
                return None
            return Finding.of_error(refused)
        except Unreachable:  # if the daemon is away, its next request shows that
            return silent_registry(name)
        return None

    def has_mirrors(self) -> bool:
        """True if the daemon asks mirrors instead of Docker Hub."""
        config: Any = self.daemon.info().get("RegistryConfig")
        if not isinstance(config, dict):
            return False
        return bool(cast("dict[str, Any]", config).get("Mirrors"))

    def find_login(self, name: str) -> tuple[Mapping[str, str], str]:
        """Return (login, why there is none) for the image's registry, as registry_login does."""
        return find_login(registry_of(name), self.settings)


def no_key(name: str, why: str) -> CredentialError:
    """The error for an image of NGC if NGC_KEY is not set."""
    what = f"{name} must be pulled from {NGC}, and NGC_KEY is not set."
    return CredentialError(
        what, why, "Export NGC_KEY, or run:", f"docker login {NGC} -u '$oauthtoken'"
    )


def silent_registry(name: str) -> Finding:
    """The warning for a registry that did not answer in time."""
    return warning(
        "image.registry_silent",
        f"{registry_of(name)} has not answered in {ASKED_SECONDS:g} s.",
        f"{name} has to be pulled from there.",
        "Check the registry's name, and the daemon's network.",
    )


def is_over(report: Mapping[str, Any], joins: bool) -> bool:
    """True if the report is of an earlier pull that has ended, perhaps long ago.

    For a job that joins now, a failure is such an end too. A job that already waited must see it.
    """
    if report.get("done") is True:
        return True
    return joins and "error" in report


def join_pull(pull: Path, job_id: str) -> bool:
    """Note that the job waits for the pull. Returns True if it did not wait before."""
    wish = pull.with_suffix(WANTED) / job_id
    make_folders(wish.parent)
    joins = not wish.exists()
    wish.touch()
    return joins


def quiet_seconds(pull: Path) -> float:
    """Seconds since the pull last wrote its progress."""
    try:
        return max(0.0, time.time() - pull.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def is_busy(pull: Path) -> bool:
    """True if a process runs the pull. It holds the lock as long as it lives."""
    try:
        with pull.with_suffix(".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def wait_for_lock(pull: Path) -> None:
    """Wait until the new process holds the lock or has written a report, at most 10 seconds."""
    until = time.monotonic() + 10
    while not pull.exists() and not is_busy(pull) and time.monotonic() < until:
        time.sleep(0.02)


def remove_old_reports(folder: Path) -> None:
    """Remove the files of pulls that ended OLD_SECONDS ago."""
    for path in folder.iterdir():
        if path.stat().st_mtime > time.time() - OLD_SECONDS or is_busy(path.with_suffix("")):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
